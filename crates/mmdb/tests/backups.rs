//! Backups while commits go on, at the worst moment.
#![allow(clippy::unwrap_used)]

mod handing_on;

use handing_on::hand_on;
use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{ColumnType, Database, Error, Logging, Options, Sabotage, Schema, Table, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type Then = Box<dyn FnOnce() + Send>;

/// A medium that does something once, when a segment of the second stream is opened to be read, or
/// the images of a backup are created.
#[derive(Clone, Default)]
struct Meanwhile {
    disk: MemoryMedium,
    then: Arc<Mutex<Option<Then>>>,
    /// What is to be done at the images, and when the first of them is written.
    at_images: Arc<Mutex<Option<Then>>>,
    at_image: Arc<Mutex<Option<Then>>>,
    done: Arc<AtomicBool>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

/// The images of a backup.
struct Images(Arc<dyn MediumFile>, Arc<Mutex<Option<Then>>>);

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Images")
    }
}

impl MediumFile for Images {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let then = self.1.lock().unwrap().take();
        if let Some(then) = then {
            then();
        }
        self.0.write_at(offset, data)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.0.preallocate(len)
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
        if path.starts_with("/copy")
            && path.to_string_lossy().contains("images")
            && let Some(then) = self.at_images.lock().unwrap().take()
        {
            then();
        }
        let file = self.disk.create(path)?;
        if path == Path::new("/copy/images-a") {
            return Ok(Arc::new(Images(file, self.at_image.clone())));
        }
        Ok(file)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn resolve(&self, path: &Path) -> PathBuf {
        self.disk.resolve(path)
    }
    hand_on!(disk);
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
        // So that the log is copied, too.
        snapshot_memory: 0,
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

/// What happened: a frame that could not be read any more, in the piece of log that a backup
/// copies, was passed over. The backup reported success, and was refused by the opening that needed
/// it.
#[test]
fn a_backup_that_lacks_a_commit_is_an_error() {
    let disk = Meanwhile::default();
    let options = Options {
        medium: Arc::new(disk.clone()),
        segment_bytes: 64 << 10,
        snapshot_memory: 0,
        background: false,
        ..Options::in_memory()
    };
    let db = Database::open("/db", options.clone()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    put(&db, &t, 0..5);
    // Each commit has a block of its own, behind the header.
    let (segment, at) = ("/db/log-0/segment-0000000001", 8 * 4096);
    let flip = {
        let disk = disk.disk.clone();
        move || {
            let (file, mut byte) = (disk.open(Path::new(segment)).unwrap(), [0]);
            file.read_at(at + 40, &mut byte).unwrap();
            file.write_at(at + 40, &[byte[0] ^ 1]).unwrap();
        }
    };
    let (also_db, also_t, also_flip) = (db.clone(), t.clone(), flip.clone());
    *disk.at_image.lock().unwrap() = Some(Box::new(move || {
        put(&also_db, &also_t, 5..10);
        also_flip();
    }));
    let e = db.backup("/copy").unwrap_err();
    let Error::Corrupt { file, offset, what } = &e else { panic!("{e}") };
    assert_eq!((file.as_path(), *offset), (Path::new(segment), at), "{what}");
    assert!(what.contains("5 commits behind 5 up to 10") && what.contains("has 4"), "{what}");
    // What the images have needs no frame.
    db.backup("/later").unwrap();
    flip();
    db.backup("/whole").unwrap();
    drop((t, db));
    for copy in ["/later", "/whole"] {
        let db = Database::open(copy, options.clone()).unwrap();
        assert_eq!(db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count(), 10);
    }
}

/// What happened: a backup keeps checkpoints waiting, and commits that the log had no room for
/// meanwhile were told that no checkpoint had released any, and not why.
#[test]
fn a_full_log_says_for_what_checkpoints_wait() {
    let options = Options {
        segment_bytes: 16 << 10,
        max_log_bytes: 64 << 10,
        checkpoint_log_bytes: 0,
        background: false,
        ..Options::in_memory()
    };
    let db = Database::open("/db", options).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    let refused = (0..100i64).find_map(|id| db.run(|tx| tx.insert(&t, &[id.into()])).err()).unwrap();
    assert!(matches!(&refused, Error::LogFull { cause, .. } if cause.contains("a backup")), "{refused}");
}

/// Rows of a table: ids, and lengths of the other column.
fn rows(db: &Database, name: &str) -> Vec<(i64, usize)> {
    let snapshot = db.snapshot().unwrap();
    let rows = snapshot.scan(&db.table(name).unwrap()).unwrap().map(Result::unwrap);
    let mut rows: Vec<_> =
        rows.map(|r| (r.at(0).as_int().unwrap(), r.at(1).as_bytes().unwrap().len())).collect();
    rows.sort_unstable();
    rows
}

/// A backup had its logged tables as of its end and those that are only checkpointed as of its
/// beginning: of a transaction that wrote both in between, one half. It is of one moment now, which
/// is kept in memory while it is copied; where that is not enough, the log makes the copy whole.
#[test]
fn a_backup_is_of_one_moment_and_goes_on_with_the_log_where_memory_ends() {
    for (snapshot_memory, is_one_moment) in [(1 << 20, true), (1000, false), (0, false)] {
        let disk = Meanwhile::default();
        let options = Options {
            medium: Arc::new(disk.clone()),
            streams: 2,
            container_bytes: 4096,
            snapshot_memory,
            background: false,
            ..Options::in_memory()
        };
        let db = Database::open("/db", options.clone()).unwrap();
        let names = ["logged", "checkpointed", "volatile"];
        let logging = [Logging::Logged, Logging::Checkpointed, Logging::Volatile];
        let tables: Vec<Table> = names
            .into_iter()
            .zip(logging)
            .map(|(name, logging)| {
                let s =
                    Schema::new(name).column("id", ColumnType::Int64).column("b", ColumnType::VarBytes(900));
                db.create_table(s.ordered_primary_key(&["id"]).logging(logging)).unwrap()
            })
            .collect();
        let write = |db: &Database, tables: &[Table], ids: std::ops::Range<i64>, len: usize| {
            for id in ids {
                let row = [id.into(), Value::Bytes(&[7; 900][..len])];
                db.run(|tx| tables.iter().try_for_each(|t| tx.upsert(t, &row).map(drop))).unwrap();
            }
        };
        write(&db, &tables, 0..50, 30);
        let before = rows(&db, "logged");
        let (also, handles) = (db.clone(), tables.clone());
        *disk.at_images.lock().unwrap() = Some(Box::new(move || {
            // Changed in place, moved, deleted, and their places taken by others.
            write(&also, &handles, 0..10, 20);
            write(&also, &handles, 10..20, 700);
            for id in 20..30i64 {
                also.run(|tx| handles.iter().try_for_each(|t| tx.delete(t, &[id.into()]).map(drop))).unwrap();
            }
            write(&also, &handles, 100..160, 30);
        }));
        let done = db.backup("/copy").unwrap();
        let now = rows(&db, "logged");
        assert_ne!(before, now);
        assert_eq!(done.log_bytes == 0, is_one_moment, "{done:?}");
        assert_eq!((db.stats().snapshots, db.stats().snapshot_bytes), (0, 0));
        let copy = Database::open("/copy", options.clone()).unwrap();
        assert_eq!(copy.recovery().cut, done.gsn);
        let want = if is_one_moment { &before } else { &now };
        assert_eq!((&rows(&copy, "logged"), &rows(&copy, "checkpointed")), (want, want));
        assert!(rows(&copy, "volatile").is_empty());
        copy.verify().unwrap();
        // It goes on as a database of its own.
        let table = [copy.table("logged").unwrap()];
        write(&copy, &table, 0..200, 40);
        let end = rows(&copy, "logged");
        copy.checkpoint().unwrap();
        write(&copy, &table, 0..20, 50);
        drop((table, copy));
        let copy = Database::open("/copy", options).unwrap();
        assert_eq!(rows(&copy, "logged").len(), end.len());
        copy.verify().unwrap();
    }
}

/// Whether the place of a copy was empty was all that was asked, and nothing held it: two backups
/// that began at once, of one moment of a script that ran twice, both reported success and left a
/// directory that no opening accepted. The same for `restore` and `salvage`.
#[test]
fn a_place_has_room_for_one_copy_at_a_time() {
    let disk = Meanwhile::default();
    let options = Options { medium: Arc::new(disk.clone()), ..Options::in_memory() };
    let db = Database::open("/db", options.clone()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    put(&db, &t, 0..9);
    // Another database, closed, and one that is open.
    let others = Options { medium: Arc::new(disk.disk.clone()), ..Options::in_memory() };
    drop(Database::open("/closed", others.clone()).unwrap());
    let other = Database::open("/other", others.clone()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    *disk.at_images.lock().unwrap() = Some(Box::new(move || {
        let opened = Database::open("/copy", others.clone()).map(drop);
        let restored = mmdb::restore("/closed", "/copy", &others);
        let saved = mmdb::salvage("/closed", "/copy", &others).map(drop);
        let backed_up = other.backup("/copy").map(drop);
        for done in [opened, restored, saved, backed_up] {
            tell.send(done).unwrap();
        }
    }));
    db.backup("/copy").unwrap();
    let results: Vec<_> = told.iter().collect();
    assert_eq!(results.len(), 4);
    for done in results {
        assert!(
            matches!(&done, Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::WouldBlock),
            "{done:?}"
        );
    }
    let copy = Database::open("/copy", options.clone()).unwrap();
    assert_eq!(copy.begin().unwrap().scan(&copy.table("t").unwrap()).unwrap().count(), 9);
    drop(copy);
    // Afterwards it is a directory like any other, and not empty.
    assert!(matches!(db.backup("/copy"), Err(Error::Directory { .. })));
}
