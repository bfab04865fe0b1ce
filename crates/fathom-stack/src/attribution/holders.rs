//! Which file held a block of the device, and when.

use std::collections::HashMap;

use fathom_probe::Note;

use super::cause::Cause;

/// A time during which a block was one file's, CLOCK_MONOTONIC ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    from_ns: u64,
    /// `u64::MAX` while it lasts.
    until_ns: u64,
    cause: Cause,
}

/// Who held each block, in order of time. Blocks are of [`Holders::granularity`] bytes.
#[derive(Debug)]
pub(super) struct Holders {
    step: u64,
    blocks: HashMap<u64, Vec<Hold>>,
}

impl Default for Holders {
    fn default() -> Self {
        Holders { step: COARSE, blocks: HashMap::new() }
    }
}

/// The usual block of a file system, and the smallest that any has, bytes.
const COARSE: u64 = 4096;
const FINE: u64 = 512;

impl Holders {
    /// Follows notes; `causes` says what the file of each number counts as.
    pub fn of(notes: &[Note], causes: &[Cause]) -> Holders {
        let mut notes = notes.to_vec();
        // Threads note in their own time, and the files found at the end come behind.
        notes.sort_by_key(at_ns);
        let coarse =
            notes.iter().map(place).all(|(start, length)| start % COARSE == 0 && length % COARSE == 0);
        let mut all = Holders { step: if coarse { COARSE } else { FINE }, blocks: HashMap::new() };
        for note in &notes {
            let (start, length) = place(note);
            for block in start / all.step..(start + length).div_ceil(all.step) {
                match *note {
                    Note::Mapped { at_ns, file, .. } => {
                        let Some(&cause) = causes.get(file as usize) else { continue };
                        all.begin(block, at_ns, cause);
                    }
                    Note::Freed { at_ns, .. } => all.end(block, at_ns),
                }
            }
        }
        all
    }

    /// Bytes of a block.
    pub fn granularity(&self) -> u64 {
        self.step
    }

    fn begin(&mut self, block: u64, at_ns: u64, cause: Cause) {
        let holds = self.blocks.entry(block).or_default();
        match holds.last_mut() {
            // The same kind of file again: nothing else had it in between, or it would have been
            // seen.
            Some(last) if last.cause == cause => last.until_ns = u64::MAX,
            last => {
                if let Some(last) = last {
                    last.until_ns = last.until_ns.min(at_ns);
                }
                holds.push(Hold { from_ns: at_ns, until_ns: u64::MAX, cause });
            }
        }
    }

    fn end(&mut self, block: u64, at_ns: u64) {
        if let Some(last) = self.blocks.get_mut(&block).and_then(|holds| holds.last_mut()) {
            last.until_ns = last.until_ns.min(at_ns);
        }
    }

    /// Whose the byte at `offset` of the device was when it was written (or read) at `at_ns`.
    pub fn at(&self, offset: u64, at_ns: u64) -> Option<Cause> {
        let holds = self.blocks.get(&(offset / self.step))?;
        // The first that had not ended: it holds, or is the next to be seen. Else the last.
        holds.iter().find(|hold| at_ns < hold.until_ns).or(holds.last()).map(|hold| hold.cause)
    }
}

fn at_ns(note: &Note) -> u64 {
    match *note {
        Note::Mapped { at_ns, .. } | Note::Freed { at_ns, .. } => at_ns,
    }
}

fn place(note: &Note) -> (u64, u64) {
    match *note {
        Note::Mapped { physical, length, .. } | Note::Freed { physical, length, .. } => (physical, length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(at_ns: u64, file: u32, physical: u64, length: u64) -> Note {
        Note::Mapped { at_ns, file, physical, length }
    }

    /// A journal's block becomes the database's: each write goes to the one that was there, though
    /// it was seen later.
    #[test]
    fn a_block_that_changes_hands_is_told_apart_by_time() {
        let causes = [Cause::Database, Cause::RollbackJournal];
        let notes = [
            mapped(11, 1, 8192, 4096),
            Note::Freed { at_ns: 20, file: 1, physical: 8192, length: 4096 },
            mapped(31, 0, 8192, 8192),
        ];
        let holders = Holders::of(&notes, &causes);
        let at = |offset, ns| holders.at(offset, ns);
        assert_eq!(at(8192, 9), Some(Cause::RollbackJournal), "written before it was seen");
        assert_eq!(at(8192, 15), Some(Cause::RollbackJournal));
        assert_eq!(at(8192, 30), Some(Cause::Database), "written after the journal went");
        assert_eq!(at(8192, 99), Some(Cause::Database));
        assert_eq!(at(12288, 9), Some(Cause::Database));
        assert_eq!(at(4096, 9), None);
        assert_eq!(holders.granularity(), 4096);
    }

    #[test]
    fn what_is_given_back_still_belonged_to_its_last_holder() {
        let notes = [mapped(1, 0, 0, 4096), Note::Freed { at_ns: 5, file: 0, physical: 0, length: 4096 }];
        let holders = Holders::of(&notes, &[Cause::Wal]);
        assert_eq!(holders.at(0, 7), Some(Cause::Wal));
    }

    #[test]
    fn small_blocks_make_it_finer() {
        let holders = Holders::of(&[mapped(1, 0, 1024, 1024)], &[Cause::Database]);
        assert_eq!(holders.granularity(), 512);
        assert_eq!((holders.at(1024, 0), holders.at(2048, 0)), (Some(Cause::Database), None));
    }
}
