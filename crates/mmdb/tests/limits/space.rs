//! A disk without room for another segment: nothing is written on it in vain, and what is refused
//! goes on once there is room.
//!
//! What happened: the preparer tried again every 20 ms to write a segment that did not fit, though
//! another one was ready and nobody committed: an idle database on a nearly full disk wrote about
//! 180 MB/s for as long as it was open, and each attempt took the last room from everybody else on
//! that disk. The mend: a segment's room is taken before it is written, an attempt that fails gives
//! it back, no attempt is made but for a commit that needs a segment or after the use of one that
//! was ready, and pauses between attempts grow.

use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{ColumnType, Database, Error, Options, Schema, Table, Value};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A disk of so many bytes, and what was done with it.
#[derive(Debug, Default)]
struct Disk {
    room: AtomicU64,
    used: AtomicU64,
    written: AtomicU64,
    /// Attempts to make a file larger that failed.
    refused: AtomicU64,
    /// Whether room can be taken before it is written.
    reserves: AtomicBool,
    /// Whether it tells how much room is left.
    tells: AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct Small {
    medium: MemoryMedium,
    disk: Arc<Disk>,
}

#[derive(Debug)]
struct File {
    file: Arc<dyn MediumFile>,
    disk: Arc<Disk>,
}

impl Disk {
    fn free(&self, bytes: u64) {
        self.used.fetch_sub(bytes, SeqCst);
    }

    /// Takes as much of `bytes` as there is room for; fails if that is not all.
    fn take(&self, bytes: u64) -> (u64, io::Result<()>) {
        let n = bytes.min(self.room.load(SeqCst).saturating_sub(self.used.load(SeqCst)));
        self.used.fetch_add(n, SeqCst);
        if n == bytes {
            return (n, Ok(()));
        }
        self.refused.fetch_add(1, SeqCst);
        (n, Err(io::ErrorKind::StorageFull.into()))
    }
}

impl Small {
    fn new(room: u64) -> Small {
        let small = Small::default();
        small.disk.room.store(room, SeqCst);
        small.disk.reserves.store(true, SeqCst);
        small
    }

    fn file(&self, file: io::Result<Arc<dyn MediumFile>>) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(File { file: file?, disk: self.disk.clone() }))
    }

    fn gone(&self, path: &Path) -> io::Result<()> {
        if let Ok(file) = self.medium.open(path) {
            self.disk.free(file.len()?);
        }
        Ok(())
    }
}

impl Medium for Small {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.file(self.medium.open(path))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.gone(path)?;
        self.file(self.medium.create(path))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.medium.create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.gone(to)?;
        self.medium.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.gone(path)?;
        self.medium.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.medium.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.medium.list(dir)
    }
    fn room(&self, _: &Path) -> io::Result<Option<u64>> {
        let left = self.disk.room.load(SeqCst).saturating_sub(self.disk.used.load(SeqCst));
        Ok(self.disk.tells.load(SeqCst).then_some(left))
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.medium.lock(path)
    }
}

