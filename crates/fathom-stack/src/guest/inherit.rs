//! Descriptors for child processes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets a child have a descriptor under the number that it has here. The caller holds the file
/// until the child is started.
pub(super) fn inherit(command: &mut Command, file: &impl AsFd) {
    let number = file.as_fd().as_raw_fd();
    // SAFETY: between fork and exec one system call is made, which neither allocates nor takes a
    // lock; the number is open, as the caller holds the file.
    unsafe {
        command.pre_exec(move || {
            Ok(rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(number), rustix::io::FdFlags::empty())?)
        });
    }
}
