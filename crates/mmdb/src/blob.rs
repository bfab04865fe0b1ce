//! Blobs: values that are larger than a row can be.
//!
//! A blob is a run of rows of a table of its own, so that it is locked, logged, checkpointed,
//! copied, counted and recovered as rows are, and nothing of that is done a second time here. See
//! "Blobs" in `docs/design.md`.

use crate::column::ColumnType;
use crate::container::SLOT_HEAD;
use crate::database::Database;
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::row::RowView;
use crate::schema::{Locking, Schema};
use crate::snapshot::Snapshot;
use crate::table::{BlobTable, Table, TableInner};
use crate::tx::Transaction;
use crate::value::Value;
use std::sync::Arc;

/// Bytes of a slot that a whole chunk fills: a quarter of a usual container. Smaller ones cost more
/// entries of the index, larger ones more copying for a change of a few bytes.
const SLOT: usize = 16 << 10;

/// Bytes of a chunk's row but its data: the null bitmap, the three fixed columns, and where the
/// data end.
const ROW: usize = 1 + 8 + 4 + 8 + 2;

/// Columns of the table.
const LENGTH: usize = 2;
const DATA: usize = 3;

/// A table of blobs: binary values of up to 16 MiB, each with a number that the caller chooses,
/// such as the primary key of the row that it belongs to.
///
/// A blob is read and changed in parts, by transactions, and read in snapshots; whoever changes it
/// locks it whole. A blob goes with its row where [`Blobs::belong_to`] was called.
///
/// ```
/// use mmdb::{ColumnType, Database, Schema};
/// let db = Database::in_memory()?;
/// let items = db.create_table(Schema::new("item").column("id", ColumnType::UInt64).primary_key(&["id"]))?;
/// let pictures = db.blobs("picture")?;
/// db.run(|tx| {
///     tx.insert(&items, &[7u64.into()])?;
///     pictures.put(tx, 7, &[0; 100_000])
/// })?;
/// db.run(|tx| pictures.write(tx, 7, 50_000, b"here"))?;          // logs some 40 bytes
/// let mut part = [0; 6];
/// let mut tx = db.begin()?;
/// assert_eq!(pictures.read_at(&mut tx, 7, 49_999, &mut part)?, Some(6));
/// assert_eq!(&part, b"\0here\0");
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blobs {
    table: Table,
    /// Bytes of a whole chunk.
    chunk: u64,
}

/// The blobs of a snapshot.
///
/// ```
/// # let db = mmdb::Database::in_memory()?;
/// let pictures = db.blobs("picture")?;
/// db.run(|tx| pictures.put(tx, 1, b"before"))?;
/// let moment = db.snapshot()?;
/// db.run(|tx| pictures.put(tx, 1, b"after"))?;
/// assert_eq!(pictures.at(&moment).read(1)?.as_deref(), Some(&b"before"[..]));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlobSnapshot<'a, 'db> {
    blobs: &'a Blobs,
    snapshot: &'a Snapshot<'db>,
}

/// Where rows are read.
trait Source {
    /// Whether there is a row with this key, which is shown.
    fn show(&mut self, t: &Table, key: &[Value<'_>], f: &mut dyn FnMut(RowView<'_>)) -> Result<bool>;
}

impl Source for Transaction<'_> {
    fn show(&mut self, t: &Table, key: &[Value<'_>], f: &mut dyn FnMut(RowView<'_>)) -> Result<bool> {
        Ok(self.get_with(t, key, f)?.is_some())
    }
}

impl Source for &Snapshot<'_> {
    fn show(&mut self, t: &Table, key: &[Value<'_>], f: &mut dyn FnMut(RowView<'_>)) -> Result<bool> {
        Ok(self.get_with(t, key, f)?.is_some())
    }
}

fn key(id: u64, chunk: u64) -> [Value<'static>; 2] {
    [Value::UInt(id), Value::UInt(chunk)]
}

impl Database {
    /// The table of blobs with this name, which is created if there is none.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"..."))?;
    /// assert_eq!(db.blobs("picture")?.read(&mut db.begin()?, 1)?, Some(b"...".to_vec()));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::create_table_if_missing`]: [`Error::SchemaDiffers`] where the name is another
    /// table's.
    pub fn blobs(&self, name: &str) -> Result<Blobs> {
        documented("Database::blobs", || Blobs::of(&self.create_table_if_missing(self.blob_schema(name))?))
    }

