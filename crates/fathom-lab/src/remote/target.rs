//! Which machine runs are made on, as `--on` names it.
//!
//! A name goes to `ssh` and to `adb` as one argument behind their options, and neither lets a shell
//! read it here. It is refused all the same where it holds anything but letters, digits and a few
//! marks: a `ProxyCommand` of the user's configuration is read by a shell with the host's name in
//! it, and a name with a dash in front would be an option.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// This one.
    Local,
    /// One that is reached by ssh.
    Ssh {
        /// `host` or `user@host`; a name of the user's ssh configuration, too.
        destination: String,
        /// The directory under test there; none = a directory of Fathom's own in that user's home.
        directory: Option<String>,
    },
    /// One that is reached by adb.
    Adb {
        /// As `adb devices` shows it.
        serial: String,
        /// The directory under test there; none = [`ADB_DIRECTORY`].
        directory: Option<String>,
    },
}

/// Where an Android device lets its shell write and start programs.
pub const ADB_DIRECTORY: &str = "/data/local/tmp/fathom";

/// What `--on` calls this machine.
pub const LOCAL: &str = "local";

/// What is wrong with the name of a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--on {word:?}: {problem}")]
pub struct TargetError {
    /// What was given.
    pub word: String,
    /// What is wrong with it, and what is right.
    pub problem: String,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(word: &str) -> Result<Target, TargetError> {
        let wrong = |problem: String| TargetError { word: word.to_owned(), problem };
        let (kind, rest) = match word.split_once(':') {
            None if word == LOCAL => return Ok(Target::Local),
            Some((kind @ ("ssh" | "adb"), rest)) => (kind, rest),
            _ => {
                return Err(wrong(
                    "give local, ssh:[USER@]HOST[:/DIRECTORY] or adb:SERIAL[:/DIRECTORY]".into(),
                ));
            }
        };
        let (name, directory) = match rest.find(":/") {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        if let Some(directory) = directory {
            check_directory(directory).map_err(wrong)?;
        }
        let directory = directory.map(str::to_owned);
        if kind == "adb" {
            // `adb-X (2)._adb-tls-connect._tcp` is a phone that adb has found in the network, and
            // `[fe80::1%eth0]:5555` one that was connected by an address of IPv6.
            let otherwise = "Give it as `adb devices` shows it";
            check_name("a serial number", name, ": ()[]%", otherwise).map_err(wrong)?;
            // One behind a network is an address with a port.
            if let Some((_, port)) = name.rsplit_once(':')
                && !port.chars().all(|c| c.is_ascii_digit())
            {
                return Err(wrong(format!("{port:?} is no port, and a directory begins with /")));
            }
            return Ok(Target::Adb { serial: name.to_owned(), directory });
        }
        let (user, host) = name.rsplit_once('@').map_or((None, name), |(user, host)| (Some(user), host));
        if let Some(user) = user {
            check_name("a user's name", user, "", CONFIGURED).map_err(wrong)?;
        }
        // An address of IPv6 may stand in brackets; ssh takes it without.
        let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        check_name("a host's name", host, ":", CONFIGURED).map_err(wrong)?;
        if let Some((_, part)) = host.split_once(':')
            && host.parse::<Ipv6Addr>().is_err()
        {
            return Err(wrong(format!(
                "{part:?} behind the host's name: a directory begins with /, and a port stands in ~/.ssh/config"
            )));
        }
        let destination = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        Ok(Target::Ssh { destination, directory })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name, directory) = match self {
            Target::Local => return out.write_str(LOCAL),
            Target::Ssh { destination, directory } => ("ssh", destination, directory),
            Target::Adb { serial, directory } => ("adb", serial, directory),
        };
        write!(out, "{kind}:{name}")?;
        directory.as_ref().map_or(Ok(()), |directory| write!(out, ":{directory}"))
    }
}

/// What to do about a name that ssh would take, and this does not.
const CONFIGURED: &str = "Give what is special a plain name in ~/.ssh/config";

