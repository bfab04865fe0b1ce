//! A process that can open no more files for a moment, as one with many connections.
//!
//! What happened: the first flush into a segment states in a manifest that it is begun, and a
//! checkpoint syncs the directory of its images. Where neither could be opened the database was
//! poisoned, as after a failed sync: every commit was refused until it was opened again, though
//! nothing had happened to any file. The mend: what was not begun is done later, as on a full disk.
#![allow(clippy::unwrap_used)]

mod handing_on;

use handing_on::hand_on;
use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{ColumnType, Database, Durability, Error, Options, Schema};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A medium on which nothing can be opened while there are `none`.
#[derive(Clone, Debug, Default)]
struct Descriptors {
    disk: MemoryMedium,
    none: Arc<AtomicBool>,
}

impl Descriptors {
    fn take(&self) -> io::Result<()> {
        // EMFILE.
        if self.none.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(24)) } else { Ok(()) }
    }
}

impl Medium for Descriptors {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.take()?;
        self.disk.open(path)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.take()?;
        self.disk.create(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.take()?;
        self.disk.sync_dir(dir)
    }
    hand_on!(disk);
}

#[test]
fn a_moment_without_files_poisons_nothing() {
    let medium = Descriptors::default();
    let options = Options {
        medium: Arc::new(medium.clone()),
        segment_bytes: 16 << 10,
        container_bytes: 4096,
        background: false,
        ..Options::in_memory()
    };
    let db = Database::open("/db", options.clone()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    // Three flushes fill a segment.
    for id in 0..10i64 {
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[id.into()]).unwrap();
        let _lazy = tx.commit_with(Durability::Lazy).unwrap();
        medium.none.store(true, Ordering::SeqCst);
        let flushed = db.flush();
        medium.none.store(false, Ordering::SeqCst);
        flushed.unwrap();
    }
    let mut images = db.checkpoint_stepwise().unwrap();
    while images.step().unwrap() {}
    medium.none.store(true, Ordering::SeqCst);
    let e = images.finish().unwrap_err();
    medium.none.store(false, Ordering::SeqCst);
    assert!(matches!(e, Error::Io { op: "sync", .. }), "{e}");
    assert!(!db.stats().poisoned);
    db.checkpoint().unwrap();
    db.run(|tx| tx.insert(&t, &[10.into()])).unwrap();
    drop((t, db));
    let db = Database::open("/db", options).unwrap();
    assert_eq!(db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count(), 11);
}
