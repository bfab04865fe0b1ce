//! Limits that protect: what waits does not wait for good, what fails leaves nothing half done,
//! what grows is bounded.
#![allow(clippy::unwrap_used)]

mod checkpoints;
mod dropping;
mod endless;
mod filling;
mod frames;
mod space;
mod waiting;
mod wakers;
