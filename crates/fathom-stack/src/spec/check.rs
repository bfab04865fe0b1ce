//! The only judge of what goes together in a stack: a plan, the command line and a run ask the same
//! question here, so that what a plan lets pass is not refused by the run.
//!
//! What this machine *has* (rights, drivers, tools, space) is no question for it: a cell that
//! cannot run here is skipped with a reason, and is right all the same.

use std::path::Path;

use fathom_device::{Fault, is_model_file, model_text, presets};
use fathom_diagnostic::suggest::{did_you_mean_hint, nearest};

use super::filesystem::FileSystem;
use super::given;
use super::machine::Machine;
use super::problem::Problem;
use super::stack_spec::StackSpec;
use super::words::check_words;

/// Largest image and external log, MiB: beyond it a size is a slip of the unit.
pub(super) const LARGEST_MIB: u64 = 16 << 20;

impl StackSpec {
    /// Everything that is wrong with the specification, whatever this machine has: unknown names,
    /// values out of range, keys that do not go together, files that it names and that are not what
    /// it says. Empty = it is right.
    ///
    /// `machine` tells which file systems may be named. Whether it can make them is no question
    /// here: a cell that cannot run is skipped with a reason, and is right all the same.
    #[must_use]
    pub fn check(&self, machine: &Machine) -> Vec<Problem> {
        let mut problems = Vec::new();
        match self.place.filesystem() {
            None => problems.extend(self.of_directory()),
            Some(name) => {
                let filesystem = machine.filesystem(name);
                if filesystem.is_none() {
                    problems.push(unknown(name, machine));
                }
                problems.extend(self.of_image(name));
                if let Some(filesystem) = filesystem {
                    problems.extend(self.of_sizes(filesystem, machine));
                }
                problems.extend(self.of_words(filesystem));
            }
        }
        problems.extend(self.of_kept_file());
        problems.extend(self.of_device());
        problems.extend(self.of_operations());
        problems
    }

    /// A directory is neither made nor mounted.
    fn of_directory(&self) -> impl Iterator<Item = Problem> {
        let given = [
            ("guest", self.guest),
            ("mkfs", !self.mkfs.is_empty()),
            ("mount", self.mount.is_some()),
            ("log_mib", self.log_mib.is_some()),
            ("image", self.image.is_some()),
            ("device", self.device.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| {
            Problem::new(
                field,
                "has no meaning for filesystem = \"dir\", which is not made or mounted",
                "name a file system such as \"ext4\", or leave it out",
            )
        })
    }

    fn of_sizes(&self, filesystem: &FileSystem, machine: &Machine) -> Vec<Problem> {
        let mut problems = Vec::new();
        let name = &filesystem.name;
        let least = if self.image.is_some() { 1 } else { filesystem.min_mib };
        if self.size_mib < least {
            let problem = format!("an image of {} MiB is too small for {name}", self.size_mib);
            problems.push(Problem::new("size_mib", problem, format!("it needs at least {least} MiB")));
        } else if self.size_mib > LARGEST_MIB {
            let problem = format!("{} MiB is out of range for {name}", self.size_mib);
            let hint = format!("from {least} to {LARGEST_MIB} MiB");
            problems.push(Problem::new("size_mib", problem, hint));
        }
        match (self.log_mib, filesystem.min_log_mib()) {
            (None, _) => {}
            (Some(_), None) => {
                let with = machine.filesystems().iter().filter(|other| other.min_log_mib().is_some());
                let with: Vec<&str> = with.map(|other| &*other.name).collect();
                let problem = format!("{name} has no external log device");
                problems.push(Problem::new("log_mib", problem, format!("{} have one", in_words(&with))));
            }
            (Some(mib), Some(least)) if !(least..=LARGEST_MIB).contains(&mib) => {
                let problem = format!("{mib} MiB is out of range for an external log of {name}");
                let hint = format!("from {least} to {LARGEST_MIB} MiB");
                problems.push(Problem::new("log_mib", problem, hint));
            }
            (Some(_), Some(_)) => {}
        }
        problems
    }

    fn of_words(&self, filesystem: Option<&FileSystem>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mount = self.mount.as_deref().unwrap_or_default();
        if mount.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            let problem = format!("{mount:?} holds white space");
            let hint = "options are separated by commas alone, e.g. \"noatime,data=journal\"";
            problems.push(Problem::new("mount", problem, hint));
        } else if mount.split(',').any(|option| option == "ro") {
            let problem = format!("{mount:?} mounts it read-only, and every run writes");
            problems.push(Problem::new("mount", problem, "take `ro` out"));
        }
        if let Some(item) = self.mkfs.iter().position(|word| word.is_empty() || word.contains('\0')) {
            let hint = "give one word an item, e.g. [\"-O\", \"^has_journal\"]";
            let problem = Problem::new("mkfs", "holds an empty word", hint);
            problems.push(Problem { item: Some(item), ..problem });
        }
        if let Some((item, word)) = self.mkfs.iter().enumerate().find(|(_, word)| is_several(word)) {
            let hint = format!("give one word an item: {:?}", word.split_whitespace().collect::<Vec<_>>());
            let problem = Problem::new("mkfs", format!("{word:?} is several words for mkfs in one"), hint);
            problems.push(Problem { item: Some(item), ..problem });
        }
        if problems.is_empty()
            && let Some(filesystem) = filesystem
            && let Err((field, problem)) = check_words(self, filesystem)
        {
            problems.push(Problem::new(field, problem, "only options of the file system may stand here"));
        }
        problems
    }

