//! One blocking connection to a PostgreSQL server, on which any number of requests may be under
//! way.
//!
//! The messages are those of the crate `postgres-protocol`. Not a client library on top of it: the
//! usual ones bring an asynchronous runtime and run the socket on its threads. Here the socket is
//! read and written by the calling thread, whose processor time is what a measurement must see.
//!
//! Requests ([`Connection::script`], [`Connection::prepare`], [`Connection::execute`],
//! [`Connection::sync`]) are only written down. They are sent by whoever waits for an answer.

mod conversation;
mod entry;
mod error;
mod greeting;
mod host;
mod parameter;
mod password;
mod row;
pub mod settings;
mod socket;
mod tls;

pub use conversation::{Answer, Connection};
pub use entry::OnSocket;
pub use error::ConnectionError;
pub use parameter::{Format, Parameter, oid};
pub use password::Password;
pub use row::{Column, Row, bytes_array};
pub use socket::{Address, Socket};
