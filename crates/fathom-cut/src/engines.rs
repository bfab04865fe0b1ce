//! Names of the engines that do work of their own.

/// mmdb, which is none of fathom-workload's engines.
pub const MMDB: &str = "mmdb";
/// PostgreSQL, which does the built-in script.
pub const POSTGRESQL: &str = "postgresql";
/// The SMS centre on one of its stores.
pub const SMSC: &str = "smsc";

/// Whether an engine does work of its own, by which only it can be judged.
#[must_use]
pub fn has_own_work(engine: &str) -> bool {
    [MMDB, POSTGRESQL, SMSC].contains(&engine)
}
