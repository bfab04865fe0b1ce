//! A word of the command line that says where a store is.

use super::wrong::Wrong;
use smsc::store::Place;
use std::ffi::OsStr;
use std::io::{Read, Seek, SeekFrom, Write};

/// Reads the word of the option or argument `name`. A password in it is hidden from those who list
/// the machine's processes, from now on.
pub fn place(word: &OsStr, name: &str) -> Result<Place, Wrong> {
    let read = Place::parse(word).map_err(|problem| Wrong(format!("{name}: {problem}")));
    // Also of a URL that is wrong: it may have a password all the same.
    if word.to_str().is_some_and(|text| text.contains("://") && text.contains('@')) && hide(word).is_none() {
        tell!("smsc: {name}: the URL is in the list of the machine's processes, with its password");
    }
    // Only now: whoever is left out of dumps may not write to its own memory that way.
    if matches!(read, Ok(Place::Server(_) | Place::Cluster(_))) {
        super::dump::forbid();
    }
    let keeps = match &read {
        Ok(Place::Server(url)) if url.secret().is_some() => "PGPASSWORD or ~/.pgpass keep it",
        // That of the environment is where it belongs.
        Ok(Place::Cluster(url)) if url.has_secret_in_it() => "REDISCLI_AUTH keeps it",
        _ => return read,
    };
    tell!(
        "smsc: {name}: a password on the command line was seen by whoever listed processes just now, and is in \
         the shell's history: {keeps}"
    );
    read
}

/// Overwrites a word among the arguments that the kernel shows of this process.
fn hide(word: &OsStr) -> Option<()> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields 48 and 49 (proc_pid_stat(5)), counted from behind the name, which ends field 2.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (begin, end): (u64, u64) = (fields.get(45)?.parse().ok()?, fields.get(46)?.parse().ok()?);
    let mut memory = std::fs::File::options().read(true).write(true).open("/proc/self/mem").ok()?;
    let mut arguments = vec![0; usize::try_from(end.checked_sub(begin)?).ok()?];
    memory.seek(SeekFrom::Start(begin)).ok()?;
    memory.read_exact(&mut arguments).ok()?;
    let secret = word.as_encoded_bytes();
    let mut at = 0;
    while let Some(found) = arguments[at..].windows(secret.len()).position(|part| part == secret) {
        let from = at + found;
        let scheme = secret.windows(3).position(|part| part == b"://").map_or(0, |end| end + 3);
        let shown = &secret[..scheme];
        for (place, octet) in arguments[from..from + secret.len()].iter_mut().enumerate() {
            *octet = shown.get(place).copied().unwrap_or(b'.');
        }
        at = from + secret.len();
    }
    memory.seek(SeekFrom::Start(begin)).ok()?;
    memory.write_all(&arguments).ok()
}
