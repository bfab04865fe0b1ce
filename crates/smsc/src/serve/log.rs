//! The log: one event a line on standard error, for people, as logfmt, or as JSON.
//!
//! A thread writes. Whoever logs hands over a line and goes on: a pipe that nobody reads must not
//! stop the centre. What then does not fit is counted, and the count is logged.

use super::sections::LogConfig;
use crate::centre::rfc3339;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lines that may wait for the thread.
const WAITING: usize = 8192;
/// How long [`Log::flush`] waits.
const FLUSH: Duration = Duration::from_secs(2);

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// `event: name=value …`, for a person.
    #[default]
    Text = 0,
    /// `time=… level=… event=… name=value …`
    Logfmt = 1,
    /// An object a line.
    Json = 2,
}

impl Format {
    /// The format of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        match name {
            "text" => Some(Format::Text),
            "logfmt" => Some(Format::Logfmt),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// How important an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The centre ends, or something of it does not work.
    Error = 0,
    /// Somebody should look.
    Warn = 1,
    /// Sessions, configuration, beginning and end.
    #[default]
    Info = 2,
    /// Every connection and every message.
    Debug = 3,
}

impl Level {
    const ALL: [(Level, &'static str); 4] =
        [(Level::Error, "error"), (Level::Warn, "warn"), (Level::Info, "info"), (Level::Debug, "debug")];

    /// The level of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.1 == name).map(|level| level.0)
    }

    fn name(self) -> &'static str {
        Level::ALL[self as usize].1
    }
}

enum Entry {
    Line(String),
    /// All before it is written: tell.
    Flush(mpsc::Sender<()>),
}

/// A log.
pub struct Log {
    to: mpsc::SyncSender<Entry>,
    format: AtomicU8,
    level: AtomicU8,
    text: AtomicU8,
    lost: Arc<AtomicU64>,
}

impl Log {
    /// A log on standard error.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(config: LogConfig) -> std::io::Result<Arc<Log>> {
        let (to, entries) = mpsc::sync_channel(WAITING);
        std::thread::Builder::new().name("smsc-log".into()).spawn(move || {
            // It ends when nobody can log any more.
            for entry in entries {
                match entry {
                    // Where standard error is full or closed, there is nobody to tell.
                    Entry::Line(line) => _ = std::io::stderr().write_all(line.as_bytes()),
                    Entry::Flush(done) => _ = done.send(()),
                }
            }
        })?;
        let zero = || AtomicU8::new(0);
        let log = Log { to, format: zero(), level: zero(), text: zero(), lost: Arc::default() };
        log.set(config);
        Ok(Arc::new(log))
    }

    /// Takes another configuration.
    pub fn set(&self, config: LogConfig) {
        self.format.store(config.format as u8, Relaxed);
        self.level.store(config.level as u8, Relaxed);
        self.text.store(config.text.into(), Relaxed);
    }

    /// Whether the log may have what messages say.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.text.load(Relaxed) != 0
    }

    /// Begins a line about an event, which is logged when it is dropped.
    pub fn at(&self, level: Level, event: &'static str) -> Line<'_> {
        if level as u8 > self.level.load(Relaxed) {
            return Line(None);
        }
        let lost = self.lost.swap(0, Relaxed);
        if lost > 0 {
            Line::begin(self, Level::Warn, "log_lines_lost").number("count", lost as i64);
        }
        Line::begin(self, level, event)
    }

    /// Waits until what was logged is written, a short time at most.
    pub fn flush(&self) {
        let (done, written) = mpsc::channel();
        if self.to.try_send(Entry::Flush(done)).is_ok() {
            // Whoever does not read has had the time.
            let _ = written.recv_timeout(FLUSH);
        }
    }

    fn format(&self) -> Format {
        match self.format.load(Relaxed) {
            0 => Format::Text,
            1 => Format::Logfmt,
            _ => Format::Json,
        }
    }
}

/// A line that is being written; it is logged when it is dropped.
pub struct Line<'a>(Option<Open<'a>>);

struct Open<'a> {
    log: &'a Log,
    format: Format,
    out: String,
    fields: usize,
}

