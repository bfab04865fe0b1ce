//! What ends a run before its end: the user, or the time for all.

use std::time::{Duration, Instant};

use fathom_lab::schedule::Interrupt;

/// Time that each run has, whatever those before it have left.
const RUN_LEAST: Duration = Duration::from_secs(10);

/// What ends a run before its end.
pub(super) struct Stop<'a> {
    pub(super) interrupt: &'a Interrupt,
    /// When the time for all is over.
    pub(super) end: Option<Instant>,
}

impl Stop<'_> {
    pub(super) fn is_over(&self) -> bool {
        self.interrupt.is_raised() || self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// When a run that begins now has to be done, of so many seconds for all; none: it may take as
/// long as it does.
pub(super) fn end_of(begin: Instant, seconds: u64) -> Option<Instant> {
    let end = (seconds > 0).then(|| begin.checked_add(Duration::from_secs(seconds))).flatten()?;
    Some(end.max(Instant::now() + RUN_LEAST))
}
