//! Whatever driver call fails in the whole of reserve → create → map → set access, peers let in later among it, nothing of
//! it is left (C47): one sweep for each kind of memory.

mod common;

use std::sync::Arc;

use common::*;
use millpond_driver::{Access, Location, Memory, Peers, Virtual};
use millpond_elastic::share::{Imported, Imports, SharedPlain};
use millpond_elastic::{Elastic, ElasticOptions, Error, GrowOptions, Growable, Sharing};
use millpond_sim::Sim;

fn growing() -> GrowOptions {
    GrowOptions { page: PAGE, sharing: Sharing::PosixFd, ..GrowOptions::up_to(16 * PAGE) }
}

fn elastic() -> ElasticOptions {
    ElasticOptions { front_capacity: 8 * PAGE, tail_capacity: 4 * PAGE, page: PAGE, ..ElasticOptions::default() }
}

fn by_peer(sim: &Sim, addr: u64) -> Access {
    sim.mem_get_access(addr, Location::Device(PEER)).unwrap()
}

#[test]
fn c47_a_growable_buffer_from_its_addresses_to_its_peers() {
    let whole = |made: &mut (Arc<Sim>, Option<Growable>)| {
        let mut buffer = Growable::new(made.0.clone(), D, &growing())?;
        buffer.grow_to(2 * PAGE)?;
        buffer.commit(4 * PAGE, PAGE)?;
        buffer.allow(PEER)?;
        buffer.grow_to(4 * PAGE)?;
        made.1 = Some(buffer);
        Ok::<_, Error>(())
    };
    sweep(&machine(64), |sim| (sim.clone(), None), whole, |_, made| assert!(made.1.is_none()));
}

#[test]
fn c47_an_elastic_buffer_from_its_addresses_to_its_peers() {
    let whole = |made: &mut (Arc<Sim>, Option<Elastic>)| {
        let mut buffer = Elastic::new(made.0.clone(), D, &elastic())?;
        buffer.grow_front(2 * PAGE)?;
        buffer.grow_tail(2 * PAGE)?;
        buffer.allow(PEER)?;
        buffer.grow_front(3 * PAGE)?;
        buffer.move_to(millpond_elastic::Part::Host, PAGE, PAGE, STREAM)?;
        made.1 = Some(buffer);
        Ok::<_, Error>(())
    };
    sweep(&machine(64), |sim| (sim.clone(), None), whole, |_, made| assert!(made.1.is_none()));
}

#[test]
fn c47_a_peer_that_an_elastic_buffer_does_not_get_has_no_part_of_it() {
    let setup = |sim: &Arc<Sim>| {
        let mut buffer = Elastic::new(sim.clone(), D, &elastic()).unwrap();
        buffer.grow_front(2 * PAGE).unwrap();
        buffer.grow_tail(2 * PAGE).unwrap();
        buffer
    };
    let unchanged = |sim: &Sim, buffer: &mut Elastic| {
        for page in [0, 1] {
            assert_eq!(by_peer(sim, buffer.addr() + page * PAGE), Access::None);
        }
    };
    sweep(&machine(64), setup, |buffer| buffer.allow(PEER), unchanged);
}

#[test]
fn c47_imported_pages_from_their_addresses_to_their_peers() {
    type Made = (Growable, Imports, Option<Arc<Imported>>);
    let setup = |sim: &Arc<Sim>| {
        let mut buffer = Growable::new(sim.clone(), D, &growing()).unwrap();
        buffer.grow_to(2 * PAGE).unwrap();
        (buffer, Imports::new(sim.clone(), D), None)
    };
    let whole = |(buffer, imports, imported): &mut Made| {
        let shared = buffer.share(0, 2 * PAGE)?;
        let new = imports.open(&shared.ipc_handle().encode())?;
        new.allow(PEER)?;
        *imported = Some(new);
        Ok::<_, Error>(())
    };
    sweep(&machine(64), setup, whole, |sim, (buffer, imports, _)| {
        assert_eq!(imports.open_handles(), 0);
        assert_eq!(by_peer(sim, buffer.addr()), Access::None);
    });
}

#[test]
fn c47_plain_memory_from_its_opening_to_its_peers() {
    let owner = Sim::new(machine(64));
    let shared = SharedPlain::of(&*owner, owner.mem_alloc(D, PAGE).unwrap()).unwrap();
    let whole = |(imports, imported): &mut (Imports, Option<Arc<Imported>>)| {
        let new = imports.open(&shared.handle)?;
        new.allow(PEER)?;
        *imported = Some(new);
        Ok::<_, Error>(())
    };
    let setup = |sim: &Arc<Sim>| (Imports::new(sim.clone(), D), None);
    sweep(&machine(64), setup, whole, |sim, (imports, imported)| {
        assert!((imports.open_handles(), imported.is_none()) == (0, true));
        assert_eq!(sim.can_access_peer(PEER, D), Ok(true));
    });
}
