//! Marks: the clocks of a thread at moments between which it is to be told what the thread did.
//!
//! Wall time says how long something took, not why. Between two marks of a thread the differences
//! of three clocks say it: the monotonic clock (how long), the thread's CPU clock (how long it
//! ran), and the scheduler's count of how long it was ready to run while others had the processor
//! (`run_delay`, second number of `/proc/thread-self/schedstat`,
//! Documentation/scheduler/sched-stats.rst). What is left of the first it waited for something:
//! inside of a call on a file for the device and what lies before it, outside of calls for a lock,
//! another thread or a timer.
//!
//! A mark is made after each call on a file that took [`SLOW_NS`] or more, for only such a call can
//! have waited for a device, and where a recorder asks for one ([`mark`], [`mark_again`]). Nothing
//! is marked unless [`keep_marks`] says so; then a mark costs two readings of clocks and one of a
//! file in memory, 2 to 5 µs, outside of the call's measured time.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::clocks::thread_cpu_ns;
use crate::kind::{FileClass, Op};
use crate::watch::now_ns;

/// A call on a file that is shorter did not wait for a device, ns: no device that is modelled
/// answers sooner.
pub const SLOW_NS: u64 = 15_000;

/// The clocks of a thread at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "MarkNumbers", into = "MarkNumbers")]
pub struct Mark {
    /// Number of the thread, from 0 in order of their first marks.
    pub thread: u32,
    /// The moment, CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// How long the call on a file took that ended then, ns; 0 where none did.
    pub call_ns: u64,
    /// CPU time of the thread so far, ns.
    pub cpu_ns: u64,
    /// How long the thread was ready to run so far while others had the processor, ns.
    pub queue_ns: u64,
    /// Which call that was; none where none ended then, or nobody knows it.
    pub call: Option<CallKind>,
}

/// A [`Mark`] as it is sent: its fields in their order, the last as [`CallKind::code`].
type MarkNumbers = (u32, u64, u64, u64, u64, u8);

impl From<MarkNumbers> for Mark {
    fn from((thread, at_ns, call_ns, cpu_ns, queue_ns, code): MarkNumbers) -> Mark {
        Mark { thread, at_ns, call_ns, cpu_ns, queue_ns, call: CallKind::of_code(code) }
    }
}

impl From<Mark> for MarkNumbers {
    fn from(mark: Mark) -> Self {
        let code = CallKind::code(mark.call);
        (mark.thread, mark.at_ns, mark.call_ns, mark.cpu_ns, mark.queue_ns, code)
    }
}

/// Which call on which kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKind {
    /// What the file is for.
    pub class: FileClass,
    /// What was asked.
    pub op: Op,
}

impl CallKind {
    /// One byte: 0 for none.
    #[must_use]
    pub fn code(call: Option<CallKind>) -> u8 {
        const { assert!(FileClass::COUNT * Op::COUNT < 255) };
        call.map_or(0, |call| 1 + call.class as u8 * Op::COUNT as u8 + call.op as u8)
    }

    /// Of [`CallKind::code`]; none also of a byte that stands for none.
    #[must_use]
    pub fn of_code(code: u8) -> Option<CallKind> {
        let number = usize::from(code.checked_sub(1)?);
        let class = *FileClass::ALL.get(number / Op::COUNT)?;
        Some(CallKind { class, op: Op::ALL[number % Op::COUNT] })
    }
}

/// All marks that were kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// In the order in which they were made; those of one thread in order of time.
    pub marks: Vec<Mark>,
    /// Marks beyond the most that were to be kept.
    pub lost: u64,
    /// Whether this kernel counts how long a thread was ready to run (`CONFIG_SCHED_INFO`).
    pub knows_queue: bool,
}

static KEEPING: AtomicBool = AtomicBool::new(false);
static THREADS: AtomicU32 = AtomicU32::new(0);
static KEPT: Mutex<(Marks, usize)> =
    Mutex::new((Marks { marks: Vec::new(), lost: 0, knows_queue: false }, 0));

/// A thread's own number, when it made its last mark (ns), and the scheduler's count of it.
struct Own {
    number: Cell<Option<u32>>,
    last_ns: Cell<u64>,
    schedstat: RefCell<Option<File>>,
}

impl Own {
    /// Its number, given at its first mark.
    fn number(&self) -> u32 {
        self.number.get().unwrap_or_else(|| {
            let number = THREADS.fetch_add(1, Ordering::Relaxed);
            *self.schedstat.borrow_mut() = File::open("/proc/thread-self/schedstat").ok();
            self.number.set(Some(number));
            number
        })
    }
}

thread_local! {
    static OWN: Own =
        const { Own { number: Cell::new(None), last_ns: Cell::new(0), schedstat: RefCell::new(None) } };
}

/// Keeps marks from now on, at most so many: each takes 48 bytes.
pub fn keep_marks(most: usize) {
    let knows_queue = queue_ns(&File::open("/proc/thread-self/schedstat").ok()).is_some();
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) =
        (Marks { marks: Vec::with_capacity(most.min(1 << 16)), lost: 0, knows_queue }, most);
    KEEPING.store(true, Ordering::Release);
}

/// Ends keeping marks and gives them.
#[must_use]
pub fn take_marks() -> Marks {
    KEEPING.store(false, Ordering::Release);
    std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner)).0
}

/// Makes a mark on the calling thread; gives the thread's number. None where no marks are kept.
#[inline]
pub fn mark() -> Option<u32> {
    if KEEPING.load(Ordering::Relaxed) { make(0, None) } else { None }
}

