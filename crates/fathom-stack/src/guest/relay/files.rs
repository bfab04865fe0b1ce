//! The file system under test, as the host's kernel asks for it: every operation is the same
//! operation here.
//!
//! Names, attributes and contents may stay in the host's caches, because nobody else changes them:
//! only names do not where the file system takes names of other case for the same file, so that the
//! host's kernel cannot know which of them it has. Permissions are checked by the host's kernel;
//! what a program makes belongs to it where the file system knows owners. Locks are the host's
//! kernel's alone.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{
    self as sys, AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, RawDir, SeekFrom, Stat, Timespec,
    Timestamps, Uid,
};

use super::nodes::{Key, Nodes, ROOT};
use super::underway::UnderWay;

/// What the host's kernel may keep, it may keep for as long as it likes.
const LONG: Duration = Duration::from_secs(1 << 30);
/// Largest read and write, bytes; with a header it fits into the room of the guest's driver.
const LARGEST: u32 = 128 << 10;
/// Alignment that direct I/O may ask for, bytes.
const ALIGNMENT: usize = 4096;
/// Room for directory entries that are read at once.
const ENTRIES_BYTES: usize = 16 << 10;

type Result<T> = std::result::Result<T, rustix::io::Errno>;

/// How a file system is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Names that differ in case only may name one file.
    pub case_folds: bool,
    /// The user and group of the host that root is in the guest: whoever mounted, if that was not
    /// root.
    pub root_is: (u32, u32),
}

/// An open file or directory.
#[derive(Debug)]
struct Open {
    file: File,
    direct: bool,
    /// Taken to read a directory: its position is everybody's.
    reading: Mutex<()>,
}

/// The file system.
#[derive(Debug)]
pub(crate) struct Files {
    root: Arc<OwnedFd>,
    nodes: Nodes,
    open: Mutex<HashMap<u64, Arc<Open>>>,
    next: AtomicU64,
    terms: Terms,
    under_way: Arc<UnderWay>,
}

fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

/// A held file as a path, for calls that take none of its descriptor.
fn through(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn problem(error: io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
}

fn errno_of(problem: rustix::io::Errno) -> Errno {
    Errno::from_i32(problem.raw_os_error())
}

/// Processors of 32 bits have narrower fields in their `stat`.
fn time(seconds: i64, nanoseconds: impl Into<u64>) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let begin = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    begin.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds.into()))).unwrap_or(UNIX_EPOCH)
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let time = match time {
        None => return Timespec { tv_sec: 0, tv_nsec: sys::UTIME_OMIT },
        Some(TimeOrNow::Now) => return Timespec { tv_sec: 0, tv_nsec: sys::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => time,
    };
    let (tv_sec, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos().cast_signed()),
        Err(before) => {
            // Whole seconds down, the rest up again: a time before 1970 has positive nanoseconds
            // too.
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos().cast_signed() {
                0 => (-seconds, 0),
                part => (-seconds - 1, 1_000_000_000 - part),
            }
        }
    };
    Timespec { tv_sec, tv_nsec: nanoseconds.into() }
}

/// A count, which has a sign on some processors and on others none.
fn count(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}

