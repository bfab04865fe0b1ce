//! Backups while commits go on, at the worst moment.
#![allow(clippy::unwrap_used)]

use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{ColumnType, Database, Error, Options, Sabotage, Schema, Table};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type Then = Box<dyn FnOnce() + Send>;

/// A medium that does something once, when a segment of the second stream is opened to be read.
#[derive(Clone, Default)]
struct Meanwhile {
    disk: MemoryMedium,
    then: Arc<Mutex<Option<Then>>>,
    done: Arc<AtomicBool>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Medium for Meanwhile {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.disk.open(path)
    }
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        if path.starts_with("/db/log-1")
            && path.to_string_lossy().contains("segment-")
            && let Some(then) = self.then.lock().unwrap().take()
        {
            then();
            self.done.store(true, Ordering::Relaxed);
        }
        self.disk.open(path)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.disk.create(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }
    fn resolve(&self, path: &Path) -> PathBuf {
        self.disk.resolve(path)
    }
}

fn put(db: &Database, t: &Table, ids: std::ops::Range<i64>) {
    ids.for_each(|id| db.run(|tx| tx.insert(t, &[id.into()])).unwrap());
}

/// Takes a backup of two streams; when the first one's log is copied, and before the second's is,
/// both get more commits. What opening the backup gives.
fn backup(sabotage: Sabotage) -> mmdb::Result<usize> {
    let disk = Meanwhile::default();
    let options = Options {
        medium: Arc::new(disk.clone()),
        streams: 2,
        segment_bytes: 64 << 10,
        background: false,
        ..Options::in_memory()
    };
    let db = Database::open("/db", Options { sabotage, ..options.clone() })?;
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    put(&db, &t, 0..10);
    let (also_db, also_t) = (db.clone(), t.clone());
    *disk.then.lock().unwrap() = Some(Box::new(move || put(&also_db, &also_t, 10..20)));
    db.backup("/copy")?;
    assert!(disk.done.load(Ordering::Relaxed), "the moment came");
    assert_eq!(db.begin()?.scan(&t)?.count(), 20);
    let copy = Database::open("/copy", options)?;
    copy.verify()?;
    let count = copy.begin()?.scan(&copy.table("t")?)?.count();
    Ok(count)
}

/// A later frame could state a horizon that covers frames which the copy of another stream lacks:
/// the backup could not be opened. So none behind the end of the images is copied. No schedule of
/// clients comes upon this in 5,000.
#[test]
fn a_backup_ends_where_its_images_end_on_every_stream() {
    assert_eq!(backup(Sabotage::None).unwrap(), 10);
}

#[test]
fn a_backup_with_frames_behind_its_end_is_caught() {
    let e = backup(Sabotage::BackupTakesMore).unwrap_err();
    assert!(matches!(&e, Error::Corrupt { what, .. } if what.contains("is missing")), "{e}");
}
