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
