//! `fathom stack calibrate`: measures a device and writes its model.

use fathom_output::say;
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_device::{CalibrateError, Calibration, Model};
use fathom_lab::schedule::Interrupt;

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
fn what_is_read(asked: &Calibrate) -> Option<&std::path::Path> {
    (!asked.path.is_dir()).then_some(&*asked.path)
}
