//! Where a trace is written: by the rules of [`fathom_output`], and never in the place of a
//! capture, which cannot be made again. What was imported, made up or made anonymous can.

use std::path::Path;

use fathom_output::{Access, Output, is_standard_output};

use crate::error::TraceError;
use crate::format::Reader;
use crate::model::Record;

/// Says what is wrong with a trace's place, before hours of work for it. `inputs` is everything
/// that it is made of: files, and directories with all files in them.
///
/// # Errors
/// What the name leads to must not be written to; it cannot be looked at.
pub fn check(path: &Path, inputs: &[&Path]) -> Result<(), TraceError> {
    fathom_output::check_access(path, inputs, Access::Private)?;
    spare_captures(path)
}

/// Begins a trace.
pub(crate) fn create(path: &Path, inputs: &[&Path]) -> Result<Output, TraceError> {
    let output = Output::create(path, inputs, Access::Private)?;
    spare_captures(path)?;
    Ok(output)
}

/// Whether what is there by now may be replaced.
///
/// # Errors
/// It is a capture, or cannot be told from one.
pub(crate) fn spare_captures(path: &Path) -> Result<(), TraceError> {
    if is_standard_output(path) || !path.is_file() {
        return Ok(());
    }
    let mut reader = match Reader::open(path) {
        // An empty file, a text: none of ours.
        Err(TraceError::NotATrace { .. } | TraceError::Refused { .. }) => return Ok(()),
        other => other,
    };
    let first = reader.as_mut().map(Reader::next);
    match first {
        Ok(Some(Ok(Record::Origin(origin)))) if origin.how != "capture" || origin.anonymised => Ok(()),
        Ok(Some(Ok(Record::Origin(_)))) => {
            let problem = "is a capture, which would be replaced and cannot be made again: name another file";
            Err(TraceError::refused(path.display(), problem))
        }
        // Damaged or torn, or of another version: nobody can say how it was made.
        _ => {
            let problem = "is a trace that cannot be read, and may be a capture: name another file";
            Err(TraceError::refused(path.display(), problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Writer;
    use crate::model::Origin;

    /// What happened: `--out`, `--html` and `--svg` wrote over captures, of which there is no
    /// other one.
    #[test]
    fn a_capture_is_never_replaced_and_what_can_be_made_again_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("app.trace");
        let write = |how: &str, anonymised| {
            let origin = Origin { how: how.into(), anonymised, ..Origin::default() };
            let mut writer = Writer::create(&path)?;
            writer.write(&Record::Origin(origin))?;
            writer.finish().map(drop)
        };
        for (how, anonymised) in [("import", false), ("synthesise", false), ("capture", true)] {
            write(how, anonymised).unwrap();
            check(&path, &[]).unwrap();
        }
        write("capture", false).unwrap();
        let kept = std::fs::read(&path).unwrap();
        for refused in [check(&path, &[]), write("import", false)] {
            assert!(refused.unwrap_err().to_string().contains("is a capture"));
        }
        assert_eq!(std::fs::read(&path).unwrap(), kept);
        // Of what is torn nobody can say it.
        std::fs::write(&path, &kept[..20]).unwrap();
        assert!(check(&path, &[]).unwrap_err().to_string().contains("may be a capture"));
        std::fs::write(&path, "a text").unwrap();
        check(&path, &[]).unwrap();
    }
}
