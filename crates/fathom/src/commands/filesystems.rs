//! `--fs` of the commands that record: the file systems that recordings are made on.

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use fathom_stack::Availability;

use crate::outcome::Error;

/// The file systems to record on. `is_modelled`: whether any can be; what is wrong with one that is
/// named is said before any work.
///
/// # Errors
/// One that there is not, or that this machine cannot record on, with the reason.
pub fn filesystems(
    asked: &[String],
    available: &[Availability],
    is_modelled: bool,
) -> Result<Vec<String>, Error> {
    if asked.is_empty() && !is_modelled {
        return Ok(Vec::new());
    }
    let wanted: Vec<String> = if asked.is_empty() {
        vec!["ext4".into()]
    } else {
        asked.iter().flat_map(|fs| fs.split(',')).map(|part| part.trim().to_owned()).collect()
    };
    let mut here: Vec<String> = Vec::new();
    let mut cannot = Vec::new();
    for name in wanted {
        if here.contains(&name) {
            return Err(Error::usage(format!("--fs: {name} is given twice")));
        }
        if name.is_empty() {
            return Err(Error::usage(format!(
                "--fs {}: a name is missing before or after a comma",
                asked.join(",")
            )));
        }
        let found = available.iter().find(|available| available.filesystem == name);
        match found {
            _ if name == "dir" => {
                return Err(Error::usage(
                    "--fs dir: a directory is no file system that can be chosen; leave it out",
                ));
            }
            Some(capability) if capability.present && !capability.in_guest => here.push(name),
            // Without a modelled device there are none at all, which is said of all together.
            Some(_) if !is_modelled => here.push(name),
            Some(capability) if capability.present => {
                cannot.push(format!(
                    "{name}: only the guest kernel has it here, and runs in it keep no recording"
                ));
            }
            Some(capability) => {
                let remedy = if capability.remedy.is_empty() {
                    String::new()
                } else {
                    format!("; to get it: {}", capability.remedy)
                };
                cannot.push(format!("{name}: {}{remedy}", capability.detail));
            }
            None => {
                let names = available.iter().map(|available| available.filesystem.as_str());
                let hint = did_you_mean(nearest(&name, names));
                let join = if hint.is_empty() { ":" } else { "" };
                return Err(Error::usage(format!(
                    "--fs: no file system is called {name:?}{hint}{join} `fathom list filesystems` shows them"
                )));
            }
        }
    }
    if cannot.is_empty() {
        return Ok(here);
    }
    let others = match here.as_slice() {
        [] => String::new(),
        some => format!(". With --fs {} alone there is an answer", some.join(",")),
    };
    Err(Error::failed(format!("--fs {}{others}", cannot.join(". "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: everything was recorded on ext4, 41 s, and then f2fs was refused.
    #[test]
    fn a_file_system_that_cannot_be_recorded_on_is_refused_before_any_work() {
        let of = |filesystem: &str, present, in_guest| Availability {
            filesystem: filesystem.into(),
            present,
            in_guest,
            detail: "no driver".into(),
            remedy: "apt-get install it".into(),
            min_mib: 64,
        };
        let available = [of("ext4", true, false), of("f2fs", true, true), of("xfs", false, false)];
        let told = |words: &[&str], is_modelled| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            filesystems(&words, &available, is_modelled).map_err(|error| format!("{error:?}"))
        };
        assert_eq!(told(&[], true).unwrap(), ["ext4"]);
        let refused = told(&["ext4,f2fs"], true).unwrap_err();
        assert!(refused.contains("f2fs: only the guest kernel") && refused.contains("--fs ext4 alone"));
        let refused = told(&["xfs"], true).unwrap_err();
        assert!(refused.contains("xfs: no driver; to get it: apt-get") && !refused.contains("alone"));
        // Where none can be recorded on, that is said of all of them together.
        assert_eq!(told(&["ext4,f2fs"], false).unwrap(), ["ext4", "f2fs"]);
        assert!(told(&["ext4,,xfs"], true).unwrap_err().contains("missing before or after a comma"));
        // With no name near it, the sentences ran together.
        assert!(told(&["nosuch"], true).unwrap_err().contains("\\\"nosuch\\\": `fathom list"));
        assert!(told(&["ext4,ext4"], true).unwrap_err().contains("ext4 is given twice"));
    }
}
