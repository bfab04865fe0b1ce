//! Values of settings that are tried: sizes of pages, and lengths of the log.

use super::Candidate;

/// All that may be tried: of the best sizes the neighbours.
const ALL_PAGES: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16_384];

/// A longer log, pages.
pub(super) const LONG_LOG: u64 = 4000;

/// One that is longer still, pages: tried where [`LONG_LOG`] has helped.
pub(super) const LONGER_LOG: u64 = 10_000;

/// So long a log may be that nobody has asked for, bytes: with pages of 4 KiB, [`LONGER_LOG`] is.
pub(super) const LONGEST_LOG_BYTES: u64 = 64 << 20;

/// Shorter ones, from the shortest. While a log grows, each commit with FULL flushes once more, for
/// the file's length is the file system's journal's; a short one has ended to grow sooner. Where a
/// commit flushes nothing, a checkpoint does, and a short log has more of these.
pub(super) const SHORT_LOGS: [u64; 2] = [100, 300];

/// The setting of that, in pages.
pub(super) const LOG: &str = "wal_autocheckpoint";

/// SQLite's own, pages.
pub(super) const USUAL_LOG: u64 = 1000;

/// Other lengths of the log with other pages, at most: each takes a recording.
pub(super) const OTHER_LOGS: usize = 12;

/// Of a WAL those with logs of other lengths that may bring something: longer ones, of which small
/// pages need more, and with FULL shorter ones.
pub(super) fn push_logs(all: &mut Vec<Candidate>, leader: &Candidate, lengths: &[u64]) {
    let Some(own) = frames(leader).filter(|frames| *frames > 0) else { return };
    let is_full = leader.synchronous != "normal" && leader.synchronous != "off";
    for length in lengths {
        let is_worth = if *length > USUAL_LOG { own < *length } else { is_full && own > *length };
        if leader.journal_mode == "wal" && is_worth {
            push(all, leader.with(LOG, &length.to_string()));
        }
    }
}

/// At how many frames the log of a candidate is checkpointed; none where that is no number.
pub(super) fn frames(candidate: &Candidate) -> Option<u64> {
    candidate.more.get(LOG).map_or(Some(USUAL_LOG), |frames| frames.parse().ok())
}

/// Of what is tuned, each with what it is tuned from, and then of the neighbours of its pages, the
/// same with logs of every length. The lengths were tried with one page size, and the best there
/// need not be the best with others: of smaller pages a transaction writes more, and fewer bytes.
pub(super) fn other_logs(tuned: &[[Candidate; 2]]) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut add = |plain: &Candidate, candidate: Candidate| {
        if candidate.page_size == plain.page_size {
            return;
        }
        let mut usual = candidate;
        match plain.more.get(LOG) {
            Some(length) => usual.set(LOG, length),
            None => drop(usual.more.remove(LOG)),
        }
        push(&mut all, usual.clone());
        push_logs(&mut all, &usual, &SHORT_LOGS);
        push_logs(&mut all, &usual, &[LONG_LOG]);
    };
    let of_wal = || tuned.iter().filter(|[_, candidate]| candidate.journal_mode == "wal");
    for [plain, candidate] in of_wal() {
        add(plain, candidate.clone());
    }
    for [plain, candidate] in of_wal() {
        for size in neighbours(candidate.page_size) {
            add(plain, Candidate { page_size: size, ..candidate.clone() });
        }
    }
    all
}

/// The next smaller and the next larger page size.
pub(super) fn neighbours(size: u32) -> impl Iterator<Item = u32> {
    let smaller = ALL_PAGES.into_iter().rfind(move |other| *other < size);
    smaller.into_iter().chain(ALL_PAGES.into_iter().find(move |other| *other > size))
}

/// Adds a candidate that is not there.
pub(super) fn push(all: &mut Vec<Candidate>, candidate: Candidate) {
    if !all.contains(&candidate) {
        all.push(candidate);
    }
}
