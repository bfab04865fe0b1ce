//! A seeded, adversarial disk.
//!
//! Writes are kept as pending pieces until their file is synced, names until their directory is. A
//! power cut keeps, for every pending piece on its own, all of it, none of it, a prefix, or any set
//! of its 512-byte sectors: that drops, reorders and tears. Names are lost the same way. A kill
//! (the process dies, the machine does not) keeps what was written, still unsynced, so that a later
//! power cut can take it. A failed sync decides the fate of the pending pieces at once and forgets
//! them, as page caches do: what reads back afterwards may never reach the device.

use super::memory::{read_slice, write_slice};
use super::{Medium, MediumFile};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Unit that the device writes whole, bytes.
const SECTOR: usize = 512;

/// How a run ends.
///
/// ```
/// use mmdb::medium::{CrashKind, CrashMedium, Medium};
/// use std::path::Path;
/// let disk = CrashMedium::new(1);
/// disk.create(Path::new("/d/a"))?.write_at(0, b"unsynced")?;
/// disk.crash(CrashKind::Kill);
/// let mut b = [0; 8];
/// disk.open(Path::new("/d/a"))?.read_at(0, &mut b)?;
/// assert_eq!(&b, b"unsynced");                               // a power cut may yet take it
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// The process dies; the page cache stays.
    Kill,
    /// The machine loses power; what was not synced is up to the seed.
    Power,
}

