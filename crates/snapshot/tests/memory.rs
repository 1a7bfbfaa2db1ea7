//! Memory stays below 16 times the file's size and 64 MiB, whatever the file says.
//!
//! One test in a binary of its own: the kernel counts the peak of the whole process.

use millpond_snapshot::Snapshot;

/// A figure of this process's memory in bytes; `None` where there is no /proc.
fn memory(figure: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(figure))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[test]
fn memory_is_bounded_by_16_times_the_file_and_64_mib() {
    let size = 8 << 20;
    let entry = b"}(\x8c\x06action\x94\x8c\x05alloc\x94\x8c\x04addr\x94K\x05\x8c\x04size\x94K\x08\
        \x8c\x06stream\x94K\x00u\x94";
    let fill = |head: &[u8], unit: &[u8], tail: &[u8]| [head, unit.repeat(size / unit.len()).as_slice(), tail].concat();
    let traces = b"}\x8c\x0ddevice_traces](](";
    let files = [
        ("values", fill(b"](", b"N", b"e.")),
        ("marks", fill(b"", b"(", b".")),
        ("lists", fill(b"](", b"]", b"e.")),
        ("memo", fill(b"]", b"\x94", b".")),
        ("a far memo entry", b"Nr\xff\xff\xff\xff.".repeat(1 << 16)),
        ("tuples", fill(b"](", b")\x85", b"e.")),
        ("shared segments", fill(b"}\x940](", b"h\x00", b"e.")),
        ("texts", fill(b"}(\x8c\x08segments]\x8c\x01x](", b"\x8c\x01a", b"eu.")),
        ("nested unknown", fill(b"}(\x8c\x08segments]\x8c\x01x]", b"]a", b"u.")),
        ("unknown lists", fill(b"}(\x8c\x08segments]\x8c\x01x](", b"](K\x01K\x02e", b"eu.")),
        (
            "unknown integers",
            [
                b"}(\x8c\x08segments]\x8c\x01x](".to_vec(),
                (0..size as u32 / 5).flat_map(|value| [&b"J"[..], &value.to_le_bytes()].concat()).collect(),
                b"eu.".to_vec(),
            ]
            .concat(),
        ),
        ("shared entries", fill(&[traces.as_slice(), entry].concat(), b"h\x05", b"ees.")),
        (
            "small entries",
            fill(&[traces.as_slice(), entry].concat(), b"}(h\x00h\x01h\x02K\x01h\x03K\x01h\x04K\x01u", b"ees."),
        ),
    ];
    for (name, file) in files {
        // Makes the peak what is held now.
        let reset = std::fs::write("/proc/self/clear_refs", "5");
        let (Ok(()), Some(before)) = (reset, memory("VmRSS:")) else {
            eprintln!("skipped: the peak cannot be reset here");
            return;
        };
        let loaded = Snapshot::from_bytes(&file);
        let grown = memory("VmHWM:").unwrap_or_default().saturating_sub(before);
        let bound = 16 * file.len() + (64 << 20);
        let outcome = match &loaded {
            Ok(_) => "read".into(),
            Err(error) => error.to_string(),
        };
        println!("{name}: {} MiB more, of {} MiB; {outcome}", grown >> 20, bound >> 20);
        assert!(grown <= bound, "{name}: {grown} bytes more, of {bound}");
    }
}
