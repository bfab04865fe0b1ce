//! Statements: when each was executed, and which text it had.
//!
//! Whoever executes statements tells of each by a [`StatementTimer`]; the probe, which sees calls on
//! files, does not know them. Nothing is kept unless [`keep_statements`] says so. Then a statement
//! costs two readings of a clock and a place in a list, some 100 ns: less than a thousandth of a
//! commit that waits for a device.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::marks::thread_number;
use crate::watch::now_ns;

/// Texts that are kept; statements of others are not.
const TEXTS_MAX: usize = 10_000;

/// Octets of the longest text that is kept: whoever tells of texts tells of each as a whole.
pub const TEXT_OCTETS_MAX: usize = 128 << 10;

/// A statement, or some of its steps, from begin to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u64, u64)", into = "(u32, u32, u64, u64)")]
pub struct StatementExecution {
    /// Number of the thread, as in [`Mark::thread`](crate::Mark::thread).
    pub thread: u32,
    /// Place of its text in [`Statements::texts`].
    pub text: u32,
    /// Its begin, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// How long it took, ns.
    pub wall_ns: u64,
}

impl From<(u32, u32, u64, u64)> for StatementExecution {
    fn from((thread, text, start_ns, wall_ns): (u32, u32, u64, u64)) -> Self {
        StatementExecution { thread, text, start_ns, wall_ns }
    }
}

impl From<StatementExecution> for (u32, u32, u64, u64) {
    fn from(told: StatementExecution) -> Self {
        (told.thread, told.text, told.start_ns, told.wall_ns)
    }
}

/// All that were kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// Each text once.
    pub texts: Vec<String>,
    /// In the order of their ends; those of one thread in order of time.
    pub executions: Vec<StatementExecution>,
}

#[derive(Default)]
struct Kept {
    statements: Statements,
    numbers: HashMap<String, u32>,
    most: usize,
    is_left_out: bool,
}

static KEEPING: AtomicBool = AtomicBool::new(false);
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps statements from now on, at most so many: each takes 24 bytes.
pub fn keep_statements(most: usize) {
    *kept() = Some(Kept { most, ..Kept::default() });
    KEEPING.store(true, Ordering::Release);
}

/// Ends keeping statements and gives them, and whether some were left out because there were too
/// many of them or of their texts, or a text was too long.
#[must_use]
pub fn take_statements() -> (Statements, bool) {
    KEEPING.store(false, Ordering::Release);
    kept().take().map(|kept| (kept.statements, kept.is_left_out)).unwrap_or_default()
}

/// The number of a text, for [`StatementTimer::begin`]; none where no statements are kept, too many
/// texts are, or it is too long. `text` is asked only where they are.
pub fn statement_number(text: impl FnOnce() -> String) -> Option<u32> {
    if !KEEPING.load(Ordering::Relaxed) {
        return None;
    }
    let text = text();
    let mut kept = kept();
    let kept = kept.as_mut()?;
    if let Some(number) = kept.numbers.get(&text) {
        return Some(*number);
    }
    let number = kept.statements.texts.len();
    if number >= TEXTS_MAX || text.len() > TEXT_OCTETS_MAX {
        kept.is_left_out = true;
        return None;
    }
    kept.statements.texts.push(text.clone());
    let number = u32::try_from(number).ok()?;
    kept.numbers.insert(text, number);
    Some(number)
}

/// Tells of a statement when it is dropped, if the calling thread has been marked before
/// ([`mark`](crate::mark)): what prepares a workload is not told.
#[derive(Debug)]
pub struct StatementTimer(Option<(u32, u64)>);

impl StatementTimer {
    /// A statement with the text of that number begins.
    #[inline]
    #[must_use]
    pub fn begin(number: Option<u32>) -> StatementTimer {
        StatementTimer(number.map(|number| (number, now_ns())))
    }
}

impl Drop for StatementTimer {
    #[inline]
    fn drop(&mut self) {
        if let Some((text, start_ns)) = self.0 {
            end(text, start_ns);
        }
    }
}

fn end(text: u32, start_ns: u64) {
    let wall_ns = now_ns().saturating_sub(start_ns);
    let Some(thread) = thread_number() else { return };
    if let Some(kept) = kept().as_mut() {
        if kept.statements.executions.len() < kept.most {
            kept.statements.executions.push(StatementExecution { thread, text, start_ns, wall_ns });
        } else {
            kept.is_left_out = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a run with more statements or texts than are kept nobody said that the
    /// rest is not in its recording, where executions then had none.
    #[test]
    fn statements_are_kept_by_thread_and_text_up_to_the_most() {
        assert_eq!(statement_number(|| panic!("nobody asked for it")), None);
        keep_statements(2);
        let number = |text: &str| statement_number(|| text.to_owned());
        let (begin, commit) = (number("BEGIN"), number("COMMIT"));
        assert_eq!((begin, commit, number("BEGIN")), (Some(0), Some(1), Some(0)));
        // A thread without a mark has no number.
        std::thread::spawn(move || drop(StatementTimer::begin(begin))).join().unwrap();
        crate::marks::number_thread();
        for number in [begin, None, commit, begin] {
            drop(StatementTimer::begin(number));
        }
        let (told, is_left_out) = take_statements();
        assert!(is_left_out, "one of three");
        assert_eq!(told.texts, ["BEGIN", "COMMIT"]);
        let texts: Vec<u32> = told.executions.iter().map(|execution| execution.text).collect();
        assert_eq!(texts, [0, 1]);
        assert!(told.executions[0].start_ns <= told.executions[1].start_ns);
        let sent = <(u32, u32, u64, u64)>::from(told.executions[1]);
        assert_eq!(StatementExecution::from(sent), told.executions[1]);
        assert_eq!(statement_number(|| panic!("no more")), None);
        assert_eq!(take_statements(), (Statements::default(), false));
        keep_statements(2);
        assert_eq!(number(&"x".repeat(TEXT_OCTETS_MAX + 1)), None);
        for text in 0..TEXTS_MAX {
            assert!(number(&text.to_string()).is_some());
        }
        assert_eq!((number("0"), number("one more")), (Some(0), None));
        let (told, is_left_out) = take_statements();
        assert_eq!((told.texts.len(), is_left_out), (TEXTS_MAX, true));
    }
}
