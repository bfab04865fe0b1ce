//! The model that was measured, as text.

use std::fmt::Write as _;

use super::bandwidth::Bandwidth;
use super::described::Description;
use super::sizes::BLOCK;
use super::sorted::{SortedTimes, us};
use super::{Calibration, Measured};

/// As TOML has it, whose strings take all escapes of JSON's; those of Rust they do not take.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Calibration {
    /// The model, with what was measured beside what its straight lines make of it.
    pub(super) fn written(
        &self,
        measured: &Measured,
        described: &Description,
        used: u64,
        sectors: u32,
    ) -> String {
        let Measured {
            read,
            read_next,
            reads,
            write,
            write_next,
            writes,
            mib,
            rates,
            channels,
            streams,
            cache,
            flush,
            path,
        } = measured;
        let found = [Bandwidth::of(mib[0], read_next.median()), Bandwidth::of(mib[1], write_next.median())];
        let bandwidth = found.map(|found| found.mb_per_s);
        let unseen = ["reads", "writes"].into_iter().zip(found).filter(|pair| !pair.1.is_seen);
        let guesses: String = unseen
            .map(|(what, _)| {
                format!(", \"{what} of 1 MiB took no longer than of 4 KiB, so their mb_per_s is a guess\"")
            })
            .chain(channels.assumption().map(|guess| format!(", {}", quoted(&guess))))
            .collect();
        let mut text = String::new();
        let Calibration { when, .. } = self;
        // Writing into a String does not fail.
        let _ = write!(
            text,
            "# How well this model's straight lines fit is at the end.\n\
             name = {name}\ntitle = {title}\nkind = {kind}\n\
             sources = [{source}]\n\
             assumptions = [\"a power cut leaves {sectors} bytes whole\"{more}{guesses}]\n\
             channels = {likely}\nstreams = {streams}\nsector_bytes = {sectors}\ntear_bytes = {sectors}\n\
             [read]\nrandom_us = {read}\nsequential_us = {read_next}\nmb_per_s = {read_mb:.1}\n\
             [write]\nrandom_us = {write}\nsequential_us = {write_next}\nmb_per_s = {write_mb:.1}\n\
             [flush]\nbase_us = {flush_base}\nper_dirty_kib_us = {per_kib:.3}\n",
            name = quoted(&self.name),
            title = quoted(&format!("{}, measured", described.title)),
            kind = quoted(described.kind),
            source = quoted(&format!(
                "measured {when} by fathom stack calibrate {version}: {described}, {used} MiB used, O_DIRECT, {reads} random reads and \
                 {writes} random writes of 4 KiB, {flushes} flushes{quick}",
                version = env!("CARGO_PKG_VERSION"),
                described = described.text,
                reads = read.0.len(),
                writes = write.0.len(),
                flushes = flush.base.0.len(),
                quick = if self.quick { ", with --quick: its tails are guesses" } else { "" },
            )),
            more = match cache {
                Some(_) => ", \"the cache empties at one rate whatever is in it\"",
                None =>
                    ", \"no cache shows in single writes up to 1 MiB: a larger one would be in the quantiles of the writes\"",
            },
            likely = channels.likely,
            read = read.written(),
            read_next = read_next.written(),
            read_mb = bandwidth[0],
            write = write.written(),
            write_next = write_next.written(),
            write_mb = bandwidth[1],
            flush_base = flush.base.written(),
            per_kib = flush.per_kib_ns / 1e3,
        );
        if let Some(cache) = cache {
            let _ = write!(
                text,
                "[cache]\nkib = {}\nwrite_us = {}\ndrain_mb_per_s = {:.1}\n",
                cache.bytes >> 10,
                us(cache.write_ns),
                cache.drain_bytes_per_ns * 1e3
            );
        }
        let mut compared = |heading: &str, rows: Vec<(String, f64, f64)>| {
            let _ = writeln!(text, "#\n# {heading:32} measured, us    by the model");
            for (what, measured, model) in rows {
                let _ = writeln!(text, "# {what:32} {:>12} {:>15}", us(measured), us(model));
            }
        };
        let line = |base: &SortedTimes, bandwidth: f64, bytes: usize| {
            base.median() + (bytes - BLOCK) as f64 * 1e3 / bandwidth
        };
        let rows = |sizes: &[(usize, f64)], base: &SortedTimes, bandwidth: f64| {
            let row = |&(bytes, ns): &(usize, f64)| {
                (format!("{} KiB", bytes >> 10), ns, line(base, bandwidth, bytes))
            };
            sizes.iter().map(row).collect()
        };
        compared("random reads, medians", rows(reads, read, bandwidth[0]));
        if cache.is_none() {
            compared("random writes, medians", rows(writes, write, bandwidth[1]));
        }
        let row = |&(bytes, ns): &(usize, f64)| {
            (
                format!("{} KiB", bytes >> 10),
                ns,
                flush.base.median() + flush.per_kib_ns * bytes as f64 / 1024.0,
            )
        };
        compared("flushes after, medians", flush.medians.iter().map(row).collect());
        let _ = writeln!(text, "#\n# random reads of 4 KiB a second:");
        for (depth, rate) in rates {
            let _ = writeln!(text, "# {depth:>3} at once {rate:>12.0}");
        }
        let [least, most] = channels.range;
        let _ = writeln!(text, "# the best rate has {least:.2} to {most:.2} reads under way: channels");
        if let Some(path) = path {
            let [read, write, flush] = path.map(us);
            let _ = writeln!(
                text,
                "#\n# path {read} {write} {flush}: us that a read, a write and a flush take here on a device without delays, through FUSE as \
                 this one; shorter times are this machine's"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a card whose name in /dev/disk/by-label had an accent as a letter of its
    /// own, as macOS writes it, two minutes' measuring ended with "TOML parse error" and no model.
    #[test]
    fn any_name_of_a_device_can_be_read_again() {
        for name in ["Cafe\u{301}", "a\u{200b}b \"quoted\" \\x20 'single'", "\u{fffd} 카드"] {
            let text = format!("title = {}", quoted(name));
            let read: std::collections::BTreeMap<String, String> = toml::from_str(&text).unwrap();
            assert_eq!(read["title"], name);
        }
    }
}
