//! What was found already, so that nothing is looked at twice: states whose images hold the same,
//! and images whose files do. All who judge one recording share it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::inspection::Inspection;

/// What was found of images, and of files.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// By their fingerprints; with it whether the file system noted an error of its own.
    images: Mutex<HashMap<u128, (Inspection, bool)>>,
    /// By a hash of all that is opened.
    files: Mutex<HashMap<u128, Inspection>>,
    mounted: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Findings {
    pub fn image(&self, fingerprint: u128) -> Option<(Inspection, bool)> {
        locked(&self.images).get(&fingerprint).cloned()
    }

    /// Counts an image that was mounted, and keeps what was found where it has a fingerprint.
    pub fn mounted_as(&self, fingerprint: Option<u128>, found: &(Inspection, bool)) {
        self.mounted.fetch_add(1, Ordering::Relaxed);
        if let Some(fingerprint) = fingerprint {
            locked(&self.images).insert(fingerprint, found.clone());
        }
    }

    pub fn files(&self, hash: u128) -> Option<Inspection> {
        locked(&self.files).get(&hash).cloned()
    }

    pub fn recovered_as(&self, hash: u128, found: &Inspection) {
        locked(&self.files).insert(hash, found.clone());
    }

    /// Images that were mounted.
    pub fn mounted(&self) -> u64 {
        self.mounted.load(Ordering::Relaxed)
    }
}
