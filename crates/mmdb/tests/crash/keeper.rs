//! The third table of the concurrent schedules: one client creates it, writes it and drops it,
//! while the others and the checkpoints go on. It is of any kind of logging.

use super::clients::{ClientHistory, Seen};
use super::engine::{Database, Durability, Error, Locking, Logging, Schema};
use super::history::{History, Tx};
use super::rng::Rng;
use super::table::{PADS, Rows, TAGS, content, padding, rows, schema, values};
use std::sync::Arc;

const NAME: &str = "c";
const KEYS: u64 = 3;

/// A table of this name that was created.
#[derive(Clone, Debug)]
struct Made {
    /// Its number in the history.
    number: usize,
    schema: Schema,
}

/// What is known of the table.
pub struct Third {
    /// Every table that has had the name.
    made: Vec<Made>,
    /// Whether the last of them is there; `None` if only the next opening can tell.
    there: Option<bool>,
    /// For one that is not logged: what is in it, and what a restart may find of it.
    now: Rows,
    past: Vec<Rows>,
}

impl Third {
    pub fn new() -> Third {
        Third { made: Vec::new(), there: Some(false), now: Rows::new(), past: Vec::new() }
    }

    /// After opening: it is there if it must be, and has the rows that it may have.
    pub fn check_recovered(&mut self, db: &Database, history: &History) -> Result<(), String> {
        let found = db.table(NAME).ok();
        if self.there.is_some_and(|t| t != found.is_some()) {
            return Err(format!("that table {NAME} is there is {}", found.is_some()));
        }
        self.there = Some(found.is_some());
        let (Some(table), Some(made)) = (found, self.made.last()) else { return Ok(()) };
        if *table.schema() != made.schema {
            return Err(format!("table {NAME} has another schema"));
        }
        let now = rows(db, &table)?;
        let legal = match made.schema.logging {
            Logging::Logged => now == history.rows(made.number),
            Logging::Checkpointed => self.past.contains(&now),
            Logging::Volatile => now.is_empty(),
        };
        if !legal {
            let (logging, past, logged) = (made.schema.logging, &self.past, history.rows(made.number));
            return Err(format!(
                "the {logging:?} table {NAME} has {now:?}; logged {logged:?}, images {past:?}"
            ));
        }
        self.now = now.clone();
        self.past = vec![now];
        Ok(())
    }

    /// In a backup is one of the tables that have had the name, or none.
    pub fn check_copy(&self, db: &Database, history: &History, cut: u64) -> Result<(), String> {
        let Ok(table) = db.table(NAME) else { return Ok(()) };
        let now = rows(db, &table)?;
        let legal = |made: &Made| {
            made.schema == *table.schema()
                && match made.schema.logging {
                    Logging::Logged => now == history.rows_at(made.number, cut),
                    // Nobody knows what stood there at the moment of the copy.
                    Logging::Checkpointed => true,
                    Logging::Volatile => now.is_empty(),
                }
        };
        if self.made.iter().any(legal) {
            return Ok(());
        }
        Err(format!("a copy has {now:?} in {NAME} at cut {cut}"))
    }
}

pub struct Keeper {
    pub db: Database,
    pub told: Arc<ClientHistory>,
    pub locking: Locking,
    pub rng: Rng,
}

impl Keeper {
    /// Goes on until the disk is dead.
    pub fn run(mut self, mut third: Third) -> Third {
        for _ in 0..4 {
            if self.round(&mut third).is_none() {
                break;
            }
        }
        third
    }

    /// Creates the table if it is not there, writes it, and perhaps drops it. `None` if no more can
    /// be done in this life.
    fn round(&mut self, third: &mut Third) -> Option<()> {
        if !third.there? {
            self.create(third)?;
            if self.rng.one_in(2) {
                self.fill(third)?;
            }
        }
        for _ in 0..1 + self.rng.below(3) {
            self.write(third)?;
        }
        if self.rng.one_in(4) {
            if let Err(e) = self.db.checkpoint() {
                self.told.excuse("checkpoint", &e);
                return None;
            }
            // Whatever images there are now were begun after the last change.
            third.past = vec![third.now.clone()];
        }
        if self.rng.one_in(2) { self.drop(third) } else { Some(()) }
    }

    /// Whether a schema change that failed was not made. `None` if nobody knows.
    fn refused(&self, what: &str, e: &Error) -> Option<bool> {
        self.told.excuse(what, e);
        let over = self.told.disk.is_dead() || matches!(self.db.begin(), Err(Error::Poisoned { .. }));
        (!over).then_some(true)
    }

