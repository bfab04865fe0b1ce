//! The lab's statistics.
//!
//! **One cell.** The value of a cell is the geometric mean of its runs, with Student's t interval
//! on the logarithms ([`mean_interval`]). It is what the comparisons below are made of, so that a
//! table and the sentence under it cannot point in opposite directions, as medians in the one and
//! geometric means in the other could. The interval holds the true value in 95 % of cases where
//! runs scatter log-normally, whatever their number; [`COVERAGE_WHEN_DISTURBED`] says how often
//! where some are hit by something. A median with its bootstrap interval is less moved by one bad
//! run, but of five runs its interval is [min, max], of four it holds the median in 87.5 %, and no
//! method for medians can call a difference of five blocks.
//!
//! **Two cells of one results file.** The runs of a block are neighbours in time, so drift cancels
//! in the ratio of a block. [`paired_ratio`] takes the logarithms of the blocks' ratios and gives
//! their mean with Student's t interval (n - 1 degrees of freedom), as a ratio: the geometric mean
//! of the blocks' ratios. Why not a bootstrap or a sign test: with five blocks *no* method that
//! assumes nothing about the distribution can call a difference at the 5 % level, since even five
//! ratios on the same side of 1 happen by chance in 2·2⁻⁵ = 6.25 % of cases. The t interval assumes
//! normal log ratios. Where both cells are in truth the same, the log ratio is symmetric by
//! construction, and for symmetric distributions with heavier tails than the normal t is
//! conservative (Efron, JASA 64, 1969): outliers cost power, not honesty. The test
//! `simulate_coverage` prints the error rates over thousands of seeds.
//!
//! **Two results files.** Nothing pairs their runs: [`unpaired_ratio`] is Welch's t interval on the
//! logarithms (1947).
//!
//! **Counts with zeros.** A phase that flushes in some runs and in others not has no logarithms.
//! [`unpaired_difference`] is then Welch's t interval on the counts themselves, of how many more B
//! has.
//!
//! A comparison is *proven* when its interval leaves out 1.0; a table shows `~` otherwise.
//! Intervals are for one comparison each: of twenty comparisons of equal things, one is expected to
//! look proven.

mod comparison;
mod difference;
mod digits;
mod interval;
mod noise;
mod order;
mod student;

pub use comparison::{Comparison, paired_ratio, range_ratio, unpaired_ratio};
pub use difference::{Difference, unpaired_difference};
pub use digits::significant;
pub use interval::{COVERAGE_WHEN_DISTURBED, Interval, mean_interval};
pub use noise::{coefficient_of_variation, spread};
pub use order::{median, median_interval, percentile, trimmed_mean};
pub use student::t_quantile_975;
