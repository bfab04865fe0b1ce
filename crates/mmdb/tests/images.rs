//! Files of images that somebody removes or cuts while the database is open.
//!
//! What happened: a checkpoint copies only what has changed since the last one of its side. The
//! side that the manifest does not name looks superfluous, and who removed it, as an opening on a
//! full disk does, got another file with the few containers that had changed. The manifest named
//! all of them, and the log was released: the next opening refused the database, and what the log
//! had held was gone. The mend: an image is believed to be in the file only as far as that goes,
//! and a file without a name is not published.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, Error, Options, Schema, Table};
use std::path::Path;
use tree::Place;

const ROWS: i64 = 500;

fn options() -> Options {
    Options { segment_bytes: 64 << 10, container_bytes: 4096, checkpoint_log_bytes: 0, ..Options::default() }
}

fn put(db: &Database, t: &Table, ids: std::ops::Range<i64>) {
    db.run(|tx| ids.clone().try_for_each(|id| tx.upsert(t, &[id.into()]).map(drop))).unwrap();
}

/// A database of several containers, with images of both sides: the manifest names `images-b`.
fn make(dir: &Path) -> (Database, Table) {
    let db = Database::open(dir, options()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    put(&db, &t, 0..ROWS);
    assert!(db.checkpoint().unwrap().containers > 3);
    db.checkpoint().unwrap();
    (db, t)
}

fn count(dir: &Path) -> usize {
    let db = Database::open(dir, options()).unwrap();
    db.verify().unwrap();
    db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count()
}

#[test]
fn images_that_were_removed_or_cut_are_copied_again() {
    for length in [None, Some(0), Some(4096), Some(5000)] {
        let p = Place::new("images");
        let (dir, file) = (p.join("db"), p.join("db/images-a"));
        let (db, t) = make(&dir);
        let all = db.stats().tables[0].containers;
        match length {
            None => std::fs::remove_file(&file).unwrap(),
            Some(length) => {
                std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length).unwrap();
            }
        }
        put(&db, &t, 0..1);
        let copied = db.checkpoint().unwrap().containers;
        assert!(copied + length.unwrap_or(0) / 4096 >= all, "{copied} of {all}, cut to {length:?}");
        drop((t, db));
        assert_eq!(count(&dir), ROWS as usize, "{length:?}");
    }
}

#[test]
fn images_that_are_removed_under_a_checkpoint_are_not_published() {
    let p = Place::new("images-under");
    let dir = p.join("db");
    let (db, t) = make(&dir);
    put(&db, &t, 0..ROWS);
    let mut images = db.checkpoint_stepwise().unwrap();
    assert!(images.step().unwrap());
    std::fs::remove_file(dir.join("images-a")).unwrap();
    let e = images.finish().unwrap_err();
    assert!(matches!(&e, Error::Directory { reason, .. } if reason.contains("images-a")), "{e}");
    // The next one makes the file again, and has everything.
    db.checkpoint().unwrap();
    drop((t, db));
    assert_eq!(count(&dir), ROWS as usize);
}
