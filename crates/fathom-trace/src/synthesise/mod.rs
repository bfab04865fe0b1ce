//! Traces that are made up: what an application is known to keep and to ask, without its users.
//!
//! The papers replayed traces of Android applications that were never published. A [`Profile`]
//! stands in for each: schemas, rows at the start, threads, and the activities that these draw,
//! with the sources of what is published and a list of what is assumed. The same profile, seed and
//! scale give the same bytes on every machine.
//!
//! Each statement is executed while the trace is made, so a replay can check the rows that it
//! returns and changes. The file does not hold the databases: it names the generator
//! (`Start::Generator`), and they are made again before a replay. What is *not* known of a made-up
//! trace is time: durations are nominal, and think times are the profile's.

mod expression;
mod fill;
mod play;
mod profile;
#[cfg(test)]
mod tests;

use std::path::Path;

use rusqlite::Connection;

pub use profile::{NAMES, Profile, profile, profiles, text_of};

use crate::error::TraceError;
use crate::format::{Totals, Writer};

/// Scales that can be asked for, in percent.
pub const SCALES: std::ops::RangeInclusive<u32> = 1..=10_000;

/// What every made-up trace must be shown with.
pub const NOTE: &str = "made up from published descriptions; it stands in for traces that were never published, and its durations are nominal";

/// Writes the trace of a profile to `out`.
///
/// # Errors
/// A scale that is out of range; a place that cannot be written.
pub fn synthesise(
    profile: &Profile,
    seed: u64,
    scale_percent: u32,
    out: &Path,
) -> Result<Totals, TraceError> {
    if !SCALES.contains(&scale_percent) {
        let problem = format!("is out of range: {} to {} %", SCALES.start(), SCALES.end());
        return Err(TraceError::refused(format!("scale {scale_percent} %"), problem));
    }
    play::play(profile, seed, scale_percent, Writer::create(out)?)
}

/// A database at the start of a made-up trace, found by the names that the trace keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generator {
    profile: &'static Profile,
    database: &'static profile::Database,
    seed: u64,
    scale_percent: u32,
}

impl Generator {
    /// The generator of the database at `path`.
    ///
    /// # Errors
    /// A profile, or a version of it, that this program does not have; a path that is none of its
    /// databases.
    pub fn new(identity: &str, seed: u64, scale_percent: u32, path: &[u8]) -> Result<Generator, TraceError> {
        let name = || String::from_utf8_lossy(path).into_owned();
        let Some(profile) = Profile::of_identity(identity) else {
            return Err(TraceError::refused(
                name(),
                format!(
                    "its generator {identity} is not known to this program, which has {}; use the fathom that made the trace, or make it again",
                    profiles().iter().map(Profile::identity).collect::<Vec<_>>().join(", ")
                ),
            ));
        };
        let Some(database) = profile.database(path) else {
            return Err(TraceError::refused(name(), format!("is no database of the generator {identity}")));
        };
        if !SCALES.contains(&scale_percent) {
            return Err(TraceError::refused(
                name(),
                format!("its generator's scale {scale_percent} % is out of range"),
            ));
        }
        Ok(Generator { profile, database, seed, scale_percent })
    }

    /// Makes the database in an empty one.
    ///
    /// # Errors
    /// A full disk.
    pub fn make(&self, connection: &Connection) -> Result<(), TraceError> {
        fill::fill(self.profile, self.database, self.seed, self.scale_percent, connection)
    }
}
