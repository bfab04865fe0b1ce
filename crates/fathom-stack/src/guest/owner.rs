//! What ties a guest's process to the one that holds it.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has a command that boots a guest end with this process, whatever ends that, for nobody else
/// would; and run on one CPU, where one is given.
///
/// The kernel looks at the thread that starts the command: it has to live as long as the guest.
pub fn tie_to_owner(command: &mut Command, cpu: Option<usize>) {
    let owner = std::process::id();
    // SAFETY: between fork and exec only system calls are made, none of which allocates or takes a
    // lock.
    unsafe {
        command.pre_exec(move || {
            // The guest's own processes end with it in the same way.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            let parent = rustix::process::getppid().map_or(0, |process| process.as_raw_nonzero().get());
            if u32::try_from(parent) != Ok(owner) {
                return Err(rustix::io::Errno::SRCH.into());
            }
            if let Some(cpu) = cpu {
                // A system call in the guest goes through two processes of the host: on one CPU
                // that takes a third of the time, and always the same.
                let mut set = rustix::thread::CpuSet::new();
                set.set(cpu);
                rustix::thread::sched_setaffinity(None, &set)?;
            }
            Ok(())
        });
    }
}
