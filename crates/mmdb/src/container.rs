//! Containers: the unit of allocation, of latching and of checkpointing.
//!
//! A container is a run of equal slots. A slot is `version u64 | meta u32 | row bytes | zeros`;
//! `meta` holds the row's length (low 16 bits), the generation of the table's columns that it was
//! written in (bits 17 to 30) and whether it is live (bit 31). Version counts the changes the slot
//! has seen. Everything behind the version is the *body*, which is what the log takes differences
//! of.

use crate::codec::{u32_at, u64_at};
use crate::prefetch;
use crate::snapshot::Versions;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, RwLock};

/// Bytes of a slot before the row: version and meta.
pub(crate) const SLOT_HEAD: usize = 12;
/// Offset of the body in a slot.
pub(crate) const BODY: usize = 8;
/// Bytes of meta at the start of a body.
pub(crate) const META: usize = 4;
/// Set in `meta` while the row exists.
pub(crate) const LIVE: u32 = 1 << 31;
/// Bits of `meta` below those of the generation.
const GENERATION: u32 = 17;
/// Lock unit of [`crate::Locking::Page`], bytes.
pub(crate) const PAGE: usize = 4096;

/// Most containers a table has: 256 GiB of them at 64 KiB.
pub(crate) const MAX_CONTAINERS: u32 = 1 << 22;

/// Slot sizes, bytes. A row lives in the smallest class that holds it.
pub(crate) const CLASSES: [usize; 24] = [
    32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096, 8192,
    16384, 32768, 49152, 65536,
];

/// The class for a row of `len` bytes in containers of `container` bytes.
pub(crate) fn class_of(len: usize, container: usize) -> Option<u8> {
    let need = len + SLOT_HEAD;
    if len > 0xffff {
        return None;
    }
    let c = CLASSES.iter().position(|&s| s >= need)?;
    (CLASSES[c] <= container).then_some(c as u8)
}

/// Place of a row: container of its table, slot in it. Stable until the row outgrows its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rid(pub(crate) u64);

impl Rid {
    pub(crate) fn new(container: u32, slot: u16) -> Rid {
        Rid(u64::from(container) << 16 | u64::from(slot))
    }

    #[inline]
    pub(crate) fn container(self) -> u32 {
        (self.0 >> 16) as u32
    }

    #[inline]
    pub(crate) fn slot(self) -> u16 {
        self.0 as u16
    }
}

/// A run of slots of one class, under one latch. What a read needs stands first, in one line of the
/// caches.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Container {
    pub(crate) bytes: RwLock<Box<[u8]>>,
    pub(crate) slot_size: usize,
    /// Where its bytes are, or were: for nothing but to fetch them ahead of use.
    address: usize,
    pub(crate) class: u8,
    /// Per side: changed since that side's last checkpoint.
    pub(crate) dirty: [AtomicBool; 2],
    /// Position of this container's image in the files of both checkpoint sides.
    pub(crate) image: u32,
    before: Before,
    /// The newest snapshot when this was made: it and those before it see nothing here.
    pub(crate) born: u64,
    /// What open snapshots see of slots that have changed since.
    pub(crate) versions: Mutex<Versions>,
}

/// What a container held at the moment that an image is of, while that is being taken. Only used
/// under the container's latch.
#[derive(Debug)]
struct Before {
    /// The first change has to keep what was there.
    wanted: AtomicBool,
    kept: Mutex<Option<Box<[u8]>>>,
}

/// Zeros for a container, or `None` without memory. Each page is written to: one that is read
/// first, as replay and a commit's difference read a slot, is mapped to the kernel's page of zeros,
/// and the write that follows then interrupts every processor. Half of the time of a replay went
/// into that.
pub(crate) fn zeros(size: usize) -> Option<Box<[u8]>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).ok()?;
    bytes.resize(size, 0u8);
    for page in bytes.chunks_mut(PAGE) {
        // A compiler may make the two lines above an allocation of zeros, which touches nothing.
        std::hint::black_box(&mut *page)[0] = 0;
    }
    Some(bytes.into_boxed_slice())
}

impl Container {
    pub(crate) fn new(class: u8, image: u32, bytes: Box<[u8]>) -> Container {
        Container {
            class,
            slot_size: CLASSES[usize::from(class) % CLASSES.len()],
            address: bytes.as_ptr().addr(),
            image,
            dirty: [AtomicBool::new(true), AtomicBool::new(true)],
            bytes: RwLock::new(bytes),
            before: Before { wanted: AtomicBool::new(false), kept: Mutex::new(None) },
            born: 0,
            versions: Mutex::default(),
        }
    }

    /// A container that is made while snapshot `newest` is open; 0 if none is.
    pub(crate) fn born_after(mut self, newest: u64) -> Container {
        self.born = newest;
        self
    }

