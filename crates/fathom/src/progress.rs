//! Progress on a terminal: a bar with what runs now and the time left. In a pipe nothing, but for the lines of a build that takes minutes.

use fathom_output::tell;
use std::cell::Cell;
use std::io::IsTerminal;

use fathom_lab::schedule::Progress;
use fathom_stack::guest::Step;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar within one run.
const STEPS: u64 = 100;

/// The bar on stderr, or silence.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar for `total` runs; silent where stderr is no terminal or `quiet`.
    pub fn new(total: usize, quiet: bool) -> Bar {
        if quiet || !std::io::stderr().is_terminal() {
            return Bar(None);
        }
        let bar = ProgressBar::new(total as u64 * STEPS);
        let style = ProgressStyle::with_template("  [{bar:32}]  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("█▌░"));
        Bar(Some(bar))
    }

    /// Shows how far the schedule is.
    pub fn show(&self, progress: &Progress) {
        let Some(bar) = &self.0 else { return };
        let share = (progress.share.clamp(0.0, 1.0) * STEPS as f64) as u64;
        bar.set_position(progress.done as u64 * STEPS + share);
        let left = progress.left.map_or_else(String::new, |left| format!("  {} left", clock(left.as_secs())));
        let failed =
            if progress.failed == 0 { String::new() } else { format!("  {} failed", progress.failed) };
        bar.set_message(format!(
            "{}/{}  {}{left}{failed}",
            progress.done,
            progress.total,
            fathom_output::shown(&progress.label)
        ));
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// The steps of a kernel's build on stderr: a bar, or a line for each where stderr is no terminal, for it takes minutes.
pub struct Steps {
    bar: Option<ProgressBar>,
    said: Cell<String>,
}

impl Steps {
    /// Nothing is shown yet.
    pub fn new() -> Steps {
        let said = Cell::default();
        if !std::io::stderr().is_terminal() {
            return Steps { bar: None, said };
        }
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("  [{bar:32}]  {elapsed}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("█▌░"));
        Steps { bar: Some(bar), said }
    }

    /// Shows how far the build is.
    pub fn show(&self, step: &Step) {
        let (position, message) = match step {
            Step::Fetch(what) => (0, format!("fetching {what}")),
            Step::Unpack => (2, "unpacking the source".to_owned()),
            Step::Configure => (8, "configuring".to_owned()),
            Step::Compile(share) => (10 + (share * 88.0) as u64, "compiling".to_owned()),
            Step::Trial => (98, "booting it once".to_owned()),
        };
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            bar.set_message(message);
        } else if self.said.replace(message.clone()) != message {
            tell!("{message} …");
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is done just now on stderr, or silence.
pub struct Said(Option<ProgressBar>);

impl Said {
    /// Silent where stderr is no terminal.
    pub fn new() -> Said {
        if !std::io::stderr().is_terminal() {
            return Said(None);
        }
        let style = ProgressStyle::with_template("  {elapsed}  {msg}");
        Said(Some(
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
    #[test]
    fn a_clock_reads_as_people_write_it() {
        assert_eq!([super::clock(12), super::clock(754), super::clock(3723)], ["0:12", "12:34", "1:02:03"]);
    }
}