/// Letters, digits, dot, underscore, dash, and what `more` allows; no dash in front. `otherwise`:
/// what to do about any other.
fn check_name(what: &str, name: &str, more: &str, otherwise: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("{what} is missing"));
    }
    if name.starts_with('-') {
        return Err(format!("{what} that begins with a dash would be taken for an option"));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || more.contains(c);
    match name.chars().find(|c| !is_allowed(*c)) {
        None => Ok(()),
        Some(c) => Err(format!(
            "{what} holds {c:?}: letters, digits, dots, dashes and underscores can be there. {otherwise}"
        )),
    }
}

fn check_directory(directory: &str) -> Result<(), String> {
    match directory.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(format!("the directory holds {c:?}, a control character")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_read_and_shown_as_they_were_given() {
        for word in [
            "local",
            "ssh:board",
            "ssh:pi@board",
            "ssh:pi@board:/mnt/sd card",
            "adb:emulator-5554",
            "adb:192.168.1.7:5555:/data/local/tmp/x",
            "adb:adb-1A2B-xyz (2)._adb-tls-connect._tcp:/data/local/tmp/x",
            "ssh:pi@10.0.0.2",
        ] {
            assert_eq!(word.parse::<Target>().unwrap().to_string(), word);
        }
        let six = "ssh:pi@[fe80::1]:/x".parse::<Target>().unwrap();
        let plain = Target::Ssh { destination: "pi@fe80::1".into(), directory: Some("/x".into()) };
        assert_eq!(six, plain);
        let adb = "adb:192.168.1.7:5555".parse::<Target>().unwrap();
        assert_eq!(adb, Target::Adb { serial: "192.168.1.7:5555".into(), directory: None });
    }

    /// What happened: of a phone that `adb devices` has as `[fd00::5]:5555` it was said that it is
    /// to be given as `adb devices` shows it.
    #[test]
    fn a_phone_with_an_address_of_ipv6_is_named_as_adb_names_it() {
        for (serial, directory) in [("[fd00::5]:5555", Some("/data/x")), ("[fe80::5%eth0]:5555", None)] {
            let behind = directory.map_or(String::new(), |directory| format!(":{directory}"));
            let phone = format!("adb:{serial}{behind}").parse::<Target>().unwrap();
            let directory = directory.map(str::to_owned);
            assert_eq!(phone, Target::Adb { serial: serial.into(), directory });
        }
        let problem = "adb:[fd00::5]".parse::<Target>().unwrap_err().to_string();
        assert!(problem.contains("is no port"), "{problem}");
    }

    /// A host's name such as `-oProxyCommand=touch x` was the way into git's, mercurial's and
    /// subversion's ssh (CVE-2017-1000117), and one with `;` in it the way into those who have %h
    /// in a ProxyCommand (CVE-2023-51385).
    #[test]
    fn a_name_that_could_run_something_is_refused() {
        for (word, part) in [
            ("ssh:-oProxyCommand=touch x", "taken for an option"),
            ("ssh:pi@-oProxyCommand=x", "taken for an option"),
            ("ssh:-l@board", "taken for an option"),
            ("ssh:board;touch x", "';'"),
            ("ssh:$(touch x)", "'$'"),
            ("ssh:a b", "' '"),
            ("ssh:`x`", "'`'"),
            ("ssh:pi@board%x", "'%'"),
            ("ssh:a'b@board", "'\\''"),
            ("ssh:board\n", "'\\n'"),
            ("ssh:", "missing"),
            ("ssh:@board", "missing"),
            ("ssh:board:/a\nb", "control character"),
            ("ssh:board:22", "a port stands in"),
            ("ssh:board:card", "a directory begins with /"),
            ("adb:x:card", "a directory begins with /"),
            ("adb:-H", "taken for an option"),
            ("adb:a;b", "';'"),
            ("adb:a$b", "`adb devices`"),
            ("adb:", "missing"),
            ("board", "give local, ssh:"),
            ("scp:board", "give local, ssh:"),
            ("", "give local, ssh:"),
        ] {
            let error = word.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(part), "{word:?}: {error}");
        }
    }
}