/// As [`mark`], if the thread's last one is older than `age_ns` or it has none.
#[inline]
pub fn mark_again(age_ns: u64) -> Option<u32> {
    if !KEEPING.load(Ordering::Relaxed) {
        return None;
    }
    let last_ns = OWN.try_with(|own| own.last_ns.get()).ok()?;
    if now_ns().saturating_sub(last_ns) > age_ns { make(0, None) } else { None }
}

/// A call on a file has just ended that took `call_ns`: a mark is made where it may have waited for
/// a device. `call` is none where it is no call of SQLite's.
#[inline]
pub fn mark_call(call: Option<CallKind>, call_ns: u64) {
    if call_ns >= SLOW_NS && KEEPING.load(Ordering::Relaxed) {
        make(call_ns, call);
    }
}

/// The number of the calling thread; none before its first mark.
pub(crate) fn thread_number() -> Option<u32> {
    OWN.try_with(|own| own.number.get()).ok().flatten()
}

#[cold]
#[inline(never)]
fn make(call_ns: u64, call: Option<CallKind>) -> Option<u32> {
    let at_ns = now_ns();
    // A thread that is being torn down makes none.
    OWN.try_with(|own| {
        let number = own.number();
        let queue_ns = queue_ns(&own.schedstat.borrow()).unwrap_or(0);
        let mark = Mark { thread: number, at_ns, call_ns, cpu_ns: thread_cpu_ns(), queue_ns, call };
        own.last_ns.set(at_ns);
        let (kept, most) = &mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.marks.len() < *most {
            kept.marks.push(mark);
        } else {
            kept.lost += 1;
        }
        number
    })
    .ok()
}

/// Gives the calling thread its number without a mark, which are the process's.
#[cfg(test)]
pub(crate) fn number_thread() {
    OWN.with(Own::number);
}

/// The second number of a schedstat, without memory of its own: this runs within statements.
fn queue_ns(schedstat: &Option<File>) -> Option<u64> {
    let mut text = [0_u8; 96];
    let length = schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
    let second = text[..length].split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(second).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_call_has_a_byte_of_its_own() {
        for class in FileClass::ALL {
            for op in Op::ALL {
                let call = Some(CallKind { class, op });
                assert_eq!(CallKind::of_code(CallKind::code(call)), call);
            }
        }
        let beyond = 1 + (FileClass::COUNT * Op::COUNT) as u8;
        assert_eq!((CallKind::code(None), CallKind::of_code(0), CallKind::of_code(beyond)), (0, None, None));
    }

    /// Takes so much time of a processor, ns.
    fn run_for(ns: u64) {
        let cpu = thread_cpu_ns();
        while thread_cpu_ns() < cpu + ns {
            std::hint::spin_loop();
        }
    }

    /// The time between two marks, and as much of it as the thread ran or was ready to, ns.
    fn known_of(first: &Mark, last: &Mark) -> (u64, u64) {
        let known = (last.cpu_ns - first.cpu_ns) + (last.queue_ns - first.queue_ns);
        (last.at_ns - first.at_ns, known)
    }

    /// One test: marks are the process's.
    #[test]
    fn marks_tell_running_from_waiting_and_are_kept_up_to_the_most() {
        assert_eq!((mark(), mark_again(0)), (None, None), "none are kept yet");
        mark_call(None, u64::MAX);
        keep_marks(6);
        let number = mark().unwrap();
        run_for(20_000_000);
        mark();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let sync = Some(CallKind { class: FileClass::Wal, op: Op::Sync });
        mark_call(sync, 20_000_000);
        mark_call(sync, SLOW_NS - 1);
        assert_eq!(mark_again(60_000_000_000), None, "the last one is not that old");
        let other = std::thread::spawn(|| mark_again(60_000_000_000)).join().unwrap();
        assert!(other.is_some_and(|other| other != number), "another thread has none yet");
        for _ in 0..5 {
            mark();
        }
        let kept = take_marks();
        assert_eq!((kept.marks.len(), kept.lost), (6, 3));
        let [first, ran, slept, ..] = kept.marks[..] else { panic!("{kept:?}") };
        assert!(ran.cpu_ns - first.cpu_ns >= 20_000_000, "{kept:?}");
        assert_eq!((slept.call_ns, slept.thread), (20_000_000, number));
        assert_eq!((slept.call, ran.call), (sync, None));
        assert!(slept.at_ns - ran.at_ns >= 20_000_000 && slept.cpu_ns - ran.cpu_ns < 10_000_000, "{kept:?}");
        if kept.knows_queue {
            // Ran, and was kept waiting for a processor: nothing else lies between the first two.
            // A busy machine may have taken a page away, or the processor itself: the best of
            // several.
            let tries: Vec<(u64, u64)> = std::iter::once(known_of(&first, &ran))
                .chain((0..9).map(|_| {
                    keep_marks(2);
                    mark();
                    run_for(20_000_000);
                    mark();
                    let kept = take_marks();
                    known_of(&kept.marks[0], &kept.marks[1])
                }))
                .collect();
            let is_known = |&(wall, known): &(u64, u64)| wall.abs_diff(known) < 2_000_000 + wall / 20;
            assert!(tries.iter().any(is_known), "(ns, of which known): {tries:?}");
        }
        assert_eq!(Mark::from(MarkNumbers::from(slept)), slept, "as it is sent");
        assert_eq!(mark(), None, "and no more");
    }
}
