//! Block trace: what reaches a device, request by request, as the kernel's block layer tells it.
//!
//! Three events of the block layer are recorded in a tracefs instance of our own, for the traced
//! devices only: `block_getrq` (a request is made: its *submission*), `block_rq_issue` (it is
//! handed to the driver) and `block_rq_complete`. They are read in the kernel's own binary form
//! (`trace_pipe_raw`) by the description that the kernel gives of it, on its monotonic clock, and
//! paired to [`Request`]s. Nothing but tracefs is needed: no blktrace, no debugfs, no BPF.
//!
//! What the block layer splits or adds is shown as the device sees it: a write with a flush before
//! it (`REQ_PREFLUSH`) or with forced unit access on a device without it becomes flush, write,
//! flush. That FUA was asked for is kept ([`Request::fua`]).
//!
//! Events that the buffer could not take are counted ([`Recording::lost_events`]) and never passed
//! over in silence.

mod error;
mod format;
mod pairing;
mod record;
mod request;
mod ring;
mod rwbs;
mod tracefs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use record::Reader;
use tracefs::Instance;

pub use error::TraceError;
pub use request::{BlockOp, Recording, Request, SECTOR_BYTES};
pub use tracefs::tracing;
pub(crate) use tracefs::{BUFFER_KIB, instance_path, remove_instance, tagged_instances};

/// How long the end of a trace waits for requests that are at the device.
const AT_THE_DEVICE: Duration = Duration::from_secs(5);

/// A trace that is being recorded. Dropped, it ends and its instance is removed.
#[derive(Debug)]
pub struct BlockTrace {
    /// Dropped after the reader, which holds its files open.
    reader: Option<JoinHandle<Result<Reader, TraceError>>>,
    end: Arc<AtomicBool>,
    instance: Instance,
    started_ns: u64,
}

impl BlockTrace {
    /// Begins to trace block devices, given by (major, minor). `label` names the owner for lists of
    /// leftovers.
    ///
    /// # Errors
    /// No root, no tracefs, a kernel without these events.
    pub fn start(devices: &[(u32, u32)], label: &str) -> Result<BlockTrace, TraceError> {
        BlockTrace::start_tagged(
            devices,
            &crate::ground::tag::tag_of(&crate::ground::tag::clean(label)),
            BUFFER_KIB,
        )
    }