    /// How a table of blobs is defined, for one that is not logged or locked as usual; it goes into
    /// [`Database::create_table`], and that table into [`Blobs::of`].
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// use mmdb::{Blobs, Logging};
    /// let table = db.create_table(db.blob_schema("thumbnail").logging(Logging::Volatile))?;
    /// let thumbnails = Blobs::of(&table)?;
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn blob_schema(&self, name: &str) -> Schema {
        let slot = self.0.engine.space.container_size.min(SLOT);
        let data = u16::try_from(slot - SLOT_HEAD - ROW).unwrap_or(u16::MAX);
        Schema::new(name)
            .column("blob", ColumnType::UInt64)
            .column("chunk", ColumnType::UInt32)
            .nullable("length", ColumnType::UInt64)
            .column("data", ColumnType::VarBytes(data))
            .ordered_primary_key(&["blob", "chunk"])
    }
}

impl Blobs {
    /// Most bytes of a blob: 16 MiB.
    ///
    /// ```
    /// assert_eq!(mmdb::Blobs::MAX_BYTES, 16 << 20);
    /// ```
    pub const MAX_BYTES: u64 = 16 << 20;

    /// The blobs of a table that was created with [`Database::blob_schema`].
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// use mmdb::Blobs;
    /// let table = db.create_table(db.blob_schema("picture"))?;
    /// assert_eq!(Blobs::of(&table)?.table().name(), "picture");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SchemaDiffers`] of another table; [`Error::Operation`] where it locks nothing, so
    /// that readers would see parts of changes.
    pub fn of(table: &Table) -> Result<Blobs> {
        documented("Blobs::of", || {
            let schema = table.schema();
            let chunk = match schema.columns.get(DATA).map(|c| c.kind) {
                Some(ColumnType::VarBytes(n)) if n > 0 => n,
                _ => 1,
            };
            let wanted = Schema::new(&schema.name)
                .column("blob", ColumnType::UInt64)
                .column("chunk", ColumnType::UInt32)
                .nullable("length", ColumnType::UInt64)
                .column("data", ColumnType::VarBytes(chunk))
                .ordered_primary_key(&["blob", "chunk"])
                .locking(schema.locking)
                .logging(schema.logging);
            let differences = schema.differences(&wanted);
            if !differences.is_empty() {
                return Err(Error::SchemaDiffers { table: schema.name.clone(), differences });
            }
            let blobs = Blobs { table: table.clone(), chunk: chunk.into() };
            if schema.locking == Locking::None {
                return Err(blobs.refused("keep blobs in it", "it locks nothing".into()));
            }
            Ok(blobs)
        })
    }

