//! What file system and database make of a state: mounted by the real driver, recovered by the real
//! SQLite.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::acknowledged::AcknowledgedContents;
use crate::error::CutError;
use crate::explore::Judge;
use crate::findings::Findings;
use crate::fingerprint::Fingerprints;
use crate::found_file::{FoundFile, files_below};
use crate::guest::Answer;
use crate::history::History;
use crate::inspection::Inspection;
use crate::medium::{FileSystem, GuestMedium, Medium};
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
        let known = Arc::default();
        Ok(Checker { history, acknowledged, database, subject, place, fingerprints: None, known })
    }

    /// With what others have found of the same recording, who see what this one finds.
    #[must_use]
    pub(crate) fn sharing(self, fingerprints: &Arc<Fingerprints<'a>>, known: &Arc<Findings>) -> Checker<'a> {
        Checker { fingerprints: Some(Arc::clone(fingerprints)), known: Arc::clone(known), ..self }
    }

    fn bring_to(&mut self, epoch: &Epoch, state: &State) -> Result<(), CutError> {
        let brought = match &mut self.place {
            Place::Here(medium) => medium.bring_to(self.history, epoch.safe, state),
            Place::Guest(medium) => medium.bring_to(self.history, epoch.safe, state),
        };
        brought.map(drop).map_err(CutError::io("bring the image to a state"))
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
        self.bring_to(epoch, state)?;
        Ok(match &mut self.place {
            Place::Here(medium) => match medium.mount()? {
                Ok(mounted) => files_below(&mounted.path("")).map_err(|error| error.to_string()),
                Err(unmountable) => Err(unmountable.to_string()),
            },
            Place::Guest(medium) => match medium.look(&self.database, &self.subject, true)? {
                Answer::Files(files) => files,
                Answer::Unmountable(said) => Err(said),
                other => return Err(unexpected(&other)),
            },
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

    /// What is found in the state that the image has, and whether the file system noted an error of
    /// its own.
    fn find(&mut self) -> Result<(Inspection, bool), CutError> {
        match &mut self.place {
            Place::Here(medium) => {
                let mounted = match medium.mount()? {
                    Ok(mounted) => mounted,
                    Err(unmountable) => {
                        return Ok((
                            Inspection::Bad(Verdict::CannotBeMounted(unmountable.to_string())),
                            false,
                        ));
                    }
                };
                let database = mounted.path(&self.database.to_string_lossy());
                let found = if self.subject.has_server() {
                    // A server is a program of its own, and wants a path that leads there.
                    let look = |root: &Path| find_at(&root.join(&self.database), &self.subject, &self.known);
                    mounted.attached(look).map_err(CutError::io("attach the file system in a namespace"))?
                } else {
                    find_at(&database, &self.subject, &self.known)
                };
                drop(mounted);
                medium.wait_until_free().map_err(CutError::io("wait until the image is unmounted"))?;
                let notes_errors = medium.notes_errors();
                medium.forget();
                Ok((found, notes_errors))
            }
            Place::Guest(medium) => {
                let found = match medium.look(&self.database, &self.subject, false)? {
                    Answer::Found(found) => found,
                    Answer::Unmountable(said) => Inspection::Bad(Verdict::CannotBeMounted(said)),
                    other => return Err(unexpected(&other)),
                };
                Ok((found, medium.notes_errors()))
            }
        }
    }
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
                self.bring_to(epoch, state)?;
                let found = self.find()?;
                self.known.mounted_as(fingerprint, &found);
                found
            }
        };
        let verdict = match found {
            Inspection::Content(content) => self.acknowledged.judge(content, epoch.acknowledged),
            Inspection::Bad(verdict) => verdict,
        };
        Ok(match verdict {
            Verdict::Kept | Verdict::Lost(_) if notes_errors => {
                Verdict::NeedsRepair(format!("its superblock notes an error; of the database: {verdict}"))
            }
            verdict => verdict,
        })
    }
}
