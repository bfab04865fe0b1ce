//! Makes requests of their events.
//!
//! A write of the block layer is made once, issued once and completed in one or several parts. With
//! a flush before or after it (`REQ_PREFLUSH`, or `REQ_FUA` where the device has none) the block
//! layer's flush machinery issues flushes of its own, which several waiting requests may share, and
//! tells of the end of the whole once more, with no sectors: that tells nothing new and is passed
//! over.

use std::collections::VecDeque;

use super::record::{Record, Station};
use super::request::{BlockOp, Request};

/// The sector that a flush's completion carries: none.
const NO_SECTOR: u64 = u64::MAX;

/// A request that was made and waits to be issued. At most so many are kept, should some never be
/// issued.
const WAITING_MAX: usize = 4096;

struct InFlight {
    /// Where the request is in the list.
    index: usize,
    /// The first sector that is not complete.
    next: u64,
    left: u32,
}

/// Requests in order of issue, and the number of those that never completed. `records` are in order
/// of time.
pub(super) fn pair(records: &[Record]) -> (Vec<Request>, u64) {
    let mut requests: Vec<Request> = Vec::new();
    let mut waiting: VecDeque<Record> = VecDeque::new();
    let mut in_flight: Vec<InFlight> = Vec::new();
    for &record in records {
        match record.station {
            Station::Submit => {
                if waiting.len() == WAITING_MAX {
                    waiting.pop_front();
                }
                waiting.push_back(record);
            }
            Station::Issue => {
                let submitted = submission_of(&record, &mut waiting);
                let flush = record.rwbs.op == BlockOp::Flush;
                in_flight.push(InFlight { index: requests.len(), next: record.sector, left: record.sectors });
                requests.push(Request {
                    device: record.device,
                    op: record.rwbs.op,
                    fua: record.rwbs.op == BlockOp::Write
                        && (record.rwbs.fua || submitted.is_some_and(|record| record.rwbs.fua)),
                    sync: record.rwbs.sync,
                    meta: record.rwbs.meta,
                    ahead: record.rwbs.ahead,
                    submit_ns: submitted.map_or(record.at_ns, |record| record.at_ns),
                    issue_ns: record.at_ns,
                    complete_ns: 0,
                    sector: if flush { 0 } else { record.sector },
                    sectors: record.sectors,
                    error: 0,
                });
            }
            Station::Complete => complete(&record, &mut requests, &mut in_flight),
        }
    }
    let unfinished = in_flight.len() as u64;
    requests.retain(|request| request.complete_ns != 0);
    (requests, unfinished)
}

/// The event that made the request that is now issued, taken from those that wait.
fn submission_of(issue: &Record, waiting: &mut VecDeque<Record>) -> Option<Record> {
    if issue.rwbs.op == BlockOp::Flush {
        // The machinery's flush: the earliest request that waits for one made it. All that wait now
        // share it; those without data have nothing more to be issued for.
        let first =
            waiting.iter().find(|record| record.device == issue.device && record.rwbs.preflush).copied();
        waiting
            .retain(|record| record.device != issue.device || !(record.rwbs.preflush && record.sectors == 0));
        for waits in waiting.iter_mut().filter(|record| record.device == issue.device) {
            waits.rwbs.preflush = false;
        }
        return first;
    }
    let end = issue.sector + u64::from(issue.sectors);
    // Merged at its front, a request begins before the sector it was made with.
    let made = |record: &Record| {
        record.device == issue.device
            && record.rwbs.op == issue.rwbs.op
            && record.sectors > 0
            && (issue.sector..end).contains(&record.sector)
    };
    // All that lies within it was merged into it. None may stay: a later write of its sectors would
    // be taken for one that was made then.
    let exact = waiting.iter().rfind(|record| made(record) && record.sector == issue.sector).copied();
    let first = exact.or_else(|| waiting.iter().find(|record| made(record)).copied());
    waiting.retain(|record| !made(record));
    first
}

