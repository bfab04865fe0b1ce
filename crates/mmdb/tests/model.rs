//! Random operations against a plain map: same answers, same state, after restarts too.

#![allow(clippy::unwrap_used)]

use mmdb::{
    ColumnType, Database, Decimal, Error, Locking, LogKind, Options, Row, Schema, Table, Transaction, Value,
};
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
    /// Every row of a scan, or from a group on, is looked at by a cursor that changes some.
    Sweep(Option<u8>, bool, u8),
    /// The rows of the groups from one to another go.
    DeleteRange(u8, u8),
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
        2 => (proptest::option::of(0u8..4), any::<bool>(), any::<u8>()).prop_map(|(g, r, s)| Op::Sweep(g, r, s)),
        1 => (0u8..4, 0u8..5).prop_map(|(a, b)| Op::DeleteRange(a, b)),
        3 => Just(Op::Commit),
        1 => Just(Op::Abort),
        1 => Just(Op::Checkpoint),
        1 => Just(Op::Reopen),
    ]
}

/// Types that the column of groups has: each orders its keys as the groups are.
const GROUP_TYPES: [ColumnType; 6] = [
    ColumnType::Int16,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float64,
    ColumnType::Decimal(2),
    ColumnType::Time,
];

/// A group as a column of this type has it: some below zero where that is possible, the others far
/// beyond signed integers.
fn group(kind: ColumnType, g: u8) -> Value<'static> {
    let n = i64::from(g);
    match kind {
        ColumnType::UInt32 => Value::UInt(u64::from(u32::MAX) - 9 + u64::from(g)),
        ColumnType::UInt64 => Value::UInt(u64::MAX - 9 + u64::from(g)),
        ColumnType::Float64 => Value::Float((n as f64 - 1.5) * 1e200),
        ColumnType::Decimal(scale) => Value::Decimal(Decimal::new(n * 150 - 200, scale).unwrap()),
        ColumnType::Time => Value::Time(n - 2),
        _ => Value::Int(n - 2),
    }
}

/// id, group, text; `text` is unique, or NULL if empty.
fn schema(locking: Locking, ordered: bool, kind: ColumnType) -> Schema {
    let s = Schema::new("t")
        .column("id", ColumnType::Int32)
        .column("grp", kind)
        .nullable("txt", ColumnType::VarText(300));
    let s = if ordered { s.ordered_primary_key(&["id"]) } else { s.primary_key(&["id"]) };
    s.ordered_index("by_grp", &["grp", "id"]).hash_index("grp", &["grp"]).locking(locking)
}

type Model = BTreeMap<u8, (u8, String)>;

fn values<'a>(kind: ColumnType, id: u8, g: u8, t: &'a str) -> [Value<'a>; 3] {
    [i64::from(id).into(), group(kind, g), if t.is_empty() { Value::Null } else { t.into() }]
}

fn plain(kind: ColumnType, r: &Row) -> (u8, (u8, String)) {
    let id = r.at(0).as_int().unwrap() as u8;
    let g = (0..10).find(|&g| group(kind, g) == r.at(1)).unwrap();
    (id, (g, r.at(2).as_text().unwrap_or("").to_owned()))
}

