//! What a table looks like and how it is locked and logged.

use crate::codec::{Reader, put_bytes, put_varint};
use crate::column::{Column, ColumnType};
use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::format;
use crate::generations::Generations;
use crate::time_unit::TimeUnit;

/// Largest number of columns of a table.
///
/// ```
/// use mmdb::{ColumnType, Database, MAX_COLUMNS, Schema};
/// let wide = (0..=MAX_COLUMNS).fold(Schema::new("t"), |s, i| s.column(&format!("c{i}"), ColumnType::Int16));
/// assert!(Database::in_memory()?.create_table(wide.primary_key(&["c0"])).is_err());
/// # Ok::<(), mmdb::Error>(())
/// ```
pub const MAX_COLUMNS: usize = 1024;

/// How an index finds its rows.
///
/// ```
/// use mmdb::{ColumnType, IndexKind, Schema};
/// let s = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]).ordered_index("by_id", &["id"]);
/// assert_eq!(s.indexes.iter().map(|i| i.kind).collect::<Vec<_>>(), [IndexKind::Hash, IndexKind::Ordered]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Point reads only.
    Hash,
    /// Point and range reads, in order.
    Ordered,
}

/// By which column a table's rows expire; see [`Schema::expire_by`].
///
/// ```
/// use mmdb::{ColumnType, Expiry, Schema, TimeUnit};
/// let s = Schema::new("t").column("until", ColumnType::Time).ordered_primary_key(&["until"]);
/// assert_eq!(s.expire_by("until", TimeUnit::Microseconds).expiry, Some(Expiry { column: 0, unit: TimeUnit::Microseconds }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Position of the column.
    pub column: usize,
    /// In what it counts.
    pub unit: TimeUnit,
}

/// An index of a [`Schema`]. In a unique index NULL equals NULL.
///
/// ```
/// use mmdb::{ColumnType, IndexDef, IndexKind, Schema};
/// let s = Schema::new("t").column("a", ColumnType::Int64).column("b", ColumnType::Int64).primary_key(&["b", "a"]);
/// let primary = IndexDef { name: "primary".into(), columns: vec![1, 0], kind: IndexKind::Hash, unique: true };
/// assert_eq!(s.indexes, [primary]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// Name, unique in the table; the primary key's is `primary`.
    pub name: String,
    /// Positions of the key's columns, most significant first.
    pub columns: Vec<usize>,
    /// Kind.
    pub kind: IndexKind,
    /// Whether two rows may not share a key.
    pub unique: bool,
}

/// What a transaction locks when it touches a row.
///
/// ```
/// # use mmdb::{ColumnType, Database, Error, Locking, Options, Schema};
/// // Without background threads a conflict is refused at once, so one thread can show it.
/// let db = Database::open("/db", Options { background: false, ..Options::in_memory() })?;
/// for (locking, conflict) in [(Locking::Record, false), (Locking::Page, true), (Locking::None, false)] {
///     let s = Schema::new(&format!("{locking:?}")).column("id", ColumnType::Int64).column("n", ColumnType::Int64);
///     let t = db.create_table(s.primary_key(&["id"]).locking(locking))?;
///     db.run(|tx| (1..3).try_for_each(|id| tx.insert(&t, &[id.into(), 0.into()])))?;
///     let (mut a, mut b) = (db.begin()?, db.begin()?);
///     a.update(&t, &[1.into()], &[("n", 1.into())])?;
///     let other_row = b.update(&t, &[2.into()], &[("n", 1.into())]);
///     assert_eq!(matches!(other_row, Err(Error::Deadlock { .. })), conflict);
/// }
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Locking {
    /// The row.
    #[default]
    Record,
    /// All rows on the row's 4 KiB page.
    Page,
    /// All rows in the row's container.
    Container,
    /// Nothing: no isolation between transactions. Single operations and commits stay whole.
    None,
}

/// What comes back after a restart.
///
/// ```
/// # use mmdb::{ColumnType, Database, Logging, Options, Schema};
/// let options = Options::in_memory();
/// let db = Database::open("/db", options.clone())?;
/// for logging in [Logging::Logged, Logging::Checkpointed, Logging::Volatile] {
///     let s = Schema::new(&format!("{logging:?}")).column("id", ColumnType::Int64);
///     let t = db.create_table(s.primary_key(&["id"]).logging(logging))?;
///     db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// }
/// db.checkpoint()?;
/// for t in db.tables() {
///     db.run(|tx| tx.insert(&t, &[2.into()]))?;
/// }
/// drop(db);
/// let db = Database::open("/db", options)?;
/// let rows = |name| Ok::<_, mmdb::Error>(db.begin()?.scan(&db.table(name)?)?.count());
/// assert_eq!((rows("Logged")?, rows("Checkpointed")?, rows("Volatile")?), (2, 1, 0));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Logging {
    /// Every acknowledged commit.
    #[default]
    Logged,
    /// All rows as they were when the last checkpoint began. A transaction that wrote logged tables
    /// too may be there in those only.
    Checkpointed,
    /// Nothing: the table is empty.
    Volatile,
}

