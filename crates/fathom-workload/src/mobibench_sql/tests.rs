use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::content::{Content, write_value};
use super::plan::{Operation, Plan};
use crate::engine::{Connection, Dialect, Engine, EngineError, EngineInfo, start_engine};
use crate::sample::tests::MemorySink;
use crate::spec::{Durability, EngineSpec, WorkloadSpec};
use crate::workload::{Context, Workload, WorkloadError};

fn map(pairs: &[(&str, Json)]) -> BTreeMap<String, Json> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn workload(params: &[(&str, Json)]) -> Result<Box<dyn Workload>, WorkloadError> {
    crate::create(&WorkloadSpec { name: "mobibench-sql".into(), params: map(params) })
}

fn run_on(engine: &dyn Engine, params: &[(&str, Json)]) -> Result<MemorySink, WorkloadError> {
    let mut kept = MemorySink::default();
    let context = Context { directory: engine.directory(), engine: Some(engine), seed: 42 };
    workload(params)?.run(&context, &mut kept)?;
    assert!((kept.done - 1.0).abs() < 1e-9);
    Ok(kept)
}

fn run(settings: &[(&str, Json)], params: &[(&str, Json)]) -> Result<MemorySink, WorkloadError> {
    let directory = tempfile::tempdir().unwrap();
    let engine =
        start_engine(&EngineSpec { name: "sqlite".into(), settings: map(settings) }, directory.path())?;
    run_on(engine.as_ref(), params)
}

fn checksums(kept: &MemorySink) -> Vec<String> {
    kept.checks.iter().filter(|check| check.contains("checksum")).cloned().collect()
}

#[test]
fn every_journal_mode_and_both_kinds_of_statements_do_the_same_work() {
    let mut seen: Vec<Vec<String>> = Vec::new();
    for mode in ["delete", "truncate", "persist", "memory", "wal", "off"] {
        for statements in ["text", "prepared"] {
            let settings = [("journal_mode", json!(mode)), ("synchronous", json!("normal"))];
            let kept =
                run(&settings, &[("transactions", json!(30)), ("statements", json!(statements))]).unwrap();
            let phases: Vec<_> =
                kept.phases.iter().map(|p| (p.phase.as_str(), p.count, p.unit.as_str())).collect();
            let expected = ["insert", "update", "delete"].map(|name| (name, 30, "transaction"));
            assert_eq!(phases, expected, "{mode} {statements}");
            assert_eq!(kept.samples.len(), 90);
            assert!(kept.samples.iter().all(|sample| sample.rows == 3 && sample.split.wall_ns > 0));
            assert!(kept.checks.contains(&"integrity_check ok".to_owned()));
            assert!(kept.warnings.is_empty(), "{:?}", kept.warnings);
            seen.push(checksums(&kept));
        }
    }
    assert!(seen[0][0].starts_with("insert: all 90 rows") && seen[0][2].starts_with("delete: all 0 rows"));
    assert!(seen.iter().all(|checks| *checks == seen[0]), "{seen:?}");
}

#[test]
fn the_checkpoint_is_in_the_phase_but_in_no_transaction() {
    let settings = [("journal_mode", json!("wal")), ("wal_autocheckpoint", json!(0))];
    let params = |checkpoint: bool| {
        [("transactions", json!(20)), ("phases", json!("insert")), ("checkpoint", json!(checkpoint))]
    };
    // Splits are the thread's own; the I/O rows are the process's, in which other tests run too.
    let besides = |kept: &MemorySink| {
        let in_transactions: u64 = kept.samples.iter().map(|sample| sample.split.write_calls).sum();
        kept.phases[0].split.write_calls - in_transactions
    };
    let with = run(&settings, &params(true)).unwrap();
    let without = run(&settings, &params(false)).unwrap();
    assert!(besides(&with) > 0, "{:?}", with.phases);
    assert_eq!(besides(&without), 0, "{:?}", without.phases);
    assert!(with.phases[0].wall_ns >= with.phases[0].split.wall_ns);
}

/// The end of a transaction, after some milliseconds of computing: longer than a thread has the
/// processor for itself.
const LATE_COMMIT: &str = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 40000) \
                           SELECT max(x) FROM c; COMMIT;";

