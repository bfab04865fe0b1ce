//! Experiments, plan, runs, results and statistics of Fathom.

pub mod cell;
pub mod event;
pub mod rng;
pub mod stats;
pub mod store;
