//! Files whose length is damaged.
//!
//! What happened: a segment or a MANIFEST that a damaged file system, or `truncate -s 8T`, gave a
//! length of terabytes was to be read into memory of that size. Harm: `mmdb check`, opening and
//! even salvage ended with "memory allocation failed" and SIGABRT, and the whole database could not
//! be saved for one file. The mend: a length above the greatest possible one is damage like any
//! other, told with the file; memory that is not there is an error.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, Error, Options, Schema};
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

/// Sparse: takes no space.
fn stretch(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn a_length_that_no_file_of_a_database_can_have_is_told_and_aborts_nothing() {
    let p = tree::Place::new("lengths");
    let o = Options { segment_bytes: 64 << 10, ..Options::default() };
    for (i, name) in ["MANIFEST", "log-0/segment-0000000001"].into_iter().enumerate() {
        let dir = p.join(&format!("db{i}"));
        let db = Database::open(&dir, o.clone()).unwrap();
        let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
        let t = db.create_table(schema).unwrap();
        db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
        drop(t);
        db.close().unwrap();
        let file = dir.join(name);
        for len in [(1 << 32) + 1, 8 << 40] {
            stretch(&file, len);
            match Database::open(&dir, o.clone()) {
                Err(Error::Corrupt { file: named, .. }) => assert_eq!(named, file),
                other => panic!("{other:?}"),
            }
            let new = p.join(&format!("new{i}-{len}"));
            for words in [&["check"][..], &["dump"], &["log"], &["stat"], &["salvage"]] {
                let mut c = Command::new(env!("CARGO_BIN_EXE_mmdb"));
                c.arg(words[0]).arg(&dir);
                if words[0] == "salvage" {
                    c.arg(&new);
                }
                let end = c.output().unwrap();
                let said = String::from_utf8_lossy(&end.stderr).into_owned();
                let said = said + &String::from_utf8_lossy(&end.stdout);
                assert!(said.contains(&file.display().to_string()), "{words:?}: {said}");
                // Salvage saves what is in the other files, and says what is lost.
                match words[0] == "salvage" && i == 1 {
                    true => assert!(end.status.code().is_some() && said.contains("lost: "), "{end:?}"),
                    false => assert_eq!(end.status.code(), Some(1), "{words:?} {name}: {said}"),
                }
            }
        }
    }
}
