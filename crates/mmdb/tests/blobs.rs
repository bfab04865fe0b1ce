//! Blobs: each way of changing and reading them against a model; what a change costs the log; what
//! the limits, a snapshot, a backup and the tool make of them.
#![allow(clippy::unwrap_used)]

use mmdb::{
    BlobSnapshot, Blobs, ColumnType, Database, Error, Locking, Logging, Options, Schema, Snapshot,
    Transaction, Value,
};
use std::collections::BTreeMap;

/// The seeded generator of the crash schedules.
#[path = "crash/rng.rs"]
#[allow(dead_code)]
mod rng;
use rng::Rng;

type Model = BTreeMap<u64, Vec<u8>>;

const IDS: u64 = 6;

fn noise(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).collect();
    all.truncate(bytes);
    all
}

/// Sizes around those of a chunk, which has `chunk` bytes.
fn size(rng: &mut Rng, chunk: u64) -> usize {
    let around = rng.of(&[0, 0, chunk, 2 * chunk, 5 * chunk]) + rng.below(5);
    (if rng.one_in(3) { rng.below(6 * chunk) } else { around.saturating_sub(2) }) as usize
}

/// One change of a blob, in the database and in the model.
fn change(
    blobs: &Blobs,
    tx: &mut Transaction<'_>,
    model: &mut Model,
    rng: &mut Rng,
    chunk: u64,
) -> mmdb::Result<()> {
    let id = rng.below(IDS);
    match rng.below(8) {
        0 | 1 => {
            let bytes = size(rng, chunk);
            let bytes = noise(rng, bytes);
            blobs.put(tx, id, &bytes)?;
            model.insert(id, bytes);
        }
        2 => assert_eq!(blobs.delete(tx, id)?, model.remove(&id).is_some()),
        3 => {
            let to = model.get(&id).map_or(0, |b| rng.below(b.len() as u64 + 1));
            assert_eq!(blobs.truncate(tx, id, to)?, model.contains_key(&id));
            if let Some(b) = model.get_mut(&id) {
                b.truncate(to as usize);
            }
        }
        _ => {
            let length = model.get(&id).map_or(0, Vec::len);
            let at = if rng.one_in(3) { length } else { rng.below(length as u64 + 1) as usize };
            let bytes = size(rng, chunk);
            let bytes = noise(rng, bytes);
            blobs.write(tx, id, at as u64, &bytes)?;
            let b = model.entry(id).or_default();
            b.resize(b.len().max(at + bytes.len()), 0);
            b[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
    Ok(())
}

fn check(blobs: &Blobs, tx: &mut Transaction<'_>, model: &Model, rng: &mut Rng) {
    for id in 0..IDS {
        let want = model.get(&id);
        assert_eq!(blobs.length(tx, id).unwrap(), want.map(|b| b.len() as u64));
        assert!(blobs.read(tx, id).unwrap().as_ref() == want, "blob {id}");
        let length = want.map_or(0, Vec::len);
        let at = rng.below(length as u64 + 3) as usize;
        let mut part = vec![7; rng.below(length as u64 + 3) as usize];
        let read = blobs.read_at(tx, id, at as u64, &mut part).unwrap();
        assert_eq!(read, want.map(|b| b.len().saturating_sub(at).min(part.len())));
        if let (Some(read), Some(want)) = (read, want) {
            assert!(part[..read] == want[at.min(length)..at.min(length) + read]);
            assert!(part[read..].iter().all(|b| *b == 7), "nothing behind it is touched");
        }
    }
}

fn check_snapshot(blobs: BlobSnapshot<'_, '_>, model: &Model) {
    for id in 0..IDS {
        assert_eq!(blobs.length(id).unwrap(), model.get(&id).map(|b| b.len() as u64));
        assert!(blobs.read(id).unwrap().as_ref() == model.get(&id), "blob {id}");
    }
}

#[test]
fn blobs_are_what_was_put_and_written_whatever_the_locks_and_containers() {
    for seed in 0..24u64 {
        let mut rng = Rng(seed + 1);
        let container_bytes = rng.of(&[4096, 8192, 65536]);
        let chunk = container_bytes.min(16384) as u64 - 35;
        let options = Options { container_bytes, background: false, ..Options::in_memory() };
        let options = Options { segment_bytes: 4 << 20, ..options };
        let locking = rng.of(&[Locking::Record, Locking::Page, Locking::Container]);
        let mut db = Database::open("/db", options.clone()).unwrap();
        let schema = db.blob_schema("b").locking(locking);
        let mut blobs = Blobs::of(&db.create_table(schema).unwrap()).unwrap();
        let mut model = Model::new();
        for life in 0..3 {
            let mut moments: Vec<(Snapshot<'_>, Model)> = Vec::new();
            for _ in 0..25 {
                let mut next = model.clone();
                let mut tx = db.begin().unwrap();
                for _ in 0..1 + rng.below(3) {
                    change(&blobs, &mut tx, &mut next, &mut rng, chunk).unwrap();
                }
                check(&blobs, &mut tx, &next, &mut rng);
                if rng.one_in(4) {
                    tx.abort();
                } else {
                    tx.commit().unwrap().wait().unwrap();
                    model = next;
                }
                if rng.one_in(8) {
                    moments.push((db.snapshot().unwrap(), model.clone()));
                }
                if rng.one_in(10) {
                    db.checkpoint().unwrap();
                }
            }
            check(&blobs, &mut db.begin().unwrap(), &model, &mut rng);
            moments.iter().for_each(|(s, m)| check_snapshot(blobs.at(s), m));
            drop(moments);
            let rows: u64 = model.values().map(|b| (b.len() as u64).div_ceil(chunk).max(1)).sum();
            assert_eq!(db.stats().tables[0].rows, rows, "no chunk is left behind");
            db.verify().unwrap();
            if life < 2 {
                drop((blobs, db));
                db = Database::open("/db", options.clone()).unwrap();
                blobs = Blobs::of(&db.table("b").unwrap()).unwrap();
            }
        }
    }
}

#[test]
fn sixteen_mebibytes_fit_and_not_a_byte_more() {
    let options = Options { segment_bytes: 64 << 20, ..Options::in_memory() };
    let db = Database::open("/db", options.clone()).unwrap();
    let blobs = db.blobs("b").unwrap();
    let bytes = noise(&mut Rng(1), Blobs::MAX_BYTES as usize);
    db.run(|tx| blobs.put(tx, 1, &bytes)).unwrap();
    let s = &db.stats().tables[0];
    assert_eq!(s.rows, 1027);
    assert_eq!(s.containers, 258, "four chunks fill a container, and the last one is short");

    // Refused before anything is changed: the transaction goes on.
    let mut tx = db.begin().unwrap();
    let large = [&bytes[..], b"!"].concat();
    for refused in [
        blobs.put(&mut tx, 2, &large),
        blobs.write(&mut tx, 1, Blobs::MAX_BYTES, b"!"),
        blobs.write(&mut tx, 1, u64::MAX, b"!"),
        blobs.write(&mut tx, 2, 1, b"!"),
        blobs.truncate(&mut tx, 1, Blobs::MAX_BYTES + 1).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Operation { .. })), "{refused:?}");
    }
    let words = blobs.put(&mut tx, 2, &large).unwrap_err().to_string();
    assert_eq!(words, "table b: cannot write a blob: it would have 16777217 bytes; 16777216 are possible");
    blobs.put(&mut tx, 2, b"small").unwrap();
    tx.commit().unwrap().wait().unwrap();

    drop((blobs, db));
    let db = Database::open("/db", options).unwrap();
    let blobs = db.blobs("b").unwrap();
    let mut tx = db.begin().unwrap();
    assert!(blobs.read(&mut tx, 1).unwrap().unwrap() == bytes);
    assert_eq!(blobs.read(&mut tx, 2).unwrap().unwrap(), b"small");
}

/// A change of a part costs the log that part, wherever it stands and whatever the call.
#[test]
fn a_change_of_a_few_bytes_is_logged_as_a_few_bytes() {
    let options = Options { segment_bytes: 64 << 20, background: false, ..Options::in_memory() };
    let db = Database::open("/db", options.clone()).unwrap();
    let blobs = db.blobs("b").unwrap();
    let mut bytes = noise(&mut Rng(1), 8 << 20);
    db.run(|tx| blobs.put(tx, 1, &bytes)).unwrap();
    let logged = |change: &dyn Fn(&mut Transaction<'_>) -> mmdb::Result<()>| {
        let before = db.stats().flushed_bytes;
        db.run(|tx| change(tx)).unwrap();
        db.stats().flushed_bytes - before
    };
    // A flush is padded to 4096 bytes.
    assert_eq!(logged(&|tx| blobs.write(tx, 1, 5_000_000, b"changed")), 4096);
    bytes[5_000_000..5_000_007].copy_from_slice(b"changed");
    bytes[16_345..16_352].copy_from_slice(b"border!");
    assert_eq!(logged(&|tx| blobs.write(tx, 1, 16_345, b"border!")), 4096, "over two chunks");
    bytes[77] ^= 1;
    assert_eq!(logged(&|tx| blobs.put(tx, 1, &bytes)), 4096, "a put of nearly the same");
    assert_eq!(logged(&|tx| blobs.write(tx, 1, 8 << 20, b"appended")), 4096);
    assert_eq!(logged(&|tx| blobs.truncate(tx, 1, 8 << 20).map(drop)), 4096);
    assert!(blobs.read(&mut db.begin().unwrap(), 1).unwrap().unwrap() == bytes);
}

/// What was half written never commits, by whichever way the transaction ends, and leaves nothing.
#[test]
fn a_write_that_fails_half_way_lets_its_transaction_only_end() {
    type Expected = fn(&Error) -> bool;
    let cases: [(Options, Expected); 2] = [
        (Options { memory_limit: 6 << 20, segment_bytes: 64 << 20, ..Options::in_memory() }, |e| {
            matches!(e, Error::MemoryLimit { .. })
        }),
        (Options { segment_bytes: 1 << 20, ..Options::in_memory() }, |e| {
            matches!(e, Error::TransactionTooLarge { .. })
        }),
    ];
    for (options, expected) in cases {
        let db = Database::open("/db", options).unwrap();
        let t =
            db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
        let blobs = db.blobs("b").unwrap();
        db.run(|tx| blobs.put(tx, 1, b"before")).unwrap();
        let (used, rows) = (db.stats().memory_bytes, db.stats().tables[1].rows);
        let bytes = noise(&mut Rng(1), 8 << 20);

        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[1.into()]).unwrap();
        assert!(expected(&blobs.put(&mut tx, 1, &bytes).unwrap_err()));
        assert!(expected(&tx.insert(&t, &[2.into()]).unwrap_err()));
        assert!(expected(&tx.commit().unwrap_err()));
        // Who ignores the error inside of run has it from that.
        let ignored = db.run(|tx| {
            let _ = blobs.write(tx, 1, 6, &bytes);
            Ok::<_, Error>(())
        });
        assert!(expected(&ignored.unwrap_err()));

        assert_eq!(blobs.read(&mut db.begin().unwrap(), 1).unwrap().unwrap(), b"before");
        assert_eq!((db.stats().tables[0].rows, db.stats().tables[1].rows), (0, rows));
        assert_eq!(db.stats().locks, 0);
        // Containers stay, for rows that come.
        db.drop_table(blobs.table()).unwrap();
        let now = db.stats().memory_bytes;
        assert!(now < used + (128 << 10), "{now} bytes, and {used} before");
    }
}

