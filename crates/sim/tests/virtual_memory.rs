//! The driver's rules of virtual memory management, each with the code that CUDA answers.

use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{Sim, SimConfig};
use proptest::prelude::*;

const G: u64 = 2 << 20;
const D: Device = Device(0);
const ON: HandleProps = HandleProps::on(D);
const GPU: Location = Location::Device(D);

fn sim(granules: u64) -> Arc<Sim> {
    Sim::new(SimConfig { log: true, ..SimConfig::with_capacity(Bytes(granules * G)) })
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.unwrap_err().code
}

fn invalid<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.code, Code::ERROR_INVALID_VALUE, "{error}");
    error.detail
}

/// A reservation of 8 granules with a page of 2 mapped at its second granule.
fn mapped(sim: &Sim) -> (u64, Handle) {
    let base = sim.mem_address_reserve(8 * G, 0, 0).unwrap();
    let handle = sim.mem_create(2 * G, ON).unwrap();
    sim.mem_map(base + G, 2 * G, 0, handle).unwrap();
    (base, handle)
}

#[test]
fn sizes_and_addresses_off_the_granularity_are_invalid_value() {
    let sim = sim(16);
    assert_eq!(sim.mem_granularity(ON, Granularity::Minimum), Ok(G));
    invalid(sim.mem_address_reserve(G + 1, 0, 0));
    invalid(sim.mem_address_reserve(0, 0, 0));
    invalid(sim.mem_address_reserve(G, 3 * G, 0));
    invalid(sim.mem_create(G / 2, ON));
    invalid(sim.mem_create(0, ON));
    let (base, handle) = mapped(&sim);
    invalid(sim.mem_map(base + 4 * G + 512, G, 0, handle));
    invalid(sim.mem_map(base + 4 * G, G + 512, 0, handle));
    invalid(sim.mem_map(base + 4 * G, 0, 0, handle));
}

#[test]
fn mapping_over_a_mapping_is_invalid_value_and_names_it() {
    let sim = sim(16);
    let (base, handle) = mapped(&sim);
    for at in [base, base + G, base + 2 * G] {
        let detail = invalid(sim.mem_map(at, 2 * G, 0, handle));
        assert!(detail.contains(&format!("{:#x}", base + G)), "{detail}");
    }
    sim.mem_map(base + 3 * G, 2 * G, 0, handle).unwrap();
}

#[test]
fn mapping_outside_of_a_reservation_or_beyond_the_handle_is_invalid_value() {
    let sim = sim(16);
    let (base, handle) = mapped(&sim);
    let plain = sim.mem_alloc(D, 4 * G).unwrap();
    invalid(sim.mem_map(base + 7 * G, 2 * G, 0, handle));
    invalid(sim.mem_map(plain, 2 * G, 0, handle));
    invalid(sim.mem_map(0, 2 * G, 0, handle));
    invalid(sim.mem_map(base + 4 * G, 3 * G, 0, handle));
    invalid(sim.mem_map(base + 4 * G, G, G, handle));
    let lax = Sim::new(SimConfig { map_offsets: true, ..SimConfig::default() });
    let (base, handle) = mapped(&lax);
    lax.mem_map(base + 4 * G, G, G, handle).unwrap();
    invalid(lax.mem_map(base + 5 * G, G, 2 * G, handle));
}

#[test]
fn a_handle_released_while_mapped_lives_until_it_is_unmapped() {
    let sim = sim(16);
    let (base, handle) = mapped(&sim);
    sim.mem_release(handle).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 14 * G);
    invalid(sim.mem_release(handle));
    invalid(sim.mem_map(base + 4 * G, 2 * G, 0, handle));
    let again = sim.mem_retain(base + 2 * G).unwrap();
    assert_eq!(sim.mem_props(again), Ok(ON));
    sim.mem_unmap(base + G, 2 * G).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 14 * G, "retained");
    sim.mem_release(again).unwrap();
    assert_eq!(sim.mem_info(D).unwrap().0, 16 * G);
    invalid(sim.mem_props(again));
    invalid(sim.mem_retain(base + G));
}

#[test]
fn unmapping_part_of_a_mapping_or_a_range_with_holes_is_invalid_value_and_changes_nothing() {
    let sim = sim(16);
    let (base, handle) = mapped(&sim);
    sim.mem_map(base + 4 * G, 2 * G, 0, handle).unwrap();
    for (at, granules) in [(1, 1), (2, 1), (0, 3), (1, 3), (1, 5), (7, 1), (1, 0)] {
        invalid(sim.mem_unmap(base + at * G, granules * G));
    }
    sim.mem_map(base + 3 * G, G, 0, handle).unwrap();
    sim.mem_unmap(base + G, 5 * G).unwrap();
    invalid(sim.mem_get_access(base + G, GPU));
}

