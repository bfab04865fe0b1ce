//! How far a drawn figure shows its intervals: as far as the page does. Of two runs one may reach a
//! thousand times as far as the values, which are to be seen.

use fathom_lab::experiment::FigureKind as Kind;

use crate::figure::{Figure, Mark};

/// The lowest and the highest that is drawn of an interval.
#[derive(Clone, Copy)]
pub struct Reach {
    low: f64,
    high: f64,
}

impl Reach {
    /// A third of the lowest value, or zero where the axis begins there, to three times the
    /// highest.
    pub fn of(figure: &Figure) -> Reach {
        Reach::over(figure.log_y, figure.marks.iter().map(|mark| mark.mid))
    }

    fn over(is_log: bool, values: impl Iterator<Item = f64>) -> Reach {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values {
            low = low.min(value);
            high = high.max(value);
        }
        Reach { low: if is_log { low / 3.0 } else { 0.0 }, high: high * 3.0 }
    }

    /// Where it is drawn.
    pub fn within(self, value: f64) -> f64 {
        value.max(self.low).min(self.high)
    }

    /// Where an interval's ends are drawn, and whether each is cut there.
    pub fn ends(self, mark: &Mark) -> [(f64, bool); 2] {
        [mark.low, mark.high].map(|end| (self.within(end), self.within(end) != end))
    }

    /// Whether any interval of the figure is cut.
    pub fn cuts_any(self, figure: &Figure) -> bool {
        let is_cut = |mark: &Mark| self.ends(mark).iter().any(|(_, is_cut)| *is_cut);
        figure.kind != Kind::Split && figure.marks.iter().any(is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of two runs at each number of threads the intervals went to 650,000 a second,
    /// and all curves lay on the axis, at 20,000 and less.
    #[test]
    fn values_are_seen_below_intervals_that_reach_far_beyond_them() {
        let of = |is_log: bool| {
            let reach = Reach::over(is_log, [3.0, 10.0].into_iter());
            [0.5, 29.0, 31.0].map(|value| reach.within(value))
        };
        assert_eq!(of(true), [1.0, 29.0, 30.0]);
        assert_eq!(of(false), [0.5, 29.0, 30.0]);
    }
}