fn run(ops: Vec<Op>, options: Options, locking: Locking, ordered: bool, kind: ColumnType) {
    let plain = |r: &Row| plain(kind, r);
    let mut db = Database::open("/db", options.clone()).unwrap();
    let mut table = db.create_table(schema(locking, ordered, kind)).unwrap();
    let mut committed = Model::new();
    let mut ops = ops.into_iter().peekable();
    while ops.peek().is_some() {
        let mut tx = db.begin().unwrap();
        let mut m = committed.clone();
        let mut end = Op::Commit;
        for op in ops.by_ref() {
            match op {
                Op::Insert(k, g, s) => match tx.insert(&table, &values(kind, k, g, &s)) {
                    Ok(()) => assert_eq!(m.insert(k, (g, s)), None),
                    Err(Error::DuplicateKey { constraint, .. }) => {
                        assert_eq!(constraint, "primary");
                        assert!(m.contains_key(&k));
                    }
                    Err(e) => panic!("{e}"),
                },
                Op::Upsert(k, g, s) => {
                    let was = tx.upsert(&table, &values(kind, k, g, &s)).unwrap();
                    assert_eq!(was, m.insert(k, (g, s)).is_some());
                }
                Op::Update(k, g) => {
                    let did = tx.update(&table, &[i64::from(k).into()], &[("grp", group(kind, g))]).unwrap();
                    assert_eq!(did, m.get_mut(&k).map(|v| v.0 = g).is_some());
                }
                Op::UpdateText(k, s) => {
                    let did = tx
                        .update(&table, &[i64::from(k).into()], &[("txt", values(kind, 0, 0, &s)[2])])
                        .unwrap();
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
                        tx.get_by(&table, "grp", &[group(kind, g)]).unwrap().iter().map(plain).collect();
                    got.sort();
                    let want: Vec<_> =
                        m.iter().filter(|e| e.1.0 == g).map(|(k, v)| (*k, v.clone())).collect();
                    assert_eq!(got, want);
                }
                Op::Range(a, b, rev) => {
                    let g = a % 4;
                    let hi = [group(kind, g), Value::Int(b.into())];
                    let lo = [group(kind, g), Value::Int((a / 4).into())];
                    let c = tx.range(&table, "by_grp", lo..hi).unwrap();
                    let c = if rev { c.rev() } else { c };
                    let got: Vec<_> = c.map(|r| plain(&r.unwrap())).collect();
                    let mut want: Vec<_> = m
                        .iter()
                        .filter(|(k, v)| v.0 == g && (a / 4..b).contains(k))
                        .map(|(k, v)| (*k, v.clone()))
                        .collect();
                    if rev {
                        want.reverse();
                    }
                    assert_eq!(got, want);
                    let one = [group(kind, g)];
                    let whole = tx.range(&table, "by_grp", one..=one).unwrap().count();
                    assert_eq!(whole, m.values().filter(|v| v.0 == g).count());
                    // From this group on, in the order of the groups.
                    let from = tx.range(&table, "by_grp", one..).unwrap().map(|r| plain(&r.unwrap()));
                    let got: Vec<_> = from.map(|(k, v)| (v.0, k)).collect();
                    let mut want: Vec<_> = m.iter().map(|(k, v)| (v.0, *k)).filter(|e| e.0 >= g).collect();
                    want.sort_unstable();
                    assert_eq!(got, want);
                }
                Op::Scan => {
                    let mut got: Vec<_> = tx.scan(&table).unwrap().map(|r| plain(&r.unwrap())).collect();
                    if !ordered {
                        got.sort();
                    }
                    assert_eq!(got, m.clone().into_iter().collect::<Vec<_>>());
                }
                Op::Sweep(from, rev, seed) => {
                    sweep(&mut tx, (&table, kind, ordered), (from, rev, seed), &mut m)
                }
                Op::DeleteRange(a, b) => {
                    let (low, high) = ([group(kind, a)], [group(kind, b)]);
                    let gone = tx.delete_range(&table, "by_grp", low..high).unwrap();
                    let before = m.len();
                    m.retain(|_, v| !(a..b).contains(&v.0));
                    assert_eq!(gone, (before - m.len()) as u64);
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

/// A cursor shows every row once, as it was before the sweep, whatever is done to it there: rows
/// that stay, go, move ahead or back in the index, or to a larger slot.
fn sweep(
    tx: &mut Transaction<'_>,
    (table, kind, ordered): (&Table, ColumnType, bool),
    (from, rev, seed): (Option<u8>, bool, u8),
    m: &mut Model,
) {
    let mut want: Vec<_> = m.iter().map(|(k, v)| (*k, v.clone())).collect();
    if let Some(g) = from {
        want.retain(|(_, v)| v.0 >= g);
        want.sort_by_key(|(k, v)| (v.0, *k));
    }
    let cursor = match from {
        Some(g) => tx.range(table, "by_grp", [group(kind, g)]..).unwrap(),
        None => tx.scan(table).unwrap(),
    };
    let cursor = if rev { cursor.rev() } else { cursor };
    let mut cursor = if seed % 2 == 0 { cursor.for_update() } else { cursor };
    let mut seen = Vec::new();
    assert!(cursor.delete().is_err() && cursor.update(&[]).is_err(), "it is before the first row");
    while let Some((k, v)) = cursor.next_with(|row| plain(kind, &row.to_row())).unwrap() {
        let to = v.0.wrapping_add(seed) % 4;
        match (u64::from(k) * 7 + u64::from(seed)) % 6 {
            0 => {}
            1 => {
                assert!(cursor.delete().unwrap());
                m.remove(&k);
                assert!(!cursor.delete().unwrap() && !cursor.update(&[("txt", "a".into())]).unwrap());
            }
            2 => {
                assert!(cursor.update(&[("grp", group(kind, to))]).unwrap());
                m.get_mut(&k).unwrap().0 = to;
            }
            3 => {
                let text = "b".repeat(usize::from(seed));
                assert!(cursor.update_at(&[(2, text.as_str().into())]).unwrap());
                m.get_mut(&k).unwrap().1 = text;
            }
            4 => {
                let set = [("grp", group(kind, to)), ("txt", values(kind, 0, 0, "")[2])];
                assert!(cursor.update(&set).unwrap() && cursor.delete().unwrap());
                m.remove(&k);
            }
            _ => {
                let refused = cursor.update(&[("id", 1.into())]);
                assert!(matches!(refused, Err(Error::Operation { .. })), "{refused:?}");
            }
        }
        seen.push((k, v));
    }
    assert!(cursor.delete().is_err(), "it is behind the last row");
    if rev {
        want.reverse();
    }
    if from.is_none() && !ordered {
        seen.sort();
        want.sort();
    }
    assert_eq!(seen, want);
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
        kind in proptest::sample::select(GROUP_TYPES.to_vec()),
    ) {
        run(ops, options(streams, after), locking, ordered, kind);
    }
}

/// More writes in one transaction than the write set searches as a list.
#[test]
fn a_large_transaction_sees_its_own_changes() {
    let db = Database::open("/db", options(1, false)).unwrap();
    let kind = ColumnType::Int16;
    let t = db.create_table(schema(Locking::Record, true, kind)).unwrap();
    let mut tx = db.begin().unwrap();
    for i in 0..200 {
        tx.insert(&t, &values(kind, i, i % 4, "x")).unwrap();
    }
    for i in (0..200).step_by(2) {
        assert!(tx.delete(&t, &[i64::from(i).into()]).unwrap());
    }
    for i in (1..200).step_by(4) {
        assert!(tx.update(&t, &[i64::from(i).into()], &[("grp", group(kind, 9))]).unwrap());
    }
    assert!(tx.insert(&t, &values(kind, 1, 0, "")).is_err());
    assert_eq!(tx.get_by(&t, "grp", &[group(kind, 9)]).unwrap().len(), 50);
    assert_eq!(tx.scan(&t).unwrap().count(), 100);
    tx.commit().unwrap().wait().unwrap();
    db.verify().unwrap();
    assert_eq!(db.begin().unwrap().get_by(&t, "grp", &[group(kind, 9)]).unwrap().len(), 50);
}

/// A number of each new type, and often the same.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    small: u32,
    large: u64,
    float: f64,
    truth: bool,
    decimal: i64,
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let float = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 0.1, -5e-324, f64::MAX];
    let float = prop_oneof![proptest::sample::select(float.to_vec()), any::<f64>()];
    let large = prop_oneof![Just(u64::MAX), Just(i64::MAX as u64), 0..3u64, any::<u64>()];
    let small = prop_oneof![Just(u32::MAX), 0..3u32, any::<u32>()];
    let decimal = prop_oneof![Just(i64::MIN), Just(i64::MAX), -3..3i64, any::<i64>()];
    (small, large, float, any::<bool>(), decimal).prop_map(|(small, large, float, truth, decimal)| Numbers {
        small,
        large,
        float,
        truth,
        decimal,
    })
}

/// PostgreSQL's order, written from its manual ("Floating-Point Types") and not from the engine's.
fn float_cmp(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Each type in an ordered index of its own, before and after a restart that replays the log or
    /// reads images.
    #[test]
    fn numbers_are_in_order_and_read_back_to_the_bit(
        all in proptest::collection::vec(numbers(), 1..40), after: bool, checkpoint: bool,
    ) {
        let s = Schema::new("t")
            .column("id", ColumnType::UInt32)
            .column("small", ColumnType::UInt32)
            .column("large", ColumnType::UInt64)
            .nullable("float", ColumnType::Float64)
            .column("truth", ColumnType::Bool)
            .column("decimal", ColumnType::Decimal(4))
            .ordered_primary_key(&["id"]);
        let names = ["small", "large", "float", "truth", "decimal"];
        let s = names.iter().fold(s, |s, name| s.ordered_index(name, &[name, "id"]));
        let options = options(1, after);
        let db = Database::open("/db", options.clone()).unwrap();
        let t = db.create_table(s).unwrap();
        let row = |id: usize| {
            let n = &all[id];
            let decimal = Decimal::new(n.decimal, 4).unwrap();
            [id.try_into().map(Value::UInt).unwrap(), n.small.into(), n.large.into(), n.float.into(), n.truth.into(), decimal.into()]
        };
        db.run(|tx| (0..all.len()).try_for_each(|id| tx.insert(&t, &row(id)))).unwrap();
        if checkpoint {
            db.checkpoint().unwrap();
        }
        drop((t, db));
        let db = Database::open("/db", options).unwrap();
        db.verify().unwrap();
        let t = db.table("t").unwrap();
        let mut tx = db.begin().unwrap();
        for (at, name) in names.iter().enumerate() {
            let mut want: Vec<usize> = (0..all.len()).collect();
            want.sort_by(|&a, &b| {
                let (x, y) = (&all[a], &all[b]);
                let order = match at {
                    0 => x.small.cmp(&y.small),
                    1 => x.large.cmp(&y.large),
                    2 => float_cmp(x.float, y.float),
                    3 => x.truth.cmp(&y.truth),
                    _ => x.decimal.cmp(&y.decimal),
                };
                order.then(a.cmp(&b))
            });
            let rows: Vec<Row> = tx.range::<[Value<'_>; 0]>(&t, name, ..).unwrap().map(Result::unwrap).collect();
            let got: Vec<usize> = rows.iter().map(|r| r.at(0).as_uint().unwrap() as usize).collect();
            prop_assert_eq!(&got, &want, "{}", name);
            for r in &rows {
                let id = r.at(0).as_uint().unwrap() as usize;
                prop_assert_eq!(r.values(), row(id));
                prop_assert_eq!(r.at(3).as_float().unwrap().to_bits(), all[id].float.to_bits());
            }
            // What equals the first is found by it, and nothing else.
            let key = row(want[0])[at + 1];
            let equal = want.iter().filter(|&&id| row(id)[at + 1] == key).count();
            prop_assert_eq!(tx.range(&t, name, [key]..=[key]).unwrap().count(), equal);
        }
    }
}