#[test]
fn freeing_a_mapped_reservation_or_part_of_one_is_invalid_value() {
    let sim = sim(16);
    let (base, _) = mapped(&sim);
    assert!(invalid(sim.mem_address_free(base, 8 * G)).contains("mapped"));
    sim.mem_unmap(base + G, 2 * G).unwrap();
    invalid(sim.mem_address_free(base, 4 * G));
    invalid(sim.mem_address_free(base + 4 * G, 4 * G));
    invalid(sim.mem_free(D, base));
    sim.mem_address_free(base, 8 * G).unwrap();
    invalid(sim.mem_address_free(base, 8 * G));
    assert_eq!(sim.mem_alloc(D, G), Ok(base), "one space for both kinds");
}

#[test]
fn access_is_kept_for_each_mapping_and_accessor() {
    let sim = sim(16);
    let (base, handle) = mapped(&sim);
    sim.mem_map(base + 3 * G, 2 * G, 0, handle).unwrap();
    invalid(sim.mem_set_access(base, 3 * G, GPU, Access::ReadWrite));
    invalid(sim.mem_set_access(base + G, G, GPU, Access::ReadWrite));
    invalid(sim.mem_set_access(base + G, 5 * G, GPU, Access::ReadWrite));
    assert_eq!(
        code(sim.mem_set_access(base + G, 2 * G, Location::Device(Device(1)), Access::Read)),
        Code::ERROR_INVALID_DEVICE
    );
    sim.mem_set_access(base + G, 4 * G, GPU, Access::ReadWrite).unwrap();
    sim.mem_set_access(base + 3 * G, 2 * G, GPU, Access::Read).unwrap();
    let access = |at, who| sim.mem_get_access(base + at * G, who).unwrap();
    assert_eq!([1, 2, 3].map(|at| access(at, GPU)), [Access::ReadWrite, Access::ReadWrite, Access::Read]);
    sim.mem_unmap(base + G, 2 * G).unwrap();
    sim.mem_map(base + G, 2 * G, 0, handle).unwrap();
    assert_eq!(access(1, GPU), Access::None, "a new mapping starts without access");
}

#[test]
fn the_host_is_an_accessor_of_its_own_memory_alone_whatever_node_is_named() {
    let sim = sim(16);
    let base = sim.mem_address_reserve(2 * G, 0, 0).unwrap();
    let page = sim.mem_create(G, HandleProps { location: Location::HostNuma(0), ..ON }).unwrap();
    sim.mem_map(base, G, 0, page).unwrap();
    sim.mem_set_access(base, G, Location::HostNuma(7), Access::Read).unwrap();
    sim.mem_set_access(base, G, GPU, Access::ReadWrite).unwrap();
    for host in [Location::Host, Location::HostNuma(0)] {
        assert_eq!(sim.mem_get_access(base, host), Ok(Access::Read));
    }
    sim.mem_map(base + G, G, 0, sim.mem_create(G, ON).unwrap()).unwrap();
    for host in [Location::Host, Location::HostNuma(0)] {
        assert!(invalid(sim.mem_set_access(base, 2 * G, host, Access::ReadWrite)).contains("GPU 0"));
        assert_eq!(sim.mem_get_access(base, host), Ok(Access::Read), "a refused call changes nothing");
        assert_eq!(sim.mem_get_access(base + G, host), Ok(Access::None));
    }
}

#[test]
fn use_of_an_address_without_mapping_or_access_is_an_error_that_names_it() {
    let sim = sim(16);
    let (base, _) = mapped(&sim);
    let stream = Stream::default_of(D);
    assert!(invalid(sim.memset_async(base, 0, 1, stream)).contains(&format!("{base:#x}")));
    let error = sim.memset_async(base + G, 0, 1, stream).unwrap_err();
    assert_eq!(error.code, Code::ERROR_ILLEGAL_ADDRESS);
    assert!(error.detail.contains(&format!("{:#x}", base + G)), "{error}");
    sim.mem_set_access(base + G, 2 * G, GPU, Access::Read).unwrap();
    sim.launch(stream, 1, &[(base + G, 2 * G)], &[]).unwrap();
    assert_eq!(code(sim.memset_async(base + G, 0, 1, stream)), Code::ERROR_ILLEGAL_ADDRESS, "read only");
    sim.mem_set_access(base + G, 2 * G, GPU, Access::ReadWrite).unwrap();
    sim.memset_async(base + G, 0, 2 * G, stream).unwrap();
    let past = invalid(sim.memcpy_async(base + G, base + 2 * G, G + 1, stream));
    assert!(past.contains(&format!("{:#x}", base + 3 * G)), "{past}");
}

