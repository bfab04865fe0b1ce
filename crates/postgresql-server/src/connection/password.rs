//! Passwords, and the file in which users keep them.

use super::host::{Host, Place, socket_directory};
use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A secret: nothing that is printed has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// This password.
    #[must_use]
    pub fn new(text: String) -> Password {
        Password(text)
    }

    /// The password itself, for the server alone.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Octets of a password file that are read at most.
const FILE_MAX: u64 = 1 << 20;

/// What a password file has for a connection.
#[derive(Debug)]
pub(super) enum Lookup {
    /// Nothing.
    Nothing,
    /// A password.
    Password(Password),
    /// The file is not used, and why.
    Ignored(String),
}

/// The file that libpq reads where none is named: `PGPASSFILE`, or `~/.pgpass`.
pub(super) fn usual_file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PGPASSFILE").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    std::env::home_dir().map(|home| home.join(".pgpass"))
}

/// Looks for the password of `user` with `database` on `host`: the first line that fits.
pub(super) fn look_up(path: &Path, host: &Host, database: &str, user: &str) -> Lookup {
    let ignored = |why: String| Lookup::Ignored(format!("{}: {why}", path.display()));
    // A pipe is not waited for.
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Lookup::Nothing,
        Err(error) => return ignored(error.to_string()),
    };
    match file.metadata() {
        Ok(about) if !about.is_file() => return ignored("it is no regular file".into()),
        Ok(about) if about.mode() & 0o077 != 0 => {
            return ignored("others may read it, so it is not used: `chmod 600` it".into());
        }
        Ok(_) => {}
        Err(error) => return ignored(error.to_string()),
    }
    let mut text = String::new();
    if let Err(error) = file.take(FILE_MAX).read_to_string(&mut text) {
        return ignored(error.to_string());
    }
    let port = host.port.to_string();
    let name = match &host.place {
        Place::Socket(directory) if *directory == socket_directory() => "localhost".into(),
        Place::Socket(directory) => directory.display().to_string(),
        Place::Name(name) => name.clone(),
    };
    let wanted = [name.as_str(), &port, database, user];
    let line = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        (fields.len() >= 5 && fields.iter().zip(&wanted).all(fits)).then(|| fields[4].clone())
    });
    line.map_or(Lookup::Nothing, |password| Lookup::Password(Password::new(password)))
}

/// The fields of a line; a backslash makes the next character one of the field.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut letters) = (vec![String::new()], line.chars());
    while let Some(letter) = letters.next() {
        let letter = match letter {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => letters.next().unwrap_or('\\'),
            other => other,
        };
        if let Some(field) = fields.last_mut() {
            field.push(letter);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn host(name: &str, port: u16) -> Host {
        Host { place: Place::Name(name.into()), port }
    }

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pgpass");
        let text = "# a comment\nother:5432:*:*:no\nh:5432:smsc:u:a\\:b\\\\c:d\n*:*:*:u:any\nbroken\n";
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let of = |host: &Host, database: &str, user: &str| match look_up(&file, host, database, user) {
            Lookup::Password(password) => password.secret().to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(of(&host("h", 5432), "smsc", "u"), "a:b\\c:d");
        assert_eq!(of(&host("h", 5433), "smsc", "u"), "any");
        assert_eq!(of(&host("h", 5433), "smsc", "v"), "Nothing");
        assert_eq!(format!("{:?}", Password::new("secret".into())), "Password(…)");
    }

    #[test]
    fn a_file_that_others_may_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pgpass");
        std::fs::write(&file, "*:*:*:*:secret\n").unwrap();
        for mode in [0o640, 0o604, 0o644] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            let Lookup::Ignored(why) = look_up(&file, &host("h", 1), "d", "u") else { panic!("{mode:o}") };
            assert!(why.contains("chmod 600") && !why.contains("secret"), "{why}");
        }
        assert!(matches!(look_up(dir.path(), &host("h", 1), "d", "u"), Lookup::Ignored(_)));
        assert!(matches!(look_up(&dir.path().join("none"), &host("h", 1), "d", "u"), Lookup::Nothing));
    }
}
