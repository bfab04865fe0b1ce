//! What a workload hands out while it runs: samples, one per measured execution, and a summary of
//! each phase.

use fathom_probe::Split;
use serde::{Deserialize, Serialize};

use crate::critical::CriticalPath;

/// One measured execution (a query, a transaction, a file operation).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was executed, e.g. `insert`, `update-range`, `select-asc`. The same name in all cells
    /// of an experiment.
    pub phase: String,
    /// The figure's abscissa where the phase has one (rows of a range, number of columns), else
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Number of the execution within (phase, x), from 0, in time order.
    pub seq: u64,
    /// Thread (or connection) that executed it, from 0.
    #[serde(default)]
    pub thread: u32,
    /// Rows returned or changed.
    pub rows: u64,
    /// Where the time went.
    pub split: Split,
    /// The only database that it worked on, by a number of its own; none where that is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<u32>,
    /// When it began, CLOCK_MONOTONIC, ns; 0 = not told. Not kept in results files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start_ns: u64,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// The whole of one phase of one run, over all threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseSummary {
    /// As in [`Sample::phase`].
    pub phase: String,
    /// As in [`Sample::x`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// What is counted: `transaction`, `query` or `operation`.
    pub unit: String,
    /// Successful executions. A failed one fails the run and is never counted.
    pub count: u64,
    /// Elapsed time of the phase from the first start to the last end (ns), checks and cache
    /// dropping excluded.
    pub wall_ns: u64,
    /// Latency of one execution (ns): minimum, p50, p90, p99, p99.9, maximum.
    pub latency_ns: [u64; 6],
    /// The sum of all executions' splits (over threads, so its wall can exceed `wall_ns`).
    pub split: Split,
    /// Time spent waiting for locks that another connection held (busy handler), ns; none where the
    /// engine does not tell.
    #[serde(default)]
    pub lock_wait_ns: Option<u64>,
    /// Number of such waits.
    #[serde(default)]
    pub lock_waits: Option<u64>,
    /// What the elapsed time consists of, where several threads were followed; its sum is
    /// `wall_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_path: Option<CriticalPath>,
}

/// Calls, bytes and time of one kind of VFS call on one class of file, in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoRow {
    /// As in [`Sample::phase`].
    pub phase: String,
    /// `database`, `rollback-journal`, `wal`, `wal-index`, `super-journal`, `temporary`.
    pub class: String,
    /// `open`, `read`, `write`, `truncate`, `sync`, `delete`, `lock`, `shm`, `fetch` …
    pub op: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes read, written or mapped.
    pub bytes: u64,
    /// Time inside the calls, ns.
    pub ns: u64,
}

/// When a phase was: what a trace of the device is divided by. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// As in [`Sample::phase`].
    pub phase: String,
    /// As in [`Sample::x`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Begin of the first execution.
    pub start_ns: u64,
    /// End of the last.
    pub end_ns: u64,
    /// Executions, as in [`PhaseSummary::count`].
    pub count: u64,
    /// Bytes of the values bound to statements that changed rows, as SQLite stores them; 0 where
    /// values are literals of the statements' text or the engine is not SQLite.
    pub changed_bytes: u64,
    /// When each thread worked in it. Not kept in results files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneSpan>,
    /// Begin and end of intervals that count for nothing. Not kept in results files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<(u64, u64)>,
}

/// When a thread (a lane) of a workload worked in a phase. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneSpan {
    /// As in [`Sample::thread`].
    pub thread: u32,
    /// The numbers that marks ([`fathom_probe::Mark`]) give the threads that executed it; none
    /// where no marks were kept.
    pub marked: Vec<u32>,
    /// Begin of its first execution, or of work besides.
    pub start_ns: u64,
    /// End of its last.
    pub end_ns: u64,
}

/// What kind of thing a warning says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// The numbers are not those of a device: nothing waits for one, or it does not keep what it
    /// acknowledged.
    NoDevice,
    /// Caches were to be cold, and were not.
    WarmCaches,
    /// The machine was not quiet, or not all was seen that happened.
    Noise,
    /// A trace is made up.
    MadeUp,
    /// Anything else that a reader must know.
    #[default]
    Other,
}

impl WarningKind {
    /// The kind of a warning that was written down without one, by its words.
    #[must_use]
    pub fn of_text(text: &str) -> WarningKind {
        const OF: [(&str, WarningKind); 6] = [
            ("syncs are free", WarningKind::NoDevice),
            ("nothing here waits for a device", WarningKind::NoDevice),
            ("is left of the settings' promise", WarningKind::NoDevice),
            ("caches were not cold", WarningKind::WarmCaches),
            ("noisy ", WarningKind::Noise),
            ("requests are missing", WarningKind::Noise),
        ];
        if text.starts_with("the trace ") && text.ends_with(crate::trace::MADE_UP) {
            return WarningKind::MadeUp;
        }
        OF.iter().find(|(words, _)| text.contains(words)).map_or(WarningKind::Other, |known| known.1)
    }
}

/// Where a workload's findings go. Implementations buffer: nothing is written during a timed
/// window.
pub trait Sink {
    /// One execution. Called after the timed window of its phase, or from memory between
    /// executions.
    fn sample(&mut self, sample: Sample);
    /// A phase has ended.
    fn phase(&mut self, summary: PhaseSummary);
    /// When a phase was.
    fn window(&mut self, window: Window) {
        let _ = window;
    }
    /// VFS calls of a phase.
    fn io(&mut self, row: IoRow);
    /// How much of the run is done, 0 to 1.
    fn progress(&mut self, done: f64);
    /// Something a reader of the result must know.
    fn warning(&mut self, text: String);
    /// As [`Sink::warning`], of a kind that readers go by.
    fn warning_of(&mut self, kind: WarningKind, text: String) {
        let _ = kind;
        self.warning(text);
    }
    /// A check of the work that passed, e.g. `integrity_check ok`, `rows 1000000`.
    fn verified(&mut self, check: String);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn warnings_of_before_have_their_kind_by_their_words() {
        for (text, kind) in [
            (
                "the image lies on tmpfs: there is no device and syncs are free; durable",
                WarningKind::NoDevice,
            ),
            ("write: caches were not cold: not permitted", WarningKind::WarmCaches),
            ("noisy machine: other programs were working", WarningKind::Noise),
            ("the CPU's governor is powersave", WarningKind::Other),
        ] {
            assert_eq!(WarningKind::of_text(text), kind, "{text}");
        }
        let made_up = format!("the trace gmail is {}", crate::trace::MADE_UP);
        assert_eq!(WarningKind::of_text(&made_up), WarningKind::MadeUp);
    }

    /// A sink that keeps everything, to be looked at.
    #[derive(Debug, Default)]
    pub(crate) struct MemorySink {
        pub samples: Vec<Sample>,
        pub phases: Vec<PhaseSummary>,
        pub rows: Vec<IoRow>,
        pub warnings: Vec<String>,
        pub checks: Vec<String>,
        pub done: f64,
    }

    impl Sink for MemorySink {
        fn sample(&mut self, sample: Sample) {
            self.samples.push(sample);
        }
        fn phase(&mut self, summary: PhaseSummary) {
            self.phases.push(summary);
        }
        fn io(&mut self, row: IoRow) {
            self.rows.push(row);
        }
        fn progress(&mut self, done: f64) {
            assert!(done >= self.done && done <= 1.0, "progress goes from {} to {done}", self.done);
            self.done = done;
        }
        fn warning(&mut self, text: String) {
            self.warnings.push(text);
        }
        fn verified(&mut self, check: String) {
            self.checks.push(check);
        }
    }
}
