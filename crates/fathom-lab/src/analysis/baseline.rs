//! A baseline: what one measurement found, as a text for the user's own repository.
//!
//! ```toml
//! format = "fathom-baseline"
//! version = 1
//! experiment = "first-look"
//! fathom = "0.1.0"
//! started_ms = 1795246620000
//!
//! [environment]
//! kernel = "Linux 6.18.5 x86_64"
//!
//! [[cell]]
//! label = "wal/full"
//! durability = "power-cut"
//! settings = "5b1f0c2d9e3a7744"      # hash of the whole cell
//! axes = { variants = "wal/full" }
//!
//! [[cell.phase]]
//! name = "update"
//! unit = "transaction"
//! wall_rate_per_s = [281.4, 279.9, 283.0]   # one number for each good run
//! …
//! ```
//! Numbers have six significant digits, so that a measurement of the same changes few of them. A
//! version that this Fathom does not know is refused; keys that it does not know are, too, for they
//! would be something that is silently not compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::side::{CellValues, PhaseValues, Side};

/// What `format` says.
const FORMAT: &str = "fathom-baseline";
/// The version that is written.
const VERSION: u32 = 1;
/// A file that begins with this (in its first line that is no comment) is meant to be a baseline.
const FIRST_KEY: &str = "format";
/// A baseline that is longer is none, bytes.
const LONGEST: u64 = 64 << 20;
/// Keys of the environment that differ in every run and say nothing.
pub(super) const FLEETING: [&str; 3] = ["load", "command", "directory"];

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    format: String,
    version: u32,
    experiment: String,
    fathom: String,
    started_ms: i64,
    environment: BTreeMap<String, String>,
    cell: Vec<CellValues>,
}

/// Why a baseline cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// It cannot be opened.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// It is no baseline, or damaged.
    #[error(
        "{path}: this is no baseline of Fathom's: {problem}. `fathom baseline RESULTS.db --out FILE` makes one"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line where there is one.
        problem: String,
    },
    /// A later Fathom wrote it.
    #[error(
        "{path}: a baseline of version {found}; this Fathom reads version {VERSION}. Use a newer one, or make the baseline anew"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// Whether a file looks like a text and not like a results file: SQLite's begin with its name.
#[must_use]
pub fn is_baseline(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0_u8; 4096];
    let Ok(length) = std::fs::File::open(path).and_then(|mut file| file.read(&mut head)) else {
        return false;
    };
    let text = String::from_utf8_lossy(&head[..length]);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.starts_with(FIRST_KEY))
}

impl Side {
    /// The text of a baseline.
    ///
    /// # Errors
    /// In words: it cannot be written as TOML.
    pub fn to_baseline(&self) -> Result<String, String> {
        let mut cell = self.cells.clone();
        cell.iter_mut().flat_map(|cell| &mut cell.phase).for_each(PhaseValues::round);
        let mut environment = self.environment.clone();
        environment.retain(|key, _| !FLEETING.contains(&key.as_str()));
        let baseline = Baseline {
            format: FORMAT.into(),
            version: VERSION,
            experiment: self.experiment.clone(),
            fathom: env!("CARGO_PKG_VERSION").into(),
            started_ms: self.started_ms,
            environment,
            cell,
        };
        let text = toml::to_string(&baseline).map_err(|error| error.to_string())?;
        Ok(format!(
            "# What `fathom compare THIS-FILE NEW.db --fail-if-slower 10%` compares with; made by `fathom baseline`.\n{text}"
        ))
    }

    /// Reads a baseline.
    ///
    /// # Errors
    /// [`BaselineError`].
    pub fn of_baseline(path: &Path) -> Result<Side, BaselineError> {
        let io = |source| BaselineError::Io { path: path.to_path_buf(), source };
        let damaged = |problem: String| BaselineError::Damaged { path: path.to_path_buf(), problem };
        if std::fs::metadata(path).map_err(io)?.len() > LONGEST {
            return Err(damaged(format!("it has more than {} MiB", LONGEST >> 20)));
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        // The version first: a later one may have other keys.
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let head: Head =
            toml::from_str(&text).map_err(|error| damaged(error.to_string().trim().to_owned()))?;
        if head.format != FORMAT {
            return Err(damaged(format!("its format is {:?}", head.format)));
        }
        if head.version > VERSION {
            return Err(BaselineError::Newer { path: path.to_path_buf(), found: head.version });
        }
        let read: Baseline =
            toml::from_str(&text).map_err(|error| damaged(error.to_string().trim().to_owned()))?;
        for phase in read.cell.iter().flat_map(|cell| &cell.phase) {
            let runs = phase.wall_rate_per_s.len();
            let of_model = phase.model_ns.len();
            let fits = runs > 0
                && phase.wall_time_ns.len() == runs
                && [&phase.model_rate_per_s, &phase.model_time_ns, &phase.flushes, &phase.written_bytes]
                    .iter()
                    .all(|values| values.len() == of_model)
                && (of_model == 0 || of_model == runs);
            if !fits {
                return Err(damaged(format!(
                    "phase {:?}: its lists have not one number for each run",
                    phase.name
                )));
            }
        }
        let Baseline { experiment, started_ms, environment, cell, .. } = read;
        Ok(Side { experiment, started_ms, environment, cells: cell, empty: Vec::new() })
    }
}
