//! Tables: containers, free slots and indexes.

use crate::append_list::AppendList;
use crate::cache_line::CacheLine;
use crate::container::{CLASSES, Container, MAX_CONTAINERS, Rid, SLOT_HEAD, Slot, zeros};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::key::KeyBuf;
use crate::life::{Life, Span};
use crate::lock::TableLock;
use crate::memory::{Budget, Gauge, block};
use crate::moves::Moves;
use crate::places::Places;
use crate::prefetch;
use crate::row::Layout;
use crate::schema::{IndexKind, Locking, Logging, Schema};
use crate::snapshot::Snapshots;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::value::Value;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, OnceLock};

/// What a place in a container has for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtPlace {
    Row,
    /// No row, or that of another key.
    Nothing,
    /// A row that was written in columns that this definition of the table does not know.
    LaterColumns,
}

/// Free slots are kept per stripe, so that processors allocate from different containers.
pub(crate) const STRIPES: usize = 4;

/// Memory and image places, shared by all tables of a database.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) container_size: usize,
    pub(crate) limit: u64,
    pub(crate) containers: AtomicU64,
    /// Everything but the containers.
    pub(crate) budget: Arc<Budget>,
    pub(crate) snapshots: Snapshots,
    images: Mutex<Places>,
}

impl Space {
    /// `snapshot_limit` is the most bytes that are kept for snapshots.
    pub(crate) fn new(container_size: usize, limit: u64, snapshot_limit: u64) -> Space {
        let images = Mutex::new(Places::default());
        let budget = Arc::default();
        let snapshots = Snapshots::new(&budget, snapshot_limit);
        Space { container_size, limit, containers: AtomicU64::new(0), budget, snapshots, images }
    }

    /// A place in the checkpoint files that no container has.
    pub(crate) fn take_image(&self) -> u32 {
        self.images.lock().take()
    }

    /// Makes `taken` the places in use, at recovery.
    pub(crate) fn set_images(&self, taken: Vec<u32>) {
        *self.images.lock() = Places::beside(taken);
    }

    pub(crate) fn give_image(&self, n: u32) {
        self.images.lock().give(n);
    }

    /// Bytes in use by all tables, their indexes, the locks and large transactions.
    pub(crate) fn bytes(&self) -> u64 {
        self.containers.load(Ordering::Relaxed) * block(self.container_size) + self.budget.used()
    }

    /// Whether `more` bytes would be too many.
    pub(crate) fn lacks(&self, more: u64) -> bool {
        self.bytes().saturating_add(more) > self.limit
    }

    /// What must be left where a row comes to a slot that never held one: room for the indexes to
    /// change in while the number of rows stays, bytes. So what was deleted makes room, though
    /// other leaves and tables of the indexes get full than became empty.
    pub(crate) fn reserve(&self) -> u64 {
        // Where tables are small, chance fills more of their leaves and shards before others.
        self.limit / 16 + (self.limit / 16).min(512 << 10)
    }

    /// Whether so little is left that every piece has to be looked at before it is taken.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        // No limit costs no look at the counters.
        self.limit != u64::MAX && self.lacks(self.reserve() + (self.limit / 16).max(256 << 10))
    }
}

/// The inside of a table as it is defined at one time. When its definition changes, another one
/// takes its place that has the same [`Body`].
#[derive(Debug)]
pub(crate) struct TableInner {
    pub(crate) id: u32,
    /// Has the indexes that are whole; one that is being built comes behind them in `indexes`.
    pub(crate) schema: Schema,
    pub(crate) layout: Arc<Layout>,
    pub(crate) locking: Locking,
    pub(crate) logging: Logging,
    /// Whether a row that comes or changes claims keys before its commit: it locks them, or a
    /// secondary one is unique.
    pub(crate) claims_keys: bool,
    pub(crate) indexes: Vec<Index>,
    body: Arc<Body>,
    /// What took the place of this.
    next: OnceLock<Successor>,
}

/// What has taken the place of a table's definition.
#[derive(Debug)]
struct Successor {
    table: Arc<TableInner>,
    /// Whether a handle of before may go on: each column that it knows is at its old position.
    continues: bool,
}

