//! Runs mkfs, and again where another stack that is just ending kept it from looking around.

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use fathom_ground::command::{CommandError, CommandLine, Output};

/// What mkfs.btrfs says when it could not find out whether its device is mounted. For that it asks
/// for the image behind every loop device that is mounted, and gives up on the first that cannot be
/// asked for: one on a modelled device whose process has just ended.
const UNASKED: &str = "cannot check mount status";
/// How long such a stack may take to go down, on a busy machine too.
const WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a command of mkfs that has these files open, each try no longer than `limit`.
///
/// # Errors
/// As [`CommandLine::run_holding`].
pub(crate) fn run_mkfs(
    command: &CommandLine,
    held: &[&File],
    limit: Duration,
) -> Result<Output, CommandError> {
    run_waiting(command, held, limit, WAIT)
}

fn run_waiting(
    command: &CommandLine,
    held: &[&File],
    limit: Duration,
    wait: Duration,
) -> Result<Output, CommandError> {
    let begin = Instant::now();
    loop {
        match command.run_holding(held, limit) {
            Err(error) if error.stderr.contains(UNASKED) && begin.elapsed() < wait => thread::sleep(PAUSE),
            Err(mut error) if error.stderr.contains(UNASKED) => {
                error.stderr.push_str(
                    "\nit asks for the images of all mounted loop devices, and one of a stack whose process is gone cannot be read: take that down (fathom stack down --leftovers) and try again",
                );
                return Err(error);
            }
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Duration = Duration::from_secs(60);

    /// A command that counts its runs, and fails with these words before the third.
    fn third(place: &std::path::Path, words: &str) -> CommandLine {
        let script = "echo >>\"$0\"; [ $(wc -l <\"$0\") -ge 3 ] || { echo \"$1\" >&2; exit 1; }";
        let runs = place.join("runs").to_string_lossy().into_owned();
        CommandLine::new("sh", ["-c", script, &runs, words])
    }

    fn runs(place: &std::path::Path) -> usize {
        std::fs::read_to_string(place.join("runs")).unwrap().lines().count()
    }

    /// What happened: beside a stack that had just been killed a run on Btrfs failed, for
    /// mkfs.btrfs looked at that one's image as well ("cannot check mount status of /dev/loop0:
    /// Software caused connection abort").
    #[test]
    fn mkfs_is_tried_again_while_another_stack_ends() {
        let place = tempfile::tempdir().unwrap();
        let busy = third(place.path(), "ERROR: cannot check mount status of /dev/loop0: connection abort");
        run_mkfs(&busy, &[], ENOUGH).unwrap();
        assert_eq!(runs(place.path()), 3);
    }

    #[test]
    fn a_stack_that_stays_is_named_and_other_failures_are_told_at_once() {
        let place = tempfile::tempdir().unwrap();
        let busy = third(place.path(), "ERROR: cannot check mount status of /dev/loop0: not connected");
        let error = run_waiting(&busy, &[], ENOUGH, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("not connected") && error.contains("stack down --leftovers"), "{error}");
        assert_eq!(runs(place.path()), 1);
        let other = tempfile::tempdir().unwrap();
        let error = run_mkfs(&third(other.path(), "no room"), &[], ENOUGH).unwrap_err().to_string();
        assert!(error.contains("no room") && !error.contains("--leftovers"), "{error}");
        assert_eq!(runs(other.path()), 1);
    }
}
