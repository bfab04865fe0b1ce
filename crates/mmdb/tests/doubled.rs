//! A unique index that is built while rows come doubles no key.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use mmdb::{ColumnType, Database, Durability, NewIndex, Options, Sabotage, Schema};
use std::time::{Duration, Instant};

const ROWS: i64 = 200_000;
/// How long the transaction stays open at least, if the build does not end before.
const PATIENCE: Duration = Duration::from_millis(300);

/// A transaction looks for its key while the build has not yet come to the row that has it, and
/// commits when the build is done or it has waited for long; whether both came about in any round.
fn is_doubled(sabotage: Sabotage, rounds: usize) -> bool {
    let db = Database::open("/db", Options { sabotage, ..Options::in_memory() }).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("k", ColumnType::Int64);
    let t = db.create_table(schema.column("pad", ColumnType::VarText(4000)).primary_key(&["id"])).unwrap();
    for from in (0..ROWS).step_by(1000) {
        let put = |tx: &mut mmdb::Transaction<'_>| {
            (from..from + 1000).try_for_each(|id| tx.insert(&t, &[id.into(), id.into(), "".into()]))
        };
        let ((), _lazy) = db.run_with(Durability::Lazy, put).unwrap();
    }
    // Of a class of slots of its own, so in the last container: the build comes to it last.
    let pad = "p".repeat(3000);
    db.run(|tx| tx.insert(&t, &[(-1).into(), (-7).into(), (&*pad).into()])).unwrap();
    // How long the build takes depends on the machine, and on what else that does.
    let builds = (0..3).map(|_| {
        let begin = Instant::now();
        db.create_index(&t, NewIndex::hash("k", &["k"]).unique()).unwrap();
        let took = begin.elapsed();
        db.drop_index(&t, "k").unwrap();
        took
    });
    let took = builds.min().unwrap();
    let patience = PATIENCE.max(took * 4);
    (0..rounds).any(|round| {
        let (is_built, is_put) = std::thread::scope(|scope| {
            let build = scope.spawn(|| db.create_index(&t, NewIndex::hash("k", &["k"]).unique()).is_ok());
            std::thread::sleep(took * (1 + round as u32 % 30) / 30);
            let mut tx = db.begin().unwrap();
            let looked = tx.insert(&t, &[(-2).into(), (-7).into(), "".into()]);
            let begin = Instant::now();
            while !build.is_finished() && begin.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
            let is_put = looked.is_ok() && tx.commit().is_ok();
            (build.join().unwrap(), is_put)
        });
        let is_doubled = is_built && is_put;
        if is_put {
            db.run(|tx| tx.delete(&t, &[(-2).into()])).unwrap();
        }
        if is_built {
            db.drop_index(&t, "k").unwrap();
        }
        is_doubled
    })
}

/// What happened: such a transaction committed, the index was stated, and the next opening refused
/// the database, of which a row had to be given up. The mend: the build waits for whoever may have
/// looked too early, before it looks for doubled keys itself.
#[test]
fn no_key_is_doubled_while_a_unique_index_is_built() {
    assert!(!is_doubled(Sabotage::None, 8));
}

/// The test above notices a build that waits for nobody.
#[test]
fn a_build_that_waits_for_nobody_is_caught() {
    assert!(is_doubled(Sabotage::OutlastsNobody, 200));
}
