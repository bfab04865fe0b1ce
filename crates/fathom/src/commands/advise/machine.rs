//! Another machine that is recorded on.

use fathom_lab::remote::{Remote, Target};
use fathom_lab::schedule::Interrupt;
use fathom_stack::{Availability, Capability};

use crate::cli::Advise;
use crate::commands;
use crate::outcome::Error;

/// The other machine that is asked for, with its agent.
pub(super) fn elsewhere(asked: &Advise, interrupt: &Interrupt) -> Result<Option<Remote>, Error> {
    let Some(machine) = asked.on.as_ref().filter(|machine| **machine != Target::Local) else {
        return Ok(None);
    };
    let connected = Remote::connect(machine, interrupt.clone(), &mut commands::tell_note);
    connected.map(Some).map_err(Error::failed)
}

/// The file systems of another machine, and why it cannot model a device.
pub(super) fn abilities(remote: &mut Remote) -> Result<(Vec<Availability>, Option<String>), Error> {
    let (capabilities, _) = remote.doctor().map_err(Error::failed)?;
    let root = capabilities.iter().find(|capability| capability.name == "root" && !capability.present);
    let why_not = root.map(|root| format!("Recording for other devices needs root there: {}", root.detail));
    let machine = fathom_stack::Machine::here();
    let of = |capability: Capability| {
        let filesystem = machine.filesystem(&capability.name)?;
        Some(Availability {
            in_guest: capability.detail.contains(" in a guest ("),
            filesystem: capability.name,
            present: capability.present,
            detail: capability.detail,
            remedy: capability.remedy,
            min_mib: filesystem.min_mib,
        })
    };
    Ok((capabilities.into_iter().filter_map(of).collect(), why_not))
}
