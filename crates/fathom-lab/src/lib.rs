//! Experiments, plan, runs, results and statistics of Fathom.

pub mod advise;
pub mod analysis;
pub mod anatomy;
pub mod cell;
pub mod conduct;
pub mod estimate;
pub mod event;
pub mod experiment;
pub mod failure;
pub mod machine_state;
pub mod model_time;
mod momentary;
pub mod naming;
pub mod plan;
pub mod recording;
pub mod remote;
mod replaced;
pub mod schedule;
pub mod sim;
pub mod simulate;
pub mod stats;
pub mod store;
mod version;
pub mod worker;

/// Milliseconds since 1970 UTC.
pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}
