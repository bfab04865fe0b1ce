//! What the kernel sends of its own accord while an application works: it writes files back where
//! time passes, memory runs short or another program syncs.
//!
//! The file system is synced beside the application, at moments that no commit waits for. So real
//! write-back is recorded, of files that are half written too, and no model of the page cache is
//! asked. Write-back that nobody waits for sends no flush; the one at a sync's end makes safe what
//! was sent until then, and just before it all of that is in flight, any part of which may be
//! there.
//!
//! A busy machine may give the thread that syncs its first turn when the work is over. So the work
//! [waits](Syncs::keep_up) now and then for a sync that has not come: a run of some milliseconds
//! has had write-back as well.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::CutError;
use crate::random::stream;

/// Pause between two syncs at most at first, µs: commits that wait for nothing take some hundred.
const PAUSE_US: u64 = 400;
/// So much longer it becomes with each, so that a run of minutes has some thousand syncs.
const LONGER_US: u64 = 4;

/// Parts of a run in each of which a sync begins at least.
pub(crate) const PARTS: u64 = 16;

/// What the thread that syncs has done.
#[derive(Debug, Default)]
struct Progress {
    /// Syncs that have begun.
    begun: u64,
    /// As many had when the work last waited for one.
    seen: u64,
    /// None begins any more.
    is_ended: bool,
}

/// The syncs beside a work.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Syncs {
    /// Waits for a sync to begin where none has since the last time; not for its end, so that what
    /// the work does next is under way with it.
    pub(crate) fn keep_up(&self) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |progress: &mut Progress| progress.begun == progress.seen && !progress.is_ended;
        let waited = self.changed.wait_while(progress, waits);
        let mut progress = waited.unwrap_or_else(PoisonError::into_inner);
        progress.seen = progress.begun;
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Says that no sync begins any more, however the thread ends.
struct Ended<'a>(&'a Syncs);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.change(|progress| progress.is_ended = true);
    }
}

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
    work: impl FnOnce(&Syncs) -> Result<T, CutError>,
) -> Result<T, CutError> {
    let root = File::open(directory).map_err(CutError::io("open the stack's directory"))?;
    beside_syncs(|| rustix::fs::syncfs(&root).map_err(io::Error::from), seed, work)
}

fn beside_syncs<T>(
    mut sync: impl FnMut() -> io::Result<()> + Send,
    seed: u64,
    work: impl FnOnce(&Syncs) -> Result<T, CutError>,
) -> Result<T, CutError> {
    let is_over = AtomicBool::new(false);
    let syncs = Syncs::default();
    let (worked, synced) = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| {
            let _ended = Ended(&syncs);
            let mut begun = || {
                syncs.change(|progress| progress.begun += 1);
                sync()
            };
            sync_until(&is_over, seed, &mut begun)
        });
        let over = Over(&is_over);
        let worked = work(&syncs);
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
        assert_eq!(beside(place.path(), 1, |_| Ok(7)).unwrap(), 7);
        let failed: Result<(), CutError> =
            beside(place.path(), 1, |_| Err(CutError::Usage("it cannot".into())));
        assert_eq!(failed.unwrap_err().to_string(), "it cannot");
        let panicked = std::panic::catch_unwind(|| {
            beside(place.path(), 1, |_| -> Result<(), CutError> { panic!("as a bug would") })
        });
        assert!(panicked.is_err(), "and it does not wait for ever");
    }

    /// What happened: on a busy machine a run was over before the thread that syncs had its first
    /// turn. The cell was said to be beside write-back, nothing had been written back, and Btrfs,
    /// whose superblock is torn there, was found to keep all.
    #[test]
    fn in_each_part_of_the_work_a_sync_begins() {
        let mut late = 0;
        let sync = || {
            late += 1;
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        let work = |syncs: &Syncs| {
            (0..PARTS).for_each(|_| syncs.keep_up());
            Ok(())
        };
        beside_syncs(sync, 1, work).unwrap();
        assert!(late >= PARTS, "{late}");
        // One that came without being waited for counts.
        let syncs = Syncs::default();
        syncs.change(|progress| progress.begun += 2);
        syncs.keep_up();
        assert_eq!(syncs.progress.into_inner().unwrap().seen, 2);
    }

    #[test]
    fn work_does_not_wait_for_syncs_that_have_failed() {
        let fails = || Err(io::Error::from_raw_os_error(libc::EIO));
        let work = |syncs: &Syncs| {
            (0..PARTS).for_each(|_| syncs.keep_up());
            Ok(())
        };
        let failed = beside_syncs(fails, 1, work).unwrap_err();
        assert!(failed.to_string().contains("sync the file system beside the application"), "{failed}");
    }
}
