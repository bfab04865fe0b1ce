//! An SMS centre: one application over exchangeable stores.
//!
//! - [`text`]: alphabets and parts.
//! - [`model`]: tables and rows.
//! - [`centre`]: the transactions, written once.
//! - [`store`]: what the centre asks of a store, and the stores.
//! - [`network`]: simulated mobiles.
//! - [`load`]: clients, senders and what is measured.
//! - [`check`]: the invariants.
//! - [`mod@bench`]: one measurement.

pub mod bench;
pub mod centre;
pub mod check;
pub mod load;
pub mod model;
pub mod network;
pub mod store;
pub mod text;
