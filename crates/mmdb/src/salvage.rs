//! Explicit salvage of a database that refuses to open, and read-only inspection.

use crate::backup::{claim, take_back};
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::log::record::{self, Kind};
use crate::manifest::{self, Image, Inventory, Manifest, PublishedCheckpoint};
use crate::medium::Medium;
use crate::options::Options;
use crate::recovery::buffer::Buffer;
use crate::recovery::survey::{Locks, Purpose, Survey};
use crate::recovery::{self, LoadedDatabase, RecoveryReport, scan};
use crate::row::Row;
use crate::schema::{Logging, Schema};
use crate::snapshot::line_of;
use crate::standby::{Lineage, Role};
use crate::table::TableInner;
use crate::{codec::Reader, container::Slot};
use std::path::Path;

/// What [`salvage`] saved and what it could not.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let options = Options::in_memory();
/// # let db = Database::open("/db", options.clone())?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
/// # drop((t, db));
/// let saved = mmdb::salvage("/db", "/saved", &options)?;
/// assert_eq!((saved.cut, saved.rows, saved.problems.len()), (1, 1, 0));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageReport {
    /// The copy holds every commit up to this one, except for what `problems` names. It may hold
    /// parts of later ones, where the images of a checkpoint have them and the log is lost.
    pub cut: u64,
    /// Rows saved, over all tables.
    pub rows: u64,
    /// What was lost, in words with file and offset; rows that share a unique key with another one
    /// with their place, and shown.
    pub problems: Vec<String>,
}

/// Saves what can be read of the damaged database `from` into a new database in the empty directory
/// `to`: the images that are whole and the log up to its first missing commit. `from` is not
/// changed.
///
/// ```
/// use mmdb::medium::{CrashMedium, Medium};
/// use mmdb::{ColumnType, Database, Error, Options, Schema, salvage};
/// let disk = CrashMedium::new(1);
/// let options = Options { medium: std::sync::Arc::new(disk.clone()), ..Options::in_memory() };
/// let db = Database::open("/db", options.clone())?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// (1..=3).try_for_each(|id| db.run(|tx| tx.insert(&t, &[id.into()])))?;
/// drop((t, db));
/// // Rot in the second commit, which begins the third block of the log.
/// disk.flip_bit("/db/log-0/segment-0000000001".as_ref(), 2 * 4096 + 40, 0).expect("the file is there");
/// assert!(matches!(Database::open("/db", options.clone()), Err(Error::Corrupt { offset: 8192, .. })));
///
/// let saved = salvage("/db", "/saved", &options)?;
/// assert_eq!((saved.cut, saved.rows), (1, 1));
/// assert!(!saved.problems.is_empty(), "it says what is lost");
/// assert!(Database::open("/saved", options).is_ok());
/// # Ok::<(), mmdb::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoDatabase`]; [`Error::Corrupt`] if the manifest itself is unreadable or missing;
/// [`Error::Io`]; [`Error::Directory`] if `to` is not empty, or [`Options::stream_dirs`] names what
/// cannot be; [`Error::Io`] with `WouldBlock` while another copy is made there. What was written is
/// taken away again.
pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>, options: &Options) -> Result<SalvageReport> {
    documented("salvage", || {
        let (from, to, medium) = (from.as_ref(), to.as_ref(), &*options.medium);
        let loaded =
            recovery::read(from, options, true)?.ok_or_else(|| Error::NoDatabase { dir: from.to_owned() })?;
        let mut locks = Locks::default();
        claim(medium, to, &[], &mut locks)?;
        let done = save(medium, to, loaded);
        if done.is_err() {
            take_back(medium, to, &[], &[]);
        }
        done
    })
}