    /// As [`BlockTrace::start`], under a stack's own tag, so that what undoes the stack undoes the
    /// trace, and with a buffer of this size for each CPU.
    pub(crate) fn start_tagged(
        devices: &[(u32, u32)],
        tag: &str,
        buffer_kib: u32,
    ) -> Result<BlockTrace, TraceError> {
        if !fathom_ground::system::is_root() {
            return Err(TraceError::NeedsRoot);
        }
        let instance = Instance::make(tag, buffer_kib)?;
        let reader = Reader::open(&instance, devices)?;
        instance.begin(devices)?;
        let started_ns = fathom_ground::system::now_ns();
        let end = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&end);
        let thread = std::thread::Builder::new()
            .name("block-trace".into())
            .spawn(move || reader.read_until(&until))
            .map_err(TraceError::io("start a thread to read", instance.path()))?;
        Ok(BlockTrace { reader: Some(thread), end, instance, started_ns })
    }

    /// Ends the trace, removes its instance and gives what was recorded. Sync the file system
    /// before, so that what it still holds back is seen. What is at the device by then is waited
    /// for: a file system writes of its own accord, whoever has synced.
    ///
    /// # Errors
    /// The trace could not be read; the instance is removed all the same.
    pub fn stop(mut self) -> Result<Recording, TraceError> {
        self.instance.begin_nothing_more()?;
        let Some(mut reader) = self.join()? else { return Ok(Recording::default()) };
        let ended = Instant::now();
        loop {
            reader.empty()?;
            let span_ns = (self.started_ns, fathom_ground::system::now_ns());
            let lost_events = self.instance.lost_events()?;
            let (requests, unfinished) = pairing::pair(reader.in_order());
            // A completion that was lost never comes.
            if unfinished == 0 || lost_events > 0 || ended.elapsed() > AT_THE_DEVICE {
                return Ok(Recording { requests, lost_events, unfinished, span_ns });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn join(&mut self) -> Result<Option<Reader>, TraceError> {
        self.end.store(true, Ordering::Release);
        let Some(thread) = self.reader.take() else { return Ok(None) };
        match thread.join() {
            Ok(reader) => reader.map(Some),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for BlockTrace {
    fn drop(&mut self) {
        // The files of the instance must be closed before it can go; what the reader found is not
        // wanted any more.
        let _ = self.join();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::ground::loop_device::LoopDevice;

    /// A loop device over an image of 16 MiB, or none where this machine does not trace; says why.
    fn device() -> Option<(tempfile::TempDir, LoopDevice)> {
        if !crate::can_loop() || tracefs::instance_path("x").is_err() {
            println!("skipped: tracing a loop device needs root, /dev/loop-control and tracefs");
            return None;
        }
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let options = || File::options().read(true).write(true).clone();
        let image = options().create_new(true).open(dir.path().join("image")).unwrap();
        image.set_len(16 << 20).unwrap();
        Some((dir, LoopDevice::attach(&image).unwrap()))
    }

    /// 4 KiB of memory that direct I/O takes.
    #[repr(align(4096))]
    struct Aligned([u8; 65536]);

    fn direct(device: &LoopDevice, more: i32) -> File {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_DIRECT | more).open(&device.path).unwrap()
    }

    fn trace(device: &LoopDevice, buffer_kib: u32, work: impl FnOnce()) -> Recording {
        let number = device.block_device().unwrap().number;
        let tag = crate::ground::tag::tag_of("pattern");
        let trace = BlockTrace::start_tagged(&[number], &tag, buffer_kib).unwrap();
        assert!(tracefs::instance_path(&tag).unwrap().exists());
        work();
        let recording = trace.stop().unwrap();
        assert!(!tracefs::instance_path(&tag).unwrap().exists(), "the instance is gone");
        recording
    }

    /// The proof of the trace: chosen offsets, lengths and flushes come out exactly, in order, with
    /// their operations.
    #[test]
    fn a_known_pattern_appears_exactly() {
        let Some((_dir, device)) = device() else { return };
        let memory = Aligned([7; 65536]);
        // (offset, bytes): backwards, forwards, large and small, the same place twice.
        let writes: [(u64, usize); 7] = [
            (8 << 20, 4096),
            (0, 65536),
            (4096, 512),
            (15 << 20, 8192),
            (8 << 20, 4096),
            ((8 << 20) + 4096, 4096),
            (512, 1024),
        ];
        let recording = trace(&device, BUFFER_KIB, || {
            let file = direct(&device, 0);
            for (number, (offset, bytes)) in writes.into_iter().enumerate() {
                file.write_all_at(&memory.0[..bytes], offset).unwrap();
                if number % 3 == 2 {
                    file.sync_data().unwrap();
                }
            }
            let mut back = Aligned([0; 65536]);
            file.read_exact_at(&mut back.0[..4096], 8 << 20).unwrap();
            assert_eq!(back.0[..4096], memory.0[..4096]);
            let durable = direct(&device, libc::O_DSYNC);
            durable.write_all_at(&memory.0[..4096], 1 << 20).unwrap();
        });
        let found: Vec<_> = recording
            .requests
            .iter()
            // What reads partitions (udev) is no part of the pattern.
            .filter(|request| request.op != BlockOp::Read || request.sector == (8 << 20) / SECTOR_BYTES)
            .map(|request| (request.op, request.sector * SECTOR_BYTES, request.bytes() as usize, request.fua))
            .collect();
        let mut expected = Vec::new();
        for (number, (offset, bytes)) in writes.into_iter().enumerate() {
            expected.push((BlockOp::Write, offset, bytes, false));
            if number % 3 == 2 {
                expected.push((BlockOp::Flush, 0, 0, false));
            }
        }
        expected.push((BlockOp::Read, 8 << 20, 4096, false));
        // A loop device has no forced unit access: the block layer lets a flush follow. O_DSYNC on
        // a block device then syncs it once more (`generic_write_sync`).
        expected.push((BlockOp::Write, 1 << 20, 4096, true));
        expected.push((BlockOp::Flush, 0, 0, false));
        expected.push((BlockOp::Flush, 0, 0, false));
        assert_eq!(found, expected);
        assert_eq!((recording.lost_events, recording.unfinished), (0, 0));
        let (start, end) = recording.span_ns;
        let mut before = start;
        for request in &recording.requests {
            assert!(start <= request.submit_ns && request.submit_ns <= request.issue_ns, "{request:?}");
            assert!(request.issue_ns <= request.complete_ns && request.complete_ns <= end, "{request:?}");
            assert!(request.latency_ns() > 1_000 && before <= request.issue_ns, "{request:?}");
            before = request.issue_ns;
        }
    }

    /// XFS had begun a write of its own when the trace of a run was ended: one request was
    /// "unfinished".
    #[test]
    fn what_is_at_the_device_at_the_end_is_waited_for() {
        let Some((_dir, device)) = device() else { return };
        let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
        let recordings: Vec<Recording> = std::thread::scope(|scope| {
            let writes = || {
                let (file, memory) = (direct(&device, 0), Aligned([7; 65536]));
                while !over.load(Ordering::Relaxed) {
                    file.write_all_at(&memory.0, 0).unwrap();
                    written.fetch_add(1, Ordering::Relaxed);
                }
            };
            scope.spawn(writes);
            scope.spawn(writes);
            // Until some have begun and ended, however busy the machine is, or who writes has
            // failed.
            let work = || {
                let enough = written.load(Ordering::Relaxed) + 8;
                let begun = Instant::now();
                while written.load(Ordering::Relaxed) < enough && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            let recordings = (0..10).map(|_| trace(&device, BUFFER_KIB, work)).collect();
            over.store(true, Ordering::Relaxed);
            recordings
        });
        for recording in recordings {
            assert_eq!((recording.lost_events, recording.unfinished), (0, 0));
            assert!(!recording.requests.is_empty());
            let end = recording.span_ns.1;
            assert!(recording.requests.iter().all(|request| request.complete_ns <= end));
        }
    }

    #[test]
    fn events_that_find_no_room_are_counted() {
        let Some((_dir, device)) = device() else { return };
        let lost = |_| {
            let recording = trace(&device, 4, || {
                // Written to the cache, with a gap after each, so that the sync hands on as many
                // requests as the device takes together, however slow it is: 128, where 4 KiB hold
                // the events of some twenty.
                let file = File::options().write(true).open(&device.path).unwrap();
                for number in 0..1000 {
                    file.write_all_at(&[7; 4096], number * 8192).unwrap();
                }
                file.sync_data().unwrap();
            });
            recording.lost_events
        };
        // The reader may just be awake.
        assert!((0..20).map(lost).any(|lost| lost > 0), "none was lost");
    }

    #[test]
    fn a_trace_that_is_dropped_leaves_nothing() {
        let Some((_dir, device)) = device() else { return };
        let number = device.block_device().unwrap().number;
        let tag = crate::ground::tag::tag_of("dropped");
        drop(BlockTrace::start_tagged(&[number], &tag, 64).unwrap());
        assert!(!tracefs::instance_path(&tag).unwrap().exists());
        let error = BlockTrace::start_tagged(&[number], "fathom-a/b", 64).unwrap_err().to_string();
        assert!(error.contains("cannot make") && error.contains("fathom-a/b"), "{error}");
    }
}