/// A table of blobs that go with the rows of another table.
#[derive(Clone, Debug)]
pub(crate) struct BlobTable {
    pub(crate) table: Table,
    /// Bytes of a whole chunk.
    pub(crate) chunk: u64,
}

/// What a table has whatever its definition: its rows, its locks, and whether it is there.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) lock: TableLock,
    pub(crate) containers: AppendList<Container>,
    pub(crate) space: Arc<Space>,
    pub(crate) life: Life,
    pub(crate) moves: Moves,
    /// Where the blobs of its rows are, which go with them. Nothing is waited for under this lock.
    pub(crate) blobs: RwLock<Vec<BlobTable>>,
    /// By how many bytes rows may get longer when the column is there that is being added.
    growth: AtomicU64,
    /// Of each class; those of classes that no row had are not there.
    free: [OnceLock<Box<FreeSlots>>; CLASSES.len()],
    growing: Mutex<()>,
    /// Bytes of the table but its containers and indexes.
    gauge: Gauge,
}

/// A column is being added to a table whose rows nobody locks: they may come at any moment.
#[derive(Debug)]
pub(crate) struct Growth(Arc<Body>);

impl Drop for Growth {
    fn drop(&mut self) {
        self.0.growth.store(0, Ordering::Release);
    }
}

impl std::ops::Deref for TableInner {
    type Target = Body;
    fn deref(&self) -> &Body {
        &self.body
    }
}

impl Drop for TableInner {
    /// A handle keeps all definitions that took the place of its own, each of which has the next.
    /// They go one after the other and not one within the other: of many no stack holds that.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(successor) = next {
            // Whoever else has it lets those behind it go.
            next = Arc::into_inner(successor.table).and_then(|mut table| table.next.take());
        }
    }
}

/// Heap bytes of a definition.
fn bytes_of(schema: &Schema) -> usize {
    let name = |name: &str| block(name.len()) as usize;
    let columns = schema.columns.iter().map(|column| size_of::<crate::column::Column>() + name(&column.name));
    let indexes = schema.indexes.iter().map(|index| {
        size_of::<crate::schema::IndexDef>() + name(&index.name) + index.columns.len() * size_of::<usize>()
    });
    name(&schema.name) + columns.sum::<usize>() + indexes.sum::<usize>()
}

/// Bytes of its indexes but their entries.
fn indexes_of(schema: &Schema) -> usize {
    schema.indexes.len() * (size_of::<Index>() + size_of::<crate::index::Entries>())
}

/// The free slots of one class, for each stripe.
type FreeSlots = [CacheLine<Mutex<Vec<Rid>>>; STRIPES];

/// Lists of free slots up to this many keep their memory.
const FEW_SLOTS: usize = 1024;

/// Whether three quarters of much memory hold nothing.
#[inline]
fn has_waste(list: &Vec<Rid>) -> bool {
    list.capacity() > FEW_SLOTS && list.len() * 4 < list.capacity()
}

/// Gives memory back that is wasted.
fn shrink(list: &mut Vec<Rid>) {
    if has_waste(list) {
        list.shrink_to(list.len() * 2);
    }
}

/// Does something to a list of free slots and counts the memory that this took.
fn with_free<T>(gauge: &Gauge, list: &Mutex<Vec<Rid>>, f: impl FnOnce(&mut Vec<Rid>) -> T) -> T {
    let mut list = list.lock();
    let before = list.capacity();
    let done = f(&mut list);
    let after = list.capacity();
    drop(list);
    if after != before {
        let bytes = |places: usize| block(places * size_of::<Rid>()) as i64;
        gauge.add(bytes(after) - bytes(before));
    }
    done
}

impl TableInner {
    /// `reference` turns locking and logging off, whatever the schema says.
    pub(crate) fn new(id: u32, schema: Schema, space: Arc<Space>, reference: bool) -> TableInner {
        TableInner::living(id, schema, space, reference, Life::default())
    }

    /// A table without rows, to take the place of this one with all that it has.
    pub(crate) fn emptied(&self, schema: Schema) -> TableInner {
        TableInner::living(self.id, schema, self.space.clone(), false, self.life.following())
    }

