//! A model by what `--device` takes: a preset's name, or the path of a model's file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use fathom_diagnostic::suggest::{did_you_mean, nearest};

use super::model::Model;
use super::presets::{own_model, presets, text_of};

/// Longest text of a model, bytes; presets have some 2 KiB.
pub const LARGEST_MODEL: u64 = 1 << 20;

/// The model of a device, as `--device` takes it: a preset's name, or a file's path.
///
/// # Errors
/// In words: what is wrong with the name or the file, and what would be right.
pub fn device_model(device: &str) -> Result<Model, String> {
    let (file, text) = model_text(device).map_err(|problem| {
        if is_model_file(device) {
            return problem;
        }
        let near = did_you_mean(nearest(device, presets().iter().map(|model| model.name.as_str())));
        format!("{problem}{near}\n`fathom list devices` shows them; or give the path of a model (FILE.toml)")
    })?;
    Model::parse(&file, &text).map_err(|error| error.to_string())
}

/// The name of a model's file and its text: a preset's, or a file's of the user's.
///
/// # Errors
/// In words: there is no such preset, or what is wrong with the file.
pub fn model_text(device: &str) -> Result<(String, String), String> {
    if let Some(text) = text_of(device) {
        return Ok((format!("{device}.toml"), text.to_owned()));
    }
    if !is_model_file(device) {
        return Err(format!("there is no modelled device {device:?}"));
    }
    let text = read(Path::new(device)).map_err(|problem| format!("{device}: {problem}"))?;
    own_model(device, &text).map_err(|error| error.to_string())?;
    Ok((device.to_owned(), text))
}

/// Whether a device's name is the path of a model, and no preset's name.
#[must_use]
pub fn is_model_file(device: &str) -> bool {
    device.contains('/') || device.ends_with(".toml")
}

/// The text of a file that is to hold a model.
fn read(path: &Path) -> Result<String, String> {
    // Looked at before it is opened: the other end of a pipe would be waited for.
    if !path.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is no file, and so no model".into());
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(LARGEST_MODEL + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    match u64::try_from(text.len()) {
        Ok(..=LARGEST_MODEL) => Ok(text),
        _ => Err(format!("it has more than {} KiB, and so is no model", LARGEST_MODEL >> 10)),
    }
}
