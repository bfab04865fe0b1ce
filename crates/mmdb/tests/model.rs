//! Random operations against a plain map: same answers, same state, after restarts too.

#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Locking, LogKind, Options, Row, Schema, Value};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Insert(u8, u8, String),
    Upsert(u8, u8, String),
    Update(u8, u8),
    UpdateText(u8, String),
    Delete(u8),
    Get(u8),
    GetBy(u8),
    Range(u8, u8, bool),
    Scan,
    Commit,
    Abort,
    Checkpoint,
    Reopen,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab]{0,6}", 1 => "[ab]{30,200}"]
}

fn op() -> impl Strategy<Value = Op> {
    let k = 0u8..24;
    let g = 0u8..4;
    prop_oneof![
        4 => (k.clone(), g.clone(), text()).prop_map(|(a, b, c)| Op::Insert(a, b, c)),
        3 => (k.clone(), g.clone(), text()).prop_map(|(a, b, c)| Op::Upsert(a, b, c)),
        3 => (k.clone(), g.clone()).prop_map(|(a, b)| Op::Update(a, b)),
        2 => (k.clone(), text()).prop_map(|(a, b)| Op::UpdateText(a, b)),
        3 => k.clone().prop_map(Op::Delete),
        2 => k.clone().prop_map(Op::Get),
        1 => g.prop_map(Op::GetBy),
        2 => (k.clone(), k, any::<bool>()).prop_map(|(a, b, c)| Op::Range(a, b, c)),
        1 => Just(Op::Scan),
        3 => Just(Op::Commit),
        1 => Just(Op::Abort),
        1 => Just(Op::Checkpoint),
        1 => Just(Op::Reopen),
    ]
}

/// id, group, text; `text` is unique, or NULL if empty.
fn schema(locking: Locking, ordered: bool) -> Schema {
    let s = Schema::new("t")
        .column("id", ColumnType::Int32)
        .column("grp", ColumnType::Int16)
        .nullable("txt", ColumnType::VarText(300));
    let s = if ordered { s.ordered_primary_key(&["id"]) } else { s.primary_key(&["id"]) };
    s.ordered_index("by_grp", &["grp", "id"]).hash_index("grp", &["grp"]).locking(locking)
}

type Model = BTreeMap<u8, (u8, String)>;

fn values<'a>(id: u8, g: u8, t: &'a str) -> [Value<'a>; 3] {
    [i64::from(id).into(), i64::from(g).into(), if t.is_empty() { Value::Null } else { t.into() }]
}

fn plain(r: &Row) -> (u8, (u8, String)) {
    let id = r.at(0).as_int().unwrap() as u8;
    (id, (r.at(1).as_int().unwrap() as u8, r.at(2).as_text().unwrap_or("").to_owned()))
}

