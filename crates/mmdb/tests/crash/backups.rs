//! Backups taken while transactions are open, and what must be in them.

use crate::rng::Rng;
use crate::table::{Rows, rows};
use mmdb::medium::{CrashKind, CrashMedium};
use mmdb::{Database, Options, Schema, restore};

struct Backup {
    path: String,
    /// The last commit when it was taken: it has this one and none after.
    cut: u64,
    tables: Vec<(Schema, Rows)>,
    /// Opened where it is, or restored first.
    restore: bool,
}

#[derive(Default)]
pub struct Backups {
    number: u64,
    whole: Vec<Backup>,
}

impl Backups {
    pub fn take(
        &mut self,
        db: &Database,
        rng: &mut Rng,
        tables: Vec<(Schema, Rows)>,
        cut: u64,
    ) -> mmdb::Result<()> {
        self.number += 1;
        let path = format!("/backup-{}", self.number);
        db.backup(&path)?;
        self.whole.push(Backup { path, cut, tables, restore: rng.one_in(2) });
        Ok(())
    }

    /// After a crash, so that a copy which was not made durable is noticed: what was copied is
    /// there. All are looked at in the last life, some before.
    pub fn check(&mut self, options: &Options, disk: &CrashMedium, last: bool) -> Result<(), String> {
        while self.whole.len() > usize::from(!last) {
            let b = self.whole.remove(0);
            b.check(options, disk).map_err(|e| format!("{}: {e}", b.path))?;
        }
        Ok(())
    }
}

impl Backup {
    fn check(&self, options: &Options, disk: &CrashMedium) -> Result<(), String> {
        let options = Options { stream_dirs: Vec::new(), ..options.clone() };
        let mut path = self.path.clone();
        if self.restore {
            path.push_str("-restored");
            restore(&self.path, &path, &options).map_err(|e| format!("restore: {e}"))?;
            // What is restored is durable.
            disk.crash(CrashKind::Power);
        }
        let db = Database::open(&path, options).map_err(|e| format!("open: {e}"))?;
        if db.recovery().cut != self.cut {
            return Err(format!("the cut is {}, not {}", db.recovery().cut, self.cut));
        }
        if db.tables().len() != self.tables.len() {
            return Err(format!("the tables are {:?}", db.tables()));
        }
        for (schema, want) in &self.tables {
            let t = db.table(&schema.name).map_err(|e| e.to_string())?;
            let now = rows(&db, &t)?;
            if t.schema() != schema || now != *want {
                return Err(format!("table {} has {now:?}, expected {want:?}", schema.name));
            }
        }
        db.verify().map_err(|e| e.to_string())
    }
}
