//! Where stacks are written down, and how they are made.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fathom_ground::program::own_fathom;
use fathom_ground::system::{base_directory, is_root, may_write};

use super::error::StackError;
use super::trust;
use crate::guest::Kernel;

/// Where stacks are written down, and how they are made. Most callers use [`crate::Stack::up`], which
/// takes [`Stacks::here`].
#[derive(Clone, Debug)]
pub struct Stacks {
    pub(crate) state: PathBuf,
    /// Looked into for mkfs and mount programs before `PATH`.
    pub(crate) tools: Vec<PathBuf>,
    /// Time limit of mkfs and mount; mkfs has one second more for each 100 MiB.
    pub(crate) limit: Duration,
    /// How long a busy mount is tried again when going down.
    pub(crate) busy_limit: Duration,
    /// Whether images are allocated and written in full; a trial (doctor) does without.
    pub(crate) allocate: bool,
    /// `fathom`, which guards stacks, serves modelled devices and keeps guests; `None` where this
    /// is another program and none was named.
    pub(crate) program: Option<PathBuf>,
    /// The kernel of guests; `None` where none was built.
    pub(crate) kernel: Option<Kernel>,
    /// Set when the user wants to stop.
    pub(crate) stop: Option<Arc<AtomicBool>>,
}

/// The state directory of a user other than root, by the variables that name absolute directories.
fn own_state(
    state: Option<PathBuf>,
    home: Option<PathBuf>,
    temporary: Option<PathBuf>,
    user: u32,
) -> PathBuf {
    let below = state.or_else(|| Some(home?.join(".local/state")));
    // Of a name in /tmp that is everybody's, the first to come would be the master.
    let without_home = || temporary.unwrap_or_else(|| "/tmp".into()).join(format!("fathom-{user}"));
    below.map_or_else(without_home, |below| below.join("fathom"))
}

impl Stacks {
    /// The state directory of this user: `$FATHOM_STATE_DIR`, else `/run/fathom` for root, else
    /// `$XDG_STATE_HOME/fathom` or `~/.local/state/fathom`, and for who has no home `fathom-UID` in
    /// the temporary directory. Of these, none that is relative: the next command would look
    /// elsewhere.
    #[must_use]
    pub fn here() -> Stacks {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let own = || {
            let named = |name: &str| base_directory(std::env::var_os(name));
            let user = rustix::process::geteuid().as_raw();
            own_state(named("XDG_STATE_HOME"), named("HOME"), named("TMPDIR"), user)
        };
        let state = variable("FATHOM_STATE_DIR");
        Stacks::at(state.unwrap_or_else(|| if is_root() { "/run/fathom".into() } else { own() }))
    }

    /// Another state directory: stacks of different state directories do not see each other.
    #[must_use]
    pub fn at(state: impl Into<PathBuf>) -> Stacks {
        Stacks {
            state: state.into(),
            tools: Vec::new(),
            limit: Duration::from_secs(120),
            busy_limit: Duration::from_secs(5),
            allocate: true,
            program: own_fathom(),
            kernel: Kernel::cached(),
            stop: None,
        }
    }

    /// The program that guards stacks, serves modelled devices and keeps guests, when it is called
    /// with `stack-guard`, `device-server` or `guest-keeper`: this one, if it is `fathom`, unless
    /// another is named. It must be of this version of Fathom.
    #[must_use]
    pub fn with_program(self, program: PathBuf) -> Stacks {
        Stacks { program: Some(program), ..self }
    }

    /// Once this is set, what is measured on stacks is wanted no more: their modelled devices
    /// answer at once from then on, so that what cannot be broken off (mkfs, an unmount) is soon
    /// over.
    #[must_use]
    pub fn with_stop(self, stop: Arc<AtomicBool>) -> Stacks {
        Stacks { stop: Some(stop), ..self }
    }

    /// Looks into these directories for mkfs and mount programs before `PATH`.
    #[must_use]
    pub fn with_tools(self, tools: Vec<PathBuf>) -> Stacks {
        Stacks { tools, ..self }
    }

    /// Time limit of mkfs and mount (120 s unless told; mkfs has one second more for each 100 MiB).
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Stacks {
        Stacks { limit, ..self }
    }

    /// How long a busy mount is tried again when going down (5 s unless told).
    #[must_use]
    pub fn with_busy_limit(self, busy_limit: Duration) -> Stacks {
        Stacks { busy_limit, ..self }
    }
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks::here()
    }
}

/// Whether this user's list of stacks lies where nobody else can have written it; [`crate::Stack::up`] and
/// all that takes stacks down refuse it otherwise. Nothing is made.
///
/// # Errors
/// Which directory others may write, or whose it is, and what to do.
pub fn trusted_state() -> Result<(), StackError> {
    trust::state(&Stacks::here().state)
}

/// Whether this user can write a list of stacks: not where the home is read-only or another's.
#[must_use]
pub fn is_state_writable() -> bool {
    let state = Stacks::here().state;
    state.ancestors().find(|directory| directory.exists()).is_some_and(|there| may_write(there).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: with `HOME= TMPDIR=`, or a relative HOME, the list of stacks lay in whatever
    /// directory a command was given in, and the next one did not find what a kill had left.
    #[test]
    fn the_state_directory_is_the_same_wherever_a_command_is_given() {
        let of = |state: &str, home: &str, temporary: &str| {
            let [state, home, temporary] =
                [state, home, temporary].map(|named| base_directory(Some(named.into())));
            own_state(state, home, temporary, 7)
        };
        assert_eq!(of("/s", "/h", "/t"), PathBuf::from("/s/fathom"));
        assert_eq!(of("s", "/h", "/t"), PathBuf::from("/h/.local/state/fathom"));
        assert_eq!(of("", "h", "/t"), PathBuf::from("/t/fathom-7"));
        assert_eq!(of("", "", "t"), PathBuf::from("/tmp/fathom-7"));
        assert_eq!(of("", "", ""), PathBuf::from("/tmp/fathom-7"));
    }
}
