//! The workloads of Fathom and the engines that execute them.

pub mod changed;
pub mod chat;
pub mod clock;
mod cold;
pub mod critical;
pub mod engine;
pub mod mobibench_file;
pub mod mobibench_sql;
pub use fathom_ground::params;
pub use fathom_trace::room;
pub mod recorder;
pub mod registry;
pub mod sample;
pub mod sms;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod update;
pub mod workload;

pub use engine::{engines, start_engine};
pub use registry::{create, is_one_thread, most_samples, workload_named, workloads};
