//! What Android's log says of a process that has ended: its connections are closed then, and the
//! transaction that one of them had is rolled back.

/// The process that this line says has ended: `ActivityManager: Process com.app (pid 788) has died`,
/// or what Android Studio puts between, `PROCESS ENDED (788) for package com.app`.
pub fn died(line: &str) -> Option<u32> {
    let number = if line.contains("ActivityManager") {
        line.split_once(") has died")?.0.rsplit_once("(pid ")?.1
    } else {
        line.split_once("-- PROCESS ENDED (")?.1.split_once(')')?.0
    };
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_processes_are_found() {
        for (line, pid) in [
            (
                "11-21 16:26:38.123   600   700 I ActivityManager: Process com.app (pid 788) has died: cch",
                788,
            ),
            ("I/ActivityManager(  600): Process com.app:sync (pid 1788) has died.\r\n", 1788),
            ("---------------------------- PROCESS ENDED (788) for package com.app ----------", 788),
        ] {
            assert_eq!(died(line), Some(pid), "{line}");
        }
        for line in [
            "11-21 16:26:38.123   600   700 I ActivityManager: Start proc 788:com.app/u0a12 for service",
            "11-21 16:26:38.123   600   700 I MyTag: Process com.app (pid 788) has died",
            "--------------------------- PROCESS STARTED (788) for package com.app -----------",
        ] {
            assert_eq!(died(line), None, "{line}");
        }
    }
}
