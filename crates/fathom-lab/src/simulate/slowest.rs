//! What the slowest executions of a run did at the device that the others did not.

use fathom_device::RequestTimes;
use serde::{Deserialize, Serialize};

use super::program::{FLUSH, READ, WRITE};
use crate::recording::Execution;

/// One in so many executions is of the slowest: those beyond p99.9.
const ONE_IN: usize = 1000;

/// Operations of one execution, means over so many executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationCounts {
    /// Executions.
    pub executions: u64,
    /// Reads of one.
    pub reads: f64,
    /// Writes of one.
    pub writes: f64,
    /// Flushes of one.
    pub flushes: f64,
    /// The share of them that make more flushes than half of all do.
    pub more_flushes: f64,
    /// The share of them before which something was written since the execution before it: by
    /// nobody who was waited for.
    pub after_writes: f64,
}

/// The slowest executions of a phase, and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// The slowest thousandth, one at the least.
    pub slowest: OperationCounts,
    /// All others.
    pub others: OperationCounts,
}

/// Operations of one kind that came until a moment.
struct Arrivals([Vec<u64>; 3]);

impl Arrivals {
    fn of(served: &[Vec<RequestTimes>]) -> Arrivals {
        let mut of_kinds = [READ, WRITE, FLUSH].map(|kind| {
            let is_of = |request: &&RequestTimes| request.kind == kind;
            let all = served.iter().flatten().filter(is_of);
            all.map(|request| request.arrival_ns).collect::<Vec<_>>()
        });
        of_kinds.iter_mut().for_each(|all| all.sort_unstable());
        Arrivals(of_kinds)
    }

    /// How many of a kind came from a moment on and before another.
    fn between(&self, kind: u8, from_ns: u64, to_ns: u64) -> usize {
        let all = &self.0[usize::from(kind)];
        let until = |ns: u64| all.partition_point(|arrival| *arrival < ns);
        until(to_ns).saturating_sub(until(from_ns))
    }
}

/// Of executions that came one after the other, each with the time that it takes when replayed, ns:
/// what came to the devices in each is what came in the recording. None where there are none, or
/// where some were under way together, so that nobody can tell whose an operation is.
pub(super) fn slowest(executions: &[(Execution, u64)], served: &[Vec<RequestTimes>]) -> Option<Slowest> {
    let mut executions = executions.to_vec();
    executions.sort_by_key(|(execution, _)| execution.start_ns);
    let overlap = |pair: &[(Execution, u64)]| pair[1].0.start_ns < pair[0].0.end_ns();
    if executions.windows(2).any(overlap) {
        return None;
    }
    let arrivals = Arrivals::of(served);
    let mut before_ns = executions.first()?.0.start_ns;
    let mut each: Vec<(u64, [usize; 3], bool)> = Vec::with_capacity(executions.len());
    for (execution, takes_ns) in executions {
        let (start, end) = (execution.start_ns, execution.end_ns());
        let counts = [READ, WRITE, FLUSH].map(|kind| arrivals.between(kind, start, end));
        let is_after_writes = arrivals.between(WRITE, before_ns, start) > 0;
        each.push((takes_ns, counts, is_after_writes));
        before_ns = end;
    }
    let mut flushes: Vec<usize> = each.iter().map(|execution| execution.1[2]).collect();
    flushes.sort_unstable();
    let usual = flushes[flushes.len() / 2];
    each.sort_by_key(|execution| std::cmp::Reverse(execution.0));
    let (slow, others) = each.split_at((each.len() / ONE_IN).max(1));
    let counts = |all: &[(u64, [usize; 3], bool)]| {
        let of_one = |sum: usize| sum as f64 / all.len().max(1) as f64;
        let [reads, writes, flushes] =
            [0, 1, 2].map(|kind| of_one(all.iter().map(|execution| execution.1[kind]).sum()));
        OperationCounts {
            executions: all.len() as u64,
            reads,
            writes,
            flushes,
            more_flushes: of_one(all.iter().filter(|execution| execution.1[2] > usual).count()),
            after_writes: of_one(all.iter().filter(|execution| execution.2).count()),
        }
    };
    Some(Slowest { slowest: counts(slow), others: counts(others) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An execution with the time that it takes when replayed.
    fn execution(start_ns: u64, takes_ns: u64) -> (Execution, u64) {
        (Execution { window: 0, lane: 0, start_ns, wall_ns: 50 }, takes_ns)
    }

    fn request(kind: u8, arrival_ns: u64) -> RequestTimes {
        let done_ns = arrival_ns + 1;
        RequestTimes {
            kind,
            bytes: 4096,
            arrival_ns,
            asked_ns: done_ns,
            given_ns: done_ns,
            early_ns: 0,
            offset: 0,
        }
    }

    #[test]
    fn the_slowest_is_told_from_the_others() {
        let (mut executions, mut served) = (Vec::new(), Vec::new());
        for number in 0..2000 {
            let start = 1000 + number * 100;
            executions.push(execution(start, if number == 700 || number == 900 { 90 } else { 70 }));
            served.push(request(WRITE, start));
            served.push(request(FLUSH, start + 10));
            // Between two executions.
            if number == 899 {
                served.push(request(WRITE, start + 95));
            }
            if number == 700 {
                served.extend([request(READ, start + 20), request(FLUSH, start + 30)]);
            }
        }
        let found = slowest(&executions, &[served.clone()]).unwrap();
        let expected = OperationCounts {
            executions: 2,
            reads: 0.5,
            writes: 1.0,
            flushes: 1.5,
            more_flushes: 0.5,
            after_writes: 0.5,
        };
        assert_eq!(found.slowest, expected);
        assert_eq!(
            found.others,
            OperationCounts { executions: 1998, writes: 1.0, flushes: 1.0, ..OperationCounts::default() }
        );
        // What comes with the end of an execution is the next one's.
        let both = slowest(&[execution(1000, 9), execution(1050, 5)], &[vec![request(WRITE, 1050)]]);
        assert_eq!(both.unwrap().others.writes, 1.0);
        assert_eq!(slowest(&[], &[served.clone()]), None);
        let beside = [execution(1000, 9), execution(1020, 9)];
        assert_eq!(slowest(&beside, &[served]), None, "whose is an operation?");
    }
}
