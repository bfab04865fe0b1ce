//! What file system and database make of a state: mounted by the real driver, recovered by the real
//! SQLite.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::acknowledged::AcknowledgedContents;
use crate::error::CutError;
use crate::explore::Judge;
use crate::findings::Findings;
use crate::fingerprint::Fingerprints;
use crate::found_file::{FoundFile, files_below};
use crate::guest::Answer;
use crate::history::History;
use crate::inspection::Inspection;
use crate::medium::{FileSystem, GuestMedium, Medium, is_want};
use crate::recovery::find_at;
use crate::safe::Side;
use crate::states::{Epoch, State};
use crate::subject::Subject;
use crate::verdict::Verdict;
use crate::vfs;

/// Judges states of one recording, one after the other, on an image of its own.
#[derive(Debug)]
pub struct Checker<'a> {
    history: &'a History,
    acknowledged: &'a AcknowledgedContents,
    /// The database's path below the root of the file system.
    database: PathBuf,
    subject: Subject,
    place: Place,
    /// With what was found of all whose images hold the same.
    fingerprints: Option<Arc<Fingerprints<'a>>>,
    known: Arc<Findings>,
    /// Whether files that hold the same are looked at once, where the file system allows it.
    is_told_by_files: bool,
}

/// Where states are mounted.
#[derive(Debug)]
enum Place {
    Here(Medium),
    Guest(GuestMedium),
}

impl<'a> Checker<'a> {
    /// Makes the image and attaches a loop device to it.
    ///
    /// # Errors
    /// There is no memory, or no loop device to be had.
    pub fn new(
        history: &'a History,
        acknowledged: &'a AcknowledgedContents,
        filesystem: &FileSystem,
        database: &Path,
        subject: &Subject,
    ) -> Result<Checker<'a>, CutError> {
        vfs::register()?;
        let place = if filesystem.guest {
            Place::Guest(GuestMedium::new(history, filesystem)?)
        } else {
            let medium = Medium::new(history, filesystem);
            Place::Here(medium.map_err(CutError::io("an image in memory with a loop device on it"))?)
        };
        let (database, subject) = (database.to_owned(), subject.clone());
        Ok(Checker {
            history,
            acknowledged,
            database,
            subject,
            place,
            fingerprints: None,
            known: Arc::default(),
            is_told_by_files: false,
        })
    }

    /// With what others have found of the same recording, who see what this one finds; of files
    /// that hold the same too, where the file system `keeps_order`.
    #[must_use]
    pub(crate) fn sharing(
        self,
        fingerprints: &Arc<Fingerprints<'a>>,
        known: &Arc<Findings>,
        keeps_order: bool,
    ) -> Checker<'a> {
        let (fingerprints, known) = (Some(Arc::clone(fingerprints)), Arc::clone(known));
        Checker { fingerprints, known, is_told_by_files: keeps_order, ..self }
    }

    fn bring_to(&mut self, epoch: &Epoch, state: &State) -> Result<(), CutError> {
        let brought = match &mut self.place {
            Place::Here(medium) => medium.bring_to(self.history, epoch.safe, state),
            Place::Guest(medium) => medium.bring_to(self.history, epoch.safe, state),
        };
        brought.map(drop).map_err(CutError::io(BRING))
    }

    /// The files of a state, or why it cannot be mounted.
    ///
    /// # Errors
    /// The image could not be brought to the state.
    pub fn files(
        &mut self,
        epoch: &Epoch,
        state: &State,
    ) -> Result<Result<Vec<FoundFile>, String>, CutError> {
        let (history, database, subject) = (self.history, &self.database, &self.subject);
        Ok(match &mut self.place {
            Place::Here(medium) => {
                medium.bring_to(history, epoch.safe, state).map_err(CutError::io(BRING))?;
                match medium.mount()? {
                    Ok(mounted) => files_below(&mounted.path("")).map_err(|error| error.to_string()),
                    Err(unmountable) => Err(unmountable.to_string()),
                }
            }
            Place::Guest(medium) => {
                let mut look = |medium: &mut GuestMedium| {
                    medium.bring_to(history, epoch.safe, state).map_err(CutError::io(BRING))?;
                    medium.look(database, subject, true, false)
                };
                match looked(medium, &mut look, GuestMedium::has_ended, GuestMedium::renew)? {
                    Some(Answer::Files(files)) => files,
                    Some(Answer::Unmountable(said)) => Err(said),
                    Some(Answer::Found(Inspection::Unseen(problem))) => return Err(unseen(problem)),
                    None => Err(ENDS.into()),
                    Some(other) => return Err(unexpected(&other)),
                }
            }
        })
    }

    /// Writes a device's image of a state, zeros too; nothing where there is no such device.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn copy_to(
        &mut self,
        epoch: &Epoch,
        state: &State,
        side: Side,
        out: &mut dyn Write,
    ) -> Result<(), CutError> {
        self.bring_to(epoch, state)?;
        let image = match &self.place {
            Place::Here(medium) => medium.image(side),
            Place::Guest(medium) => medium.image(side),
        };
        image.map_or(Ok(()), |image| image.copy_to(out)).map_err(CutError::io("write the image"))
    }

    /// What is found in a state, and whether the file system noted an error of its own.
    fn find(&mut self, epoch: &Epoch, state: &State) -> Result<(Inspection, bool), CutError> {
        let (history, database, subject) = (self.history, &self.database, &self.subject);
        let is_told_by_files = self.is_told_by_files;
        match &mut self.place {
            Place::Here(medium) => {
                medium.bring_to(history, epoch.safe, state).map_err(CutError::io(BRING))?;
                let mounted = match medium.mount()? {
                    Ok(mounted) => mounted,
                    Err(unmountable) => {
                        return Ok((
                            Inspection::Bad(Verdict::CannotBeMounted(unmountable.to_string())),
                            false,
                        ));
                    }
                };
                let alone = Findings::default();
                let is_told = is_told_by_files && medium.is_told_by_files();
                let known: &Findings = if is_told { &self.known } else { &alone };
                let found = if subject.has_server() {
                    // A server is a program of its own, and wants a path that leads there.
                    let look = |root: &Path| find_at(&root.join(database), subject, known);
                    mounted.attached(look).map_err(CutError::io("attach the file system in a namespace"))?
                } else {
                    find_at(&mounted.path(&database.to_string_lossy()), subject, known)
                };
                drop(mounted);
                medium.wait_until_free().map_err(CutError::io("wait until the image is unmounted"))?;
                let notes_errors = medium.notes_errors();
                medium.forget();
                Ok((found, notes_errors))
            }
            Place::Guest(medium) => {
                let mut look = |medium: &mut GuestMedium| {
                    medium.bring_to(history, epoch.safe, state).map_err(CutError::io(BRING))?;
                    medium.look(database, subject, false, is_told_by_files)
                };
                let found = match looked(medium, &mut look, GuestMedium::has_ended, GuestMedium::renew)? {
                    Some(Answer::Found(found)) => found,
                    Some(Answer::Unmountable(said)) => Inspection::Bad(Verdict::CannotBeMounted(said)),
                    None => Inspection::Bad(Verdict::CannotBeMounted(ENDS.into())),
                    Some(other) => return Err(unexpected(&other)),
                };
                Ok((found, medium.notes_errors()))
            }
        }
    }
}

