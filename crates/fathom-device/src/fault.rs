//! Failures that a device is told to have.
//!
//! Written as `WHAT[@AFTER][xTIMES]`: `read-error@100`, `write-error@1000x1`, `flush-error`,
//! `lying-flush`, `full@1048576` (KiB), `gone@5000`. AFTER counts operations of the kind from 1
//! (`full`: KiB that may be written; `gone`: operations of any kind); TIMES limits how often it
//! happens, for ever unless told. A stack has its device count from the moment at which it is
//! mounted, and measured by the floor probe: what mkfs does succeeds.

use std::str::FromStr;

use super::timeline::Operation;
use fathom_diagnostic::suggest::{did_you_mean, nearest};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    Error(Operation),
    LyingFlush,
    Full,
    Gone,
}

const NAMES: [&str; 6] = ["read-error", "write-error", "flush-error", "lying-flush", "full", "gone"];

/// One failure, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    what: FaultKind,
    after: u64,
    times: u64,
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It is answered with an I/O error, and nothing is read, written or made safe.
    Error,
    /// No space: a write beyond what the device can take.
    Full,
    /// A flush that is answered at once as if it had been done.
    Lied,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let (head, times) = match text.rsplit_once('x') {
            Some((head, times)) if !times.is_empty() && times.chars().all(|c| c.is_ascii_digit()) => {
                (head, times.parse().map_err(|_| format!("{text}: {times} times are too many"))?)
            }
            _ => (text, u64::MAX),
        };
        let (name, after) = match head.split_once('@') {
            Some((name, after)) => {
                let after: u64 = after
                    .parse()
                    .map_err(|_| format!("{text}: {after:?} is no number: write e.g. {}", example(name)))?;
                if after == 0 && name != "full" {
                    return Err(format!(
                        "{text}: operations are counted from 1: write e.g. {}",
                        example(name)
                    ));
                }
                (name, Some(after))
            }
            None => (head, None),
        };
        let what = match name {
            "read-error" => FaultKind::Error(Operation::Read),
            "write-error" => FaultKind::Error(Operation::Write),
            "flush-error" => FaultKind::Error(Operation::Flush),
            "lying-flush" => FaultKind::LyingFlush,
            "full" => FaultKind::Full,
            "gone" => FaultKind::Gone,
            other => {
                let hint = did_you_mean(nearest(other, NAMES));
                return Err(format!("there is no fault {other:?}{hint}; there are {}", NAMES.join(", ")));
            }
        };
        if times == 0 {
            return Err(format!("{text}: a fault that happens 0 times is none: leave it out"));
        }
        if what == FaultKind::Full && after.is_none() {
            return Err(format!("{text}: full after how many KiB? write e.g. full@65536"));
        }
        Ok(Fault { what, after: after.unwrap_or(1).max(1), times })
    }
}

/// How a fault of this name is written.
fn example(name: &str) -> String {
    match name {
        "full" => "full@65536 (KiB)".to_owned(),
        name if NAMES.contains(&name) => format!("{name}@100"),
        _ => "read-error@100".to_owned(),
    }
}

/// The failures of a device, and what they have seen.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// As they were asked for.
    asked: Vec<Fault>,
    /// What is left of them.
    list: Vec<Fault>,
    /// Nothing fails, and nothing is counted.
    held: bool,
    reads: u64,
    writes: u64,
    flushes: u64,
    written_bytes: u64,
}

impl Faults {
    /// Failures that a device is told to have.
    #[must_use]
    pub fn new(asked: Vec<Fault>) -> Faults {
        Faults { list: asked.clone(), asked, ..Faults::default() }
    }

    /// Has nothing fail for now.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Counts from now on, after [`Faults::hold`], and has happen what was asked for, whatever has
    /// happened of it before.
    pub fn begin(&mut self) {
        *self = Faults::new(std::mem::take(&mut self.asked));
    }

    /// A discard (or zeros that are written as one) is counted by nothing, and fails once nothing
    /// else is answered either.
    fn of_discard(&mut self) -> Outcome {
        let all = self.reads + self.writes + self.flushes;
        let is_gone = |fault: &&mut Fault| {
            matches!(fault.what, FaultKind::Gone) && all >= fault.after && fault.times > 0
        };
        let Some(fault) = self.list.iter_mut().find(is_gone) else { return Outcome::Done };
        fault.times -= u64::from(fault.times < u64::MAX);
        Outcome::Error
    }

