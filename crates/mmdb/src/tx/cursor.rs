//! Cursors: rows one by one, own changes merged in.

use super::Transaction;
use super::write_set::own_entries;
use crate::container::{Rid, Slot};
use crate::error::{Error, Result};
use crate::key::KeyBuf;
use crate::row::Row;
use crate::table::TableInner;
use std::collections::VecDeque;
use std::ops::{Bound, Range};

/// Index entries fetched at a time.
const BATCH: usize = 64;

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
    table: &'db TableInner,
    source: Source,
    own: VecDeque<(KeyBuf, Range<usize>)>,
    reverse: bool,
}

#[derive(Debug)]
enum Source {
    Ordered {
        index: usize,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
        batch: VecDeque<(KeyBuf, Rid)>,
        done: bool,
    },
    Places {
        container: u32,
        batch: VecDeque<Rid>,
    },
}

fn as_ref(b: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match b {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(k) => Bound::Included(k),
        Bound::Excluded(k) => Bound::Excluded(k),
    }
}

fn within(k: &[u8], lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    let above = match lower {
        Bound::Unbounded => true,
        Bound::Included(b) => k >= &b[..],
        Bound::Excluded(b) => k > &b[..],
    };
    above
        && match upper {
            Bound::Unbounded => true,
            Bound::Included(b) => k <= &b[..],
            Bound::Excluded(b) => k < &b[..],
        }
}

impl<'a, 'db> Cursor<'a, 'db> {
    pub(super) fn empty(tx: &'a Transaction<'db>, table: &'db TableInner) -> Self {
        let source = Source::Places { container: u32::MAX, batch: VecDeque::new() };
        Cursor { tx, table, source, own: VecDeque::new(), reverse: false }
    }

    pub(super) fn ordered(
        tx: &'a Transaction<'db>,
        table: &'db TableInner,
        index: usize,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Result<Self> {
        if table.indexes[index].def.kind != crate::schema::IndexKind::Ordered {
            return Err(Error::Schema {
                table: table.schema.name.clone(),
                reason: format!("index {} is a hash index and has no order", table.indexes[index].def.name),
            });
        }
        let mut own = own_entries(&tx.s.writes, table, index, &tx.s.arena);
        own.retain(|(k, _)| within(k.as_slice(), &lower, &upper));
        let source = Source::Ordered { index, lower, upper, batch: VecDeque::new(), done: false };
        Ok(Cursor { tx, table, source, own: own.into(), reverse: false })
    }

    pub(super) fn all(tx: &'a Transaction<'db>, table: &'db TableInner) -> Result<Self> {
        if table.indexes[0].def.kind == crate::schema::IndexKind::Ordered {
            return Self::ordered(tx, table, 0, Bound::Unbounded, Bound::Unbounded);
        }
        let own = own_entries(&tx.s.writes, table, 0, &tx.s.arena);
        let source = Source::Places { container: 0, batch: VecDeque::new() };
        Ok(Cursor { tx, table, source, own: own.into(), reverse: false })
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

    fn own_row(&self, r: Range<usize>) -> Row {
        Row { bytes: self.tx.s.arena[r].into(), layout: self.table.layout.clone() }
    }

    fn committed(&self, rid: Rid) -> Result<Option<Row>> {
        let mut b = Vec::new();
        let there = self.table.read(rid, &mut b)?;
        Ok(there.map(|_| Row { bytes: b.into(), layout: self.table.layout.clone() }))
    }

    /// The next committed entry that this transaction has not changed.
    fn fill(&mut self) {
        let writes = &self.tx.s.writes;
        let reverse = self.reverse;
        match &mut self.source {
            Source::Ordered { index, lower, upper, batch, done } => {
                while batch.is_empty() && !*done {
                    let t = self.table;
                    let got = t.indexes[*index].scan(as_ref(lower), as_ref(upper), BATCH, reverse);
                    let got = got.unwrap_or_default();
                    *done = got.len() < BATCH;
                    if let Some((k, _)) = got.last() {
                        let next = Bound::Excluded(k.as_slice().to_vec());
                        *(if reverse { &mut *upper } else { &mut *lower }) = next;
                    }
                    batch.extend(got.into_iter().filter(|(_, r)| writes.by_rid(t.id, *r).is_none()));
                }
            }
            Source::Places { container, batch } => {
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
                    *container += 1;
                }
            }
        }
    }
}

impl Iterator for Cursor<'_, '_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        loop {
            self.fill();
            let reverse = self.reverse;
            let own = if reverse { self.own.back() } else { self.own.front() }.cloned();
            let rid = match &mut self.source {
                Source::Ordered { batch, .. } => {
                    let own_first = match (&own, batch.front()) {
                        (Some((k, _)), Some((c, _))) => (k < c) != reverse,
                        (Some(_), None) => true,
                        (None, _) => false,
                    };
                    if own_first { None } else { batch.pop_front().map(|e| e.1) }
                }
                Source::Places { batch, .. } => batch.pop_front(),
            };
            match rid {
                Some(rid) => match self.committed(rid) {
                    Ok(Some(row)) => return Some(Ok(row)),
                    // A table without locking: the row went away under the cursor.
                    Ok(None) => {}
                    Err(e) => return Some(Err(e)),
                },
                None => {
                    let (_, r) = own?;
                    let _ = if reverse { self.own.pop_back() } else { self.own.pop_front() };
                    return Some(Ok(self.own_row(r)));
                }
            }
        }
    }
}
