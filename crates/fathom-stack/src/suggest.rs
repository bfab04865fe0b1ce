//! "Did you mean …?": see [`fathom_diagnostic::suggest`].

pub use fathom_diagnostic::suggest::{did_you_mean, did_you_mean_hint, nearest};
