//! Cursors: rows one by one, own changes merged in.

use super::Transaction;
use super::write_set::own_entries;
use crate::container::{Rid, Slot};
use crate::error::Result;
use crate::key::KeyBuf;
use crate::row::{Row, RowView};
use crate::table::TableInner;
use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Index entries fetched at a time: few at first, for who looks at the first row only, and four
/// times as many each time.
const BATCHES: std::ops::RangeInclusive<usize> = 4..=64;
/// Entries fetched at once at most, whatever is expected: the index is latched meanwhile.
const EXPECTED_MAX: usize = 1024;

/// An iterator over rows, made by [`Transaction::range`] and [`Transaction::scan`].
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
/// # let mut tx = db.begin()?;
/// for id in [3, 1, 2] {
///     tx.insert(&t, &[id.into()])?;
/// }
/// let mut cursor = tx.scan(&t)?;                             // in order: the primary key is
/// assert_eq!(cursor.next().transpose()?.map(|r| r.to_json()), Some(r#"{"id":1}"#.into()));
/// assert_eq!(cursor.count(), 2);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct Cursor<'a, 'db> {
    tx: &'a Transaction<'db>,
    table: Arc<TableInner>,
    source: Source,
    own: VecDeque<(KeyBuf, Range<usize>)>,
    reverse: bool,
    /// The committed row that was read last.
    row: Vec<u8>,
}

#[derive(Debug)]
enum Source {
    Ordered {
        index: usize,
        lower: Bound<KeyBuf>,
        upper: Bound<KeyBuf>,
        batch: VecDeque<(KeyBuf, Rid)>,
        /// Entries to fetch next.
        want: usize,
        done: bool,
    },
    Places {
        /// The container to look through next, and how many on from one to the next.
        container: u32,
        step: u32,
        batch: VecDeque<Rid>,
    },
}

/// Whether the key lies within the bounds.
pub(crate) fn within(k: &KeyBuf, lower: &Bound<KeyBuf>, upper: &Bound<KeyBuf>) -> bool {
    let above = match lower {
        Bound::Unbounded => true,
        Bound::Included(b) => k >= b,
        Bound::Excluded(b) => k > b,
    };
    above
        && match upper {
            Bound::Unbounded => true,
            Bound::Included(b) => k <= b,
            Bound::Excluded(b) => k < b,
        }
}

impl<'a, 'db> Cursor<'a, 'db> {
    pub(super) fn empty(tx: &'a Transaction<'db>, table: &Arc<TableInner>) -> Self {
        let source = Source::Places { container: u32::MAX, step: 1, batch: VecDeque::new() };
        Cursor { tx, table: table.clone(), source, own: VecDeque::new(), reverse: false, row: Vec::new() }
    }

    pub(super) fn ordered(
        tx: &'a Transaction<'db>,
        table: &Arc<TableInner>,
        index: usize,
        lower: Bound<KeyBuf>,
        upper: Bound<KeyBuf>,
    ) -> Result<Self> {
        table.require_order(index)?;
        let mut own = own_entries(&tx.s.writes, table, index, &tx.s.arena);
        own.retain(|(k, _)| within(k, &lower, &upper));
        let (batch, want) = (VecDeque::new(), *BATCHES.start());
        let source = Source::Ordered { index, lower, upper, batch, want, done: false };
        Ok(Cursor { tx, table: table.clone(), source, own: own.into(), reverse: false, row: Vec::new() })
    }

    pub(super) fn all(tx: &'a Transaction<'db>, table: &Arc<TableInner>) -> Result<Self> {
        if table.indexes[0].def.kind == crate::schema::IndexKind::Ordered {
            return Self::ordered(tx, table, 0, Bound::Unbounded, Bound::Unbounded);
        }
        Ok(Self::places(tx, table, 0, 1))
    }

    /// The rows in the containers from number `first` on, each `step`-th; the first part has the
    /// transaction's own.
    pub(super) fn places(tx: &'a Transaction<'db>, table: &Arc<TableInner>, first: u32, step: u32) -> Self {
        let own = if first == 0 { own_entries(&tx.s.writes, table, 0, &tx.s.arena) } else { Vec::new() };
        let source = Source::Places { container: first, step, batch: VecDeque::new() };
        Cursor { tx, table: table.clone(), source, own: own.into(), reverse: false, row: Vec::new() }
    }

