//! Cursors over snapshots.

use super::Snapshot;
use crate::container::Slot;
use crate::documented::documented;
use crate::error::Result;
use crate::key::KeyBuf;
use crate::row::{Row, RowView};
use crate::schema::IndexKind;
use crate::table::TableInner;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Index entries fetched at a time: few at first, for who looks at the first row only.
const BATCHES: std::ops::RangeInclusive<usize> = 4..=64;
/// Slots of a container read at a time: a commit that changes one of them waits for the latch as
/// long as that takes, and a container may have two thousand.
const SLOTS: u16 = 64;

/// An iterator over the rows of a snapshot, made by [`Snapshot::range`] and [`Snapshot::scan`].
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema};
/// # let db = Database::in_memory()?;
/// let schema = Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
/// let t = db.create_table(schema)?;
/// db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
/// let snapshot = db.snapshot()?;
/// let last = snapshot.scan(&t)?.rev().next().transpose()?;
/// assert_eq!(last.map(|row| row.at(0) == 3.into()), Some(true));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct SnapshotCursor<'a, 'db> {
    snapshot: &'a Snapshot<'db>,
    table: Arc<TableInner>,
    source: Source,
    reverse: bool,
    /// Rows that were read together, and where each lies.
    rows: Vec<u8>,
    ranges: VecDeque<Range<usize>>,
    /// It has returned an error, and returns it again.
    failed: bool,
}

#[derive(Debug)]
enum Source {
    Ordered {
        index: usize,
        lower: Bound<KeyBuf>,
        upper: Bound<KeyBuf>,
        /// Entries to fetch next.
        want: usize,
        done: bool,
    },
    Places {
        /// The container to look through next, and how many on from one to the next.
        container: u32,
        step: u32,
        /// The slot to begin with there.
        slot: u16,
    },
}

impl<'a, 'db> SnapshotCursor<'a, 'db> {
    fn new(snapshot: &'a Snapshot<'db>, table: &Arc<TableInner>, source: Source) -> Self {
        let (rows, ranges) = (Vec::new(), VecDeque::new());
        let (table, reverse, failed) = (table.clone(), false, false);
        SnapshotCursor { snapshot, table, source, reverse, rows, ranges, failed }
    }

    pub(super) fn empty(snapshot: &'a Snapshot<'db>, table: &Arc<TableInner>) -> Self {
        Self::places(snapshot, table, u32::MAX, 1)
    }

    pub(super) fn ordered(
        snapshot: &'a Snapshot<'db>,
        table: &Arc<TableInner>,
        index: usize,
        lower: Bound<KeyBuf>,
        upper: Bound<KeyBuf>,
    ) -> Self {
        let want = *BATCHES.start();
        Self::new(snapshot, table, Source::Ordered { index, lower, upper, want, done: false })
    }

    pub(super) fn all(snapshot: &'a Snapshot<'db>, table: &Arc<TableInner>) -> Self {
        match table.indexes[0].def.kind {
            IndexKind::Ordered => Self::ordered(snapshot, table, 0, Bound::Unbounded, Bound::Unbounded),
            IndexKind::Hash => Self::places(snapshot, table, 0, 1),
        }
    }

    pub(super) fn places(
        snapshot: &'a Snapshot<'db>,
        table: &Arc<TableInner>,
        container: u32,
        step: u32,
    ) -> Self {
        Self::new(snapshot, table, Source::Places { container, step, slot: 0 })
    }

