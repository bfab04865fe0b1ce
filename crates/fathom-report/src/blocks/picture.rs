//! Address over time: what the page draws of each cell's first run.

use fathom_lab::store::{Results, StoreError, TraceOfRun, TraceSource};
use serde::Serialize;

use super::encode::encode;
use super::thin::{Dot, thin};

/// Dots in one report, and in one picture of it. At about six bytes each a page stays below 3 MB.
const DOTS: usize = 300_000;
const DOTS_IN_ONE: usize = 120_000;
const DOTS_AT_LEAST: usize = 2_000;

/// Times are kept to this part of the whole.
const MOMENTS: u64 = 1 << 22;

/// What is drawn of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// The cell.
    pub cell: i64,
    /// What the addresses mean.
    pub source: TraceSource,
    /// Requests in the trace, and dots that stand for them.
    pub requests: u64,
    /// As above.
    pub drawn: usize,
    /// Length of the trace, ns.
    pub span_ns: u64,
    /// Units of [`Picture::dots`].
    pub unit_ns: u64,
    /// As above.
    pub unit_bytes: u64,
    /// See `encode.rs`; the kind is the cause's number plus 16 for each
    /// [`fathom_stack::blocks::BlockOp`].
    pub dots: String,
    /// Phases: name, begin and end, ns.
    pub windows: Vec<(String, u64, u64)>,
    /// What a reader must know.
    #[serde(skip)]
    pub remarks: Vec<String>,
    /// Events that were lost.
    #[serde(skip)]
    pub lost_events: u64,
}

/// The trace of the first good run of a cell that was traced.
pub fn trace_of(results: &Results, cell: i64) -> Option<&TraceOfRun> {
    results.good_runs(cell).find_map(|run| results.trace(run.id))
}

/// How many requests a trace has, and what is drawn of them.
pub fn dots_of(results: &Results, run: i64, limit: usize) -> Result<(u64, Vec<Dot>), StoreError> {
    let mut dots = Vec::new();
    let mut requests = 0;
    results.blocks(run, |row| {
        requests += u64::from(row.piece == 0);
        dots.push(Dot {
            at_ns: row.submit_ns,
            offset: row.offset,
            bytes: row.bytes,
            kind: row.cause.number() | row.op.number() << 4,
        });
    })?;
    // In order of issue so far.
    dots.sort_by_key(|dot: &Dot| dot.at_ns);
    Ok((requests, thin(dots, limit)))
}

/// The picture of the first good run of each cell that was traced.
pub fn pictures(results: &Results) -> Result<Vec<Picture>, StoreError> {
    let number = results.cells.iter().filter(|cell| trace_of(results, cell.id).is_some()).count();
    let limit = (DOTS / number.max(1)).clamp(DOTS_AT_LEAST, DOTS_IN_ONE);
    let mut all = Vec::new();
    for cell in &results.cells {
        let Some(trace) = trace_of(results, cell.id) else { continue };
        let (requests, dots) = dots_of(results, trace.run, limit)?;
        let unit_ns = (trace.span_ns / MOMENTS).max(1000);
        let fits = |unit: &u64| dots.iter().all(|dot| dot.offset % unit == 0 && dot.bytes % unit == 0);
        let unit_bytes = [4096, 512].into_iter().find(fits).unwrap_or(1);
        all.push(Picture {
            cell: cell.id,
            source: trace.source,
            requests,
            drawn: dots.len(),
            span_ns: trace.span_ns,
            unit_ns,
            unit_bytes,
            dots: encode(&dots, unit_ns, unit_bytes),
            windows: trace
                .windows
                .iter()
                .map(|window| (window.phase.clone(), window.start_ns, window.end_ns))
                .collect(),
            remarks: trace.remarks.clone(),
            lost_events: trace.lost_events,
        });
    }
    Ok(all)
}
