//! Browsers that go from test to test: to start one takes seconds of a processor, and there are as
//! many as tests at once.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, Once, PoisonError};

use super::chromium::Chromium;

/// Those that no test has just now.
static IDLE: Mutex<Vec<Chromium>> = Mutex::new(Vec::new());

unsafe extern "C" {
    safe fn atexit(call: extern "C" fn()) -> std::ffi::c_int;
}

/// Statics are not dropped, so that the browsers would outlive their tests.
extern "C" fn close_all() {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// A browser as long as a test has it.
pub struct Lent(Option<Chromium>);

impl Lent {
    /// One that is idle, or a new one; why there is none.
    pub fn new() -> Result<Lent, String> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| assert_eq!(atexit(close_all), 0, "browsers must be closed at the end"));
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(Lent(Some(idle.map_or_else(Chromium::launch, Ok)?)))
    }
}

impl Deref for Lent {
    type Target = Chromium;
    fn deref(&self) -> &Chromium {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Chromium {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // One whose test has failed may still be at whatever that asked of it.
        if let (Some(chromium), false) = (self.0.take(), std::thread::panicking()) {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(chromium);
        }
    }
}