impl MediumFile for File {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        let (got, done) = self.disk.take(end.saturating_sub(self.len()?));
        let n = if done.is_ok() { data.len() } else { (self.len()? + got).saturating_sub(offset) as usize };
        self.disk.written.fetch_add(n as u64, SeqCst);
        self.file.write_at(offset, &data[..n])?;
        done
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        let have = self.len()?;
        self.write_at(have, &vec![0; len.saturating_sub(have) as usize])
    }
    fn reserve(&self, len: u64) -> io::Result<()> {
        // What is reserved is taken when it is written: until then the room is there for others.
        let missing = len.saturating_sub(self.len()?);
        let room = self.disk.room.load(SeqCst).saturating_sub(self.disk.used.load(SeqCst));
        if self.disk.reserves.load(SeqCst) && missing > room {
            self.disk.refused.fetch_add(1, SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

const SEGMENT: u64 = 256 << 10;

fn options(medium: &Small) -> Options {
    Options {
        medium: Arc::new(medium.clone()),
        segment_bytes: SEGMENT,
        container_bytes: 4096,
        checkpoint_log_bytes: 0,
        // No manifest comes in between.
        manifest_interval: Duration::from_secs(3600),
        ..Options::default()
    }
}

fn open(medium: &Small) -> (Database, Table) {
    let db = Database::open("/db", options(medium)).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("b", ColumnType::VarBytes(3000));
    let t = db.table("t").or_else(|_| db.create_table(s.primary_key(&["id"]))).unwrap();
    (db, t)
}

fn put(db: &Database, t: &Table, id: i64) -> mmdb::Result<()> {
    db.run(|tx| tx.insert(t, &[id.into(), Value::Bytes(&[7; 2900])]))
}

fn within_a_minute(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_idle_database_on_a_nearly_full_disk_writes_nothing() {
    for reserves in [true, false] {
        // Room for one segment and a half.
        let small = Small::new(SEGMENT + SEGMENT / 2);
        let (db, t) = open(&small);
        // Not before: an attempt that writes has all the room for a moment, and the manifest of the
        // new table would have none.
        small.disk.reserves.store(reserves, SeqCst);
        put(&db, &t, 0).unwrap();
        within_a_minute("the second segment is tried", || small.disk.refused.load(SeqCst) > 0);
        // One more attempt follows from the use of the first one. Then it is quiet.
        let now = || (small.disk.written.load(SeqCst), small.disk.refused.load(SeqCst));
        let mut last = (now(), Instant::now());
        within_a_minute("it is quiet for some seconds", || {
            if now() != last.0 {
                last = (now(), Instant::now());
            }
            last.1.elapsed() > Duration::from_millis(2500)
        });
        assert!(last.0.1 < 4, "{} attempts", last.0.1);
        if reserves {
            assert!(
                last.0.0 < SEGMENT + SEGMENT / 4,
                "{} bytes: none of the second one was written",
                last.0.0
            );
        }
        let used = small.disk.used.load(SeqCst);
        assert!(used < SEGMENT + SEGMENT / 4, "{used} bytes: what failed has not given its room back");
    }
}

#[test]
fn commits_without_room_are_refused_with_growing_pauses_and_go_on_when_there_is_room() {
    let small = Small::new(SEGMENT + SEGMENT / 2);
    let (db, t) = open(&small);
    let mut id = 0;
    let refused = loop {
        match put(&db, &t, id) {
            Ok(()) => id += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
    // Attempts come with the commits that need one, not with every one of them.
    let (began, attempts) = (Instant::now(), small.disk.refused.load(SeqCst));
    let (mut tries, mut more) = (0, 0);
    while began.elapsed() < Duration::from_millis(700) || tries <= 100 || more == 0 {
        assert!(put(&db, &t, id).is_err());
        tries += 1;
        more = small.disk.refused.load(SeqCst) - attempts;
        assert!(began.elapsed() < Duration::from_secs(60), "{more} attempts for {tries} commits");
    }
    // Between them are 20, 40, 80, 160, 320 ms and so on at least: so many of them fit.
    let fit = (began.elapsed().as_millis() / 20 + 1).ilog2() + 1;
    assert!(more <= u64::from(fit), "{more} attempts for {tries} commits, {fit} fit");
    assert!(!db.stats().poisoned);
    small.disk.room.store(1 << 30, SeqCst);
    within_a_minute("commits go on", || put(&db, &t, id).is_ok());
    id += 1;
    for _ in 0..500 {
        put(&db, &t, id).unwrap();
        id += 1;
    }
    drop((t, db));
    let (db, t) = open(&small);
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count() as i64, id);
}

/// Each opening of a database whose log had filled the disk took a segment more of the room that
/// had been made, though nothing was committed.
#[test]
fn an_opening_takes_no_segment_before_something_is_committed() {
    let small = Small::new(4 * SEGMENT + SEGMENT / 2);
    let (db, t) = open(&small);
    let mut id = 0;
    while put(&db, &t, id).is_ok() {
        id += 1;
    }
    drop((t, db));
    let used = small.disk.used.load(SeqCst);
    small.disk.room.store(used + 20 * SEGMENT, SeqCst);
    for _ in 0..3 {
        let opened = open(&small);
        // The thread that prepares looks at once, and then every second.
        std::thread::sleep(Duration::from_millis(300));
        drop(opened);
        let now = small.disk.used.load(SeqCst);
        assert!(now < used + SEGMENT, "{now} bytes after {used}");
    }
    let (db, t) = open(&small);
    put(&db, &t, id).unwrap();
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count() as i64, id + 1);
}

/// What made a checkpoint due was the log's length, which a small disk has no room for: commits
/// were refused for good, while a checkpoint would have had room and released the log.
#[test]
fn a_log_that_has_no_room_to_grow_makes_a_checkpoint_due() {
    let small = Small::new(1 << 30);
    // Less than the disk has.
    let options = Options { checkpoint_log_bytes: 1 << 30, ..options(&small) };
    let db = Database::open("/db", options).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("b", ColumnType::VarBytes(3000));
    let t = db.create_table(s.primary_key(&["id"])).unwrap();
    let put = |n: u8| {
        let row = [Value::Int((n % 10).into()), Value::Bytes(&[n; 2900])];
        db.run(|tx| tx.upsert(&t, &row)).map(drop)
    };
    put(0).unwrap();
    within_a_minute("two segments are ready", || small.disk.used.load(SeqCst) > 3 * SEGMENT);
    // Not enough for a segment, and enough for the images of ten rows.
    small.disk.room.store(small.disk.used.load(SeqCst) + SEGMENT * 3 / 4, SeqCst);
    for n in 1..=255 {
        (0..4).for_each(|_| within_a_minute("commits go on", || put(n).is_ok()));
    }
    let stats = db.stats();
    assert!(stats.checkpoints > 0 && !stats.poisoned, "{stats:?}");
}

/// What is due is looked at every 50 ms. Commits that came before, as behind an opening, took the
/// room for their segments that the checkpoint would have needed, which was then due and had none:
/// no segment was released any more, and each opening could take another one.
#[test]
fn a_segment_leaves_the_room_of_the_checkpoints_that_can_release_others() {
    let small = Small::new(4 * SEGMENT + SEGMENT / 2);
    let (db, t) = open(&small);
    let mut rows = 0;
    while put(&db, &t, rows).is_ok() {
        rows += 1;
    }
    drop((t, db));
    // Room for the images of both sides, each row in a container of its own, and half a segment.
    let room = small.disk.used.load(SeqCst) + 2 * 4096 * rows as u64 + SEGMENT / 2;
    small.disk.room.store(room, SeqCst);
    small.disk.tells.store(true, SeqCst);
    let options = Options { checkpoint_log_bytes: 1 << 30, ..options(&small) };
    let db = Database::open("/db", options).unwrap();
    let t = db.table("t").unwrap();
    for n in 0..600 {
        let row = [Value::Int(n % 10), Value::Bytes(&[n as u8; 2900])];
        within_a_minute("commits go on", || db.run(|tx| tx.upsert(&t, &row)).is_ok());
    }
    let stats = db.stats();
    assert!(stats.checkpoints > 0 && !stats.poisoned, "{stats:?}");
    assert_eq!(stats.tables[0].rows as i64, rows);
}

/// Log that was kept for a standby which was gone took what the disk had, and was never let go:
/// commits were refused until somebody thought of the standby, whose log no error named.
#[test]
fn log_that_is_kept_for_a_standby_is_used_again_before_commits_are_refused() {
    for floor in [0, 2 * SEGMENT] {
        let small = Small::new(1 << 30);
        let db = Database::open("/db", Options { tail_log_floor_bytes: floor, ..options(&small) }).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("b", ColumnType::VarBytes(3000));
        let t = db.create_table(s.primary_key(&["id"])).unwrap();
        let put = |n: i64| {
            let row = [Value::Int(n % 10), Value::Bytes(&[n as u8; 2900])];
            db.run(|tx| tx.upsert(&t, &row)).map(drop)
        };
        let from = db.position().unwrap();
        db.acknowledge("gone", &from).unwrap();
        let mut n = 0;
        for _ in 0..6 {
            (0..130).for_each(|more| put(n + more).unwrap());
            n += 130;
            db.checkpoint().unwrap();
        }
        let kept = db.stats().tail_log_bytes;
        assert!(kept > 7 * SEGMENT, "{kept} bytes are kept");
        small.disk.room.store(small.disk.used.load(SeqCst) + SEGMENT / 2, SeqCst);
        let mut more = 0;
        let refused = loop {
            if let Err(refused) = put(n) {
                break refused;
            }
            n += 1;
            more += SEGMENT / 64;
            assert!(more < 100 * SEGMENT);
        };
        assert!(more > kept - floor, "{more} bytes of log, where {kept} were kept");
        let Error::LogFull { cause, .. } = &refused else { panic!("{refused}") };
        assert_eq!(cause.contains("kept for standbys"), floor > 0, "{refused}");
        assert_eq!(db.stats().tail_log_bytes, floor);
        // What a checkpoint releases is used again, and not kept.
        db.checkpoint().unwrap();
        assert_eq!(db.stats().tail_log_bytes, floor);
        within_a_minute("commits go on", || put(n).is_ok());
        assert!(matches!(db.tail(&from), Err(Error::TailLost { .. })));
        drop((t, db));
        drop(Database::open("/db", options(&small)).unwrap());
    }
}

/// The manifest that names a segment is what may not fit: then the segment is not used, and not
/// made again either.
#[test]
fn a_segment_that_no_manifest_can_name_is_not_used_and_nothing_is_lost() {
    let small = Small::new(1 << 30);
    let (db, t) = open(&small);
    put(&db, &t, 0).unwrap();
    within_a_minute("two segments are ready", || small.disk.used.load(SeqCst) > 3 * SEGMENT);
    small.disk.room.store(small.disk.used.load(SeqCst) + 10, SeqCst);
    let mut id = 1;
    while put(&db, &t, id).is_ok() {
        id += 1;
    }
    let written = small.disk.written.load(SeqCst);
    (0..200).for_each(|_| assert!(put(&db, &t, id).is_err()));
    let more = small.disk.written.load(SeqCst) - written;
    assert!(more < 20_000, "{more} bytes written in vain");
    assert!(!db.stats().poisoned && id > 50, "{id}");
    small.disk.room.store(1 << 30, SeqCst);
    within_a_minute("commits go on", || put(&db, &t, id).is_ok());
    drop((t, db));
    let (db, t) = open(&small);
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count() as i64, id + 1);
}

/// A process was killed on a full disk, and no opening came to its end: it needs a manifest, and
/// the error said neither where nor how much. The images that the manifest does not name make room
/// now; where there are none, the error says what is needed, and that much is enough.
#[test]
fn a_database_on_a_full_disk_is_opened_or_says_what_it_needs() {
    for images in [true, false] {
        let small = Small::new(1 << 30);
        let (db, t) = open(&small);
        (0..20).for_each(|id| put(&db, &t, id).unwrap());
        db.checkpoint().unwrap();
        if images {
            db.checkpoint().unwrap();
        }
        (20..40).for_each(|id| put(&db, &t, id).unwrap());
        drop((t, db));
        let full = |more: u64| small.disk.room.store(small.disk.used.load(SeqCst) + more, SeqCst);
        full(0);
        if !images {
            let names = |dir: &Path| small.list(dir).unwrap();
            let before = (names(Path::new("/db")), names(Path::new("/db/log-0")));
            let refused = Database::open("/db", options(&small)).map(drop).unwrap_err();
            let Error::DiskFull { dir, bytes, .. } = &refused else { panic!("{refused}") };
            assert_eq!((dir.as_path(), *bytes), (Path::new("/db"), 8192), "{refused}");
            assert_eq!((names(Path::new("/db")), names(Path::new("/db/log-0"))), before);
            // It can be read as it is.
            let offline = mmdb::OfflineDatabase::load("/db", &options(&small)).unwrap();
            let mut rows = 0;
            offline.rows("t", &mut |_: &mmdb::Row| rows += 1).unwrap();
            assert_eq!(rows, 40);
            full(*bytes);
        }
        let (db, t) = open(&small);
        assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 40, "nothing is lost");
        small.disk.room.store(small.disk.used.load(SeqCst), SeqCst);
        // Commits go on once there is room for a segment.
        let mut id = 40;
        while put(&db, &t, id).is_ok() {
            id += 1;
        }
        small.disk.room.store(1 << 30, SeqCst);
        within_a_minute("commits go on", || put(&db, &t, id).is_ok());
        drop((t, db));
        let (db, t) = open(&small);
        assert_eq!(db.begin().unwrap().scan(&t).unwrap().count() as i64, id + 1);
    }
}

/// An opening with another number of streams takes a checkpoint. Where that found no room, the
/// error was the system's, of a file of images, and did not say how much is needed.
#[test]
fn another_number_of_streams_on_a_full_disk_says_what_it_needs() {
    let small = Small::new(1 << 30);
    let (db, t) = open(&small);
    (0..20).for_each(|id| put(&db, &t, id).unwrap());
    drop((t, db));
    let two = Options { streams: 2, ..options(&small) };
    let mut needed = 0;
    // With more room it comes further: each thing that it writes is the first without room once.
    for room in (0..64).map(|n| n * 512) {
        small.disk.room.store(small.disk.used.load(SeqCst) + room, SeqCst);
        let Err(refused) = Database::open("/db", two.clone()).map(drop) else { break };
        let Error::DiskFull { bytes, .. } = &refused else { panic!("{room} bytes: {refused}") };
        needed = needed.max(*bytes);
    }
    assert!(needed > 8192, "{needed} bytes: the images, too");
    small.disk.room.store(1 << 30, SeqCst);
    let db = Database::open("/db", two).unwrap();
    assert_eq!(db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count(), 20, "nothing is lost");
}

/// A closed database was copied with `cp --sparse=always`. Its segments had their length and few
/// blocks, and were used again like that: a disk that was full by then was met by a flush, which
/// poisons, and not by a commit, which is refused.
#[test]
fn the_segments_of_a_sparse_copy_have_their_space_before_they_are_used_again() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let base = std::env::temp_dir().join(format!("mmdb-sparse-copy-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let (dir, copy) = (base.join("db"), base.join("copy"));
    let options = Options { segment_bytes: SEGMENT, ..Options::default() };
    let segments = |dir: &Path| {
        let paths = std::fs::read_dir(dir.join("log-0")).unwrap().map(|e| e.unwrap().path());
        let mut all: Vec<_> = paths.filter(|p| p.to_string_lossy().contains("segment-")).collect();
        all.sort();
        all
    };
    let db = Database::open(&dir, options.clone()).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table(s).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
    within_a_minute("two segments are ready", || segments(&dir).len() == 3);
    drop(t);
    db.close().unwrap();
    std::fs::create_dir_all(copy.join("log-0")).unwrap();
    for name in ["MANIFEST", "LOCK", "log-0/STREAM", "log-0/LOCK"] {
        std::fs::copy(dir.join(name), copy.join(name)).unwrap();
    }
    let space = |path: &Path| std::fs::metadata(path).unwrap().blocks() * 512;
    let mut has_holes = true;
    for path in segments(&dir) {
        let (bytes, to) = (std::fs::read(&path).unwrap(), copy.join(path.strip_prefix(&dir).unwrap()));
        let file = std::fs::File::create(&to).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        for (i, block) in bytes.chunks(4096).enumerate().filter(|(_, b)| b.iter().any(|&x| x != 0)) {
            file.write_all_at(block, i as u64 * 4096).unwrap();
        }
        file.sync_all().unwrap();
        has_holes &= space(&to) < SEGMENT / 2;
    }
    // Some file systems know no holes.
    if has_holes {
        let old = segments(&copy);
        let db = Database::open(&copy, options).unwrap();
        let t = db.table("t").unwrap();
        db.run(|tx| tx.insert(&t, &[2.into()])).unwrap();
        drop(t);
        let new = || segments(&copy).into_iter().filter(|p| !old.contains(p)).collect::<Vec<_>>();
        within_a_minute("two segments are ready", || new().len() == 3);
        db.close().unwrap();
        for path in new() {
            assert!(space(&path) >= SEGMENT, "{} has {} bytes of space", path.display(), space(&path));
        }
    }
    std::fs::remove_dir_all(&base).unwrap();
}
