//! Checkpoints that never end, and a bound of the log that they cannot keep.
//!
//! What happened: whether a checkpoint was due was asked of all the log that is there, the segments
//! that are being written too, which no checkpoint can release. With many streams, or a small
//! `checkpoint_log_bytes`, one checkpoint followed the other for ever on an idle database. And with
//! a `max_log_bytes` that is small against the segments, commits were refused for good though every
//! checkpoint would have succeeded: the bound counts whole segments, what was due counted bytes,
//! and was never reached. The mend: due is what came since the last checkpoint, or half of the most
//! segments; new transactions wait for the checkpoint that makes room.

use mmdb::{ColumnType, Database, Options, Schema, Table, Value};
use std::time::{Duration, Instant};

const SEGMENT: u64 = 64 << 10;

fn open(options: Options) -> (Database, Table) {
    let db = Database::open("/db", options).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("b", ColumnType::VarBytes(3000));
    let t = db.create_table(s.primary_key(&["id"])).unwrap();
    (db, t)
}

fn put(db: &Database, t: &Table, id: i64, len: usize) -> mmdb::Result<()> {
    db.run(|tx| tx.upsert(t, &[id.into(), Value::Bytes(&[7; 3000][..len])]).map(|_| ()))
}

/// Waits until there were more checkpoints than so many.
fn wait_for_more(db: &Database, checkpoints: u64) {
    let began = Instant::now();
    while db.stats().checkpoints <= checkpoints {
        assert!(began.elapsed() < Duration::from_secs(60), "one was due");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn checkpoints_of_an_idle_database_come_to_an_end() {
    // Eight open segments hold more than the threshold; so does one of which a little is written.
    for (streams, threshold) in [(8, SEGMENT / 2), (1, 4096)] {
        let options = Options {
            streams,
            segment_bytes: SEGMENT,
            checkpoint_log_bytes: threshold,
            max_log_bytes: 32 * SEGMENT,
            ..Options::in_memory()
        };
        let (db, t) = open(options);
        std::thread::scope(|s| {
            for c in 0..8 {
                let (db, t) = (&db, &t);
                s.spawn(move || (0..16).for_each(|i| put(db, t, c * 100 + i, 2900).unwrap()));
            }
        });
        // One may be under way, and another one may be due for what came after that had begun: no
        // more, however late the thread is that takes them.
        let most = db.stats().checkpoints + 2;
        wait_for_more(&db, 0);
        assert!(db.stats().log_bytes > threshold, "open segments hold more: that must not matter");
        std::thread::sleep(Duration::from_millis(1000));
        let before = db.stats().checkpoints;
        assert!(before <= most, "{before} checkpoints, and no end");
        // What is committed afterwards makes one due again, after as much as was asked for.
        for i in 0..2 * threshold / 3000 + 4 {
            put(&db, &t, 1000 + i as i64, 2900).unwrap();
        }
        wait_for_more(&db, before);
    }
}

#[test]
fn a_small_bound_of_the_log_delays_commits_and_refuses_none_while_checkpoints_succeed() {
    for (streams, most, threshold) in [(1, 4, 4 * SEGMENT - 1), (4, 16, 16 * SEGMENT - 1), (2, 8, SEGMENT)] {
        let options = Options {
            streams,
            segment_bytes: SEGMENT,
            checkpoint_log_bytes: threshold,
            max_log_bytes: most * SEGMENT,
            // How long commits may be delayed is not asked here: a checkpoint may take long on a
            // busy machine.
            lock_timeout: Duration::from_secs(600),
            ..Options::in_memory()
        };
        let (db, t) = open(options);
        std::thread::scope(|s| {
            for c in 0..4 {
                let (db, t) = (&db, &t);
                let all = move || {
                    for i in 0..400 {
                        // Of different lengths, so that the last segments are not full to the last
                        // byte.
                        let done = put(db, t, c * 10 + i % 10, 100 + (i * 37 % 2800) as usize);
                        done.unwrap_or_else(|e| panic!("{streams} streams, at most {most} segments: {e}"));
                        // The streams are counted one after the other, and a checkpoint may come
                        // between two of them: it does not each time.
                        assert!((0..100).any(|_| db.stats().log_bytes <= most * SEGMENT));
                    }
                };
                s.spawn(all);
            }
        });
        let stats = db.stats();
        assert!(stats.checkpoints > 0 && stats.checkpoint_failures == 0, "{stats:?}");
        db.verify().unwrap();
    }
}
