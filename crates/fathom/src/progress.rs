//! Progress: on a terminal a bar with what runs now and the time left; elsewhere (a pipe, the log
//! of a build) a line now and then.

use fathom_output::tell;
use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use fathom_lab::schedule::Progress;
use fathom_stack::guest::Step;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar within one run.
const STEPS: u64 = 100;

/// Lines come no closer than this, so that minutes give some lines and hours some hundred.
const BETWEEN_LINES: Duration = Duration::from_secs(15);

/// Whether a line is due.
#[derive(Debug)]
struct Pace {
    last: Cell<Instant>,
}

impl Pace {
    fn since(now: Instant) -> Pace {
        Pace { last: Cell::new(now) }
    }

    /// Whether the last line is long enough ago; if so, this is the last one.
    fn is_due(&self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.last.get()) >= BETWEEN_LINES;
        if is_due {
            self.last.set(now);
        }
        is_due
    }
}

/// How far a run is, on stderr.
pub enum Bar {
    /// `--quiet`.
    Silent,
    /// On a terminal.
    Drawn(ProgressBar),
    /// Elsewhere.
    Lines(Lines),
}

/// Lines in the place of a bar.
#[derive(Debug)]
pub struct Lines {
    pace: Pace,
    /// Whether there was one.
    is_told: Cell<bool>,
}

