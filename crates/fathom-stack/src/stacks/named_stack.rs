//! Named stacks: a device and file system of a chosen kind, mounted, for the user's own use
//! (`fathom stack up|list|down`). They outlive the command that made them, and end with `down` or
//! with the machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fathom_device::{STATISTICS, Statistics};
use fathom_ground::mountinfo::is_mounted;
use serde::{Deserialize, Serialize};

use super::config::Stacks;
use super::entry::{
    Entry, abandoned, device_points, homes, is_disbelief, lock_state, mount_point, stacks_in,
};
use super::error::StackError;
use super::leftovers::Report;
use super::teardown::{BusyMount, undo};
use super::trust;
use crate::ground::process::Process;
use crate::guest::keeper;
use crate::spec::{StackRecord, StackSpec};

/// How long a device's server may take to tell its statistics.
const STATISTICS_LIMIT: Duration = Duration::from_secs(10);

/// A named stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedStack {
    /// Its name.
    pub name: String,
    /// Where to work: a directory on the mounted file system, or the directory of a `dir` stack.
    pub path: PathBuf,
    /// Whether it can be used: mounted, which it is not after a restart of the machine or an
    /// unmount by hand, and with the servers of its modelled devices alive. `down` forgets it.
    pub up: bool,
    /// What was asked for; `directory` is where the image's space is taken (the file itself has no
    /// name).
    pub spec: StackSpec,
    /// What was made.
    pub record: StackRecord,
    /// Why it gives nothing but errors any more, if that is known; `down` removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
}

/// Brings a named stack up and leaves it up.
///
/// # Errors
/// See [`StackError`]; a name is taken once.
pub fn up(name: &str, spec: &StackSpec) -> Result<NamedStack, StackError> {
    Stacks::here().named_up(name, spec)
}

/// As [`up`], for a caller that may be told meanwhile to stop. `may_stay` is asked once, when all
/// is made and nothing of it outlives this process yet; where it says no, all is taken down, and
/// there is none.
///
/// # Errors
/// As [`up`].
pub fn up_if(
    name: &str,
    spec: &StackSpec,
    may_stay: &dyn Fn() -> bool,
) -> Result<Option<NamedStack>, StackError> {
    Stacks::here().named_up_if(name, spec, may_stay)
}

/// Every named stack of this user, by name.
#[must_use]
pub fn list() -> Vec<NamedStack> {
    Stacks::here().named_list()
}

/// What the modelled device of a named stack has done so far; none where it has no such device.
///
/// # Errors
/// No such name, or the device is gone (its server was killed).
pub fn device_statistics(name: &str) -> Result<Option<Statistics>, StackError> {
    Stacks::here().named_device_statistics(name)
}

/// As [`device_statistics`], of the device that the external log lies on.
///
/// # Errors
/// As [`device_statistics`].
pub fn log_statistics(name: &str) -> Result<Option<Statistics>, StackError> {
    Stacks::here().named_statistics(name, 1)
}

/// Takes a named stack down; with it goes everything on it.
///
/// # Errors
/// No such name, or it is busy (the error names who uses it, and nothing is done).
pub fn down(name: &str) -> Result<(), StackError> {
    Stacks::here().named_down(name)
}

/// Takes all named stacks down and leaves the stacks of running measurements alone, and those of
/// another machine with the same home.
pub fn down_all() -> Report {
    let stacks = Stacks::here();
    let mut report = Report::default();
    for name in stacks.named_of_this_machine() {
        match stacks.named_down(&name) {
            Ok(()) => report.removed.push(name),
            Err(error) => report.failed.push(format!("{name}: {error}")),
        }
    }
    report
}

impl Stacks {
    /// As [`up`], with this state directory.
    ///
    /// # Errors
    /// As [`up`].
    pub fn named_up(&self, name: &str, spec: &StackSpec) -> Result<NamedStack, StackError> {
        check_name(name)?;
        let stack = self.make(spec, name, Some(name))?;
        Ok(named(name.to_owned(), stack.keep()?, &self.state))
    }

    /// As [`up_if`], with this state directory.
    ///
    /// # Errors
    /// As [`up`].
    pub fn named_up_if(
        &self,
        name: &str,
        spec: &StackSpec,
        may_stay: &dyn Fn() -> bool,
    ) -> Result<Option<NamedStack>, StackError> {
        check_name(name)?;
        let stack = self.make(spec, name, Some(name))?;
        if !may_stay() {
            return Ok(None);
        }
        Ok(Some(named(name.to_owned(), stack.keep()?, &self.state)))
    }

    /// As [`list`], with this state directory.
    #[must_use]
    pub fn named_list(&self) -> Vec<NamedStack> {
        let entries = homes(&self.state).into_iter().filter_map(|home| Entry::read_trusted(&home).ok());
        entries.filter(|e| e.kept).filter_map(|e| Some(named(e.name.clone()?, e, &self.state))).collect()
    }

    /// The names of those that are this machine's.
    fn named_of_this_machine(&self) -> Vec<String> {
        let entries = homes(&self.state).into_iter().filter_map(|home| Entry::read_trusted(&home).ok());
        let own = entries.filter(|entry| entry.kept && !entry.is_of_another_machine());
        own.filter_map(|entry| entry.name).collect()
    }

    /// As [`device_statistics`], with this state directory.
    ///
    /// # Errors
    /// As [`device_statistics`].
    pub fn named_device_statistics(&self, name: &str) -> Result<Option<Statistics>, StackError> {
        self.named_statistics(name, 0)
    }