#[test]
fn several_connections_on_one_file_wait_for_each_other() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let settings = map(&[("journal_mode", json!(mode)), ("busy_timeout", json!(60_000))]);
        let spec = EngineSpec { name: "sqlite".into(), settings };
        let engine = start_engine(&spec, directory.path()).unwrap();
        // Who holds the lock keeps it for a while: on one processor with its files in memory, each
        // could else be through before the next one comes.
        let engine = Spoiler { engine: &*engine, spoils: ("COMMIT;", LATE_COMMIT) };
        let params = [
            ("transactions", json!(43)),
            ("threads", json!(4)),
            ("shared", json!(true)),
            ("tables", json!(2)),
        ];
        let kept = run_on(&engine, &params).unwrap();
        assert_eq!(kept.phases.iter().map(|phase| phase.count).collect::<Vec<_>>(), [43; 3]);
        assert!(kept.phases.iter().any(|phase| phase.lock_waits.unwrap() > 0), "{mode}: nobody ever waited");
        assert!(
            kept.phases.iter().all(|phase| (phase.lock_waits == Some(0)) == (phase.lock_wait_ns == Some(0)))
        );
        let threads: std::collections::BTreeSet<u32> =
            kept.samples.iter().map(|sample| sample.thread).collect();
        assert_eq!(threads.len(), 4);
        let starts_in_order: Vec<u64> = kept.samples.iter().take(43).map(|sample| sample.seq).collect();
        assert_eq!(starts_in_order, (0..43).collect::<Vec<_>>());
    }
}

#[test]
fn threads_with_databases_of_their_own_and_attached_databases() {
    let params =
        [("transactions", json!(21)), ("threads", json!(2)), ("databases", json!(3)), ("rows", json!(50))];
    let kept = run(&[], &params).unwrap();
    assert!(kept.samples.iter().all(|sample| sample.rows == 9));
    let checks = checksums(&kept);
    assert!(checks[0].starts_with("insert: all 189 rows"), "{checks:?}");
    assert!(checks[1].starts_with("update: all 450 rows"), "{checks:?}");
    assert!(checks[2].starts_with("delete: all 261 rows"), "{checks:?}");
    assert!(kept.rows.iter().any(|row| row.class == "super-journal"), "several databases commit as one");
}

/// Mobibench until 2017, which P4 ran, made its table with AUTOINCREMENT: each insert then writes
/// the page of `sqlite_sequence` as well, and an update does not.
#[test]
fn autoincrement_writes_the_greatest_id_with_each_insert() {
    let writes = |autoincrement: bool| {
        let params =
            [("transactions", json!(20)), ("tables", json!(1)), ("autoincrement", json!(autoincrement))];
        let kept = run(&[("journal_mode", json!("delete"))], &params).unwrap();
        [0, 1].map(|phase: usize| kept.phases[phase].split.write_calls)
    };
    let (with, without) = (writes(true), writes(false));
    // Its page in the journal (number, content, checksum) and in the database.
    assert!(with[0] >= without[0] + 20 * 4, "{with:?} {without:?}");
    assert_eq!(with[1], without[1]);
}

#[test]
fn phases_alone_fill_their_tables_first() {
    for phase in ["update", "delete"] {
        let kept = run(
            &[],
            &[("transactions", json!(10)), ("phases", json!([phase])), ("random_insert", json!(true))],
        );
        assert_eq!(kept.unwrap().phases.iter().map(|p| p.phase.clone()).collect::<Vec<_>>(), [phase]);
    }
    let kept = run(
        &[],
        &[("transactions", json!(10)), ("random_insert", json!(true)), ("phases", json!(["insert"]))],
    );
    assert!(checksums(&kept.unwrap())[0].starts_with("insert: all 30 rows"));
}

#[test]
fn an_interval_counts_in_the_phase_but_in_no_transaction() {
    let params = [("transactions", json!(5)), ("interval_ms", json!(20)), ("phases", json!("insert"))];
    let kept = run(&[("synchronous", json!("off"))], &params).unwrap();
    let phase = &kept.phases[0];
    assert!(phase.wall_ns >= phase.split.wall_ns + 4 * 20_000_000, "{phase:?}");
}

