//! Load on a centre: messages as people send them, clients, senders, timers, and what is measured
//! of them.

mod clock;
mod figures;
mod flights;
mod housekeeping;
mod live;
mod plan;
mod profile;
mod receiver;
mod run;
mod sender;
mod standstill;
mod start;
mod state;
mod zipf;

pub use clock::Clock;
pub(crate) use figures::histogram;
pub use figures::{Figures, Latencies, Snapshot};
pub use live::LiveLine;
pub use plan::{LoadError, OnAccepted, OnStuck, Pace, Plan, Side};
pub use profile::{Bodies, LoadProfile, Messages, SCHEDULED_US};
pub use run::{Moment, Ran, run};
