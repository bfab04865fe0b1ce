//! Waking futures. A waker is the caller's code: it may poll its ticket again at once, do the next
//! transaction, create a table, or drop the last handle on the database. So none is called while a
//! lock is held that any of that wants.
//!
//! Flushes and failures, which let futures go, also come where locks are held: of who changes a
//! table's definition, takes a checkpoint, replaces the manifest or applies frames. Who takes such
//! a lock first begins to hold back ([`HeldBack`]), so that what is to be woken meanwhile is woken
//! by this thread once the lock is free again.

use crate::sync;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

thread_local! {
    /// What this thread is to wake later; `None` if it need not wait.
    static HELD: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Wakes futures, at once or when this thread has given its locks back. A waker may panic: that is
/// neither the end of the thread that flushes, on which all later commits rely, nor a reason not to
/// wake the others. The panic's message has been printed by its hook.
pub(crate) fn wake(wakers: impl IntoIterator<Item = Waker>) {
    let mut wakers: Vec<Waker> = wakers.into_iter().collect();
    // A thread that is ending holds nothing back.
    let _ = HELD.try_with(|held| {
        if let Some(held) = held.borrow_mut().as_mut() {
            held.append(&mut wakers);
        }
    });
    for waker in wakers {
        let woken = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
        if let Err(payload) = woken {
            // What was thrown is the caller's too, and dropping it might panic again.
            std::mem::forget(payload);
        }
    }
}

/// While this is there, this thread wakes no future; what it was to wake it wakes afterwards. Made
/// before the first lock is taken, so that it goes after the last one. One within another is a part
/// of that.
#[must_use = "it holds back as long as it is there"]
pub(crate) struct HeldBack {
    is_outermost: bool,
}

impl HeldBack {
    pub(crate) fn begin() -> HeldBack {
        let begins = |held: &RefCell<Option<Vec<Waker>>>| {
            let mut held = held.borrow_mut();
            let begins = held.is_none();
            held.get_or_insert_default();
            begins
        };
        HeldBack { is_outermost: sync::has_own_storage() && HELD.try_with(begins).unwrap_or(false) }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        if self.is_outermost {
            wake(HELD.try_with(RefCell::take).ok().flatten().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Wakers were called under whatever lock was held where a flush ended.
    #[test]
    fn what_is_held_back_is_woken_when_the_outermost_goes() {
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = || Waker::from(count.clone());
        let seen = || count.0.load(Ordering::SeqCst);
        wake([waker()]);
        assert_eq!(seen(), 1);
        let outer = HeldBack::begin();
        {
            let _inner = HeldBack::begin();
            wake([waker(), waker()]);
        }
        assert_eq!(seen(), 1, "the outer one is there still");
        drop(outer);
        assert_eq!(seen(), 3);
        wake([waker()]);
        assert_eq!(seen(), 4, "nothing is held back any more");
    }

    /// What is to be woken is not forgotten where a panic takes the locks back.
    #[test]
    fn a_panic_wakes_what_was_held_back() {
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = Waker::from(count.clone());
        let done = panic::catch_unwind(AssertUnwindSafe(|| {
            let _held = HeldBack::begin();
            wake([waker]);
            panic!("a defect");
        }));
        assert!(done.is_err());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
