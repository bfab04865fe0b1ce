//! The formats of manifests: stores of all from [`OLDEST`] on are opened.

/// The one that is written.
pub(crate) const FORMAT: u32 = 6;
/// The oldest format that is read.
pub(crate) const OLDEST: u32 = 2;
/// The first that tells which segments are begun.
pub(crate) const BEGUN: u32 = 3;
/// The first in which tables have generations of columns.
pub(crate) const GENERATIONS: u32 = 4;
/// The first in which tables have the column by which rows expire, and all types of numbers.
pub(crate) const EXPIRY: u32 = 5;
/// The first in which a database has a lineage.
pub(crate) const LINEAGE: u32 = 6;