#[test]
fn a_kernel_that_uses_an_unmapped_address_breaks_the_device_for_good() {
    let sim = sim(16);
    let stream = Stream::default_of(D);
    let error = sim.launch(stream, 1, &[(0x1234, 1)], &[]).unwrap_err();
    assert_eq!(error.code, Code::ERROR_ILLEGAL_ADDRESS);
    assert!(error.detail.contains("0x1234"), "{error}");
    assert_eq!(code(sim.mem_alloc(D, 1)), Code::ERROR_ILLEGAL_ADDRESS);
    assert_eq!(sim.take_last_error(), Some(Code::ERROR_ILLEGAL_ADDRESS));
    assert_eq!(sim.peek_last_error(), Some(Code::ERROR_ILLEGAL_ADDRESS), "a fatal error stays");
}

#[test]
fn the_size_of_the_address_space_can_be_set_and_running_out_of_it_is_out_of_memory() {
    let base = 0x2000_0000_0000;
    let sim = Sim::new(SimConfig { va_end: base + 10 * G, ..SimConfig::default() });
    assert_eq!(sim.mem_address_reserve(6 * G, 0, 0), Ok(base));
    assert_eq!(code(sim.mem_address_reserve(6 * G, 0, 0)), Code::ERROR_OUT_OF_MEMORY);
    assert_eq!(code(sim.mem_alloc(D, 5 * G)), Code::ERROR_OUT_OF_MEMORY);
    assert_eq!(sim.mem_info(D).unwrap().0, 80 << 30, "the failure gave its memory back");
    assert_eq!(sim.mem_alloc(D, 4 * G), Ok(base + 6 * G));
}

#[test]
fn physical_memory_lies_on_a_device_or_on_a_numa_node_each_with_its_own_capacity() {
    let sim = Sim::new(SimConfig { numa_nodes: vec![Bytes(2 * G)], ..SimConfig::with_capacity(Bytes(3 * G)) });
    let host = HandleProps { location: Location::HostNuma(0), ..ON };
    let page = sim.mem_create(2 * G, host).unwrap();
    assert_eq!(code(sim.mem_create(G, host)), Code::ERROR_OUT_OF_MEMORY);
    invalid(sim.mem_create(G, HandleProps { location: Location::HostNuma(1), ..ON }));
    invalid(sim.mem_create(G, HandleProps { location: Location::Host, ..ON }));
    assert_eq!(code(sim.mem_create(G, HandleProps::on(Device(1)))), Code::ERROR_INVALID_DEVICE);
    assert_eq!(
        code(sim.mem_create(G, HandleProps { handle_type: HandleType::Fabric, ..ON })),
        Code::ERROR_NOT_PERMITTED
    );
    sim.mem_create(3 * G, ON).unwrap();
    assert_eq!(code(sim.mem_create(G, ON)), Code::ERROR_OUT_OF_MEMORY);
    assert_eq!(sim.process_use(D).unwrap()[0].used, Bytes(3 * G));
    sim.mem_release(page).unwrap();
    sim.mem_create(G, host).unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    AddrFree(usize),
    Create(u64),
    Release(usize),
    Map(usize, u64, usize),
    Unmap(usize, u64, u64),
    Access(usize, u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1u64..6).prop_map(Step::Reserve),
        1 => (0usize..4).prop_map(Step::AddrFree),
        3 => (1u64..4).prop_map(Step::Create),
        2 => (0usize..6).prop_map(Step::Release),
        6 => (0usize..4, 0u64..6, 0usize..6).prop_map(|(r, at, h)| Step::Map(r, at, h)),
        3 => (0usize..4, 0u64..6, 1u64..4).prop_map(|(r, at, n)| Step::Unmap(r, at, n)),
        2 => (0usize..4, 0u64..6, 1u64..4).prop_map(|(r, at, n)| Step::Access(r, at, n)),
    ]
}

type Cell = Option<(usize, usize)>;

