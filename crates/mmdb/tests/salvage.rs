//! Salvage of what a disk cannot read, or has not any more.
#![allow(clippy::unwrap_used)]

mod handing_on;

use handing_on::hand_on;
use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{ColumnType, Database, Error, Options, Schema, read_log, salvage};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const SEGMENT: &str = "/db/log-0/segment-0000000001";
const BLOCK: u64 = 4096;

/// In the place of a block: the first segment says that it is so many blocks long.
const LONG: u64 = 1 << 40;

/// A disk that cannot read one block of the first segment.
#[derive(Debug)]
struct BadBlock(MemoryMedium, u64);

#[derive(Debug)]
struct BadFile(Arc<dyn MediumFile>, u64);

impl Medium for BadBlock {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.0.open(path)
    }
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let file = self.0.open(path)?;
        if path == Path::new(SEGMENT) {
            return Ok(Arc::new(BadFile(file, self.1)));
        }
        Ok(file)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.0.create(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    hand_on!(0);
}

impl MediumFile for BadFile {
    fn len(&self) -> io::Result<u64> {
        if self.1 == LONG { Ok(LONG * BLOCK) } else { self.0.len() }
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let (bad, end) = (self.1 * BLOCK, offset + buf.len() as u64);
        // EIO, as of a sector that has gone bad.
        if offset < bad + BLOCK && bad < end {
            Err(io::Error::from_raw_os_error(5))
        } else {
            self.0.read_at(offset, buf)
        }
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.0.preallocate(len)
    }
}

fn options(medium: Arc<dyn Medium>) -> Options {
    Options {
        medium,
        background: false,
        segment_bytes: 32 << 10,
        container_bytes: 4096,
        ..Options::in_memory()
    }
}

/// Commits a row each, of which each has a block of the log.
fn put(db: &Database, ids: Range<i64>) {
    let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table_if_missing(schema).unwrap();
    ids.for_each(|id| db.run(|tx| tx.insert(&t, &[id.into()])).unwrap());
}

/// What happened: a block that the disk could not read was an error of the whole salvage, which
/// saved nothing, though that is what disks do that go bad, and the log behind it was not shown.
/// Now it costs what is in it.
#[test]
fn a_block_that_cannot_be_read_costs_what_is_in_it() {
    let disk = MemoryMedium::new();
    let db = Database::open("/db", options(Arc::new(disk.clone()))).unwrap();
    put(&db, 1..6);
    drop(db);
    // The header's, the third commit's, and one that nothing has been written to.
    for (block, saved) in [(0, 5), (3, 2), (7, 5)] {
        let bad = options(Arc::new(BadBlock(disk.clone(), block)));
        let refused = Database::open("/db", bad.clone()).unwrap_err();
        assert!(matches!(refused, Error::Io { op: "read", .. }), "{refused}");
        let to = format!("/saved-{block}");
        let report = salvage("/db", &to, &bad).unwrap();
        assert_eq!((report.cut, report.rows), (saved, saved), "{:?}", report.problems);
        let words = format!("{SEGMENT} cannot be read at offset {}", block * BLOCK);
        assert!(report.problems.contains(&words), "{:?}", report.problems);
        assert_eq!(report.problems.len() == 1, saved == 5, "{:?}", report.problems);
        let mut commits = Vec::new();
        let damaged = read_log("/db", &bad, |frame| commits.push(frame.gsn)).unwrap();
        assert_eq!(commits, (1..6).filter(|gsn| *gsn != block).collect::<Vec<_>>());
        assert!(damaged.contains(&words), "{damaged:?}");
        Database::open(&to, bad).unwrap().verify().unwrap();
    }
}

/// What happened: one segment that was longer than any can be, or could not be opened, was an error
/// of the whole log, and nothing of the others was shown, though a salvage saved them.
#[test]
fn a_segment_that_is_none_costs_no_other() {
    let disk = MemoryMedium::new();
    let db = Database::open("/db", options(Arc::new(disk.clone()))).unwrap();
    // Seven are in the first one.
    put(&db, 1..10);
    drop(db);
    let bad = options(Arc::new(BadBlock(disk, LONG)));
    let mut commits = Vec::new();
    let damaged = read_log("/db", &bad, |frame| commits.push(frame.gsn)).unwrap();
    assert_eq!(commits, [8, 9], "{damaged:?}");
    assert!(damaged.len() == 1 && damaged[0].contains("no segment has"), "{damaged:?}");
}

/// Each slot whose image was lost would be a problem of its own: a list as large as the table.
#[test]
fn many_slots_that_are_lost_are_counted() {
    let disk = MemoryMedium::new();
    let options = options(Arc::new(disk.clone()));
    let db = Database::open("/db", options.clone()).unwrap();
    put(&db, 0..100);
    db.checkpoint().unwrap();
    let t = db.table("t").unwrap();
    (0..100i64).for_each(|id| assert!(db.run(|tx| tx.delete(&t, &[id.into()])).unwrap()));
    drop((t, db));
    disk.remove("/db/images-a".as_ref()).unwrap();
    let report = salvage("/db", "/saved", &options).unwrap();
    assert_eq!((report.cut, report.rows), (200, 0), "{:?}", report.problems);
    let named = report.problems.iter().filter(|p| p.contains("changes lead from version")).count();
    let number = |p: &String| p.split_once(" more slots")?.0.rsplit(' ').next()?.parse::<usize>().ok();
    let counted: usize = report.problems.iter().filter_map(number).sum();
    assert_eq!(named + counted, 100, "{:?}", report.problems);
    assert!(counted > 0, "{:?}", report.problems);
}

/// What happened: without its images a database could not be salvaged at all.
#[test]
fn without_the_images_what_the_log_has_is_saved() {
    let disk = MemoryMedium::new();
    let options = options(Arc::new(disk.clone()));
    let db = Database::open("/db", options.clone()).unwrap();
    put(&db, 1..4);
    db.checkpoint().unwrap();
    put(&db, 4..9);
    drop(db);
    disk.remove("/db/images-a".as_ref()).unwrap();
    assert!(Database::open("/db", options.clone()).is_err());
    let report = salvage("/db", "/saved", &options).unwrap();
    assert_eq!((report.cut, report.rows), (8, 5), "{:?}", report.problems);
    assert!(report.problems[0].contains("/db/images-a"), "{:?}", report.problems);
    let db = Database::open("/saved", options).unwrap();
    db.verify().unwrap();
    let t = db.table("t").unwrap();
    let mut ids: Vec<_> =
        db.begin().unwrap().scan(&t).unwrap().map(|row| row.unwrap().at(0).as_int()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (4..9).map(Some).collect::<Vec<_>>());
}
