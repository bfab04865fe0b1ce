//! What a block trace says of a cell: who wrote how much, how far apart, how large, how often the
//! device was flushed, and the write ladder from SQL to the device.
//!
//! Each run is judged by itself, then the median over the runs is taken, number by number. A
//! *stream* is what one cause writes to one device: a write is sequential when it begins where the
//! last one of its stream ended. The seek distance is that between the end of a request and the
//! begin of the next one on the device, whoever made them, in order of issue. The queue depth is
//! the number of requests between submission and completion, over the time in which there is one at
//! all.

use std::collections::HashMap;

use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use serde::Serialize;

use crate::stats::median;
use crate::store::{BlockRow, Results, RunRow, StoreError, TraceOfRun, TraceSource};

/// The study of all phases of a cell together has this for a phase.
pub const ALL_PHASES: &str = "all phases";

/// Bytes at each step from SQL to the device; none where a step is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ladder {
    /// Bytes of the values of statements that changed rows.
    pub changed: Option<f64>,
    /// Bytes that SQLite wrote to its files.
    pub pages: Option<f64>,
    /// Bytes of files that reached the device: at least these, where some are unattributed.
    pub files: Option<f64>,
    /// Bytes that reached the device and whose cause is not known.
    pub unattributed: Option<f64>,
    /// All bytes that were written to the device.
    pub device: Option<f64>,
}

impl Ladder {
    /// Steps with their names, from SQL to the device.
    #[must_use]
    pub fn steps(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("changed by SQL", self.changed),
            ("written by SQLite", self.pages),
            ("of files at the device", self.files),
            ("at the device", self.device),
        ]
    }

    /// Whether [`Ladder::files`] is not all that there may be.
    #[must_use]
    pub fn is_files_at_least(&self) -> bool {
        self.files.is_some() && self.unattributed.is_some_and(|bytes| bytes > 0.0)
    }

    /// Bytes at the device for each byte changed by SQL.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        ratio(self.device, self.changed)
    }
}

/// `a / b` where both are known and the second is not 0.
#[must_use]
pub fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    b.filter(|b| *b > 0.0).and_then(|b| Some(a? / b))
}

/// One cell in one phase (or [`ALL_PHASES`]): medians over its good runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockStudy {
    /// Number of the cell.
    pub cell: i64,
    /// As in the samples, or [`ALL_PHASES`].
    pub phase: String,
    /// What was traced.
    pub source: TraceSource,
    /// Runs with a trace.
    pub runs: usize,
    /// Executions in a run.
    pub executions: f64,
    /// From SQL to the device, bytes in a run.
    pub ladder: Ladder,
    /// Bytes written by each cause ([`Cause::ALL`]) in a run.
    pub written: [f64; 8],
    /// Bytes read in a run.
    pub read_bytes: f64,
    /// Requests in a run: reads, writes, flushes, discards ([`BlockOp::ALL`] without the last).
    pub requests: [f64; 4],
    /// Of the writes, those with a piece whose cause is not known.
    pub unattributed_writes: f64,
    /// Flushes for each execution.
    pub flushes_each: Option<f64>,
    /// Share of the writes that begin where the last of their stream ended.
    pub sequential: Option<f64>,
    /// Median distance between a request's end and the next one's begin, bytes.
    pub seek_bytes: Option<f64>,
    /// Size of a write: median and 99th percentile, bytes.
    pub size_bytes: Option<[f64; 2]>,
    /// Requests under way: mean over the time with any, and most.
    pub depth: Option<[f64; 2]>,
    /// From submission to completion of a write: median and 99th percentile, ns.
    pub write_ns: Option<[f64; 2]>,
    /// Of a flush, ns.
    pub flush_ns: Option<[f64; 2]>,
}

impl BlockStudy {
    /// Share of the bytes written whose cause is known.
    #[must_use]
    pub fn attributed(&self) -> Option<f64> {
        let all: f64 = self.written.iter().sum();
        let unknown = self.written[Cause::Unattributed.number() as usize];
        (all > 0.0).then(|| 1.0 - unknown / all)
    }
}

