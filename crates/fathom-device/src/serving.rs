//! The thread that is the device: takes requests from the kernel, and gives the answers when they
//! are due.
//!
//! One thread does both. An answer that is due later waits in a heap; for the last bit before its
//! time the thread does not sleep but looks for requests over and over. It does not do so after an
//! answer, though the next request mostly follows at once: where the program runs on the same
//! processor, it would wait for that to end. Instead the processors are kept [`Awake`]. Requests
//! are received into one buffer, and what is read is kept in buffers that are used again: fresh
//! memory costs a page fault for every 4 KiB.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::awake::Awake;
use super::device::{Device, FILE, LARGEST, MARK, STATISTICS, Verdict};
use super::fault::Outcome;
use super::oplog::Record;
use super::timeline::Operation;
use super::wire::{ANSWER_HEAD, Ask, Body, Node, ReadResult, Request, head, receive};

const ROOT: u64 = 1;
const DISK: u64 = 2;
const TOLD: u64 = 3;
const MARKED: u64 = 4;
/// The last of a wait is spun, ns: longer than a wake-up takes on a quiet machine.
const SPIN_NS: u64 = 30_000;
/// Buffers that are kept for the next reads.
const SPARE: usize = 64;

/// What an answer carries.
enum Payload {
    Nothing,
    Written(u32),
    Read(Vec<u8>),
}