    /// Decides what becomes of the next operation.
    pub fn next(&mut self, operation: Operation, bytes: u64) -> Outcome {
        if self.held {
            return Outcome::Done;
        }
        let count = match operation {
            Operation::Read => &mut self.reads,
            Operation::Write => &mut self.writes,
            Operation::Flush => &mut self.flushes,
            Operation::Discard => return self.of_discard(),
        };
        *count += 1;
        let of_kind = *count;
        let all = self.reads + self.writes + self.flushes;
        let would_be_kib = (self.written_bytes + bytes).div_ceil(1024);
        for fault in &mut self.list {
            let (meets, outcome) = match fault.what {
                FaultKind::Error(kind) => (kind == operation && of_kind >= fault.after, Outcome::Error),
                FaultKind::LyingFlush => {
                    (operation == Operation::Flush && of_kind >= fault.after, Outcome::Lied)
                }
                FaultKind::Full => {
                    (operation == Operation::Write && would_be_kib > fault.after, Outcome::Full)
                }
                FaultKind::Gone => (all >= fault.after, Outcome::Error),
            };
            if meets && fault.times > 0 {
                fault.times -= u64::from(fault.times < u64::MAX);
                return outcome;
            }
        }
        if operation == Operation::Write {
            self.written_bytes += bytes;
        }
        Outcome::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Flush, Read, Write};

    fn run(faults: &[&str], operations: &[(Operation, u64)]) -> Vec<Outcome> {
        let mut faults = Faults::new(faults.iter().map(|f| f.parse().unwrap()).collect());
        operations.iter().map(|&(operation, bytes)| faults.next(operation, bytes)).collect()
    }

    #[test]
    fn faults_come_when_and_as_often_as_they_were_asked_for() {
        let reads = [(Read, 4096); 5];
        assert_eq!(
            run(&["read-error@2x2"], &reads),
            [Outcome::Done, Outcome::Error, Outcome::Error, Outcome::Done, Outcome::Done]
        );
        assert_eq!(run(&["write-error"], &reads), [Outcome::Done; 5]);
        assert_eq!(
            run(&["gone@4"], &[(Read, 1), (Write, 1), (Flush, 0), (Read, 1), (Flush, 0)])[2..],
            [Outcome::Done, Outcome::Error, Outcome::Error]
        );
        assert_eq!(
            run(&["full@8"], &[(Write, 4096), (Write, 4096), (Write, 512), (Read, 4096)]),
            [Outcome::Done, Outcome::Done, Outcome::Full, Outcome::Done]
        );
        assert_eq!(run(&["lying-flush@2"], &[(Flush, 0), (Flush, 0)]), [Outcome::Done, Outcome::Lied]);
    }

    /// What happened: a device that was gone altogether went on to take discards, and zeros that a
    /// file system writes as such: what lay there was gone from the image that stays.
    #[test]
    fn a_device_that_is_gone_takes_no_discards_either() {
        use Operation::Discard;
        let all = [(Discard, 4096), (Write, 1), (Discard, 4096), (Read, 1), (Discard, 4096), (Write, 1)];
        let (done, error) = (Outcome::Done, Outcome::Error);
        assert_eq!(run(&["gone@2"], &all), [done, done, done, error, error, error]);
        assert_eq!(run(&["gone@2x1"], &all), [done, done, done, error, done, done]);
        assert_eq!(run(&["write-error"], &all), [done, error, done, done, done, error]);
    }

    #[test]
    fn what_came_before_the_beginning_does_not_count() {
        let mut faults = Faults::new(vec!["write-error@2".parse().unwrap()]);
        faults.hold();
        assert!((0..5).all(|_| faults.next(Write, 4096) == Outcome::Done));
        faults.begin();
        assert_eq!([faults.next(Write, 4096), faults.next(Write, 4096)], [Outcome::Done, Outcome::Error]);
    }

    /// What happened: a stack's device counts from the mount on, and in a run once more from the
    /// end of the floor probe on. What a write of the file system's own had met between the two,
    /// with `write-error@1x1`, was counted anew and did not come again: the run had no failure.
    #[test]
    fn what_was_met_before_the_beginning_comes_again_after_it() {
        let mut faults = Faults::new(vec!["write-error@1x1".parse().unwrap()]);
        faults.begin();
        assert_eq!([faults.next(Write, 4096), faults.next(Write, 4096)], [Outcome::Error, Outcome::Done]);
        faults.hold();
        assert_eq!(faults.next(Write, 4096), Outcome::Done);
        faults.begin();
        assert_eq!([faults.next(Write, 4096), faults.next(Write, 4096)], [Outcome::Error, Outcome::Done]);
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_would_be() {
        for (text, word) in [
            ("read-eror@3", "did you mean"),
            ("read-error@x", "no number"),
            ("write-error@x", "e.g. write-error@100"),
            ("full@xx", "e.g. full@65536 (KiB)"),
            ("flush-error@0", "from 1"),
            ("full", "how many KiB"),
            ("gone@4x0", "0 times"),
            ("", "there are"),
            ("gone@99999999999999999999", "no number"),
            ("gone@1x99999999999999999999", "too many"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
