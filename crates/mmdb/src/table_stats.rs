//! Figures of the table that a handle is on.

use crate::database::Database;
use crate::documented::documented;
use crate::error::Result;
use crate::stats::TableStats;
use crate::table::Table;

impl Database {
    /// Figures of the table that a handle is on, however its definition has changed since.
    /// [`Database::stats`] has those of all tables, by their names.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Schema};
    /// # let db = Database::in_memory()?;
    /// let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    /// let t = db.create_table(schema.clone())?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// assert_eq!(db.table_stats(&t)?.rows, 1);
    /// db.drop_table(&t)?;
    /// let another = db.create_table(schema)?;
    /// assert!(matches!(db.table_stats(&t), Err(Error::NoSuchTable { .. })), "its name is another one's");
    /// assert_eq!(db.table_stats(&another)?.rows, 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::NoSuchTable`] if it was dropped or is being filled, also for a handle of
    /// another database or opening.
    pub fn table_stats(&self, table: &Table) -> Result<TableStats> {
        documented("Database::table_stats", || {
            if !std::sync::Arc::ptr_eq(&table.0.space, &self.0.engine.space) {
                return Err(table.0.gone());
            }
            table.0.alive()?;
            Ok(TableStats::of(&table.today().0))
        })
    }
}