    /// The table that has them: one row for each chunk of a blob.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, &[0; 40_000]))?;
    /// assert_eq!(db.begin()?.scan(pictures.table())?.count(), 3);
    /// db.drop_table(pictures.table())?;
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The blobs as a snapshot has them.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// let moment = db.snapshot()?;
    /// assert_eq!(pictures.at(&moment).length(1)?, None);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn at<'a, 'db>(&'a self, snapshot: &'a Snapshot<'db>) -> BlobSnapshot<'a, 'db> {
        BlobSnapshot { blobs: self, snapshot }
    }

    /// Bytes of a blob, or none if it is not there. Nobody changes it until the transaction ends.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"1234"))?;
    /// let mut tx = db.begin()?;
    /// assert_eq!((pictures.length(&mut tx, 1)?, pictures.length(&mut tx, 2)?), (Some(4), None));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Error::CorruptTable`] where a chunk is missing.
    pub fn length(&self, tx: &mut Transaction<'_>, id: u64) -> Result<Option<u64>> {
        documented("Blobs::length", || self.length_in(tx, id))
    }

    /// A whole blob, or none if it is not there.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"1234"))?;
    /// assert_eq!(pictures.read(&mut db.begin()?, 1)?, Some(b"1234".to_vec()));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Error::CorruptTable`] where a chunk is missing.
    pub fn read(&self, tx: &mut Transaction<'_>, id: u64) -> Result<Option<Vec<u8>>> {
        documented("Blobs::read", || self.read_in(tx, id))
    }

    /// Reads from byte `at` into `out` as much as there is; how much that was, or none if there is
    /// no such blob. Nothing else is held meanwhile: who reads part by part needs no room for the
    /// whole.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"1234"))?;
    /// let mut part = [0; 3];
    /// assert_eq!(pictures.read_at(&mut db.begin()?, 1, 2, &mut part)?, Some(2));
    /// assert_eq!(&part, b"34\0");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Error::CorruptTable`] where a chunk is missing.
    pub fn read_at(
        &self,
        tx: &mut Transaction<'_>,
        id: u64,
        at: u64,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        documented("Blobs::read_at", || self.read_at_in(tx, id, at, out))
    }

    /// Makes `bytes` the whole of a blob, whether it is there or not. The log gets what differs.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, &[1; 70_000]))?;
    /// db.run(|tx| pictures.put(tx, 1, b"short"))?;
    /// assert_eq!(db.stats().tables[0].rows, 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] beyond [`Blobs::MAX_BYTES`], and then the transaction goes on. As
    /// [`Transaction::upsert`], and [`Error::CorruptTable`] where a chunk is missing; then the blob
    /// may be half changed, so the transaction can only end: its commit returns the error again.
    pub fn put(&self, tx: &mut Transaction<'_>, id: u64, bytes: &[u8]) -> Result<()> {
        documented("Blobs::put", || {
            self.require_size(bytes.len() as u64)?;
            let before = self.lock(tx, id)?;
            let done = self.put_chunks(tx, id, bytes, before);
            whole(tx, done)
        })
    }

    /// Puts `bytes` over those from byte `at` on, and behind the end; one that is not there is made
    /// by a write at 0. The log gets what differs.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| {
    ///     pictures.write(tx, 1, 0, b"one")?;
    ///     pictures.write(tx, 1, 3, b" two")?;
    ///     pictures.write(tx, 1, 2, b"e")
    /// })?;
    /// assert_eq!(pictures.read(&mut db.begin()?, 1)?, Some(b"one two".to_vec()));
    /// assert!(db.run(|tx| pictures.write(tx, 1, 8, b"!")).is_err(), "it has 7 bytes");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] if `at` is behind the end, and as [`Blobs::put`].
    pub fn write(&self, tx: &mut Transaction<'_>, id: u64, at: u64, bytes: &[u8]) -> Result<()> {
        documented("Blobs::write", || {
            let end = at.saturating_add(bytes.len() as u64);
            self.require_size(end)?;
            let before = self.lock(tx, id)?;
            let length = before.unwrap_or(0);
            if at > length {
                let reason = format!("it is to begin at byte {at} of blob {id}, which has {length}");
                return Err(self.refused("write a blob", reason));
            }
            let done = self.write_chunks(tx, id, (at, bytes), before);
            whole(tx, done)
        })
    }

    /// Cuts a blob to its first `length` bytes; whether there is one.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"1234"))?;
    /// assert!(db.run(|tx| pictures.truncate(tx, 1, 2))?);
    /// assert_eq!(pictures.read(&mut db.begin()?, 1)?, Some(b"12".to_vec()));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] if it is shorter, and as [`Blobs::put`].
    pub fn truncate(&self, tx: &mut Transaction<'_>, id: u64, length: u64) -> Result<bool> {
        documented("Blobs::truncate", || {
            let Some(before) = self.lock(tx, id)? else { return Ok(false) };
            if length > before {
                let reason = format!("blob {id} has {before} bytes, fewer than {length}");
                return Err(self.refused("cut a blob", reason));
            }
            let done = self.cut(tx, id, length, before);
            whole(tx, done).map(|()| true)
        })
    }

    /// Deletes a blob; whether there was one.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, &[1; 70_000]))?;
    /// assert!(db.run(|tx| pictures.delete(tx, 1))?);
    /// assert_eq!(db.stats().tables[0].rows, 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::delete`]; then the blob may be half deleted, and the transaction can only
    /// end, which [`Blobs::put`] explains.
    pub fn delete(&self, tx: &mut Transaction<'_>, id: u64) -> Result<bool> {
        documented("Blobs::delete", || {
            let Some(before) = self.lock(tx, id)? else { return Ok(false) };
            let done =
                (0..self.chunks(before)).try_for_each(|c| tx.delete(&self.table, &key(id, c)).map(drop));
            whole(tx, done).map(|()| true)
        })
    }

    /// From now on, until the database is closed, whoever deletes a row of `owner`, by whatever call
    /// or because it expires, deletes the blob with its primary key in the same transaction. Call
    /// it at each opening, as [`Database::blobs`].
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// let schema = Schema::new("item").column("id", ColumnType::UInt64).ordered_primary_key(&["id"]);
    /// let items = db.create_table(schema)?;
    /// let pictures = db.blobs("picture")?;
    /// pictures.belong_to(&items)?;
    /// db.run(|tx| {
    ///     tx.insert(&items, &[7u64.into()])?;
    ///     pictures.put(tx, 7, &[0; 100_000])
    /// })?;
    /// db.run(|tx| tx.delete_range(&items, "primary", [Value::UInt(5)]..))?;
    /// assert_eq!(pictures.length(&mut db.begin()?, 7)?, None);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] if the primary key is not one column of `UInt64` or `Int64` (whose
    /// number as `u64` the blob has); [`Error::NoSuchTable`] if one of the two is gone, or they are
    /// not of one database. If a blob cannot be deleted later, the transaction can only end.
    pub fn belong_to(&self, owner: &Table) -> Result<()> {
        documented("Blobs::belong_to", || {
            let schema = owner.schema();
            let columns = schema.indexes.first().map_or(&[][..], |primary| &primary.columns);
            let kinds: Vec<ColumnType> = columns.iter().map(|&c| schema.columns[c].kind).collect();
            if !matches!(kinds[..], [ColumnType::UInt64 | ColumnType::Int64]) {
                let reason = format!("the primary key is {kinds:?}, and has to be one UInt64 or Int64");
                let (table, operation) = (schema.name.clone(), "have blobs belong to its rows");
                return Err(Error::Operation { table, operation, reason });
            }
            owner.0.alive()?;
            self.table.0.alive()?;
            // Of another database, or of an earlier opening, no blob could be deleted with its row.
            if !Arc::ptr_eq(&owner.0.space, &self.table.0.space) {
                return Err(self.table.0.gone());
            }
            let mut attached = owner.0.blobs.write();
            attached.retain(|b| b.table.0.is_live() && b.table.0.id != self.table.0.id);
            attached.push(BlobTable { table: self.table.clone(), chunk: self.chunk });
            Ok(())
        })
    }

    /// Chunks of a blob with this length: one at least, which has the length.
    fn chunks(&self, length: u64) -> u64 {
        length.div_ceil(self.chunk).max(1)
    }

    fn refused(&self, operation: &'static str, reason: String) -> Error {
        Error::Operation { table: self.table.name().to_owned(), operation, reason }
    }

    fn require_size(&self, bytes: u64) -> Result<()> {
        if bytes > Self::MAX_BYTES {
            let reason = format!("it would have {bytes} bytes; {} are possible", Self::MAX_BYTES);
            return Err(self.refused("write a blob", reason));
        }
        Ok(())
    }

    /// Locks a blob for a change, whether there is one or not; its length.
    fn lock(&self, tx: &mut Transaction<'_>, id: u64) -> Result<Option<u64>> {
        // Whoever reads or changes any chunk has locked the first one, so nobody meets anybody at
        // the others.
        tx.lock_key(&self.table, &key(id, 0))?;
        self.length_in(tx, id)
    }

    fn set(&self, tx: &mut Transaction<'_>, id: u64, chunk: u64, length: u64, data: &[u8]) -> Result<()> {
        let length = if chunk == 0 { Value::UInt(length) } else { Value::Null };
        let [blob, number] = key(id, chunk);
        tx.upsert(&self.table, &[blob, number, length, Value::Bytes(data)]).map(drop)
    }

    fn put_chunks(&self, tx: &mut Transaction<'_>, id: u64, bytes: &[u8], before: Option<u64>) -> Result<()> {
        let length = bytes.len() as u64;
        let was = before.map_or(0, |before| self.chunks(before));
        for c in 0..self.chunks(length) {
            let from = (c * self.chunk) as usize;
            let data = &bytes[from..bytes.len().min(from + self.chunk as usize)];
            // What stays as it is costs the log nothing.
            let mut stays = false;
            if c < was && (c > 0 || before == Some(length)) {
                self.show(tx, id, c, &mut |there| stays = there == data)?;
            }
            if !stays {
                self.set(tx, id, c, length, data)?;
            }
        }
        (self.chunks(length)..was).try_for_each(|c| tx.delete(&self.table, &key(id, c)).map(drop))
    }

    fn write_chunks(
        &self,
        tx: &mut Transaction<'_>,
        id: u64,
        (at, bytes): (u64, &[u8]),
        before: Option<u64>,
    ) -> Result<()> {
        let (end, was) = (at + bytes.len() as u64, before.unwrap_or(0));
        let length = end.max(was);
        if before.is_none() && bytes.is_empty() {
            return self.set(tx, id, 0, 0, &[]);
        }
        let mut data = Vec::new();
        for c in at / self.chunk..end.div_ceil(self.chunk) {
            let begin = c * self.chunk;
            let (from, to) = (at.max(begin), end.min(begin + self.chunk));
            data.clear();
            // What stays of it: in front of the new bytes, or behind them.
            if from > begin || to < was.min(begin + self.chunk) {
                self.show(tx, id, c, &mut |bytes| data.extend_from_slice(bytes))?;
            }
            let (first, last) = ((from - begin) as usize, (to - begin) as usize);
            data.resize(data.len().max(last), 0);
            data[first..last].copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            self.set(tx, id, c, length, &data)?;
        }
        if length > was && at >= self.chunk {
            tx.update_at(&self.table, &key(id, 0), &[(LENGTH, Value::UInt(length))])?;
        }
        Ok(())
    }

    fn cut(&self, tx: &mut Transaction<'_>, id: u64, length: u64, before: u64) -> Result<()> {
        let left = self.chunks(length);
        (left..self.chunks(before)).try_for_each(|c| tx.delete(&self.table, &key(id, c)).map(drop))?;
        let last = left - 1;
        let mut data = Vec::new();
        self.show(tx, id, last, &mut |bytes| data.extend_from_slice(bytes))?;
        data.truncate((length - last * self.chunk) as usize);
        self.set(tx, id, last, length, &data)?;
        if last > 0 {
            tx.update_at(&self.table, &key(id, 0), &[(LENGTH, Value::UInt(length))])?;
        }
        Ok(())
    }

    /// Shows the data of a chunk, which is there.
    fn show(&self, source: &mut impl Source, id: u64, chunk: u64, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut show = |row: RowView<'_>| f(row.at(DATA).as_bytes().unwrap_or_default());
        if source.show(&self.table, &key(id, chunk), &mut show)? {
            return Ok(());
        }
        Err(Error::corrupt_table(self.table.name(), format!("blob {id} lacks its chunk {chunk}")))
    }

    fn length_in(&self, source: &mut impl Source, id: u64) -> Result<Option<u64>> {
        let mut length = None;
        let mut show = |row: RowView<'_>| length = row.at(LENGTH).as_uint();
        if !source.show(&self.table, &key(id, 0), &mut show)? {
            return Ok(None);
        }
        match length.filter(|n| *n <= Self::MAX_BYTES) {
            Some(length) => Ok(Some(length)),
            None => Err(Error::corrupt_table(self.table.name(), format!("blob {id} has no length"))),
        }
    }

    fn read_in(&self, source: &mut impl Source, id: u64) -> Result<Option<Vec<u8>>> {
        let Some(length) = self.length_in(source, id)? else { return Ok(None) };
        let mut bytes = vec![0; length as usize];
        self.copy(source, id, (0, length), &mut bytes)?;
        Ok(Some(bytes))
    }

    fn read_at_in(
        &self,
        source: &mut impl Source,
        id: u64,
        at: u64,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        let Some(length) = self.length_in(source, id)? else { return Ok(None) };
        let count = length.saturating_sub(at).min(out.len() as u64) as usize;
        self.copy(source, id, (at, length), &mut out[..count])?;
        Ok(Some(count))
    }

    /// Fills `out` from byte `at` of a blob that has as much.
    fn copy(
        &self,
        source: &mut impl Source,
        id: u64,
        (at, length): (u64, u64),
        out: &mut [u8],
    ) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let position = at + done as u64;
            let chunk = position / self.chunk;
            let begin = (position - chunk * self.chunk) as usize;
            let has = (length - chunk * self.chunk).min(self.chunk) as usize;
            let count = (out.len() - done).min(has - begin);
            let to = &mut out[done..done + count];
            let mut is_whole = false;
            self.show(source, id, chunk, &mut |bytes| {
                is_whole = bytes.len() == has;
                if is_whole {
                    to.copy_from_slice(&bytes[begin..begin + count]);
                }
            })?;
            if !is_whole {
                let what = format!("chunk {chunk} of blob {id} has not the {has} bytes that it should");
                return Err(Error::corrupt_table(self.table.name(), what));
            }
            done += count;
        }
        Ok(())
    }
}

