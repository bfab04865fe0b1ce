//! The only judge of what goes together in a stack: a plan, the command line and a run ask the same question here, so that
//! what a plan lets pass is not refused by the run.
//!
//! What this machine *has* (rights, drivers, tools, space) is no question for it: a cell that cannot run here is skipped with
//! a reason, and is right all the same.

use crate::device::{Fault, presets};
use crate::given;
use crate::spec::StackSpec;
use crate::stack::{is_model_file, model_text};
use crate::suggest::{did_you_mean_hint, nearest};
use crate::words::check_words;

/// Largest image and external log, MiB: beyond it a size is a slip of the unit.
const LARGEST_MIB: u64 = 16 << 20;

/// A file system that may be named, whether this machine can make it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFileSystem {
    /// As [`StackSpec::filesystem`] names it.
    pub name: String,
    /// Smallest image, MiB.
    pub min_mib: u64,
    /// Smallest external log, MiB; none where there can be no external log.
    pub min_log_mib: Option<u64>,
}

/// What is wrong with one key of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecProblem {
    /// The field of [`StackSpec`].
    pub field: &'static str,
    /// Which of the field's items, where it is a list; from 0.
    pub item: Option<usize>,
    /// What is wrong.
    pub problem: String,
    /// What would be right; may be empty.
    pub hint: String,
}

impl SpecProblem {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        SpecProblem { field, item: None, problem: problem.into(), hint: hint.into() }
    }
}

impl std::fmt::Display for SpecProblem {
    /// Problem and hint in one line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, ": {}", self.hint) }
    }
}

impl StackSpec {
    /// Everything that is wrong with the specification by itself, whatever this machine has: unknown names, values out of
    /// range, keys that do not go together, files that it names and that are not what it says. Empty = it is right.
    ///
    /// `known` are the file systems that may be named, see [`crate::known_filesystems`].
    #[must_use]
    pub fn check(&self, known: &[KnownFileSystem]) -> Vec<SpecProblem> {
        let mut problems = Vec::new();
        let filesystem = known.iter().find(|it| it.name == self.filesystem);
        if filesystem.is_none() {
            problems.push(self.unknown(known));
        }
        if self.filesystem == "dir" {
            problems.extend(self.of_directory());
        } else {
            problems.extend(self.of_image());
            problems.extend(self.of_sizes(filesystem, known));
            problems.extend(self.of_words());
        }
        problems.extend(self.of_device());
        problems
    }

    fn unknown(&self, known: &[KnownFileSystem]) -> SpecProblem {
        // Where several names are as near, the commonest was meant.
        let names = || ["ext4", "xfs", "btrfs"].into_iter().chain(known.iter().map(|it| it.name.as_str()));
        let near = did_you_mean_hint(nearest(&self.filesystem, names()));
        let hint = format!("{near}  `fathom list filesystems` shows what this machine can make");
        let problem = format!("unknown file system \"{}\"", self.filesystem);
        SpecProblem::new("filesystem", problem, hint.trim_start())
    }

    /// A directory is neither made nor mounted.
    fn of_directory(&self) -> impl Iterator<Item = SpecProblem> {
        let given = [
            ("guest", self.guest),
            ("mkfs", !self.mkfs.is_empty()),
            ("mount", !self.mount.is_empty()),
            ("log_mib", self.log_mib.is_some()),
            ("image", self.image.is_some()),
            ("device", !self.device.is_empty()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| {
            SpecProblem::new(
                field,
                "has no meaning for filesystem = \"dir\", which is not made or mounted",
                "name a file system such as \"ext4\", or leave it out",
            )
        })
    }

    fn of_sizes(&self, filesystem: Option<&KnownFileSystem>, known: &[KnownFileSystem]) -> Vec<SpecProblem> {
        let mut problems = Vec::new();
        let Some(filesystem) = filesystem else { return problems };
        let name = &filesystem.name;
        let least = if self.image.is_some() { 1 } else { filesystem.min_mib };
        if self.size_mib < least {
            let problem = format!("an image of {} MiB is too small for {name}", self.size_mib);
            problems.push(SpecProblem::new("size_mib", problem, format!("it needs at least {least} MiB")));
        } else if self.size_mib > LARGEST_MIB {
            let problem = format!("{} MiB is out of range for {name}", self.size_mib);
            let hint = format!("from {least} to {LARGEST_MIB} MiB");
            problems.push(SpecProblem::new("size_mib", problem, hint));
        }
        match (self.log_mib, filesystem.min_log_mib) {
            (None, _) => {}
            (Some(_), None) => {
                let with: Vec<&str> =
                    known.iter().filter(|it| it.min_log_mib.is_some()).map(|it| it.name.as_str()).collect();
                let problem = format!("{name} has no external log device");
                problems.push(SpecProblem::new("log_mib", problem, format!("{} have one", in_words(&with))));
            }
            (Some(mib), Some(least)) if !(least..=LARGEST_MIB).contains(&mib) => {
                let problem = format!("{mib} MiB is out of range for an external log of {name}");
                let hint = format!("from {least} to {LARGEST_MIB} MiB");
                problems.push(SpecProblem::new("log_mib", problem, hint));
            }
            (Some(_), Some(_)) => {}
        }
        problems
    }

    fn of_words(&self) -> Vec<SpecProblem> {
        let mut problems = Vec::new();
        if self.mount.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let problem = format!("{:?} holds white space", self.mount);
            let hint = "options are separated by commas alone, e.g. \"noatime,data=journal\"";
            problems.push(SpecProblem::new("mount", problem, hint));
        }
        if let Some(item) = self.mkfs.iter().position(|word| word.is_empty() || word.contains('\0')) {
            let hint = "give one word an item, e.g. [\"-O\", \"^has_journal\"]";
            let problem = SpecProblem::new("mkfs", "holds an empty word", hint);
            problems.push(SpecProblem { item: Some(item), ..problem });
        }
        if problems.is_empty()
            && let Err((field, problem)) = check_words(self)
        {
            problems.push(SpecProblem::new(field, problem, "only options of the file system may stand here"));
        }
        problems
    }

