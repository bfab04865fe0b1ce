//! What the path to a device takes by itself: a device without delays, served through FUSE beside
//! the target, and measured alike.

use super::sizes::BLOCK;
use super::target::{Direction, Target};
use crate::disk::{Disk, Options};
use crate::presets::preset;
use fathom_ground::mountinfo::mount_of;

/// Medians of a read, a write and a flush, ns; none where the target is not served through FUSE, or
/// such a device cannot be served.
pub(super) fn of(target: &mut Target<'_>, count: usize) -> Option<[f64; 3]> {
    if !mount_of(&target.path).is_ok_and(|mount| mount.filesystem.starts_with("fuse")) {
        return None;
    }
    let at = std::env::temp_dir().join(format!("fathom-path-{}", std::process::id()));
    std::fs::create_dir(&at).ok()?;
    let times = measured(target, &at, count);
    // Still mounted where that failed: then it stays, and is empty.
    let _ = std::fs::remove_dir(&at);
    times
}

fn measured(target: &mut Target<'_>, at: &std::path::Path, count: usize) -> Option<[f64; 3]> {
    let image = rustix::fs::memfd_create("fathom-path", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    rustix::fs::ftruncate(&image, target.bytes).ok()?;
    let options = Options {
        model: preset("none")?.clone(),
        seed: 1,
        log: None,
        capture: false,
        answers: None,
        faults: Vec::new(),
    };
    let disk = Disk::serve(image.into(), at, options).ok()?;
    let times = target.beside(&disk.path(), |other| {
        let [read, write] = [Direction::Read, Direction::Write]
            .map(|what| other.random(what, BLOCK, count, std::time::Duration::from_secs(2)));
        let mut flushes = Vec::new();
        for _ in 0..count.min(200) {
            other.operate(Direction::Write, 0, BLOCK)?;
            flushes.push(other.flush()? as f64);
        }
        Ok([read?.median(), write?.median(), super::sorted::median(flushes)])
    });
    disk.stop().ok()?;
    times
}