/// What fails where a state cannot be made.
const BRING: &str = "bring the image to a state";
/// What is said of a state at which kernels end.
const ENDS: &str = "the guest's kernel ended as it looked at it, and so did another one";

/// Has a guest look, and another one where it ends: a driver that panics at what a cut has left
/// does so again, and what else ends a guest does not. None: both have ended.
fn looked<M>(
    medium: &mut M,
    look: &mut dyn FnMut(&mut M) -> Result<Answer, CutError>,
    has_ended: fn(&mut M) -> bool,
    renew: fn(&mut M) -> Result<(), CutError>,
) -> Result<Option<Answer>, CutError> {
    for _ in 0..2 {
        match look(medium) {
            Err(_) if has_ended(medium) => renew(medium)?,
            answer => return answer.map(Some),
        }
    }
    Ok(None)
}

/// So often a state is looked at that the machine keeps from being seen, with longer and longer
/// pauses.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// What is found, looked for again while the machine keeps it from being seen; `pause` is told how
/// often that was.
fn seen(
    find: &mut dyn FnMut() -> Result<(Inspection, bool), CutError>,
    pause: &dyn Fn(u32),
) -> Result<(Inspection, bool), CutError> {
    let mut looks = 0;
    loop {
        looks += 1;
        let found = match find() {
            // A mount, say, for which there was no memory.
            Err(error) if is_want_of(&error) => (Inspection::Unseen(error.to_string()), false),
            found => found?,
        };
        match found {
            (Inspection::Unseen(problem), _) if looks >= LOOKS => return Err(unseen(problem)),
            (Inspection::Unseen(_), _) => pause(looks),
            found => return Ok(found),
        }
    }
}

/// Whether this machine had not what it takes to bring an image to a state and to mount it.
fn is_want_of(error: &CutError) -> bool {
    matches!(error, CutError::Io { source, .. } if Errno::from_io_error(source).is_some_and(is_want))
}

fn unseen(problem: String) -> CutError {
    CutError::Machine { problem, before: String::new() }
}

fn unexpected(answer: &Answer) -> CutError {
    CutError::Usage(format!("guest kernel: an answer that was not asked for: {answer:?}"))
}

