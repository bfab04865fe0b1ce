//! The machines that runs are made on.

use std::path::Path;

use fathom_lab::remote::{Machines, Target};
use fathom_lab::schedule::Interrupt;
use fathom_output::{shown, shown_path};

use crate::cli::Run;
use crate::commands;
use crate::outcome::Error;

/// The names of the machines of `--on`.
pub(super) fn machines(asked: &Run) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for machine in &asked.on {
        let name = machine.to_string();
        if names.contains(&name) {
            return Err(Error::usage(format!("--on: {} is given twice", shown(&name))));
        }
        names.push(name);
    }
    if asked.dir.is_some() && !names.is_empty() && !asked.on.contains(&Target::Local) {
        return Err(Error::usage(
            "--dir: it names a directory of this machine, on which nothing runs: name that of another machine with it, as \
             in --on ssh:pi@board:/mnt/card",
        ));
    }
    Ok(names)
}

/// The machines of `--on`, each with its agent; none where only this machine is meant.
pub(super) fn connected(asked: &Run, interrupt: &Interrupt) -> Result<Option<Machines>, Error> {
    if asked.on.is_empty() {
        return Ok(None);
    }
    commands::stop_on_signals(interrupt)?;
    let connected = Machines::connect(&asked.on, interrupt, &mut commands::tell_note);
    connected.map(Some).map_err(Error::failed)
}

/// Where the runs are made, in words.
pub(super) fn place(asked: &Run, directory: &Path) -> String {
    let names: Vec<String> = asked.on.iter().map(|machine| shown(&machine.to_string())).collect();
    match names.as_slice() {
        [] => format!("in {}", shown_path(directory)),
        names => format!("on {}", names.join(", ")),
    }
}
