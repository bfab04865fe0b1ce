//! How far a recording is whose parts are made at the same time.

use fathom_lab::schedule::Progress;

use crate::progress::Bar;

/// How far all parts are together.
pub(super) struct PartsProgress {
    pub(super) bar: Bar,
    /// The last that each part has said.
    pub(super) of_parts: Vec<(usize, Progress)>,
}

impl PartsProgress {
    pub(super) fn show(&mut self, number: usize, progress: &Progress) {
        match self.of_parts.iter_mut().find(|part| part.0 == number) {
            Some(known) => known.1 = progress.clone(),
            None => self.of_parts.push((number, progress.clone())),
        }
        let sum = |of: fn(&Progress) -> usize| self.of_parts.iter().map(|part| of(&part.1)).sum::<usize>();
        let whole = Progress {
            done: sum(|part| part.done),
            total: sum(|part| part.total),
            failed: sum(|part| part.failed),
            share: self.of_parts.iter().map(|part| part.1.share).sum::<f64>().min(1.0),
            left: self.of_parts.iter().filter_map(|part| part.1.left).max(),
            ..progress.clone()
        };
        self.bar.show(&whole);
    }
}
