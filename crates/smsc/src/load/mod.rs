//! Load on a centre: messages as people send them, clients, senders, timers, and what is measured
//! of them.

mod clock;
mod figures;
mod flights;
mod housekeeping;
mod live;
mod profile;
mod receiver;
mod run;
mod sender;
mod standstill;
mod start;
mod zipf;

pub use clock::Clock;
pub(crate) use figures::histogram;
pub use figures::{Figures, Latencies, Snapshot};
pub use live::LiveLine;
pub use profile::{Bodies, LoadProfile, Messages, SCHEDULED_US};
pub use receiver::Pace;
pub use run::{LoadError, Moment, OnAccepted, OnStuck, Plan, Ran, Side, run};
