//! A snapshot and its cursors.

use crate::failure::Result;
use mmdb::{Database, Row, Snapshot, SnapshotCursor};
use std::sync::Arc;

/// A snapshot, shared by its handle and its cursors. The snapshot goes before the database.
pub(crate) struct Moment {
    pub(crate) snapshot: Snapshot<'static>,
    pub(crate) _db: Database,
}

const _: () = {
    const fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<Snapshot<'static>>();
    const fn may_be_sent<T: Send>() {}
    may_be_sent::<SnapshotCursor<'static, 'static>>();
};

/// A cursor of a snapshot. It goes before that.
pub(crate) struct Reading {
    cursor: SnapshotCursor<'static, 'static>,
    _moment: Arc<Moment>,
}

impl Reading {
    pub(crate) fn new(
        moment: &Arc<Moment>,
        reverse: bool,
        make: impl FnOnce(&'static Snapshot<'static>) -> mmdb::Result<SnapshotCursor<'static, 'static>>,
    ) -> Result<Reading> {
        let snapshot: *const Snapshot<'static> = &raw const moment.snapshot;
        // SAFETY: it stays where it is as long as the moment is there, which goes after the cursor.
        let cursor = make(unsafe { &*snapshot })?;
        let cursor = if reverse { cursor.rev() } else { cursor };
        Ok(Reading { cursor, _moment: moment.clone() })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Row>> {
        Ok(self.cursor.next().transpose()?)
    }
}
