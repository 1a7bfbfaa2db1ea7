//! What is left of a device for a cache.

use std::fmt::Write;

use millpond_doctor::{CachePlan, LargestCache, PoolWater};
use millpond_driver::Bytes;

use crate::grid::Grid;
use crate::words::paragraph;
use crate::{Document, Paint, count, plain};

/// `{"schema", "total", "others", "requests", "conf", "fits", "peak_reserved", "pools", "left", "cache"}`.
pub fn json(plan: &CachePlan) -> String {
    Document::new(plan).line()
}

/// The account, what the pools take, and the largest cache.
pub fn text(plan: &CachePlan, paint: Paint) -> String {
    let conf = if plan.conf.is_empty() { "the default settings".into() } else { plain(&plan.conf) };
    let requests = count(plan.requests, "request", "requests");
    let mut text = format!("{requests} on {} under {conf}\n\n", Bytes(plan.total));
    let mut grid = Grid::new(&[1, 2]);
    let mut row = |what: &str, bytes: u64, about: &str| {
        grid.row(&[what, &Bytes(bytes).to_string(), &bytes.to_string(), about]);
    };
    row("total", plan.total, "the device's memory");
    row("others", plan.others, "contexts, communication, other processes: as --others says");
    for pool in &plan.pools {
        match pool.is_default() {
            true => row("never freed", pool.kept, "in the default pool: weights and whatever else stays"),
            false => row(&name(pool), pool.high_water, "the most that it held"),
        }
    }
    row("left", plan.left, "for the cache and for what comes and goes");
    if let Some(LargestCache { bytes, .. }) = plan.cache {
        row("largest cache", bytes, "with which every request is served");
        row("beside it", plan.left.saturating_sub(bytes), "for what comes and goes, and what fragmentation keeps");
    }
    // Writing to a String cannot fail, here and below.
    let _ = write!(text, "{grid}\n{}\n{}", paint.strong("what each pool takes without a cache"), pools(&plan.pools));
    let _ = match plan.cache {
        None => writeln!(text, "\n{}", paint.bad("the requests are not served even without a cache")),
        Some(cache) => {
            text.push('\n');
            text.push_str(&paragraph(&method(cache), 2));
            Ok(())
        }
    };
    text
}

fn method(cache: LargestCache) -> String {
    let mut text = format!(
        "The largest cache was found by replay, in steps of {}: it is there from the first request to the last, in memory of \
         its own.",
        Bytes(cache.step)
    );
    if let Some(fails) = cache.fails_below {
        let _ = write!(
            text,
            " A smaller one, of {}, fails all the same: a full device is cleared, and what follows may lie better.",
            Bytes(fails)
        );
    }
    text
}

fn pools(pools: &[PoolWater]) -> Grid {
    let mut grid = Grid::new(&[1, 2]).head(&["", "most held", "never freed"]);
    for pool in pools {
        grid.row(&[name(pool), Bytes(pool.high_water).to_string(), Bytes(pool.kept).to_string()]);
    }
    grid
}

fn name(pool: &PoolWater) -> String {
    match pool.pool {
        [0, 0] => "default pool".into(),
        [id, 0] => format!("graphs' pool {id}"),
        [0, id] => format!("user's pool {id}"),
        [a, b] => format!("pool {a}.{b}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> CachePlan {
        let pool =
            |pool, high_water: u64, kept: u64| PoolWater { pool, high_water: high_water << 20, kept: kept << 20 };
        CachePlan {
            total: 1000 << 20,
            others: 40 << 20,
            requests: 7,
            conf: String::new(),
            fits: true,
            peak_reserved: 200 << 20,
            pools: vec![pool([0, 0], 160, 100), pool([3, 0], 60, 0)],
            left: 800 << 20,
            cache: Some(LargestCache { bytes: 740 << 20, fails_below: Some(700 << 20), step: 2 << 20 }),
        }
    }

    #[test]
    fn people_see_the_account_the_pools_and_the_cache() {
        let text = text(&plan(), Paint::OFF);
        for words in [
            "7 requests on 1000MiB",
            "740MiB",
            "60MiB",
            "graphs' pool 3",
            "700MiB, fails all the same",
            "steps of 2MiB",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|line| line.trim_end() == line), "{text:?}");
        let none = super::text(&CachePlan { fits: false, cache: None, ..plan() }, Paint::OFF);
        assert!(none.ends_with("not served even without a cache\n"), "{none}");
    }

    #[test]
    fn programs_see_bytes() {
        let json: serde_json::Value = serde_json::from_str(&json(&plan())).unwrap();
        assert_eq!((&json["schema"], &json["cache"]["bytes"]), (&1.into(), &(740u64 << 20).into()));
        assert_eq!(json["pools"][1], serde_json::json!({ "pool": [3, 0], "high_water": 60 << 20, "kept": 0 }));
    }
}
