//! The phases: each one timed statement by statement, checked, and the table put back.

use super::error::wrong;
use super::expected::ExpectedTable;
use super::restore::LoadedTable;
use super::table::{self, DATABASE};
use crate::cold::ColdCaches;
use crate::engine::{Connection, Engine, Statement, Value};
use crate::params::Params;
use crate::recorder::{Lane, Phase, Unit};
use crate::sample::Sink;
use crate::workload::WorkloadError;
use fathom_random::Random;

/// The workload, its parameters checked.
pub struct Update {
    pub params: Params,
    pub rows: i64,
    pub points: u64,
    /// Sizes of the ranges, each at most `rows`.
    pub ranges: Vec<i64>,
    pub range_repeats: u64,
    /// Whether caches are emptied before each range and each phase of points.
    pub is_cold: bool,
    pub phases: Vec<String>,
}

/// One run of the workload.
struct Run<'a> {
    update: &'a Update,
    engine: &'a dyn Engine,
    seed: u64,
    sink: &'a mut dyn Sink,
    expected: ExpectedTable,
    prepared: LoadedTable,
    caches: ColdCaches,
    /// Timed statements done, of all.
    done: f64,
}

/// Runs the phases that were asked for.
pub fn run(
    update: &Update,
    engine: &dyn Engine,
    seed: u64,
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let mut expected = ExpectedTable::new(seed, update.rows as usize + update.points as usize);
    let prepared = LoadedTable::load(engine, update.rows, &mut expected)?;
    let caches = ColdCaches::default();
    let mut run = Run { update, engine, seed, sink, expected, prepared, caches, done: 0.0 };
    run.step(1.0);
    if run.wants("insert") {
        run.insert()?;
    }
    if run.wants("update-point") {
        run.update_points()?;
    }
    if run.wants("update-range") {
        run.update_ranges()?;
    }
    if run.wants("update-point") || run.wants("update-range") {
        run.check_updates()?;
    }
    if run.wants("delete-point") {
        run.delete_points()?;
    }
    if run.wants("delete-range") {
        run.delete_ranges()?;
    }
    run.check_restored()?;
    run.caches.report("update", "statements or phases", run.sink);
    Ok(())
}