/// Studies every cell that has traces: first all its phases together, then each.
///
/// # Errors
/// A results file that was damaged after it was opened.
pub fn block_studies(results: &Results) -> Result<Vec<BlockStudy>, StoreError> {
    let mut studies = Vec::new();
    for cell in &results.cells {
        let mut of_runs: Vec<(TraceSource, Vec<OfRun>)> = Vec::new();
        for run in results.good_runs(cell.id) {
            let Some(trace) = results.trace(run.id) else { continue };
            let mut rows = Vec::new();
            results.blocks(run.id, |row| rows.push(row))?;
            of_runs.push((trace.source, scopes(results, run, trace, &rows)));
        }
        let Some((source, first)) = of_runs.first() else { continue };
        for scope in first {
            let same: Vec<&OfRun> = of_runs
                .iter()
                .filter_map(|(_, scopes)| scopes.iter().find(|phase| phase.phase == scope.phase))
                .collect();
            studies.push(over_runs(cell.id, *source, &same));
        }
    }
    Ok(studies)
}

/// Share of the bytes at the device whose cause may be unknown without a word: what 99 % is
/// promised for is said of the rest.
const UNATTRIBUTED_SHARE: f64 = 0.01;

/// What must be said where more than 1 % of the bytes of a cell have no owner; none where all is
/// well.
#[must_use]
pub fn unattributed(studies: &[BlockStudy]) -> Option<String> {
    let all: Vec<&BlockStudy> = studies
        .iter()
        .filter(|study| study.phase == ALL_PHASES && study.source == TraceSource::Device)
        .collect();
    let share = |study: &BlockStudy| study.attributed().map_or(0.0, |known| 1.0 - known);
    let concerned: Vec<&BlockStudy> =
        all.iter().filter(|study| share(study) > UNATTRIBUTED_SHARE).copied().collect();
    let worst = concerned.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let writes = worst.requests[BlockOp::Write.number() as usize];
    Some(format!(
        "Not all is attributed: in {} of {} cells more than 1 % of the bytes at the device have no known owner, up to {:.0} % ({:.0} of {:.0} \
         writes). What is told \"of files\" is at least that.",
        concerned.len(),
        all.len(),
        100.0 * share(worst),
        worst.unattributed_writes,
        writes
    ))
}

/// What one run says of one phase.
struct OfRun {
    phase: String,
    executions: f64,
    ladder: Ladder,
    pattern: Pattern,
}

fn scopes(results: &Results, run: &RunRow, trace: &TraceOfRun, rows: &[BlockRow]) -> Vec<OfRun> {
    let mut phases: Vec<&str> = Vec::new();
    for window in &trace.windows {
        if !phases.contains(&window.phase.as_str()) {
            phases.push(&window.phase);
        }
    }
    let scope = |name: &str, within: &dyn Fn(&str) -> bool| {
        let windows = || trace.windows.iter().filter(|window| within(&window.phase));
        let mine: Vec<BlockRow> = rows
            .iter()
            .filter(|row| {
                row.window
                    .and_then(|window| trace.windows.get(window as usize))
                    .is_some_and(|phase| within(&phase.phase))
            })
            .copied()
            .collect();
        let pattern = Pattern::of(&mine, trace.source);
        let changed: u64 = windows().map(|window| window.changed_bytes).sum();
        let pages: u64 = results
            .io
            .iter()
            .filter(|row| row.run == run.id && row.row.op == "write" && within(&row.row.phase))
            .map(|row| row.row.bytes)
            .sum();
        let device = (trace.source == TraceSource::Device).then(|| pattern.written.iter().sum());
        let files = Cause::ALL.iter().filter(|cause| cause.is_file());
        let files: f64 = files.map(|file| pattern.written[file.number() as usize]).sum();
        OfRun {
            phase: name.to_owned(),
            executions: windows().map(|window| window.count as f64).sum(),
            ladder: Ladder {
                changed: (changed > 0).then_some(changed as f64),
                pages: (pages > 0).then_some(pages as f64),
                // Where no file could be found on the device it is not known, and not 0.
                files: device.filter(|_| files > 0.0).map(|_| files),
                unattributed: device.map(|_| pattern.written[Cause::Unattributed.number() as usize]),
                device,
            },
            pattern,
        }
    };
    let mut all = vec![scope(ALL_PHASES, &|_| true)];
    if phases.len() > 1 {
        all.extend(phases.iter().map(|phase| scope(phase, &|phase_name| phase_name == *phase)));
    }
    all
}

