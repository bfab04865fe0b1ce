//! Checkpoints that fail are told, tried again, and stop commits before the log has filled the
//! disk.
//!
//! A background checkpoint's error was thrown away. The log grew without a bound and without a word
//! until the disk was full, and then there was no room left for the checkpoint that would have
//! released it.

#[path = "../handing_on/mod.rs"]
mod handing_on;

use handing_on::hand_on;
use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{ColumnType, Database, Error, Logging, Options, Schema, Table, Value};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A medium on which images cannot be opened while `broken`: a checkpoint fails, commits do not.
#[derive(Clone, Debug)]
struct NoImages {
    medium: MemoryMedium,
    broken: Arc<AtomicBool>,
    attempts: Arc<AtomicUsize>,
}

impl NoImages {
    fn new() -> NoImages {
        NoImages { medium: MemoryMedium::new(), broken: Arc::default(), attempts: Arc::default() }
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        let image = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("images"));
        if image && self.broken.load(Ordering::SeqCst) {
            self.attempts.fetch_add(1, Ordering::SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Medium for NoImages {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.check(path)?;
        self.medium.open(path)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.check(path)?;
        self.medium.create(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.medium.sync_dir(dir)
    }
    hand_on!(medium);
}

const SEGMENT: u64 = 64 << 10;
const MOST: u64 = 16 * SEGMENT;

fn options(medium: &NoImages) -> Options {
    Options {
        medium: Arc::new(medium.clone()),
        segment_bytes: SEGMENT,
        container_bytes: 4096,
        checkpoint_log_bytes: 4 * SEGMENT,
        max_log_bytes: MOST,
        ..Options::default()
    }
}

fn schema() -> Schema {
    Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("b", ColumnType::VarBytes(400))
        .primary_key(&["id"])
}

fn put(db: &Database, t: &Table, id: i64) -> mmdb::Result<()> {
    db.run(|tx| tx.upsert(t, &[id.into(), Value::Bytes(&[id as u8; 300])]).map(|_| ()))
}

/// Puts row after row, and looks on behind each, until one is refused.
fn until_refused(db: &Database, t: &Table, id: &mut i64, look: impl Fn(i64)) -> Error {
    loop {
        if let Err(refused) = put(db, t, *id) {
            return refused;
        }
        *id += 1;
        look(*id);
    }
}

fn within_a_minute(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_checkpoint_that_fails_is_told_and_stops_commits_at_the_bound_and_one_that_succeeds_lets_them_go_on() {
    let medium = NoImages::new();
    let db = Database::open("/db", options(&medium)).unwrap();
    let t = db.create_table(schema()).unwrap();
    let stats = db.stats();
    assert_eq!(
        (stats.checkpoint_failures, stats.checkpoint_error, stats.checkpoint_failing_for),
        (0, None, None)
    );
    medium.broken.store(true, Ordering::SeqCst);
    let mut id = 0;
    let refused = until_refused(&db, &t, &mut id, |id| {
        assert!(db.stats().log_bytes <= MOST, "{} bytes of log", db.stats().log_bytes);
        assert!(id < 100_000);
    });
    assert!(matches!(&refused, Error::LogFull { .. }), "{refused}");
    within_a_minute("the failure is told", || db.stats().checkpoint_failures > 1);
    let stats = db.stats();
    assert!(stats.checkpoint_error.as_ref().is_some_and(|e| e.contains("images-a")), "{stats:?}");
    assert!(stats.checkpoint_failing_for.is_some() && !stats.poisoned);
    let refused = put(&db, &t, id).unwrap_err().to_string();
    assert!(refused.contains("Options::max_log_bytes") && refused.contains("images-a"), "{refused}");
    // Reading goes on meanwhile, and attempts are not what keeps the disk busy.
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count() as i64, id);
    let (began, attempts) = (Instant::now(), medium.attempts.load(Ordering::SeqCst));
    std::thread::sleep(Duration::from_millis(700));
    let more = medium.attempts.load(Ordering::SeqCst) - attempts;
    assert!(more as u128 <= began.elapsed().as_millis() / 100 + 1, "{more} attempts");

    medium.broken.store(false, Ordering::SeqCst);
    within_a_minute("it is tried again by itself", || put(&db, &t, id).is_ok());
    id += 1;
    // The room is there a moment before it is said that all is well.
    within_a_minute("the failure is over", || {
        let stats = db.stats();
        stats.checkpoint_error.is_none() && stats.checkpoint_failing_for.is_none()
    });
    (0..2000).for_each(|_| {
        within_a_minute("commits go on", || put(&db, &t, id).is_ok());
        id += 1;
    });
    drop((t, db));
    let db = Database::open("/db", options(&medium)).unwrap();
    assert_eq!(db.stats().tables[0].rows as i64, id, "nothing is lost");
    db.verify().unwrap();
}

/// `max_log_bytes` was more than the disk had, which was full for a moment. Then commits took the
/// room that came to be before the checkpoint was tried again, until the log had the whole disk: no
/// checkpoint could ever release it, whoever freed how much beside it, and no opening either.
#[test]
fn the_log_takes_no_more_of_a_disk_without_room_for_the_checkpoint_that_is_due() {
    let medium = NoImages::new();
    let db = Database::open("/db", Options { max_log_bytes: 1 << 40, ..options(&medium) }).unwrap();
    let t = db.create_table(schema()).unwrap();
    medium.broken.store(true, Ordering::SeqCst);
    let mut id = 0;
    let refused = until_refused(&db, &t, &mut id, |id| {
        assert!(id < 20_000, "{} bytes of log", db.stats().log_bytes);
        if db.stats().log_bytes > 4 * SEGMENT {
            // It is looked every 50 ms whether a checkpoint is due.
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let names_it = |cause: &str| cause.contains("images-a") && cause.contains("room");
    assert!(matches!(&refused, Error::LogFull { cause, .. } if names_it(cause)), "{refused}");
    let before = db.stats().log_bytes;
    (0..200).for_each(|_| assert!(put(&db, &t, id).is_err()));
    assert_eq!(db.stats().log_bytes, before);
    assert!(!db.stats().poisoned);

    medium.broken.store(false, Ordering::SeqCst);
    within_a_minute("commits go on", || put(&db, &t, id).is_ok());
    id += 1;
    drop((t, db));
    let db = Database::open("/db", options(&medium)).unwrap();
    assert_eq!(db.stats().tables[0].rows as i64, id, "nothing is lost");
}

/// What was kept for a standby that was gone stayed, though the checkpoint that was due had no room
/// for its images.
#[test]
fn log_that_is_kept_for_a_standby_makes_room_for_the_checkpoint_that_lacks_it() {
    for floor in [0, 2 * SEGMENT] {
        let medium = NoImages::new();
        let options = Options { max_log_bytes: 1 << 40, tail_log_floor_bytes: floor, ..options(&medium) };
        let db = Database::open("/db", options).unwrap();
        let t = db.create_table(schema()).unwrap();
        db.acknowledge("gone", &db.position().unwrap()).unwrap();
        let mut id = 0;
        while db.stats().tail_log_bytes < 4 * SEGMENT {
            put(&db, &t, id).unwrap();
            id += 1;
            if db.stats().log_bytes > 8 * SEGMENT {
                // It is looked every 50 ms whether a checkpoint is due.
                std::thread::sleep(Duration::from_millis(2));
            }
            assert!(id < 50_000);
        }
        medium.broken.store(true, Ordering::SeqCst);
        for _ in 0..8 {
            assert!(matches!(db.checkpoint(), Err(Error::Io { .. })));
        }
        assert_eq!(db.stats().tail_log_bytes, floor);
        medium.broken.store(false, Ordering::SeqCst);
        within_a_minute("commits go on", || put(&db, &t, id).is_ok());
        assert!(!db.stats().poisoned);
        drop((t, db));
        let db = Database::open("/db", self::options(&medium)).unwrap();
        assert_eq!(db.stats().tables[0].rows as i64, id + 1, "nothing is lost");
    }
}

/// A log with a disk of its own takes nothing from the images, and goes on up to its bound.
#[test]
fn a_log_elsewhere_goes_on_up_to_its_bound_while_images_have_no_room() {
    let medium = NoImages::new();
    let elsewhere = Options { stream_dirs: vec!["/log".into()], ..options(&medium) };
    let db = Database::open("/db", elsewhere).unwrap();
    let t = db.create_table(schema()).unwrap();
    medium.broken.store(true, Ordering::SeqCst);
    let mut id = 0;
    while put(&db, &t, id).is_ok() {
        id += 1;
        if db.stats().log_bytes > 4 * SEGMENT && db.stats().checkpoint_failures == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let stats = db.stats();
    assert!(stats.log_bytes > MOST - 2 * SEGMENT, "{} bytes of log", stats.log_bytes);
    assert!(stats.checkpoint_failures > 0);
}

#[test]
fn a_checkpoint_that_is_called_for_ends_the_refusal_too() {
    let medium = NoImages::new();
    let never = Options { checkpoint_log_bytes: 0, background: false, ..options(&medium) };
    let db = Database::open("/db", never.clone()).unwrap();
    let t = db.create_table(schema()).unwrap();
    let mut id = 0;
    for round in 1..4 {
        while put(&db, &t, id).is_ok() {
            id += 1;
        }
        let refused = put(&db, &t, id).unwrap_err();
        assert!(
            matches!(&refused, Error::LogFull { cause, .. } if cause.contains("max_log_bytes")),
            "{refused}"
        );
        assert!(db.stats().log_bytes <= MOST && db.stats().log_bytes > MOST - 2 * SEGMENT);
        medium.broken.store(true, Ordering::SeqCst);
        assert!(db.checkpoint().is_err());
        assert_eq!(db.stats().checkpoint_failures, round);
        medium.broken.store(false, Ordering::SeqCst);
        assert!(put(&db, &t, id).is_err());
        db.checkpoint().unwrap();
        put(&db, &t, id).unwrap();
        id += 1;
    }
    // What was refused before a restart is refused after it: the bound counts what earlier lives
    // left.
    while put(&db, &t, id).is_ok() {
        id += 1;
    }
    drop((t, db));
    let db = Database::open("/db", never).unwrap();
    let t = db.table("t").unwrap();
    assert_eq!(db.stats().tables[0].rows as i64, id);
    // The segment that was full at the last checkpoint is free now: that much goes in, and no more.
    let before = id;
    while put(&db, &t, id).is_ok() {
        id += 1;
    }
    assert!(id - before < 250 && db.stats().log_bytes <= MOST, "{} more", id - before);
    assert!(matches!(put(&db, &t, id), Err(Error::LogFull { .. })));
    db.checkpoint().unwrap();
    put(&db, &t, id).unwrap();
}

/// What happened: what was due was measured by the log alone. A database whose tables are only
/// checkpointed logs none of their rows, never took a checkpoint by itself, and had nothing after a
/// crash, however long it had run.
#[test]
fn changes_that_are_in_no_log_make_a_checkpoint_due_too() {
    let medium = NoImages::new();
    let db = Database::open("/db", options(&medium)).unwrap();
    let t = db.create_table(schema().logging(Logging::Checkpointed)).unwrap();
    let due = |checkpoints: u64, first: i64| {
        // 300 bytes each.
        (first..first + 1000).for_each(|id| put(&db, &t, id).unwrap());
        within_a_minute("it is due by itself", || db.stats().checkpoints > checkpoints);
    };
    due(0, 0);
    // What is in the last one does not count again.
    within_a_minute("nothing is left to do", || {
        let before = db.stats().checkpoints;
        std::thread::sleep(Duration::from_millis(300));
        db.stats().checkpoints == before
    });
    due(db.stats().checkpoints, 1000);
}

#[test]
fn bounds_that_contradict_each_other_are_refused() {
    let medium = NoImages::new();
    for (max, checkpoint) in [(3 * SEGMENT, 0), (8 * SEGMENT, 8 * SEGMENT), (0, 0)] {
        let wrong = Options { max_log_bytes: max, checkpoint_log_bytes: checkpoint, ..options(&medium) };
        let e = Database::open("/db", wrong).unwrap_err();
        assert!(e.to_string().contains("max_log_bytes"), "{e}");
    }
}
