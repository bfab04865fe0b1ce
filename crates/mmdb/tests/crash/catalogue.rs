//! The tables of a schedule as the harness knows them: which must be there after a restart, which
//! may be, and with which rows.

use crate::history::{History, Tx};
use crate::table::{Rows, is_unique, rows};
use mmdb::{Database, Logging, Schema, Table};

/// A table that was created.
pub struct CreatedTable {
    /// Its number in the history. A table that is not logged has another one in every life, because
    /// its rows have another past.
    pub number: usize,
    pub schema: Schema,
    /// Its handle in this life.
    pub handle: Option<Table>,
    pub unique: bool,
    /// False after a call about it that failed such that only the next opening can tell whether it
    /// was done.
    certain: bool,
    /// Checkpointed tables: what a restart may find, by the last checkpoint, or the last two; and
    /// what, by the one under way.
    after: Vec<Rows>,
    during: Option<Rows>,
}

impl CreatedTable {
    fn is_checkpointed(&self) -> bool {
        self.schema.logging == Logging::Checkpointed
    }
}

/// What became of a call that creates or drops a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    NotDone,
    /// The database takes no more calls; the disk knows.
    Unknown,
}

#[derive(Default)]
pub struct Catalogue {
    pub tables: Vec<CreatedTable>,
    numbers: usize,
}

impl Catalogue {
    pub fn created(&mut self, schema: Schema, handle: Option<Table>, outcome: Outcome) {
        if outcome == Outcome::NotDone {
            return;
        }
        self.numbers += 1;
        self.tables.push(CreatedTable {
            number: self.numbers,
            unique: handle.as_ref().is_some_and(is_unique),
            schema,
            handle,
            certain: outcome == Outcome::Done,
            after: vec![Rows::new()],
            during: None,
        });
    }

    pub fn dropped(&mut self, i: usize, outcome: Outcome) {
        match outcome {
            Outcome::Done => drop(self.tables.remove(i)),
            Outcome::NotDone => {}
            Outcome::Unknown => self.tables[i].certain = false,
        }
    }

    /// A checkpoint begins: the rows of this moment will be in it.
    pub fn checkpoint_begins(&mut self, history: &History) {
        for t in self.tables.iter_mut().filter(|t| t.is_checkpointed()) {
            t.during = Some(history.rows(t.number));
        }
    }

    /// A checkpoint ended: it is the last one, or it is not, or (`None`) nobody knows.
    pub fn checkpoint_ends(&mut self, published: Option<bool>) {
        for t in &mut self.tables {
            let Some(during) = t.during.take() else { continue };
            match published {
                Some(true) => t.after = vec![during],
                Some(false) => {}
                None => t.after.push(during),
            }
        }
    }

    /// What a copy that is made at once must hold.
    pub fn expected(&self, history: &History) -> Vec<(Schema, Rows)> {
        let rows = |t: &CreatedTable| match t.schema.logging {
            Logging::Volatile => Rows::new(),
            _ => history.rows(t.number),
        };
        self.tables.iter().map(|t| (t.schema.clone(), rows(t))).collect()
    }

    /// After opening: every table that must be there is, with its columns and indexes, none is that
    /// must not be, and the rows are those of a prefix of the commits which has everything
    /// acknowledged. `id` is a transaction number for what came back although it was not logged.
    pub fn check_recovered(
        &mut self,
        db: &Database,
        history: &mut History,
        mut id: impl FnMut() -> u64,
    ) -> Result<(), String> {
        let cut = db.recovery().cut;
        history.truncate(cut)?;
        let mut there = db.tables();
        let mut tables = Vec::new();
        for mut t in std::mem::take(&mut self.tables) {
            let Some(i) = there.iter().position(|x| x.name() == t.schema.name) else {
                if t.certain {
                    return Err(format!("table {} is not there", t.schema.name));
                }
                continue;
            };
            let handle = there.swap_remove(i);
            if *handle.schema() != t.schema {
                return Err(format!("table {} has another schema", t.schema.name));
            }
            let now = rows(db, &handle)?;
            (t.certain, t.during, t.unique) = (true, None, is_unique(&handle));
            t.handle = Some(handle);
            match t.schema.logging {
                Logging::Logged => {
                    let want = history.rows(t.number);
                    if now != want {
                        let name = &t.schema.name;
                        return Err(format!("recovered {now:?} in {name}, expected {want:?} at cut {cut}"));
                    }
                }
                Logging::Volatile if !now.is_empty() => {
                    return Err(format!("{now:?} is in the volatile table {}", t.schema.name));
                }
                Logging::Volatile | Logging::Checkpointed => {
                    self.numbers += 1;
                    t.number = self.numbers;
                    let mut came_back = Tx { id: id(), acknowledged: true, ..Tx::default() };
                    if !t.after.contains(&now) {
                        let (name, may) = (&t.schema.name, &t.after);
                        return Err(format!("the checkpointed table {name} has {now:?}, not one of {may:?}"));
                    }
                    came_back.writes = now.iter().map(|(k, row)| ((t.number, *k), Some(*row))).collect();
                    t.after = vec![now];
                    history.commit(came_back);
                }
            }
            tables.push(t);
        }
        self.tables = tables;
        if let Some(t) = there.first() {
            return Err(format!("table {} is there, but was dropped or never made", t.name()));
        }
        db.verify().map_err(|e| e.to_string())
    }
}
