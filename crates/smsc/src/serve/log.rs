//! The log: one event a line on standard error, for people, as logfmt, or as JSON.
//!
//! A thread writes. Whoever logs hands over a line and goes on: a pipe that nobody reads must not
//! stop the centre. What then does not fit, or cannot be written, is counted, and the count is
//! logged. So is what strangers cause beyond a few lines at a time.

use super::sections::LogConfig;
use crate::centre::rfc3339;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Lines about strangers in [`PERIOD`] at most.
const STRANGERS: u32 = 20;
/// How long those lines are counted together.
const PERIOD: Duration = Duration::from_secs(10);
/// Letters of a value that are logged at most.
const LETTERS: usize = 1024;

enum Entry {
    /// A line, and how many lost ones it tells of.
    Line(String, u64),
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
    strangers: Mutex<Strangers>,
}

/// Lines about strangers in this period.
struct Strangers {
    begin: Instant,
    lines: u32,
    left_out: u64,
}

impl Default for Strangers {
    fn default() -> Self {
        Strangers { begin: Instant::now(), lines: 0, left_out: 0 }
    }
}

impl Log {
    /// A log on standard error.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(config: LogConfig) -> std::io::Result<Arc<Log>> {
        let (to, entries) = mpsc::sync_channel(WAITING);
        let lost = Arc::<AtomicU64>::default();
        let of_thread = Arc::clone(&lost);
        std::thread::Builder::new().name("smsc-log".into()).spawn(move || {
            let mut writer = Writer { to: std::io::stderr(), is_torn: false };
            // It ends when nobody can log any more.
            for entry in entries {
                match entry {
                    // Where standard error is full or closed, it is told once it is not any more.
                    Entry::Line(line, told) => {
                        if !writer.write(&line) {
                            of_thread.fetch_add(told.max(1), Relaxed);
                        }
                    }
                    Entry::Flush(done) => _ = done.send(()),
                }
            }
        })?;
        let zero = || AtomicU8::new(0);
        let strangers = Mutex::default();
        let log = Log { to, format: zero(), level: zero(), text: zero(), lost, strangers };
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
            let mut line = Line::begin(self, Level::Warn, "log_lines_lost").number("count", lost as i64);
            if let Some(open) = &mut line.0 {
                open.tells_of = lost;
            }
        }
        Line::begin(self, level, event)
    }

    /// As [`Log::at`], about what somebody has caused who is not known: a few lines at a time, and
    /// the others are counted.
    pub fn of_stranger(&self, level: Level, event: &'static str) -> Line<'_> {
        if level as u8 > self.level.load(Relaxed) {
            return Line(None);
        }
        self.tell_left_out();
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if strangers.lines >= STRANGERS {
            strangers.left_out += 1;
            return Line(None);
        }
        strangers.lines += 1;
        drop(strangers);
        self.at(level, event)
    }

    /// Logs how many lines about strangers were left out, once their period has ended.
    pub(super) fn tell_left_out(&self) {
        let left_out = {
            let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
            if strangers.begin.elapsed() < PERIOD {
                return;
            }
            std::mem::take(&mut *strangers).left_out
        };
        if left_out > 0 {
            self.at(Level::Warn, "strangers_left_out").number("count", left_out as i64);
        }
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

/// Writes lines, whole ones as far as that can be.
struct Writer<W> {
    to: W,
    /// The last line ends in its middle.
    is_torn: bool,
}

impl<W: std::io::Write> Writer<W> {
    /// Whether a line was written.
    fn write(&mut self, line: &str) -> bool {
        // What comes behind a part of a line must not look like the rest of it.
        let begun = if self.is_torn { format!("\n{line}") } else { String::new() };
        let mut octets = if self.is_torn { begun.as_bytes() } else { line.as_bytes() };
        while !octets.is_empty() {
            match self.to.write(octets) {
                Ok(written @ 1..) => octets = octets.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => return false,
            }
            self.is_torn = !octets.is_empty();
        }
        true
    }
}

/// A line that is being written; it is logged when it is dropped.
pub struct Line<'a>(Option<Open<'a>>);

struct Open<'a> {
    log: &'a Log,
    format: Format,
    out: String,
    fields: usize,
    /// How many lost lines it tells of.
    tells_of: u64,
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
        Line(Some(Open { log, format, out, fields: 0, tells_of: 0 }))
    }

    /// Adds a text; of a long one its beginning.
    pub fn text(mut self, name: &'static str, value: &str) -> Line<'a> {
        let cut = value.char_indices().nth(LETTERS).map(|end| format!("{}…", &value[..end.0]));
        let value = cut.as_deref().unwrap_or(value);
        if let Some(open) = &mut self.0 {
            match open.format {
                // What an event is about, for a person.
                Format::Text if open.fields == 0 && matches!(name, "address" | "message") => {
                    let _ = write!(open.out, " {}", value.replace(is_obeyed, " "));
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
        let Open { log, format, mut out, fields, tells_of } = open;
        match format {
            Format::Json => out.push('}'),
            Format::Text if fields == 0 => _ = out.pop(),
            _ => {}
        }
        out.push('\n');
        if log.to.try_send(Entry::Line(out, tells_of)).is_err() {
            log.lost.fetch_add(tells_of.max(1), Relaxed);
        }
    }
}

/// Whether logfmt takes a value without quotes.
fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && value.bytes().all(|octet| octet.is_ascii_graphic() && !matches!(octet, b'"' | b'=' | b'\\'))
}

/// Whether a terminal obeys a letter instead of showing it: controls, also those of C1, and what
/// turns the direction of text.
fn is_obeyed(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A value in quotes, as JSON has it: one line, whatever is in it.
fn quoted(value: &str) -> String {
    // JSON lets pass some of what a terminal obeys.
    let json = serde_json::Value::from(value).to_string();
    if !json.contains(is_obeyed) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if is_obeyed(letter) {
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
            strangers: Mutex::default(),
        };
        drop(fill(log.at(Level::Info, "bind")));
        match entries.try_recv().unwrap() {
            Entry::Line(line, _) => line,
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
        // What turns the direction of text turned the rest of the line, words of the centre's own.
        fn turned(line: Line<'_>) -> Line<'_> {
            line.text("message", "a server said \u{202e}ton si").text("peer", "x")
        }
        assert_eq!(line(Format::Text, turned), "bind: a server said  ton si peer=x\n");
    }

    #[test]
    fn what_is_below_the_level_costs_no_line() {
        let (to, entries) = mpsc::sync_channel(1);
        let [format, level, text] = [2, Level::Warn as u8, 0].map(AtomicU8::new);
        let log = Log { to, format, level, text, lost: Arc::default(), strangers: Mutex::default() };
        drop(log.at(Level::Info, "bind"));
        assert!(entries.try_recv().is_err());
        // One fits; what does not is counted, and told once there is room.
        drop(log.at(Level::Error, "a"));
        drop(log.at(Level::Error, "b"));
        drop(log.at(Level::Error, "c"));
        assert!(matches!(entries.try_recv(), Ok(Entry::Line(..))));
        drop(log.at(Level::Error, "d"));
        let Ok(Entry::Line(told, 2)) = entries.try_recv() else { panic!("a line") };
        assert!(told.contains("log_lines_lost"), "{told}");
    }

    /// A disk that is full takes a part of a line: the next begins on a line of its own.
    #[test]
    fn what_follows_a_torn_line_is_no_part_of_it() {
        struct Disk(Vec<u8>, usize);
        impl std::io::Write for Disk {
            fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
                if self.1 == 0 {
                    return Err(std::io::ErrorKind::StorageFull.into());
                }
                let taken = octets.len().min(self.1);
                self.1 -= taken;
                self.0.extend_from_slice(&octets[..taken]);
                Ok(taken)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut writer = Writer { to: Disk(Vec::new(), 8), is_torn: false };
        assert!(writer.write("one\n"));
        assert!(!writer.write("twotwo\n") && !writer.write("three\n"));
        writer.to.1 = 100;
        assert!(writer.write("four\n") && writer.write("five\n"));
        assert_eq!(String::from_utf8(writer.to.0).unwrap(), "one\ntwot\nfour\nfive\n");
    }

    #[test]
    fn a_long_value_is_cut() {
        fn filled(line: Line<'_>) -> Line<'_> {
            line.text("message", &"é".repeat(5000))
        }
        assert_eq!(line(Format::Text, filled), format!("bind: {}…\n", "é".repeat(LETTERS)));
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(rfc3339(1_709_208_000_500_000), "2024-02-29T12:00:00.500000Z");
    }
}
