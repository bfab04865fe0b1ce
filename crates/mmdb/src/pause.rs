//! What tests let happen between two steps of a read.
//!
//! Schedulers get to the moment between a look-up and the read of what it found, but seldom with a
//! row deleted, and another one in its slot, by just then: that takes two whole commits. Here they
//! are made at that moment, on purpose.

#[cfg(test)]
thread_local! {
    static NEXT: std::cell::RefCell<Vec<Box<dyn FnOnce()>>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Between two steps of a read.
#[inline(always)]
pub(crate) fn here() {
    #[cfg(test)]
    if let Some(f) = NEXT.with(|next| next.borrow_mut().pop()) {
        f();
    }
}

/// Has `f` run at the next pause of this thread.
#[cfg(test)]
pub(crate) fn at_next(f: impl FnOnce() + 'static) {
    NEXT.with(|next| next.borrow_mut().push(Box::new(f)));
}

/// Nothing is to happen any more.
#[cfg(test)]
pub(crate) fn clear() {
    drop(NEXT.with(std::cell::RefCell::take));
}