/// An answer that is due later.
struct Due {
    at: Instant,
    number: u64,
    unique: u64,
    outcome: Outcome,
    given: Payload,
    record: Option<Record>,
    early_ns: u64,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// By time, then by arrival.
    fn cmp(&self, other: &Due) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Zeros that are written at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Has a part of the image read as zeros. Its space stays reserved where that can be: who fills the
/// disk meanwhile would have a write fail later on.
fn empty(image: &File, offset: u64, bytes: u64) -> io::Result<()> {
    for how in [FallocateFlags::ZERO_RANGE, FallocateFlags::PUNCH_HOLE] {
        match rustix::fs::fallocate(image, how | FallocateFlags::KEEP_SIZE, offset, bytes) {
            // Memory has holes only, and exFAT, FAT and NFS before 4.2 have neither.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    write_zeros(image, offset, bytes)
}

fn write_zeros(image: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let next = (bytes - done).min(ZEROS.len() as u64);
        image.write_all_at(&ZEROS[..next as usize], offset + done)?;
        done += next;
    }
    Ok(())
}

/// The device's thread.
pub(super) struct DeviceThread {
    fuse: OwnedFd,
    device: Arc<Device>,
    due: BinaryHeap<Reverse<Due>>,
    number: u64,
    awake: Awake,
    spare: Vec<Vec<u8>>,
    /// Statistics as they were when somebody opened their file, by handle.
    told: HashMap<u64, Vec<u8>>,
    handle: u64,
}

impl DeviceThread {
    /// Starts the thread on a connection that is set up; `keep` is held until the connection ends.
    ///
    /// # Errors
    /// No thread can be started, or the connection is none.
    pub fn start<T: Send + 'static>(
        fuse: OwnedFd,
        device: Arc<Device>,
        keep: T,
    ) -> io::Result<JoinHandle<io::Result<()>>> {
        let flags = rustix::fs::fcntl_getfl(&fuse)?;
        rustix::fs::fcntl_setfl(&fuse, flags | rustix::fs::OFlags::NONBLOCK)?;
        let mut serving = DeviceThread {
            fuse,
            device,
            due: BinaryHeap::new(),
            number: 0,
            awake: Awake::new(),
            spare: Vec::new(),
            told: HashMap::new(),
            handle: 0,
        };
        std::thread::Builder::new().name("device".into()).spawn(move || {
            serving.device.waiting.is_mine();
            let ended = serving.run();
            // Nobody waits for them any more, but they were made.
            while let Some(Reverse(due)) = serving.due.pop() {
                serving.give(due, Instant::now());
            }
            // Kept for whoever asks when this thread is gone.
            serving.device.waiting.so_far_ns();
            drop(keep);
            ended
        })
    }

    fn run(&mut self) -> io::Result<()> {
        // Without slack a timed wait ends at its time, not up to 50 µs later.
        // SAFETY: PR_SET_TIMERSLACK takes one integer and concerns this thread only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        let mut buffer = vec![0; LARGEST + 4096];
        loop {
            let now = Instant::now();
            let hurries = self.device.hurries();
            if self.due.peek().is_some_and(|Reverse(first)| hurries || first.at <= now) {
                let Some(Reverse(due)) = self.due.pop() else { continue };
                self.give(due, now);
                self.awake.used(now);
                continue;
            }
            match receive(&self.fuse, &mut buffer)? {
                ReadResult::Request(bytes) => {
                    let Some(request) = Request::parse(&buffer[..bytes]) else {
                        return Err(io::Error::other("a request of the kernel's is none"));
                    };
                    if request.ask == Ask::Destroy {
                        self.answer(request.unique, 0, &[]);
                        return Ok(());
                    }
                    self.serve(&request);
                }
                ReadResult::End => return Ok(()),
                ReadResult::Nothing => self.wait(now, hurries),
            }
        }
    }

    /// Until shortly before the next answer, or until a request comes, or the wish that the device
    /// hurries.
    fn wait(&mut self, now: Instant, hurries: bool) {
        let left = self.due.peek().map(|Reverse(first)| first.at.saturating_duration_since(now));
        let sleep = left.map(|left| left.saturating_sub(Duration::from_nanos(SPIN_NS)));
        if sleep.is_some_and(|sleep| sleep.is_zero()) {
            std::hint::spin_loop();
            return;
        }
        let sleep = sleep.or_else(|| self.awake.rest(now));
        let limit = sleep.and_then(|sleep| rustix::event::Timespec::try_from(sleep).ok());
        let mut both = [&self.fuse, self.device.spur().unwrap_or(&self.fuse)]
            .map(|file| PollFd::new(file, PollFlags::IN));
        // Once it hurries, the spur can be read for ever.
        let looked_at = if hurries { 1 } else { 2 };
        // A wait that fails is a short one.
        let _ = rustix::event::poll(&mut both[..looked_at], limit.as_ref());
    }

    fn node(&self, number: u64) -> Node {
        let bytes = if number == DISK { self.device.bytes } else { 0 };
        Node { number, bytes, directory: number == ROOT }
    }

    fn serve(&mut self, request: &Request<'_>) {
        let Request { unique, node, ref ask } = *request;
        match *ask {
            Ask::Read { offset, bytes, .. } if node == DISK => self.read(unique, offset, bytes),
            Ask::Write { offset, data } if node == DISK => self.write(unique, offset, data),
            Ask::Sync if node == DISK => {
                let verdict = self.device.operate(Operation::Flush, 0, 0, None, || Ok(()));
                self.answer_at(unique, verdict, Payload::Nothing);
            }
            Ask::Allocate { offset, bytes, mode } if node == DISK => {
                self.discard(unique, offset, bytes, mode);
            }
            _ => {
                let (error, body) = match self.aside(request) {
                    Ok(Some(body)) => (0, body.0),
                    Ok(None) => return,
                    Err(error) => (error, Vec::new()),
                };
                self.answer(unique, error, &body);
            }
        }
    }

    /// What is no operation of the device; none where nothing is answered.
    fn aside(&mut self, request: &Request<'_>) -> Result<Option<Body>, i32> {
        let node = self.node(request.node);
        Ok(Some(match request.ask {
            Ask::Lookup(name) => {
                let known = [(FILE, DISK), (STATISTICS, TOLD), (MARK, MARKED)]
                    .into_iter()
                    .find(|entry| request.node == ROOT && name == entry.0);
                Body::entry(&self.node(known.ok_or(libc::ENOENT)?.1))
            }
            Ask::Attributes => Body::attributes(&node),
            // As a shell's `>` does before it writes; there is nothing to cut off.
            Ask::SetAttributes if request.node == MARKED => Body::attributes(&node),
            Ask::Write { data, .. } if request.node == MARKED => {
                let number = std::str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok());
                match number.map(|number| self.device.mark(number)) {
                    Some(true) => Body::written(data.len() as u32),
                    Some(false) => return Err(libc::EOPNOTSUPP),
                    None => return Err(libc::EINVAL),
                }
            }
            Ask::Open if request.node == TOLD => {
                let mut text = serde_json::to_vec(&self.device.statistics()).unwrap_or_default();
                text.push(b'\n');
                self.handle += 1;
                self.told.insert(self.handle, text);
                Body::opened(self.handle, false)
            }
            Ask::Open => Body::opened(0, false),
            Ask::OpenDirectory => Body::opened(0, true),
            Ask::Read { handle, offset, bytes } => {
                let text = self.told.get(&handle);
                let rest = text.and_then(|text| text.get(usize::try_from(offset).ok()?..));
                let rest = rest.unwrap_or_default();
                Body(rest[..rest.len().min(bytes as usize)].to_vec())
            }
            Ask::Release { handle } => {
                if request.node == TOLD {
                    self.told.remove(&handle);
                }
                Body::default()
            }
            Ask::ReadDirectory { from, bytes } => {
                let [root, disk, told, mark] = [ROOT, DISK, TOLD, MARKED].map(|number| self.node(number));
                let names = [(&root, "."), (&root, ".."), (&disk, FILE), (&told, STATISTICS), (&mark, MARK)];
                Body::names(&names, from, bytes)
            }
            Ask::Room => Body::room(),
            Ask::Close | Ask::Sync => Body::default(),
            Ask::Write { .. } | Ask::Allocate { .. } => return Err(libc::EACCES),
            Ask::Forget => return Ok(None),
            Ask::SetAttributes | Ask::Destroy | Ask::Unknown => return Err(libc::ENOSYS),
        }))
    }

