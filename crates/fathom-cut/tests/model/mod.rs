//! A disk, or two, and a store that are only modelled: what was written, answered and flushed in
//! which order is known for certain.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::collections::BTreeSet;

use fathom_cut::{BLOCK_BYTES, CutError, DeviceLog, Epoch, History, Judge, Side, State, States, Verdict};
use fathom_device::{End, Log, Mark, Operation, Outcome, Record};
use fathom_random::Random;

/// A disk that answers in a random order; or two of them, as a file system and its external log
/// have, whose answers are counted together.
pub struct Disk {
    pub random: Random,
    /// Of each side.
    logs: [Log; 2],
    data: [Vec<u8>; 2],
    /// What was asked for and not answered.
    under_way: Vec<(Side, Record)>,
    answered: u64,
    /// Which of the two is asked.
    pub side: Side,
}

impl Disk {
    pub fn new(seed: u64) -> Disk {
        let log = || Log { records: Vec::new(), places: Vec::new(), marks: Vec::new(), end: End::Complete };
        Disk {
            random: Random::new(seed),
            logs: [log(), log()],
            data: Default::default(),
            under_way: Vec::new(),
            answered: 0,
            side: Side::Main,
        }
    }

    fn ask(&mut self, operation: Operation, offset: u64, bytes: u32, data_at: Option<u64>) {
        let record = Record {
            operation,
            outcome: Outcome::Done,
            sequential: false,
            stalled: false,
            offset,
            bytes,
            arrival_ns: 0,
            asked_ns: 0,
            given_ns: 0,
            data_at,
            after: Some(self.answered),
        };
        self.under_way.push((self.side, record));
    }

    pub fn write(&mut self, offset: u64, content: &[u8]) {
        let data_at = self.data[self.side as usize].len() as u64;
        self.ask(Operation::Write, offset, content.len() as u32, Some(data_at));
        self.data[self.side as usize].extend(content);
    }

    pub fn discard(&mut self, offset: u64, bytes: u32) {
        self.ask(Operation::Discard, offset, bytes, None);
    }

    pub fn flush(&mut self) {
        self.ask(Operation::Flush, 0, 0, None);
    }

    pub fn mark(&mut self, number: u64) {
        self.logs[0].marks.push(Mark { number, at_ns: 0, after: self.answered });
    }

    /// Answers one of what is under way, if there is any.
    pub fn answer_one(&mut self) {
        if !self.under_way.is_empty() {
            let chosen = self.random.below(self.under_way.len() as u64) as usize;
            let (side, record) = self.under_way.remove(chosen);
            let log = &mut self.logs[side as usize];
            log.records.push(record);
            log.places.push(self.answered);
            self.answered += 1;
        }
    }

    /// Answers until all below `offset` was answered.
    pub fn wait_below(&mut self, offset: u64) {
        while self.under_way.iter().any(|under_way| under_way.1.offset < offset) {
            self.answer_one();
        }
    }

    /// Waits for all that one side was asked for.
    pub fn wait_for(&mut self, side: Side) {
        while self.under_way.iter().any(|under_way| under_way.0 == side) {
            self.answer_one();
        }
    }

    pub fn history(self, blocks: u64) -> History {
        self.history_of([blocks, 0])
    }

    /// Of both sides, each with so many blocks; of one where the other has none.
    pub fn history_of(mut self, blocks: [u64; 2]) -> History {
        while !self.under_way.is_empty() {
            self.answer_one();
        }
        let [main, log] = self.logs;
        let [main_data, log_data] = self.data;
        let device = |log, data, blocks: u64| DeviceLog { log, data, bytes: blocks * BLOCK_BYTES };
        let external = (blocks[1] > 0).then(|| device(log, log_data, blocks[1]));
        History::new(device(main, main_data, blocks[0]), external).unwrap()
    }
}

/// Any program on a disk: writes, discards, flushes and marks in a random order, a few under way at
/// once.
pub fn any_history(seed: u64, operations: u64) -> History {
    any_history_of(seed, operations, false)
}

