//! A log of operations as `blkparse` and `btt` read it: the events that `blktrace` writes, as the
//! kernel lays them out (`struct blk_io_trace` of `linux/blktrace_api.h`, version 7):
//!
//! ```text
//! u32 0x65617407 | u32 number of the event, from 1 | u64 time, ns | u64 sector, of 512 bytes | u32 bytes
//! u32 action (low half: what; high half: its categories) | u32 process | u32 device | u32 processor
//! u16 error, a negative errno | u16 bytes of text behind it
//! ```
//!
//! Nothing is made up that the log does not hold. An operation has two moments in it: when it came
//! to the device, and when it was answered. The first is the event D (issued), the second C
//! (completed). Q (queued) stands at the moment of D, because `btt` passes over requests that have
//! none; when the block layer's own queue had a request is not known, nor who asked for it (process
//! 0), nor where (processor 0). Marks are messages. The device's number is one that the kernel
//! leaves for local use.

use std::io::{self, Write};

use super::fault::Outcome;
use super::oplog::{Log, Mark, Record};
use super::timeline::Operation;

/// What a file of the only processor is called behind the name that `blkparse -i` is given.
pub const BLKTRACE_END: &str = ".blktrace.0";

const MAGIC: u32 = 0x6561_7407;
/// Major number 240 (local use, Documentation/admin-guide/devices.txt), minor number 0.
const DEVICE: u32 = 240 << 20;
const SECTOR_BYTES: u64 = 512;

/// Actions.
const QUEUED: u32 = 1;
const ISSUED: u32 = 7;
const COMPLETED: u32 = 8;
const MESSAGE: u32 = 2;

/// Categories, in the high half.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const OF_QUEUE: u32 = 1 << 20;
const OF_ISSUE: u32 = 1 << 22;
const OF_COMPLETION: u32 = 1 << 23;
const OF_FILE_SYSTEM: u32 = 1 << 24;
const NOTE: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

/// An event without its number.
struct Event {
    at_ns: u64,
    action: u32,
    sector: u64,
    bytes: u32,
    /// As the kernel has it: the low half of a negative errno.
    error: u16,
    text: String,
}

impl Event {
    fn of_mark(mark: &Mark) -> Event {
        let text = format!("mark {}", mark.number);
        Event { at_ns: mark.at_ns, action: MESSAGE | NOTE, sector: 0, bytes: 0, error: 0, text }
    }

    /// Those of an operation.
    fn of_record(record: &Record) -> [Event; 3] {
        let kind = match record.operation {
            Operation::Read => READ,
            Operation::Write => WRITE,
            // As the kernel has it, whose flush writes nothing.
            Operation::Flush => READ | FLUSH,
            Operation::Discard => WRITE | DISCARD,
        };
        let error = match record.outcome {
            // What lied was answered as if it were done.
            Outcome::Done | Outcome::Lied => 0,
            Outcome::Error => libc::EIO,
            Outcome::Full => libc::ENOSPC,
        };
        let moves = record.operation != Operation::Flush;
        let event = |action: u32, at_ns: u64, error: u16| Event {
            at_ns,
            action: action | kind | OF_FILE_SYSTEM,
            sector: if moves { record.offset / SECTOR_BYTES } else { 0 },
            bytes: if moves { record.bytes } else { 0 },
            error,
            text: String::new(),
        };
        [
            event(QUEUED | OF_QUEUE, record.arrival_ns, 0),
            event(ISSUED | OF_ISSUE, record.arrival_ns, 0),
            event(COMPLETED | OF_COMPLETION, record.given_ns.max(record.arrival_ns), (-error) as u16),
        ]
    }

    fn write(&self, number: u32, out: &mut dyn Write) -> io::Result<()> {
        for word in [MAGIC, number] {
            out.write_all(&word.to_le_bytes())?;
        }
        for word in [self.at_ns, self.sector] {
            out.write_all(&word.to_le_bytes())?;
        }
        // Process and processor are not known.
        for word in [self.bytes, self.action, 0, DEVICE, 0] {
            out.write_all(&word.to_le_bytes())?;
        }
        for half in [self.error, self.text.len() as u16] {
            out.write_all(&half.to_le_bytes())?;
        }
        out.write_all(self.text.as_bytes())
    }
}