/// Which calls fail, counted from 1 over all calls that change something.
///
/// ```
/// use mmdb::medium::{CrashMedium, Faults, Medium};
/// use std::path::Path;
/// let disk = CrashMedium::new(1);
/// let f = disk.create(Path::new("/d/a"))?;
/// disk.set_faults(Faults { sync_error_at: Some(0), capacity: Some(100), ..Faults::default() });
/// assert_eq!(f.write_at(0, &[0; 200]).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
/// assert!(f.sync().is_err() && f.sync().is_ok(), "only one sync fails");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// From this call on everything fails: the moment of the crash.
    pub crash_at: Option<u64>,
    /// The first sync at or after this call fails with `EIO`.
    pub sync_error_at: Option<u64>,
    /// The first write at or after this call fails with `EIO`, possibly half done.
    pub write_error_at: Option<u64>,
    /// The first call at or after this one fails, whatever it is: a write with `ENOSPC` and
    /// possibly half done, the creation of a file with `ENOSPC`, all others with `EIO`. Whether a
    /// failed rename or removal was done is up to the seed.
    pub error_at: Option<u64>,
    /// Total file bytes after which extending a file fails with `ENOSPC`.
    pub capacity: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<(u64, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum NameOp {
    Link(PathBuf, usize),
    /// The inode is part of it: whatever else is lost, a rename never gives the name to another
    /// file.
    Rename(PathBuf, PathBuf, usize),
    Unlink(PathBuf),
}

impl NameOp {
    fn dir(&self) -> Option<&Path> {
        match self {
            NameOp::Link(p, _) | NameOp::Rename(p, _, _) | NameOp::Unlink(p) => p.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameOp::Link(p, i) => {
                names.insert(p.clone(), *i);
            }
            NameOp::Rename(a, b, i) => {
                names.remove(a);
                names.insert(b.clone(), *i);
            }
            NameOp::Unlink(p) => {
                names.remove(p);
            }
        }
    }
}

#[derive(Clone, Debug)]
struct State {
    rng: u64,
    calls: u64,
    /// Calls that were made to fail.
    failed: u64,
    /// Of these, the calls before the crash.
    refused: u64,
    faults: Faults,
    dead: bool,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_ops: Vec<NameOp>,
    /// Names, durable names and pending operations of what is not mounted.
    away: (BTreeMap<PathBuf, usize>, BTreeMap<PathBuf, usize>, Vec<NameOp>),
    locks: BTreeSet<PathBuf>,
    life: u64,
}

/// The crash medium. Clones share the disk.
///
/// ```
/// use mmdb::medium::{CrashKind, CrashMedium, Medium};
/// use std::path::Path;
/// let m = CrashMedium::new(1);
/// m.create(Path::new("/d/a"))?;
/// m.crash(CrashKind::Power);
/// let names = m.list(Path::new("/d"))?;       // the name was never synced: the seed decides
/// assert!(names.len() <= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CrashMedium(Arc<Mutex<State>>);

#[derive(Debug)]
struct CrashFile {
    disk: CrashMedium,
    inode: usize,
    life: u64,
}

fn dead() -> io::Error {
    io::Error::other("the machine is off")
}

/// Removes the names below `dir`.
fn take_below(names: &mut BTreeMap<PathBuf, usize>, dir: &Path) -> BTreeMap<PathBuf, usize> {
    let (below, others) = std::mem::take(names).into_iter().partition(|(path, _)| path.starts_with(dir));
    *names = others;
    below
}

impl Inode {
    /// What the device has once all pending writes have reached it.
    fn on_its_way(&self) -> io::Result<Vec<u8>> {
        let mut bytes = self.durable.clone();
        for (offset, data) in &self.pending {
            write_slice(&mut bytes, *offset, data)?;
        }
        Ok(bytes)
    }
}

impl State {
    fn random(&mut self) -> u64 {
        // splitmix64
        self.rng = self.rng.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.rng;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Counts a changing call; the crash happens here.
    fn tick(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.faults.crash_at.is_some_and(|n| self.calls >= n) {
            self.dead = true;
        }
        self.failed += u64::from(self.dead);
        if self.dead { Err(dead()) } else { Ok(()) }
    }

    fn count_refusal(&mut self) {
        self.failed += 1;
        self.refused += 1;
    }

    /// Whether the call just counted is the one that [`Faults::error_at`] means.
    fn is_refused(&mut self) -> bool {
        let refused = self.faults.error_at.is_some_and(|n| self.calls >= n);
        if refused {
            self.faults.error_at = None;
            self.count_refusal();
        }
        refused
    }

    fn alive(&self, life: u64) -> io::Result<()> {
        if self.dead || life != self.life { Err(dead()) } else { Ok(()) }
    }

    /// Puts a random part of `data` into the durable bytes of `inode`.
    fn settle(&mut self, inode: usize, offset: u64, data: &[u8]) {
        let style = self.random() % 4;
        let sectors = data.len().div_ceil(SECTOR).max(1);
        let prefix = (self.random() as usize) % (sectors + 1);
        for (i, piece) in data.chunks(SECTOR).enumerate() {
            let keep = match style {
                0 => false,
                1 => true,
                2 => i < prefix,
                _ => self.random() & 1 == 1,
            };
            if keep {
                let at = offset + (i * SECTOR) as u64;
                // Cannot fail: the same range was written to `current` before.
                let _ = write_slice(&mut self.inodes[inode].durable, at, piece);
            }
        }
    }

    fn settle_all(&mut self, inode: usize) {
        let pending = std::mem::take(&mut self.inodes[inode].pending);
        for (offset, data) in pending {
            self.settle(inode, offset, &data);
        }
    }
}

impl CrashMedium {
    /// An empty disk; everything it decides follows from `seed`.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// assert!(CrashMedium::new(7).list("/".as_ref())?.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn new(seed: u64) -> Self {
        CrashMedium(Arc::new(Mutex::new(State {
            rng: seed,
            calls: 0,
            failed: 0,
            refused: 0,
            faults: Faults::default(),
            dead: false,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_ops: Vec::new(),
            away: Default::default(),
            locks: BTreeSet::new(),
            life: 0,
        })))
    }

    /// Sets which calls fail from now on.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Faults, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.set_faults(Faults { crash_at: Some(disk.calls() + 1), ..Faults::default() });
    /// assert!(disk.create("/d/a".as_ref()).is_err() && disk.is_dead());
    /// ```
    pub fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// The faults that have yet to come.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Faults, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.set_faults(Faults { error_at: Some(1), ..Faults::default() });
    /// assert!(disk.create("/d/a".as_ref()).is_err(), "the first call fails");
    /// assert_eq!(disk.faults().error_at, None);
    /// ```
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.0.lock().faults
    }

    /// Calls that were made to fail so far: an error of the engine while this stays the same has
    /// another cause.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Faults, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.set_faults(Faults { error_at: Some(2), ..Faults::default() });
    /// let file = disk.create("/d/a".as_ref())?;
    /// assert!(file.sync().is_err() && file.sync().is_ok());
    /// assert_eq!(disk.failed_calls(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn failed_calls(&self) -> u64 {
        self.0.lock().failed
    }

    /// Those of [`CrashMedium::failed_calls`] that failed before the crash, while the engine could
    /// go on after them.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Faults, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.set_faults(Faults { error_at: Some(1), crash_at: Some(2), ..Faults::default() });
    /// assert!(disk.create("/d/a".as_ref()).is_err() && disk.create("/d/a".as_ref()).is_err());
    /// assert_eq!((disk.refused_calls(), disk.failed_calls()), (1, 2));
    /// ```
    #[must_use]
    pub fn refused_calls(&self) -> u64 {
        self.0.lock().refused
    }

    /// A second disk that holds what this one does, for something that must not change this one. It
    /// decides as this one would.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.create("/d/a".as_ref())?;
    /// disk.fork().remove("/d/a".as_ref())?;
    /// assert_eq!(disk.list("/d".as_ref())?, ["a"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = State { locks: BTreeSet::new(), ..self.0.lock().clone() };
        CrashMedium(Arc::new(Mutex::new(state)))
    }

    /// The files in a directory, by their names, as somebody reads them who copies it.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.create("/d/a".as_ref())?.write_at(0, b"x")?;
    /// assert_eq!(disk.copy_of("/d".as_ref())["a"], b"x");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn copy_of(&self, dir: &Path) -> BTreeMap<String, Vec<u8>> {
        let s = self.0.lock();
        let files = s.names.iter().filter(|(path, _)| path.parent() == Some(dir));
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.map(|(path, &inode)| (name(path), s.inodes[inode].current.clone())).collect()
    }

    /// Puts a copy in the place of a directory, durably: its files are those of the copy and no
    /// others.
    ///
    /// ```
    /// use mmdb::medium::{CrashKind, CrashMedium, Medium};
    /// let disk = CrashMedium::new(1);
    /// let file = disk.create("/d/a".as_ref())?;
    /// let copy = disk.copy_of("/d".as_ref());
    /// file.write_at(0, b"x")?;
    /// disk.put("/d".as_ref(), &copy);
    /// disk.crash(CrashKind::Power);
    /// assert!(disk.open("/d/a".as_ref())?.is_empty()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn put(&self, dir: &Path, copy: &BTreeMap<String, Vec<u8>>) {
        let s = &mut *self.0.lock();
        let inside = |path: &PathBuf| path.parent() == Some(dir);
        s.names.retain(|path, _| !inside(path));
        s.durable_names.retain(|path, _| !inside(path));
        s.name_ops.retain(|op| op.dir() != Some(dir));
        for (name, bytes) in copy {
            s.inodes.push(Inode { durable: bytes.clone(), current: bytes.clone(), pending: Vec::new() });
            let (path, inode) = (dir.join(name), s.inodes.len() - 1);
            s.names.insert(path.clone(), inode);
            s.durable_names.insert(path, inode);
        }
    }

    /// All names and what their files are to hold when all that is written has reached the disk, in
    /// one number: two that are equal mean that nothing was written. Pages of a failed sync do not
    /// count: whether a reader finds them still in the cache or has dropped them, he has written
    /// nothing.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// let disk = CrashMedium::new(1);
    /// let file = disk.create("/d/a".as_ref())?;
    /// let before = disk.fingerprint();
    /// file.write_at(0, b"x")?;
    /// assert_ne!(disk.fingerprint(), before);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let s = self.0.lock();
        s.names.iter().fold(0, |sum, (path, &inode)| {
            let name = crc32c::crc32c(path.as_os_str().as_encoded_bytes());
            // What cannot be put together (a write past any memory) counts as its durable part.
            let inode = &s.inodes[inode];
            let content = inode.on_its_way().unwrap_or_else(|_| inode.durable.clone());
            let content = crc32c::crc32c_append(name, &content);
            crate::key::mix(sum, u64::from(name) << 32 | u64::from(content))
        })
    }

    /// Takes all files below `dir` away, as when a disk is not mounted; [`CrashMedium::mount`]
    /// brings them back.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.create("/d/a".as_ref())?;
    /// disk.unmount("/d".as_ref());
    /// assert!(disk.list("/d".as_ref())?.is_empty());
    /// disk.mount();
    /// assert_eq!(disk.list("/d".as_ref())?, ["a"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn unmount(&self, dir: &Path) {
        let s = &mut *self.0.lock();
        s.away.0.extend(take_below(&mut s.names, dir));
        s.away.1.extend(take_below(&mut s.durable_names, dir));
        s.away.2.extend(s.name_ops.extract_if(.., |op| op.dir().is_some_and(|d| d.starts_with(dir))));
    }

    /// Brings back what [`CrashMedium::unmount`] took away.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.create("/d/a".as_ref())?;
    /// disk.unmount("/d".as_ref());
    /// disk.mount();
    /// assert!(disk.open("/d/a".as_ref()).is_ok());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn mount(&self) {
        let s = &mut *self.0.lock();
        let (names, durable_names, name_ops) = std::mem::take(&mut s.away);
        s.names.extend(names);
        s.durable_names.extend(durable_names);
        s.name_ops.extend(name_ops);
    }

    /// Changing calls made so far.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.create("/d/a".as_ref())?.write_at(0, b"x")?;
    /// assert_eq!(disk.calls(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// True from the crash until [`CrashMedium::crash`] brings the machine back.
    ///
    /// ```
    /// use mmdb::medium::{CrashKind, CrashMedium, Faults, Medium};
    /// let disk = CrashMedium::new(1);
    /// disk.set_faults(Faults { crash_at: Some(1), ..Faults::default() });
    /// assert!(!disk.is_dead() && disk.create("/d/a".as_ref()).is_err() && disk.is_dead());
    /// disk.crash(CrashKind::Power);
    /// assert!(!disk.is_dead());
    /// ```
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    /// Ends this life: what was open is useless, what survives is on the disk, faults are cleared.
    ///
    /// ```
    /// use mmdb::medium::{CrashKind, CrashMedium};
    /// use mmdb::{ColumnType, Database, Options, Schema};
    /// let disk = CrashMedium::new(1);
    /// let medium = std::sync::Arc::new(disk.clone());
    /// // Threads of the database's own would go on after the crash, and change the disk.
    /// let options = Options { medium, background: false, ..Options::in_memory() };
    /// let db = Database::open("/db", options.clone())?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;                  // acknowledged
    /// disk.crash(CrashKind::Power);
    /// let db = Database::open("/db", options)?;
    /// assert_eq!(db.begin()?.scan(&db.table("t")?)?.count(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    pub fn crash(&self, kind: CrashKind) {
        let mut s = self.0.lock();
        s.dead = false;
        s.life += 1;
        s.faults = Faults::default();
        s.locks.clear();
        if kind == CrashKind::Kill {
            return;
        }
        for inode in 0..s.inodes.len() {
            s.settle_all(inode);
            let durable = s.inodes[inode].durable.clone();
            s.inodes[inode].current = durable;
        }
        let ops = std::mem::take(&mut s.name_ops);
        let ordered = s.random() & 1 == 0;
        let keep = if ops.is_empty() { 0 } else { (s.random() as usize) % (ops.len() + 1) };
        for (i, op) in ops.iter().enumerate() {
            // Half of the crashes keep a prefix, as a journalling file system does, half keep any
            // subset.
            if if ordered { i < keep } else { s.random() & 1 == 1 } {
                let mut names = std::mem::take(&mut s.durable_names);
                op.apply(&mut names);
                s.durable_names = names;
            }
        }
        s.names = s.durable_names.clone();
    }

    /// Flips one bit of a file, on the device and in the cache: rot, for tests of detection.
    ///
    /// ```
    /// use mmdb::medium::{CrashMedium, Medium};
    /// use std::path::Path;
    /// let disk = CrashMedium::new(1);
    /// let f = disk.create(Path::new("/d/a"))?;
    /// f.write_at(0, b"a")?;
    /// disk.flip_bit(Path::new("/d/a"), 0, 1)?;
    /// let mut b = [0];
    /// f.read_at(0, &mut b)?;
    /// assert_eq!(&b, b"c");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let mut s = self.0.lock();
        let i = *s.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let at = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mask = 1u8 << (bit & 7);
        for data in [0, 1] {
            let inode = &mut s.inodes[i];
            let bytes = if data == 0 { &mut inode.current } else { &mut inode.durable };
            if let Some(b) = bytes.get_mut(at) {
                *b ^= mask;
            }
        }
        Ok(())
    }

    fn file(&self, inode: usize, life: u64) -> Arc<dyn MediumFile> {
        Arc::new(CrashFile { disk: self.clone(), inode, life })
    }

    fn name_op(&self, op: NameOp) -> io::Result<()> {
        let mut s = self.0.lock();
        let died = s.tick();
        // The call under way at the crash may or may not have reached the file system.
        if died.is_err() && (s.calls != s.faults.crash_at.unwrap_or(0) || s.random() & 1 == 0) {
            return died;
        }
        let mut done = died;
        if done.is_ok() && s.is_refused() {
            if matches!(op, NameOp::Link(..)) {
                return Err(io::Error::from_raw_os_error(28));
            }
            done = Err(io::Error::from_raw_os_error(5));
            if s.random() & 1 == 0 {
                return done;
            }
        }
        let mut names = std::mem::take(&mut s.names);
        op.apply(&mut names);
        s.names = names;
        s.name_ops.push(op);
        done
    }
}