#[test]
fn readers_and_writers_of_one_blob_exclude_each_other() {
    let db = Database::open("/db", Options { background: false, ..Options::in_memory() }).unwrap();
    let blobs = db.blobs("b").unwrap();
    db.run(|tx| (1..3).try_for_each(|id| blobs.put(tx, id, &[1; 50_000]))).unwrap();
    let (mut old, mut young) = (db.begin().unwrap(), db.begin().unwrap());
    blobs.write(&mut old, 1, 49_000, b"new").unwrap();
    let mut part = [0; 4];
    assert!(blobs.read_at(&mut young, 2, 0, &mut part).is_ok(), "another blob");
    assert!(matches!(blobs.read_at(&mut young, 1, 0, &mut part), Err(Error::Deadlock { .. })));
    drop(young);
    // A blob that is not there is locked too.
    let mut young = db.begin().unwrap();
    assert_eq!(blobs.length(&mut old, 9).unwrap(), None);
    assert!(matches!(blobs.put(&mut young, 9, b"x"), Err(Error::Deadlock { .. })));
    drop((old, young));
    assert_eq!(db.locks_held(), 0);
}

#[test]
fn only_a_table_of_blobs_is_one() {
    let db = Database::in_memory().unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    assert!(matches!(Blobs::of(&t), Err(Error::SchemaDiffers { .. })));
    assert!(matches!(db.blobs("t"), Err(Error::SchemaDiffers { .. })));
    let free = db.create_table(db.blob_schema("free").locking(Locking::None)).unwrap();
    assert!(matches!(Blobs::of(&free), Err(Error::Operation { .. })));
    let more = db.blobs("b").unwrap();
    let column = mmdb::Column { name: "more".into(), kind: ColumnType::Int64, nullable: true };
    let changed = db.add_column(more.table(), column, Value::Null).unwrap();
    assert!(matches!(Blobs::of(&changed), Err(Error::SchemaDiffers { .. })));
    // Rows that are not a blob's are said to be damage, and nobody panics.
    let b = db.create_table(db.blob_schema("bad").logging(Logging::Volatile)).unwrap();
    let blobs = Blobs::of(&b).unwrap();
    let row = |id: u64, chunk: u64, length: Value<'static>, data: &'static [u8]| {
        [Value::UInt(id), Value::UInt(chunk), length, Value::Bytes(data)]
    };
    db.run(|tx| {
        tx.insert(&b, &row(1, 0, Value::Null, b"x"))?;
        tx.insert(&b, &row(2, 0, Value::UInt(u64::MAX), b"x"))?;
        tx.insert(&b, &row(3, 0, Value::UInt(5), b"x"))?;
        tx.insert(&b, &row(4, 0, Value::UInt(20_000), b"x"))
    })
    .unwrap();
    for id in 1..5 {
        let mut tx = db.begin().unwrap();
        let read = blobs.read(&mut tx, id);
        assert!(matches!(read, Err(Error::CorruptTable { .. })), "{id}: {read:?}");
    }
}