    fn living(id: u32, schema: Schema, space: Arc<Space>, reference: bool, life: Life) -> TableInner {
        // A schema without a primary key makes no table.
        let primary = schema.indexes.first().map_or(&[][..], |index| &index.columns);
        let index = |def| Index::new(def, primary, &space.budget);
        let indexes = schema.indexes.iter().map(index).collect();
        let bytes = size_of::<TableInner>() + size_of::<Body>();
        // The definition stands in the table, in its layout and indexes, and in what is stated.
        let bytes = bytes + indexes_of(&schema) + 3 * bytes_of(&schema);
        let body = Body {
            lock: TableLock::new(id),
            containers: AppendList::new(),
            gauge: Gauge::new(&space.budget, bytes),
            free: [const { OnceLock::new() }; CLASSES.len()],
            space,
            life,
            moves: Moves::default(),
            blobs: RwLock::new(Vec::new()),
            growth: AtomicU64::new(0),
            growing: Mutex::new(()),
        };
        let locking = if reference { Locking::None } else { schema.locking };
        let logging = if reference { Logging::Volatile } else { schema.logging };
        TableInner::defined(id, schema, (locking, logging), indexes, Arc::new(body))
    }

    fn defined(
        id: u32,
        schema: Schema,
        (locking, logging): (Locking, Logging),
        indexes: Vec<Index>,
        body: Arc<Body>,
    ) -> TableInner {
        TableInner {
            id,
            layout: Arc::new(Layout::new(&schema)),
            locking,
            logging,
            claims_keys: locking != Locking::None || indexes.iter().skip(1).any(|index| index.def.unique),
            indexes,
            body,
            next: OnceLock::new(),
            schema,
        }
    }

    /// The same table with another definition.
    pub(crate) fn redefined(&self, schema: Schema, indexes: Vec<Index>) -> TableInner {
        TableInner::defined(self.id, schema, (self.locking, self.logging), indexes, self.body.clone())
    }

    /// As long as what this returns is there, a row that comes without locks must have room for so
    /// many bytes more.
    pub(crate) fn announce_growth(&self, bytes: usize) -> Growth {
        self.growth.store(bytes as u64, Ordering::Release);
        Growth(self.body.clone())
    }

    /// Whether a row of `len` bytes has room for the column that is being added, if one is.
    pub(crate) fn has_room_to_grow(&self, len: usize) -> bool {
        let growth = self.growth.load(Ordering::Acquire);
        growth == 0 || len as u64 + growth <= (self.space.container_size - SLOT_HEAD) as u64
    }

    /// Says what takes the place of this. A handle goes on with it if it `continues`.
    pub(crate) fn succeed(&self, table: &Arc<TableInner>, continues: bool) {
        let first = self.next.set(Successor { table: table.clone(), continues }).is_ok();
        assert!(first, "one definition of table {} takes the place of another", self.schema.name);
    }

    /// The definition of today, for a handle that was made with this one.
    ///
    /// # Errors
    /// [`Error::TableChanged`] if the handle may not go on with it.
    #[inline]
    pub(crate) fn latest(self: &Arc<TableInner>) -> Result<&Arc<TableInner>> {
        let mut table = self;
        while let Some(next) = table.next.get() {
            if !next.continues {
                return Err(Error::TableChanged { table: self.schema.name.clone() });
            }
            table = &next.table;
        }
        Ok(table)
    }

    /// Whether no other definition has taken the place of this.
    pub(crate) fn is_newest(&self) -> bool {
        self.next.get().is_none()
    }

    /// Whether today's definition has index `ix` of this one still. Asked after reading: its
    /// entries are forgotten only after it has been left out.
    pub(crate) fn keeps_index(&self, ix: usize) -> bool {
        let mut table = self;
        while let Some(next) = table.next.get() {
            table = &next.table;
        }
        self.indexes.get(ix).is_some_and(|index| table.indexes.iter().any(|there| there.is_same(index)))
    }

    /// The error of a read by index `ix` that was dropped meanwhile.
    pub(crate) fn index_gone(&self, ix: usize) -> Error {
        let index = self.indexes.get(ix).map_or_else(String::new, |index| index.def.name.clone());
        Error::NoSuchIndex { table: self.schema.name.clone(), index }
    }

    /// The definition of today, whatever becomes of handles.
    fn newest(self: &Arc<TableInner>) -> &Arc<TableInner> {
        let mut table = self;
        while let Some(next) = table.next.get() {
            table = &next.table;
        }
        table
    }

