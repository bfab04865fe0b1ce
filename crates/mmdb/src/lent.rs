//! Buffers that a thread uses again and again.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// Where a thread keeps buffers that nobody uses now.
pub(crate) type Spare<T> = Cell<Option<Box<T>>>;

/// Buffers of which a thread keeps some for their next use.
pub(crate) trait Reused: Default + 'static {
    /// Where this thread keeps them.
    fn spare() -> &'static LocalKey<Spare<Self>>;

    /// Forgets what they were used for. Whether they are worth being kept.
    fn clean(&mut self) -> bool;
}

/// Buffers of this thread, which go back when this is dropped. Another use of the same kind, while
/// this one goes on, has others.
pub(crate) struct Lent<T: Reused>(Option<Box<T>>);

impl<T: Reused> Lent<T> {
    #[inline]
    pub(crate) fn take() -> Lent<T> {
        // The thread may be ending, and its buffers be gone.
        Lent(Some(T::spare().try_with(Cell::take).ok().flatten().unwrap_or_default()))
    }
}

impl<T: Reused> Deref for Lent<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(lent) => lent,
            None => unreachable!("they are there until this is dropped"),
        }
    }
}

impl<T: Reused> DerefMut for Lent<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(lent) => lent,
            None => unreachable!("they are there until this is dropped"),
        }
    }
}

impl<T: Reused> Drop for Lent<T> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut lent) = self.0.take() else { return };
        if lent.clean() {
            // The thread may be ending; then the buffers go with it.
            let _ = T::spare().try_with(|spare| spare.set(Some(lent)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Bytes {
        all: Vec<u8>,
    }

    thread_local!(static SPARE: Spare<Bytes> = const { Cell::new(None) });

    impl Reused for Bytes {
        fn spare() -> &'static LocalKey<Spare<Bytes>> {
            &SPARE
        }

        fn clean(&mut self) -> bool {
            self.all.clear();
            self.all.capacity() < 1000
        }
    }

    #[test]
    fn buffers_are_used_again_clean_unless_they_are_too_large() {
        let mut one = Lent::<Bytes>::take();
        one.all.extend([1; 100]);
        let mut other = Lent::<Bytes>::take();
        other.all.extend([2; 5000]);
        drop(one);
        let again = Lent::<Bytes>::take();
        assert!(again.all.is_empty() && again.all.capacity() >= 100);
        drop(other);
        assert_eq!(Lent::<Bytes>::take().all.capacity(), 0, "what was too large is gone");
    }
}
