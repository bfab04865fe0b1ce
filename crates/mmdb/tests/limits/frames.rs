//! A transaction that is larger than a log segment is told so by the change that makes it so.
//!
//! A frame lies in one segment. The limit was told by the commit only: minutes of work were lost,
//! after the application had been told that every change of it was fine. Now the first change that
//! is too much is refused, and what came before can still be committed. It is the same limit, to
//! the byte.

use mmdb::{ColumnType, Database, Error, LogKind, Options, Schema, Table, Value};

/// Bytes of a segment that no body of a frame can have: the header's block, the frame's head,
/// alignment.
const OVERHEAD: u64 = 4096 + 32 + 8;

fn open(segment_bytes: u64, log_kind: LogKind) -> (Database, Table) {
    let options = Options { segment_bytes, log_kind, background: false, ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("b", ColumnType::VarBytes(60_000));
    let t = db.create_table(schema.primary_key(&["id"])).unwrap();
    (db, t)
}

/// Bytes without runs of zeros.
fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 + 1).collect()
}

/// Inserts rows of 1000 bytes until one is too large, then one that fills the frame up to `spare`
/// bytes below the limit; the size that is reported where that is one too many.
fn fill_up(db: &Database, t: &Table, spare: i64) -> (u64, mmdb::Result<u64>) {
    let mut tx = db.begin().unwrap();
    let row = noise(1000);
    let mut id = 0;
    while match tx.insert(t, &[id.into(), Value::Bytes(&row)]) {
        Err(Error::TransactionTooLarge { bytes, max }) => bytes <= max,
        done => done.map(|()| true).unwrap(),
    } {
        id += 1;
    }
    // One row makes room for a longer one, which is first too long and then, by what it was told,
    // just as long as it may be.
    id -= 1;
    assert!(tx.delete(t, &[id.into()]).unwrap());
    let mut len = 2100;
    while let Err(e) = tx.insert(t, &[id.into(), Value::Bytes(&noise(len))]) {
        let Error::TransactionTooLarge { bytes, max } = e else { panic!("{e}") };
        len -= (bytes - max) as usize;
    }
    // It is in now, and the frame is full to the byte or nearly. Change its length by what is asked
    // for.
    tx.delete(t, &[id.into()]).unwrap();
    let len = (len as i64 - spare) as usize;
    let done = tx.insert(t, &[id.into(), Value::Bytes(&noise(len))]);
    let rows = id as u64 + u64::from(done.is_ok());
    let done = match done {
        Ok(()) => Ok(0),
        Err(Error::TransactionTooLarge { bytes, max }) => Ok(bytes - max),
        Err(e) => Err(e),
    };
    // Whatever was refused, the rest commits.
    tx.commit().unwrap().wait().unwrap();
    (rows, done)
}

#[test]
fn the_limit_is_told_by_the_first_change_that_passes_it_to_the_byte() {
    for segment in [16 << 10, 20 << 10, 64 << 10, 1 << 20] {
        for kind in [LogKind::Differential, LogKind::AfterImage] {
            for (spare, over) in [(1, 0), (0, 0), (-1, 1), (-2, 2), (-100, 100)] {
                let (db, t) = open(segment, kind);
                let (rows, done) = fill_up(&db, &t, spare);
                assert_eq!(done.unwrap(), over, "{segment} {kind:?}, {spare} bytes below");
                assert_eq!(db.stats().tables[0].rows, rows);
                db.verify().unwrap();
            }
        }
    }
}

#[test]
fn a_frame_of_the_largest_size_is_recovered() {
    for segment in [16 << 10, 32 << 10, 256 << 10] {
        let options = Options { segment_bytes: segment, background: false, ..Options::in_memory() };
        let db = Database::open("/db", options.clone()).unwrap();
        let schema =
            Schema::new("t").column("id", ColumnType::Int64).column("b", ColumnType::VarBytes(60_000));
        let t = db.create_table(schema.primary_key(&["id"])).unwrap();
        let (rows, done) = fill_up(&db, &t, 0);
        assert_eq!(done.unwrap(), 0);
        drop((t, db));
        let db = Database::open("/db", options).unwrap();
        assert_eq!((db.recovery().cut, db.stats().tables[0].rows), (1, rows));
        let body = db.recovery().log_bytes - 32;
        assert!(body <= segment - OVERHEAD && body + 8 > segment - OVERHEAD, "{body} of {segment}");
        db.verify().unwrap();
    }
}

#[test]
fn updates_deletes_and_moves_are_counted_like_inserts() {
    for kind in [LogKind::Differential, LogKind::AfterImage] {
        let (db, t) = open(16 << 10, kind);
        for id in 0..60i64 {
            db.run(|tx| tx.insert(&t, &[id.into(), Value::Bytes(&noise(400))])).unwrap();
        }
        // Every byte changes; some rows move to a larger slot; some are changed twice or deleted
        // after all.
        let mut tx = db.begin().unwrap();
        let mut refused = 0;
        for id in 0..60i64 {
            let other: Vec<u8> =
                noise(if id % 3 == 0 { 900 } else { 400 }).iter().map(|b| b ^ 0x80).collect();
            let twice: Vec<u8> = noise(350).iter().map(|b| b ^ 0x40).collect();
            for row in [&other, &twice] {
                match tx.update(&t, &[id.into()], &[("b", Value::Bytes(row))]) {
                    Ok(there) => assert!(there),
                    Err(Error::TransactionTooLarge { bytes, max }) => {
                        assert!(bytes > max);
                        refused += 1;
                    }
                    Err(e) => panic!("{e}"),
                }
                if id % 5 == 0 && id < 20 {
                    assert!(tx.delete(&t, &[id.into()]).unwrap());
                    break;
                }
            }
        }
        assert!(refused > 10, "{refused}");
        tx.commit().unwrap().wait().unwrap();
        db.verify().unwrap();
        assert_eq!(db.stats().tables[0].rows, 56);
    }
}

#[test]
fn a_single_row_that_no_segment_holds_is_refused_by_its_insert() {
    let (db, t) = open(16 << 10, LogKind::Differential);
    let e = db.run(|tx| tx.insert(&t, &[1.into(), Value::Bytes(&noise(40_000))])).unwrap_err();
    assert!(matches!(e, Error::TransactionTooLarge { max, .. } if max == (16 << 10) - OVERHEAD), "{e}");
    assert!(e.to_string().contains("Options::segment_bytes"), "{e}");
    db.run(|tx| tx.insert(&t, &[1.into(), Value::Bytes(&noise(10_000))])).unwrap();
}
