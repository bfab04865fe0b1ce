//! Where records lie in an archive, by stretches.

use std::ops::{Range, RangeInclusive};

/// Records that lie behind each other in the file: where, and what numbers they have. Small enough
/// that looking through all of them is quick; that a stretch has them all in memory would cost what
/// archiving is to spare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub ids: RangeInclusive<i64>,
    /// The number that the file has, or will have, when it is closed.
    pub file: u32,
    pub octets: Range<u64>,
}

/// Records of a stretch at most.
const STRETCH: usize = 1024;

/// The stretches of an archive, shared by who appends and who reads.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    pub all: Vec<Stretch>,
    /// Records in the last one.
    last: usize,
    /// The number of the file that is appended to.
    pub open: u32,
}

impl Stretches {
    pub fn add(&mut self, id: i64, file: u32, octets: Range<u64>) {
        match self.all.last_mut() {
            Some(last) if self.last < STRETCH && last.file == file => {
                last.ids = *last.ids.start().min(&id)..=*last.ids.end().max(&id);
                last.octets.end = octets.end;
                self.last += 1;
            }
            _ => {
                self.all.push(Stretch { ids: id..=id, file, octets });
                self.last = 1;
            }
        }
    }

    /// Adds those of a closed file, behind which another begins.
    pub fn add_closed(&mut self, stretches: Vec<Stretch>) {
        self.all.extend(stretches);
        self.last = STRETCH;
    }

    pub fn into_all(self) -> Vec<Stretch> {
        self.all
    }

    /// Those of a file.
    pub fn of(&self, file: u32) -> Vec<Stretch> {
        self.all.iter().filter(|stretch| stretch.file == file).cloned().collect()
    }
}