/// The definition of a table, built by chaining.
///
/// ```
/// use mmdb::{ColumnType, Locking, Schema};
/// let schema = Schema::new("message")
///     .column("id", ColumnType::Int64)
///     .column("receiver", ColumnType::VarText(20))
///     .nullable("due", ColumnType::Time)
///     .primary_key(&["id"])
///     .ordered_index("by_due", &["due", "id"])
///     .locking(Locking::Record);
/// assert_eq!(schema.columns.len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    /// Table name.
    pub name: String,
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Indexes; the first is the primary key once the schema is complete.
    pub indexes: Vec<IndexDef>,
    /// Lock granularity.
    pub locking: Locking,
    /// What survives a restart.
    pub logging: Logging,
    /// By which column rows expire, if they do.
    pub expiry: Option<Expiry>,
    /// Names that no column has, kept until [`crate::Database::create_table`] can report them.
    pub(crate) unknown: Vec<String>,
    /// What columns its rows may have been written with.
    pub(crate) generations: Generations,
}

/// Two definitions are equal if tables look the same by them, however they came to.
impl PartialEq for Schema {
    fn eq(&self, other: &Schema) -> bool {
        let parts = |s: &Schema| (s.locking, s.logging, s.expiry);
        self.name == other.name
            && self.columns == other.columns
            && self.indexes == other.indexes
            && parts(self) == parts(other)
            && self.unknown == other.unknown
    }
}

impl Eq for Schema {}

impl Schema {
    /// A table without columns.
    ///
    /// ```
    /// let s = mmdb::Schema::new("message");
    /// assert_eq!((s.name.as_str(), s.columns.len()), ("message", 0));
    /// ```
    #[must_use]
    pub fn new(name: &str) -> Self {
        Schema {
            name: name.to_owned(),
            columns: Vec::new(),
            indexes: Vec::new(),
            locking: Locking::default(),
            logging: Logging::default(),
            expiry: None,
            unknown: Vec::new(),
            generations: Generations::default(),
        }
    }

    /// Adds a column that is never NULL.
    ///
    /// ```
    /// use mmdb::{ColumnType, Schema};
    /// let s = Schema::new("t").column("id", ColumnType::Int64);
    /// assert!(!s.columns[0].nullable);
    /// ```
    #[must_use]
    pub fn column(mut self, name: &str, kind: ColumnType) -> Self {
        self.columns.push(Column { name: name.to_owned(), kind, nullable: false });
        self
    }

    /// Adds a column that may be NULL.
    ///
    /// ```
    /// use mmdb::{ColumnType, Schema};
    /// let s = Schema::new("t").nullable("due", ColumnType::Time);
    /// assert!(s.columns[0].nullable);
    /// ```
    #[must_use]
    pub fn nullable(mut self, name: &str, kind: ColumnType) -> Self {
        self.columns.push(Column { name: name.to_owned(), kind, nullable: true });
        self
    }

    /// Declares the primary key, found by hash. Its columns must be declared before.
    ///
    /// ```
    /// use mmdb::{ColumnType, IndexKind, Schema};
    /// let s = Schema::new("t").column("a", ColumnType::Int64).column("b", ColumnType::Int64).primary_key(&["a", "b"]);
    /// assert_eq!((s.indexes[0].kind, s.indexes[0].columns.len()), (IndexKind::Hash, 2));
    /// ```
    #[must_use]
    pub fn primary_key(self, columns: &[&str]) -> Self {
        self.index(0, "primary", columns, IndexKind::Hash, true)
    }

    /// Declares the primary key, kept in order.
    ///
    /// ```
    /// use mmdb::{ColumnType, IndexKind, Schema};
    /// let s = Schema::new("t").column("a", ColumnType::Int64).column("b", ColumnType::Int64).ordered_primary_key(&["a"]);
    /// assert_eq!((s.indexes[0].kind, s.indexes[0].name.as_str()), (IndexKind::Ordered, "primary"));
    /// ```
    #[must_use]
    pub fn ordered_primary_key(self, columns: &[&str]) -> Self {
        self.index(0, "primary", columns, IndexKind::Ordered, true)
    }