impl Judge for Checker<'_> {
    fn judge(&mut self, epoch: &Epoch, state: &State) -> Result<Verdict, CutError> {
        let fingerprint = self.fingerprints.as_ref().and_then(|all| all.get(epoch, state));
        let (found, notes_errors) = match fingerprint.and_then(|number| self.known.image(number)) {
            Some(known) => known,
            None => {
                let found =
                    seen(&mut || self.find(epoch, state), &|times| std::thread::sleep(PAUSE * times))?;
                self.known.mounted_as(fingerprint, &found);
                found
            }
        };
        let verdict = match found {
            Inspection::Content(content) => self.acknowledged.judge(content, epoch.acknowledged),
            Inspection::Bad(verdict) => verdict,
            Inspection::Unseen(problem) => return Err(unseen(problem)),
        };
        Ok(match verdict {
            Verdict::Kept | Verdict::Lost(_) if notes_errors => {
                Verdict::NeedsRepair(format!("its superblock notes an error; of the database: {verdict}"))
            }
            verdict => verdict,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest that ends at its looks of these numbers.
    struct Fragile {
        ends_at: &'static [usize],
        looks: usize,
        renewed: usize,
        has_ended: bool,
    }

    /// What happened: a server that did not start, because memory or an address was missing or it
    /// did not answer in time, was a verdict, *cannot be opened*, and a promise that was broken.
    #[test]
    fn what_the_machine_kept_from_being_seen_is_looked_at_again_and_is_no_verdict() {
        let of = |unseen: u32| {
            let (mut looks, pauses) = (0, std::cell::RefCell::new(Vec::new()));
            let mut find = || {
                looks += 1;
                Ok(match looks <= unseen {
                    true => (Inspection::Unseen("out of memory".into()), false),
                    false => (Inspection::Content(7), true),
                })
            };
            let found = seen(&mut find, &|times| pauses.borrow_mut().push(times));
            (found, pauses.into_inner())
        };
        let (found, pauses) = of(LOOKS - 1);
        assert!(matches!(found, Ok((Inspection::Content(7), true))));
        assert_eq!(pauses, [1, 2, 3]);
        let told = of(LOOKS).0.unwrap_err().to_string();
        assert!(told.starts_with("out of memory: ") && told.contains("nothing is said"), "{told}");
        assert!(of(0).1.is_empty());
    }

    /// What happened: of a mount that had no memory for a moment it was not said that it cannot be
    /// mounted, but the cell ended there, and with it all that had been judged.
    #[test]
    fn a_mount_that_the_machine_has_no_memory_for_is_tried_again() {
        let of = |code: i32| {
            let mut looks = 0;
            let mut find = || {
                looks += 1;
                match looks {
                    1 => Err(CutError::io("mount ext4")(std::io::Error::from_raw_os_error(code))),
                    _ => Ok((Inspection::Content(7), false)),
                }
            };
            seen(&mut find, &|_| ())
        };
        assert!(matches!(of(libc::ENOMEM), Ok((Inspection::Content(7), false))));
        assert!(of(libc::EIO).unwrap_err().to_string().starts_with("mount ext4: "));
    }

    /// What happened: one state at which a driver of the guest's panicked ended the guest, and so
    /// the cell, which was "not tried": nothing was said of the worst that there is.
    #[test]
    fn a_state_at_which_a_guest_ends_is_looked_at_by_another() {
        let of = |ends_at: &'static [usize]| {
            let mut guest = Fragile { ends_at, looks: 0, renewed: 0, has_ended: false };
            let mut look = |guest: &mut Fragile| {
                guest.looks += 1;
                guest.has_ended = guest.ends_at.contains(&guest.looks);
                match guest.has_ended {
                    true => Err(CutError::Usage("it has ended".into())),
                    false => Ok(Answer::Ready),
                }
            };
            let renew = |guest: &mut Fragile| {
                guest.renewed += 1;
                guest.has_ended = false;
                Ok(())
            };
            let answer = looked(&mut guest, &mut look, |guest| guest.has_ended, renew);
            (answer.unwrap().is_some(), guest.renewed)
        };
        assert_eq!(of(&[]), (true, 0));
        assert_eq!(of(&[1]), (true, 1), "it was something else");
        assert_eq!(of(&[1, 2]), (false, 2), "and the next state finds a guest");
        // What a guest that is there says is wrong stays an error.
        let mut guest = Fragile { ends_at: &[], looks: 0, renewed: 0, has_ended: false };
        let mut look = |_: &mut Fragile| Err(CutError::Usage("it has not answered".into()));
        assert!(looked(&mut guest, &mut look, |guest| guest.has_ended, |_| Ok(())).is_err());
    }
}