    /// The same rows from the last to the first; call it before the first row is taken.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// let schema = Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
    /// let t = db.create_table(schema)?;
    /// db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let snapshot = db.snapshot()?;
    /// let ids: Vec<_> = snapshot.scan(&t)?.rev().map(|row| row.map(|r| r.to_json())).collect::<Result<_, _>>()?;
    /// assert_eq!(ids, [r#"{"id":3}"#, r#"{"id":2}"#, r#"{"id":1}"#]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self
    }

    /// Reads the next rows together. False if there are no more.
    fn fill(&mut self) -> Result<bool> {
        self.rows.clear();
        self.ranges.clear();
        if self.failed {
            return self.stands().map(|()| false);
        }
        let (t, snapshot) = (&*self.table, self.snapshot);
        match &mut self.source {
            Source::Ordered { done: true, .. } => return Ok(false),
            Source::Ordered { index, lower, upper, want, done } => {
                let mut found = VecDeque::new();
                t.indexes[*index].scan(lower, upper, *want, self.reverse, &mut found);
                *done = found.len() < *want;
                *want = (*want * 4).min(*BATCHES.end());
                // The ghosts of the same part of the index, behind it: an entry that leaves the
                // index in between is a ghost before.
                let (mut from, mut to) = (lower.clone(), upper.clone());
                let mut last = found.back().filter(|_| !*done).map(|(key, _)| key.clone());
                if let Some(last) = &last {
                    *(if self.reverse { &mut from } else { &mut to }) = Bound::Included(last.clone());
                }
                let mut entries = Vec::new();
                if let Some(cut) = t.indexes[*index].ghosts_within(&from, &to, self.reverse, &mut entries) {
                    // There are more ghosts: what lies behind these is read with them.
                    found.retain(|(key, _)| if self.reverse { *key >= cut } else { *key <= cut });
                    last = Some(cut);
                    *done = false;
                }
                if let Some(last) = last {
                    *(if self.reverse { upper } else { lower }) = Bound::Excluded(last);
                }
                entries.extend(found);
                entries.sort_unstable();
                entries.dedup();
                if self.reverse {
                    entries.reverse();
                }
                let mut its_key = Vec::new();
                for (key, rid) in entries {
                    let start = self.rows.len();
                    let key = t.indexes[*index].key_of(&key);
                    if snapshot.read_with_key(t, *index, key, rid, &mut self.rows, &mut its_key)? {
                        self.ranges.push_back(start..self.rows.len());
                    }
                }
            }
            Source::Places { container, .. } if *container >= t.containers.len() => return Ok(false),
            Source::Places { container, step, slot: first } => {
                let found = t.containers.get(*container).filter(|c| c.born < snapshot.opened.number);
                let slots = found.map_or(0, |c| c.slots(t.space.container_size));
                let part = *first..first.saturating_add(SLOTS).min(slots);
                if part.end == slots {
                    (*container, *first) = (container.saturating_add(*step), 0);
                } else {
                    *first = part.end;
                }
                if let Some(c) = found {
                    let bytes = c.bytes.read();
                    let versions = c.versions.lock();
                    for slot in part {
                        let now = || bytes.get(c.range(slot)).and_then(|slot| t.layout.row_of(Slot(slot)));
                        let kept = versions.at(slot, snapshot.opened.number);
                        if let Some(row) = kept.map_or_else(now, |row| row.map(Cow::Borrowed)) {
                            let start = self.rows.len();
                            self.rows.extend_from_slice(&row);
                            self.ranges.push_back(start..self.rows.len());
                        }
                    }
                }
                if self.reverse {
                    self.ranges.make_contiguous().reverse();
                }
            }
        }
        self.stands().map(|()| true)
    }

    /// Whether what was just read is what the snapshot shows. If not, nothing of it is shown, now
    /// or later, and the cursor does not come to its end: what became of the table stays so.
    fn stands(&mut self) -> Result<()> {
        let done = match &self.source {
            Source::Ordered { index, .. } => self.snapshot.stands_by(&self.table, *index),
            Source::Places { .. } => self.snapshot.stands(&self.table),
        };
        if done.is_err() {
            self.failed = true;
            self.ranges.clear();
        }
        done
    }

    /// What `read` makes of the next row, which is lent to it.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let snapshot = db.snapshot()?;
    /// let (mut cursor, mut sum) = (snapshot.scan(&t)?, 0);
    /// while let Some(id) = cursor.next_with(|row| row.at(0).as_int())? {
    ///     sum += id.unwrap_or(0);
    /// }
    /// assert_eq!(sum, 6);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::SnapshotExpired`]; [`crate::Error::NoSuchTable`] if the table was filled or
    /// dropped since, [`crate::Error::NoSuchIndex`] if the index was; [`crate::Error::Operation`]
    /// if the table got or lost a column. Rows are missing then, and every further call returns it
    /// again.
    pub fn next_with<T>(&mut self, read: impl FnOnce(RowView<'_>) -> T) -> Result<Option<T>> {
        documented("SnapshotCursor::next_with", || {
            loop {
                if let Some(range) = self.ranges.pop_front() {
                    return Ok(Some(read(RowView { bytes: &self.rows[range], layout: &self.table.layout })));
                }
                if !self.fill()? {
                    return Ok(None);
                }
            }
        })
    }
}

impl Iterator for SnapshotCursor<'_, '_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.next_with(|row| row.to_row()).transpose()
    }
}