    fn create(&mut self, third: &mut Third) -> Option<()> {
        let logging = self.rng.of(&[Logging::Logged, Logging::Checkpointed, Logging::Volatile]);
        let schema = schema(NAME, self.locking, logging, &mut self.rng);
        // The first two numbers are those of the tables that all use; a life without a keeper has
        // taken none.
        let number = third.made.last().map_or(2, |m| m.number + 1);
        third.made.push(Made { number, schema: schema.clone() });
        third.past = vec![Rows::new()];
        third.now = Rows::new();
        third.there = None;
        match self.db.create_table(schema) {
            Ok(_) => third.there = Some(true),
            Err(e) => {
                self.refused("create table", &e)?;
                if self.db.table(NAME).is_ok() {
                    self.told.complain(format!("table {NAME} is there although it could not be created"));
                }
                third.there = Some(false);
                return None;
            }
        }
        Some(())
    }

    /// Fills the table, if it is one that may be; perhaps with a key twice, which leaves it empty.
    fn fill(&mut self, third: &mut Third) -> Option<()> {
        if third.made.last()?.schema.logging != Logging::Volatile {
            return Some(());
        }
        let table = self.db.table(NAME).ok()?;
        let twice = self.rng.one_in(4);
        let fill = match self.db.fill(&table) {
            Ok(fill) => fill,
            Err(e) => {
                self.told.complain(format!("fill: {e}"));
                return None;
            }
        };
        let (mut after, id) = (Rows::new(), self.told.id());
        for k in (0..KEYS as u8).chain(twice.then_some(0)) {
            // Tags of their own: they may have to be unique.
            let (len, tag) = (self.rng.of(&PADS), k);
            if let Err(e) = fill.writer().put(&values(&table, k, (id, len, tag), &padding(id, len))) {
                self.told.complain(format!("fill: {e}"));
            }
            after.insert(k, (id, len, tag));
        }
        match fill.finish() {
            Ok(()) if !twice => {
                third.past.push(after.clone());
                third.now = after;
            }
            Err(Error::DuplicateKey { .. }) if twice => {}
            done => self.told.complain(format!("fill, a key twice {twice}: {done:?}")),
        }
        Some(())
    }

    fn drop(&mut self, third: &mut Third) -> Option<()> {
        let table = self.db.table(NAME).ok()?;
        third.there = None;
        match self.db.drop_table(&table) {
            Ok(()) => third.there = Some(false),
            Err(e) => {
                self.refused("drop table", &e)?;
                if self.db.table(NAME).is_err() {
                    self.told.complain(format!("table {NAME} is not there although it could not be dropped"));
                }
                third.there = Some(true);
            }
        }
        Some(())
    }

    /// One transaction on the table.
    fn write(&mut self, third: &mut Third) -> Option<()> {
        let made = third.made.last()?.clone();
        let Ok(table) = self.db.table(NAME) else {
            self.told.complain(format!("table {NAME} is not there"));
            return None;
        };
        let logged = made.schema.logging == Logging::Logged;
        let (script, mut seen, mut after) = (self.rng.next(), Seen::default(), Rows::new());
        let (now, past, told) = (&third.now, &mut third.past, &self.told);
        let done = self.db.run_with(Durability::Durable, |tx| {
            seen = Seen { tx: Tx { id: told.id(), ..Tx::default() }, ..Seen::default() };
            after = now.clone();
            let (mut rng, id) = (Rng(script), seen.tx.id);
            for _ in 0..1 + rng.below(3) {
                let (k, tag, len) = (rng.below(KEYS) as u8, rng.below(TAGS) as u8, rng.of(&PADS));
                let (at, pad) = ((made.number, k), padding(id, len));
                let row = values(&table, k, (id, len, tag), &pad);
                let before = tx.get(&table, &row[..1])?.as_ref().map(content);
                seen.saw(at, before);
                if !logged && before != after.get(&k).copied() {
                    told.complain(format!(
                        "{before:?} is in row {k} of {NAME}, expected {:?}",
                        after.get(&k)
                    ));
                }
                if rng.one_in(4) {
                    if tx.delete(&table, &row[..1])? {
                        seen.tx.writes.insert(at, None);
                        after.remove(&k);
                    }
                } else {
                    match tx.upsert(&table, &row) {
                        Err(Error::DuplicateKey { .. }) => continue,
                        Err(e) => return Err(e),
                        Ok(_) => {}
                    }
                    seen.tx.writes.insert(at, Some((id, len, tag)));
                    after.insert(k, (id, len, tag));
                }
            }
            // A checkpoint may have it as soon as it is committed.
            past.push(after.clone());
            Ok(())
        });
        let ticket = match done {
            Ok(((), ticket)) => ticket,
            Err(e) => {
                self.told.excuse("write", &e);
                return None;
            }
        };
        third.now = after;
        if logged {
            seen.tx.gsn = ticket.gsn();
            let place = {
                let mut all = self.told.seen.lock().unwrap();
                all.push(seen);
                all.len() - 1
            };
            let durable = ticket.wait().is_ok();
            self.told.seen.lock().unwrap()[place].tx.acknowledged = durable;
        }
        Some(())
    }
}