#[test]
fn parameters_that_do_not_go_together_are_refused() {
    let message = |params: &[(&str, Json)]| workload(params).err().unwrap().to_string();
    assert!(
        message(&[("rows", json!(5)), ("transactions", json!(10))])
            .contains("parameter rows: must be at least")
    );
    assert!(
        message(&[("threads", json!(5)), ("transactions", json!(4))])
            .contains("parameter threads: must be at most")
    );
    assert!(message(&[("table", json!(1))]).contains("did you mean `tables`?"));
    let directory = tempfile::tempdir().unwrap();
    let context = Context { directory: directory.path(), engine: None, seed: 1 };
    let error = workload(&[]).unwrap().run(&context, &mut MemorySink::default()).unwrap_err().to_string();
    assert!(error.contains("needs one"), "{error}");
}

/// An engine that does something else than it is told: loses or spoils what it should store, to see
/// that the checks notice, or takes longer.
struct Spoiler<'a> {
    engine: &'a dyn Engine,
    /// In a transaction's text: what is replaced by what.
    spoils: (&'static str, &'static str),
}

struct SpoiledConnection {
    connection: Box<dyn Connection>,
    spoils: (&'static str, &'static str),
}

impl Engine for Spoiler<'_> {
    fn connect(&self, name: &str) -> Result<Box<dyn Connection>, EngineError> {
        Ok(Box::new(SpoiledConnection { connection: self.engine.connect(name)?, spoils: self.spoils }))
    }
    fn info(&self) -> EngineInfo {
        self.engine.info()
    }
    fn dialect(&self) -> Dialect {
        self.engine.dialect()
    }
    fn durability(&self) -> Durability {
        self.engine.durability()
    }
    fn directory(&self) -> &Path {
        self.engine.directory()
    }
    fn forget_caches(&self) -> Result<(), EngineError> {
        self.engine.forget_caches()
    }
}

impl Connection for SpoiledConnection {
    fn execute_script(&mut self, sql: &str) -> Result<(), EngineError> {
        self.connection.execute_script(&sql.replace(self.spoils.0, self.spoils.1))
    }
    fn prepare(&mut self, sql: &str) -> Result<crate::engine::Statement, EngineError> {
        self.connection.prepare(&sql.replace(self.spoils.0, self.spoils.1))
    }
    fn execute(
        &mut self,
        statement: crate::engine::Statement,
        params: &[crate::engine::Value],
    ) -> Result<u64, EngineError> {
        self.connection.execute(statement, params)
    }
    fn query(
        &mut self,
        statement: crate::engine::Statement,
        params: &[crate::engine::Value],
        on_row: &mut dyn FnMut(&[crate::engine::Value]),
    ) -> Result<u64, EngineError> {
        self.connection.query(statement, params, on_row)
    }
    fn drain(
        &mut self,
        statement: crate::engine::Statement,
        params: &[crate::engine::Value],
    ) -> Result<(u64, u64), EngineError> {
        self.connection.drain(statement, params)
    }
    fn lock_waits(&self) -> Option<(u64, u64)> {
        self.connection.lock_waits()
    }
    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.connection.close()
    }
}

#[test]
fn work_that_was_not_done_fails_the_run() {
    let cases = [
        ("COMMIT;", "ROLLBACK;", "text", "insert", "no such table"),
        ("id=7;", "id=-7;", "text", "delete", "found a row that should not be there"),
        ("VALUES(7,", "VALUES(70,", "text", "insert", "row 7 should be there"),
        ("VALUES(9,", "VALUES(-9,", "text", "insert", "row 0 should be there"),
        ("INSERT INTO tblMyList1(id,Value) VALUES(9,", "SELECT (9,", "text", "insert", "row value misused"),
        ("WHERE id = 7;", "WHERE id = 8;", "text", "update", "should be there with"),
        ("WHERE id = $1", "WHERE id = $1 + 100", "prepared", "delete", "changed 0 rows instead of one"),
        ("WHERE id = $2", "WHERE id <= $2", "prepared", "update", "rows instead of one"),
    ];
    for (spoil, by, statements, phase, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let spec = EngineSpec { name: "sqlite".into(), settings: map(&[("synchronous", json!("off"))]) };
        let engine = start_engine(&spec, directory.path()).unwrap();
        let spoiler = Spoiler { engine: engine.as_ref(), spoils: (spoil, by) };
        let params =
            [("transactions", json!(10)), ("phases", json!(phase)), ("statements", json!(statements))];
        let error =
            run_on(&spoiler, &params).err().unwrap_or_else(|| panic!("{spoil} -> {by} went unnoticed"));
        assert!(error.to_string().contains(expected), "{spoil} -> {by}: {error}");
    }
}

