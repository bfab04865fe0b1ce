//! How the program ends when something outside ends it: a signal, or a limit on the size of files.

use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_output::tell;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Whether a file was to become larger than it may.
static LIMITED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Lets a write beyond the limit on the size of files (`ulimit -f`) fail, as on a full disk, where
/// the signal would end the program without a word and with all that it had begun still there. A
/// handler and not the wish to ignore it: that would be inherited by the programs that are captured
/// and measured.
pub fn outlive_the_limit() {
    let limited = LIMITED.get_or_init(Arc::default);
    // Where it cannot be caught, all is as without it.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::clone(limited));
}

/// Says that the limit was reached, where it was: an error of a database does not tell that.
pub fn tell_of_the_limit() -> bool {
    if !LIMITED.get().is_some_and(|flag| flag.load(Ordering::SeqCst)) {
        return false;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid and writable; where the call fails it stays as it is.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    tell!(
        "error: a file would have become larger than {} KiB, the limit that this process was started with: raise it (`ulimit -f unlimited`)",
        limit.rlim_cur / 1024
    );
    true
}

/// For a command that has no better way to stop: at Ctrl-C, SIGTERM and SIGHUP, and where nobody
/// reads any more what it prints (SIGPIPE), what it has made for a time goes, and then the signal
/// does what it always does. A hangup that is ignored (nohup) stays so. To be called before there
/// are other threads.
///
/// # Errors
/// The system refuses to catch them.
pub fn tidy_up_on_signals() -> io::Result<()> {
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGPIPE]
        .into_iter()
        .filter(|signal| *signal != SIGHUP || !is_ignored(*signal));
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            fathom_output::remove_temporary();
            tell!("Stopped by a signal: what was begun is removed, and what was there before is as it was.");
            // It gives an error for signals that do not exist.
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// Ends the program as the signal ends any program, by which a shell has 130 of Ctrl-C and 143 of
/// SIGTERM: for a command that was asked to stop, and has ended in order before its end.
pub fn as_the_signal(signal: i32) {
    // It gives an error for signals that do not exist.
    let _ = emulate_default_handler(signal);
}

/// Whether this process ignores a signal.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: with a null new action sigaction only writes the current one, into a structure that
    // is valid and writable; all-zero bytes are a valid sigaction.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut current) == 0
            && current.sa_sigaction == libc::SIG_IGN
    }
}
