//! Following a change of a table's definition.
//!
//! All commits before it are made durable, then the manifest states it together with its number,
//! and then the memory follows. So a change that is stated has every commit before it, and no
//! commit behind it is logged before it is stated.

use super::lineage::Change;
use crate::admin::Admin;
use crate::alter::{fill_index, put_schema, refuse_doubled};
use crate::container::Slot;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::manifest::MAX_TABLES;
use crate::register::ManifestState;
use crate::sabotage::has_defect;
use crate::schema::{Logging, Schema};
use crate::table::TableInner;
use std::sync::Arc;

fn damaged(change: &Change, what: &str) -> Error {
    Error::FramesDamaged { what: format!("change {} of table {}: {what}", change.number, change.table) }
}

/// Whether a row of the table is not one in the columns of this definition: it has no room for a
/// column that came, or was written in columns that the primary has forgotten, for no row of its
/// own was.
fn has_unreadable_row(t: &TableInner) -> bool {
    t.containers.iter().any(|(_, c)| {
        let bytes = c.bytes.read();
        let mut slots = (0..c.slots(t.space.container_size)).filter_map(|slot| bytes.get(c.range(slot)));
        slots.any(|slot| Slot(slot).is_live() && t.layout.row_of(Slot(slot)).is_none())
    })
}

impl Engine {
    /// Makes a change of the primary's here, durably. Only commits before it are logged.
    pub(super) fn follow_change(&self, change: Change) -> Result<()> {
        if !has_defect!(self.log.defect, StatesChangeEarly) {
            self.log.flush_all()?;
        }
        let _turn = self.alterations.lock();
        let mut admin = self.admin.lock();
        let mut next = ManifestState::clone(&self.stated());
        let there = self.live_tables().into_iter().find(|t| t.id == change.table);
        next.lineage.recorded = true;
        let is_known = change.table < next.next_table;
        next.next_table = next.next_table.max(change.next_table);
        if change.number != next.lineage.last_change + 1 || change.table >= next.next_table {
            return Err(damaged(&change, "it is not the next one"));
        }
        if next.next_table > MAX_TABLES {
            return Err(damaged(&change, "there are too many tables"));
        }
        if change.after > self.log.last() {
            return Err(damaged(&change, "it comes behind a commit that is not here"));
        }
        next.lineage.note(change.after, change.table, change.next_table, change.schema.clone());
        if let Some(schema) = &change.schema {
            schema.validate().map_err(|e| damaged(&change, &e.to_string()))?;
            let named = |t: &Arc<TableInner>| t.schema.name == schema.name && t.id != change.table;
            if self.live_tables().iter().any(named) {
                return Err(damaged(&change, "its name is another table's"));
            }
        }
        match (there, &change.schema) {
            (None, Some(schema)) => {
                if is_known {
                    return Err(damaged(&change, "the table is not here"));
                }
                next.schemas.push((change.table, schema.clone()));
                let table = TableInner::new(change.table, schema.clone(), self.space.clone(), false);
                self.state(&mut admin, next)?;
                self.enter_table(&Arc::new(table));
            }
            (Some(table), None) => {
                next.schemas.retain(|(id, _)| *id != table.id);
                next.published.iter_mut().for_each(|p| p.images.retain(|i| i.table != table.id));
                let begun = table.life.begin_drop();
                assert!(begun, "nobody fills or drops tables of a standby");
                if let Err(e) = self.state(&mut admin, next) {
                    let lives = table.life.give_up_drop();
                    assert!(lives, "nobody else changes a table that is being dropped");
                    return Err(e);
                }
                admin.forget_images(|gone| gone == table.id);
                self.forget_table(&table);
                table.discard_rows();
            }
            (Some(table), Some(schema)) => {
                put_schema(&mut next, table.id, schema);
                let (indexes, fresh) = self.indexes_of(&table, schema);
                if fresh.iter().any(|index| index.def.name == "primary") {
                    return Err(damaged(&change, "it has another primary key"));
                }
                let new = Arc::new(table.redefined(schema.clone(), indexes));
                if table.logging != Logging::Logged && has_unreadable_row(&new) {
                    fresh.iter().for_each(|index| self.discard_index(index));
                    return self.give_up_rows(&mut admin, &table, schema, next);
                }
                let filled = fresh.iter().try_for_each(|index| {
                    fill_index(self, &new, index)?;
                    refuse_doubled(self, &new, index)
                });
                // Rows that the primary has share no key of it.
                if let Err(Error::DuplicateKey { .. } | Error::Conflict { .. }) = &filled {
                    fresh.iter().for_each(|index| self.discard_index(index));
                    if table.logging == Logging::Logged {
                        return Err(damaged(&change, "rows that are here share a key of an index"));
                    }
                    return self.give_up_rows(&mut admin, &table, schema, next);
                }
                if let Err(e) = filled.and_then(|()| self.state(&mut admin, next).map(drop)) {
                    fresh.iter().for_each(|index| self.discard_index(index));
                    return Err(e);
                }
                let (before, now) = (&table.schema, schema);
                let continues = now.columns.len() >= before.columns.len()
                    && (0..before.columns.len())
                        .all(|at| now.generations.id(at) == before.generations.id(at));
                let reshaped = now.generations.now != before.generations.now;
                self.exchange_table(&table, &new, continues, || {
                    let done = if reshaped { table.life.reshape() } else { table.life.redefine() };
                    assert!(done, "nobody fills or drops tables of a standby");
                    for index in &fresh {
                        index.set_born(self.snapshots().newest());
                        index.finish();
                    }
                });
                let gone = |old: &&Index| new.indexes.iter().all(|index| !index.is_same(old));
                table.indexes.iter().filter(gone).for_each(|old| self.discard_index(old));
            }
            (None, None) => drop(self.state(&mut admin, next)?),
        }
        Ok(())
    }