#[test]
fn postgresql_does_the_same_work() {
    if let Err(error) = crate::engine::postgresql_programs(None) {
        eprintln!("skipped: {error}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let spec = EngineSpec { name: "postgresql".into(), settings: map(&[("fsync", json!(false))]) };
    let engine = start_engine(&spec, directory.path()).unwrap();
    let params = [("transactions", json!(31)), ("threads", json!(3)), ("shared", json!(true))];
    let server = run_on(engine.as_ref(), &params).unwrap();
    let sqlite = run(&[("synchronous", json!("off"))], &params).unwrap();
    assert_eq!(checksums(&server), checksums(&sqlite));
    let prepared = [("transactions", json!(31)), ("threads", json!(3)), ("statements", json!("prepared"))];
    let server = run_on(engine.as_ref(), &[&prepared[..], &[("phases", json!("insert"))]].concat());
    assert!(server.unwrap().checks[0].starts_with("insert: all 93 rows"));
    let error = run_on(engine.as_ref(), &[("databases", json!(2))]).err().unwrap().to_string();
    assert!(error.contains("one database per connection"), "{error}");
}

fn any_plan() -> impl Strategy<Value = Plan> {
    (1..40_u64, 0..30_u64, 1..4_u64, 1..3_u64, 1..5_u64, any::<bool>(), any::<bool>()).prop_map(
        |(transactions, more_rows, tables, databases, threads, shared, random_insert)| Plan {
            transactions: transactions.max(threads),
            rows: transactions.max(threads) + more_rows,
            tables,
            databases,
            threads,
            shared,
            value_bytes: 100,
            random_insert,
            autoincrement: false,
            prepared: false,
            interval: std::time::Duration::ZERO,
            checkpoint: true,
        },
    )
}

proptest! {
    /// Any plan: inserts make every id once, updates and deletes find what they name, threads never
    /// share a row, and what is expected afterwards is what a table that obeys the changes holds.
    #[test]
    fn changes_and_expectation_agree(plan in any_plan(), seed in any::<u64>()) {
        let mut contents: Vec<Content> = (0..plan.threads).map(|thread| Content::new(&plan, seed, thread)).collect();
        prop_assert_eq!(contents.iter().map(|c| c.transactions).sum::<u64>(), plan.transactions);
        let mut tables: BTreeMap<(u64, usize, usize), BTreeMap<i64, u64>> = BTreeMap::new();
        for operation in Operation::ALL {
            for content in &mut contents {
                let group = if plan.shared { 0 } else { content.thread() };
                if operation != Operation::Insert {
                    for change in content.fill() {
                        let table = tables.entry((group, change.database, change.table)).or_default();
                        prop_assert!(table.insert(change.id, change.key).is_none());
                    }
                }
                content.prepare(operation, plan.random_insert);
                let mut changes = Vec::new();
                for transaction in 0..content.transactions {
                    content.change(operation, transaction, &mut changes);
                    prop_assert_eq!(changes.len() as u64, plan.tables * plan.databases);
                    for change in &changes {
                        let table = tables.entry((group, change.database, change.table)).or_default();
                        let before = match operation {
                            Operation::Delete => table.remove(&change.id),
                            _ => table.insert(change.id, change.key),
                        };
                        prop_assert_eq!(before.is_none(), operation == Operation::Insert);
                    }
                }
            }
            for content in &contents {
                let group = if plan.shared { 0 } else { content.thread() };
                for (&(of, database, table), rows) in tables.iter().filter(|(key, _)| key.0 == group) {
                    let expected: Vec<_> = content.expected(database, table).collect();
                    prop_assert!(expected.iter().all(|(id, key)| rows.get(id) == Some(key)));
                    if !plan.shared {
                        prop_assert_eq!((expected.len(), of), (rows.len(), content.thread()));
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_has_its_length_and_needs_no_quoting(key in any::<u64>(), bytes in 0..300_usize) {
        let (mut text, mut again) = (String::new(), String::new());
        write_value(key, bytes, &mut text);
        write_value(key, bytes, &mut again);
        prop_assert_eq!(text.len(), bytes);
        prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        prop_assert_eq!(text, again);
    }
}
