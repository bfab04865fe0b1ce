//! The empirical distribution of latencies: for each cell and phase, the share of all executions of
//! all runs that took at most so long. Percentiles and tails can be read off it, and two curves can
//! be compared everywhere, which two means cannot.

use fathom_lab::analysis::Clock;
use fathom_lab::experiment::{Figure as Definition, FigureKind as Kind, Metric};
use fathom_lab::store::{Results, StoreError};

use crate::executions;
use crate::figure::{Figure, Line, PanelOf, PlaceOfCell};
use crate::number;

/// A share of 1 in the points of a line.
pub const WHOLE: f64 = 10_000.0;

/// Steps that a curve is drawn with from its begin to its median, and as many beyond, closer and
/// closer to its end.
const STEPS: usize = 100;

/// Reads the curves of a figure.
///
/// # Errors
/// Samples that cannot be read.
pub fn read(
    figure: &mut Figure,
    results: &Results,
    phases: &[String],
    place: PlaceOfCell<'_>,
    panel_of: PanelOf<'_>,
    clock: Clock,
) -> Result<(), StoreError> {
    let mut total = 0;
    for cell in &results.cells {
        let Some((_, series, facet)) = place(cell.id) else { continue };
        for (group, phase) in phases.iter().enumerate() {
            let (mut times, mut runs) = (Vec::new(), 0);
            for run in results.good_runs(cell.id) {
                let of_run = executions::times(results, run.id, phase, clock)?;
                runs += u32::from(!of_run.is_empty());
                times.extend(of_run);
            }
            times.sort_by(f64::total_cmp);
            let Some(last) = times.last().copied() else { continue };
            let at = |q: f64| times[((times.len() - 1) as f64 * q).round() as usize];
            total += times.len();
            figure.lines.push(Line {
                cell: cell.id,
                panel: panel_of(facet, group, series),
                series,
                run: runs,
                total: times.len(),
                percentiles: [at(0.5), at(0.99), last],
                points: curve(&times),
            });
        }
    }
    if total > 0 {
        let each = match clock {
            Clock::Model => "A model time each.",
            Clock::Wall => "A wall time each, as measured.",
        };
        figure.note = format!(
            "{} executions, all runs of a cell together; none is left out of the shares. {each}",
            number::plain(total as f64)
        );
    }
    Ok(())
}

/// The points of the curve of times in rising order: the first time, [`STEPS`] to the median and as
/// many to the last. Each holds the share of executions that took at most its time, in [`WHOLE`].
fn curve(times: &[f64]) -> Vec<(f64, f64)> {
    let n = times.len();
    let mut ranks: Vec<usize> = (0..=STEPS).map(|step| (n - 1) * step / (2 * STEPS)).collect();
    // Of what is left beyond the median, each step leaves the same part: down to one execution.
    let left = n as f64 / 2.0;
    ranks.extend((1..=STEPS).map(|step| {
        let beyond = left.powf(1.0 - step as f64 / STEPS as f64);
        n - (beyond.round() as usize).clamp(1, n)
    }));
    ranks.sort_unstable();
    ranks.dedup();
    ranks.into_iter().map(|rank| (times[rank], WHOLE * (rank + 1) as f64 / n as f64)).collect()
}

/// The figure that is added where a file has none: the cells of another figure of its, by the same
/// axis and in the same panels, in the phase that the answer is about.
pub fn added(figures: &[Definition], phase: &str) -> Option<Definition> {
    if figures.iter().any(|figure| figure.kind == Kind::Ecdf || figure.id == ID) {
        return None;
    }
    let shows = |definition: &&Definition| {
        definition.phases.is_empty() || definition.phases.iter().any(|own| own == phase)
    };
    let like = figures.iter().find(shows).or(figures.first())?;
    Some(Definition {
        id: ID.into(),
        kind: Kind::Ecdf,
        title: format!("How long single executions take: {phase}"),
        see: "The share of executions that took at most so long. Left is faster; where a curve bends to the right, a few take much \
              longer than the rest."
            .into(),
        phases: vec![phase.to_owned()],
        metric: Metric::Time,
        log: None,
        ..like.clone()
    })
}

/// Its name.
const ID: &str = "latencies";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_from_the_first_to_the_last_and_keeps_the_tail() {
        for n in [1, 2, 3, 10, 500, 100_000] {
            let times: Vec<f64> = (1..=n).map(f64::from).collect();
            let curve = curve(&times);
            assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{n}");
            assert_eq!(curve[0], (1.0, WHOLE / f64::from(n)));
            assert_eq!(curve[curve.len() - 1], (f64::from(n), WHOLE), "{n}");
            assert!(curve.len() <= 2 * STEPS + 1);
            // Of times 1 to n the share at a time is that time.
            assert!(curve.iter().all(|(ns, share)| (ns / f64::from(n) - share / WHOLE).abs() < 1e-12));
        }
        let tail = |times: &[f64]| curve(times).iter().filter(|curve| curve.1 > 0.99 * WHOLE).count();
        let many: Vec<f64> = (1..=100_000).map(f64::from).collect();
        assert!(tail(&many) > 30, "the last hundredth has its own steps: {}", tail(&many));
    }
}