    fn named_statistics(&self, name: &str, which: usize) -> Result<Option<Statistics>, StackError> {
        check_name(name)?;
        let home = home_of(&self.state, name);
        let entry = Entry::read_trusted(&home).ok().filter(|entry| entry.kept);
        let entry = entry.ok_or_else(|| {
            let up = self.named_list().into_iter().map(|named| named.name).collect();
            StackError::NoSuchName { name: name.to_owned(), up }
        })?;
        let Some(point) = device_points(&home, &entry).get(which).cloned() else { return Ok(None) };
        let path = point.join(STATISTICS);
        let unanswering = |problem: String| StackError::Mount {
            path: path.clone(),
            problem: format!("the modelled device does not answer: {problem}"),
        };
        let gone = |problem: String| {
            unanswering(format!(
                "its server has ended, or it is not mounted any more ({problem}). `fathom stack down {name}` removes what is left"
            ))
        };
        let stopped = || {
            let server = entry.servers.get(which).filter(|server| server.is_stopped())?;
            Some(unanswering(format!(
                "its server (process {pid}) is stopped, and so is whoever uses the stack: `kill -CONT {pid}` lets it go on",
                pid = server.pid()
            )))
        };
        if let Some(error) = stopped() {
            return Err(error);
        }
        let text = match read_within(&path, STATISTICS_LIMIT) {
            Some(text) => text.map_err(|error| gone(error.to_string()))?,
            // Stopped only just now, if it is: the signal takes its time.
            None => {
                let hangs = || {
                    unanswering(format!(
                        "its server has not answered in {} s, because it hangs or this machine is very busy",
                        STATISTICS_LIMIT.as_secs()
                    ))
                };
                return Err(stopped().unwrap_or_else(hangs));
            }
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| gone(error.to_string()))
    }

    /// As [`down`], with this state directory.
    ///
    /// # Errors
    /// As [`down`].
    pub fn named_down(&self, name: &str) -> Result<(), StackError> {
        check_name(name)?;
        let home = home_of(&self.state, name);
        let absent = || {
            let up = self.named_list().into_iter().map(|named| named.name).collect();
            StackError::NoSuchName { name: name.to_owned(), up }
        };
        if !home.exists() {
            return Err(absent());
        }
        let disbelieved = |error: io::Error| match is_disbelief(&error) {
            true => StackError::Disbelieved { path: home.clone(), problem: error.to_string() },
            false => absent(),
        };
        // Locked like any owner would, so that two commands do not undo the same stack.
        let lock = {
            let _state = lock_state(&self.state)?;
            trust::home(&home).map_err(disbelieved)?;
            abandoned(&home)
        };
        let entry = Entry::read_trusted(&home).map_err(disbelieved)?;
        let Some(_lock) = lock else { return Err(StackError::InProgress { name: name.to_owned() }) };
        undo(&home, &entry, BusyMount { wait: self.busy_limit, lazy: false })
    }
}

/// What a file holds; none where nobody gives it in time. The thread that waits for it is left to
/// itself.
fn read_within(path: &Path, limit: Duration) -> Option<io::Result<Vec<u8>>> {
    let (sender, read) = channel();
    let path = path.to_path_buf();
    thread::spawn(move || sender.send(std::fs::read(path)));
    read.recv_timeout(limit).ok()
}

fn home_of(state: &Path, name: &str) -> PathBuf {
    stacks_in(state).join(format!("named-{name}"))
}

fn named(name: String, entry: Entry, state: &Path) -> NamedStack {
    let home = home_of(state, &name);
    let point = mount_point(&home);
    let (path, up) = match &entry.work {
        Some(work) => (work.clone(), work.is_dir()),
        None => (point.join("work"), is_mounted(&point)),
    };
    let dead = entry.servers.iter().find(|server| up && !server.lives());
    let of_server = |server: &Process| {
        format!(
            "the modelled device's server (process {}) has ended: everything on it gives errors",
            server.pid()
        )
    };
    NamedStack {
        name,
        path,
        up: up && dead.is_none(),
        spec: entry.spec,
        record: entry.record.unwrap_or_default(),
        problem: keeper::broken(&home).or_else(|| dead.map(of_server)),
        created_ms: entry.created_ms,
    }
}

fn check_name(name: &str) -> Result<(), StackError> {
    const LONGEST: usize = 32;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if first && name.len() <= LONGEST && name.chars().all(plain) {
        Ok(())
    } else {
        Err(StackError::BadName { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::machine_mark::MachineMark;
    use crate::stacks::claim::Claim;

    /// What happened: `stack down --all` removed what another machine with the same home had up,
    /// under the feet of whoever worked in it.
    #[test]
    fn what_another_machine_has_up_is_not_taken_down_with_all() {
        let place = tempfile::tempdir().unwrap();
        let stacks = Stacks::at(place.path().join("state"));
        let spec = StackSpec { directory: Some(place.path().into()), ..StackSpec::default() };
        let claim = Claim::new(&stacks.state, "named", Some("lab"), &spec).unwrap();
        let home = claim.home.clone();
        let entry = claim.keep().unwrap();
        assert_eq!(stacks.named_of_this_machine(), ["lab"]);
        let there: MachineMark = serde_json::from_str(r#"{"kernel":1,"system":2}"#).unwrap();
        if !there.is_elsewhere(MachineMark::here()) {
            println!("SKIP: needs /etc/machine-id (systemd-machine-id-setup makes it)");
            return;
        }
        Entry { machine: Some(there), ..entry }.write(&home).unwrap();
        assert_eq!(stacks.named_of_this_machine(), Vec::<String>::new());
        assert_eq!(stacks.named_list().len(), 1, "it is listed");
    }
}
