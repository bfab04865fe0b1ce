//! Profiles: what an application keeps and what its threads ask, as TOML files (`profiles/`).

use std::sync::OnceLock;

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use serde::Deserialize;

use super::expression::{Definitions, Expression};
use crate::error::TraceError;

/// An application as it is made up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name: `gmail`.
    pub name: String,
    /// Raised with every change after which the same seed gives another trace.
    pub version: u32,
    /// One line.
    pub title: String,
    /// Whose traces it stands for, and why those cannot be had.
    pub stands_for: String,
    /// Where what it says is published.
    pub sources: Vec<String>,
    /// What nobody has published.
    pub assumed: Vec<String>,
    #[serde(default)]
    pub(super) values: Definitions,
    #[serde(rename = "database")]
    pub(super) databases: Vec<Database>,
    #[serde(rename = "thread")]
    pub(super) threads: Vec<Thread>,
}

/// A database: its schema, and the rows that it holds at the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Database {
    pub name: String,
    pub path: String,
    pub schema: String,
    #[serde(default)]
    pub fill: Vec<Fill>,
}

/// Rows of a table at the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fill {
    /// The INSERT of one row.
    pub sql: String,
    /// How many at scale 100.
    pub rows: u32,
    /// Whether there are so many at every scale.
    #[serde(default)]
    pub fixed: bool,
    /// The counter that numbers them.
    pub counter: Option<String>,
    #[serde(default, rename = "let")]
    pub values: Definitions,
}

/// A thread, with a connection to each database that it asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thread {
    /// What it is, for readers of the file.
    #[serde(rename = "name")]
    pub _name: String,
    /// Activities that are drawn by their shares, at scale 100.
    #[serde(default)]
    pub activities: u32,
    /// Mean time between two activities, ms.
    pub think_ms: u64,
    /// Mean time between two statements of an activity, µs.
    pub pause_us: u64,
    /// One of so many pauses between activities is a rest; 0: none is.
    #[serde(default)]
    pub rest_every: u64,
    /// Mean time of a rest, ms.
    #[serde(default)]
    pub rest_ms: u64,
    #[serde(rename = "activity")]
    pub all: Vec<Activity>,
}

/// What a thread does at a time: statements on one database.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Activity {
    /// What it is, for readers of the file and errors.
    pub name: String,
    /// The database.
    pub on: String,
    /// Done so many times (at scale 100), before those with a share, in the order of the file.
    #[serde(default)]
    pub count: u32,
    /// Its part among those that are drawn.
    #[serde(default)]
    pub share: u32,
    #[serde(default, rename = "let")]
    pub values: Definitions,
    pub statements: Vec<Item>,
}

/// Statements with the values that they share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// How many times in a row; each time `let` is drawn anew.
    pub times: Expression,
    #[serde(default, rename = "let")]
    pub values: Definitions,
    pub statements: Vec<Item>,
}

/// A statement or a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Item {
    Statement(String),
    Group(Group),
}

const FILES: [(&str, &str); 6] = [
    ("androbench", include_str!("profiles/androbench.toml")),
    ("gmail", include_str!("profiles/gmail.toml")),
    ("kakaotalk", include_str!("profiles/kakaotalk.toml")),
    ("facebook", include_str!("profiles/facebook.toml")),
    ("browser", include_str!("profiles/browser.toml")),
    ("media-scan", include_str!("profiles/media-scan.toml")),
];

/// Their names, in the order in which they are shown.
pub const NAMES: [&str; 6] = ["androbench", "gmail", "kakaotalk", "facebook", "browser", "media-scan"];

/// All profiles.
#[must_use]
pub fn profiles() -> &'static [Profile] {
    static PROFILES: OnceLock<Vec<Profile>> = OnceLock::new();
    // A file that cannot be read is left out here, and fails a test.
    PROFILES.get_or_init(|| FILES.iter().filter_map(|(_, text)| Profile::parse(text).ok()).collect())
}

/// The file of the profile called `name`.
#[must_use]
pub fn text_of(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The profile called `name`.
///
/// # Errors
/// There is none, with what was probably meant.
pub fn profile(name: &str) -> Result<&'static Profile, TraceError> {
    profiles().iter().find(|profile| profile.name == name).ok_or_else(|| {
        let hint = did_you_mean(nearest(name, NAMES));
        // The hint ends with its question mark.
        let all = if hint.is_empty() { "; there are" } else { " There are" };
        TraceError::refused(
            format!("profile \"{name}\""),
            format!("there is none of this name{hint}{all}: {}", NAMES.join(", ")),
        )
    })
}

impl Profile {
    /// Reads a profile's file.
    pub(super) fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        for thread in &profile.threads {
            for activity in &thread.all {
                let name = &activity.name;
                if !profile.databases.iter().any(|database| database.name == activity.on) {
                    return Err(format!(
                        "the activity \"{name}\" is on \"{}\", which is no database",
                        activity.on
                    ));
                }
                if (activity.count == 0) == (activity.share == 0) {
                    return Err(format!("the activity \"{name}\" has a count or a share, and not both"));
                }
            }
            let shares: u32 = thread.all.iter().map(|thread| thread.share).sum();
            if (shares == 0) != (thread.activities == 0) {
                return Err(format!(
                    "the thread \"{}\" has shares without activities, or activities without",
                    thread._name
                ));
            }
        }
        Ok(profile)
    }

    /// Name and version, as a trace keeps them: `gmail/1`.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{}/{}", self.name, self.version)
    }

    /// The profile that a trace names as its databases' generator.
    pub(crate) fn of_identity(identity: &str) -> Option<&'static Profile> {
        profiles().iter().find(|profile| profile.identity() == identity)
    }

    /// The database at a place, where it is one of this profile.
    pub(super) fn database(&self, path: &[u8]) -> Option<&Database> {
        self.databases.iter().find(|database| database.path.as_bytes() == path)
    }
}

/// `amount` at a scale, at least 1.
pub(super) fn scaled(amount: u32, scale_percent: u32) -> i64 {
    (i64::from(amount) * i64::from(scale_percent) / 100).max(1)
}
