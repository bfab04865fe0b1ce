//! What recordings become.

use super::*;

fn imported(text: &str) -> ImportedCalls {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("recording");
    std::fs::write(&path, text).expect("written");
    let imported = import(&path).expect("imported");
    let out = directory.path().join("calls");
    imported.recording.write(&out, &[]).expect("written");
    assert_eq!(FileCalls::read(&out).expect("read"), imported.recording);
    imported
}

fn calls(imported: &ImportedCalls) -> Vec<(u32, u64, u32, Call)> {
    imported.recording.calls.iter().map(|call| (call.thread, call.at_us, call.file, call.call)).collect()
}

#[test]
fn mobigens_threads_become_one_recording_in_the_order_of_its_times() {
    let recording = "1 0 open /data/data O_WRONLY|O_CREAT|O_TRUNC|O_LARGEFILE 36\n1 0 write 36 4\n1 1684 write 36 4\n\
        1 2000 access \"/data/data/app/fb.db-journal\" -1\n\
        2 100 open \"/system/fonts/DroidSans.ttf\" O_RDONLY|O_LARGEFILE 89\n2 101 pread 89 18740699 30\n\
        2 102 pwrite 77 643072 4096\n2 103 fsync 77 0\n2 104 fstat64 77 0\n2 105 close 89 0\n2 106 read 5 0\n";
    let imported = imported(recording);
    assert_eq!(
        calls(&imported),
        [
            (1, 0, 0, Call::Open),
            (1, 0, 0, Call::Write { offset: 0, bytes: 4 }),
            (2, 100, 1, Call::Open),
            (2, 101, 1, Call::Read { offset: 18_740_699, bytes: 30 }),
            (2, 102, 2, Call::Write { offset: 643_072, bytes: 4096 }),
            (2, 103, 2, Call::Fsync),
            (2, 104, 2, Call::Stat),
            (2, 105, 1, Call::Close),
            (1, 1684, 0, Call::Write { offset: 4, bytes: 4 }),
        ]
    );
    let starts: Vec<u64> = imported.recording.files.iter().map(|file| file.start_bytes).collect();
    assert_eq!(starts, [0, 18_740_729, 0]);
}

#[test]
fn straces_calls_are_put_together_and_those_on_sockets_are_left_out() {
    let recording = "100 12:00:01.000000 openat(AT_FDCWD, \"/tmp/a.db\", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3</tmp/a.db>\n\
        100 12:00:01.000100 pwrite64(3</tmp/a.db>, \"SQLite format 3\\0, (\\\"x\"..., 4096, 8192) = 4096\n\
        100 12:00:01.000200 fdatasync(3 <unfinished ...>\n\
        [pid 101] 12:00:01.000250 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 4\n\
        101 12:00:01.000260 write(4, \"secret\", 6) = 6\n\
        100 12:00:01.000300 <... fdatasync resumed>) = 0\n\
        100 12:00:01.000310 lseek(3, 4096, SEEK_SET) = 4096\n\
        100 12:00:01.000320 read(3, \"\", 100) = 100\n\
        100 12:00:01.000330 pread64(3, 0x7ffe, 100, 0) = -1 EIO (Input/output error)\n\
        100 12:00:01.000340 unlink(\"/tmp/a.db\") = 0\n\
        100 12:00:01.000350 writev(1, [{iov_base=\"a\", iov_len=1}, {iov_base=\"b\", iov_len=1}], 2) = 2\n\
        100 12:00:01.000360 +++ exited with 0 +++\nno line\n";
    let imported = imported(recording);
    assert_eq!(
        calls(&imported),
        [
            (100, 0, 0, Call::Open),
            (100, 100, 0, Call::Write { offset: 8192, bytes: 4096 }),
            (100, 300, 0, Call::Fdatasync),
            (100, 320, 0, Call::Read { offset: 4096, bytes: 100 }),
            (100, 340, 0, Call::Unlink),
        ]
    );
    assert_eq!(imported.warnings.len(), 2, "{:?}", imported.warnings);
    assert!(imported.warnings[0].contains("2 calls on descriptors"), "{:?}", imported.warnings);
}

/// What happened: the times of `strace -r`, which are since the line before, were taken for times
/// of one clock, and the calls put into their order: a file was written before it was opened.
#[test]
fn straces_relative_times_are_added_up() {
    let recording = "100       0.000000 openat(AT_FDCWD, \"/tmp/a.db\", O_RDWR) = 3\n\
        100       0.000250 pwrite64(3, \"x\"..., 4096, 0) = 4096\n\
        [pid   101]      0.000010 fsync(3) = 0\n\
        100       2.000005 close(3) = 0\n";
    let imported = imported(recording);
    let times: Vec<u64> = calls(&imported).iter().map(|(_, at_us, ..)| *at_us).collect();
    assert_eq!(times, [0, 250, 260, 2_000_265]);
    assert!(matches!(calls(&imported)[0].3, Call::Open) && matches!(calls(&imported)[3].3, Call::Close));
}

/// What happened: programs of 32 bits seek by `_llseek`, whose result is 0 wherever it goes. All that
/// was written after one was taken to be written at the file's start.
#[test]
fn a_seek_of_32_bits_goes_to_where_its_argument_says() {
    let recording = "open(\"/tmp/a.db\", O_RDWR|O_LARGEFILE) = 3\n\
        _llseek(3, 5000000000, [5000000000], SEEK_SET) = 0\nwrite(3, \"big\", 3) = 3\n\
        _llseek(3, 0, [8192], SEEK_END)          = 0\nwrite(3, \"x\"..., 10) = 10\n\
        _llseek(3, 0, 0x7ffd, SEEK_SET) = -1 EINVAL (Invalid argument)\nwrite(3, \"x\", 1) = 1\n";
    let imported = imported(recording);
    let writes: Vec<Call> = imported.recording.calls.iter().skip(1).map(|made| made.call).collect();
    let write = |offset, bytes| Call::Write { offset, bytes };
    assert_eq!(writes, [write(5_000_000_000, 3), write(8192, 10), write(8202, 1)]);
}

/// What happened: the line with which Android Studio says that a process has started was taken for
/// one of strace, and the log for a recording of file calls.
#[test]
fn only_a_call_makes_a_recording_one_of_strace() {
    for line in [
        "------- PROCESS STARTED (788) for package com.app.mail -------",
        "100 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, note=\"(\"} ---",
    ] {
        assert!(!is_strace_line(line), "{line}");
    }
    assert!(is_strace_line("100 12:00:01.000200 fdatasync(3) = 0"));
}

#[test]
fn wrong_recordings_are_refused_with_their_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls");
    for (text, words) in [
        ("hello", "calls:1: is no recording"),
        ("fathom-file-calls 1\nfile 1 0 a\n", "calls:2"),
        ("fathom-file-calls 1\nfile 0 0 a\n0 0 write 1 0 4\n", "calls:3"),
        ("fathom-file-calls 1\nfile 0 0 a\n0 0 write 0 18446744073709551615 4\n", "calls:3"),
        ("fathom-file-calls 1\nfile 0 99999999999999 a\n", "more at the start"),
    ] {
        std::fs::write(&path, text).expect("written");
        let error = FileCalls::read(&path).expect_err(text).to_string();
        assert!(error.contains(words), "{error}");
    }
    std::fs::write(&path, "nothing\n").expect("written");
    assert!(import(&path).expect_err("no calls").to_string().contains("holds no file call"));
}