/// Writes what was read as a database of its own into a place that is claimed.
fn save(medium: &dyn Medium, to: &Path, loaded: LoadedDatabase) -> Result<SalvageReport> {
    let cut = loaded.report.cut;
    let path = to.join(manifest::image_name(0));
    let file = medium.create(&path).map_err(Error::io("create", &path))?;
    let mut images = Vec::new();
    let mut rows = 0;
    for t in loaded.tables().filter(|t| t.logging != Logging::Volatile) {
        rows += t.rows();
        for (number, c) in t.containers.iter() {
            let bytes = c.bytes.read();
            let image = images.len() as u32;
            file.write_at(u64::from(image) * bytes.len() as u64, &bytes)
                .map_err(Error::io("write", &path))?;
            images.push(Image { table: t.id, number, class: c.class, image, crc: crc32c::crc32c(&bytes) });
        }
    }
    file.sync().map_err(Error::io("sync", &path))?;
    medium.sync_dir(to).map_err(Error::io("sync", to))?;
    let old = loaded.manifest();
    // A database of its own, without a log: its first opening makes the streams' directories.
    let identity = Identity::random();
    let m = Manifest {
        identity,
        lineage: Lineage::new(identity),
        closed: true,
        horizon: cut,
        before: None,
        epochs: Vec::new(),
        logs: vec![Inventory::default(); old.logs.len()],
        checkpoint: Some(PublishedCheckpoint { side: 0, g0: cut, g1: cut, images }),
        ..old.clone()
    };
    m.store(medium, to).map_err(|e| e.1)?;
    Ok(SalvageReport { cut, rows, problems: loaded.problems })
}

/// A database read into memory without changing anything on disk: for checking and dumping.
///
/// ```
/// use mmdb::{ColumnType, Database, Options, Schema, OfflineDatabase};
/// let options = Options::in_memory();
/// let db = Database::open("/db", options.clone())?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[7.into()]))?;
/// db.close()?;
/// let s = OfflineDatabase::load("/db", &options)?;
/// s.check()?;
/// let mut lines = Vec::new();
/// s.rows("t", |row| lines.push(row.to_json()))?;
/// assert_eq!(lines, [r#"{"id":7}"#]);
/// # Ok::<(), mmdb::Error>(())
/// ```
pub struct OfflineDatabase(LoadedDatabase);

impl std::fmt::Debug for OfflineDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OfflineDatabase({:?})", self.0.report)
    }
}

impl OfflineDatabase {
    /// Reads the database in directory `path`.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// assert!(OfflineDatabase::load("/db", &options).is_ok());
    /// assert!(OfflineDatabase::load("/no such", &options).is_err());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`crate::Database::open`]; [`Error::NoDatabase`] if there is none.
    pub fn load(path: impl AsRef<Path>, options: &Options) -> Result<OfflineDatabase> {
        documented("OfflineDatabase::load", || {
            let path = path.as_ref();
            let missing = || Error::NoDatabase { dir: path.to_owned() };
            recovery::read(path, options, false)?.map(OfflineDatabase).ok_or_else(missing)
        })
    }

