//! When the library does not start: beside a real driver, and for anybody but `millpond sim`.

use std::path::Path;

use millpond_cuda::trace_of_driver;
use millpond_sim::MARK;

/// Why the library does not start, as a sentence; `None` if it does.
pub(crate) fn reason() -> Option<String> {
    if std::env::var_os(MARK).is_none_or(|mark| mark != "1") {
        return Some("it is only for programs that `millpond sim` starts".to_owned());
    }
    let trace = trace_of_driver(Path::new("/"))?;
    Some(format!("this machine has a real driver: {} exists", trace.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_mark_it_does_not_start() {
        assert!(std::env::var_os(MARK).is_none(), "tests run without it");
        assert!(reason().unwrap().contains("millpond sim"));
    }
}
