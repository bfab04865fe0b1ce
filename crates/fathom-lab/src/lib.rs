//! Experiments, plan, runs, results and statistics of Fathom.

pub mod cell;
pub mod event;