    /// Adds an index for point reads.
    ///
    /// ```
    /// use mmdb::{ColumnType, IndexKind, Schema};
    /// let s = Schema::new("t").column("a", ColumnType::Int64).column("b", ColumnType::Int64).primary_key(&["a"]).hash_index("by_b", &["b"]);
    /// assert_eq!((s.indexes[1].kind, s.indexes[1].unique), (IndexKind::Hash, false));
    /// ```
    #[must_use]
    pub fn hash_index(self, name: &str, columns: &[&str]) -> Self {
        self.index(usize::MAX, name, columns, IndexKind::Hash, false)
    }

    /// Adds a constraint that no two rows share these columns, with point reads.
    ///
    /// ```
    /// use mmdb::{ColumnType, IndexKind, Schema};
    /// let s = Schema::new("t").column("a", ColumnType::Int64).column("b", ColumnType::Int64).primary_key(&["a"]).unique_hash_index("by_b", &["b"]);
    /// assert_eq!((s.indexes[1].kind, s.indexes[1].unique), (IndexKind::Hash, true));
    /// ```
    #[must_use]
    pub fn unique_hash_index(self, name: &str, columns: &[&str]) -> Self {
        self.index(usize::MAX, name, columns, IndexKind::Hash, true)
    }

    /// Adds an index for ranges.
    ///
    /// ```
    /// use mmdb::{ColumnType, IndexKind, Schema};
    /// let s = Schema::new("t").column("a", ColumnType::Int64).column("b", ColumnType::Int64).primary_key(&["a"]).ordered_index("by_b", &["b"]);
    /// assert_eq!((s.indexes[1].kind, s.indexes[1].unique), (IndexKind::Ordered, false));
    /// ```
    #[must_use]
    pub fn ordered_index(self, name: &str, columns: &[&str]) -> Self {
        self.index(usize::MAX, name, columns, IndexKind::Ordered, false)
    }

    /// Adds a constraint that no two rows share these columns, with ranges.
    ///
    /// ```
    /// use mmdb::{ColumnType, IndexKind, Schema};
    /// let s = Schema::new("t").column("a", ColumnType::Int64).column("b", ColumnType::Int64).primary_key(&["a"]).unique_ordered_index("by_b", &["b"]);
    /// assert_eq!((s.indexes[1].kind, s.indexes[1].unique), (IndexKind::Ordered, true));
    /// ```
    #[must_use]
    pub fn unique_ordered_index(self, name: &str, columns: &[&str]) -> Self {
        self.index(usize::MAX, name, columns, IndexKind::Ordered, true)
    }