    pub(crate) fn is_live(&self) -> bool {
        self.life.now().is_some()
    }

    pub(crate) fn alive(&self) -> Result<()> {
        self.span().map(|_| ())
    }

    /// The life that the table is in now.
    #[inline]
    pub(crate) fn span(&self) -> Result<Span> {
        self.life.now().ok_or_else(|| self.gone())
    }

    /// The table's definition has changed under a transaction.
    pub(crate) fn changed(&self) -> Error {
        Error::Conflict { table: self.schema.name.clone(), key: "(the table's definition)".into() }
    }

    /// There is no such table, or it is another one by now.
    pub(crate) fn gone(&self) -> Error {
        Error::NoSuchTable { table: self.schema.name.clone() }
    }

    /// The free slots of a class.
    fn free_of(&self, class: u8) -> &FreeSlots {
        self.free[usize::from(class) % CLASSES.len()].get_or_init(|| {
            self.gauge.add(block(size_of::<FreeSlots>()) as i64);
            Box::default()
        })
    }

    /// The lists of all classes that have some.
    fn free_lists(&self) -> impl Iterator<Item = &CacheLine<Mutex<Vec<Rid>>>> {
        self.free.iter().filter_map(OnceLock::get).flat_map(|lists| lists.iter())
    }

    /// A free slot of a class, from the caller's stripe if it has one.
    /// `spare` bytes have to be left if that needs another container.
    pub(crate) fn allocate(&self, class: u8, stripe: usize, spare: u64) -> Result<Rid> {
        let free = self.free_of(class);
        let mine = &free[stripe % STRIPES];
        loop {
            let mut list = mine.lock();
            let taken = list.pop();
            let is_large = has_waste(&list);
            drop(list);
            if is_large {
                with_free(&self.gauge, mine, shrink);
            }
            if let Some(rid) = taken {
                return Ok(rid);
            }
            // What another stripe has in plenty is taken over, or a stripe that only frees would
            // hoard. A container's worth is left to it, so that stripes stay in different
            // containers, unless memory is nearly gone.
            let plenty = self.space.container_size / CLASSES[usize::from(class) % CLASSES.len()];
            let leave = if self.space.is_tight() { 0 } else { plenty };
            let mut taken = Vec::new();
            for other in (1..STRIPES).map(|i| &free[(stripe + i) % STRIPES]) {
                taken = with_free(&self.gauge, other, |other| {
                    if other.len() <= leave {
                        return Vec::new();
                    }
                    let keep = other.len() - (other.len() - leave).min(plenty);
                    let taken = other.split_off(keep);
                    shrink(other);
                    taken
                });
                if !taken.is_empty() {
                    break;
                }
            }
            if taken.is_empty() {
                self.grow(class, stripe, spare)?;
            } else {
                with_free(&self.gauge, mine, |mine| mine.append(&mut taken));
            }
        }
    }

    /// Whether a row has ever been in this slot.
    pub(crate) fn was_used(&self, rid: Rid) -> bool {
        self.containers.get(rid.container()).is_some_and(|c| {
            let bytes = c.bytes.read();
            bytes.get(c.range(rid.slot())).is_some_and(|slot| Slot(slot).version() > 0)
        })
    }

    /// A free slot of a class that held a row before, from any stripe. Those that were freed last
    /// are looked at first.
    pub(crate) fn allocate_used(&self, class: u8) -> Option<Rid> {
        self.free_of(class).iter().find_map(|list| {
            with_free(&self.gauge, list, |list| {
                let at = list.iter().rposition(|&rid| self.was_used(rid))?;
                Some(list.remove(at))
            })
        })
    }

    /// Enters every slot that holds no row as free, at recovery.
    pub(crate) fn collect_free(&self) {
        for (n, c) in self.containers.iter() {
            let bytes = c.bytes.read();
            let slots = (0..c.slots(self.space.container_size)).rev();
            let free = slots.filter(|&s| !Slot(&bytes[c.range(s)]).is_live()).map(|s| Rid::new(n, s));
            let list = &self.free_of(c.class)[n as usize % STRIPES];
            with_free(&self.gauge, list, |list| list.extend(free));
        }
        self.gauge.add(self.containers.memory() as i64);
    }