/// What the requests of one run and phase are like.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pattern {
    written: [f64; 8],
    read_bytes: f64,
    requests: [f64; 4],
    unattributed_writes: f64,
    sequential: Option<f64>,
    seek_bytes: Option<f64>,
    size_bytes: Option<[f64; 2]>,
    depth: Option<[f64; 2]>,
    write_ns: Option<[f64; 2]>,
    flush_ns: Option<[f64; 2]>,
}

impl Pattern {
    /// `rows` in order of issue, the pieces of a request together.
    fn of(rows: &[BlockRow], source: TraceSource) -> Pattern {
        let mut found = Pattern::default();
        let mut ends: HashMap<(u8, Cause), u64> = HashMap::new();
        let (mut sequential, mut followed) = (0_u64, 0_u64);
        for row in rows {
            match row.op {
                BlockOp::Read => found.read_bytes += row.bytes as f64,
                BlockOp::Write => {
                    found.written[row.cause.number() as usize] += row.bytes as f64;
                    if let Some(end) = ends.insert((row.device, row.cause), row.offset + row.bytes) {
                        followed += 1;
                        sequential += u64::from(end == row.offset);
                    }
                }
                BlockOp::Flush | BlockOp::Discard | BlockOp::Other => {}
            }
        }
        found.sequential = (followed > 0).then(|| sequential as f64 / followed as f64);
        let mut sizes = Vec::new();
        let mut seeks = Vec::new();
        let (mut write_ns, mut flush_ns) = (Vec::new(), Vec::new());
        let mut moments = Vec::new();
        let mut last_end: HashMap<u8, u64> = HashMap::new();
        for pieces in rows.chunk_by(|a, b| a.request == b.request) {
            let Some(first) = pieces.first() else { continue };
            let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
            if let Some(count) = found.requests.get_mut(first.op.number() as usize) {
                *count += 1.0;
            }
            let latency = first.complete_ns.saturating_sub(first.submit_ns) as f64;
            moments.push((first.submit_ns, 1_i64));
            moments.push((first.complete_ns, -1));
            match first.op {
                BlockOp::Write => {
                    if pieces.iter().any(|piece| piece.cause == Cause::Unattributed) {
                        found.unattributed_writes += 1.0;
                    }
                    sizes.push(bytes as f64);
                    write_ns.push(latency);
                }
                BlockOp::Flush => flush_ns.push(latency),
                BlockOp::Read | BlockOp::Discard | BlockOp::Other => {}
            }
            if matches!(first.op, BlockOp::Read | BlockOp::Write)
                && let Some(end) = last_end.insert(first.device, first.offset + bytes)
            {
                seeks.push(first.offset.abs_diff(end) as f64);
            }
        }
        // Offsets in different files have no distance.
        found.seek_bytes = if source == TraceSource::Device { quantile(&mut seeks, 0.5) } else { None };
        found.size_bytes = both(&mut sizes);
        found.write_ns = both(&mut write_ns);
        found.flush_ns = both(&mut flush_ns);
        found.depth = depth(moments);
        found
    }
}

