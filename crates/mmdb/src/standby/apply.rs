//! Applying a frame where a primary made it.
//!
//! 1. Inside the gate every record is read and tried on a copy of its slot: it must be the slot's
//!    next change, and leave a row that fits the table. Nothing is changed yet.
//! 2. The body is logged under the commit's number. Before this point every failure leaves nothing
//!    behind; after it nothing can fail.
//! 3. Slots and indexes change, as in a commit (`tx/commit.rs`): what snapshots need is kept. They
//!    are opened while nobody is inside the gate, so each shows whole commits.

use crate::container::{BODY, Container, Rid, Slot};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key;
use crate::log::PoisonIfPanicking;
use crate::log::record::{self, Kind, Record};
use crate::sabotage::has_defect;
use crate::schema::Logging;
use crate::sync::atomic::Ordering;
use crate::table::TableInner;
use crate::tables::Tables;
use std::ops::Range;

/// A slot that changes, and where in the buffer stands what becomes of it.
#[derive(Debug)]
struct Step {
    table: u32,
    rid: Rid,
    after: Range<usize>,
}

/// Buffers of whoever applies.
#[derive(Debug, Default)]
pub(super) struct Applier {
    steps: Vec<Step>,
    after: Vec<u8>,
    places: Vec<(u32, Rid)>,
    old: Vec<u8>,
    key: Vec<u8>,
}

