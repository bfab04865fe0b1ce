//! A column that is added beside those who lock nothing.
//!
//! What happened: whether each row has room for the column was asked before the manifest stated it,
//! and rows of a table without locks came meanwhile. Harm: in the columns of today one of them was
//! too long; nobody could read it any more, and the next opening refused the database. The mend:
//! from before the question until the column is there, such a row has to wait for it.
#![allow(clippy::unwrap_used)]

#[path = "handing_on/mod.rs"]
mod handing_on;

use handing_on::hand_on;
use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{Column, ColumnType, Database, Error, Locking, Options, Schema};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A medium in memory that says, once, when a directory is to be synced, and waits for an answer.
#[derive(Debug)]
struct Asking(MemoryMedium, Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Medium for Asking {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.0.open(path)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.0.create(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let asking = self.1.lock().unwrap().take();
        if let Some((ask, answer)) = asking {
            ask.send(()).unwrap();
            // Nobody answers if the test has failed.
            let _ = answer.recv();
        }
        self.0.sync_dir(dir)
    }
    hand_on!(0);
}

#[test]
fn a_row_that_comes_without_locks_has_room_for_the_column_or_waits_for_it() {
    let medium = Arc::new(Asking(MemoryMedium::new(), Mutex::new(None)));
    let options = Options { medium: medium.clone(), background: false, ..Options::in_memory() };
    let db = Database::open("/db", options.clone()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64);
    let schema = schema.column("text", ColumnType::VarText(u16::MAX)).primary_key(&["id"]);
    let t = db.create_table(schema.locking(Locking::None)).unwrap();
    // Not the first one into its segment: that would wait for the manifest.
    db.run(|tx| tx.insert(&t, &[1.into(), "first".into()])).unwrap();
    let (long, default) = ("x".repeat(65_490), "y".repeat(100));
    std::thread::scope(|scope| {
        let ((ask, asked), (answer, answered)) = (channel(), channel());
        *medium.1.lock().unwrap() = Some((ask, answered));
        let adding = scope.spawn(|| {
            let more = Column { name: "more".into(), kind: ColumnType::VarText(100), nullable: false };
            db.add_column(&t, more, default.as_str().into()).map(drop)
        });
        asked.recv().unwrap();
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[2.into(), long.as_str().into()]).unwrap();
        let refused = tx.commit().map(drop);
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
        db.run(|tx| tx.insert(&t, &[3.into(), "short".into()])).unwrap();
        answer.send(()).unwrap();
        adding.join().unwrap().unwrap();
    });
    let refused = db.run(|tx| tx.insert(&t, &[2.into(), long.as_str().into()]));
    assert!(matches!(refused, Err(Error::RowTooLarge { .. })), "{refused:?}");
    db.verify().unwrap();
    drop((t, db));
    let db = Database::open("/db", options).unwrap();
    let t = db.table("t").unwrap();
    let row = db.get(&t, &[3.into()]).unwrap().unwrap();
    assert_eq!(row.get("more"), Some(default.as_str().into()));
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 2);
}