fn complete(record: &Record, requests: &mut [Request], in_flight: &mut Vec<InFlight>) {
    let flush = record.sector == NO_SECTOR || record.rwbs.op == BlockOp::Flush;
    let found = in_flight.iter().position(|running| {
        let Some(request) = requests.get(running.index) else { return false };
        request.device == record.device
            && if flush {
                request.op == BlockOp::Flush
            } else {
                // The end of a whole with flushes has no sectors left, and is of no request in
                // flight.
                record.sectors > 0
                    && running.left > 0
                    && running.next == record.sector
                    && request.op == record.rwbs.op
            }
    });
    let Some(at) = found else { return };
    let flying = &mut in_flight[at];
    let Some(request) = requests.get_mut(flying.index) else { return };
    request.error = if record.error == 0 { request.error } else { record.error };
    let done = record.sectors.min(flying.left);
    flying.left -= done;
    flying.next += u64::from(done);
    if flush || flying.left == 0 {
        request.complete_ns = record.at_ns.max(request.issue_ns);
        in_flight.swap_remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::rwbs::Rwbs;

    fn record(at_ns: u64, station: Station, letters: &str, sector: u64, sectors: u32) -> Record {
        Record { at_ns, station, device: 0, sector, sectors, rwbs: Rwbs::parse(letters.as_bytes()), error: 0 }
    }

    /// As the kernel told of a write with flush before and forced unit access on a loop device,
    /// followed by a flush.
    #[test]
    fn the_flush_machinery_becomes_what_the_device_sees() {
        use Station::{Complete, Issue, Submit};
        let records = vec![
            record(10, Submit, "FWFSM", 32788, 2),
            record(12, Issue, "FF", 0, 0),
            record(20, Complete, "FF", NO_SECTOR, 0),
            record(22, Issue, "WSM", 32788, 2),
            record(30, Complete, "WSM", 32788, 2),
            record(32, Issue, "FF", 0, 0),
            record(40, Complete, "FF", NO_SECTOR, 0),
            record(41, Complete, "WSM", 32788, 0),
            record(50, Submit, "FWS", 0, 0),
            record(52, Issue, "FF", 0, 0),
            record(60, Complete, "FF", NO_SECTOR, 0),
            record(61, Complete, "WS", 0, 0),
        ];
        let (requests, unfinished) = pair(&records);
        let shape: Vec<_> = requests
            .iter()
            .map(|request| {
                (request.op, request.submit_ns, request.issue_ns, request.complete_ns, request.fua)
            })
            .collect();
        assert_eq!(
            shape,
            [
                (BlockOp::Flush, 10, 12, 20, false),
                (BlockOp::Write, 10, 22, 30, true),
                (BlockOp::Flush, 32, 32, 40, false),
                (BlockOp::Flush, 50, 52, 60, false),
            ]
        );
        assert_eq!(unfinished, 0);
        assert!(requests[1].meta && requests[1].sync && requests[1].bytes() == 1024);
    }

    #[test]
    fn merged_requests_keep_their_first_submission_and_parts_complete_the_whole() {
        use Station::{Complete, Issue, Submit};
        let records = vec![
            record(1, Submit, "W", 108, 8), // merged at its front with 100
            record(2, Submit, "W", 200, 8),
            record(5, Issue, "W", 100, 16),
            record(6, Issue, "W", 200, 8),
            record(7, Complete, "W", 100, 4),
            record(9, Complete, "W", 104, 12),
            record(3, Issue, "R", 300, 8), // never completes
        ];
        let (requests, unfinished) = pair(&records);
        assert_eq!(requests.len(), 1);
        assert_eq!((requests[0].submit_ns, requests[0].complete_ns, requests[0].sectors), (1, 9, 16));
        assert_eq!(unfinished, 2);
    }

    /// A request that was merged into another one stayed among those that wait. The next write of
    /// its sector, in a later phase, was counted where the merged one had been made: outside of its
    /// phase.
    #[test]
    fn a_request_that_was_merged_lends_its_time_to_no_later_one() {
        use Station::{Complete, Issue, Submit};
        let records = vec![
            record(1, Submit, "W", 100, 8),
            record(2, Submit, "W", 108, 8), // merged at the end of the one before
            record(3, Issue, "W", 100, 16),
            record(4, Complete, "W", 100, 16),
            record(50, Submit, "W", 108, 8),
            record(51, Issue, "W", 108, 8),
            record(52, Complete, "W", 108, 8),
        ];
        let (requests, unfinished) = pair(&records);
        let times: Vec<_> = requests.iter().map(|request| (request.submit_ns, request.issue_ns)).collect();
        assert_eq!((times, unfinished), (vec![(1, 3), (50, 51)], 0));
    }

    #[test]
    fn what_was_issued_before_the_trace_is_passed_over() {
        let (requests, unfinished) = pair(&[record(1, Station::Complete, "W", 8, 8)]);
        assert_eq!((requests.len(), unfinished), (0, 0));
    }
}
