//! What a centre does besides its transactions, by sessions of a store: recovery after a restart,
//! the Flusher, and the state of a message wherever it is.

mod catch_up;
mod flush;
mod lookup;
mod rebuild;
mod recover;

pub use catch_up::catch_up;
pub use flush::flush;
pub use lookup::status;
pub use recover::{RecoveryReport, recover};