    /// Follows a change that a table's rows contradict: those of one that is not logged are as they
    /// were when the standby was copied, and the primary's have changed since. Which of them could
    /// stay nobody knows, so the table goes on empty, durably with the change: whoever opens or
    /// promotes the standby finds no row that its definition forbids.
    #[cold]
    fn give_up_rows(
        &self,
        admin: &mut Admin,
        table: &Arc<TableInner>,
        schema: &Schema,
        mut next: ManifestState,
    ) -> Result<()> {
        if !has_defect!(self.log.defect, KeepsContradictingRows) {
            next.published.iter_mut().for_each(|p| p.images.retain(|i| i.table != table.id));
        }
        self.state(admin, next)?;
        let empty = Arc::new(table.emptied(schema.clone()));
        self.exchange_table(table, &empty, false, || {
            let begun = table.life.begin_drop();
            assert!(begun, "nobody fills or drops tables of a standby");
        });
        admin.forget_images(|gone| gone == table.id);
        table.discard_rows();
        Ok(())
    }

    /// The indexes of a table by another definition: those that are there, and, also by themselves,
    /// those that are to be filled.
    fn indexes_of(&self, table: &TableInner, schema: &Schema) -> (Vec<Index>, Vec<Index>) {
        let ids = |schema: &Schema, columns: &[usize]| {
            columns.iter().map(|&at| schema.generations.id(at)).collect::<Vec<_>>()
        };
        let mut fresh = Vec::new();
        let all = schema.indexes.iter().map(|def| {
            let there = table.indexes.iter().find(|old| {
                (&old.def.name, old.def.kind, old.def.unique) == (&def.name, def.kind, def.unique)
                    && ids(&table.schema, &old.def.columns) == ids(schema, &def.columns)
            });
            there.map_or_else(
                || {
                    let index = Index::unfinished(def, &self.space.budget);
                    fresh.push(index.clone());
                    index
                },
                |old| old.renumbered(def),
            )
        });
        let all = all.collect();
        (all, fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Builder, Head, Place};
    use super::Change;
    use crate::{Database, Error, LogKind, Options, Standby};

    /// A change that said that it comes behind commits which the standby had not was noted so: with
    /// a number that no commit can have an assertion failed, and with others a tail of the promoted
    /// standby would have given the change too late.
    #[test]
    fn a_change_behind_commits_that_are_not_here_is_refused() {
        let options = Options::in_memory();
        let db = Database::open("/primary", options.clone()).unwrap();
        db.backup_for_standby("/standby").unwrap();
        let standby = Standby::open("/standby", options).unwrap();
        let lineage = standby.db.0.engine.stated().lineage.clone();
        let (kind, from) = (LogKind::default(), Place { gsn: 0, change: 0 });
        let head = Head { lineage: lineage.id, kind, fences: lineage.fences, from };
        for (after, is_here) in [(1, false), (u64::MAX, false), (0, true)] {
            let mut batch = Builder::new(head.clone());
            batch.change(&Change { number: 1, after, table: 1, next_table: 2, schema: None });
            match standby.apply(&batch.finish()) {
                Ok(position) => assert!(is_here && position.change == 1, "{after}"),
                Err(e) => assert!(!is_here && matches!(e, Error::FramesDamaged { .. }), "{after}: {e}"),
            }
        }
    }
}
