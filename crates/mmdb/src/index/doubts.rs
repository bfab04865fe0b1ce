//! Keys that more than one row had when they came into a unique index while it was built.
//!
//! Two rows may share a key for a moment although no commit leaves them so: a transaction that
//! takes a key from one row and gives it to another changes the index twice. So a key is only noted
//! here, and looked at again once the index is filled and no commit is half applied.

use crate::key::KeyBuf;
use crate::sync::Mutex;
use std::collections::BTreeSet;

/// So many keys are remembered, the least: the first one that is doubled is enough.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<(BTreeSet<KeyBuf>, bool)>);

impl Doubts {
    pub(super) fn note(&self, key: &[u8]) {
        let mut all = self.0.lock();
        all.0.insert(KeyBuf::new(key));
        if all.0.len() > MOST {
            all.0.pop_last();
            all.1 = true;
        }
    }

    /// The keys in order, and whether there were more.
    pub(crate) fn all(&self) -> (Vec<KeyBuf>, bool) {
        let all = self.0.lock();
        (all.0.iter().cloned().collect(), all.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alter::{fill_index, refuse_doubled};
    use crate::index::Index;
    use crate::{ColumnType, Database, Error, Schema};

    /// Commits that traded more keys than are remembered, while a unique index was built, made it
    /// come to nothing, with a `Conflict` over the table's definition, though no key was doubled.
    #[test]
    fn more_doubts_than_are_remembered_are_settled_by_the_rows() {
        let db = Database::in_memory().unwrap();
        let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let schema = schema.primary_key(&["id"]);
        let def = schema.clone().unique_hash_index("only", &["n"]).indexes[1].clone();
        let t = db.create_table(schema).unwrap();
        let ids = 0..MOST as i64 + 2000;
        db.run(|tx| ids.clone().try_for_each(|id| tx.insert(&t, &[id.into(), id.into()]))).unwrap();
        let engine = &*db.0.engine;
        let doubled = ids.end - 1;
        for (row, is_doubled) in [(-2, false), (-1, true)] {
            let n = if is_doubled { doubled } else { row };
            db.run(|tx| tx.insert(&t, &[row.into(), n.into()])).unwrap();
            let index = Index::unfinished(&def, &engine.space.budget);
            fill_index(engine, &t.0, &index).unwrap();
            for n in ids.clone() {
                let mut key = Vec::new();
                t.0.layout.user_key(&[n.into()], &def.columns, false, &mut key).unwrap();
                index.doubts().unwrap().note(&key);
            }
            let done = refuse_doubled(engine, &t.0, &index);
            let want = format!("({doubled})");
            match done {
                Ok(()) => assert!(!is_doubled),
                Err(Error::DuplicateKey { key, .. }) => assert_eq!((is_doubled, key), (true, want)),
                Err(e) => panic!("{e}"),
            }
        }
    }
}