    /// What it is to its standbys or its primary, in words.
    ///
    /// ```
    /// # use mmdb::{Database, OfflineDatabase, Options};
    /// # let options = Options::in_memory();
    /// let db = Database::open("/db", options.clone())?;
    /// db.backup_for_standby("/standby")?;
    /// db.close()?;
    /// let role = |path: &str| OfflineDatabase::load(path, &options).map(|offline| offline.role());
    /// assert_eq!(role("/db")?, "primary of epoch 1");
    /// assert_eq!(role("/standby")?, "standby in epoch 1");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn role(&self) -> String {
        let lineage = &self.0.manifest().lineage;
        let (epoch, fenced) = (lineage.epoch(), lineage.fenced);
        match lineage.role {
            Role::Primary => format!("primary of epoch {epoch}"),
            Role::Standby if fenced > epoch => format!("standby in epoch {epoch}, fenced with {fenced}"),
            Role::Standby => format!("standby in epoch {epoch}"),
            Role::Deposed => format!("deposed in epoch {epoch} by the primary of epoch {fenced}"),
        }
    }

    /// What was read.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// assert_eq!(OfflineDatabase::load("/db", &options)?.report().cut, 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn report(&self) -> RecoveryReport {
        self.0.report
    }

    /// The tables' definitions and numbers of rows.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// let tables = OfflineDatabase::load("/db", &options)?.tables();
    /// assert_eq!((tables[0].0.name.as_str(), tables[0].1), ("t", 1));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn tables(&self) -> Vec<(Schema, u64)> {
        self.0.tables().map(|t| (t.schema.clone(), t.rows())).collect()
    }

    /// Rows of a table that were written before its columns were last changed: they are read in the
    /// columns of today, and written so when they are changed.
    ///
    /// ```
    /// # use mmdb::{Column, ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// let n = Column { name: "n".into(), kind: ColumnType::Int16, nullable: false };
    /// db.add_column(&t, n, 0.into())?;
    /// db.run(|tx| tx.insert(&t, &[8.into(), 1.into()]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// assert_eq!(OfflineDatabase::load("/db", &options)?.earlier_rows("t")?, 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`].
    pub fn earlier_rows(&self, table: &str) -> Result<u64> {
        documented("OfflineDatabase::earlier_rows", || {
            let t = self.0.tables().find(|t| t.schema.name == table);
            let t = t.ok_or_else(|| Error::NoSuchTable { table: table.to_owned() })?;
            let all = t.count_generations();
            Ok(all.iter().filter(|(number, _)| **number != t.layout.generation).map(|(_, rows)| rows).sum())
        })
    }

    /// How often columns of a table were added or dropped.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// assert_eq!(OfflineDatabase::load("/db", &options)?.column_changes("t")?, 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`].
    pub fn column_changes(&self, table: &str) -> Result<u16> {
        documented("OfflineDatabase::column_changes", || {
            let t = self.0.tables().find(|t| t.schema.name == table);
            t.map(|t| t.layout.generation).ok_or_else(|| Error::NoSuchTable { table: table.to_owned() })
        })
    }

    /// Checks indexes against rows and rows against schemas.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// OfflineDatabase::load("/db", &options)?.check()?;
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::CorruptTable`] on the first contradiction.
    pub fn check(&self) -> Result<()> {
        documented("OfflineDatabase::check", || self.0.verify())
    }

    /// Gives every row of a table to `f`, in order of place.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// let mut ids = Vec::new();
    /// OfflineDatabase::load("/db", &options)?.rows("t", |row| ids.push(row.at(0).as_int()))?;
    /// assert_eq!(ids, [Some(7)]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`].
    pub fn rows(&self, table: &str, mut f: impl FnMut(&Row)) -> Result<()> {
        documented("OfflineDatabase::rows", || {
            let t = self.0.tables().find(|t| t.schema.name == table);
            let t = t.ok_or_else(|| Error::NoSuchTable { table: table.to_owned() })?;
            rows_of(t, &mut f);
            Ok(())
        })
    }

    /// Gives every row of every table to `f`, as [`crate::Snapshot::dump`] shows it of an open
    /// database: a line of JSON without its end.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let options = Options::in_memory();
    /// # let db = Database::open("/db", options.clone())?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// # drop((t, db));
    /// # use mmdb::OfflineDatabase;
    /// let mut lines = Vec::new();
    /// OfflineDatabase::load("/db", &options)?.dump(|line| lines.push(line.to_owned()));
    /// assert_eq!(lines, [r#"{"table":"t","row":{"id":7}}"#]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    pub fn dump(&self, mut f: impl FnMut(&str)) {
        for t in self.0.tables() {
            rows_of(t, &mut |row| f(&line_of(&t.schema.name, row)));
        }
    }
}

/// Gives every row of a table to `f`, in order of place.
fn rows_of(t: &TableInner, f: &mut dyn FnMut(&Row)) {
    for (_, c) in t.containers.iter() {
        let bytes = c.bytes.read();
        for slot in 0..c.slots(t.space.container_size) {
            if let Some(row) = bytes.get(c.range(slot)).and_then(|s| t.layout.row_of(Slot(s))) {
                f(&Row { bytes: row.into_owned().into(), layout: t.layout.clone() });
            }
        }
    }
}

/// A record of a frame, in words.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let options = Options::in_memory();
/// # let db = Database::open("/db", options.clone())?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
/// # drop((t, db));
/// let mut changes = Vec::new();
/// mmdb::read_log("/db", &options, |frame| changes.extend(frame.changes.clone()))?;
/// assert_eq!((changes[0].place, changes[0].version, changes[0].is_difference), ((0, 0), 1, true));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Number of the table.
    pub table: u32,
    /// Container and slot of the row.
    pub place: (u32, u16),
    /// Version of the slot after the change.
    pub version: u64,
    /// True for a difference, false for an after-image.
    pub is_difference: bool,
    /// Bytes of the payload.
    pub bytes: usize,
}

