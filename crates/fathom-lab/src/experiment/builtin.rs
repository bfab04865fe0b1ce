//! The experiments that come with Fathom: files of the same form as a user's, embedded.

use super::Experiment;

/// A built-in experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// As in `fathom run NAME`.
    pub name: &'static str,
    /// The file, whole: what `fathom list --show NAME` prints.
    pub source: &'static str,
}

impl Builtin {
    /// Its title, as the file says.
    #[must_use]
    pub fn title(&self) -> String {
        Experiment::parse("built-in", self.source)
            .map_or_else(|_| self.name.to_owned(), |experiment| experiment.title)
    }

    /// The paper it reproduces, as the file says.
    #[must_use]
    pub fn paper(&self) -> Option<String> {
        Experiment::parse("built-in", self.source).ok()?.paper
    }
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, source: include_str!(concat!("../../experiments/", $name, ".toml")) }),*]
    };
}

static BUILTIN: &[Builtin] = embedded![
    "first-look",
    "update-cost",
    "update-cost-server",
    "time-split",
    "journal-modes",
    "sms-centre",
    "file-systems",
    "journal-of-journal",
    "barriers-off",
    "several-files",
    "aged-file-system",
    "lifetime"
];

/// All built-in experiments, in the order in which they are shown.
#[must_use]
pub fn builtin() -> &'static [Builtin] {
    BUILTIN
}

/// The built-in experiment called `name`.
#[must_use]
pub fn builtin_named(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|experiment| experiment.name == name)
}
