//! `fathom-output` tells files that cannot be made again by what they begin with. It depends on none
//! of the crates that write them, so it has their signatures a second time: what these crates say
//! is read here from their sources, and a file of each must be spared.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::fs;
use std::path::{Path, PathBuf};

use fathom_lab::store::APPLICATION_ID;
use fathom_output::{Access, check_access};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All sources below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What a literal of bytes stands for.
fn bytes_of(literal: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = literal;
    while let Some(first) = rest.chars().next() {
        if let Some(escaped) = rest.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(&escaped[..2], 16).unwrap());
            rest = &escaped[2..];
        } else if let Some(after) = rest.strip_prefix("\\n") {
            bytes.push(b'\n');
            rest = after;
        } else {
            assert!(first.is_ascii() && first != '\\', "{literal}: an escape that is not known here");
            bytes.push(first as u8);
            rest = &rest[1..];
        }
    }
    bytes
}

/// The bytes of `const NAME: &[u8; 8] = b"…";` or `const NAME: [u8; 8] = *b"…";`, which is how
/// formats of files say what they begin with.
fn signature(line: &str) -> Option<Vec<u8>> {
    let (declared, value) = line.split_once(" = ")?;
    let is_signature = declared.contains("const ") && declared.ends_with("[u8; 8]");
    let literal = value.trim_start_matches('*').strip_prefix("b\"")?.strip_suffix("\";")?;
    is_signature.then(|| bytes_of(literal))
}

/// Whether, and with which words, a file is spared.
fn refusal(path: &Path) -> Option<String> {
    check_access(path, &[], Access::Public).err().map(|error| error.to_string())
}

#[test]
fn every_format_that_a_crate_writes_is_spared_by_its_signature() {
    let place = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for room in ["mmdb", "fathom-trace", "fathom-device"] {
        let mut files = Vec::new();
        sources(&crates().join(room).join("src"), &mut files);
        let before = found.len();
        for file in files {
            let text = fs::read_to_string(file).unwrap();
            found.extend(text.lines().filter_map(signature));
        }
        assert!(found.len() > before, "{room}: no signature is found any more: see signature() above");
    }
    for known in [&b"\x89FTRACE\n"[..], b"FSPOOL1\n", b"FATHDEV1", b"FATHDEV2", b"MMDBMAN1", b"MMDBSEG1"] {
        assert!(found.iter().any(|bytes| bytes == known), "{}", known.escape_ascii());
    }
    found.push(fathom_trace::file_calls::MAGIC.into());
    for (number, bytes) in found.iter().enumerate() {
        let path = place.path().join(format!("file{number}"));
        fs::write(&path, [bytes.as_slice(), b"\n and more"].concat()).unwrap();
        assert!(refusal(&path).is_some(), "{}: add it to precious.rs", bytes.escape_ascii());
    }
}

#[test]
fn results_are_known_by_the_number_that_they_have() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("r.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    database.execute_batch("CREATE TABLE t(a)").unwrap();
    drop(database);
    let refusal = refusal(&path).unwrap();
    assert!(refusal.contains("holds results of Fathom"), "{refusal}");
}

#[test]
fn files_that_are_known_by_their_names_have_these_names() {
    for (file, name) in
        [("mmdb/src/manifest.rs", "MANIFEST"), ("fathom/src/commands/cut/recordings.rs", "cut.json")]
    {
        let text = fs::read_to_string(crates().join(file)).unwrap();
        let declared = format!("&str = \"{name}\";");
        assert!(text.contains(&declared), "{file}: {name}: change it in precious.rs, too");
    }
}
