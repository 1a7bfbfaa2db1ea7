fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a[1] == "zstd" {
        let plain = std::fs::read("/work/main/examples/train.pickle").unwrap();
        let bytes = std::fs::read("/tmp/train.zst").unwrap();
        let mut seen = std::collections::BTreeMap::new();
        std::panic::set_hook(Box::new(|_| {}));
        let mut x = 1u64;
        for i in 0..60000u64 {
            let mut b = bytes.clone();
            for _ in 0..1 + i % 3 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (x >> 33) as usize % b.len();
                b[at] ^= (x >> 20) as u8 | 1;
            }
            let r = std::panic::catch_unwind(|| {
                use std::io::Read;
                let mut out = Vec::new();
                let r = ruzstd::decoding::StreamingDecoder::new(&b[..]).map(|d| d.take(64 * 60000).read_to_end(&mut out).is_ok());
                matches!(r, Ok(true))
            });
            *seen.entry(match r { Ok(t) => format!("ok {t}"), Err(e) => format!("panic {:?}", e.downcast_ref::<String>().map(|s| s.chars().take(60).collect::<String>()).or(e.downcast_ref::<&str>().map(|s| s.to_string()))) }).or_insert(0) += 1;
        }
        println!("{seen:?} {}", plain.len());
        return;
    }
    let s = millpond_snapshot::Snapshot::open(&a[1]).unwrap();
    let mut f = Vec::new();
    s.write_pickle(&mut f).unwrap();
    let t = millpond_snapshot::Snapshot::from_bytes(&f).unwrap();
    println!("{}", s == t);
    println!("{} {} {}", s.segments == t.segments, s.device_traces == t.device_traces, s.settings == t.settings);
    for e in [&s, &t] {
        println!("{:?}", e.segments);
        for (k, v) in &e.extra {
            println!("{} {}", e.values.to_json(*k), e.values.to_json(*v));
        }
    }
}
