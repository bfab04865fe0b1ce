//! A disk that was full while something was measured: which one it was, and what there is to do
//! about it with the command that met it.

use std::path::Path;

use fathom_lab::failure::FailureKind;
use fathom_lab::remote::Target;
use fathom_lab::store::{Results, RunRow};
use fathom_output::shown_path;
use fathom_stack::SMALLER_IMAGE;

use crate::cli::Run;

/// What was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FullPlace {
    /// The disk on which stacks are made.
    Disk,
    /// A file system under test, of so many MiB.
    FileSystem(u64),
}

impl FullPlace {
    /// Where a run failed for want of space; none where it failed for something else. `image_mib`
    /// is of the file system that it ran on, none in a directory.
    fn of(kind: FailureKind, image_mib: Option<u64>) -> Option<FullPlace> {
        match kind {
            FailureKind::Full => Some(image_mib.map_or(FullPlace::Disk, FullPlace::FileSystem)),
            FailureKind::NoRoom => Some(FullPlace::Disk),
            _ => None,
        }
    }

    /// Which one it was, and what there is to do; `place` names the directory and its option.
    fn remedy(self, place: &str, option: &str) -> String {
        match self {
            FullPlace::Disk => format!(
                "The disk of {place} was full: free some space there, or name a directory on a larger disk with {option}, and \
                 make them again with --resume."
            ),
            FullPlace::FileSystem(mib) => format!(
                "The file system of {mib} MiB that they ran on was full, and --resume gives it no more: begin anew with a larger \
                 one, as with --set size_mib={} --out OTHER.db.",
                mib.saturating_mul(2)
            ),
        }
    }
}

/// Where a run that failed lacked space; none where it failed for something else.
fn place_of(results: &Results, run: &RunRow) -> Option<FullPlace> {
    let stack = &results.cell(run.cell)?.spec.stack;
    let image_mib = (!stack.place.is_directory()).then_some(stack.size_mib);
    FullPlace::of(run.failure?, image_mib)
}

/// What there is to do about recordings of `fathom simulate` that failed for want of space.
pub fn of_recordings(results: &Results) -> Option<&'static str> {
    Some(match results.failed_runs().find_map(|run| place_of(results, run))? {
        FullPlace::Disk => {
            "the disk of --dir was full: free some space there, or name a directory on a larger disk with --dir"
        }
        FullPlace::FileSystem(_) => {
            "the file system that it was recorded on was full: give it more MiB with --set size_mib=N"
        }
    })
}

/// What there is to do about the runs of `fathom run` that failed; `out` is its results file.
pub fn what_to_do(asked: &Run, out: &Path, results: &Results) -> String {
    let is_here = asked.on.iter().all(|machine| *machine == Target::Local);
    let (place, option) = match (&asked.dir, out.parent().filter(|parent| !parent.as_os_str().is_empty())) {
        _ if !is_here => ("the directory that they ran in".to_owned(), "--on MACHINE:/DIR"),
        (Some(directory), _) => (format!("--dir {}", shown_path(directory)), "--dir"),
        (None, parent) => (shown_path(parent.unwrap_or(Path::new("."))).to_string(), "--dir"),
    };
    told(results.failed_runs().map(|run| place_of(results, run)), &place, option)
}

/// Each remedy once; that of what failed for another reason comes last.
fn told(places: impl Iterator<Item = Option<FullPlace>>, place: &str, option: &str) -> String {
    let (mut remedies, mut others) = (Vec::new(), false);
    for full in places {
        match full.map(|full| full.remedy(place, option)) {
            Some(remedy) if !remedies.contains(&remedy) => remedies.push(remedy),
            Some(_) => {}
            None => others = true,
        }
    }
    match (remedies.is_empty(), others) {
        (true, _) => "Make them again with --resume".into(),
        (false, false) => remedies.join(" "),
        (false, true) => format!("{} The others: again with --resume", remedies.join(" ")),
    }
}

/// An error of a stack as `fathom cut` calls its keys.
pub fn in_options_of_cut(error: &str) -> String {
    error.replace("`size_mib`", "--size").replace("`log_mib`", "--log")
}

/// An error of a stack without what a command lacks that chooses the image's size itself.
pub fn without_size(error: &str) -> &str {
    error.split(SMALLER_IMAGE).next().unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: where the disk of --dir was full, more `size_mib` was recommended, which a
    /// directory has not; and where an image was, --resume, which gives it no more.
    #[test]
    fn the_place_that_is_full_is_told_with_what_helps_there() {
        let of = |kind, image_mib| told([FullPlace::of(kind, image_mib)].into_iter(), "--dir /x", "--dir");
        let disk = of(FailureKind::Full, None);
        assert!(disk.starts_with("The disk of --dir /x was full") && disk.contains("--resume"), "{disk}");
        assert!(!disk.contains("size_mib"), "{disk}");
        let image = of(FailureKind::Full, Some(64));
        assert!(
            image.contains("--set size_mib=128") && image.contains("--resume gives it no more"),
            "{image}"
        );
        assert_eq!(of(FailureKind::NoRoom, Some(64)), disk);
    }

    /// What happened: the words of a message decided, which a schema or a path may have as well.
    #[test]
    fn what_failed_for_another_reason_is_nowhere_full() {
        for kind in [
            FailureKind::Locked,
            FailureKind::Differs,
            FailureKind::Engine,
            FailureKind::Storage,
            FailureKind::Asked,
            FailureKind::Machine,
        ] {
            assert_eq!(FullPlace::of(kind, Some(64)), None, "{kind:?}");
        }
    }

    #[test]
    fn several_places_are_told_once_each() {
        let places = [Some(FullPlace::Disk), None, Some(FullPlace::Disk), Some(FullPlace::FileSystem(8))];
        let all = told(places.into_iter(), "/x", "--dir");
        assert_eq!(all.matches("The disk of /x").count(), 1, "{all}");
        assert!(all.contains("size_mib=16") && all.ends_with("The others: again with --resume"), "{all}");
    }

    #[test]
    fn an_error_of_a_stack_is_put_into_the_words_of_a_command() {
        let error = fathom_stack::StackError::Full { path: "/x".into(), has_image: true }.to_string();
        assert!(in_options_of_cut(&error).ends_with("or a smaller --size"), "{error}");
        let without = without_size(&error);
        assert!(without.ends_with("or give another directory") && without.contains("/x"), "{without}");
    }
}
