//! The command `smsc`.

mod cli;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    take_small_pages();
    // A write beyond `ulimit -f` fails then, as on a full disk; the signal would end the program
    // without a word, and without tidying up.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    cli::run()
}

/// Has the kernel give this process pages of 4 KiB, never transparent huge ones.
///
/// The allocator asks for huge pages, and keeps for each thread a slab of up to 4 MiB of each size
/// of block. With huge pages a slab costs 2 MiB as soon as one block of it is used: 400,000
/// messages from 128 clients took 1.6 GB instead of 0.5, and two fifths of the processors' time
/// went into clearing them (docs/measurements.md). Where it is refused, the tool is only slower.
fn take_small_pages() {
    // SAFETY: the call takes numbers only and changes nothing but where the kernel finds pages from
    // now on.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}