impl Run<'_> {
    fn wants(&self, phase: &str) -> bool {
        self.update.phases.iter().any(|wanted| wanted == phase)
    }

    /// Adds to the progress: loading is 1, each point phase 1, each range by its share of the
    /// table, both ways.
    fn step(&mut self, weight: f64) {
        let shares: f64 = self.update.ranges.iter().map(|&range| 0.1 + self.share(range)).sum();
        let phase = |name: &str, weight: f64| if self.wants(name) { weight } else { 0.0 };
        let all = 1.0
            + phase("insert", 0.5)
            + phase("update-point", 0.5)
            + phase("delete-point", 0.5)
            + phase("update-range", shares)
            + phase("delete-range", shares)
            + 0.5;
        self.done += weight;
        self.sink.progress((self.done / all).min(1.0));
    }

    fn share(&self, range: i64) -> f64 {
        range as f64 / self.update.rows as f64
    }

    fn insert(&mut self) -> Result<(), WorkloadError> {
        let (mut connection, statement) = self.open(table::INSERT)?;
        let records: Vec<_> = (0..self.update.points).map(|_| self.expected.append()).collect();
        let phase = Phase::begin("insert", None, Unit::Transaction);
        let mut lane = phase.lane(0, records.len());
        for record in &records {
            timed(&mut lane, &mut *connection, statement, record, 1)?;
        }
        self.end(phase, lane, &*connection);
        table::check_totals(&mut *connection, self.expected.all())?;
        table::check_rows(&mut *connection, &self.expected, self.update.rows + 1)?;
        self.sink.verified(format!("insert: {} new records as inserted", records.len()));
        connection.close()?;
        self.restore()?;
        self.step(0.5);
        Ok(())
    }

    fn update_points(&mut self) -> Result<(), WorkloadError> {
        let keys = self.keys("update-point");
        let mut connection = self.points("update-point", table::UPDATE_POINT, &keys)?;
        keys.iter().for_each(|&key| self.expected.raise(key, key));
        table::check_rows(&mut *connection, &self.expected, 1)?;
        self.sink.verified(format!("update-point: all {} rows right, every field", self.expected.len()));
        connection.close()?;
        self.step(0.5);
        Ok(())
    }

    fn delete_points(&mut self) -> Result<(), WorkloadError> {
        let keys = self.keys("delete-point");
        let mut connection = self.points("delete-point", table::DELETE_POINT, &keys)?;
        let mut left = self.expected.all();
        for &key in &keys {
            left = left.without(self.expected.totals(key, key));
        }
        table::check_totals(&mut *connection, left)?;
        self.sink.verified(format!("delete-point: {} rows left, sums right", left.rows));
        connection.close()?;
        self.restore()?;
        self.step(0.5);
        Ok(())
    }

    /// Different keys, drawn evenly.
    fn keys(&self, phase: &str) -> Vec<i64> {
        let mut random = Random::stream(self.seed, phase, 0);
        let drawn = random.distinct(self.update.points, self.update.rows.unsigned_abs());
        drawn.into_iter().map(|key| key as i64 + 1).collect()
    }

    /// Times the statement once for each key; gives the connection back for checks.
    fn points(&mut self, name: &str, sql: &str, keys: &[i64]) -> Result<Box<dyn Connection>, WorkloadError> {
        let (mut connection, statement) = self.open(sql)?;
        let phase = Phase::begin(name, None, Unit::Transaction);
        let mut lane = phase.lane(0, keys.len());
        for &key in keys {
            timed(&mut lane, &mut *connection, statement, &[Value::Integer(key)], 1)?;
        }
        self.end(phase, lane, &*connection);
        Ok(connection)
    }

    fn update_ranges(&mut self) -> Result<(), WorkloadError> {
        for range in self.update.ranges.clone() {
            let mut phase = Phase::begin("update-range", Some(range as f64), Unit::Transaction);
            let mut lane = phase.lane(0, self.update.range_repeats as usize);
            for repeat in 0..self.update.range_repeats {
                let (first, last) = self.bounds("update-range", range, repeat);
                let (mut connection, statement) = phase.excluded(|| {
                    // Before and not after each range, so that the rows of the last are there to be
                    // checked one by one.
                    if self.prepared.is_worn_by_updates() {
                        self.restore()?;
                    }
                    self.open(table::UPDATE_RANGE)
                })?;
                timed_range(&mut lane, &mut *connection, statement, first, last)?;
                phase.add_lock_waits(connection.lock_waits());
                self.expected.raise(first, last);
                phase.excluded(|| {
                    table::check_totals(&mut *connection, self.expected.all())?;
                    Ok::<(), WorkloadError>(connection.close()?)
                })?;
            }
            phase.end(vec![lane], self.sink);
            self.step(0.1 + self.share(range));
        }
        Ok(())
    }

    fn delete_ranges(&mut self) -> Result<(), WorkloadError> {
        let mut is_intact = false;
        for range in self.update.ranges.clone() {
            let mut phase = Phase::begin("delete-range", Some(range as f64), Unit::Transaction);
            let mut lane = phase.lane(0, self.update.range_repeats as usize);
            for repeat in 0..self.update.range_repeats {
                let (first, last) = self.bounds("delete-range", range, repeat);
                let (mut connection, statement) = phase.excluded(|| self.open(table::DELETE_RANGE))?;
                timed_range(&mut lane, &mut *connection, statement, first, last)?;
                phase.add_lock_waits(connection.lock_waits());
                phase.excluded(|| {
                    let left = self.expected.all().without(self.expected.totals(first, last));
                    table::check_totals(&mut *connection, left)?;
                    is_intact = table::check_integrity(self.engine, &mut *connection)?;
                    connection.close()?;
                    self.restore()
                })?;
            }
            phase.end(vec![lane], self.sink);
            self.step(0.1 + self.share(range));
        }
        let integrity = if is_intact { ", integrity_check ok" } else { "" };
        self.sink.verified(format!("delete-range: rows left and sums right after each range{integrity}"));
        Ok(())
    }

    /// The keys of a range of this size: consecutive, from a random start.
    fn bounds(&self, phase: &str, range: i64, repeat: u64) -> (i64, i64) {
        let mut random = Random::stream(self.seed, phase, (range as u64) << 16 | repeat);
        let first = random.between(1, self.update.rows - range + 1);
        (first, first + range - 1)
    }

    /// A new connection, whose own cache is empty, with the statement prepared; with `cold` only
    /// what that reads is in the system's.
    fn open(&mut self, sql: &str) -> Result<(Box<dyn Connection>, Statement), WorkloadError> {
        if self.update.is_cold {
            self.caches.empty(self.engine)?;
        }
        let mut connection = self.engine.connect(DATABASE)?;
        let statement = connection.prepare(sql)?;
        Ok((connection, statement))
    }

    fn end(&mut self, mut phase: Phase, lane: Lane, connection: &dyn Connection) {
        phase.add_lock_waits(connection.lock_waits());
        phase.end(vec![lane], self.sink);
    }

    /// Checks all rows after the updates and puts the table back.
    fn check_updates(&mut self) -> Result<(), WorkloadError> {
        self.check_whole("after the updates")?;
        self.restore()
    }

    /// Checks that the table is again as it was loaded: the restores were right.
    fn check_restored(&mut self) -> Result<(), WorkloadError> {
        self.check_whole("at the end, put back as loaded")?;
        self.sink.progress(1.0);
        Ok(())
    }

    fn check_whole(&mut self, when: &str) -> Result<(), WorkloadError> {
        let mut connection = self.engine.connect(DATABASE)?;
        table::check_rows(&mut *connection, &self.expected, 1)?;
        self.sink.verified(format!("all {} rows right, every field, {when}", self.expected.len()));
        if table::check_integrity(self.engine, &mut *connection)? {
            self.sink.verified(format!("integrity_check {when} ok"));
        }
        Ok(connection.close()?)
    }

    fn restore(&mut self) -> Result<(), WorkloadError> {
        self.prepared.restore(self.engine)?;
        self.expected.reset(self.update.rows);
        Ok(())
    }
}

/// Times one statement, which must change this many rows.
fn timed(
    lane: &mut Lane,
    connection: &mut dyn Connection,
    statement: Statement,
    params: &[Value],
    must: u64,
) -> Result<(), WorkloadError> {
    let changed = lane.time(|| connection.execute(statement, params))?;
    if changed == must {
        Ok(())
    } else {
        Err(wrong(format!("a statement with {params:?} changed {changed} rows instead of {must}")))
    }
}

/// Times one statement on the keys `first..=last`, each of which it must change.
fn timed_range(
    lane: &mut Lane,
    connection: &mut dyn Connection,
    statement: Statement,
    first: i64,
    last: i64,
) -> Result<(), WorkloadError> {
    let params = [Value::Integer(first), Value::Integer(last)];
    timed(lane, connection, statement, &params, (last - first + 1).unsigned_abs())
}
