//! `fathom doctor`: what this machine can run, and the command that brings the rest.

use fathom_lab::remote::{Remote, Target};
use fathom_lab::schedule::Interrupt;
use fathom_output::{say, shown};
use fathom_stack::{Capability, SOME_PACKAGES};

use crate::cli::Doctor;
use crate::outcome::{Error, Outcome};

/// Prints every capability. Exit code 0: an absent capability is information, not a failure.
pub fn run(asked: &Doctor) -> super::Result {
    let (capabilities, packages) = found(asked)?;
    if asked.json {
        return super::print_json(&capabilities);
    }
    let width = capabilities.iter().map(|capability| capability.name.len()).max().unwrap_or(0);
    for capability in &capabilities {
        let mark = if capability.present { "yes" } else { "no " };
        let detail = column(&capability.detail, width);
        say!("  {mark}  {:width$}  {detail}", shown(&capability.name));
        if !capability.present && !capability.remedy.is_empty() {
            say!("       {:width$}  to get it:  {}", "", shown(&capability.remedy));
        }
    }
    let absent = capabilities.iter().filter(|capability| !capability.present).count();
    say!();
    if absent == 0 {
        say!("Everything Fathom can use is here.");
    } else {
        say!(
            "{absent} of {} are missing; cells that need them are skipped with the reason.",
            capabilities.len()
        );
    }
    if let Some(line) = packages {
        say!("{}", packages_told(&line, other(asked).is_some()));
    }
    match other(asked) {
        Some(machine) => say!("Next:  fathom run first-look --on {}", super::quoted(&machine.to_string())),
        None => say!("Next:  fathom run first-look"),
    }
    Ok(Outcome::Good)
}

/// The command that installs packages, and where it is to be typed: read here, it was taken for one
/// of this machine's.
fn packages_told(line: &str, is_elsewhere: bool) -> String {
    let place = if is_elsewhere { ", on that machine itself" } else { "" };
    format!("All that packages bring, in one line{place}:  {}", shown(line))
}

/// What is said of a capability, each line below the first: what a program there complained of
/// stands in lines of its own, and cannot pretend to be another capability.
fn column(detail: &str, width: usize) -> String {
    let mut lines = detail.lines().map(|line| shown(line.trim_end()));
    let first = lines.next().unwrap_or_default();
    lines.fold(first, |all, line| format!("{all}\n       {:width$}  {line}", ""))
}

/// The machine, where it is not this one.
fn other(asked: &Doctor) -> Option<&Target> {
    asked.on.as_ref().filter(|machine| **machine != Target::Local)
}

fn found(asked: &Doctor) -> Result<(Vec<Capability>, Option<String>), Error> {
    let Some(machine) = other(asked) else {
        let capabilities = fathom_stack::doctor();
        let packages = fathom_stack::packages(&capabilities);
        return Ok((capabilities, packages));
    };
    let interrupt = Interrupt::new();
    super::stop_on_signals(&interrupt)?;
    let connected = Remote::connect(machine, interrupt, &mut super::tell_note);
    let mut remote = connected.map_err(Error::failed)?;
    let (mut capabilities, packages) = remote.doctor().map_err(Error::failed)?;
    for capability in &mut capabilities {
        capability.remedy = remedy_there(machine, &capability.remedy);
    }
    Ok((capabilities, packages.filter(|line| !is_of_no_use(machine, line))))
}

/// What to do about it on another machine, of what that one says.
fn remedy_there(machine: &Target, remedy: &str) -> String {
    if remedy.starts_with("sudo fathom ") {
        // That this program be root; nobody types it there.
        as_root(machine)
    } else if remedy.starts_with("fathom ") {
        // Here it would be done for this machine.
        format!("on that machine itself: {remedy}")
    } else if is_of_no_use(machine, remedy) {
        String::new()
    } else {
        remedy.to_owned()
    }
}

/// Whether packages are to be installed on a phone.
fn is_of_no_use(machine: &Target, remedy: &str) -> bool {
    matches!(machine, Target::Adb { .. }) && remedy.starts_with(SOME_PACKAGES)
}

/// What makes the user root on another machine.
fn as_root(machine: &Target) -> String {
    match machine {
        Target::Ssh { destination, .. } => {
            let host = destination.rsplit_once('@').map_or(destination.as_str(), |(_, host)| host);
            format!("fathom doctor --on ssh:root@{host}")
        }
        // Where its system is made so.
        _ => "adb root".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever had a phone was told to install gcc and PostgreSQL on it.
    #[test]
    fn nobody_is_sent_to_a_package_manager_that_a_phone_has_not() {
        let (phone, board): (Target, Target) = ("adb:1".parse().unwrap(), "ssh:pi@board".parse().unwrap());
        let some = format!("{SOME_PACKAGES} (names as in Debian): postgresql");
        assert_eq!((remedy_there(&phone, &some), remedy_there(&board, &some)), (String::new(), some));
        let debian = "sudo apt-get install postgresql";
        assert_eq!(remedy_there(&phone, debian), debian, "a board over adb");
        assert_eq!(remedy_there(&phone, "sudo fathom doctor"), "adb root");
        assert_eq!(remedy_there(&board, "sudo fathom doctor"), "fathom doctor --on ssh:root@board");
        assert!(remedy_there(&board, "fathom stack kernel").starts_with("on that machine itself: "));
    }

    /// What happened: of a board it was told to install packages with a line as of this machine,
    /// and here it would have been typed.
    #[test]
    fn packages_of_another_machine_are_installed_there() {
        let line = "sudo apt-get install ntfs-3g";
        assert_eq!(packages_told(line, false), format!("All that packages bring, in one line:  {line}"));
        assert!(packages_told(line, true).contains("on that machine itself:  sudo apt-get"));
    }

    /// The line break was shown by its code, as in `--version\n  it said: …`.
    #[test]
    fn what_a_program_complained_of_stands_in_the_column_of_what_is_said() {
        let detail = "did not end within 20 s: chromium\n  it said: \u{1b}[2Jno\n           yes  root";
        let lines = ["did not end within 20 s: chromium", "  it said: \\u{1b}[2Jno", "           yes  root"];
        assert_eq!(column(detail, 4), lines.join(&format!("\n{}", " ".repeat(13))));
        assert_eq!(column("", 4), "");
    }
}
