//! A device model and the file it is written in.
//!
//! ```toml
//! name = "sd-example"                    # as `--device` takes it
//! title = "Example 32 GB, UHS-I"
//! kind = "sd"                            # sd, emmc, ufs, flash (NVMe, SATA), protected (power-loss protection), disk, none
//! sources = ["where the numbers are from"]
//! assumptions = ["what nobody has published, and what was taken instead"]
//! channels = 1                           # operations served at the same time; left out: 1
//! streams = 1                            # sequential streams of reads, and as many of writes, that the device recognises
//! sector_bytes = 512                     # smallest addressable unit: 512 or 4096
//! tear_bytes = 512                       # what a power cut leaves whole: 512 or 4096; left out: a sector
//!
//! [read]
//! random_us = 250                        # a 4 KiB operation: one time, or quantiles [[50, 248], [90, 12300], [100, 249000]]
//! sequential_us = 110                    # the same, where it continues a stream; left out: as random_us
//! mb_per_s = 80                          # for what is longer than 4 KiB, of all channels together; 1 MB = 10^6 bytes
//! [write]                                # as [read]; not asked where a cache drains, which then sets the pace
//! random_us = 1000
//! sequential_us = 150
//! mb_per_s = 40
//! [flush]
//! base_us = 2000                         # one time or quantiles
//! per_dirty_kib_us = 5                   # for every KiB written since the last one, and not drained
//! [cache]                                # left out: none; a power cut takes the unflushed all the same
//! kib = 256
//! write_us = 40                          # a write that fits
//! drain_mb_per_s = 10                    # 0: only a flush empties it; else 0.001 at least
//! [stall]                                # left out: none
//! every_mib = 64                         # of writes
//! us = [[50, 20000], [100, 250000]]
//! ```

use std::ops::Range;

use fathom_diagnostic::Diagnostic;
use serde::Deserialize;
use toml::Spanned;

use super::latency::{Latency, Written, shown};
use fathom_diagnostic::suggest::did_you_mean;
use fathom_diagnostic::suggest::nearest;

/// What sort of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// SD or microSD card.
    Sd,
    /// eMMC.
    Emmc,
    /// UFS.
    Ufs,
    /// NVMe or SATA flash with a volatile cache.
    Flash,
    /// Flash with power-loss protection: what is acknowledged stays.
    Protected,
    /// Rotating disk.
    Disk,
    /// No delays at all: what the machinery itself costs.
    None,
}

const KINDS: [&str; 7] = ["sd", "emmc", "ufs", "flash", "protected", "disk", "none"];

/// Reads, or writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// A 4 KiB operation anywhere.
    pub random: Latency,
    /// A 4 KiB operation that continues a stream.
    pub sequential: Latency,
    /// For each byte beyond the first 4096, ns; the device's bandwidth, which its channels share.
    pub ns_per_byte: f64,
}

/// What a flush takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Flush {
    /// Whatever is dirty.
    pub base: Latency,
    /// For each dirty KiB, ns.
    pub per_dirty_kib_ns: f64,
}

/// A volatile write cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// Its size, bytes.
    pub bytes: u64,
    /// A write that fits, ns.
    pub write_ns: f64,
    /// How fast it empties by itself, bytes a nanosecond.
    pub drain_bytes_per_ns: f64,
}

/// Pauses of the device, for garbage collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// One for this many written bytes.
    pub every_bytes: u64,
    /// How long.
    pub latency: Latency,
}

