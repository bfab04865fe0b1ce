//! Models that come with Fathom. Each is a file of its own, with its sources and what is assumed.

use std::sync::OnceLock;

use fathom_diagnostic::Diagnostic;

use super::model::Model;

/// File name and text.
const FILES: &[(&str, &str)] = &[
    ("none.toml", include_str!("presets/none.toml")),
    ("recorder.toml", include_str!("presets/recorder.toml")),
    ("sd-samsung-32.toml", include_str!("presets/sd-samsung-32.toml")),
    ("sd-sandisk-8.toml", include_str!("presets/sd-sandisk-8.toml")),
    ("sd-sandisk-micro-16.toml", include_str!("presets/sd-sandisk-micro-16.toml")),
    ("sd-sandisk-extreme.toml", include_str!("presets/sd-sandisk-extreme.toml")),
    ("flash-p1.toml", include_str!("presets/flash-p1.toml")),
    ("sd-slow.toml", include_str!("presets/sd-slow.toml")),
    ("emmc-51.toml", include_str!("presets/emmc-51.toml")),
    ("ufs-fresh.toml", include_str!("presets/ufs-fresh.toml")),
    ("ufs-fragmented.toml", include_str!("presets/ufs-fragmented.toml")),
    ("nvme.toml", include_str!("presets/nvme.toml")),
    ("nvme-protected.toml", include_str!("presets/nvme-protected.toml")),
    ("disk-p5.toml", include_str!("presets/disk-p5.toml")),
];

/// Name of the preset that recordings are made on. Its own times are in none of them.
pub const RECORDER: &str = "recorder";

/// All of them, in the order in which they are shown.
#[must_use]
pub fn presets() -> &'static [Model] {
    static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
    // A file that does not parse is left out here, and fails the test below.
    MODELS.get_or_init(|| FILES.iter().filter_map(|(file, text)| Model::parse(file, text).ok()).collect())
}

/// The text of the preset called `name`, to begin a model of one's own with.
#[must_use]
pub fn text_of(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name)).map(|(_, text)| *text)
}

/// The preset called `name`.
#[must_use]
pub fn preset(name: &str) -> Option<&'static Model> {
    presets().iter().find(|model| model.name == name)
}