/// The same on two disks.
pub fn any_history_of_two(seed: u64, operations: u64) -> History {
    any_history_of(seed, operations, true)
}

fn any_history_of(seed: u64, operations: u64, both: bool) -> History {
    const BLOCKS: u64 = 6;
    let mut disk = Disk::new(seed);
    let mut marks = 0;
    for number in 0..operations {
        if both {
            disk.side = if disk.random.below(2) == 0 { Side::Main } else { Side::Log };
        }
        match disk.random.below(10) {
            0..5 => {
                let sectors = 1 + disk.random.below(12);
                let at = disk.random.below(BLOCKS * 8 - sectors);
                let content = vec![1 + (number % 255) as u8; sectors as usize * 512];
                disk.write(at * 512, &content);
            }
            5 => {
                let at = disk.random.below(BLOCKS - 2);
                disk.discard(at * BLOCK_BYTES, 2 * BLOCK_BYTES as u32);
            }
            6 | 7 => disk.flush(),
            8 => {
                marks += 1;
                disk.mark(marks);
            }
            _ => disk.answer_one(),
        }
        while disk.under_way.len() as u64 > 1 + disk.random.below(3) {
            disk.answer_one();
        }
    }
    disk.history_of([BLOCKS, if both { BLOCKS } else { 0 }])
}

/// What a cut after so many answers may leave, from the definition: (has to be there, may be there,
/// the largest mark).
pub fn truth(history: &History, answers: u64) -> (BTreeSet<u32>, BTreeSet<u32>, u64) {
    let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
    for (number, unit) in (0u32..).zip(&history.units) {
        let side = history.side_of(unit.offset);
        let flushed = |flush: &fathom_cut::Flush| {
            flush.side == side && flush.answer < answers && unit.answer < flush.came
        };
        if history.flushes.iter().any(flushed) {
            must.insert(number);
        }
        if unit.answer < answers || unit.came <= answers {
            may.insert(number);
        }
    }
    let marks = history.marks.iter().filter(|mark| mark.came <= answers);
    (must, may, marks.map(|mark| mark.number).max().unwrap_or(0))
}

/// What is there in a state, whole or torn.
pub fn there(history: &History, states: &States, state: &State) -> BTreeSet<u32> {
    let safe = states.epochs[state.epoch].safe;
    let flushed =
        (0u32..).zip(&history.units).filter(|unit| history.is_safe(unit.1, safe)).map(|unit| unit.0);
    flushed.chain(state.present.iter().copied()).chain(state.torn.map(|torn| torn.0)).collect()
}

/// What is wrong with a state, by the definition.
pub fn wrong(history: &History, states: &States, state: &State) -> Option<String> {
    let epoch = &states.epochs[state.epoch];
    let (must, may, acknowledged) = truth(history, epoch.answers);
    let there = there(history, states, state);
    if let Some(unit) = must.difference(&there).next() {
        return Some(format!("unit {unit} was flushed and is missing"));
    }
    if let Some((unit, _)) = state.torn.filter(|torn| must.contains(&torn.0)) {
        return Some(format!("unit {unit} was flushed and is torn"));
    }
    if let Some(unit) = there.difference(&may).next() {
        return Some(format!("unit {unit} never came and is there"));
    }
    (epoch.acknowledged != acknowledged)
        .then(|| format!("{} acknowledged, where it is {acknowledged}", epoch.acknowledged))
}

/// Blocks of a slot of the store, and where its slots begin.
const SLOT: u64 = 3;
/// Blocks of others, behind the slots.
const OTHERS: u64 = 4;
pub const STORE_BLOCKS: u64 = 2 * SLOT + OTHERS;

fn slot_of(commit: u64) -> u64 {
    commit % 2 * SLOT * BLOCK_BYTES
}

