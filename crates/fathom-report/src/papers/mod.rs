//! The page that puts each paper's finding beside what was measured here, printed from published
//! data.
//!
//! A directory holds three kinds of files. `page.md` is the page with *directives* in double braces
//! where numbers stand ([`page`]). Files `*.toml` name the *data sets*, excerpts of results with
//! the commands that measured them, and the *findings* of a paper, each with the paper's words, the
//! band of values that would bear them out, and the ratio that is to lie in it ([`finding`]).
//! Everything that the page says in numbers is computed here by the laboratory's own estimators, so
//! that a number cannot outlive its data, and a verdict cannot outlive its number ([`verdict`]).

mod block_counts;
mod chart;
mod counted;
mod dataset;
mod directive;
mod error;
mod failure;
mod finding;
mod given;
mod pace;
mod page;
mod printed;
mod prose;
mod select;
mod sheet;
mod simulated;
mod sources;
mod table;
mod tally;
mod verdict;

pub use dataset::Dataset;
pub use error::PapersError;
pub use page::PrintedPage;
pub use printed::PrintedFinding;
pub use sources::{Papers, SimulatedExports};
pub use verdict::Verdict;
