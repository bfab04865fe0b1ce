//! A client of SMPP that submits messages at a rate of its own: `smsc load`.
//!
//! An open loop: a message's latency counts from the moment at which it was to be submitted, so a
//! centre that falls behind cannot hide it.

mod connection;
mod load;
mod step;

pub use connection::{ClientError, Connection};
pub use load::{Load, run, run_until};
pub use step::Step;

/// The descriptors that this process may have: as many as it may give itself. None where the system
/// does not tell.
#[must_use]
pub fn descriptor_limit() -> Option<usize> {
    crate::serve::descriptor_limit()
}