/// A flat list of granules for each reservation, each with the mapping that covers it.
#[derive(Default)]
struct Model {
    /// Address, and for each granule the mapping and its handle.
    reservations: Vec<(u64, Vec<Cell>)>,
    /// Granules, references, mappings.
    handles: Vec<(u64, u32, u32)>,
    mappings: usize,
}

impl Model {
    fn used(&self) -> u64 {
        self.handles.iter().filter(|handle| handle.1 + handle.2 > 0).map(|handle| handle.0).sum()
    }

    /// Whether granules `at .. at + n` are filled by mappings that lie inside; their ids.
    fn whole(&self, r: usize, at: usize, n: usize) -> Option<Vec<usize>> {
        let cells = &self.reservations[r].1;
        let inside = cells.get(at..at + n)?;
        let mut ids: Vec<usize> = inside.iter().map(|cell| cell.map(|cell| cell.0)).collect::<Option<_>>()?;
        ids.dedup();
        let total = |id| cells.iter().flatten().filter(|cell| cell.0 == id).count();
        (ids.iter().map(|&id| total(id)).sum::<usize>() == n).then_some(ids)
    }
}

proptest! {
    #[test]
    fn mappings_agree_with_a_flat_model(steps in prop::collection::vec(step(), 1..120)) {
        const CAPACITY: u64 = 12;
        let sim = sim(CAPACITY);
        let mut model = Model::default();
        let mut handles: Vec<Handle> = Vec::new();
        let mut reserved = 0;
        for step in steps {
            match step {
                Step::Reserve(n) => {
                    // Apart, so that no range reaches into the next one.
                    reserved += 1;
                    let addr = sim.mem_address_reserve(n * G, 0, 0x3000_0000_0000 + reserved * 64 * G).unwrap();
                    model.reservations.push((addr, vec![None; n as usize]));
                }
                Step::AddrFree(r) if r < model.reservations.len() => {
                    let (addr, cells) = &model.reservations[r];
                    let free = cells.iter().all(Option::is_none);
                    prop_assert_eq!(sim.mem_address_free(*addr, cells.len() as u64 * G).is_ok(), free);
                    if free {
                        model.reservations.remove(r);
                    }
                }
                Step::Create(n) => {
                    let fits = model.used() + n <= CAPACITY;
                    let created = sim.mem_create(n * G, ON);
                    prop_assert_eq!(created.is_ok(), fits);
                    if let Ok(handle) = created {
                        handles.push(handle);
                        model.handles.push((n, 1, 0));
                    }
                }
                Step::Release(h) if h < handles.len() => {
                    let ok = model.handles[h].1 > 0;
                    prop_assert_eq!(sim.mem_release(handles[h]).is_ok(), ok);
                    model.handles[h].1 -= u32::from(ok);
                }
                Step::Map(r, at, h) if r < model.reservations.len() && h < handles.len() => {
                    let (n, refs, _) = model.handles[h];
                    let (addr, cells) = &mut model.reservations[r];
                    let (from, to) = (at as usize, (at + n) as usize);
                    let ok = refs > 0 && cells.get(from..to).is_some_and(|cells| cells.iter().all(Option::is_none));
                    prop_assert_eq!(sim.mem_map(*addr + at * G, n * G, 0, handles[h]).is_ok(), ok);
                    if ok {
                        cells[from..to].fill(Some((model.mappings, h)));
                        model.mappings += 1;
                        model.handles[h].2 += 1;
                    }
                }
                Step::Unmap(r, at, n) if r < model.reservations.len() => {
                    let ids = model.whole(r, at as usize, n as usize);
                    let addr = model.reservations[r].0;
                    prop_assert_eq!(sim.mem_unmap(addr + at * G, n * G).is_ok(), ids.is_some());
                    for id in ids.into_iter().flatten() {
                        let mut handle = None;
                        for cell in &mut model.reservations[r].1 {
                            if let Some((mapping, h)) = *cell && mapping == id {
                                handle = Some(h);
                                *cell = None;
                            }
                        }
                        model.handles[handle.unwrap()].2 -= 1;
                    }
                }
                Step::Access(r, at, n) if r < model.reservations.len() => {
                    let ok = model.whole(r, at as usize, n as usize).is_some();
                    let addr = model.reservations[r].0;
                    prop_assert_eq!(sim.mem_set_access(addr + at * G, n * G, GPU, Access::ReadWrite).is_ok(), ok);
                }
                _ => {}
            }
            prop_assert_eq!(sim.mem_info(D).unwrap().0, (CAPACITY - model.used()) * G);
        }
    }
}