/// Writes a log's operations and marks as events in the order of their times.
///
/// # Errors
/// What the system says of writing.
pub fn write_blktrace(log: &Log, out: &mut dyn Write) -> io::Result<()> {
    let operations = log.records.iter().flat_map(Event::of_record);
    let mut events: Vec<Event> = operations.chain(log.marks.iter().map(Event::of_mark)).collect();
    // Those of one operation and moment keep their order.
    events.sort_by_key(|event| event.at_ns);
    let mut number: u32 = 0;
    for event in &events {
        number = number.wrapping_add(1);
        event.write(number, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathom_ground::command::{CommandLine, find_program};

    use super::*;
    use crate::oplog::End;

    const BLOCK: Record = Record {
        operation: Operation::Write,
        outcome: Outcome::Done,
        sequential: false,
        stalled: false,
        offset: 8192,
        bytes: 4096,
        arrival_ns: 1000,
        asked_ns: 3000,
        given_ns: 3000,
        data_at: None,
        after: Some(0),
    };

    /// Two writes that overlap, a read with an error, a flush with a mark before it, a discard.
    fn log() -> Log {
        let records = vec![
            Record { arrival_ns: 2000, given_ns: 2500, offset: 0, ..BLOCK },
            BLOCK,
            Record {
                operation: Operation::Read,
                outcome: Outcome::Error,
                arrival_ns: 4000,
                given_ns: 5000,
                ..BLOCK
            },
            Record {
                operation: Operation::Flush,
                offset: 0,
                bytes: 0,
                arrival_ns: 7000,
                given_ns: 9000,
                ..BLOCK
            },
            Record { operation: Operation::Discard, bytes: 65536, arrival_ns: 9500, given_ns: 9500, ..BLOCK },
        ];
        let marks = vec![Mark { number: 17, at_ns: 6000, after: 3 }];
        Log { places: (0..5).collect(), records, marks, end: End::Complete }
    }

    /// An event as this test reads it from the bytes: number, time, sector, bytes, action, error,
    /// text.
    type Read = (u32, u64, u64, u32, u32, u16, String);

    fn read(mut bytes: &[u8]) -> Vec<Read> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let half = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
            assert_eq!((word(0), word(32), word(36), word(40)), (0x6561_7407, 0, 240 << 20, 0));
            let text = &bytes[48..48 + usize::from(half(46))];
            let text = String::from_utf8(text.to_vec()).unwrap();
            events.push((word(4), long(8), long(16), word(24), word(28), half(44), text.clone()));
            bytes = &bytes[48 + text.len()..];
        }
        events
    }

    #[test]
    fn events_are_laid_out_as_the_kernel_does_and_in_the_order_of_time() {
        let mut bytes = Vec::new();
        write_blktrace(&log(), &mut bytes).unwrap();
        let events = read(&bytes);
        assert_eq!(events.iter().map(|event| event.0).collect::<Vec<_>>(), (1..=16).collect::<Vec<u32>>());
        assert!(events.is_sorted_by_key(|event| event.1));
        let of = |action: u32| events.iter().filter(|event| event.4 & 0xFFFF == action).collect::<Vec<_>>();
        assert_eq!((of(1).len(), of(7).len(), of(8).len(), of(2).len()), (5, 5, 5, 1));
        // Both writes were issued before either was complete.
        let first: Vec<(u64, u32)> = events.iter().take(6).map(|event| (event.1, event.4 & 0xFFFF)).collect();
        assert_eq!(first, [(1000, 1), (1000, 7), (2000, 1), (2000, 7), (2500, 8), (3000, 8)]);
        let completed: Vec<(u64, u32, u32, u16)> =
            of(8).into_iter().map(|event| (event.2, event.3, event.4 >> 16, event.5)).collect();
        let (completion, write) = (0x80 | 0x100, 2);
        assert_eq!(
            completed,
            [
                (0, 4096, completion | write, 0),
                (16, 4096, completion | write, 0),
                (16, 4096, completion | 1, 65531),
                (0, 0, completion | 1 | 4, 0),
                (16, 65536, completion | write | 0x2000, 0),
            ]
        );
        assert_eq!((of(2)[0].1, of(2)[0].6.as_str()), (6000, "mark 17"));
    }

    /// As the tool itself counts.
    #[test]
    fn blkparse_reads_as_many_events_and_bytes() {
        let Some(blkparse) = find_program("blkparse") else {
            println!("SKIP: blkparse is not installed (sudo apt-get install blktrace)");
            return;
        };
        let place = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        write_blktrace(&log(), &mut bytes).unwrap();
        std::fs::write(place.path().join(format!("card{BLKTRACE_END}")), bytes).unwrap();
        let directory = place.path().display().to_string();
        let words = ["-q", "-D", directory.as_str(), "-i", "card", "-f", "%a %d %S %N %e\\n"];
        let printed = CommandLine::new(&blkparse, words).run(Duration::from_secs(60)).unwrap().stdout;
        let mut lines: Vec<&str> = printed.lines().filter(|line| !line.contains("mark 17")).collect();
        lines.retain(|line| ["Q ", "D ", "C "].iter().any(|action| line.starts_with(action)));
        assert_eq!(lines.len(), 15, "{printed}");
        let completed: Vec<&str> = lines.into_iter().filter(|line| line.starts_with('C')).collect();
        assert_eq!(
            completed,
            ["C W 0 4096 0", "C W 16 4096 0", "C R 16 4096 65531", "C FN 0 0 0", "C D 16 65536 0"],
            "{printed}"
        );
        assert!(printed.contains("mark 17"), "{printed}");
    }
}