    fn read(&mut self, unique: u64, offset: u64, bytes: u32) {
        let bytes = u64::from(bytes).min(self.device.bytes.saturating_sub(offset));
        let mut data = self.spare.pop().unwrap_or_default();
        data.resize(bytes as usize, 0);
        let image = &self.device.image;
        let verdict = self
            .device
            .operate(Operation::Read, offset, bytes, None, || image.read_exact_at(&mut data, offset));
        self.answer_at(unique, verdict, Payload::Read(data));
    }

    fn write(&mut self, unique: u64, offset: u64, data: &[u8]) {
        let device = &self.device;
        let bytes = data.len() as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > device.bytes) {
            self.answer(unique, libc::ENOSPC, &[]);
            return;
        }
        let verdict = device
            .operate(Operation::Write, offset, bytes, Some(data), || device.image.write_all_at(data, offset));
        self.answer_at(unique, verdict, Payload::Written(bytes as u32));
    }

    fn discard(&mut self, unique: u64, offset: u64, bytes: u64, mode: i32) {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.device.bytes);
        let gives_up = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        if !inside || !gives_up {
            self.answer(unique, if inside { libc::EOPNOTSUPP } else { libc::EINVAL }, &[]);
            return;
        }
        let image = &self.device.image;
        let verdict =
            self.device.operate(Operation::Discard, offset, bytes, None, || empty(image, offset, bytes));
        self.answer_at(unique, verdict, Payload::Nothing);
    }

    /// Gives the answer at once if it is due, and keeps it for its time otherwise.
    fn answer_at(&mut self, unique: u64, verdict: Verdict, given: Payload) {
        let Verdict { outcome, at, record, early_ns } = verdict;
        self.number += 1;
        let due = Due { at, number: self.number, unique, outcome, given, record, early_ns };
        let now = Instant::now();
        self.awake.used(now);
        if at <= now {
            self.give(due, now);
        } else {
            self.due.push(Reverse(due));
        }
    }

    fn give(&mut self, due: Due, now: Instant) {
        let error = match due.outcome {
            Outcome::Done | Outcome::Lied => 0,
            Outcome::Error => libc::EIO,
            Outcome::Full => libc::ENOSPC,
        };
        let written;
        let body: &[u8] = match &due.given {
            _ if error != 0 => &[],
            Payload::Nothing => &[],
            Payload::Written(bytes) => {
                written = Body::written(*bytes).0;
                &written
            }
            Payload::Read(data) => data,
        };
        let place = self.device.place_of_answer(due.record.as_ref());
        self.answer(due.unique, error, body);
        self.device.answered(due.record, place, due.early_ns, now);
        if let Payload::Read(data) = due.given
            && self.spare.len() < SPARE
        {
            self.spare.push(data);
        }
    }

    fn answer(&self, unique: u64, error: i32, body: &[u8]) {
        let head: [u8; ANSWER_HEAD] = head(unique, error, body.len());
        // A request that was taken back (ENOENT) needs no answer, nor does one of a mount that is
        // gone.
        let _ = rustix::io::writev(self.fuse.as_fd(), &[IoSlice::new(&head), IoSlice::new(body)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: zeros that a file system has written as such (mkfs does, and ext4 where it
    /// fills an extent) were a hole in the image. Where the image's own file system has none, the
    /// device gave an I/O error, on which recent kernels write no zeros instead; where it has, the
    /// space that was reserved was anybody's again.
    #[test]
    fn zeros_are_read_back_and_take_no_space_away() {
        let whole = 3 * ZEROS.len();
        let bytes = 2 * ZEROS.len() as u64 + 512;
        for way in [empty, write_zeros] {
            let image = tempfile::tempfile().unwrap();
            image.write_all_at(&vec![7_u8; whole], 0).unwrap();
            way(&image, 512, bytes).unwrap();
            let mut all = vec![1_u8; whole];
            image.read_exact_at(&mut all, 0).unwrap();
            let end = 512 + bytes as usize;
            assert!(all[..512].iter().chain(&all[end..]).all(|&byte| byte == 7));
            assert!(all[512..end].iter().all(|&byte| byte == 0));
            assert_eq!(image.metadata().unwrap().len(), whole as u64);
        }
        // Where this directory's disk can: not every file system keeps the space.
        let image = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        image.write_all_at(&vec![7_u8; whole], 0).unwrap();
        image.sync_all().unwrap();
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&image, flags, 0, 4096).is_ok() {
            let blocks = |file: &File| std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
            let before = blocks(&image);
            empty(&image, 0, whole as u64).unwrap();
            assert!(blocks(&image) >= before, "{before} blocks before");
        }
    }
}