    /// Gives all containers, free slots and index entries back. Nobody may use the table, and no
    /// checkpoint may copy it.
    pub(crate) fn discard_rows(&self) {
        assert!(!self.is_live(), "table {} is used", self.schema.name);
        for (_, c) in self.containers.iter() {
            self.space.snapshots.give_back(c.versions.lock().clear());
            // Containers that were discarded before are no more than their numbers.
            let bytes = std::mem::take(&mut *c.bytes.write());
            if !bytes.is_empty() {
                assert_eq!(bytes.len(), self.space.container_size, "containers are of one size");
                self.space.give_image(c.image);
                let before = self.space.containers.fetch_sub(1, Ordering::Relaxed);
                assert!(before > 0, "no more containers are given back than were made");
            }
        }
        for list in self.free_lists() {
            with_free(&self.gauge, list, |list| *list = Vec::new());
        }
        for index in &self.indexes {
            index.clear();
            self.space.snapshots.give_back(index.clear_ghosts());
        }
    }

    /// The position of the named index.
    pub(crate) fn index(&self, name: &str) -> Result<usize> {
        let at = self.schema.indexes.iter().position(|index| index.name == name);
        let missing = || Error::NoSuchIndex { table: self.schema.name.clone(), index: name.to_owned() };
        at.ok_or_else(missing)
    }