struct DirectoryLock(CrashMedium, PathBuf, u64);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        let mut s = self.0.0.lock();
        // A lock of an earlier life died with its process.
        if s.life == self.2 {
            s.locks.remove(&self.1);
        }
    }
}

impl Medium for CrashMedium {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let s = self.0.lock();
        s.alive(s.life)?;
        let inode = *s.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let life = s.life;
        drop(s);
        Ok(self.file(inode, life))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let (inode, life) = {
            let mut s = self.0.lock();
            s.inodes.push(Inode::default());
            (s.inodes.len() - 1, s.life)
        };
        self.name_op(NameOp::Link(path.to_path_buf(), inode))?;
        Ok(self.file(inode, life))
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        let mut s = self.0.lock();
        s.tick()?;
        if s.is_refused() { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = *self.0.lock().names.get(from).ok_or(io::ErrorKind::NotFound)?;
        self.name_op(NameOp::Rename(from.to_path_buf(), to.to_path_buf(), inode))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.0.lock().names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.name_op(NameOp::Unlink(path.to_path_buf()))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut s = self.0.lock();
        s.tick()?;
        if s.is_refused() {
            return Err(io::Error::from_raw_os_error(5));
        }
        let ops = std::mem::take(&mut s.name_ops);
        let mut names = std::mem::take(&mut s.durable_names);
        for op in ops {
            if op.dir() == Some(dir) {
                op.apply(&mut names);
            } else {
                s.name_ops.push(op);
            }
        }
        s.durable_names = names;
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let s = self.0.lock();
        s.alive(s.life)?;
        let names = s.names.keys().filter(|p| p.parent() == Some(dir)).filter_map(|p| p.file_name());
        Ok(names.map(|n| n.to_string_lossy().into_owned()).collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut s = self.0.lock();
        s.alive(s.life)?;
        if !s.locks.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(DirectoryLock(self.clone(), path.to_path_buf(), s.life)))
    }
}