    fn of_image(&self) -> Vec<SpecProblem> {
        let mut problems = Vec::new();
        let Some(path) = self.image.as_deref().filter(|_| self.filesystem != "dir") else { return problems };
        for (field, is_given) in [("mkfs", !self.mkfs.is_empty()), ("log_mib", self.log_mib.is_some())] {
            if is_given {
                let problem = "has no meaning for an image that is there already";
                problems.push(SpecProblem::new(field, problem, "leave it out"));
            }
        }
        if let Err(problem) = given::judged(path, &self.filesystem) {
            problems.push(SpecProblem::new("image", problem, ""));
        }
        problems
    }

    fn of_device(&self) -> Vec<SpecProblem> {
        let mut problems = Vec::new();
        let is_modelled = !self.device.is_empty();
        if !self.log_device.is_empty() && (self.log_mib.is_none() || !is_modelled) {
            problems.push(SpecProblem::new(
                "log_device",
                "is what the external log of a file system on a modelled device lies on",
                "give `log_mib` and `device` as well",
            ));
        }
        for (field, device) in [("device", &self.device), ("log_device", &self.log_device)] {
            problems.extend(Some(device).filter(|it| !it.is_empty()).and_then(|it| wrong_device(field, it)));
        }
        if !self.faults.is_empty() && !is_modelled {
            let problem = "only a modelled device fails on demand";
            problems.push(SpecProblem::new("faults", problem, "name one with `device`"));
        }
        for (item, fault) in self.faults.iter().enumerate() {
            if let Err(problem) = fault.parse::<Fault>() {
                problems.push(SpecProblem { item: Some(item), ..SpecProblem::new("faults", problem, "") });
            }
        }
        if self.capture && self.operations.is_none() {
            let problem = "data is kept beside the log of operations";
            problems.push(SpecProblem::new("capture", problem, "give `operations` as well"));
        }
        if self.operations.is_some() && !is_modelled {
            let problem = "only a modelled device logs its operations";
            let hint = "name one with `device`, or trace blocks instead";
            problems.push(SpecProblem::new("operations", problem, hint));
        }
        if let Some(path) = self.logs().into_iter().find(|path| path.exists()) {
            let problem = format!("{} exists, and would be overwritten", path.display());
            problems.push(SpecProblem::new("operations", problem, "name another file"));
        }
        problems
    }
}

fn wrong_device(field: &'static str, device: &str) -> Option<SpecProblem> {
    let problem = model_text(device).err()?;
    if is_model_file(device) {
        // What is wrong in a model's file is told with its line; the first one is enough here.
        let first = problem.lines().next().unwrap_or_default().to_owned();
        return Some(SpecProblem::new(field, first, "it is to be a model's file"));
    }
    let near = did_you_mean_hint(nearest(device, presets().iter().map(|model| model.name.as_str())));
    let hint = format!("{near}  `fathom list devices` shows them; or give the path of a model (FILE.toml)");
    Some(SpecProblem::new(field, problem, hint.trim_start()))
}

/// `xfs, ext3 and ext4`.
fn in_words(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        [one] => (*one).into(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}