impl<'a> Line<'a> {
    fn begin(log: &'a Log, level: Level, event: &'static str) -> Line<'a> {
        let format = log.format();
        let mut out = String::with_capacity(160);
        // Writing to a string cannot fail, here and below.
        let _ = match format {
            Format::Text => write!(out, "{event}:"),
            Format::Logfmt => write!(out, "time={} level={} event={event}", now(), level.name()),
            Format::Json => {
                write!(out, "{{\"time\":\"{}\",\"level\":\"{}\",\"event\":\"{event}\"", now(), level.name())
            }
        };
        Line(Some(Open { log, format, out, fields: 0 }))
    }

    /// Adds a text.
    pub fn text(mut self, name: &'static str, value: &str) -> Line<'a> {
        if let Some(open) = &mut self.0 {
            match open.format {
                // What an event is about, for a person.
                Format::Text if open.fields == 0 && matches!(name, "address" | "message") => {
                    let _ = write!(open.out, " {}", value.replace(char::is_control, " "));
                }
                Format::Text | Format::Logfmt if is_plain(value) => {
                    let _ = write!(open.out, " {name}={value}");
                }
                Format::Text | Format::Logfmt => {
                    let _ = write!(open.out, " {name}={}", quoted(value));
                }
                Format::Json => {
                    let _ = write!(open.out, ",\"{name}\":{}", quoted(value));
                }
            }
            open.fields += 1;
        }
        self
    }

    /// Adds a number.
    pub fn number(mut self, name: &'static str, value: i64) -> Line<'a> {
        if let Some(open) = &mut self.0 {
            let _ = match open.format {
                Format::Json => write!(open.out, ",\"{name}\":{value}"),
                _ => write!(open.out, " {name}={value}"),
            };
            open.fields += 1;
        }
        self
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else { return };
        let Open { log, format, mut out, fields } = open;
        match format {
            Format::Json => out.push('}'),
            Format::Text if fields == 0 => _ = out.pop(),
            _ => {}
        }
        out.push('\n');
        if log.to.try_send(Entry::Line(out)).is_err() {
            log.lost.fetch_add(1, Relaxed);
        }
    }
}

/// Whether logfmt takes a value without quotes.
fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && value.bytes().all(|octet| octet.is_ascii_graphic() && !matches!(octet, b'"' | b'=' | b'\\'))
}

/// A value in quotes, as JSON has it: one line, whatever is in it.
fn quoted(value: &str) -> String {
    let json = serde_json::Value::from(value).to_string();
    // JSON lets pass what a terminal obeys: C1 controls, and what turns the direction of text.
    let obeyed = |letter: char| {
        letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !json.contains(obeyed) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if obeyed(letter) {
            let _ = write!(out, "\\u{:04x}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out
}

/// Now, in RFC 3339, with µs.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    // 292,000 years fit.
    rfc3339(since.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_is_left_that_a_terminal_obeys() {
        let value = "a\u{9b}2J\u{85}\u{2028}\u{202e}\u{7f}\u{1b}\n\u{2066}é";
        assert_eq!(quoted(value), r#""a\u009b2J\u0085\u2028\u202e\u007f\u001b\n\u2066é""#);
        assert_eq!(serde_json::from_str::<String>(&quoted(value)).unwrap(), value);
    }

    /// A line as it would be written.
    fn line(format: Format, fill: fn(Line<'_>) -> Line<'_>) -> String {
        let (to, entries) = mpsc::sync_channel(4);
        let level = AtomicU8::new(Level::Info as u8);
        let log = Log {
            to,
            format: AtomicU8::new(format as u8),
            level,
            text: AtomicU8::new(0),
            lost: Arc::default(),
        };
        drop(fill(log.at(Level::Info, "bind")));
        match entries.try_recv().unwrap() {
            Entry::Line(line) => line,
            Entry::Flush(_) => String::new(),
        }
    }

    #[test]
    fn a_line_is_one_line_whatever_a_value_has() {
        fn filled(line: Line<'_>) -> Line<'_> {
            line.text("system_id", "a b\n\"c\"").text("peer", "1.2.3.4:5").number("session", 7)
        }
        assert_eq!(
            line(Format::Text, filled),
            "bind: system_id=\"a b\\n\\\"c\\\"\" peer=1.2.3.4:5 session=7\n"
        );
        let logfmt = line(Format::Logfmt, filled);
        let (time, rest) = logfmt.split_once(' ').unwrap();
        assert!(time.starts_with("time=2") && time.ends_with('Z'), "{time}");
        assert_eq!(rest, "level=info event=bind system_id=\"a b\\n\\\"c\\\"\" peer=1.2.3.4:5 session=7\n");
        let json: serde_json::Value = serde_json::from_str(&line(Format::Json, filled)).unwrap();
        assert_eq!(json["system_id"], "a b\n\"c\"");
        assert_eq!((json["level"].as_str(), json["session"].as_i64()), (Some("info"), Some(7)));
        fn bare(line: Line<'_>) -> Line<'_> {
            line.text("address", "127.0.0.1:1\nbind: forged")
        }
        assert_eq!(line(Format::Text, bare), "bind: 127.0.0.1:1 bind: forged\n");
    }

    #[test]
    fn what_is_below_the_level_costs_no_line() {
        let (to, entries) = mpsc::sync_channel(1);
        let [format, level, text] = [2, Level::Warn as u8, 0].map(AtomicU8::new);
        let log = Log { to, format, level, text, lost: Arc::default() };
        drop(log.at(Level::Info, "bind"));
        assert!(entries.try_recv().is_err());
        // One fits; what does not is counted, and told once there is room.
        drop(log.at(Level::Error, "a"));
        drop(log.at(Level::Error, "b"));
        drop(log.at(Level::Error, "c"));
        assert!(matches!(entries.try_recv(), Ok(Entry::Line(_))));
        drop(log.at(Level::Error, "d"));
        let Ok(Entry::Line(told)) = entries.try_recv() else { panic!("a line") };
        assert!(told.contains("log_lines_lost"), "{told}");
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(rfc3339(1_709_208_000_500_000), "2024-02-29T12:00:00.500000Z");
    }
}
