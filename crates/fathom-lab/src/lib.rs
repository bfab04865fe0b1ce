//! Experiments, plan, runs, results and statistics of Fathom.

pub mod analysis;
pub mod cell;
pub mod event;
pub mod experiment;
pub mod plan;
pub mod rng;
pub mod stats;
pub mod store;