/// A transaction that could not make a change whole can only end.
fn whole<T>(tx: &mut Transaction<'_>, done: Result<T>) -> Result<T> {
    if let Err(error) = &done {
        tx.give_up(error);
    }
    done
}

impl Transaction<'_> {
    /// Deletes the blobs of a row that was deleted.
    #[cold]
    pub(crate) fn delete_blobs(&mut self, owner: &TableInner, key: &[u8]) -> Result<()> {
        let Ok(key) = <[u8; 8]>::try_from(key) else { return Ok(()) };
        let is_signed = owner.schema.columns[owner.schema.indexes[0].columns[0]].kind == ColumnType::Int64;
        // A key's first bit is turned over where there is a sign.
        let id = u64::from_be_bytes(key) ^ if is_signed { 1 << 63 } else { 0 };
        let attached = owner.blobs.read().clone();
        for BlobTable { table, chunk } in attached.into_iter().filter(|b| b.table.0.is_live()) {
            let done = Blobs { table, chunk }.delete(self, id);
            whole(self, done)?;
        }
        Ok(())
    }
}

impl BlobSnapshot<'_, '_> {
    /// The numbers of all blobs, rising.
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| [5, 3].iter().try_for_each(|id| pictures.put(tx, *id, &[0; 50_000])))?;
    /// assert_eq!(pictures.at(&db.snapshot()?).ids()?, [3, 5]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::range`].
    pub fn ids(&self) -> Result<Vec<u64>> {
        documented("BlobSnapshot::ids", || {
            let mut all = Vec::new();
            let mut next = Some(0);
            while let Some(from) = next {
                let mut cursor = self.snapshot.range(&self.blobs.table, "primary", [Value::UInt(from)]..)?;
                let Some(id) = cursor.next_with(|row| row.at(0).as_uint())?.flatten() else { break };
                all.push(id);
                next = id.checked_add(1);
            }
            Ok(all)
        })
    }

    /// As [`Blobs::length`].
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"1234"))?;
    /// assert_eq!(pictures.at(&db.snapshot()?).length(1)?, Some(4));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`]; [`Error::CorruptTable`] where a chunk is missing.
    pub fn length(&self, id: u64) -> Result<Option<u64>> {
        documented("BlobSnapshot::length", || self.blobs.length_in(&mut &*self.snapshot, id))
    }

    /// As [`Blobs::read`].
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"1234"))?;
    /// assert_eq!(pictures.at(&db.snapshot()?).read(1)?, Some(b"1234".to_vec()));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`]; [`Error::CorruptTable`] where a chunk is missing.
    pub fn read(&self, id: u64) -> Result<Option<Vec<u8>>> {
        documented("BlobSnapshot::read", || self.blobs.read_in(&mut &*self.snapshot, id))
    }

    /// As [`Blobs::read_at`].
    ///
    /// ```
    /// # let db = mmdb::Database::in_memory()?;
    /// let pictures = db.blobs("picture")?;
    /// db.run(|tx| pictures.put(tx, 1, b"1234"))?;
    /// let mut part = [0; 2];
    /// assert_eq!(pictures.at(&db.snapshot()?).read_at(1, 1, &mut part)?, Some(2));
    /// assert_eq!(&part, b"23");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`]; [`Error::CorruptTable`] where a chunk is missing.
    pub fn read_at(&self, id: u64, at: u64, out: &mut [u8]) -> Result<Option<usize>> {
        documented("BlobSnapshot::read_at", || self.blobs.read_at_in(&mut &*self.snapshot, id, at, out))
    }
}
