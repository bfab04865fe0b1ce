//! A client of SMPP that submits messages at a rate of its own: `smsc load`.
//!
//! An open loop: a message's latency counts from the moment at which it was to be submitted, so a
//! centre that falls behind cannot hide it.

mod connection;
mod load;
mod step;

pub use connection::{ClientError, Connection};
pub use load::{Load, run};
pub use step::Step;