fn kind(of: sys::FileType) -> FileType {
    match of {
        sys::FileType::Directory => FileType::Directory,
        sys::FileType::Symlink => FileType::Symlink,
        sys::FileType::Fifo => FileType::NamedPipe,
        sys::FileType::Socket => FileType::Socket,
        sys::FileType::CharacterDevice => FileType::CharDevice,
        sys::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Memory at an address that direct I/O accepts.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        let memory = vec![0; bytes + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Aligned { memory, start, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

impl Files {
    /// The file system that is mounted at `point`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn at(point: &Path, terms: Terms, under_way: Arc<UnderWay>) -> io::Result<Files> {
        let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = sys::openat(CWD, point, path, Mode::empty())?;
        let stat = sys::fstat(&root)?;
        let nodes = Nodes::new(root, key(&stat));
        let root = nodes.get(ROOT).ok_or_else(|| io::Error::other("there is no root"))?;
        // The host's kernel has taken the program's umask off the mode already.
        rustix::process::umask(Mode::empty());
        Ok(Files { root, nodes, open: Mutex::default(), next: AtomicU64::new(1), terms, under_way })
    }

    fn node(&self, number: INodeNo) -> Result<Arc<OwnedFd>> {
        self.nodes.get(number.0).ok_or(rustix::io::Errno::STALE)
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, handle: FileHandle) -> Result<Arc<Open>> {
        self.opened().get(&handle.0).cloned().ok_or(rustix::io::Errno::BADF)
    }

    fn keep(&self, file: OwnedFd, flags: OFlags) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let open = Open {
            file: File::from(file),
            direct: flags.contains(OFlags::DIRECT),
            reading: Mutex::default(),
        };
        self.opened().insert(number, Arc::new(open));
        FileHandle(number)
    }

    fn names_stay(&self) -> Duration {
        if self.terms.case_folds { Duration::ZERO } else { LONG }
    }

    /// Root of the guest and whoever it is on the host are exchanged.
    fn exchanged(id: u32, root_is: u32) -> u32 {
        match id {
            0 => root_is,
            id if id == root_is => 0,
            id => id,
        }
    }

    fn attributes(&self, number: u64, stat: &Stat) -> FileAttr {
        FileAttr {
            ino: INodeNo(number),
            size: stat.st_size.unsigned_abs(),
            blocks: count(stat.st_blocks),
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: UNIX_EPOCH,
            kind: kind(sys::FileType::from_raw_mode(stat.st_mode)),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            uid: Files::exchanged(stat.st_uid, self.terms.root_is.0),
            gid: Files::exchanged(stat.st_gid, self.terms.root_is.1),
            rdev: u32::try_from(stat.st_rdev).unwrap_or(0),
            blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
            flags: 0,
        }
    }

    /// The host's kernel is told of a name.
    fn found(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let parent = self.node(parent)?;
        let file =
            sys::openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = sys::fstat(&file)?;
        let number = self.nodes.number_of(file, key(&stat));
        Ok(self.attributes(number, &stat))
    }

    /// What was just made belongs to whoever asked for it, where the file system knows owners.
    fn give(&self, request: &Request, parent: &OwnedFd, name: &OsStr) -> Result<()> {
        let uid = Files::exchanged(request.uid(), self.terms.root_is.0);
        let gid = Files::exchanged(request.gid(), self.terms.root_is.1);
        if (uid, gid) == (0, 0) {
            return Ok(());
        }
        // A directory may hand its group down.
        let inherits = sys::fstat(parent)?.st_mode & libc::S_ISGID != 0;
        let group = (!inherits).then(|| Gid::from_raw(gid));
        match sys::chownat(parent, name, Some(Uid::from_raw(uid)), group, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::PERM | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => Ok(()),
            other => other,
        }
    }

    /// Makes something, gives it to its owner, and tells of it.
    fn made(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<FileAttr> {
        let directory = self.node(parent)?;
        make(&directory)?;
        self.give(request, &directory, name)?;
        self.found(parent, name)
    }

    fn entry(&self, done: Result<FileAttr>, reply: ReplyEntry) {
        match done {
            Ok(attributes) => {
                reply.entry_with_ttls(&LONG, &self.names_stay(), &attributes, Generation(0));
            }
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn stat(&self, number: INodeNo, handle: Option<FileHandle>) -> Result<FileAttr> {
        let stat = match handle.and_then(|handle| self.handle(handle).ok()) {
            Some(open) => sys::fstat(&open.file)?,
            None => sys::fstat(&*self.node(number)?)?,
        };
        Ok(self.attributes(number.0, &stat))
    }

    /// Opens a held file anew.
    fn reopened(&self, number: INodeNo, flags: OFlags) -> Result<OwnedFd> {
        let file = self.node(number)?;
        sys::openat(CWD, through(&file), flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn read_at(open: &Open, offset: u64, size: usize) -> Result<(Aligned, usize)> {
        let mut room = Aligned::new(size);
        let mut done = 0;
        while done < size {
            // What is read past the page cache goes on at an aligned place or not at all.
            match open.file.read_at(&mut room.bytes()[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(some) => done += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(problem(error)),
            }
            if open.direct && done % ALIGNMENT != 0 {
                break;
            }
        }
        Ok((room, done))
    }

    fn write_at(open: &Open, offset: u64, data: &[u8]) -> Result<usize> {
        let mut room;
        let data = if open.direct {
            room = Aligned::new(data.len());
            room.bytes().copy_from_slice(data);
            &*room.bytes()
        } else {
            data
        };
        let mut done = 0;
        while done < data.len() {
            match open.file.write_at(&data[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(some) => done += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What was written is told; the program meets the problem with its next write.
                Err(_) if done > 0 => break,
                Err(error) => return Err(problem(error)),
            }
        }
        Ok(done)
    }

    fn entries(&self, handle: FileHandle, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let open = self.handle(handle)?;
        let _one = open.reading.lock().unwrap_or_else(PoisonError::into_inner);
        sys::seek(&open.file, SeekFrom::Start(offset))?;
        let mut room = [MaybeUninit::uninit(); ENTRIES_BYTES];
        let mut all = RawDir::new(&open.file, &mut room);
        while let Some(entry) = all.next() {
            let entry = entry?;
            let kind = match entry.file_type() {
                // Not every file system tells it with the name.
                sys::FileType::Unknown => {
                    let stat = sys::statat(&open.file, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                    stat.map_or(FileType::RegularFile, |stat| {
                        kind(sys::FileType::from_raw_mode(stat.st_mode))
                    })
                }
                known => kind(known),
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let shown = INodeNo(self.nodes.shown(entry.ino()));
            if reply.add(shown, entry.next_entry_cookie(), kind, name) {
                break;
            }
        }
        Ok(())
    }

    fn changed(
        &self,
        number: INodeNo,
        handle: Option<FileHandle>,
        (mode, uid, gid): (Option<u32>, Option<u32>, Option<u32>),
        size: Option<u64>,
        times: (Option<TimeOrNow>, Option<TimeOrNow>),
    ) -> Result<FileAttr> {
        let file = self.node(number)?;
        if let Some(mode) = mode {
            sys::chmodat(CWD, through(&file), Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())?;
        }
        if uid.is_some() || gid.is_some() {
            let (user, group) = self.terms.root_is;
            let uid = uid.map(|id| Uid::from_raw(Files::exchanged(id, user)));
            let gid = gid.map(|id| Gid::from_raw(Files::exchanged(id, group)));
            sys::chownat(&file, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(size) = size {
            match handle.and_then(|handle| self.handle(handle).ok()) {
                Some(open) => sys::ftruncate(&open.file, size)?,
                None => sys::ftruncate(self.reopened(number, OFlags::WRONLY)?, size)?,
            }
        }
        if times.0.is_some() || times.1.is_some() {
            let times = Timestamps { last_access: timespec(times.0), last_modification: timespec(times.1) };
            sys::utimensat(&file, "", &times, AtFlags::EMPTY_PATH)?;
        }
        self.stat(number, handle)
    }
}

fn empty(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(problem) => reply.error(errno_of(problem)),
    }
}

/// Flags of the host's program that are for this kernel too. What the host's kernel has done is
/// left out: creating, emptying, finding the end of the file, and syncing after each write, for
/// which it sends a sync of its own.
fn flags(of: i32) -> OFlags {
    let meant = OFlags::from_bits_retain(of as u32);
    meant & (OFlags::RWMODE | OFlags::DIRECT | OFlags::NOATIME | OFlags::DIRECTORY)
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel has not is done without.
        for wish in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_PARALLEL_DIROPS] {
            let _ = config.add_capabilities(wish);
        }
        let _ = config.set_max_write(LARGEST);
        let _ = config.set_max_readahead(LARGEST);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _one = self.under_way.begin();
        match self.found(parent, name) {
            // That there is none may be kept as well: programs look for journals that are not there
            // all the time.
            Err(rustix::io::Errno::NOENT) if !self.terms.case_folds => {
                let mut none = match sys::fstat(&*self.root) {
                    Ok(stat) => self.attributes(0, &stat),
                    Err(problem) => return reply.error(errno_of(problem)),
                };
                none.ino = INodeNo(0);
                reply.entry_with_ttls(&LONG, &LONG, &none, Generation(0));
            }
            done => self.entry(done, reply),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.nodes.forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let _one = self.under_way.begin();
        match self.stat(number, handle) {
            Ok(attributes) => reply.attr(&LONG, &attributes),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _one = self.under_way.begin();
        match self.changed(number, handle, (mode, uid, gid), size, (atime, mtime)) {
            Ok(attributes) => reply.attr(&LONG, &attributes),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let _one = self.under_way.begin();
        match self.node(number).and_then(|file| sys::readlinkat(&file, "", Vec::new())) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _one = self.under_way.begin();
        let (kind, mode) = (sys::FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
        let done = self.made(request, parent, name, |at| sys::mknodat(at, name, kind, mode, u64::from(rdev)));
        self.entry(done, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let _one = self.under_way.begin();
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.entry(self.made(request, parent, name, |at| sys::mkdirat(at, name, mode)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _one = self.under_way.begin();
        empty(self.node(parent).and_then(|at| sys::unlinkat(&at, name, AtFlags::empty())), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _one = self.under_way.begin();
        empty(self.node(parent).and_then(|at| sys::unlinkat(&at, name, AtFlags::REMOVEDIR)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _one = self.under_way.begin();
        self.entry(self.made(request, parent, name, |at| sys::symlinkat(target, at, name)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _one = self.under_way.begin();
        let flags = sys::RenameFlags::from_bits_retain(flags.bits());
        let done = self.node(parent).and_then(|from| {
            let to = self.node(to)?;
            match flags.is_empty() {
                true => sys::renameat(&from, name, &to, new),
                false => sys::renameat_with(&from, name, &to, new, flags),
            }
        });
        empty(done, reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _one = self.under_way.begin();
        let done = self.node(number).and_then(|file| {
            let parent = self.node(parent)?;
            sys::linkat(CWD, through(&file), &parent, name, AtFlags::SYMLINK_FOLLOW)
        });
        self.entry(done.and_then(|()| self.found(parent, name)), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, asked: OpenFlags, reply: ReplyOpen) {
        let _one = self.under_way.begin();
        let flags = flags(asked.0);
        match self.reopened(number, flags) {
            // Nobody else writes, so what the host has cached of the file is right.
            Ok(file) => reply.opened(self.keep(file, flags), FopenFlags::FOPEN_KEEP_CACHE),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        asked: i32,
        reply: ReplyCreate,
    ) {
        let _one = self.under_way.begin();
        let kept = flags(asked);
        let exclusive = OFlags::from_bits_retain(asked as u32) & OFlags::EXCL;
        let done = self.node(parent).and_then(|at| {
            let how = kept | exclusive | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = sys::openat(&at, name, how, Mode::from_raw_mode(mode & 0o7777))?;
            self.give(request, &at, name)?;
            Ok((self.found(parent, name)?, file))
        });
        match done {
            Ok((attributes, file)) => {
                let handle = self.keep(file, kept);
                // A name may be kept for as long as an attribute here: there is one time for both.
                let stay = self.names_stay();
                reply.created(&stay, &attributes, Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _one = self.under_way.begin();
        match self.handle(handle).and_then(|open| Files::read_at(&open, offset, size as usize)) {
            Ok((mut room, done)) => reply.data(&room.bytes()[..done]),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _one = self.under_way.begin();
        match self.handle(handle).and_then(|open| Files::write_at(&open, offset, data)) {
            Ok(done) => reply.written(u32::try_from(done).unwrap_or(u32::MAX)),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let _one = self.under_way.begin();
        let closed = self.opened().remove(&handle.0);
        drop(closed);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _one = self.under_way.begin();
        let done = self.handle(handle).and_then(|open| match data_only {
            true => sys::fdatasync(&open.file),
            false => sys::fsync(&open.file),
        });
        empty(done, reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _one = self.under_way.begin();
        match self.reopened(number, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(file) => reply.opened(self.keep(file, OFlags::empty()), FopenFlags::empty()),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let _one = self.under_way.begin();
        match self.entries(handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let _one = self.under_way.begin();
        let closed = self.opened().remove(&handle.0);
        drop(closed);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, number, handle, data_only, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _one = self.under_way.begin();
        match sys::fstatfs(&*self.root) {
            Ok(space) => reply.statfs(
                space.f_blocks,
                space.f_bfree,
                space.f_bavail,
                space.f_files,
                space.f_ffree,
                u32::try_from(space.f_bsize).unwrap_or(4096),
                u32::try_from(space.f_namelen).unwrap_or(255),
                u32::try_from(space.f_frsize).unwrap_or(4096),
            ),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _one = self.under_way.begin();
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        empty(self.handle(handle).and_then(|open| sys::fallocate(&open.file, mode, offset, length)), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _one = self.under_way.begin();
        let offset = offset.unsigned_abs();
        let place = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset),
            libc::SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return reply.error(Errno::EINVAL),
        };
        match self.handle(handle).and_then(|open| sys::seek(&open.file, place)) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(problem) => reply.error(errno_of(problem)),
        }
    }
}
