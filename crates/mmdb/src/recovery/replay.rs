//! Applying the log to the images, in parallel and in any order.
//!
//! Differences commute, so frames need no order between streams. Each worker owns the containers
//! whose number falls to it. Per slot it keeps the image's version: changes at or below it are in
//! the image already (the version filter), each of the others must come exactly once (the
//! self-check).

use super::scan::ScannedSegment;
use crate::codec::Reader;
use crate::container::{BODY, CLASSES, Container, MAX_CONTAINERS, Slot, zeros};
use crate::error::{Error, Result};
use crate::log::frame::Frame;
use crate::log::record::{self, Kind, Target};
use crate::sabotage::{Defect, has_defect};
use crate::schema::Logging;
use crate::sync::RwLockWriteGuard;
use crate::table::TableInner;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So many broken slots of a container are named, and the others counted: without the images all
/// that have changed since are broken.
pub(super) const NAMED: usize = 16;

/// Frames of one segment that are to be applied.
pub(crate) struct Work {
    pub(crate) segment: Arc<ScannedSegment>,
    pub(crate) frames: Vec<Frame>,
}

#[derive(Clone, Copy, Default)]
struct SlotState {
    /// Version in the image.
    base: u64,
    /// Highest version applied, and how many changes.
    max: u64,
    seen: u64,
}

/// The container that a worker changes at the moment.
struct Latched<'a> {
    table: u32,
    /// Where the table's states are.
    states: usize,
    number: u32,
    container: &'a Container,
    slots: u16,
    bytes: RwLockWriteGuard<'a, Box<[u8]>>,
}

/// The states of one container's slots.
type Touched = Option<Box<[SlotState]>>;

/// Containers of a page.
const PAGE: usize = 256;

/// The states of one table's slots, by container. They are in pages, for a forged log may name any
/// container, whose number is no reason to have places for all before it.
#[derive(Default)]
struct States(Vec<Option<Box<[Touched; PAGE]>>>);

impl States {
    fn of(&mut self, container: u32) -> &mut Touched {
        let (page, place) = (container as usize / PAGE, container as usize % PAGE);
        if self.0.len() <= page {
            self.0.resize_with(page + 1, || None);
        }
        &mut self.0[page].get_or_insert_with(|| Box::new([const { None }; PAGE]))[place]
    }

    /// What was touched, with the containers' numbers.
    fn touched(&self) -> impl Iterator<Item = (u32, &[SlotState])> {
        let pages = self.0.iter().enumerate().filter_map(|(n, page)| Some((n * PAGE, page.as_ref()?)));
        pages.flat_map(|(first, page)| {
            let touched = page.iter().enumerate();
            touched.filter_map(move |(n, states)| Some(((first + n) as u32, &**states.as_ref()?)))
        })
    }
}

