//! Directory trees of tests: a place of their own, pictures of them, copies.
// Not every test needs all of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A directory that goes when the test ends.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("mmdb-{name}-{}-{n}", std::process::id()));
        // What a program of this number has left that was killed.
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn picture(&self) -> Picture {
        let mut all = Picture::new();
        walk(&self.0, &mut all);
        all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every name with its time of change and its content, directories too: whatever is written shows.
pub type Picture = BTreeMap<PathBuf, (SystemTime, Option<u64>)>;

fn walk(dir: &Path, all: &mut Picture) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    all.insert(dir.into(), (std::fs::metadata(dir).unwrap().modified().unwrap(), None));
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let about = std::fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            walk(&path, all);
        } else if about.is_file() {
            let mut hash = DefaultHasher::new();
            std::fs::read(&path).unwrap().hash(&mut hash);
            all.insert(path, (about.modified().unwrap(), Some(hash.finish())));
        } else {
            all.insert(path, (about.modified().unwrap(), None));
        }
    }
}

/// What a power cut at this moment would leave of an open database whose commits were all waited
/// for. Files come before directories: a manifest that is stored meanwhile must not be newer than
/// the log. A segment that recovery does not need may get another name meanwhile, and be the next
/// one: see [`wait_for_ready_segments`].
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let paths = std::fs::read_dir(from).unwrap().map(|e| e.unwrap().path());
    let (dirs, files): (Vec<_>, Vec<_>) = paths.partition(|p| p.is_dir());
    for path in files {
        match std::fs::copy(&path, to.join(path.file_name().unwrap())) {
            // A temporary file of the manifest has taken its name meanwhile.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && path.extension().is_some() => {}
            done => drop(done.unwrap()),
        }
    }
    for path in dirs {
        copy(&path, &to.join(path.file_name().unwrap()));
    }
}

/// Waits until the last two segments of a log have no frames, as many as are got ready ahead. The
/// thread that does so has stated all before the last of them by then, and begins no other.
pub fn wait_for_ready_segments(log: &Path) {
    let began = Instant::now();
    let ready = || {
        let names = std::fs::read_dir(log).unwrap().map(|e| e.unwrap().path());
        let mut all: Vec<_> = names.filter(|p| p.to_string_lossy().contains("segment-")).collect();
        all.sort();
        // One that has just been made of an older one has still the older one's frames.
        let has_frames = |p: &PathBuf| std::fs::read(p).unwrap_or_default().starts_with(b"MMDBSEG1");
        all.iter().rev().take_while(|p| !has_frames(p)).count()
    };
    while ready() < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "two segments are ready");
        std::thread::sleep(Duration::from_millis(5));
    }
}
