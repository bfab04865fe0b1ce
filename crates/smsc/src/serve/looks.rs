//! Looks at what is overdue, by a process that may have stood still.

use std::time::{Duration, Instant};

/// A look that comes so long after the one before: this process stood still, as with SIGSTOP or in
/// a frozen container, and answers that have come meanwhile may not have been read.
const STOOD: Duration = Duration::from_secs(2);

/// When it was looked last, and whether what was overdue was given more time then.
pub(super) struct Looks {
    last: Instant,
    was_spared: bool,
}

impl Looks {
    pub fn new(now: Instant) -> Looks {
        Looks { last: now, was_spared: false }
    }

    /// Looks; whether what is overdue is to have time until the next look. Not twice in a row:
    /// where each round takes long, as with a slow store, it is seen all the same.
    pub fn spares(&mut self, now: Instant) -> bool {
        let stood = !self.was_spared && now.saturating_duration_since(self.last) >= STOOD;
        *self = Looks { last: now, was_spared: stood };
        stood
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_behind_a_standstill_spares_what_is_overdue() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut looks = Looks::new(begin);
        assert!(!looks.spares(at(500)));
        assert!(looks.spares(at(5000)), "it stood still");
        assert!(!looks.spares(at(9000)), "and is slow");
        assert!(!looks.spares(at(9500)));
        assert!(looks.spares(at(11_500)));
    }
}