impl Bar {
    /// A bar for `total` runs, or lines where stderr is no terminal; nothing where `quiet`.
    pub fn new(total: usize, quiet: bool) -> Bar {
        if quiet {
            return Bar::Silent;
        }
        if !std::io::stderr().is_terminal() {
            let pace = Pace::since(Instant::now());
            return Bar::Lines(Lines { pace, is_told: Cell::new(false) });
        }
        let bar = ProgressBar::new(total as u64 * STEPS);
        let style = ProgressStyle::with_template("  [{bar:32}]  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("█▌░"));
        Bar::Drawn(bar)
    }

    /// Shows how far the schedule is.
    pub fn show(&self, progress: &Progress) {
        match self {
            Bar::Silent => {}
            Bar::Drawn(bar) => {
                let share = (progress.share.clamp(0.0, 1.0) * STEPS as f64) as u64;
                bar.set_position(progress.done as u64 * STEPS + share);
                bar.set_message(told(progress));
            }
            Bar::Lines(lines) => {
                if lines.pace.is_due(Instant::now()) {
                    lines.is_told.set(true);
                    tell!("{}", told(progress));
                }
            }
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Bar::Drawn(bar) = self {
            bar.finish_and_clear();
        }
    }

    /// Removes the bar; where there were lines, so many runs made are the last of them, so that a
    /// log does not end with time that is left.
    pub fn end(&self, runs: usize) {
        self.clear();
        if let Bar::Lines(Lines { is_told, .. }) = self
            && is_told.get()
        {
            tell!("{runs} runs made");
        }
    }
}

/// `34/40  wal/normal  0:12 left`.
fn told(progress: &Progress) -> String {
    let most = if progress.may_end_early { "at most " } else { "" };
    // A run that takes longer than those before it has used up what was left: then nothing is
    // known.
    let left = progress.left.map(|left| left.as_secs()).filter(|seconds| *seconds > 0);
    let left = left.map_or_else(String::new, |seconds| format!("  {most}{} left", clock(seconds)));
    let failed = if progress.failed == 0 { String::new() } else { format!("  {} failed", progress.failed) };
    let label = fathom_output::shown(&progress.title);
    format!("{}/{most}{}  {label}{left}{failed}", progress.done, progress.total)
}

/// The steps of a kernel's build on stderr: a bar, or lines where stderr is no terminal, for it
/// takes minutes.
pub struct Steps {
    bar: Option<ProgressBar>,
    said: Cell<String>,
    pace: Pace,
    /// When the compiler began, and how far it was.
    began: Cell<Option<(Instant, f64)>>,
}

impl Steps {
    /// Nothing is shown yet.
    pub fn new() -> Steps {
        let (said, pace) = (Cell::default(), Pace::since(Instant::now()));
        if !std::io::stderr().is_terminal() {
            return Steps { bar: None, said, pace, began: Cell::new(None) };
        }
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("  [{bar:32}]  {percent:>3} %  {elapsed}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("█▌░"));
        Steps { bar: Some(bar), said, pace, began: Cell::new(None) }
    }

    /// Shows how far the build is.
    pub fn show(&self, step: &Step) {
        let now = Instant::now();
        let (position, message, detail) = match step {
            Step::Fetch(what) => (0, format!("fetching {what}"), String::new()),
            Step::Unpack => (2, "unpacking the source".to_owned(), String::new()),
            Step::Configure => (8, "configuring".to_owned(), String::new()),
            Step::Compile(share) => {
                let (begin, at) = self.began.get().unwrap_or((now, *share));
                self.began.set(Some((begin, at)));
                let left = time_left(now.saturating_duration_since(begin), share - at, 1.0 - share);
                let left = left.map_or_else(String::new, |time| format!(", {} left", clock(time.as_secs())));
                let percent = (share * 100.0) as u64;
                (10 + (share * 88.0) as u64, "compiling".to_owned(), format!(" {percent} %{left}"))
            }
            Step::Trial => (98, "booting it once".to_owned(), String::new()),
        };
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            bar.set_message(format!("{message}{detail}"));
        } else if self.said.replace(message.clone()) != message || self.pace.is_due(now) {
            tell!("{message}{detail} …");
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The time for what is left, where `done` of the same took `spent`; none before there is enough to
/// tell.
fn time_left(spent: Duration, done: f64, left: f64) -> Option<Duration> {
    if done < 0.02 {
        return None;
    }
    Duration::try_from_secs_f64(spent.as_secs_f64() / done * left.max(0.0)).ok()
}

/// What is done just now on stderr, or silence.
pub struct StageBar(Option<ProgressBar>);

impl StageBar {
    /// Silent where stderr is no terminal.
    pub fn new() -> StageBar {
        if !std::io::stderr().is_terminal() {
            return StageBar(None);
        }
        let style = ProgressStyle::with_template("  {elapsed}  {msg}");
        StageBar(Some(
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())),
        ))
    }

    /// Shows it.
    pub fn show(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }

    /// Removes it.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Seconds as `0:12` or `1:02:03`.
pub fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 { format!("{minutes}:{seconds:02}") } else { format!("{hours}:{minutes:02}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_no_closer_than_their_pace() {
        let begin = Instant::now();
        let pace = Pace::since(begin);
        let due: Vec<u64> =
            (0..60).filter(|second| pace.is_due(begin + Duration::from_secs(*second))).collect();
        assert_eq!(due, [15, 30, 45]);
    }

    #[test]
    fn the_time_left_goes_on_as_it_began() {
        assert_eq!(time_left(Duration::from_secs(30), 0.25, 0.5), Some(Duration::from_secs(60)));
        assert_eq!(time_left(Duration::from_secs(30), 0.0, 1.0), None);
    }

    #[test]
    fn a_line_says_what_runs_and_how_long_it_goes_on() {
        let progress = Progress {
            done: 3,
            total: 40,
            may_end_early: true,
            failed: 1,
            title: "wal/\u{1b}full".into(),
            block: 0,
            share: 0.5,
            left: Some(Duration::from_secs(75)),
            floor_ns: None,
        };
        assert_eq!(told(&progress), "3/at most 40  wal/\\u{1b}full  at most 1:15 left  1 failed");
        // "0:00 left" stood there for minutes, while a run took longer than those before it.
        let over = Progress { left: Some(Duration::ZERO), ..progress };
        assert_eq!(told(&over), "3/at most 40  wal/\\u{1b}full  1 failed");
    }

    #[test]
    fn a_clock_reads_as_people_write_it() {
        assert_eq!([clock(12), clock(754), clock(3723)], ["0:12", "12:34", "1:02:03"]);
    }
}
