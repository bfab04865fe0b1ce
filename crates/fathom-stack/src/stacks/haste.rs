//! Haste: a modelled device takes no more time once nobody wants what was measured on it.
//!
//! mkfs, the floor probe, a commit that waits in the kernel and the unmount all go on at the pace
//! of the device, which may be a slow card's, and none of them can be broken off. Where the user
//! has asked for the end, that pace serves nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fathom_device::server::Spur;

/// How often the wish is looked for.
const GLANCE: Duration = Duration::from_millis(100);

/// Looks for the wish to stop as long as it is there, and then has a device hurry.
#[derive(Debug)]
pub(crate) struct Haste {
    over: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Haste {
    /// Of the device of `spur`, once `is_stopped` says that everything is to end.
    pub fn when(is_stopped: &Arc<AtomicBool>, spur: Spur) -> Haste {
        let is_stopped = Arc::clone(is_stopped);
        Haste::of(move || is_stopped.load(Ordering::SeqCst), spur, Spur::hurry)
    }

    fn of<T: Send + 'static>(
        is_stopped: impl Fn() -> bool + Send + 'static,
        mut spur: T,
        hurry: fn(&mut T),
    ) -> Haste {
        let (over, waited) = channel();
        let watch = move || {
            while waited.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                if is_stopped() {
                    hurry(&mut spur);
                    return;
                }
            }
        };
        // Without a thread all takes the device's own time, as it does where nobody stops.
        let thread = thread::Builder::new().name("haste".into()).spawn(watch).ok();
        Haste { over, thread }
    }
}

impl Drop for Haste {
    fn drop(&mut self) {
        // An error means that it has done its work.
        let _ = self.over.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_spurs_once_the_wish_is_there_and_not_where_it_never_comes() {
        let (told, heard) = channel::<()>();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let watched = |told: &Sender<()>| {
            let is_stopped = Arc::clone(&is_stopped);
            let spur = |told: &mut Sender<()>| told.send(()).unwrap();
            Haste::of(move || is_stopped.load(Ordering::SeqCst), told.clone(), spur)
        };
        drop(watched(&told));
        assert!(heard.try_recv().is_err(), "its stack went down in order");
        let haste = watched(&told);
        is_stopped.store(true, Ordering::SeqCst);
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
        drop(haste);
        assert!(heard.try_recv().is_err(), "it is said once");
    }
}