/// A checked model of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// As `--device` takes it.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What sort of device.
    pub kind: Kind,
    /// Where its numbers are from.
    pub sources: Vec<String>,
    /// Numbers without a source.
    pub assumptions: Vec<String>,
    /// Operations served at the same time.
    pub channels: usize,
    /// Sequential streams recognised, of reads and of writes each.
    pub streams: usize,
    /// Smallest addressable unit, bytes.
    pub sector_bytes: u32,
    /// What a power cut leaves whole, bytes.
    pub tear_bytes: u32,
    /// Reads.
    pub read: Side,
    /// Writes.
    pub write: Side,
    /// Flushes.
    pub flush: Flush,
    /// The volatile cache, if there is one.
    pub cache: Option<Cache>,
    /// Pauses, if there are any.
    pub stall: Option<Stall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenModel {
    name: Spanned<String>,
    title: String,
    kind: Spanned<String>,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    assumptions: Vec<String>,
    channels: Option<Spanned<i64>>,
    streams: Option<Spanned<i64>>,
    sector_bytes: Option<Spanned<i64>>,
    tear_bytes: Option<Spanned<i64>>,
    read: WrittenSide,
    write: WrittenSide,
    flush: WrittenFlush,
    cache: Option<WrittenCache>,
    stall: Option<WrittenStall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSide {
    random_us: Spanned<Written>,
    sequential_us: Option<Spanned<Written>>,
    mb_per_s: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFlush {
    base_us: Spanned<Written>,
    per_dirty_kib_us: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCache {
    kib: Spanned<i64>,
    write_us: Spanned<f64>,
    drain_mb_per_s: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStall {
    every_mib: Spanned<i64>,
    us: Spanned<Written>,
}

/// The least that a bandwidth may be.
const LEAST_MB_PER_S: f64 = 1e-3;
/// The most that a bandwidth may be.
pub(crate) const MOST_MB_PER_S: f64 = 1e6;

/// A problem at a place of the text.
type Problem = (Range<usize>, String);

fn latency(written: &Spanned<Written>) -> Result<Latency, Problem> {
    Latency::read(written.get_ref()).map_err(|problem| (written.span(), problem))
}

fn whole(written: Option<&Spanned<i64>>, otherwise: u64, range: Range<i64>) -> Result<u64, Problem> {
    match written {
        None => Ok(otherwise),
        Some(number) if range.contains(number.get_ref()) => Ok(*number.get_ref() as u64),
        Some(number) => Err((
            number.span(),
            format!("{} is out of range: from {} to {}", number.get_ref(), range.start, range.end - 1),
        )),
    }
}

fn unit(written: Option<&Spanned<i64>>, otherwise: u32) -> Result<u32, Problem> {
    match written {
        None => Ok(otherwise),
        Some(number) if [512, 4096].contains(number.get_ref()) => Ok(*number.get_ref() as u32),
        Some(number) => Err((number.span(), format!("{} bytes: give 512 or 4096", number.get_ref()))),
    }
}

fn number(written: &Spanned<f64>, least: f64, most: f64) -> Result<f64, Problem> {
    let value = *written.get_ref();
    if value >= least && value <= most {
        return Ok(value);
    }
    Err((written.span(), format!("{} is out of range: from {least} to {most}", shown(value))))
}

/// How fast a cache empties by itself, MB/s. At hardly more than 0 a write would wait for longer
/// than a clock goes.
fn drain(written: &Spanned<f64>) -> Result<f64, Problem> {
    if *written.get_ref() == 0.0 {
        return Ok(0.0);
    }
    number(written, LEAST_MB_PER_S, MOST_MB_PER_S)
        .map_err(|(place, problem)| (place, format!("{problem}, or 0: only a flush empties it")))
}

fn side(written: &WrittenSide) -> Result<Side, Problem> {
    let random = latency(&written.random_us)?;
    Ok(Side {
        sequential: written.sequential_us.as_ref().map_or_else(|| Ok(random.clone()), latency)?,
        random,
        ns_per_byte: 1e3 / number(&written.mb_per_s, LEAST_MB_PER_S, MOST_MB_PER_S)?,
    })
}

impl WrittenModel {
    fn checked(self) -> Result<Model, Problem> {
        let name = self.name.get_ref();
        Model::check_name(name).map_err(|problem| (self.name.span(), problem))?;
        let kind = match self.kind.get_ref().as_str() {
            "sd" => Kind::Sd,
            "emmc" => Kind::Emmc,
            "ufs" => Kind::Ufs,
            "flash" => Kind::Flash,
            "protected" => Kind::Protected,
            "disk" => Kind::Disk,
            "none" => Kind::None,
            other => {
                let hint = did_you_mean(nearest(other, KINDS));
                let problem = format!("there is no kind {other:?}{hint}; there are {}", KINDS.join(", "));
                return Err((self.kind.span(), problem));
            }
        };
        if self.sources.is_empty() && self.assumptions.is_empty() {
            let problem = "says neither `sources` nor `assumptions`: where are its numbers from?";
            return Err((self.name.span(), problem.into()));
        }
        let sector_bytes = unit(self.sector_bytes.as_ref(), 512)?;
        let cache = self.cache.map(|cache| {
            Ok(Cache {
                bytes: whole(Some(&cache.kib), 0, 4..(1 << 24) + 1)? << 10,
                write_ns: number(&cache.write_us, 0.0, 1e6)? * 1e3,
                drain_bytes_per_ns: drain(&cache.drain_mb_per_s)? / 1e3,
            })
        });
        let stall = self.stall.map(|stall| {
            let every_mib = whole(Some(&stall.every_mib), 0, 1..(1 << 20) + 1)?;
            Ok(Stall { every_bytes: every_mib << 20, latency: latency(&stall.us)? })
        });
        Ok(Model {
            name: name.clone(),
            title: self.title,
            kind,
            sources: self.sources,
            assumptions: self.assumptions,
            channels: whole(self.channels.as_ref(), 1, 1..257)? as usize,
            streams: whole(self.streams.as_ref(), 1, 0..65)? as usize,
            sector_bytes,
            // No device leaves half of a sector: it is what a write is at least.
            tear_bytes: unit(self.tear_bytes.as_ref(), sector_bytes)?,
            read: side(&self.read)?,
            write: side(&self.write)?,
            flush: Flush {
                base: latency(&self.flush.base_us)?,
                per_dirty_kib_ns: match &self.flush.per_dirty_kib_us {
                    Some(us) => number(us, 0.0, 1e6)? * 1e3,
                    None => 0.0,
                },
            },
            cache: cache.transpose()?,
            stall: stall.transpose()?,
        })
    }
}

impl Model {
    /// Whether its times are drawn: two runs of the same operations then take different times.
    #[must_use]
    pub fn is_random(&self) -> bool {
        let sides = [&self.read, &self.write].into_iter().flat_map(|side| [&side.random, &side.sequential]);
        let stall = self.stall.as_ref().map(|stall| &stall.latency);
        !sides.chain([&self.flush.base]).chain(stall).all(Latency::is_constant)
    }

    /// The same device, whose flushes take so many times as long.
    #[must_use]
    pub fn with_flushes(&self, factor: f64) -> Model {
        let flush = Flush {
            base: self.flush.base.times(factor),
            per_dirty_kib_ns: self.flush.per_dirty_kib_ns * factor,
        };
        Model { flush, ..self.clone() }
    }

    /// Whether a model may be called so.
    ///
    /// # Errors
    /// In words: what a name is.
    pub fn check_name(name: &str) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(format!("{name:?} is no name: use small letters, digits and dashes, 64 at most"));
        }
        Ok(())
    }

    /// What it says of single operations, in a line.
    #[must_use]
    pub fn in_short(&self) -> String {
        let us = |ns: f64| ns / 1e3;
        let write = match self.cache {
            Some(cache) if cache.drain_bytes_per_ns > 0.0 => format!(
                "{:.0} µs while {} KiB have room, then {:.0} MB/s",
                us(cache.write_ns),
                cache.bytes / 1024,
                cache.drain_bytes_per_ns * 1e3
            ),
            _ => format!("{:.0} µs", us(self.write.random.quantile_ns(0.5))),
        };
        format!(
            "4 KiB read {:.0} µs, write {write} (medians); flush {:.0} µs and {:.1} µs for each dirty KiB; {} at once",
            us(self.read.random.quantile_ns(0.5)),
            us(self.flush.base.quantile_ns(0.5)),
            us(self.flush.per_dirty_kib_ns),
            self.channels,
        )
    }

    /// Reads a model's text; `file` is for messages.
    ///
    /// # Errors
    /// [`Diagnostic`] with the line and the reason.
    pub fn parse(file: &str, text: &str) -> Result<Model, Diagnostic> {
        let problem = match toml::from_str::<WrittenModel>(text) {
            Ok(written) => match written.checked() {
                Ok(model) => return Ok(model),
                Err(problem) => problem,
            },
            Err(error) => (error.span().unwrap_or(0..0), error.message().to_owned()),
        };
        let (span, problem) = problem;
        Err(Diagnostic::in_line_of(file, text, span.start, problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"name = "sd-example"
title = "Example"
kind = "sd"
sources = ["a paper"]
channels = 1
[read]
random_us = 250
sequential_us = [[50, 100], [100, 300.5]]
mb_per_s = 80
[write]
random_us = 1000
mb_per_s = 40
[flush]
base_us = 2000
per_dirty_kib_us = 5
[cache]
kib = 256
write_us = 40
drain_mb_per_s = 10
[stall]
every_mib = 64
us = [[50, 20000], [100, 250000]]
"#;

    #[test]
    fn what_a_write_takes_is_told_as_a_program_gets_it() {
        let told = |name: &str| crate::preset(name).unwrap().in_short();
        let cached = told("emmc-51");
        assert!(cached.contains("write 50 µs while 64 KiB have room, then 53 MB/s"), "{cached}");
        let card = told("sd-samsung-32");
        assert!(card.contains("write 1011 µs (medians)"), "{card}");
    }

    #[test]
    fn a_model_is_read_with_its_units() {
        let model = Model::parse("x", GOOD).unwrap();
        assert_eq!(model.read.random.quantile_ns(0.5), 250e3);
        assert_eq!(model.read.sequential.quantile_ns(1.0), 300.5e3);
        assert_eq!(model.write.sequential, model.write.random, "sequential is as random unless it is said");
        assert_eq!(model.write.ns_per_byte, 25.0);
        let cache = model.cache.unwrap();
        assert_eq!((cache.bytes, cache.write_ns, cache.drain_bytes_per_ns), (256 << 10, 40e3, 0.01));
        assert_eq!(model.stall.unwrap().every_bytes, 64 << 20);
        assert_eq!((model.sector_bytes, model.tear_bytes, model.streams), (512, 512, 1));
    }

    /// What happened: a model with sectors of 4096 bytes and no word of what a power cut leaves
    /// whole had them torn at 512, which no device with such sectors does.
    #[test]
    fn a_sector_is_left_whole_unless_it_is_said() {
        let tear = |lines: &str| {
            let text = GOOD.replace("channels = 1\n", lines);
            Model::parse("x", &text).unwrap().tear_bytes
        };
        assert_eq!(tear("sector_bytes = 4096\n"), 4096);
        assert_eq!(tear("sector_bytes = 4096\ntear_bytes = 512\n"), 512);
        assert_eq!(tear("tear_bytes = 4096\n"), 4096);
        assert_eq!(tear(""), 512);
    }

    /// Every line of it put wrong in a way of its own, with the line at which the message must
    /// point and a word of it.
    #[test]
    fn bad_models_are_refused_with_line_and_reason() {
        let cases: [(&str, &str, usize, &str); 25] = [
            ("name = \"sd-example\"", "name = \"SD Example\"", 1, "no name"),
            ("name = \"sd-example\"", "nam = \"sd-example\"", 1, "nam"),
            ("title = \"Example\"\n", "", 1, "title"),
            ("kind = \"sd\"", "kind = \"sdd\"", 3, "did you mean"),
            ("sources = [\"a paper\"]", "sources = []", 1, "sources"),
            ("channels = 1", "channels = 0", 5, "1 to 256"),
            ("channels = 1", "channels = 1.5", 5, "floating point"),
            ("channels = 1", "sector_bytes = 1024", 5, "512 or 4096"),
            ("random_us = 250", "random_us = -3", 7, "no time"),
            ("random_us = 250", "random_us = \"250\"", 7, "a time is a number of µs, as 250"),
            ("random_us = 250", "random_us = [[50, 1, 2]]", 7, "percentiles with µs"),
            ("mb_per_s = 80", "mb_per_s = 1e300", 9, "1e300 is out of range"),
            ("base_us = 2000", "base_us = 1e300", 14, "1e300 µs"),
            ("[50, 100], [100, 300.5]", "[50, 100], [100, 30]", 8, "rise"),
            ("[50, 100], [100, 300.5]", "[50, 100]", 8, "must be 100"),
            ("mb_per_s = 80", "mb_per_s = 0", 9, "out of range"),
            ("[write]\nrandom_us = 1000", "[write]\nrandom_ms = 1", 11, "random_ms"),
            ("base_us = 2000", "base_us = 1e15", 14, "hour"),
            ("per_dirty_kib_us = 5", "per_dirty_kib_us = nan", 15, "out of range"),
            ("kib = 256", "kib = 1", 17, "4 to"),
            ("mb_per_s = 80", "mb_per_s = 1e-300", 9, "1e-300 is out of range"),
            ("drain_mb_per_s = 10", "drain_mb_per_s = -1", 19, "out of range"),
            // A write that did not fit was done after 2^64 ns, and what came after it was an
            // overflow.
            ("drain_mb_per_s = 10", "drain_mb_per_s = 1e-300", 19, "or 0: only a flush"),
            ("every_mib = 64", "every_mib = 0", 21, "1 to"),
            ("us = [[50, 20000]", "us = [[50, 20000", 22, ""),
        ];
        for (from, to, line, word) in cases {
            assert!(GOOD.contains(from), "{from}");
            let error = Model::parse("mine.toml", &GOOD.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.line, line, "{to}: {error}");
            assert!(error.message.contains(word), "{to}: {error}");
            assert!(error.to_string().starts_with(&format!("mine.toml:{line}: ")), "{error}");
        }
        let flushed = GOOD.replacen("drain_mb_per_s = 10", "drain_mb_per_s = 0", 1);
        assert_eq!(Model::parse("x", &flushed).unwrap().cache.unwrap().drain_bytes_per_ns, 0.0);
        assert!(Model::parse("x", "").is_err());
        assert!(Model::parse("x", "\u{0}").is_err());
    }
}
