//! What happens between two steps of a read by a key, made to happen there.
//!
//! The place that an index leads to is followed later. Here the row moves just then, or is deleted
//! and its slot given to another key, or both, and so on; with keys that an index takes for each
//! other as well. Whatever comes between, a read finds the row of its key as it was before or is
//! after, and no other one.

use crate::index::alike;
use crate::key::hash;
use crate::{
    ColumnType, Database, Locking, Options, RowView, Sabotage, Schema, Snapshot, Table, Transaction, Value,
    pause,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Two keys of which the index knows only when it compares them that they are two.
pub(crate) fn two_alike() -> [i64; 2] {
    let mut seen = HashMap::new();
    let alike = |id: i64| alike(hash(&(id as u64 ^ 1 << 63).to_be_bytes()));
    let second = (1..).find_map(|id| seen.insert(alike(id), id).map(|first| [first, id]));
    second.expect("there are more keys than bits")
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Delete(i64),
    /// A row of this key, this long.
    Put(i64, usize),
    /// Of this key, deleted and inserted again by one transaction.
    Replace(i64, usize),
}

/// The key of a row, and how long it is.
type Length = (i64, usize);

/// The lengths of the rows by their keys.
type Rows = HashMap<i64, usize>;

#[derive(Clone)]
struct Store {
    db: Database,
    t: Table,
}

impl Store {
    fn new(locking: Locking, ordered: bool, sabotage: Sabotage) -> Store {
        let options = Options {
            segment_bytes: 16384,
            container_bytes: 4096,
            checkpoint_log_bytes: 0,
            sabotage,
            ..Options::in_memory()
        };
        let db = Database::open("/db", options).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarBytes(900));
        let s = if ordered { s.ordered_primary_key(&["id"]) } else { s.primary_key(&["id"]) };
        let t = db.create_table(s.locking(locking)).unwrap();
        Store { db, t }
    }

    fn make(&self, step: Step) {
        let row = |id: i64, len: usize| [Value::Int(id), Value::Bytes(&[7; 900][..len])];
        let act = |tx: &mut Transaction<'_>| match step {
            Step::Delete(id) => tx.delete(&self.t, &[id.into()]).map(|_| ()),
            Step::Put(id, len) => tx.upsert(&self.t, &row(id, len)).map(|_| ()),
            Step::Replace(id, len) => {
                tx.delete(&self.t, &[id.into()])?;
                tx.insert(&self.t, &row(id, len))
            }
        };
        self.db.run(act).unwrap();
    }

    fn place(&self, id: i64) -> Option<u64> {
        let key = (id as u64 ^ 1 << 63).to_be_bytes();
        self.t.0.indexes[0].find(&key, hash(&key)).map(|rid| rid.0)
    }
}

fn change(rows: &mut Rows, step: Step) {
    match step {
        Step::Delete(id) => drop(rows.remove(&id)),
        Step::Put(id, len) | Step::Replace(id, len) => drop(rows.insert(id, len)),
    }
}

/// The length of the row of each key, by one way of reading.
fn read(store: &Store, snapshot: &Snapshot<'_>, way: usize, keys: &[i64]) -> Vec<Option<usize>> {
    let Store { db, t } = store;
    let mut all = vec![None; keys.len()];
    let mut see = |n: usize, row: Option<RowView<'_>>| {
        all[n] = row.map(|row| {
            assert_eq!(row.at(0).as_int(), Some(keys[n]), "the row of another key");
            row.at(1).as_bytes().map_or(0, <[u8]>::len)
        });
    };
    let values: Vec<_> = keys.iter().map(|id| [Value::Int(*id)]).collect();
    match way {
        0 => values
            .iter()
            .enumerate()
            .for_each(|(n, key)| see(n, db.get(t, key).unwrap().as_ref().map(|r| r.view()))),
        1 => db.get_many_with(t, &values, see).unwrap(),
        2 => values
            .iter()
            .enumerate()
            .for_each(|(n, key)| see(n, snapshot.get(t, key).unwrap().as_ref().map(|r| r.view()))),
        _ => snapshot.get_many_with(t, &values, see).unwrap(),
    }
    all
}