/// Mean over the time with any request under way, and the most at once.
fn depth(mut moments: Vec<(u64, i64)>) -> Option<[f64; 2]> {
    // What ends at a moment has ended when something else begins at it.
    moments.sort_unstable_by_key(|&(at, change)| (at, change));
    let (mut now, mut most, mut busy_ns, mut weighted) = (0_i64, 0_i64, 0_u64, 0_f64);
    let mut before = moments.first()?.0;
    for (at, change) in moments {
        if now > 0 {
            busy_ns += at - before;
            weighted += (at - before) as f64 * now as f64;
        }
        before = at;
        now += change;
        most = most.max(now);
    }
    (busy_ns > 0).then(|| [weighted / busy_ns as f64, most as f64])
}

/// A value that occurred, of nearest rank.
fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (q * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

fn both(values: &mut [f64]) -> Option<[f64; 2]> {
    Some([quantile(values, 0.5)?, quantile(values, 0.99)?])
}

fn over_runs(cell: i64, source: TraceSource, runs: &[&OfRun]) -> BlockStudy {
    let known = |of: &dyn Fn(&OfRun) -> Option<f64>| {
        median(&runs.iter().filter_map(|run| of(run)).collect::<Vec<f64>>())
    };
    let sum = |of: &dyn Fn(&OfRun) -> f64| known(&|run| Some(of(run))).unwrap_or(0.0);
    let pair = |of: &dyn Fn(&Pattern) -> Option<[f64; 2]>| {
        Some([known(&|run| Some(of(&run.pattern)?[0]))?, known(&|run| Some(of(&run.pattern)?[1]))?])
    };
    BlockStudy {
        cell,
        phase: runs.first().map_or_else(String::new, |run| run.phase.clone()),
        source,
        runs: runs.len(),
        executions: sum(&|run| run.executions),
        ladder: Ladder {
            changed: known(&|run| run.ladder.changed),
            pages: known(&|run| run.ladder.pages),
            files: known(&|run| run.ladder.files),
            unattributed: known(&|run| run.ladder.unattributed),
            device: known(&|run| run.ladder.device),
        },
        written: std::array::from_fn(|cause| sum(&|run| run.pattern.written[cause])),
        read_bytes: sum(&|run| run.pattern.read_bytes),
        requests: std::array::from_fn(|op| sum(&|run| run.pattern.requests[op])),
        unattributed_writes: sum(&|run| run.pattern.unattributed_writes),
        flushes_each: known(&|run| {
            ratio(Some(run.pattern.requests[BlockOp::Flush.number() as usize]), Some(run.executions))
        }),
        sequential: known(&|run| run.pattern.sequential),
        seek_bytes: known(&|run| run.pattern.seek_bytes),
        size_bytes: pair(&|stretch| stretch.size_bytes),
        depth: pair(&|study| study.depth),
        write_ns: pair(&|study| study.write_ns),
        flush_ns: pair(&|study| study.flush_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(request: u32, op: BlockOp, cause: Cause, times: [u64; 2], offset: u64, bytes: u64) -> BlockRow {
        BlockRow {
            request,
            piece: 0,
            device: 0,
            op,
            cause,
            window: Some(0),
            submit_ns: times[0],
            issue_ns: times[0],
            complete_ns: times[1],
            offset,
            bytes,
            fua: false,
            sync: false,
            meta: false,
        }
    }

    /// A journal and a database written in turn, the journal in order, the database not; then a
    /// flush. By hand.
    #[test]
    fn a_small_pattern_is_what_a_hand_gives() {
        use BlockOp::{Flush, Read, Write};
        use Cause::{Database, RollbackJournal};
        let merged = row(3, Write, RollbackJournal, [30, 50], 2048, 512);
        let rows = [
            row(0, Write, RollbackJournal, [0, 10], 1024, 512),
            row(1, Write, Database, [5, 15], 8192, 512),
            row(2, Write, RollbackJournal, [20, 40], 1536, 512), // where the journal ended
            merged, // likewise; and its second piece is the database's
            BlockRow { piece: 1, cause: Database, offset: 2560, ..merged },
            row(4, Flush, Cause::Flush, [60, 160], 0, 0),
            row(5, Read, Database, [200, 210], 3072, 4096),
        ];
        let found = Pattern::of(&rows, TraceSource::Device);
        assert_eq!(found.written[RollbackJournal.number() as usize], 1536.0);
        assert_eq!(found.written[Database.number() as usize], 1024.0);
        assert_eq!((found.read_bytes, found.requests), (4096.0, [1.0, 4.0, 1.0, 0.0]));
        // Followed: journal twice, both in order; database once, not.
        assert_eq!(found.sequential, Some(2.0 / 3.0));
        // 1536→8192, 8704→1536, 2048→2048, 3072→3072.
        assert_eq!(found.seek_bytes, Some(0.0));
        assert_eq!(found.size_bytes, Some([512.0, 1024.0]));
        assert_eq!(found.flush_ns, Some([100.0, 100.0]));
        // Under way: 1 for 0–5, 2 for 5–10, 1 for 10–15, 1 for 20–30, 2 for 30–40, 1 for 40–50, the
        // flush 100, the read 10.
        let busy = 15.0 + 30.0 + 100.0 + 10.0;
        let weighted = 20.0 + 40.0 + 100.0 + 10.0;
        assert_eq!(found.depth, Some([weighted / busy, 2.0]));
        assert_eq!(Pattern::of(&rows, TraceSource::Files).seek_bytes, None);
        assert_eq!(Pattern::of(&[], TraceSource::Device), Pattern::default());
    }

    /// Plain files of which 128 of 300 writes had no owner were told as "2.29 KiB of files" under 4
    /// KiB written, and nothing said that this was not all.
    #[test]
    fn what_has_no_owner_is_counted_and_said() {
        let known = row(0, BlockOp::Write, Cause::OtherFile, [0, 1], 0, 4096);
        let unknown = row(1, BlockOp::Write, Cause::Unattributed, [2, 3], 8192, 4096);
        let merged = BlockRow { piece: 1, cause: Cause::Metadata, offset: 12288, ..unknown };
        let found = Pattern::of(&[known, unknown, merged], TraceSource::Device);
        assert_eq!((found.unattributed_writes, found.requests[1]), (1.0, 2.0));
        let study = |known: f64, unattributed: f64| {
            let mut written = [0.0; 8];
            written[Cause::OtherFile.number() as usize] = known;
            written[Cause::Unattributed.number() as usize] = unattributed;
            let ladder = Ladder { files: Some(known), unattributed: Some(unattributed), ..Ladder::default() };
            let run = OfRun {
                phase: ALL_PHASES.into(),
                executions: 1.0,
                ladder,
                pattern: Pattern {
                    written,
                    requests: [0.0, 300.0, 0.0, 0.0],
                    unattributed_writes: 128.0,
                    ..Pattern::default()
                },
            };
            over_runs(0, TraceSource::Device, &[&run])
        };
        assert!(study(90.0, 10.0).ladder.is_files_at_least() && !study(90.0, 0.0).ladder.is_files_at_least());
        let said = unattributed(&[study(90.0, 10.0), study(990.0, 9.0)]).expect("10 % are much");
        assert!(
            said.contains("in 1 of 2 cells") && said.contains("up to 10 % (128 of 300 writes)"),
            "{said}"
        );
        assert_eq!(unattributed(&[study(991.0, 9.0)]), None);
    }

    #[test]
    fn a_ladder_has_a_factor_where_both_ends_are_known() {
        let ladder = Ladder { changed: Some(100.0), device: Some(1200.0), ..Ladder::default() };
        assert_eq!(ladder.factor(), Some(12.0));
        assert_eq!(Ladder { changed: Some(0.0), ..ladder }.factor(), None);
        assert_eq!(Ladder { device: None, ..ladder }.factor(), None);
    }
}