/// One thread's share of the containers.
pub(crate) struct Worker<'a> {
    part: u32,
    parts: u32,
    tables: &'a [Option<Arc<TableInner>>],
    defect: Defect,
    /// Of the tables that have records: of a million numbers that were given few may be left.
    slots: Vec<(u32, States)>,
    /// Where a table's states are among them.
    places: HashMap<u32, usize>,
    pub(crate) records: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        part: usize,
        parts: usize,
        tables: &'a [Option<Arc<TableInner>>],
        defect: Defect,
    ) -> Self {
        let (slots, places) = (Vec::new(), HashMap::new());
        Worker { part: part as u32, parts: parts as u32, tables, defect, slots, places, records: 0 }
    }

    pub(crate) fn apply(&mut self, work: &[Work]) -> Result<()> {
        // A transaction's records often lie in one container: it stays latched until another one's
        // turn comes.
        let mut open = None;
        for w in work {
            for f in &w.frames {
                let mut r = Reader::new(&w.segment.bytes[f.body()]);
                while !r.is_empty() {
                    let at = f.body().start + r.at();
                    let bad = |what: String| Error::corrupt(&w.segment.path, at as u64, what);
                    let rec = record::next(&mut r)
                        .ok_or_else(|| bad(format!("commit {} has an unreadable record", f.gsn)))?;
                    if rec.target.container.wrapping_add(rec.target.table) % self.parts == self.part {
                        self.records += 1;
                        self.one(rec, &mut open).map_err(|what| bad(format!("commit {}: {what}", f.gsn)))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Latches the container of `t`, which is made if need be. `None` if its table is not recovered
    /// from the log.
    fn open(&mut self, t: Target) -> std::result::Result<Option<Latched<'a>>, String> {
        let table = self.tables.get(t.table as usize).ok_or_else(|| format!("unknown table {}", t.table))?;
        // Dropped since, or not logged any more.
        let Some(table) = table.as_ref().filter(|x| x.logging == Logging::Logged) else { return Ok(None) };
        let size = table.space.container_size;
        if table.containers.get(t.container).is_none() {
            let slot_size = CLASSES.get(usize::from(t.class)).filter(|&&s| s <= size);
            slot_size.ok_or_else(|| format!("unknown slot class {}", t.class))?;
            if t.container >= MAX_CONTAINERS {
                return Err(format!("container {} is out of range", t.container));
            }
            let bytes = zeros(size).ok_or_else(|| format!("no memory for container {}", t.container))?;
            let c = Container::new(t.class, table.space.take_image(), bytes);
            let put = table.containers.put(t.container, c);
            assert!(put, "one worker makes the containers whose numbers fall to it");
            table.space.containers.fetch_add(1, Ordering::Relaxed);
        }
        let c = table.containers.get(t.container).ok_or("container cannot be made")?;
        let slots = c.slots(size);
        let states = *self.places.entry(t.table).or_insert(self.slots.len());
        if states == self.slots.len() {
            self.slots.push((t.table, States::default()));
        }
        let touched = self.slots[states].1.of(t.container);
        touched
            .get_or_insert_with(|| vec![SlotState { base: u64::MAX, max: 0, seen: 0 }; slots.into()].into());
        let (table, number, bytes) = (t.table, t.container, c.bytes.write());
        Ok(Some(Latched { table, states, number, container: c, slots, bytes }))
    }

    fn one(
        &mut self,
        rec: record::Record<'_>,
        open: &mut Option<Latched<'a>>,
    ) -> std::result::Result<(), String> {
        let t = rec.target;
        if open.as_ref().is_none_or(|l| (l.table, l.number) != (t.table, t.container)) {
            // Given back first: no worker holds two.
            *open = None;
            *open = self.open(t)?;
        }
        let Some(latched) = open else { return Ok(()) };
        let c = latched.container;
        if c.class != t.class || t.slot >= latched.slots {
            return Err(format!("container {} has no slot {} of class {}", t.container, t.slot, t.class));
        }
        let slot = &mut latched.bytes[c.range(t.slot)];
        let states = self.slots[latched.states].1.of(t.container).as_mut();
        let s = &mut states.ok_or("container without states")?[usize::from(t.slot)];
        if s.base == u64::MAX {
            let base = Slot(slot).version();
            *s = SlotState { base, max: base, seen: 0 };
        }
        if t.version <= s.base && !has_defect!(self.defect, NoVersionFilter) {
            return Ok(());
        }
        let fits = match rec.kind {
            Kind::Difference => record::apply_difference(&mut slot[BODY..], rec.payload),
            Kind::After if t.version < s.max => true,
            Kind::After => record::apply_after(&mut slot[BODY..], rec.payload),
        };
        if !fits {
            return Err(format!("the change does not fit slot {} of container {}", t.slot, t.container));
        }
        s.max = s.max.max(t.version);
        s.seen += 1;
        assert!(s.max >= s.base, "versions rise from the image's on");
        Ok(())
    }

    /// Checks every touched slot and gives it its version. With `broken`, bad slots are emptied and
    /// reported there, the first of each container by their places.
    pub(crate) fn finish(&mut self, mut broken: Option<&mut Vec<String>>) -> Result<()> {
        let mut all: Vec<_> = self.slots.iter().collect();
        all.sort_unstable_by_key(|(table, _)| *table);
        for (id, containers) in all {
            let Some(table) = self.tables.get(*id as usize).and_then(Option::as_ref) else { continue };
            for (n, states) in containers.touched() {
                let Some(c) = table.containers.get(n) else { continue };
                let mut bytes = c.bytes.write();
                let mut emptied = 0;
                for (i, s) in states.iter().enumerate().filter(|(_, s)| s.seen > 0) {
                    let slot = &mut bytes[c.range(i as u16)];
                    let whole = s.seen == s.max - s.base || has_defect!(self.defect, NoVersionFilter);
                    if !whole || !record::is_canonical(slot) {
                        let what = format!(
                            "table {}, container {n}, slot {i}: {} changes lead from version {} to {}",
                            table.schema.name, s.seen, s.base, s.max
                        );
                        match &mut broken {
                            None => return Err(Error::corrupt_table(&table.schema.name, what)),
                            Some(list) => {
                                emptied += 1;
                                if emptied <= NAMED {
                                    list.push(what);
                                }
                                slot[BODY..].fill(0);
                            }
                        }
                    }
                    slot[..8].copy_from_slice(&s.max.to_le_bytes());
                }
                if let Some(list) = broken.as_deref_mut().filter(|_| emptied > NAMED) {
                    let more = emptied - NAMED;
                    list.push(format!("table {}, container {n}: {more} more slots", table.schema.name));
                }
                c.mark_dirty();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    /// Each worker had a list for every table number that was ever given: of a million tables that
    /// came and went 25 MB, and up to 64 workers as much each.
    #[test]
    fn a_worker_holds_nothing_of_tables_without_records() {
        let tables: Vec<Option<Arc<TableInner>>> = vec![None; 1 << 20];
        let mut worker = Worker::new(0, 1, &tables, Options::in_memory().defect());
        assert_eq!((worker.slots.capacity(), worker.places.capacity()), (0, 0));
        worker.finish(None).unwrap();
    }
}
