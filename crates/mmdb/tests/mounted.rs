//! Looking at a database on a file system that is mounted read-only.
//!
//! What happened: nothing could be looked at on a read-only mount, or in files that the user may
//! only read, because every file was opened for writing, the lock too. Harm: the copy that is to be
//! examined after an accident is just what is mounted read-only. The mend: who only reads opens
//! only for reading.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::medium::{FileMedium, Medium, MediumFile};
use mmdb::{ColumnType, Database, OfflineDatabase, Options, Schema};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tree::{Place, copy};

/// A file system that is mounted read-only.
#[derive(Debug)]
struct ReadOnly;

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Medium for ReadOnly {
    fn open(&self, _: &Path) -> io::Result<Arc<dyn MediumFile>> {
        refused()
    }
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        FileMedium.open_to_read(path)
    }
    fn create(&self, _: &Path) -> io::Result<Arc<dyn MediumFile>> {
        refused()
    }
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        refused()
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        FileMedium.list(dir)
    }
    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        refused()
    }
    fn lock_existing(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        FileMedium.lock_existing(path)
    }
    fn resolve(&self, path: &Path) -> std::path::PathBuf {
        FileMedium.resolve(path)
    }
}

#[test]
fn a_database_on_a_read_only_file_system_can_be_looked_at() {
    let p = Place::new("mounted");
    let (dir, crashed) = (p.join("db"), p.join("crashed"));
    let db = Database::open(&dir, Options { segment_bytes: 64 << 10, ..Options::default() }).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
    db.checkpoint().unwrap();
    db.run(|tx| tx.insert(&t, &[2.into()])).unwrap();
    copy(&dir, &crashed);
    drop(t);
    db.close().unwrap();
    let options = Options { medium: Arc::new(ReadOnly), ..Options::default() };
    for dir in [&dir, &crashed] {
        let before = p.picture();
        let s = OfflineDatabase::load(dir, &options).unwrap();
        s.check().unwrap();
        assert_eq!(s.tables()[0].1, 2);
        drop(s);
        let mut frames = 0;
        assert!(mmdb::read_log(dir, &options, |_| frames += 1).unwrap().is_empty());
        assert_eq!(frames, 2);
        assert!(Database::open(dir, options.clone()).is_err(), "using it is another matter");
        assert_eq!(p.picture(), before);
    }
}
