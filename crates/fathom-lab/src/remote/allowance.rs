//! How much the findings of a run may come to: a machine that tells without an end fills no memory
//! here. What a run may have to tell follows from what was asked.

use fathom_workload::params::Params;

use crate::event::WorkerRequest;

/// What each run may tell, octets: phases, calls by class, checks, warnings.
const BASE: u64 = 64 << 20;
/// What goes with each execution, octets; a sample is a line of 350.
const OF_A_SAMPLE: u64 = 1 << 10;
/// Marks of threads, of which a worker keeps two million, in at most 100 octets each.
const OF_MARKS: u64 = 256 << 20;
/// Statements, of which it keeps as many, and their texts.
const OF_STATEMENTS: u64 = 256 << 20;
/// Where files lay, and calls on them, beside those of each execution.
const OF_FILES: u64 = 256 << 20;
/// The same of each execution, and of each row of the table that it may go through: a page holds
/// some 30, and of it a few calls are told in 130 octets each.
const OF_ITS_FILES: u64 = 16 << 10;
const OF_A_ROW: u64 = 16;
/// Requests of a block trace, beside those of each execution.
const REQUESTS: u64 = 4 << 20;
/// The same of each execution, and of how many rows there is one.
const OF_ITS_REQUESTS: u64 = 128;
const ROWS_IN_A_REQUEST: u64 = 32;

/// What may come of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Executions that are told of one by one, at most.
    samples: u64,
    /// Octets of events, in all.
    octets: u64,
    /// Octets that have come.
    come: u64,
    /// Rows of a block trace.
    requests: u64,
}

impl Allowance {
    /// Of a run that is ordered.
    pub fn of(order: &WorkerRequest) -> Allowance {
        let workload = &order.cell.workload;
        let samples = fathom_workload::most_samples(workload);
        let params = fathom_workload::workload_named(&workload.name)
            .and_then(|kind| Params::read(kind.parameters, &workload.params).ok());
        let rows = params.and_then(|params| params.optional_integer("rows")).map_or(0, i64::unsigned_abs);
        let when = |is_asked: bool, octets: u64| if is_asked { octets } else { 0 };
        let watches = order.watch.is_some();
        let of_files = rows.saturating_mul(OF_A_ROW).saturating_add(OF_ITS_FILES);
        let each = when(watches, of_files).saturating_add(OF_A_SAMPLE);
        let requests = samples.saturating_mul(OF_ITS_REQUESTS + rows / ROWS_IN_A_REQUEST);
        let fixed = BASE
            + when(order.marks, OF_MARKS)
            + when(order.marks && order.cell.instruments.operations, OF_STATEMENTS)
            + when(watches, OF_FILES);
        Allowance {
            samples,
            octets: samples.saturating_mul(each).saturating_add(fixed),
            come: 0,
            requests: requests.saturating_add(REQUESTS),
        }
    }

    /// Takes an event of so many octets.
    ///
    /// # Errors
    /// It is more than the run can have to tell, in words.
    pub fn take(&mut self, octets: usize) -> Result<(), String> {
        self.come = self.come.saturating_add(octets as u64);
        if self.come <= self.octets {
            return Ok(());
        }
        Err(format!(
            "tells more than a run of at most {} executions has to tell ({} MB): it was left, and what it told is not \
             believed",
            self.samples,
            self.octets / 1_000_000
        ))
    }

    /// Whether a block trace of the run may have so many rows.
    ///
    /// # Errors
    /// As [`Allowance::take`].
    pub fn requests(&self, rows: usize) -> Result<(), String> {
        let most = self.requests;
        if rows as u64 <= most {
            return Ok(());
        }
        Err(format!(
            "tells of more than {most} requests in the block trace of a run of at most {} executions: it was left, and \
             what it told is not believed",
            self.samples
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn allowance(transactions: u64, marks: bool, watch: Option<&str>) -> Allowance {
        of(&json!({"name": "mobibench-sql", "transactions": transactions}), marks, watch)
    }

    fn of(workload: &serde_json::Value, marks: bool, watch: Option<&str>) -> Allowance {
        let stack = fathom_stack::StackSpec::default();
        let cell = json!({"workload": workload, "stack": stack, "axes": {}});
        let order = json!({
            "protocol": 1, "cell": cell, "seed": 1, "directory": "/x", "marks": marks, "watch": watch
        });
        Allowance::of(&serde_json::from_value(order).unwrap())
    }

    #[test]
    fn what_may_come_grows_with_what_was_asked() {
        let small = allowance(10, false, None);
        assert_eq!((small.samples, small.octets), (30, BASE + 30 * OF_A_SAMPLE));
        assert_eq!(allowance(1_000_000, false, None).octets, BASE + 3_000_000 * OF_A_SAMPLE);
        assert_eq!(allowance(10, true, None).octets, small.octets + OF_MARKS);
        assert_eq!(allowance(10, false, Some("calls")).octets, small.octets + OF_FILES + 30 * OF_ITS_FILES);
        assert!(small.requests(4_000_000).is_ok());
        assert!(small.requests(5_000_000).unwrap_err().contains("at most 30 executions"));
    }

    #[test]
    fn what_is_more_is_told_with_both() {
        let mut small = allowance(10, false, None);
        assert_eq!(small.take(1 << 20), Ok(()));
        let problem = small.take(64 << 20).unwrap_err();
        assert!(problem.contains("at most 30 executions") && problem.contains("67 MB"), "{problem}");
    }

    /// A query of all rows from cold caches reads each page of the table.
    #[test]
    fn what_goes_through_a_table_has_calls_for_each_page_of_it() {
        let large = of(&json!({"name": "chat", "rows": 100_000, "queries": 200}), false, Some("calls"));
        assert!(large.octets > large.samples * 3000 * 130, "{large:?}");
        assert!(large.requests > large.samples * 3000, "{large:?}");
    }
}
