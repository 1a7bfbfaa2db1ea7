//! Six questions that everybody asks of memory that ran out, each answered by name.

use millpond::PoolId;
use millpond_doctor::Diagnosis;
use millpond_doctor::diagnosis::{Grown, Kind, PoolShare, Where};
use millpond_driver::Bytes;

use super::happened::pool;
use crate::words::paragraph;
use crate::{Paint, count, plain};

/// How many pools are named.
const POOLS: usize = 4;

pub fn text(diagnosis: &Diagnosis, paint: Paint) -> String {
    let answers = [
        ("two ledgers", ledgers(diagnosis)),
        ("which kind", kind(diagnosis)),
        ("settings", settings(diagnosis)),
        ("streams and pools", pools(diagnosis)),
        ("outside the allocator", outside(diagnosis)),
        ("managed memory", managed(diagnosis)),
    ];
    let mut text = String::new();
    for (name, answer) in answers {
        text += &format!("  {}\n{}", paint.strong(name), paragraph(&answer, 4));
    }
    text
}

fn ledgers(diagnosis: &Diagnosis) -> String {
    let account = &diagnosis.account;
    let (reserved, allocated) = (Bytes(account.reserved), Bytes(account.allocated));
    let mut said = format!(
        "The program's ledger has {allocated} in live blocks; the driver's has {reserved} handed over to this allocator. {} lie \
         between them.",
        Bytes(account.reserved.saturating_sub(account.allocated))
    );
    if let Some(free) = account.device_free {
        said += &format!(" The driver had {} left.", Bytes(free));
    }
    said
}

fn kind(diagnosis: &Diagnosis) -> String {
    match (diagnosis.verdict.kind, diagnosis.verdict.cause) {
        (Kind::None, _) => "Nothing failed.",
        (Kind::TrueShortage, _) => "No fragmentation: a true shortage.",
        (Kind::Fragmentation, Where::Pinned) => "② Pinned inside segments.",
        (Kind::Fragmentation, Where::OtherPool) => "③ In another pool, or pending.",
        (Kind::Fragmentation, _) => "① Free in other segments.",
    }
    .into()
}

fn settings(diagnosis: &Diagnosis) -> String {
    let checks = &diagnosis.checks;
    let mut said = match checks.conf.as_str() {
        "" => "PyTorch's defaults.".to_owned(),
        conf => format!("{}.", plain(conf)),
    };
    for notice in &checks.conf_notices {
        said += &format!(" {}", plain(notice));
    }
    said
}

fn pools(diagnosis: &Diagnosis) -> String {
    let pools = &diagnosis.checks.pools;
    let of = |share: &PoolShare| {
        let (reserved, free) = (Bytes(share.reserved), Bytes(share.free));
        format!("{}: {reserved}, {free} of it free", pool(share.pool))
    };
    let mut said = match pools.len() {
        0 => "No pool holds anything.".to_owned(),
        n => format!("{}.", count(n as u64, "pool", "pools")),
    };
    for share in pools.iter().take(POOLS) {
        said += &format!("\n- {}", of(share));
    }
    if pools.len() > POOLS {
        said += &format!("\n- … and {} more", pools.len() - POOLS);
    }
    for grown in &diagnosis.checks.grown {
        said += &format!("\n{}", grew(grown));
    }
    if diagnosis.checks.grown.is_empty() && pools.iter().any(|share| share.pool.pool != PoolId::DEFAULT) {
        said += "\nNo private pool got memory while the trace was recorded.";
    }
    said
}

fn grew(grown: &Grown) -> String {
    let (first, second) = grown.pool;
    let times = count(grown.times, "time", "times");
    let (pool, bytes) = (format!("Memory pool ({first}, {second})"), Bytes(grown.bytes));
    match grown.in_capture {
        true => format!(
            "{pool} is a graph's and got memory {times}, {bytes}, inside of a capture: there was no warm-up into it."
        ),
        false => {
            format!("{pool} got memory {times}, {bytes}; if graphs are captured into it, there was no warm-up into it.")
        }
    }
}

fn outside(diagnosis: &Diagnosis) -> String {
    let account = &diagnosis.account;
    match (account.outside, account.device_free) {
        (Some(outside), _) => {
            format!("{} of the device are held by others: contexts, libraries, other processes.", Bytes(outside))
        }
        (None, Some(_)) => {
            "Not known: a snapshot does not say how much memory the device has. With --capacity it follows; the \
                            text of PyTorch's error states it, too."
                .into()
        }
        (None, None) => "Not known: a snapshot says what was free on the device only at an out-of-memory error.".into(),
    }
}

fn managed(diagnosis: &Diagnosis) -> String {
    match (diagnosis.checks.beyond_device, diagnosis.checks.is_total_known) {
        (0, true) => "No sign of it: no more is reserved than the device has.".into(),
        (0, false) => {
            "The allocator makes none by itself, and a snapshot does not show any. With --capacity a sum beyond what \
                       the device has would show."
                .into()
        }
        (bytes, _) => format!(
            "{} more are reserved than the device has: managed memory, or a driver that moves memory to the host.",
            Bytes(bytes)
        ),
    }
}
