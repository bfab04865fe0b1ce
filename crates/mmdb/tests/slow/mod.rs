//! A medium in memory whose flushes of the log wait while its gate is shut. A segment that is only
//! got ready is synced all the same: so who waits at the gate has frames, however late the thread
//! that prepares segments is.
#[path = "../handing_on/mod.rs"]
mod handing_on;

use handing_on::hand_on;
use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Whether it is shut, and how many wait.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<(bool, u32)>, Condvar)>);

impl Gate {
    pub fn set(&self, shut: bool) {
        self.0.0.lock().unwrap().0 = shut;
        self.0.1.notify_all();
    }

    pub fn has_waiter(&self) -> bool {
        self.0.0.lock().unwrap().1 > 0
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.1 += 1;
        while state.0 {
            state = self.0.1.wait(state).unwrap();
        }
        state.1 -= 1;
    }
}

#[derive(Debug)]
pub struct Slow(pub MemoryMedium, pub Gate);

/// Of a segment with the gate, and whether frames were written to it.
#[derive(Debug)]
struct SlowFile(Arc<dyn MediumFile>, Option<(Gate, AtomicBool)>);

impl Slow {
    fn slowed(&self, path: &Path, file: Arc<dyn MediumFile>) -> Arc<dyn MediumFile> {
        let is_segment = path.to_string_lossy().contains("segment-");
        Arc::new(SlowFile(file, is_segment.then(|| (self.1.clone(), AtomicBool::new(false)))))
    }
}

impl Medium for Slow {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.slowed(path, self.0.open(path)?))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.slowed(path, self.0.create(path)?))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    hand_on!(0);
}

impl MediumFile for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some((_, has_frames)) = &self.1
            && offset > 0
        {
            // Before them there is the header.
            has_frames.store(true, Ordering::SeqCst);
        }
        self.0.write_at(offset, data)
    }
    fn sync(&self) -> io::Result<()> {
        if let Some((gate, has_frames)) = &self.1
            && has_frames.load(Ordering::SeqCst)
        {
            gate.pass();
        }
        self.0.sync()
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.0.preallocate(len)
    }
}
