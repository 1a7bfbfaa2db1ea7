//! The checked-in header says what the library has.

use std::path::Path;

#[test]
fn the_header_is_made_from_the_sources() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml is right");
    let made = cbindgen::Builder::new().with_crate(here).with_config(config).generate().expect("a header");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("text");
    let path = here.join("include/millpond.h");
    if std::env::var_os("MILLPOND_UPDATE").is_some() {
        std::fs::write(&path, &text).expect("the header can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "include/millpond.h is not what the sources say; MILLPOND_UPDATE=1 writes it anew");
}