    /// From now on [`Container::take_before`] gives what is here now. To be called while nobody
    /// changes it.
    pub(crate) fn want_before(&self) {
        let left = self.before.kept.lock().take();
        assert!(left.is_none(), "the copy for the last moment was taken or given up");
        self.before.wanted.store(true, Ordering::Relaxed);
    }

    /// Before a change of `bytes`, which the caller has latched: keeps them if that is wanted.
    pub(crate) fn keep_before(&self, bytes: &[u8]) {
        if self.before.wanted.load(Ordering::Relaxed) {
            self.before.wanted.store(false, Ordering::Relaxed);
            *self.before.kept.lock() = Some(bytes.into());
        }
    }

    /// What was here when it was wanted, if it has changed since; from now on it is not kept any
    /// more. The caller has latched the container.
    pub(crate) fn take_before(&self) -> Option<Box<[u8]>> {
        self.before.wanted.store(false, Ordering::Relaxed);
        self.before.kept.lock().take()
    }

    pub(crate) fn slots(&self, container_size: usize) -> u16 {
        (container_size / self.slot_size) as u16
    }

    pub(crate) fn mark_dirty(&self) {
        for d in &self.dirty {
            // Reading first keeps the line shared between cores while it is set already.
            if !d.load(Ordering::Relaxed) {
                d.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Begins to bring a slot into the caches.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u16) {
        prefetch::bytes(self.address + usize::from(slot) * self.slot_size, self.slot_size);
    }

    #[inline]
    pub(crate) fn range(&self, slot: u16) -> std::ops::Range<usize> {
        let at = usize::from(slot) * self.slot_size;
        at..at + self.slot_size
    }
}

/// The `meta` of a live row of `len` bytes, written in a generation of its table's columns.
#[inline]
pub(crate) fn meta_of(len: usize, generation: u16) -> u32 {
    debug_assert!(len <= 0xffff && generation < crate::generations::MAX_GENERATIONS);
    LIVE | u32::from(generation) << GENERATION | len as u32
}

/// A slot's bytes, read.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a>(pub(crate) &'a [u8]);

impl<'a> Slot<'a> {
    pub(crate) fn version(self) -> u64 {
        u64_at(self.0, 0)
    }

    pub(crate) fn meta(self) -> u32 {
        u32_at(self.0, BODY)
    }

    pub(crate) fn is_live(self) -> bool {
        self.meta() & LIVE != 0
    }

    /// Length of the row bytes present, live or not.
    pub(crate) fn len(self) -> usize {
        ((self.meta() & 0xffff) as usize).min(self.0.len() - SLOT_HEAD)
    }

    /// The generation of its table's columns in which the row was written.
    #[inline]
    pub(crate) fn generation(self) -> u16 {
        ((self.meta() & !LIVE) >> GENERATION) as u16
    }

    /// The row, if live, as it was written.
    pub(crate) fn row(self) -> Option<&'a [u8]> {
        self.is_live().then(|| &self.0[SLOT_HEAD..SLOT_HEAD + self.len()])
    }

    pub(crate) fn body(self) -> &'a [u8] {
        &self.0[BODY..]
    }
}

/// Makes `row`, of this generation, the live content of the slot and counts the change.
pub(crate) fn write_slot(slot: &mut [u8], row: &[u8], generation: u16) {
    assert!(row.len() <= 0xffff && SLOT_HEAD + row.len() <= slot.len(), "the row fits its slot");
    let old = Slot(slot).len();
    let version = Slot(slot).version() + 1;
    slot[..8].copy_from_slice(&version.to_le_bytes());
    slot[8..12].copy_from_slice(&meta_of(row.len(), generation).to_le_bytes());
    slot[SLOT_HEAD..SLOT_HEAD + row.len()].copy_from_slice(row);
    if old > row.len() {
        slot[SLOT_HEAD + row.len()..SLOT_HEAD + old].fill(0);
    }
}

/// Marks the slot's row as gone and counts the change; `scrub` also zeroes the row.
pub(crate) fn clear_slot(slot: &mut [u8], scrub: bool) {
    let version = Slot(slot).version() + 1;
    let (len, meta) = (Slot(slot).len(), Slot(slot).meta());
    slot[..8].copy_from_slice(&version.to_le_bytes());
    if scrub {
        slot[8..SLOT_HEAD + len].fill(0);
    } else {
        slot[8..12].copy_from_slice(&(meta & !LIVE).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_zeros_behind_its_row() {
        let mut s = vec![0; 64];
        write_slot(&mut s, &[1; 40], 0);
        write_slot(&mut s, &[2; 10], 3);
        assert_eq!((Slot(&s).row(), Slot(&s).generation()), (Some(&[2u8; 10][..]), 3));
        assert!(s[SLOT_HEAD + 10..].iter().all(|&b| b == 0));
        clear_slot(&mut s, false);
        assert_eq!((Slot(&s).row(), Slot(&s).len(), Slot(&s).version()), (None, 10, 3));
        clear_slot(&mut s, true);
        assert!(s[BODY..].iter().all(|&b| b == 0));
    }
}
