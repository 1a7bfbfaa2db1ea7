//! What happened: the request that failed, where in the program it came from, and when.

use millpond::PoolId;
use millpond_doctor::Diagnosis;
use millpond_doctor::diagnosis::{PoolKey, When};
use millpond_driver::Bytes;

use super::is_machinery;
use crate::words::{duration, paragraph};
use crate::{count, plain};

/// How many frames of a stack are shown.
const FRAMES: usize = 8;

pub fn text(diagnosis: &Diagnosis) -> String {
    let moment = &diagnosis.moment;
    let at = moment.entry.map_or(String::new(), |entry| {
        let after = moment.after_us.map_or(String::new(), |us| format!(", {} after its first", duration(us)));
        format!("entry {entry} of the trace's {}{after}", moment.entries)
    });
    let mut text = match (moment.when, diagnosis.verdict.request) {
        (When::Oom, request) => {
            let bytes = request.unwrap_or_default();
            let mut said = format!("A request for {} ({bytes} bytes) failed at {at}.", Bytes(bytes));
            if moment.ooms > 1 {
                said += &format!(" It is the first of {}.", count(moment.ooms, "such error", "such errors"));
            }
            said + &format!(" It asked {}.", pool(moment.pool))
        }
        (When::Peak, _) => format!("Nothing failed. This is the peak of reserved memory, at {at}."),
        (When::State, _) => "The file has no trace: it shows a state and not how it came about.".into(),
    };
    if moment.when != When::Oom && diagnosis.account.reserved > 0 {
        text += &format!(" What is free is seen from the pool that holds most: {}.", pool(moment.pool));
    }
    let mut text = paragraph(&text, 2);
    if moment.stack.is_empty() {
        if moment.when == When::Oom {
            text.push_str("  Where in the program it came from was not recorded.\n");
        }
        return text;
    }
    text.push_str("  It came from, innermost first:\n");
    let told: Vec<&String> = moment.stack.iter().filter(|line| !is_module_call(line)).collect();
    for line in told.iter().take(FRAMES) {
        text.push_str(&format!("    {}\n", plain(line)));
    }
    let more = told.len().saturating_sub(FRAMES) as u64;
    if more > 0 {
        text.push_str(&format!("    … and {}\n", count(more, "more frame", "more frames")));
    }
    text
}

/// The calls between a module and its parts say nothing.
fn is_module_call(line: &str) -> bool {
    is_machinery(line) && line.ends_with("_call_impl")
}

/// The pool of a request, in words.
pub fn pool(key: PoolKey) -> String {
    let stream = if key.stream == 0 { "the default stream".into() } else { format!("stream {:#x}", key.stream) };
    let class = key.class.name();
    match key.pool {
        PoolId::DEFAULT => format!("the default memory pool for {class} blocks of {stream}"),
        PoolId(first, second) => format!("memory pool ({first}, {second}) for {class} blocks of {stream}"),
    }
}
