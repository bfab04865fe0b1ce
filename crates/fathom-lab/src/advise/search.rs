//! The rounds, one after the other.

use fathom_workload::spec::Durability;

use super::{AppUse, Candidate, Finalists, Trial, finalists, first, second, third};

/// Rounds in all, that of the finalists included.
pub const ROUNDS: u32 = 4;

/// Has settings recorded.
pub trait Recorder {
    /// Why it cannot.
    type Error;

    /// Records each candidate once, as round `round` (from 1) of the search: what they take, by
    /// device. One with which the application fails is left out.
    ///
    /// # Errors
    /// Nothing could be recorded, or the user wants to stop.
    fn record(&mut self, round: u32, candidates: Vec<Candidate>) -> Result<Vec<Vec<Trial>>, Self::Error>;

    /// So many settings that the third round may also do without there is time to record.
    fn room(&self) -> usize {
        usize::MAX
    }
}

/// All rounds but the last: what must be kept, by `must_of` from what the baseline promises, and
/// the settings to be recorded several times, the baseline first.
///
/// # Errors
/// As [`Recorder::record`].
pub fn search<R: Recorder>(
    baseline: &Candidate,
    app: AppUse,
    must_of: &dyn Fn(Option<Durability>) -> Durability,
    recorder: &mut R,
) -> Result<(Durability, Finalists), R::Error> {
    let mut tried = recorder.record(1, begin(baseline, app))?;
    let own =
        tried.iter().flatten().find(|trial| trial.candidate == *baseline).and_then(|trial| trial.durability);
    let must = must_of(own);
    for round in 2..ROUNDS {
        let candidates = match round {
            2 => second(&tried, must, app),
            _ => third(&tried, must, recorder.room()),
        };
        if candidates.is_empty() {
            continue;
        }
        for (all, more) in tried.iter_mut().zip(recorder.record(round, candidates)?) {
            all.extend(more);
        }
    }
    Ok((must, finalists(baseline, &tried, must)))
}

/// The first round. What WAL breaks is no advice, but for who has it already.
fn begin(baseline: &Candidate, app: AppUse) -> Vec<Candidate> {
    let mut all = first(baseline);
    if app.over_files && baseline.journal_mode != "wal" {
        all.retain(|candidate| candidate.journal_mode != "wal");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: an application with attached databases was told to go from DELETE to WAL, of
    /// which it was said that it keeps every commit; that a power cut may leave a transaction in
    /// one file and not in another stood at the end alone.
    #[test]
    fn wal_is_not_tried_where_a_transaction_may_be_over_several_files() {
        let modes = |baseline: &Candidate, over_files| {
            let all = begin(baseline, AppUse { over_files, ..AppUse::default() });
            all.into_iter().map(|candidate| candidate.journal_mode).collect::<Vec<String>>()
        };
        let (delete, wal) = (Candidate::default(), Candidate::new("wal", "full"));
        assert!(modes(&delete, false).iter().any(|mode| mode == "wal"));
        let tried = modes(&delete, true);
        assert!(tried.iter().any(|mode| mode == "persist") && tried.iter().all(|mode| mode != "wal"));
        assert!(modes(&wal, true).iter().any(|mode| mode == "wal"), "it has that now");
    }
}