fn run(ops: Vec<Op>, options: Options, locking: Locking, ordered: bool) {
    let mut db = Database::open("/db", options.clone()).unwrap();
    let mut table = db.create_table(schema(locking, ordered)).unwrap();
    let mut committed = Model::new();
    let mut ops = ops.into_iter().peekable();
    while ops.peek().is_some() {
        let mut tx = db.begin().unwrap();
        let mut m = committed.clone();
        let mut end = Op::Commit;
        for op in ops.by_ref() {
            match op {
                Op::Insert(k, g, s) => match tx.insert(&table, &values(k, g, &s)) {
                    Ok(()) => assert_eq!(m.insert(k, (g, s)), None),
                    Err(Error::DuplicateKey { constraint, .. }) => {
                        assert_eq!(constraint, "primary");
                        assert!(m.contains_key(&k));
                    }
                    Err(e) => panic!("{e}"),
                },
                Op::Upsert(k, g, s) => {
                    let was = tx.upsert(&table, &values(k, g, &s)).unwrap();
                    assert_eq!(was, m.insert(k, (g, s)).is_some());
                }
                Op::Update(k, g) => {
                    let did =
                        tx.update(&table, &[i64::from(k).into()], &[("grp", i64::from(g).into())]).unwrap();
                    assert_eq!(did, m.get_mut(&k).map(|v| v.0 = g).is_some());
                }
                Op::UpdateText(k, s) => {
                    let did =
                        tx.update(&table, &[i64::from(k).into()], &[("txt", values(0, 0, &s)[2])]).unwrap();
                    assert_eq!(did, m.get_mut(&k).map(|v| v.1 = s).is_some());
                }
                Op::Delete(k) => {
                    assert_eq!(tx.delete(&table, &[i64::from(k).into()]).unwrap(), m.remove(&k).is_some());
                }
                Op::Get(k) => {
                    let got = tx.get(&table, &[i64::from(k).into()]).unwrap();
                    assert_eq!(got.as_ref().map(|r| plain(r).1), m.get(&k).cloned());
                }
                Op::GetBy(g) => {
                    let mut got: Vec<_> =
                        tx.get_by(&table, "grp", &[i64::from(g).into()]).unwrap().iter().map(plain).collect();
                    got.sort();
                    let want: Vec<_> =
                        m.iter().filter(|e| e.1.0 == g).map(|(k, v)| (*k, v.clone())).collect();
                    assert_eq!(got, want);
                }
                Op::Range(a, b, rev) => {
                    let g = i64::from(a % 4);
                    let hi = [Value::Int(g), Value::Int(b.into())];
                    let lo = [Value::Int(g), Value::Int((a / 4).into())];
                    let c = tx.range(&table, "by_grp", lo..hi).unwrap();
                    let c = if rev { c.rev() } else { c };
                    let got: Vec<_> = c.map(|r| plain(&r.unwrap())).collect();
                    let mut want: Vec<_> = m
                        .iter()
                        .filter(|(k, v)| i64::from(v.0) == g && (a / 4..b).contains(k))
                        .map(|(k, v)| (*k, v.clone()))
                        .collect();
                    if rev {
                        want.reverse();
                    }
                    assert_eq!(got, want);
                    let whole =
                        tx.range(&table, "by_grp", [Value::Int(g)]..=[Value::Int(g)]).unwrap().count();
                    assert_eq!(whole, m.values().filter(|v| i64::from(v.0) == g).count());
                }
                Op::Scan => {
                    let mut got: Vec<_> = tx.scan(&table).unwrap().map(|r| plain(&r.unwrap())).collect();
                    if !ordered {
                        got.sort();
                    }
                    assert_eq!(got, m.clone().into_iter().collect::<Vec<_>>());
                }
                last => {
                    end = last;
                    break;
                }
            }
        }
        if matches!(end, Op::Abort) {
            tx.abort();
        } else {
            tx.commit().unwrap().wait().unwrap();
            committed = m;
        }
        assert_eq!(db.locks_held(), 0);
        db.verify().unwrap();
        match end {
            Op::Checkpoint => {
                db.checkpoint().unwrap();
            }
            Op::Reopen => {
                drop((table, db));
                db = Database::open("/db", options.clone()).unwrap();
                table = db.table("t").unwrap();
                db.verify().unwrap();
            }
            _ => {}
        }
    }
    drop((table, db));
    let db = Database::open("/db", options).unwrap();
    let table = db.table("t").unwrap();
    let mut tx = db.begin().unwrap();
    let mut got: Vec<_> = tx.scan(&table).unwrap().map(|r| plain(&r.unwrap())).collect();
    got.sort();
    assert_eq!(got, committed.into_iter().collect::<Vec<_>>());
}

fn options(streams: usize, after: bool) -> Options {
    Options {
        streams,
        log_kind: if after { LogKind::AfterImage } else { LogKind::Differential },
        background: false,
        segment_bytes: 32 << 10,
        container_bytes: 4096,
        ..Options::in_memory()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn operations_answer_as_a_map_does(
        ops in proptest::collection::vec(op(), 1..120),
        locking in prop_oneof![Just(Locking::Record), Just(Locking::Page), Just(Locking::Container), Just(Locking::None)],
        ordered: bool, streams in 1usize..3, after: bool,
    ) {
        run(ops, options(streams, after), locking, ordered);
    }
}

/// More writes in one transaction than the write set searches as a list.
#[test]
fn a_large_transaction_sees_its_own_changes() {
    let db = Database::open("/db", options(1, false)).unwrap();
    let t = db.create_table(schema(Locking::Record, true)).unwrap();
    let mut tx = db.begin().unwrap();
    for i in 0..200 {
        tx.insert(&t, &values(i, i % 4, "x")).unwrap();
    }
    for i in (0..200).step_by(2) {
        assert!(tx.delete(&t, &[i64::from(i).into()]).unwrap());
    }
    for i in (1..200).step_by(4) {
        assert!(tx.update(&t, &[i64::from(i).into()], &[("grp", 9.into())]).unwrap());
    }
    assert!(tx.insert(&t, &values(1, 0, "")).is_err());
    assert_eq!(tx.get_by(&t, "grp", &[9.into()]).unwrap().len(), 50);
    assert_eq!(tx.scan(&t).unwrap().count(), 100);
    tx.commit().unwrap().wait().unwrap();
    db.verify().unwrap();
    assert_eq!(db.begin().unwrap().get_by(&t, "grp", &[9.into()]).unwrap().len(), 50);
}