    fn of_image(&self, filesystem: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let Some(path) = self.image.as_deref() else { return problems };
        for (field, is_given) in [("mkfs", !self.mkfs.is_empty()), ("log_mib", self.log_mib.is_some())] {
            if is_given {
                let problem = "has no meaning for an image that is there already";
                problems.push(Problem::new(field, problem, "leave it out"));
            }
        }
        if let Err(problem) = given::check_holds(path, filesystem) {
            problems.push(Problem::new("image", problem, ""));
        }
        problems
    }

    /// The file that an image stays in.
    fn of_kept_file(&self) -> Option<Problem> {
        let path = self.keep.as_deref()?;
        if self.place.is_directory() {
            let problem = "a directory has no image";
            return Some(Problem::new("keep", problem, "name a file system"));
        }
        if self.log_mib.is_some() {
            let problem = "the external log would go with the stack, and without it the image is of no use";
            return Some(Problem::new("keep", problem, "leave out `log_mib`"));
        }
        path.symlink_metadata().is_ok().then(|| {
            let problem = format!("{} exists, and would be overwritten", path.display());
            Problem::new("keep", problem, "name another file")
        })
    }

    fn of_device(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let is_modelled = self.device.is_some();
        if self.log_device.is_some() && (self.log_mib.is_none() || !is_modelled) {
            problems.push(Problem::new(
                "log_device",
                "is what the external log of a file system on a modelled device lies on",
                "give `log_mib` and `device` as well",
            ));
        }
        for (field, device) in [("device", &self.device), ("log_device", &self.log_device)] {
            problems.extend(device.as_deref().and_then(|device| wrong_device(field, device)));
        }
        if !self.faults.is_empty() && !is_modelled {
            let problem = "only a modelled device fails on demand";
            problems.push(Problem::new("faults", problem, "name one with `device`"));
        }
        for (item, fault) in self.faults.iter().enumerate() {
            if let Err(problem) = fault.parse::<Fault>() {
                problems.push(Problem { item: Some(item), ..Problem::new("faults", problem, "") });
            }
        }
        problems
    }

    /// The log of operations.
    fn of_operations(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.capture && self.operations.is_none() {
            let problem = "data is kept beside the log of operations";
            problems.push(Problem::new("capture", problem, "give `operations` as well"));
        }
        if self.operations.is_some() && self.device.is_none() {
            let problem = "only a modelled device logs its operations";
            let hint = "name one with `device`, or trace blocks instead";
            problems.push(Problem::new("operations", problem, hint));
        }
        // A link that leads nowhere is there, too: nothing is made in its place.
        if let Some(path) = self.logs().into_iter().find(|path| path.symlink_metadata().is_ok()) {
            let problem = format!("{} exists, and would be overwritten", path.display());
            problems.push(Problem::new("operations", problem, "name another file"));
        }
        let directory = self.operations.as_deref().and_then(Path::parent);
        let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.is_dir();
        if let Some(directory) = directory.filter(is_missing) {
            let problem = format!("there is no directory {}", directory.display());
            problems.push(Problem::new("operations", problem, "make it, or name another file"));
        }
        problems
    }
}

fn unknown(name: &str, machine: &Machine) -> Problem {
    // Where several names are as near, the commonest was meant.
    let common = ["ext4", "xfs", "btrfs", "dir"].into_iter();
    let names = common.chain(machine.filesystems().iter().map(|filesystem| &*filesystem.name));
    let near = did_you_mean_hint(nearest(name, names));
    let hint = format!("{near}  `fathom list filesystems` shows what this machine can make");
    Problem::new("filesystem", format!("unknown file system \"{name}\""), hint.trim_start())
}

fn wrong_device(field: &'static str, device: &str) -> Option<Problem> {
    let problem = model_text(device).err()?;
    if is_model_file(device) {
        // What is wrong in a model's file is told with its line; the first one is enough here.
        let first = problem.lines().next().unwrap_or_default().to_owned();
        return Some(Problem::new(field, first, "it is to be a model's file"));
    }
    let near = did_you_mean_hint(nearest(device, presets().iter().map(|model| model.name.as_str())));
    let hint = format!("{near}  `fathom list devices` shows them; or give the path of a model (FILE.toml)");
    Some(Problem::new(field, problem, hint.trim_start()))
}

/// `xfs, ext3 and ext4`.
fn in_words(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        [one] => (*one).into(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// Whether a word for mkfs is an option with its value, or several options. A value may hold white
/// space, as a label does.
fn is_several(word: &str) -> bool {
    let mut parts = word.split_whitespace();
    let Some(first) = parts.next().filter(|first| first.starts_with('-')) else { return false };
    let wants_value = first.len() == 2 || (first.starts_with("--") && !first.contains('='));
    parts.next().is_some_and(|next| wants_value || next.starts_with('-'))
}
