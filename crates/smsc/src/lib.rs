//! An SMS centre: one application over exchangeable stores.
//!
//! - [`text`]: alphabets and parts.
//! - [`model`]: tables and rows.
//! - [`transaction`]: what the centre asks of a store, row by row.
//! - [`centre`]: the transactions, written once.
//! - [`store`]: the stores, which run the centre's transactions as operations.
//! - [`housekeeping`]: recovery, the Flusher, lookup.
//! - [`network`]: simulated mobiles.
//! - [`smpp`]: SMPP 3.4, octet for octet.
//! - [`serve`]: the centre as a server of SMPP.
//! - [`client`]: a client of SMPP that loads a centre.
//! - [`load`]: clients, senders and what is measured.
//! - [`check`]: the invariants.
//! - [`mod@bench`]: one measurement.

pub mod bench;
pub mod centre;
pub mod check;
pub mod client;
mod file_identity;
pub mod housekeeping;
pub mod load;
pub mod model;
pub mod network;
pub mod serve;
pub mod smpp;
pub mod store;
pub mod text;
pub mod transaction;