impl Applier {
    /// Applies commit `gsn`, the next one, and logs it.
    pub(super) fn apply(&mut self, e: &Engine, gsn: u64, body: &[u8]) -> Result<()> {
        let log = &e.log;
        let stream = &log.streams[gsn as usize % log.streams.len()];
        stream.throttle(log)?;
        if log.is_crowded() {
            log.wait_for_space()?;
        }
        let tables = e.enter(0);
        if log.last() + 1 != gsn {
            return Err(Error::Internal { what: format!("commit {gsn} follows {}", log.last()) });
        }
        log.require_own_process()?;
        self.prepare(&tables, body).map_err(|problem| match problem {
            Problem::Frame(what) => Error::FramesDamaged { what: format!("commit {gsn}: {what}") },
            Problem::Memory(table, bytes) => Error::OutOfMemory { table, bytes },
        })?;
        // Behind the append nothing can fail, and if something does the memory is not to be
        // believed.
        PoisonIfPanicking::during(log, "the application of a frame", || {
            let (number, _) = stream.append(log, body, crc32c::crc32c(body), true)?;
            assert_eq!(number, gsn, "nobody else takes numbers on a standby");
            self.change(e, &tables);
            Ok(())
        })?;
        drop(tables);
        e.counters.commits[0].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the records and tries them.
    fn prepare(&mut self, tables: &Tables, body: &[u8]) -> std::result::Result<(), Problem> {
        self.steps.clear();
        self.after.clear();
        let mut r = crate::codec::Reader::new(body);
        while !r.is_empty() {
            let record = record::next(&mut r).ok_or_else(|| Problem::from("it has an unreadable record"))?;
            self.attempt(tables, &record)?;
        }
        // Two changes of one slot would each be the next one.
        self.places.clear();
        self.places.extend(self.steps.iter().map(|step| (step.table, step.rid)));
        self.places.sort_unstable();
        if let Some(pair) = self.places.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("it changes slot {:?} of table {} twice", pair[0].1, pair[0].0).into());
        }
        Ok(())
    }

    fn attempt(&mut self, tables: &Tables, record: &Record<'_>) -> std::result::Result<(), Problem> {
        let t = record.target;
        let table = tables.get(t.table).filter(|table| table.logging == Logging::Logged);
        let table = table.ok_or_else(|| format!("table {} is not here, or not logged", t.table))?;
        let place = || format!("table {}, container {}, slot {}", table.schema.name, t.container, t.slot);
        let c = match table.container_for(t.container, t.class) {
            Some(c) if c.class == t.class && t.slot < c.slots(table.space.container_size) => c,
            None if !table.can_have(t.container, t.class) => {
                return Err(format!("{}: there can be no such place", place()).into());
            }
            None => {
                return Err(Problem::Memory(table.schema.name.clone(), table.space.container_size as u64));
            }
            Some(c) => return Err(format!("{}: slots there are of class {}", place(), c.class).into()),
        };
        let start = self.after.len();
        {
            let bytes = c.bytes.read();
            let slot = bytes.get(c.range(t.slot)).ok_or_else(|| format!("{} is gone", place()))?;
            let version = Slot(slot).version();
            if version.checked_add(1) != Some(t.version) {
                let what = format!("{}: change {} comes after change {version}", place(), t.version);
                return Err(what.into());
            }
            self.after.extend_from_slice(slot);
        }
        let slot = &mut self.after[start..];
        let fits = match record.kind {
            Kind::Difference => record::apply_difference(&mut slot[BODY..], record.payload),
            Kind::After => record::apply_after(&mut slot[BODY..], record.payload),
        };
        slot[..BODY].copy_from_slice(&t.version.to_le_bytes());
        let row = table.layout.row_of(Slot(slot));
        let is_row = row.map_or(!Slot(slot).is_live(), |row| table.layout.valid(&row));
        if !fits || !record::is_canonical(slot) || !is_row {
            return Err(format!("{}: the change does not fit what is there", place()).into());
        }
        let (rid, after) = (Rid::new(t.container, t.slot), start..self.after.len());
        self.steps.push(Step { table: t.table, rid, after });
        Ok(())
    }

    /// Changes slots and indexes.
    fn change(&mut self, e: &Engine, tables: &Tables) {
        let found = |step: &Step| {
            let table = tables.get(step.table);
            // As prepared.
            table.and_then(|t| t.containers.get(step.rid.container()).map(|c| (t, c)))
        };
        // None is opened before this has left the gate; one may be closed.
        let has_snapshots = e.snapshots().newest() != 0;
        if has_snapshots {
            // Before the first entry changes: where rows exchange a unique key, giving it to one
            // takes it from the other.
            for step in &self.steps {
                let Some((t, c)) = found(step) else { continue };
                keep_entries(e, t, c, step.rid, &self.after[step.after.clone()], &mut self.key);
            }
        }
        for step in &self.steps {
            let Some((t, c)) = found(step) else { continue };
            let after = &self.after[step.after.clone()];
            self.old.clear();
            let had = {
                let mut bytes = c.bytes.write();
                let Some(slot) = bytes.get_mut(c.range(step.rid.slot())) else { continue };
                if has_snapshots {
                    e.snapshots().keep_row(t.id, &t.layout, c, step.rid, Slot(slot));
                }
                let row = t.layout.row_of(Slot(slot));
                let had = row.is_some();
                row.iter().for_each(|row| self.old.extend_from_slice(row));
                drop(row);
                slot.copy_from_slice(after);
                c.mark_dirty();
                had
            };
            let row = t.layout.row_of(Slot(after));
            for index in &t.indexes {
                let columns = &index.def.columns;
                self.key.clear();
                if had {
                    t.layout.row_key(&self.old, columns, &mut self.key);
                }
                let n = self.key.len();
                if let Some(row) = &row {
                    t.layout.row_key(row, columns, &mut self.key);
                }
                let (before, now) = self.key.split_at(n);
                if had && row.is_some() && before == now {
                    continue;
                }
                if had && !has_defect!(e.log.defect, AppliesStaleIndex) {
                    index.remove(before, key::hash(before), step.rid);
                }
                if row.is_some() {
                    index.insert(now, key::hash(now), step.rid);
                }
            }
        }
    }
}

/// Keeps the ghosts of the entries that a slot's row is about to lose.
#[cold]
fn keep_entries(e: &Engine, t: &TableInner, c: &Container, rid: Rid, after: &[u8], k: &mut Vec<u8>) {
    let bytes = c.bytes.read();
    let Some(before) = bytes.get(c.range(rid.slot())).and_then(|slot| t.layout.row_of(Slot(slot))) else {
        return;
    };
    let now = t.layout.row_of(Slot(after));
    for index in &t.indexes {
        k.clear();
        t.layout.row_key(&before, &index.def.columns, k);
        let n = k.len();
        if let Some(now) = &now {
            t.layout.row_key(now, &index.def.columns, k);
        }
        let (old, new) = k.split_at(n);
        if now.is_none() || old != new {
            e.snapshots().keep_entry(index, old, rid);
        }
    }
}

/// Why a frame cannot be applied.
enum Problem {
    Frame(String),
    Memory(String, u64),
}

impl From<String> for Problem {
    fn from(what: String) -> Problem {
        Problem::Frame(what)
    }
}

impl From<&str> for Problem {
    fn from(what: &str) -> Problem {
        Problem::Frame(what.to_owned())
    }
}