    /// Sets the lock granularity.
    ///
    /// ```
    /// use mmdb::{Locking, Schema};
    /// assert_eq!(Schema::new("t").locking, Locking::Record);
    /// assert_eq!(Schema::new("t").locking(Locking::Container).locking, Locking::Container);
    /// ```
    #[must_use]
    pub fn locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }

    /// Sets what survives a restart.
    ///
    /// ```
    /// use mmdb::{Logging, Schema};
    /// assert_eq!(Schema::new("t").logging, Logging::Logged);
    /// assert_eq!(Schema::new("session").logging(Logging::Volatile).logging, Logging::Volatile);
    /// ```
    #[must_use]
    pub fn logging(mut self, logging: Logging) -> Self {
        self.logging = logging;
        self
    }

    pub(crate) fn index(
        mut self,
        at: usize,
        name: &str,
        columns: &[&str],
        kind: IndexKind,
        unique: bool,
    ) -> Self {
        let mut positions = Vec::new();
        for c in columns {
            match self.columns.iter().position(|d| d.name == *c) {
                Some(p) => positions.push(p),
                None => self.unknown.push((*c).to_owned()),
            }
        }
        let at = at.min(self.indexes.len());
        self.indexes.insert(at, IndexDef { name: name.to_owned(), columns: positions, kind, unique });
        self
    }

    /// Checks that the schema is one a table can have.
    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |reason: String| Err(Error::Schema { table: self.name.clone(), reason });
        if self.name.is_empty() {
            return bad("the name is empty".into());
        }
        if let Some(c) = self.unknown.first() {
            return Err(Error::NoSuchColumn { table: self.name.clone(), column: c.clone() });
        }
        if self.columns.is_empty() || self.columns.len() > MAX_COLUMNS {
            return bad(format!("{} columns; 1 to {MAX_COLUMNS} are possible", self.columns.len()));
        }
        for (i, c) in self.columns.iter().enumerate() {
            if self.columns[..i].iter().any(|d| d.name == c.name) {
                return bad(format!("column {} is declared twice", c.name));
            }
            if let ColumnType::Decimal(scale) = c.kind
                && scale > Decimal::MAX_SCALE
            {
                let max = Decimal::MAX_SCALE;
                return bad(format!(
                    "column {} has {scale} digits behind the point; {max} are possible",
                    c.name
                ));
            }
        }
        // Who changes the fields by hand can leave an index on columns that are not there.
        let count = self.columns.len();
        let beyond = |ix: &&IndexDef| ix.columns.iter().any(|&at| at >= count);
        if let Some(ix) = self.indexes.iter().find(beyond) {
            return bad(format!("index {} has a column behind the last one", ix.name));
        }
        match self.indexes.first() {
            Some(p) if p.name == "primary" => {
                if let Some(c) = p.columns.iter().map(|&c| &self.columns[c]).find(|c| c.nullable) {
                    return bad(format!("column {} of the primary key may be NULL", c.name));
                }
            }
            _ => return bad("no primary key".into()),
        }
        for (i, ix) in self.indexes.iter().enumerate() {
            if self.indexes[..i].iter().any(|d| d.name == ix.name) {
                return bad(format!("index {} is declared twice", ix.name));
            }
            if ix.columns.is_empty() {
                return bad(format!("index {} has no columns", ix.name));
            }
        }
        if let Some(problem) = self.expiry_problem() {
            return bad(problem);
        }
        Ok(())
    }

    /// The same definition for a table that is to be made: a copy of another table's knows in what
    /// columns rows of that one were written, which says nothing of this one's.
    pub(crate) fn of_new_table(self) -> Schema {
        Schema { generations: Generations::default(), ..self }.with_unique_key()
    }

    /// The primary key, which is the first index, is unique whichever way that was declared.
    fn with_unique_key(mut self) -> Schema {
        self.indexes.iter_mut().take(1).for_each(|primary| primary.unique = true);
        self
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        out.push(match self.locking {
            Locking::Record => 0,
            Locking::Page => 1,
            Locking::Container => 2,
            Locking::None => 3,
        });
        out.push(match self.logging {
            Logging::Logged => 0,
            Logging::Checkpointed => 1,
            Logging::Volatile => 2,
        });
        put_varint(out, self.columns.len() as u64);
        for c in &self.columns {
            put_bytes(out, c.name.as_bytes());
            c.kind.encode(out);
            out.push(c.nullable.into());
        }
        put_varint(out, self.indexes.len() as u64);
        for i in &self.indexes {
            put_bytes(out, i.name.as_bytes());
            out.push(u8::from(i.unique) | u8::from(i.kind == IndexKind::Ordered) << 1);
            put_varint(out, i.columns.len() as u64);
            i.columns.iter().for_each(|&c| put_varint(out, c as u64));
        }
        self.generations.encode(out);
        out.push(self.expiry.is_some().into());
        if let Some(Expiry { column, unit }) = self.expiry {
            put_varint(out, column as u64);
            out.push(unit.code());
        }
    }

    /// `format` is the manifest's: older ones have no generations of columns, or no expiry.
    pub(crate) fn decode(r: &mut Reader<'_>, format: u32) -> Option<Schema> {
        let mut s = Schema::new(&r.text()?);
        s.locking = match r.u8()? {
            0 => Locking::Record,
            1 => Locking::Page,
            2 => Locking::Container,
            3 => Locking::None,
            _ => return None,
        };
        s.logging = match r.u8()? {
            0 => Logging::Logged,
            1 => Logging::Checkpointed,
            2 => Logging::Volatile,
            _ => return None,
        };
        for _ in 0..r.varint()? {
            let name = r.text()?;
            s.columns.push(Column { name, kind: ColumnType::decode(r)?, nullable: r.u8()? != 0 });
        }
        for _ in 0..r.varint()? {
            let name = r.text()?;
            let flags = r.u8()?;
            let mut columns = Vec::new();
            for _ in 0..r.varint()? {
                let c = r.varint()? as usize;
                columns.push((c < s.columns.len()).then_some(c)?);
            }
            let kind = if flags & 2 == 0 { IndexKind::Hash } else { IndexKind::Ordered };
            s.indexes.push(IndexDef { name, columns, kind, unique: flags & 1 != 0 });
        }
        if format >= format::GENERATIONS {
            s.generations = Generations::decode(r, s.columns.len())?;
        }
        if format >= format::EXPIRY && r.u8()? != 0 {
            let column = usize::try_from(r.varint()?).ok()?;
            s.expiry = Some(Expiry { column, unit: TimeUnit::from_code(r.u8()?)? });
        }
        s.validate().ok()?;
        Some(s.with_unique_key())
    }
}