    /// The same rows from the last to the first; call it before the first row is taken.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// for id in [3, 1, 2] {
    ///     tx.insert(&t, &[id.into()])?;
    /// }
    /// let last = tx.scan(&t)?.rev().next().transpose()?;
    /// assert_eq!(last.map(|r| r.at(0) == 3.into()), Some(true));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }

    /// Says how many rows will be taken, where that is known: so many entries are fetched from the
    /// index at once, neither in several steps nor in vain. More rows may be taken all the same.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// for id in [3, 1, 2] {
    ///     tx.insert(&t, &[id.into()])?;
    /// }
    /// let first = tx.scan(&t)?.prefetch(1).next().transpose()?;
    /// assert_eq!(first.map(|r| r.at(0) == 1.into()), Some(true));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn prefetch(mut self, rows: usize) -> Self {
        if let Source::Ordered { want, .. } = &mut self.source {
            *want = rows.clamp(1, EXPECTED_MAX);
        }
        self
    }

    /// The next committed entry that this transaction has not changed.
    fn fill(&mut self) {
        let writes = &self.tx.s.writes;
        let reverse = self.reverse;
        match &mut self.source {
            Source::Ordered { index, lower, upper, batch, want, done } => {
                while batch.is_empty() && !*done {
                    let t = &*self.table;
                    t.indexes[*index].scan(lower, upper, *want, reverse, batch);
                    *done = batch.len() < *want;
                    *want = (*want * 4).min(*BATCHES.end());
                    if let Some((k, _)) = batch.back() {
                        let next = Bound::Excluded(k.clone());
                        *(if reverse { &mut *upper } else { &mut *lower }) = next;
                    }
                    if writes.len() > 0 {
                        batch.retain(|(_, r)| writes.by_rid(t.id, *r).is_none());
                    }
                }
            }
            Source::Places { container, step, batch } => {
                while batch.is_empty() && *container < self.table.containers.len() {
                    if let Some(c) = self.table.containers.get(*container) {
                        let bytes = c.bytes.read();
                        for slot in 0..c.slots(self.table.space.container_size) {
                            let rid = Rid::new(*container, slot);
                            let live = bytes.get(c.range(slot)).is_some_and(|s| Slot(s).is_live());
                            if live && writes.by_rid(self.table.id, rid).is_none() {
                                batch.push_back(rid);
                            }
                        }
                    }
                    *container = container.saturating_add(*step);
                }
            }
        }
    }

    /// What `read` makes of the next row, which is lent to it: no copy is allocated, as
    /// [`Iterator::next`] must.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// for id in [3, 1, 2] {
    ///     tx.insert(&t, &[id.into()])?;
    /// }
    /// let mut cursor = tx.scan(&t)?;
    /// let mut sum = 0;
    /// while let Some(id) = cursor.next_with(|row| row.at(0).as_int())? {
    ///     sum += id.unwrap_or(0);
    /// }
    /// assert_eq!(sum, 6);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As the iterator's.
    pub fn next_with<T>(&mut self, read: impl FnOnce(RowView<'_>) -> T) -> Result<Option<T>> {
        loop {
            self.fill();
            let layout = &self.table.layout;
            let reverse = self.reverse;
            let own = if reverse { self.own.back() } else { self.own.front() };
            let rid = match &mut self.source {
                Source::Ordered { batch, .. } => {
                    let own_first = match (own, batch.front()) {
                        (Some((k, _)), Some((c, _))) => (k < c) != reverse,
                        (Some(_), None) => true,
                        (None, _) => false,
                    };
                    if own_first { None } else { batch.pop_front().map(|e| e.1) }
                }
                Source::Places { batch, .. } => batch.pop_front(),
            };
            if let Some(rid) = rid {
                self.row.clear();
                // None in a table without locking: the row went away under the cursor.
                if self.table.read(rid, &mut self.row)?.is_some() {
                    return Ok(Some(read(RowView { bytes: &self.row, layout })));
                }
                continue;
            }
            let own = if reverse { self.own.pop_back() } else { self.own.pop_front() };
            let bytes = own.map(|(_, row)| &self.tx.s.arena[row]);
            return Ok(bytes.map(|bytes| read(RowView { bytes, layout })));
        }
    }
}

impl Iterator for Cursor<'_, '_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.next_with(|row| row.to_row()).transpose()
    }
}
