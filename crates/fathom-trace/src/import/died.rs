//! What Android's log says of a process that has ended: its connections are closed then, and the
//! transaction that one of them had is rolled back.

/// The process that this line says has ended: `ActivityManager: Process com.app (pid 788) has died`,
/// which it does not say of one that it has killed itself (`Killing 788:com.app/u0a12 (adj 0): stop
/// com.app`); `Zygote: Process 788 exited due to signal 9`; or what Android Studio puts between,
/// `PROCESS ENDED (788) for package com.app`.
pub fn died(line: &str) -> Option<u32> {
    let number = if line.contains("ActivityManager") {
        match line.split_once(") has died") {
            Some((process, _)) => process.rsplit_once("(pid ")?.1,
            None => line.split_once(" Killing ")?.1.split_once(':')?.0,
        }
    } else if line.contains("Zygote") {
        line.split_once(" Process ")?.1.split_once(" exited ")?.0
    } else {
        line.split_once("-- PROCESS ENDED (")?.1.split_once(')')?.0
    };
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a process that the system killed itself (`am force-stop`, swiped away, its
    /// memory wanted) it does not say that it died, so what that had open stayed open.
    #[test]
    fn the_ends_of_processes_are_found() {
        for (line, pid) in [
            (
                "11-21 16:26:38.123   600   700 I ActivityManager: Process com.app (pid 788) has died: cch",
                788,
            ),
            ("I/ActivityManager(  600): Process com.app:sync (pid 1788) has died.\r\n", 1788),
            ("---------------------------- PROCESS ENDED (788) for package com.app ----------", 788),
            (
                "11-21 16:26:38.123   600   700 I ActivityManager: Killing 788:com.app/u0a12 (adj 0): stop",
                788,
            ),
            ("I/ActivityManager(  600): Killing 788:com.app:sync/u0a12 (adj 900): empty #17\r\n", 788),
            ("11-21 16:26:38.123   700   700 I Zygote  : Process 788 exited due to signal 9 (Killed)", 788),
            ("11-21 16:26:38.123   700   700 I Zygote  : Process 788 exited cleanly (0)", 788),
        ] {
            assert_eq!(died(line), Some(pid), "{line}");
        }
        for line in [
            "11-21 16:26:38.123   600   700 I ActivityManager: Start proc 788:com.app/u0a12 for service",
            "11-21 16:26:38.123   600   700 I ActivityManager: Killing process com.app due to user request",
            "11-21 16:26:38.123   600   700 I MyTag: Killing 788:com.app/u0a12 (adj 0): stop com.app",
            "11-21 16:26:38.123   700   700 I Zygote  : Forked child process 788",
            "11-21 16:26:38.123   600   700 I MyTag: Process com.app (pid 788) has died",
            "--------------------------- PROCESS STARTED (788) for package com.app -----------",
        ] {
            assert_eq!(died(line), None, "{line}");
        }
    }
}
