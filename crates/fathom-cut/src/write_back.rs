//! What the kernel sends of its own accord while an application works: it writes files back where
//! time passes, memory runs short or another program syncs.
//!
//! The file system is synced beside the application, at moments that no commit waits for. So real
//! write-back is recorded, of files that are half written too, and no model of the page cache is
//! asked. Write-back that nobody waits for sends no flush; the one at a sync's end makes safe what
//! was sent until then, and just before it all of that is in flight, any part of which may be
//! there.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::CutError;
use crate::random::stream;

/// Pause between two syncs at most at first, µs: commits that wait for nothing take some hundred.
const PAUSE_US: u64 = 400;
/// So much longer it becomes with each, so that a run of minutes has some thousand syncs.
const LONGER_US: u64 = 4;

/// Says that the work is over, however it ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does the work while the file system that a directory lies on is synced again and again.
///
/// # Errors
/// The work's; the directory cannot be opened, or its file system cannot be synced.
pub(crate) fn beside<T>(
    directory: &Path,
    seed: u64,
    work: impl FnOnce() -> Result<T, CutError>,
) -> Result<T, CutError> {
    let root = File::open(directory).map_err(CutError::io("open the stack's directory"))?;
    let mut sync = || rustix::fs::syncfs(&root).map_err(io::Error::from);
    let is_over = AtomicBool::new(false);
    let (worked, synced) = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| sync_until(&is_over, seed, &mut sync));
        let over = Over(&is_over);
        let worked = work();
        drop(over);
        (worked, syncing.join())
    });
    let done = worked?;
    match synced {
        Ok(Ok(())) => Ok(done),
        Ok(Err(error)) => Err(CutError::io("sync the file system beside the application")(error)),
        Err(_) => Err(CutError::Usage(
            "the thread that syncs beside the application has panicked: this is a bug of Fathom's".into(),
        )),
    }
}

/// Syncs with seeded pauses until the work is over.
fn sync_until(is_over: &AtomicBool, seed: u64, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut random = stream(&[seed, 11]);
    let mut longest = PAUSE_US;
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(random.below(longest)));
        sync()?;
        longest += LONGER_US;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_syncs_until_the_work_is_over_and_no_longer() {
        let is_over = AtomicBool::new(false);
        let mut syncs = 0;
        let mut sync = || {
            syncs += 1;
            is_over.store(syncs == 9, Ordering::Relaxed);
            Ok(())
        };
        sync_until(&is_over, 1, &mut sync).unwrap();
        assert_eq!(syncs, 9);
        is_over.store(false, Ordering::Relaxed);
        let mut fails = || Err(io::Error::from_raw_os_error(libc::EIO));
        assert!(sync_until(&is_over, 1, &mut fails).is_err(), "what is not written back is said");
    }

    #[test]
    fn what_the_work_says_is_handed_on_and_its_failure_ends_the_syncs() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(beside(place.path(), 1, || Ok(7)).unwrap(), 7);
        let failed: Result<(), CutError> =
            beside(place.path(), 1, || Err(CutError::Usage("it cannot".into())));
        assert_eq!(failed.unwrap_err().to_string(), "it cannot");
        let panicked = std::panic::catch_unwind(|| {
            beside(place.path(), 1, || -> Result<(), CutError> { panic!("as a bug would") })
        });
        assert!(panicked.is_err(), "and it does not wait for ever");
    }
}
