//! `millpond plan`: how large a cache may be beside recorded requests.

mod common;

use common::{assert_fails, file, json, ok, run};

const MIB: u64 = 1 << 20;

#[test]
fn the_largest_cache_survives_a_replay_and_one_step_more_does_not() {
    for conf in ["", "expandable_segments:True"] {
        let arguments = ["plan", "examples/oom.pickle", "--capacity", "4GiB", "--others", "300MiB", "--step", "2MiB"];
        let plan = json(&run(&[&arguments[..], &["--conf", conf, "--json"]].concat()));
        let cache = plan["cache"]["bytes"].as_u64().unwrap();
        assert!(cache > 0 && cache < plan["left"].as_u64().unwrap(), "{plan}");
        let replay = |cache: u64| {
            let others = (300 * MIB + cache).to_string();
            let fits = ["--conf", conf, "--capacity", "4GiB", "--others", &others, "--assert", "ooms == 0"];
            run(&[&["replay", "examples/oom.pickle"], &fits[..]].concat()).status
        };
        assert_eq!((replay(cache), replay(cache + 2 * MIB)), (0, 1), "{conf}: {plan}");
    }
}

#[test]
fn the_account_adds_up_pool_by_pool() {
    // Weights in the default pool, and a graph's pool that holds 64 MiB at most.
    let script = "{\"op\":\"alloc\",\"id\":0,\"size\":104857600,\"stream\":0}\n\
        {\"op\":\"capture_begin\",\"graph\":0,\"stream\":1}\n\
        {\"op\":\"alloc\",\"id\":1,\"size\":67108864,\"stream\":1}\n\
        {\"op\":\"free\",\"id\":1}\n\
        {\"op\":\"capture_end\",\"graph\":0}\n";
    let (_folder, path) = file("graph.jsonl", script.as_bytes());
    let plan = json(&run(&["plan", &path, "--capacity", "1GiB", "--others", "24MiB", "--json"]));
    let pools = plan["pools"].as_array().unwrap();
    assert_eq!(pools.len(), 2, "{plan}");
    assert_eq!((&pools[0]["pool"], &pools[0]["kept"]), (&serde_json::json!([0, 0]), &(100 * MIB).into()));
    assert_eq!((&pools[1]["high_water"], &pools[1]["kept"]), (&(64 * MIB).into(), &0.into()));
    assert_eq!(plan["left"], (1024 - 24 - 100 - 64) * MIB);
    // Nothing else comes and goes: the cache takes all that is left, in whole steps.
    assert_eq!(plan["cache"]["bytes"], (1024 - 24 - 100 - 64) / 64 * 64 * MIB);
    assert!(ok(&["plan", &path]).contains("graphs' pool"));
}

#[test]
fn no_is_an_answer_and_nonsense_is_not() {
    let (_folder, path) = file("big.jsonl", b"{\"op\":\"alloc\",\"id\":0,\"size\":209715200}\n");
    let too_small = run(&["plan", &path, "--capacity", "100MiB"]);
    assert_eq!(too_small.status, 1, "{}", too_small.stderr);
    assert!(too_small.stdout.contains("not served even without a cache"), "{}", too_small.stdout);
    assert_fails(&run(&["plan", &path, "--conf", "no_such_key:1"]), "MP0013", "no_such_key");
    assert_fails(&run(&["plan", &path, "--step", "0"]), "MP0020", "--step");
    assert_fails(&run(&["plan", "nope.jsonl"]), "MP0002", "nope.jsonl");
}
