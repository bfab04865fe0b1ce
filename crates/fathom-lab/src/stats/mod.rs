//! The lab's statistics.
//!
//! **One cell.** The value of a cell is the median over its runs, with a 95 % interval by the percentile bootstrap
//! ([`median_interval`]). With few runs that interval is only as good as few runs allow: it cannot reach beyond the
//! smallest and the largest run, so with n = 5 it is [min, max] and holds the true median in 93.75 % of cases
//! (1 - 2·2⁻⁵, exactly, whatever the distribution). [`coverage_of_median`] says the figure for each n, and
//! [`Interval::coverage`] carries it, so that a table can say it too.
//!
//! **Two cells of one results file.** The runs of a block are neighbours in time, so drift cancels in the ratio of a
//! block. [`paired_ratio`] takes the logarithms of the blocks' ratios and gives their mean with Student's t interval
//! (n - 1 degrees of freedom), as a ratio: the geometric mean of the blocks' ratios. Why not a bootstrap or a sign test:
//! with five blocks *no* method that assumes nothing about the distribution can call a difference at the 5 % level, since
//! even five ratios on the same side of 1 happen by chance in 2·2⁻⁵ = 6.25 % of cases. The t interval assumes normal
//! log ratios. Where both cells are in truth the same, the log ratio is symmetric by construction, and for symmetric
//! distributions with heavier tails than the normal t is conservative (Efron, JASA 64, 1969): outliers cost power, not
//! honesty. The test `simulate_coverage` prints the error rates over thousands of seeds.
//!
//! **Two results files.** Nothing pairs their runs: [`unpaired_ratio`] is Welch's t interval on the logarithms (1947).
//!
//! A comparison is *proven* when its interval leaves out 1.0; a table shows `~` otherwise. Intervals are for one comparison
//! each: of twenty comparisons of equal things, one is expected to look proven.

mod comparison;
mod interval;
mod noise;
mod order;
mod student;

pub use comparison::{Comparison, paired_ratio, unpaired_ratio};
pub use interval::{Interval, coverage_of_median, median_interval};
pub use noise::{coefficient_of_variation, spread};
pub use order::{median, percentile, trimmed_mean};
pub use student::t_quantile_975;