/// A frame of the log, in words.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let options = Options::in_memory();
/// # let db = Database::open("/db", options.clone())?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
/// # drop((t, db));
/// mmdb::read_log("/db", &options, |frame| {
///     assert_eq!((frame.gsn, frame.horizon, frame.offset, frame.is_recovered), (1, 0, 4096, true));
/// })?;
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFrame {
    /// File of the segment.
    pub file: std::path::PathBuf,
    /// Offset in it, bytes.
    pub offset: u64,
    /// Length with header and padding, bytes.
    pub len: u64,
    /// Number of the commit.
    pub gsn: u64,
    /// Durable horizon when it was written.
    pub horizon: u64,
    /// False if it lies behind the cut of its life: recovery ignores it.
    pub is_recovered: bool,
    /// What changed.
    pub changes: Vec<LogRecord>,
}

/// Gives every valid frame of a closed database's log to `f`, stream by stream, in order. Returns
/// what is missing or damaged.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let options = Options::in_memory();
/// # let db = Database::open("/db", options.clone())?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// # db.run(|tx| tx.insert(&t, &[7.into()]))?;
/// drop((t, db));
/// let mut commits = Vec::new();
/// let damaged = mmdb::read_log("/db", &options, |frame| commits.push(frame.gsn))?;
/// assert_eq!((commits, damaged.len()), (vec![1], 0));
/// # Ok::<(), mmdb::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoDatabase`]; [`Error::Corrupt`] if the manifest is unreadable or missing;
/// [`Error::Directory`] if [`Options::stream_dirs`] names what cannot be; [`Error::Io`].
pub fn read_log(
    path: impl AsRef<Path>,
    options: &Options,
    mut f: impl FnMut(&LogFrame),
) -> Result<Vec<String>> {
    documented("read_log", || {
        let (path, medium) = (path.as_ref(), &*options.medium);
        let mut locks = Locks::default();
        let found = Survey::take(path, options, Purpose::Read, &mut locks)?;
        let m = found.manifest.ok_or_else(|| Error::NoDatabase { dir: path.to_owned() })?;
        let mut damaged = Vec::new();
        let mut buffer = Buffer::default();
        for (i, home) in found.homes.iter().enumerate() {
            damaged.extend(home.problems.iter().map(ToString::to_string));
            for &n in home.numbers.iter().filter(|_| home.is_ours) {
                let read = match scan::read(medium, &home.dir, i, n, &m.epochs, std::mem::take(&mut buffer)) {
                    Err(Error::Io { .. }) => scan::read_rest(medium, &home.dir, i, n, &m.epochs),
                    read => read,
                };
                let s = match read {
                    Ok(s) => s,
                    // One file must not cost all the others.
                    Err(e @ (Error::Corrupt { .. } | Error::Io { .. })) => {
                        damaged.push(e.to_string());
                        continue;
                    }
                    Err(e) => return Err(e),
                };
                if let Some(at) = s.unreadable {
                    damaged.push(format!("{} cannot be read at offset {at}", s.path.display()));
                }
                if let Some(at) = s.damage {
                    damaged.push(format!("{} is damaged at offset {at}", s.path.display()));
                }
                damaged.extend(s.misses_frames(&m).map(|e| e.to_string()));
                for frame in &s.frames {
                    let mut r = Reader::new(&s.bytes[frame.body()]);
                    let mut changes = Vec::new();
                    while let Some(c) = record::next(&mut r) {
                        changes.push(LogRecord {
                            table: c.target.table,
                            place: (c.target.container, c.target.slot),
                            version: c.target.version,
                            is_difference: c.kind == Kind::Difference,
                            bytes: c.payload.len(),
                        });
                    }
                    f(&LogFrame {
                        file: s.path.clone(),
                        offset: frame.at as u64,
                        len: frame.len as u64,
                        gsn: frame.gsn,
                        horizon: frame.horizon,
                        is_recovered: s.epoch.is_some_and(|e| frame.gsn <= e.cut),
                        changes,
                    });
                }
                buffer = s.bytes;
            }
        }
        Ok(damaged)
    })
}
