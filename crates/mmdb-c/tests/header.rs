//! The header that is kept is the one that the crate's source makes.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::Path;

#[test]
fn the_header_is_made_of_the_source() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let mut sources: Vec<_> =
        std::fs::read_dir(here.join("src")).unwrap().map(|e| e.unwrap().path()).collect();
    sources.sort();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources.into_iter().fold(builder, cbindgen::Builder::with_src);
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();

    let path = here.join("include/mmdb.h");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = made.lines().zip(kept.lines()).find(|(a, b)| a != b);
    assert!(
        made == kept,
        "include/mmdb.h is not what src makes: {differs:?}\nBLESS=1 cargo test --workspace --test header"
    );
}

/// Whatever is exported is declared.
#[test]
fn every_exported_function_is_in_the_header() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(here.join("include/mmdb.h")).unwrap();
    let mut functions = 0;
    for entry in std::fs::read_dir(here.join("src")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in text.split("#[unsafe(no_mangle)]\n").skip(1) {
            let name = part.split("fn ").nth(1).unwrap().split('(').next().unwrap();
            assert!(header.contains(&format!("{name}(")), "{name}");
            functions += 1;
        }
    }
    assert!(functions > 60, "{functions}");
}
