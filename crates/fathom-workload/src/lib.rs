//! The workloads of Fathom and the engines that execute them.

pub mod engine;
pub mod sample;
pub mod spec;
pub mod workload;