/// A store that is right: each commit writes one of two slots, waits, flushes and is then
/// acknowledged; a slot is valid if the sums of all its sectors are. Other programs' writes are
/// under way beside it.
pub fn right_store(seed: u64, commits: u64) -> History {
    let mut disk = Disk::new(seed);
    disk.mark(0);
    for commit in 1..=commits {
        for block in 0..SLOT {
            disk.write(slot_of(commit) + block * BLOCK_BYTES, &page(commit, block));
        }
        for _ in 0..disk.random.below(3) {
            let at = 2 * SLOT + disk.random.below(OTHERS);
            disk.write(at * BLOCK_BYTES, &[7; BLOCK_BYTES as usize]);
        }
        disk.wait_below(2 * SLOT * BLOCK_BYTES);
        disk.flush();
        disk.wait_below(2 * SLOT * BLOCK_BYTES);
        disk.mark(commit);
    }
    disk.history(STORE_BLOCKS)
}

/// A store that is right on two disks: each commit writes a slot on the first, flushes it, writes
/// that it is complete on the second, flushes that, and is then acknowledged. A slot counts only if
/// the second disk says so.
pub fn right_store_of_two(seed: u64, commits: u64) -> History {
    let mut disk = Disk::new(seed);
    disk.mark(0);
    for commit in 1..=commits {
        disk.side = Side::Main;
        for block in 0..SLOT {
            disk.write(slot_of(commit) + block * BLOCK_BYTES, &page(commit, block));
        }
        disk.wait_for(Side::Main);
        disk.flush();
        disk.wait_for(Side::Main);
        disk.side = Side::Log;
        disk.write(commit % 2 * BLOCK_BYTES, &page(commit, 0));
        disk.wait_for(Side::Log);
        disk.flush();
        disk.wait_for(Side::Log);
        disk.mark(commit);
    }
    disk.history_of([2 * SLOT, 2])
}

/// A block of a commit: each sector says whose it is.
fn page(commit: u64, block: u64) -> Vec<u8> {
    let sector = |sector: u64| {
        let words = [commit, block, sector, commit.wrapping_mul(0x9e37_79b9) ^ block << 32 ^ sector];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(512, commit as u8);
        bytes
    };
    (0..8).flat_map(sector).collect()
}

/// The commit that a slot holds as a whole.
fn slot(history: &History, epoch: &Epoch, state: &State, commit_parity: u64) -> Option<u64> {
    let first = slot_of(commit_parity) / BLOCK_BYTES;
    let mut whole = None;
    for block in 0..SLOT {
        let content = history.block(first + block, epoch.safe, state)?;
        for (number, sector) in (0u64..).zip(content.chunks_exact(512)) {
            let word = |at: usize| u64::from_le_bytes(sector[at * 8..][..8].try_into().unwrap());
            let commit = word(0);
            if (word(1), word(2)) != (block, number)
                || word(3) != commit.wrapping_mul(0x9e37_79b9) ^ block << 32 ^ number
                || *whole.get_or_insert(commit) != commit
            {
                return None;
            }
        }
    }
    whole
}

/// The commit of a slot, where the second disk, if there is one, says that it is complete.
fn complete(history: &History, epoch: &Epoch, state: &State, parity: u64) -> Option<u64> {
    let commit = slot(history, epoch, state, parity)?;
    let Some(log_begins) = history.log_begins else { return Some(commit) };
    let said = history.block(log_begins / BLOCK_BYTES + parity, epoch.safe, state)?;
    (*said == page(commit, 0)).then_some(commit)
}

/// Recovers the store in memory.
pub struct Recovery<'a>(pub &'a History);

impl Judge for Recovery<'_> {
    fn judge(&mut self, epoch: &Epoch, state: &State) -> Result<Verdict, CutError> {
        let found = [0, 1].into_iter().filter_map(|parity| complete(self.0, epoch, state, parity)).max();
        let (found, acknowledged) = (found.unwrap_or(0), epoch.acknowledged);
        Ok(match found {
            _ if found > acknowledged + 1 => Verdict::Corrupt(format!("commit {found} had not begun")),
            _ if found >= acknowledged => Verdict::Kept,
            _ => Verdict::Lost(acknowledged - found),
        })
    }
}