/// Reads the text of a user's model. Results name a device by its model's name, so a preset's is
/// the preset's alone; comments may differ.
///
/// # Errors
/// As [`Model::parse`], and a preset's name on another model.
pub fn own_model(file: &str, text: &str) -> Result<Model, Diagnostic> {
    let model = Model::parse(file, text)?;
    match preset(&model.name) {
        Some(known) if *known != model => {
            let begins = |line: &str| line.trim_start().starts_with("name");
            let line = text.lines().position(begins).unwrap_or(0);
            let problem = format!(
                "{0:?} is a preset, from which this model differs: give it a name of its own, e.g. \"my-{0}\"",
                model.name
            );
            let of_line = text.lines().nth(line).unwrap_or_default();
            Err(Diagnostic::in_line(file, line + 1, of_line, problem))
        }
        _ => Ok(model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_ones_own_has_a_name_of_its_own() {
        let text = text_of("sd-slow").unwrap();
        assert_eq!(own_model("copy.toml", &format!("# mine\n{text}")).unwrap(), *preset("sd-slow").unwrap());
        let changed = text.replacen("title = \"", "title = \"Faster: ", 1);
        assert_ne!(changed, text);
        let error = own_model("copy.toml", &changed).unwrap_err();
        assert!(error.text.starts_with("name = \"sd-slow\""), "{error}");
        assert!(error.message.contains("my-sd-slow"), "{error}");
        let renamed = changed.replacen("name = \"sd-slow\"", "name = \"my-sd-slow\"", 1);
        assert_eq!(own_model("copy.toml", &renamed).unwrap().name, "my-sd-slow");
    }

    #[test]
    fn every_preset_is_right_and_named_as_its_file() {
        for (file, text) in FILES {
            let model = Model::parse(file, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(format!("{}.toml", model.name), *file);
            assert!(!model.sources.is_empty(), "{file} names no source");
        }
        assert_eq!(presets().len(), FILES.len());
    }

    /// What happened: the times at which published rates are reached were taken for medians, and
    /// tails were added to them, while the files went on to say that the rates come out: a fresh
    /// UFS part made 27,000 operations a second of 40,000, and a flush of an NVMe drive took 2.3 ms
    /// of 1.6. The mend: they say what comes out.
    #[test]
    fn models_with_tails_say_what_their_means_come_to() {
        let of = |name: &str| preset(name).unwrap();
        let says = |name: &str, part: &str| of(name).assumptions.iter().any(|said| said.contains(part));
        let ufs = of("ufs-fresh");
        let rate = |latency: &crate::Latency| ufs.channels as f64 * 1e9 / latency.mean_ns();
        let rates = [&ufs.read.random, &ufs.write.random].map(|latency| (rate(latency) / 100.0).round());
        assert_eq!(rates, [274.0, 267.0]);
        assert!(says("ufs-fresh", "27,400 reads and 26,700 writes a second"));
        assert_eq!((of("nvme").flush.base.mean_ns() / 1e3).round(), 2334.0);
        assert!(says("nvme", "2334 us in the mean"));
    }

    /// What happened: `nvme` listed 4000 MB/s of writes among its numbers, which nothing asks where
    /// a cache drains, and much data at once is written at 70 GB/s by it. It said so nowhere, nor
    /// that a power cut tears no 4 KiB of it; `emmc-51` takes 64 KiB faster than its bus. The
    /// numbers stay, for results rest on them.
    #[test]
    fn models_say_what_their_caches_leave_out() {
        use crate::{Operation, Timeline};
        let mut device = Timeline::new(preset("nvme").unwrap().clone(), 7);
        let mut now = 0;
        for i in 0..128u64 {
            now = device.submit(now, Operation::Write, i << 20, 1 << 20).finish_ns;
        }
        assert_eq!(now, 128 * 15_000);
        let says =
            |name: &str, part: &str| preset(name).unwrap().assumptions.iter().any(|said| said.contains(part));
        assert!(says("nvme", "128 MiB and their flush take 4 ms"));
        // What happened: it said nowhere that who flushes after each 64 KiB writes faster than who
        // never does.
        let mut device = Timeline::new(preset("emmc-51").unwrap().clone(), 7);
        let mut now = 0;
        for i in 0..100u64 {
            now = device.submit(now, Operation::Write, i << 16, 1 << 16).finish_ns;
            now = device.submit(now, Operation::Flush, 0, 0).finish_ns;
        }
        assert_eq!((100.0 * f64::from(1 << 16) * 1e3 / now as f64).round(), 73.0);
        assert!(says("emmc-51", "64 KiB and a flush in turn come at 73 MB/s"));
        for model in presets().iter().filter(|model| model.cache.is_some()) {
            assert!(says(&model.name, "however long it is"), "{}", model.name);
        }
        for model in presets().iter().filter(|model| model.tear_bytes > model.sector_bytes) {
            assert!(says(&model.name, "tear unit"), "{} leaves more whole than a sector", model.name);
        }
    }

    #[test]
    fn cards_write_and_read_at_their_published_rates() {
        use crate::{Operation, Timeline};
        // 4 KiB random, one at a time: operations a second.
        let rate = |name: &str, operation| {
            let mut device = Timeline::new(preset(name).unwrap().clone(), 7);
            let mut now = 0;
            for i in 0..2000u64 {
                now = device.submit(now, operation, (i * 7919 % 100_003) * 8192, 4096).finish_ns;
            }
            2000.0 / (now as f64 / 1e9)
        };
        for (name, read, write) in [
            ("sd-sandisk-extreme", 3253.0..4239.0, 770.0..1416.0),
            ("emmc-51", 4000.0..12_000.0, 12_500.0..13_500.0),
        ] {
            assert!(
                read.contains(&rate(name, Operation::Read)),
                "{name} reads {}",
                rate(name, Operation::Read)
            );
            assert!(
                write.contains(&rate(name, Operation::Write)),
                "{name} writes {}",
                rate(name, Operation::Write)
            );
        }
    }
}
