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
//! settings = "5b1f0c2d9e3a7744"      # hash of the cell
//! on = "ssh:board"                    # where it ran, if not here
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

use fathom_diagnostic::abridged;
use serde::{Deserialize, Serialize};

use super::side::{CellValues, PhaseValues, Side};
use crate::momentary::{is_momentary, parted};
use crate::naming::title_of_label;

/// What `format` says.
const FORMAT: &str = "fathom-baseline";
/// The version that is written.
const VERSION: u32 = 1;
/// What SQLite's databases begin with, as results files do.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// How the name of a baseline ends.
const EXTENSION: &str = "toml";
/// What git writes into a file that it could not merge, at the beginning of a line.
const CONFLICT: [&str; 3] = ["<<<<<<< ", "=======", ">>>>>>> "];
/// A baseline that is longer is none, bytes.
const LONGEST: u64 = 64 << 20;
/// Keys of the environment that differ in every run and say nothing.
const FLEETING: [&str; 3] = ["load", "command", "directory"];

/// Whether a key of the environment differs in every run and says nothing.
pub(super) fn is_fleeting(key: &str) -> bool {
    let (of_one, _) = parted(key);
    // A processor that was slowed down in one of two results is worth a word.
    FLEETING.contains(&of_one) || (is_momentary(key) && of_one != "throttled")
}

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
        found: u64,
    },
}

/// Whether a file is meant to be a baseline: it says so, or its name does and it is no database.
/// Whatever is wrong with it then is said of a baseline: one that a merge has spoilt does not begin
/// as one does.
#[must_use]
pub fn is_baseline(path: &Path) -> bool {
    let Some(head) = head(path) else { return false };
    head.contains(FORMAT) || path.extension().is_some_and(|end| end == EXTENSION)
}

/// Whether a file says that it is a baseline, whatever is wrong with it: a new one may replace it.
#[must_use]
pub fn says_baseline(path: &Path) -> bool {
    head(path).is_some_and(|head| head.contains(&format!("format = \"{FORMAT}\"")))
}

/// What a file begins with; none of what is no file, or a database.
fn head(path: &Path) -> Option<String> {
    use std::io::Read;
    if !path.is_file() {
        return None;
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    (read.is_ok() && !head.starts_with(SQLITE)).then(|| String::from_utf8_lossy(&head).into_owned())
}

/// Where a merge has left both sides in a text, as a line from 1.
fn conflict(text: &str) -> Option<usize> {
    let is_mark = |line: &str| CONFLICT.iter().any(|mark| line.starts_with(mark));
    text.lines().position(is_mark).map(|line| line + 1)
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
        environment.retain(|key, _| !is_fleeting(key));
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
        let bytes = std::fs::read(path).map_err(io)?;
        let text = String::from_utf8(bytes).map_err(|_| damaged("it is no text in UTF-8".into()))?;
        // Some editors begin a text with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if text.trim().is_empty() {
            return Err(damaged("it is empty".into()));
        }
        if let Some(line) = conflict(text) {
            return Err(damaged(format!(
                "line {line} is a mark of a merge that is not resolved: take one side whole, or measure again"
            )));
        }
        // The version first: a later one may have other keys.
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u64,
            #[serde(default)]
            fathom: String,
        }
        let head: Head =
            toml::from_str(text).map_err(|error| damaged(abridged(error.to_string().trim()).into_owned()))?;
        if head.format != FORMAT {
            return Err(damaged(format!("its format is {:?}", head.format)));
        }
        if head.version > u64::from(VERSION) {
            return Err(BaselineError::Newer { path: path.to_path_buf(), found: head.version });
        }
        if head.version == 0 {
            return Err(damaged("its version is 0, and there was none before 1".into()));
        }
        let read: Baseline = toml::from_str(text).map_err(|error| {
            let mut problem = abridged(error.to_string().trim()).into_owned();
            // What it does not know another one may have written.
            let own = env!("CARGO_PKG_VERSION");
            if !head.fathom.is_empty() && head.fathom != own {
                problem += &format!(". It was made by Fathom {}, and this is {own}", head.fathom);
            }
            damaged(problem)
        })?;
        check(&read.cell).map_err(damaged)?;
        let Baseline { experiment, started_ms, environment, mut cell, .. } = read;
        cell.iter_mut().for_each(|cell| cell.title = title_of_label(&cell.label, &cell.axes));
        Ok(Side { experiment, started_ms, environment, cells: cell, empty: Vec::new(), is_rounded: true })
    }
}

/// What a hand or a merge may have done to the numbers: a cell or a phase that is there twice,
/// lists of different lengths, and what no measurement gives. Such a number was left out without a
/// word, and the gate then spoke of too few runs.
///
/// # Errors
/// In words, with the cell and the phase.
fn check(cells: &[CellValues]) -> Result<(), String> {
    for (place, cell) in cells.iter().enumerate() {
        if cells[..place].iter().any(|other| other.axes == cell.axes) {
            return Err(format!("the cell {:?} is there twice", cell.label));
        }
        for (place, phase) in cell.phase.iter().enumerate() {
            let name = format!("the cell {:?}, phase {:?}", cell.label, phase.name);
            if cell.phase[..place].iter().any(|other| other.name == phase.name && other.x == phase.x) {
                return Err(format!("{name}, is there twice"));
            }
            let runs = phase.wall_rate_per_s.len();
            let of_model = phase.model_ns.len();
            let has_all = runs > 0 && (of_model == 0 || of_model == runs);
            for (list, values, may_be_zero) in phase.lists() {
                let wanted = if list.starts_with("wall") { runs } else { of_model };
                if !has_all || values.len() != wanted {
                    return Err(format!("{name}: {list} has not one number for each run"));
                }
                let is_measured =
                    |value: &&f64| value.is_finite() && (**value > 0.0 || (may_be_zero && **value == 0.0));
                if let Some(wrong) = values.iter().find(|value| !is_measured(value)) {
                    return Err(format!("{name}: {list} holds {wrong}, which nothing measures"));
                }
            }
        }
    }
    Ok(())
}
