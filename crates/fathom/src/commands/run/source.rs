//! The experiment that is run: a built-in one, or a file.

use std::io::Read;
use std::path::Path;

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use fathom_lab::experiment;

use crate::outcome::Error;

/// The largest experiment file, octets: a device, or a pipe that never ends, is not read for ever.
/// Those that come with Fathom have 10 KiB at most.
const EXPERIMENT_MAX: u64 = 4 << 20;

/// A built-in experiment by name, or a file: what looks like a path or exists is a file.
pub(super) fn read_source(name: &str) -> Result<(String, String), Error> {
    if let Some(builtin) = experiment::builtin_named(name) {
        return Ok(("built-in".into(), builtin.source.into()));
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains('/') && path.extension().is_none() {
        let names = experiment::builtin().iter().map(|builtin| builtin.name);
        let hint = did_you_mean(nearest(name, names));
        return Err(Error::usage(format!(
            "no built-in experiment and no file is called \"{name}\"{hint}\n`fathom list experiments` shows what there is"
        )));
    }
    let mut text = Vec::new();
    let file =
        std::fs::File::open(path).and_then(|file| file.take(EXPERIMENT_MAX + 1).read_to_end(&mut text));
    file.map_err(|error| Error::usage(format!("{name}: {error}")))?;
    if text.len() as u64 > EXPERIMENT_MAX {
        let most = EXPERIMENT_MAX >> 20;
        return Err(Error::usage(format!("{name}: it has more than {most} MiB, and so is no experiment")));
    }
    let text =
        String::from_utf8(text).map_err(|error| Error::usage(format!("{name}: not a text file: {error}")))?;
    Ok((name.into(), text))
}