impl MediumFile for CrashFile {
    fn len(&self) -> io::Result<u64> {
        let s = self.disk.0.lock();
        s.alive(self.life)?;
        Ok(s.inodes[self.inode].current.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let s = self.disk.0.lock();
        s.alive(self.life)?;
        Ok(read_slice(&s.inodes[self.inode].current, offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut s = self.disk.0.lock();
        if self.life != s.life {
            return Err(dead());
        }
        if let Err(e) = s.tick() {
            if s.faults.crash_at == Some(s.calls) {
                let n = (s.random() as usize) % (data.len() + 1);
                write_slice(&mut s.inodes[self.inode].current, offset, &data[..n])?;
                s.inodes[self.inode].pending.push((offset, data[..n].to_vec()));
            }
            return Err(e);
        }
        if let Some(capacity) = s.faults.capacity {
            let used: usize = s.inodes.iter().map(|i| i.current.len()).sum();
            let have = s.inodes[self.inode].current.len() as u64;
            let grow = (offset + data.len() as u64).saturating_sub(have);
            if grow > 0 && used as u64 + grow > capacity {
                s.count_refusal();
                return Err(io::Error::from_raw_os_error(28));
            }
        }
        let refused = s.is_refused();
        let fail = refused || s.faults.write_error_at.is_some_and(|n| s.calls >= n);
        let n = if fail { (s.random() as usize) % (data.len() + 1) } else { data.len() };
        write_slice(&mut s.inodes[self.inode].current, offset, &data[..n])?;
        s.inodes[self.inode].pending.push((offset, data[..n].to_vec()));
        if refused {
            return Err(io::Error::from_raw_os_error(28));
        }
        if fail {
            s.faults.write_error_at = None;
            s.count_refusal();
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut s = self.disk.0.lock();
        if self.life != s.life {
            return Err(dead());
        }
        s.tick()?;
        let refused = s.is_refused();
        if refused || s.faults.sync_error_at.is_some_and(|n| s.calls >= n) {
            if !refused {
                s.faults.sync_error_at = None;
                s.count_refusal();
            }
            s.settle_all(self.inode);
            return Err(io::Error::from_raw_os_error(5));
        }
        let inode = &mut s.inodes[self.inode];
        for (offset, data) in std::mem::take(&mut inode.pending) {
            write_slice(&mut inode.durable, offset, &data)?;
        }
        Ok(())
    }

    /// Pages of a failed sync are clean in the cache; dropping them shows what the device has.
    fn drop_cache(&self) -> io::Result<()> {
        let mut s = self.disk.0.lock();
        s.alive(self.life)?;
        let inode = &mut s.inodes[self.inode];
        inode.current = inode.on_its_way()?;
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let have = self.len()?;
        if have < len {
            let n = usize::try_from(len - have).map_err(|_| io::ErrorKind::InvalidInput)?;
            self.write_at(have, &vec![0; n])?;
        }
        self.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_under_a_synced_name_survive_every_power_cut() {
        for seed in 0..200 {
            let m = CrashMedium::new(seed);
            let f = m.create(Path::new("/d/a")).unwrap();
            f.write_at(0, &[7; 2000]).unwrap();
            f.sync().unwrap();
            m.sync_dir(Path::new("/d")).unwrap();
            f.write_at(0, &[9; 2000]).unwrap();
            m.crash(CrashKind::Power);
            let f = m.open(Path::new("/d/a")).unwrap();
            let mut b = [0; 2000];
            assert_eq!(f.read_at(0, &mut b).unwrap(), 2000);
            for sector in b.chunks(SECTOR) {
                assert!(sector.iter().all(|&x| x == sector[0]), "a sector is torn inside");
            }
        }
    }

    #[test]
    fn every_outcome_of_an_unsynced_write_occurs() {
        let mut seen = BTreeSet::new();
        for seed in 0..400 {
            let m = CrashMedium::new(seed);
            let f = m.create(Path::new("/d/a")).unwrap();
            f.preallocate(1024).unwrap();
            m.sync_dir(Path::new("/d")).unwrap();
            f.write_at(0, &[1; 1024]).unwrap();
            m.crash(CrashKind::Power);
            let f = m.open(Path::new("/d/a")).unwrap();
            let mut b = [0; 1024];
            f.read_at(0, &mut b).unwrap();
            seen.insert((b[0], b[512]));
        }
        assert_eq!(seen.len(), 4, "kept, dropped, prefix and reordered: {seen:?}");
    }

    #[test]
    fn a_kill_keeps_what_a_power_cut_can_still_take() {
        let mut lost = 0;
        for seed in 0..100 {
            let m = CrashMedium::new(seed);
            let f = m.create(Path::new("/d/a")).unwrap();
            f.preallocate(512).unwrap();
            m.sync_dir(Path::new("/d")).unwrap();
            f.write_at(0, &[1; 512]).unwrap();
            m.crash(CrashKind::Kill);
            let mut b = [0; 512];
            m.open(Path::new("/d/a")).unwrap().read_at(0, &mut b).unwrap();
            assert_eq!(b[0], 1);
            assert!(f.write_at(0, &[2; 512]).is_err(), "a file of an earlier life is closed");
            m.crash(CrashKind::Power);
            m.open(Path::new("/d/a")).unwrap().read_at(0, &mut b).unwrap();
            lost += usize::from(b[0] == 0);
        }
        assert!(lost > 10 && lost < 90, "{lost}");
    }
}
