//! `fathom stack calibrate`: measures a device and writes its model.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_device::{CalibrateError, Calibration, Model};
use fathom_lab::schedule::Interrupt;
use fathom_output::{say, shown_path};
use fathom_stack::named_stack::{self, NamedStack};

use crate::cli::Calibrate;
use crate::outcome::{Error, Outcome};
use crate::progress::StageBar;

/// Does what was asked.
pub fn run(asked: &Calibrate) -> super::Result {
    if let Some(out) = &asked.out {
        super::check_output("--out", out, what_is_read(asked).as_slice())?;
    }
    // --destroy is for a card's image, and a name is mistyped soon.
    if asked.destroy && asked.path.is_file() {
        fathom_output::check_overwritten(&asked.path)
            .map_err(|error| super::refused_or_failed("--destroy", error))?;
        if let Some(name) = mounted_by(&asked.path, &named_stack::list()) {
            return Err(Error::usage(format!(
                "--destroy: {} is in use: the stack {name:?} lies on it: `fathom stack down {name}` first",
                shown_path(&asked.path)
            )));
        }
    }
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let calibration = Calibration {
        path: asked.path.clone(),
        size_mib: asked.size,
        quick: asked.quick,
        destroy: asked.destroy,
        name: asked.name.clone(),
        when: fathom_report::number::moment(i64::try_from(ms).unwrap_or(0)),
        program: fathom_ground::program::own_program().ok(),
    };
    // A wrong name is told before minutes of measuring, not after.
    Model::check_name(&asked.name).map_err(|problem| Error::usage(format!("--name: {problem}")))?;
    if fathom_device::preset(&asked.name).is_some() {
        return Err(Error::usage(format!(
            "--name: {0:?} is a preset, which no other model may be called: give another name, e.g. \"my-{0}\"",
            asked.name
        )));
    }
    let interrupt = Interrupt::new();
    interrupt.on_signals().map_err(|error| Error::failed(format!("signals: {error}")))?;
    let said = StageBar::new();
    let measured = calibration.run(&mut |step| said.show(step), &|| interrupt.is_raised());
    said.clear();
    let text = measured.map_err(|error| match error {
        CalibrateError::HoldsData { .. } | CalibrateError::Missing { .. } | CalibrateError::Small { .. } => {
            Error::usage(error)
        }
        other => Error::failed(other),
    })?;
    // What is written can be loaded, or it is not written.
    let model = Model::parse("the model", &text).map_err(Error::failed)?;
    match &asked.out {
        None => fathom_output::raw(&text),
        Some(file) => {
            let written = super::write_text("--out", file, what_is_read(asked).as_slice(), &text);
            if let (Err(_), Some(signal)) = (&written, interrupt.signal()) {
                crate::ending::as_the_signal(signal);
            }
            written?;
            if fathom_output::is_standard_output(file) {
                return Ok(Outcome::Good);
            }
            say!("{}.", model.in_short());
            for guess in model.assumptions.iter().filter(|assumed| assumed.contains(" is a guess, ")) {
                say!("{guess}.");
            }
            let shown = if file.components().count() == 1 {
                format!("./{}", file.display())
            } else {
                file.display().to_string()
            };
            say!("Use it with:  fathom stack up --fs ext4 --device {shown}");
        }
    }
    Ok(Outcome::Good)
}

/// What is measured where it is a file or a device; files in a directory are not read.
fn what_is_read(asked: &Calibrate) -> Option<&Path> {
    (!asked.path.is_dir()).then_some(&*asked.path)
}

/// The stack that is kept in a file and up: what lies below a modelled device or a guest's disk is
/// no loop device's file.
fn mounted_by<'a>(file: &Path, stacks: &'a [NamedStack]) -> Option<&'a str> {
    let number = |path: &Path| path.metadata().ok().map(|about| (about.dev(), about.ino()));
    let own = number(file)?;
    let lies_on_it =
        |stack: &&NamedStack| stack.up && stack.spec.keep.as_deref().and_then(number) == Some(own);
    stacks.iter().find(lies_on_it).map(|stack| stack.name.as_str())
}

#[cfg(test)]
mod tests {
    use fathom_stack::{StackRecord, StackSpec};

    use super::*;

    /// What happened: `stack up --keep card.img --device sd-slow` has a loop device on what the
    /// model serves and none on `card.img`, so that `stack calibrate card.img --destroy` wrote over
    /// the mounted file system.
    #[test]
    fn the_image_of_a_stack_that_is_up_is_known() {
        let place = tempfile::tempdir().unwrap();
        let [image, other] = ["card.img", "other.img"].map(|name| place.path().join(name));
        for file in [&image, &other] {
            std::fs::write(file, "").unwrap();
        }
        let of = |up: bool| NamedStack {
            name: "card".into(),
            path: "/mnt".into(),
            up,
            spec: StackSpec { keep: Some(image.clone()), ..StackSpec::default() },
            record: StackRecord::default(),
            problem: None,
            created_ms: 0,
        };
        assert_eq!(mounted_by(&image, &[of(true)]), Some("card"));
        assert_eq!(mounted_by(&image, &[of(false)]), None, "after a restart of the machine");
        assert_eq!(mounted_by(&other, &[of(true)]), None);
        assert_eq!(mounted_by(&place.path().join("gone.img"), &[of(true)]), None);
    }
}
