//! mmdb for C. `include/mmdb.h` is made of this crate and has the rules of use at its head; a test
//! compares the two.
//!
//! Each function here takes what it was given apart, calls [`mmdb`], and gives back a status. What
//! the caller holds are handles (`handle.rs`): pointers to something that begins with a mark of its
//! kind, so that NULL, another kind and most of what was freed are told from the right one. No
//! panic leaves a function (`failure.rs`).
#![allow(
    non_camel_case_types,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the types have their names in C; the rules for all functions are at the head of mmdb.h"
)]

mod alter;
mod argument;
mod blob;
mod cursor;
mod database;
mod failure;
mod handle;
mod interruption;
mod moment;
mod options;
mod point;
mod range;
mod release;
mod row;
mod schema;
mod snapshot;
mod stats;
mod status;
mod table;
mod ticket;
mod transaction;
mod transaction_state;
mod value;

pub use alter::*;
pub use blob::*;
pub use cursor::*;
pub use database::*;
pub use failure::{mmdb_error_code, mmdb_error_message};
pub use interruption::*;
pub use options::*;
pub use point::*;
pub use range::{MMDB_RANGE_FOR_UPDATE, MMDB_RANGE_REVERSE, MMDB_RANGE_SKIP_LOCKED, mmdb_bound};
pub use release::*;
pub use row::*;
pub use schema::*;
pub use snapshot::*;
pub use stats::*;
pub use status::*;
pub use table::*;
pub use ticket::*;
pub use transaction::*;
pub use value::*;

/// The release, such as "0.1.0". Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn mmdb_version() -> *const std::ffi::c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
