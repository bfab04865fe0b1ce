//! A database that was opened by a relative path, in a process that changes its working directory.
//!
//! What happened: paths were kept as they were given. After `chdir` the next segment, checkpoint
//! and manifest went to whatever the path meant there: commits were refused, or, where a database
//! of the same layout lay, the wrong files were named. The mend: places are made absolute when the
//! database is opened, or a backup begins.
//!
//! Alone in its process, whose working directory it changes.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, Options, Schema};
use std::path::PathBuf;
use tree::Place;

#[test]
fn a_relative_path_means_the_directory_of_the_opening_for_good() {
    let p = Place::new("relative");
    let (here, there) = (p.join("here"), p.join("there"));
    std::fs::create_dir(&here).unwrap();
    std::fs::create_dir(&there).unwrap();
    let options = |dir: PathBuf| Options {
        streams: 2,
        stream_dirs: vec![dir],
        segment_bytes: 64 << 10,
        checkpoint_log_bytes: 256 << 10,
        ..Options::default()
    };
    std::env::set_current_dir(&here).unwrap();
    let db = Database::open("db", options("log".into())).unwrap();
    std::env::set_current_dir(&there).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarBytes(900));
    let t = db.create_table(schema.primary_key(&["id"])).unwrap();
    // Several segments of each stream, by threads so that both have some.
    std::thread::scope(|s| {
        for part in 0..4i64 {
            let (db, t) = (&db, &t);
            s.spawn(move || {
                (0..100).for_each(|i| {
                    let row = [(part * 100 + i).into(), mmdb::Value::Bytes(&[7; 900])];
                    db.run(|tx| tx.insert(t, &row)).unwrap();
                })
            });
        }
    });
    db.checkpoint().unwrap();
    db.backup("copy").unwrap();
    drop(t);
    db.close().unwrap();
    std::env::set_current_dir("/").unwrap();
    let db = Database::open(here.join("db"), options(here.join("log"))).unwrap();
    assert!(db.recovery().is_closed);
    assert_eq!(db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count(), 400);
    // Nothing of it lies anywhere else.
    let names = |dir: &PathBuf| {
        let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!((names(&here), names(&there)), (vec!["db".into(), "log".into()], vec!["copy".into()]));
    let copy =
        Database::open(there.join("copy"), Options { streams: 2, ..options(there.join("copy/log-0")) });
    assert_eq!(copy.unwrap().recovery().cut, db.recovery().cut);
}