#[test]
fn a_dropped_or_renamed_table_takes_its_blobs_along() {
    let db = Database::in_memory().unwrap();
    let blobs = db.blobs("b").unwrap();
    db.run(|tx| blobs.put(tx, 1, &[1; 100_000])).unwrap();
    db.rename_table(blobs.table(), "c").unwrap();
    assert_eq!(blobs.length(&mut db.begin().unwrap(), 1).unwrap(), Some(100_000));
    db.drop_table(blobs.table()).unwrap();
    assert!(matches!(blobs.length(&mut db.begin().unwrap(), 1), Err(Error::NoSuchTable { .. })));
    assert_eq!(db.stats().tables.len(), 0);
}

/// A row's blob goes with it, whichever call deletes the row, and comes back with it if the
/// transaction does not commit.
#[test]
fn blobs_go_with_the_rows_that_they_belong_to() {
    let options = Options { segment_bytes: 4 << 20, ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let time = mmdb::TimeUnit::Seconds;
    for kind in [ColumnType::UInt64, ColumnType::Int64] {
        let schema = Schema::new("item")
            .column("id", kind)
            .column("ends", ColumnType::Int64)
            .ordered_primary_key(&["id"])
            .ordered_index("by_end", &["ends"])
            .expire_by("ends", time);
        let items = db.create_table(schema).unwrap();
        let (pictures, sounds) = (db.blobs("picture").unwrap(), db.blobs("sound").unwrap());
        pictures.belong_to(&items).unwrap();
        pictures.belong_to(&items).unwrap();
        sounds.belong_to(&items).unwrap();
        let bytes = [1; 40_000];
        db.run(|tx| {
            (1..10i64).try_for_each(|id| {
                tx.insert(&items, &[id.into(), (id * 100).into()])?;
                pictures.put(tx, id as u64, &bytes)?;
                sounds.put(tx, id as u64, b"tick")
            })
        })
        .unwrap();
        let left = || {
            let s = db.snapshot().unwrap();
            let (pictures, sounds) = (pictures.at(&s).ids().unwrap(), sounds.at(&s).ids().unwrap());
            assert_eq!(pictures, sounds);
            pictures
        };
        assert_eq!(left(), (1..10).collect::<Vec<_>>());
        db.run(|tx| tx.delete(&items, &[1.into()])).unwrap();
        let mut tx = db.begin().unwrap();
        assert!(tx.delete(&items, &[2.into()]).unwrap());
        assert_eq!(pictures.length(&mut tx, 2).unwrap(), None);
        tx.abort();
        assert_eq!(left(), (2..10).collect::<Vec<_>>());
        db.run(|tx| tx.delete_range(&items, "primary", ..=[Value::Int(3)])).unwrap();
        db.run(|tx| {
            let mut cursor = tx.range(&items, "primary", [Value::Int(4)]..)?;
            cursor.next_with(|_| ())?;
            cursor.delete()
        })
        .unwrap();
        assert_eq!(left(), [5, 6, 7, 8, 9]);
        // What replaces a row leaves its blob.
        db.run(|tx| tx.upsert(&items, &[5.into(), 0.into()])).unwrap();
        assert_eq!(left(), [5, 6, 7, 8, 9]);
        let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(700);
        assert_eq!(db.expire(now).unwrap(), 3);
        assert_eq!(left(), [8, 9]);
        // A table of blobs that is gone is in nobody's way.
        db.drop_table(sounds.table()).unwrap();
        db.run(|tx| tx.delete(&items, &[8.into()])).unwrap();
        assert_eq!(pictures.at(&db.snapshot().unwrap()).ids().unwrap(), [9]);
        db.verify().unwrap();
        db.drop_table(pictures.table()).unwrap();
        db.drop_table(&items).unwrap();
    }
    let named = Schema::new("named").column("name", ColumnType::VarText(8)).primary_key(&["name"]);
    let named = db.create_table(named).unwrap();
    let blobs = db.blobs("b").unwrap();
    assert!(matches!(blobs.belong_to(&named), Err(Error::Operation { .. })));
    assert!(matches!(blobs.belong_to(blobs.table()), Err(Error::Operation { .. })));
}

#[test]
fn a_negative_key_names_the_blob_with_its_bits() {
    let db = Database::in_memory().unwrap();
    let items =
        db.create_table(Schema::new("i").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    let blobs = db.blobs("b").unwrap();
    blobs.belong_to(&items).unwrap();
    db.run(|tx| {
        tx.insert(&items, &[(-1).into()])?;
        blobs.put(tx, -1i64 as u64, b"x")?;
        blobs.put(tx, 1, b"y")
    })
    .unwrap();
    assert_eq!(blobs.at(&db.snapshot().unwrap()).ids().unwrap(), [1, u64::MAX]);
    db.run(|tx| tx.delete(&items, &[(-1).into()])).unwrap();
    assert_eq!(blobs.at(&db.snapshot().unwrap()).ids().unwrap(), [1]);
}