/// Reads `keys` in each way while `steps` happen at the pause number `at`. Whether slots were given
/// to other keys.
fn read_beside(
    (locking, ordered, sabotage): (Locking, bool, Sabotage),
    first: &[(i64, usize)],
    steps: &[Step],
    keys: &[i64],
) -> bool {
    let mut reused = false;
    for way in 0..4 {
        for at in 0..keys.len() {
            let store = Store::new(locking, ordered, sabotage);
            let mut states = vec![Rows::new()];
            for &(id, len) in first {
                store.make(Step::Put(id, len));
                change(&mut states[0], Step::Put(id, len));
            }
            for step in steps {
                let mut rows = states.last().unwrap().clone();
                change(&mut rows, *step);
                states.push(rows);
            }
            let snapshot = store.db.snapshot().unwrap();
            let before: Vec<_> = first.iter().map(|(id, _)| (*id, store.place(*id))).collect();
            let (there, steps) = (store.clone(), steps.to_vec());
            // The last one that was told comes first.
            pause::at_next(move || steps.iter().for_each(|step| there.make(*step)));
            (0..at).for_each(|_| pause::at_next(|| ()));
            let found = read(&store, &snapshot, way, keys);
            pause::clear();
            for (key, found) in keys.iter().zip(found) {
                let what = format!("key {key}, way {way}, pause {at}, {locking:?}, ordered: {ordered}");
                if way >= 2 {
                    assert_eq!(found, states[0].get(key).copied(), "{what}");
                } else {
                    assert!(states.iter().any(|rows| rows.get(key).copied() == found), "{what}: {found:?}");
                }
            }
            for (id, place) in before {
                let others = states.last().unwrap().keys().filter(|other| **other != id);
                reused |= others.into_iter().any(|other| place.is_some() && store.place(*other) == place);
            }
        }
    }
    reused
}

/// Every intrusion with every way of reading.
fn all_of_them(sabotage: Sabotage) {
    let [a, b] = two_alike();
    let mut reused = 0;
    for (x, y) in [(1, 2), (a, b), (b, a)] {
        let z = 1_000_000_007;
        let intrusions: [(&[Length], &[Step]); 9] = [
            (&[(x, 3)], &[]),
            (&[(x, 3), (y, 4)], &[]),
            (&[(x, 3), (y, 4)], &[Step::Put(x, 800)]),
            (&[(x, 3), (y, 4)], &[Step::Delete(x)]),
            (&[(x, 3)], &[Step::Delete(x), Step::Put(y, 4)]),
            (&[(x, 3), (y, 4)], &[Step::Replace(x, 5)]),
            (&[(x, 3), (y, 4)], &[Step::Put(x, 800), Step::Put(z, 5)]),
            (&[(x, 3), (y, 4)], &[Step::Delete(x), Step::Put(z, 5), Step::Put(x, 6)]),
            (&[(x, 3), (y, 4)], &[Step::Delete(y), Step::Delete(x), Step::Put(y, 5), Step::Put(x, 6)]),
        ];
        for locking in [Locking::Record, Locking::Page, Locking::None] {
            for ordered in [false, true] {
                for (first, steps) in intrusions {
                    for keys in [&[x, y, z][..], &[y, x], &[x]] {
                        let of = (locking, ordered, sabotage);
                        reused += u32::from(read_beside(of, first, steps, keys));
                    }
                }
            }
        }
    }
    assert!(reused >= 100, "slots were given to other keys {reused} times only");
}

#[test]
fn whatever_comes_between_a_read_finds_the_row_of_its_key() {
    all_of_them(Sabotage::None);
}

/// Reads that leave a part of their rules out are noticed, and surely: no chance is in this.
#[test]
fn reads_that_believe_what_leads_them_are_noticed() {
    for defect in [Sabotage::BelievesHashes, Sabotage::ReadsAnyRow] {
        let run = AssertUnwindSafe(|| all_of_them(defect));
        assert!(catch_unwind(run).is_err(), "{defect:?} is not noticed");
        pause::clear();
    }
}