    /// Appends the encoding of a row to `out`. A row of a handle that was made when the table had
    /// `had` columns may lack those that were added since: it gets their defaults.
    pub(crate) fn encode_row(&self, values: &[Value<'_>], had: usize, out: &mut Vec<u8>) -> Result<()> {
        if values.len() != had || had >= self.schema.columns.len() {
            return self.layout.encode(values, out);
        }
        let mut all = values.to_vec();
        all.extend((had..self.schema.columns.len()).map_while(|col| self.layout.default_of(col)));
        self.layout.encode(&all, out)
    }

    /// Refuses an index that has no order.
    pub(crate) fn require_order(&self, ix: usize) -> Result<()> {
        let def = &self.indexes[ix].def;
        if def.kind == IndexKind::Ordered {
            return Ok(());
        }
        Err(Error::Operation {
            table: self.schema.name.clone(),
            operation: "read a range",
            reason: format!("index {} is a hash index and has no order", def.name),
        })
    }

    /// The part of index `ix` that has bounds on its leading columns; `None` if it is surely empty.
    /// `buffer` is one.
    pub(crate) fn bounds<'v, K: AsRef<[Value<'v>]>>(
        &self,
        ix: usize,
        bounds: &impl RangeBounds<K>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<(Bound<KeyBuf>, Bound<KeyBuf>)>> {
        let def = &self.indexes[ix].def;
        let mut encode = |k: &K| {
            buffer.clear();
            let encoded = self.layout.user_key(k.as_ref(), &def.columns, true, buffer);
            encoded.map(|()| KeyBuf::new(buffer))
        };
        // A partial key stands for all keys that begin with it.
        let lower = match bounds.start_bound() {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(k) => Bound::Included(encode(k)?),
            Bound::Excluded(k) => match encode(k)?.successor() {
                Some(b) => Bound::Included(b),
                None => return Ok(None),
            },
        };
        let upper = match bounds.end_bound() {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Excluded(k) => Bound::Excluded(encode(k)?),
            Bound::Included(k) => encode(k)?.successor().map_or(Bound::Unbounded, Bound::Excluded),
        };
        Ok(Some((lower, upper)))
    }

    pub(crate) fn release(&self, class: u8, rid: Rid, stripe: usize) {
        let list = &self.free_of(class)[stripe % STRIPES];
        with_free(&self.gauge, list, |list| {
            if list.len() == list.capacity() {
                // Doubling would cost most where there is least: when much was deleted at the
                // limit.
                list.reserve_exact((list.len() / 8).max(64));
            }
            list.push(rid);
        });
    }

    /// Adds a container of free slots.
    fn grow(&self, class: u8, stripe: usize, spare: u64) -> Result<()> {
        let _one = self.growing.lock();
        let size = self.space.container_size;
        let free = size / CLASSES[usize::from(class) % CLASSES.len()] * size_of::<Rid>();
        let more = spare.saturating_add(self.space.reserve()).saturating_add(block(size) + block(free));
        let more = more.saturating_add(block(size_of::<Container>()));
        // What the indexes of an empty table have put off.
        let more = more.saturating_add(self.indexes.iter().map(Index::frame_bytes).sum());
        if self.space.lacks(more) {
            return Err(self.full());
        }
        let i = self.containers.len();
        if i >= MAX_CONTAINERS {
            return Err(Error::TableFull { table: self.schema.name.clone(), containers: i });
        }
        let none = || Error::OutOfMemory { table: self.schema.name.clone(), bytes: size as u64 };
        let bytes = zeros(size).ok_or_else(none)?;
        self.indexes.iter().for_each(Index::begin);
        let newest = self.space.snapshots.newest();
        let container = Container::new(class, self.space.take_image(), bytes).born_after(newest);
        let slots = container.slots(size);
        let before = self.containers.memory();
        // Containers are added under `growing` only.
        assert!(self.containers.put(i, container), "container {i} is the first of its number");
        self.gauge.add((self.containers.memory() - before) as i64);
        self.space.containers.fetch_add(1, Ordering::Relaxed);
        let free = &self.free_of(class)[stripe % STRIPES];
        with_free(&self.gauge, free, |free| free.extend((0..slots).rev().map(|s| Rid::new(i, s))));
        Ok(())
    }

    /// Container `number`, which is made if need be: where frames of a primary name it. `None` if it
    /// cannot be.
    pub(crate) fn container_for(&self, number: u32, class: u8) -> Option<&Container> {
        if let Some(c) = self.containers.get(number) {
            return Some(c);
        }
        let size = self.space.container_size;
        if !self.can_have(number, class) {
            return None;
        }
        let _one = self.growing.lock();
        let newest = self.space.snapshots.newest();
        let container = Container::new(class, self.space.take_image(), zeros(size)?).born_after(newest);
        let before = self.containers.memory();
        assert!(self.containers.put(number, container), "container {number} is made once");
        self.gauge.add((self.containers.memory() - before) as i64);
        self.space.containers.fetch_add(1, Ordering::Relaxed);
        self.containers.get(number)
    }

    /// Whether there can be a container of this number and class.
    pub(crate) fn can_have(&self, number: u32, class: u8) -> bool {
        let slot = CLASSES.get(usize::from(class));
        number < MAX_CONTAINERS && slot.is_some_and(|&slot| slot <= self.space.container_size)
    }

    /// Enters the free slots anew, after changes that did not keep the lists. Nobody uses the
    /// table.
    pub(crate) fn collect_free_again(&self) {
        self.free_lists().for_each(|list| with_free(&self.gauge, list, |list| *list = Vec::new()));
        self.gauge.add(-(self.containers.memory() as i64));
        self.collect_free();
    }

    /// There is no memory left for this table.
    pub(crate) fn full(&self) -> Error {
        Error::MemoryLimit {
            table: Some(self.schema.name.clone()),
            bytes: self.space.bytes(),
            limit: self.space.limit,
        }
    }

    /// No container can hold a row of `len` bytes.
    pub(crate) fn row_too_large(&self, len: usize) -> Error {
        Error::RowTooLarge {
            table: self.schema.name.clone(),
            bytes: len as u64,
            max: (self.space.container_size - SLOT_HEAD) as u64,
        }
    }

    /// What the entries of so many rows take in all indexes.
    pub(crate) fn entry_bytes(&self, rows: u64) -> u64 {
        rows.saturating_mul(self.indexes.iter().map(Index::entry_bytes).sum())
    }

    pub(crate) fn container(&self, rid: Rid) -> Result<&Container> {
        self.containers.get(rid.container()).ok_or_else(|| Error::Internal {
            what: format!("table {} has no container {}", self.schema.name, rid.container()),
        })
    }

    /// Appends the row at `rid` to `out` and returns its version; `None` if the slot is free.
    pub(crate) fn read(&self, rid: Rid, out: &mut Vec<u8>) -> Result<Option<u64>> {
        let c = self.container(rid)?;
        let bytes = c.bytes.read();
        // A dropped table has no bytes.
        let Some(slot) = bytes.get(c.range(rid.slot())).map(Slot) else { return Ok(None) };
        let Some(row) = slot.row() else { return Ok(None) };
        if slot.generation() == self.layout.generation {
            out.extend_from_slice(row);
        } else if self.layout.translate(slot.generation(), row, out).is_none() {
            // Without locks another definition may take the place of this one at any moment.
            return Err(self.changed());
        }
        Ok(Some(slot.version()))
    }

    /// Appends the row at `rid` to `row` if it has the primary key `key`. `its_key` is a buffer.
    #[inline]
    pub(crate) fn read_key_at(
        &self,
        rid: Rid,
        key: &[u8],
        row: &mut Vec<u8>,
        its_key: &mut Vec<u8>,
    ) -> Result<AtPlace> {
        let start = row.len();
        let c = self.container(rid)?;
        let bytes = c.bytes.read();
        // A dropped table has no bytes.
        let Some(slot) = bytes.get(c.range(rid.slot())).map(Slot) else { return Ok(AtPlace::Nothing) };
        let Some(there) = slot.row() else { return Ok(AtPlace::Nothing) };
        if slot.generation() == self.layout.generation {
            row.extend_from_slice(there);
        } else if self.layout.translate(slot.generation(), there, row).is_none() {
            return Ok(AtPlace::LaterColumns);
        }
        drop(bytes);
        its_key.clear();
        self.layout.row_key(&row[start..], &self.indexes[0].def.columns, its_key);
        if its_key == key {
            return Ok(AtPlace::Row);
        }
        row.truncate(start);
        Ok(AtPlace::Nothing)
    }

    /// Begins to bring what it takes to find a place into the caches.
    #[inline]
    pub(crate) fn prefetch_container(&self, rid: Rid) {
        if let Some(c) = self.containers.get(rid.container()) {
            prefetch::line(std::ptr::from_ref(c).addr());
        }
    }

    /// Begins to bring what is at a place into the caches.
    #[inline]
    pub(crate) fn prefetch(&self, rid: Rid) {
        if let Some(c) = self.containers.get(rid.container()) {
            c.prefetch(rid.slot());
        }
    }

    /// How many rows were written in each generation of the table's columns.
    pub(crate) fn count_generations(&self) -> BTreeMap<u16, u64> {
        let mut all = BTreeMap::new();
        for (_, c) in self.containers.iter() {
            let bytes = c.bytes.read();
            let slots = (0..c.slots(self.space.container_size)).filter_map(|slot| bytes.get(c.range(slot)));
            for slot in slots.map(Slot).filter(|slot| slot.row().is_some()) {
                *all.entry(slot.generation()).or_default() += 1;
            }
        }
        all
    }

    /// Containers that hold slots.
    pub(crate) fn count_containers(&self) -> u64 {
        self.containers.iter().filter(|(_, c)| !c.bytes.read().is_empty()).count() as u64
    }

    /// Bytes of containers, free slots and indexes.
    pub(crate) fn memory(&self) -> u64 {
        let containers = self.count_containers() * block(self.space.container_size);
        containers + self.gauge.bytes() + self.indexes.iter().map(Index::memory).sum::<u64>()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.indexes.first().map_or(0, |i| i.len() as u64)
    }
}

/// A handle on a table of an open database. Cheap to clone.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// let again = db.table("t")?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// assert!(db.begin()?.get(&again, &[1.into()])?.is_some(), "both handles are the same table");
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table(pub(crate) Arc<TableInner>);

impl Table {
    /// The table's name, today's if it was renamed.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// assert_eq!(t.name(), "t");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.newest().schema.name
    }

    /// The table's definition, today's if it was changed.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// assert_eq!(t.schema().columns[0].name, "id");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.0.newest().schema
    }

    /// A handle that was made with today's definition.
    pub(crate) fn today(&self) -> Table {
        Table(self.0.newest().clone())
    }

    pub(crate) fn column(&self, name: &str) -> Result<usize> {
        self.0
            .newest()
            .schema
            .columns
            .iter()
            .position(|c| c.name == name)
            .ok_or_else(|| Error::NoSuchColumn { table: self.name().to_owned(), column: name.to_owned() })
    }
}
