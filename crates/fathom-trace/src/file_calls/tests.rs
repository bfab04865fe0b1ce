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

/// The calls with their files.
fn on_files(imported: &ImportedCalls) -> Vec<(u32, Call)> {
    imported.recording.calls.iter().map(|call| (call.file, call.call)).collect()
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

/// What happened: a read behind a file's end, which got nothing, gave the file bytes up to there
/// before the replay (a program that probes for a file's end had one), and a write of no bytes made
/// the file longer for whoever appended to it.
#[test]
fn calls_of_no_bytes_make_no_file_longer() {
    let recording = "100 12:00:01.000000 openat(AT_FDCWD, \"/tmp/a\", O_RDWR|O_APPEND) = 3\n\
        100 12:00:01.000010 pread64(3, \"\", 16, 1000000) = 0\n\
        100 12:00:01.000020 pwrite64(3, \"\", 0, 500000) = 0\n\
        100 12:00:01.000030 write(3, \"abcd\", 4) = 4\n";
    let imported = imported(recording);
    assert_eq!(imported.recording.files[0].start_bytes, 0);
    let last = imported.recording.calls.last().expect("a call");
    assert_eq!(last.call, Call::Write { offset: 0, bytes: 4 });
}

/// What happened: `pwrite` to a file that is open for appending was taken for a write at the offset
/// that it names, where Linux appends; and the question whether two descriptors are one
/// (F_DUPFD_QUERY) for a copy with the number of its answer.
#[test]
fn what_is_written_to_a_file_for_appending_is_appended() {
    let recording = "100 open(\"/tmp/log\", O_RDWR|O_CREAT|O_APPEND, 0644) = 3\n\
        100 write(3, \"abcd\", 4) = 4\n100 pwrite64(3, \"ef\", 2, 0) = 2\n\
        100 fcntl(3, F_DUPFD_QUERY, 5) = 1\n100 write(1, \"to the terminal\", 15) = 15\n";
    let imported = imported(recording);
    let writes: Vec<Call> = imported.recording.calls.iter().skip(1).map(|made| made.call).collect();
    assert_eq!(writes, [Call::Write { offset: 0, bytes: 4 }, Call::Write { offset: 4, bytes: 2 }]);
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

/// What happened: the descriptors of all processes were one table, so a process that opened a file
/// took the number away from another one's: its writes went to the wrong file, and after a `close`
/// to one that there never was.
#[test]
fn descriptors_are_those_of_the_process_that_has_them() {
    let recording = "100 open(\"/tmp/log\", O_RDWR) = 5\n\
        100 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 200\n\
        100 open(\"/tmp/a.db\", O_RDWR) = 3\n\
        200 open(\"/tmp/b.db\", O_RDWR) = 3\n\
        100 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, tls=0x7f) = 101\n\
        100 pwrite64(3, \"x\"..., 4096, 8192) = 4096\n200 close(3) = 0\n101 fsync(3) = 0\n\
        200 fsync(5) = 0\n100 close(5) = 0\n200 fdatasync(5) = 0\n";
    let recorded = imported(recording);
    let on_files: Vec<(u32, u32, Call)> =
        calls(&recorded).into_iter().skip(3).map(|(thread, _, file, call)| (thread, file, call)).collect();
    assert_eq!(
        on_files,
        [
            (100, 1, Call::Write { offset: 8192, bytes: 4096 }),
            (200, 2, Call::Close),
            (101, 1, Call::Fsync),
            (200, 0, Call::Fsync),
            (100, 0, Call::Close),
            (200, 0, Call::Fdatasync),
        ]
    );
    let names: Vec<&str> = recorded.recording.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["/tmp/log", "/tmp/a.db", "/tmp/b.db"]);
}

/// The same where nothing says who began a process, but `-y` whose file a descriptor is.
#[test]
fn a_descriptor_whose_path_is_told_is_that_files() {
    let recording = "100 openat(AT_FDCWD, \"a.db\", O_RDWR) = 3</w/a.db>\n\
        200 openat(AT_FDCWD, \"a.db\", O_RDWR) = 3</v/a.db>\n\
        100 pwrite64(3</w/a.db>, \"x\"..., 4096, 0) = 4096\n200 close(3</v/a.db>) = 0\n\
        100 fdatasync(3</w/a.db>) = 0\n100 pwrite64(7</w/a.db-wal>, \"x\", 1, 0) = 1\n\
        100 write(1</dev/pts/0<char 136:0>>, \"x\", 1) = 1\n100 write(2<pipe:[1]>, \"x\", 1) = 1\n";
    let recorded = imported(recording);
    assert_eq!(
        on_files(&recorded)[2..],
        [
            (0, Call::Write { offset: 0, bytes: 4096 }),
            (1, Call::Close),
            (0, Call::Fdatasync),
            (2, Call::Write { offset: 0, bytes: 1 }),
        ]
    );
    assert_eq!(recorded.recording.files[2].name, "/w/a.db-wal");
    assert!(recorded.warnings[0].contains("2 calls on descriptors"), "{:?}", recorded.warnings);
    // A file that is renamed or removed stays what its descriptor is.
    let recording = "open(\"a.db\", O_RDWR) = 3</w/a.db>\nrename(\"a.db\", \"b.db\") = 0\n\
        fsync(3</w/b.db>) = 0\nunlink(\"b.db\") = 0\nfdatasync(3</w/b.db>(deleted)) = 0\n\
        open(\"b.db\", O_RDWR|O_CREAT) = 4</w/b.db>\nfsync(4</w/b.db>) = 0\n";
    let recorded = imported(recording);
    assert_eq!(
        on_files(&recorded),
        [
            (0, Call::Open),
            (0, Call::Fsync),
            (0, Call::Unlink),
            (0, Call::Fdatasync),
            (1, Call::Open),
            (1, Call::Fsync),
        ]
    );
}

/// What happened: calls that write or sync files in other ways were left out without a word, so a
/// recording lacked them and nobody knew.
#[test]
fn calls_that_write_otherwise_are_left_out_and_counted() {
    let recording = "open(\"/tmp/a.db\", O_RDWR) = 3\nfallocate(3, 0, 0, 4096) = 0\n\
        msync(0x7f, 4096, MS_SYNC) = 0\nmsync(0x7f, 4096, MS_SYNC) = -1 ENOMEM (Cannot allocate memory)\n\
        sync() = 0\nfallocate(3, 0, 4096, 4096) = 0\ngetpid() = 100\nfsync(3) = 0\n\
        open(\"/tmp/d\", O_RDONLY|O_DIRECTORY) = 4\nopen(\"/tmp/log\", O_WRONLY|O_CREAT|O_DSYNC, 0644) = 5\n";
    let imported = imported(recording);
    assert_eq!(imported.recording.calls.len(), 3);
    let warnings = imported.warnings.join("\n");
    let counted = "1 × O_SYNC, O_DSYNC or O_DIRECT of an open, 2 × fallocate, 1 × msync, 1 × sync";
    assert!(warnings.ends_with(&format!("does not have: {counted}")), "{warnings}");
}

/// What happened: SQLite opens the directory of a journal as it opens a file, and syncs it. That
/// became the sync of an empty file, which costs nothing.
#[test]
fn the_sync_of_a_directory_is_none_of_a_file() {
    let recording = "open(\"/tmp/d/a.db\", O_RDWR) = 3\nopen(\"/tmp/d\", O_RDONLY|O_CLOEXEC) = 4\n\
        fdatasync(4) = 0\nclose(4) = 0\nfdatasync(3) = 0\nfsync(9</tmp/d>) = 0\nunlink(\"/var/e/x\") = 0\n\
        open(\"/var/e\", O_RDONLY) = 5\nfsync(5) = 0\n";
    let imported = imported(recording);
    assert_eq!(
        on_files(&imported),
        [
            (0, Call::Open),
            (1, Call::Open),
            (1, Call::SyncDirectory),
            (1, Call::Close),
            (0, Call::Fdatasync),
            (1, Call::SyncDirectory),
            (2, Call::Open),
            (2, Call::SyncDirectory),
        ]
    );
}

/// What happened: programs of 32 bits seek by `_llseek`, whose result is 0 wherever it goes. All
/// that was written after one was taken to be written at the file's start.
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

/// What happened: a copy of a descriptor had an offset of its own, so what a program wrote by both
/// (`> log 2>&1`, or a process and its child) was taken to be written twice at the same place.
#[test]
fn copies_of_a_descriptor_have_one_offset() {
    let recording = "100 open(\"/tmp/log\", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 3\n100 dup2(3, 1) = 1\n\
        100 fork() = 101\n100 write(3, \"aaaa\", 4) = 4\n100 write(1, \"bb\", 2) = 2\n\
        101 write(1, \"c\", 1) = 1\n101 lseek(3, 100, SEEK_SET) = 100\n100 write(3, \"d\", 1) = 1\n\
        100 open(\"/tmp/log\", O_WRONLY) = 4\n100 write(4, \"e\", 1) = 1\n";
    let imported = imported(recording);
    let writes: Vec<Call> = imported.recording.calls.iter().map(|made| made.call).collect();
    let write = |offset, bytes| Call::Write { offset, bytes };
    let expected =
        [Call::Open, write(0, 4), write(4, 2), write(6, 1), write(100, 1), Call::Open, write(0, 1)];
    assert_eq!(writes, expected);
    // A copy of what was open before the recording is as little known as that.
    let recording = "100 fcntl(7</w/a.db>, F_DUPFD, 8) = 8</w/a.db>\n100 fsync(8</w/a.db>) = 0\n";
    let imported = self::imported(recording);
    assert_eq!(imported.recording.files[0].name, "/w/a.db");
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
}

/// What happened: a program that a process began had the descriptors of that process, also those
/// that are closed for it (O_CLOEXEC): what it wrote into a pipe was a write into the database.
#[test]
fn a_program_that_is_begun_has_no_descriptor_that_is_closed_for_it() {
    let recording = "100 execve(\"/bin/app\", [\"app\"], 0x7ffd /* 20 vars */) = 0\n\
        100 openat(AT_FDCWD, \"/tmp/log\", O_WRONLY|O_APPEND) = 3\n\
        100 openat(AT_FDCWD, \"/tmp/a.db\", O_RDWR|O_CREAT|O_NOFOLLOW|O_CLOEXEC, 0644) = 4\n\
        100 vfork( <unfinished ...>\n101 write(4, \"abcd\", 4) = 4\n\
        101 execve(\"/bin/gzip\", [\"gzip\"], 0x7ffd /* 20 vars */ <unfinished ...>\n\
        100 <... vfork resumed>) = 101\n101 <... execve resumed>) = 0\n\
        101 pipe2([4, 5], O_CLOEXEC) = 0\n101 write(4, \"packed\", 6) = 6\n\
        101 write(3, \"done\", 4) = 4\n100 write(4, \"efgh\", 4) = 4\n\
        101 close_range(3, ~0U, 0) = 0\n101 write(3, \"pipe\", 4) = 4\n";
    let imported = imported(recording);
    let writes: Vec<(u32, u32, Call)> =
        calls(&imported).into_iter().skip(2).map(|(thread, _, file, call)| (thread, file, call)).collect();
    let write = |offset, bytes| Call::Write { offset, bytes };
    assert_eq!(writes, [(101, 1, write(0, 4)), (101, 0, write(0, 4)), (100, 1, write(4, 4))]);
    assert!(imported.warnings[0].contains("2 calls on descriptors"), "{:?}", imported.warnings);
}

/// What happened: a comma in the path that `-y` shows was taken for one between arguments, so the
/// write of a page was one at the offset 4096, whatever page it was; behind a lone bracket the call
/// was lost.
#[test]
fn what_stands_in_a_descriptors_path_separates_nothing() {
    let recording = "1 openat(AT_FDCWD</w/x, y>, \"a, b.db\", O_RDWR) = 3</w/x, y/a, b.db>\n\
        1 pwrite64(3</w/x, y/a, b.db>, \"page, (\"..., 4096, 8192) = 4096\n\
        1 openat(AT_FDCWD</w/x, y>, \"c).db\", O_RDWR) = 4</w/x, y/c).db>\n\
        1 pwrite64(4</w/x, y/c).db>, \"page\"..., 512, 1024) = 512\n\
        1 write(2</dev/pts/0<char 136:0>>, \"x\", 1) = 1\n";
    let imported = imported(recording);
    assert_eq!(
        on_files(&imported),
        [
            (0, Call::Open),
            (0, Call::Write { offset: 8192, bytes: 4096 }),
            (1, Call::Open),
            (1, Call::Write { offset: 1024, bytes: 512 }),
        ]
    );
}

/// What happened: with `-r` the end of a call that another thread's line had interrupted, and that
/// read a text with a colon, was taken for one with a time of the day: it stood before all others.
/// Lines of `-tt -r`, which have both times, were none.
#[test]
fn straces_relative_times_are_told_by_their_word_alone() {
    let recording = "100       0.000000 openat(AT_FDCWD, \"/tmp/a.json\", O_RDWR) = 3\n\
        100       0.000250 pread64(3,  <unfinished ...>\n101       0.000010 write(9, \"x\", 1) = 1\n\
        100       0.000005 <... pread64 resumed>\"{a: 1}\", 6, 0) = 6\n\
        100       0.000100 pwrite64(3, \"<unfinished ...>\", 16, 6) = 16\n";
    let times = |recording: &str| -> Vec<(u64, Call)> {
        calls(&imported(recording)).into_iter().map(|(_, at_us, _, call)| (at_us, call)).collect()
    };
    let (read, write) = (Call::Read { offset: 0, bytes: 6 }, Call::Write { offset: 6, bytes: 16 });
    assert_eq!(times(recording), [(0, Call::Open), (265, read), (365, write)]);
    let line = "15:41:12.000250 (+     0.000250) fsync(3</tmp/a>) = 0";
    assert!(is_strace_line(line));
    let recording = format!("15:41:12.000000 (+     0.000000) fsync(3</tmp/a>) = 0\n{line}\n");
    assert_eq!(times(&recording), [(0, Call::Fsync), (250, Call::Fsync)]);
}

/// What happened: on a terminal strace names no process while there is one, so the call that began
/// the second one was never found to end, and the two had the same descriptors.
#[test]
fn a_call_of_the_only_process_may_end_when_there_are_two() {
    let recording = "openat(AT_FDCWD, \"/tmp/a.db\", O_RDWR) = 3\n\
        clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>\n\
        strace: Process 101 attached\n[pid   101] close(3) = 0\n\
        [pid   101] openat(AT_FDCWD, \"/tmp/b\", O_RDWR) = 3\n\
        [pid   100] <... clone resumed>, child_tidptr=0x7f) = 101\n\
        [pid   100] pwrite64(3, \"x\", 1, 0) = 1\n\
        clone3({flags=0, exit_signal=SIGCHLD}, 88) = 2 /* 102 in strace's PID NS */\n\
        [pid   102] close(3) = 0\n[pid   100] fdatasync(3) = 0\n";
    let imported = imported(recording);
    let on_files: Vec<(u32, u32, Call)> =
        calls(&imported).into_iter().skip(1).map(|(thread, _, file, call)| (thread, file, call)).collect();
    assert_eq!(
        on_files,
        [
            (101, 0, Call::Close),
            (101, 1, Call::Open),
            (100, 0, Call::Write { offset: 0, bytes: 1 }),
            (102, 0, Call::Close),
            (100, 0, Call::Fdatasync),
        ]
    );
}

/// What happened: what newer programs call was passed over without a word: `openat2`, so that the
/// file's writes were on a descriptor that nobody had opened, `pwritev2` at the descriptor's own
/// offset, `statx`. Files without a name (O_TMPFILE) were one file, with their directory's name,
/// and the sync of a directory that is opened as one was a call on no file.
#[test]
fn what_newer_programs_call_is_read() {
    let recording = "1 openat2(AT_FDCWD, \"/d/a.db\", {flags=O_WRONLY|O_DSYNC, resolve=0}, 24) = 3\n\
        1 pwritev2(3, [{iov_base=\"x]\"..., iov_len=8}], 1, -1, 0) = 8\n\
        1 pwritev2(3, [{iov_base=\"x]\"..., iov_len=8}], 1, -1, RWF_DSYNC) = 8\n\
        1 preadv2(3, [{iov_base=\"x]\"..., iov_len=8}], 1, 4, RWF_NOWAIT) = 8\n\
        1 statx(3, \"\", AT_EMPTY_PATH, STATX_ALL, {stx_mask=STATX_ALL, ...}) = 0\n\
        1 statx(AT_FDCWD, \"/d/a.db\", 0, STATX_ALL, {stx_mask=STATX_ALL, ...}) = 0\n\
        1 openat(AT_FDCWD, \"/d\", O_RDWR|O_EXCL|O_CLOEXEC|O_TMPFILE, 0600) = 4</d/#12>(deleted)\n\
        1 openat(AT_FDCWD, \"/d\", O_RDWR|O_EXCL|O_CLOEXEC|O_TMPFILE, 0600) = 5</d/#13 (deleted)>\n\
        1 pwrite64(5</d/#13 (deleted)>, \"x\", 1, 0) = 1\n1 fsync(5</d/#13 (deleted)>) = 0\n\
        1 openat(AT_FDCWD, \"/d\", O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 6</d>\n1 fsync(6</d>) = 0\n\
        1 close(6</d>) = 0\n1 socket(AF_UNIX, SOCK_STREAM, 0) = 6<socket:[1]>\n1 close(6) = 0\n";
    let imported = imported(recording);
    assert_eq!(
        on_files(&imported),
        [
            (0, Call::Open),
            (0, Call::Write { offset: 0, bytes: 8 }),
            (0, Call::Write { offset: 8, bytes: 8 }),
            (0, Call::Read { offset: 4, bytes: 8 }),
            (0, Call::Stat),
            (0, Call::Stat),
            (1, Call::Open),
            (2, Call::Open),
            (2, Call::Write { offset: 0, bytes: 1 }),
            (2, Call::Fsync),
            (3, Call::SyncDirectory),
        ]
    );
    let warnings = imported.warnings.join("\n");
    let counted = "1 × O_SYNC, O_DSYNC or O_DIRECT of an open, 1 × RWF_SYNC or RWF_DSYNC of a pwritev2";
    assert!(warnings.ends_with(&format!("does not have: {counted}")), "{warnings}");
    assert_eq!(imported.warnings.len(), 1, "{warnings}");
}

/// What happened: strace says on a terminal that a process has begun, also within the line of the
/// call that began it. The two halves were no calls, so the processes had the same descriptors.
#[test]
fn a_call_is_read_around_the_word_that_a_process_has_begun() {
    for (within, behind) in [
        ("strace: Process 101 attached\n", ", child_tidptr=0x7f0f) = 101\n"),
        ("Process 101 attached\n", " <unfinished ...>\n[pid   100] <... clone resumed>, tls=0) = 101\n"),
    ] {
        let recording = format!(
            "12:00:01.000001 open(\"/tmp/a.db\", O_RDWR) = 3\n\
             12:00:01.000002 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD{within}{behind}\
             [pid   101] 12:00:01.000009 close(3) = 0\n\
             [pid   100] 12:00:01.000010 fsync(3) = 0\n"
        );
        let imported = imported(&recording);
        let on_files: Vec<(u32, Call)> =
            calls(&imported).into_iter().map(|(thread, _, _, call)| (thread, call)).collect();
        assert_eq!(on_files, [(0, Call::Open), (101, Call::Close), (100, Call::Fsync)], "{recording}");
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }
}

/// What happened: with the names of its processes (`strace -Y`) a recording on a terminal had one
/// thread, whose descriptors were those of all, without a word; one in a file was refused, as were
/// those with the numbers of calls (`-n`) and of instructions (`-i`).
#[test]
fn what_options_of_strace_add_before_a_call_is_read() {
    for (one, other) in [
        ("[pid   100<app>] ", "[pid   101<worker [1] a>] "),
        ("100<app> 12:00:01.000001 ", "101<worker 1> 12:00:01.000002 "),
        ("100   1700000000.000001 [ 257] ", "101   1700000000.000002 [  18] "),
        ("100 12:00:01.000001 [00007f0123456789] ", "101 12:00:01.000002 [????????????????] "),
        ("[pid   100] [ 257] [f7f3a2c4] ", "[pid   101] [  18] [f7f3a2c4] "),
    ] {
        let recording = format!(
            "{one}openat(AT_FDCWD, \"/tmp/a.db\", O_RDWR) = 3\n\
             {one}clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 101<app>\n\
             {other}close(3) = 0\n{one}fsync(3) = 0\n"
        );
        assert!(is_strace_line(recording.lines().next().expect("a line")), "{recording}");
        let imported = imported(&recording);
        let on_files: Vec<(u32, Call)> =
            calls(&imported).into_iter().map(|(thread, _, _, call)| (thread, call)).collect();
        assert_eq!(on_files.len(), 3, "{recording}");
        for made in [(100, Call::Open), (101, Call::Close), (100, Call::Fsync)] {
            assert!(on_files.contains(&made), "{made:?}: {recording}");
        }
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }
    assert!(!is_strace_line("[main] read(3) = 0"));
}

/// What happened: where nothing was recorded but what writes and syncs (`-yy -e
/// trace=write,pwrite64,fdatasync`), what a program wrote into a pipe or socket whose number a file
/// had before was a write into that file, without a word; and where a socket's number became a
/// file's, that file's calls were left out.
#[test]
fn a_descriptor_that_is_shown_as_no_file_is_none() {
    let recording = "1 pwrite64(4</w/a.db>, \"x\", 1, 0) = 1\n1 write(4<pipe:[7]>, \"ab\", 2) = 2\n\
        1 write(4<TCP:[127.0.0.1:80->127.0.0.1:90]>, \"ab\", 2) = 2\n1 fdatasync(4</w/a.db>) = 0\n\
        1 write(4<UNIX-STREAM:[1->2, \"/w/s\"]>, \"ab\", 2) = 2\n\
        1 write(4</dev/null<char 1:3>>, \"a\", 1) = 1\n\
        1 pwrite64(4</w/b.db>, \"x\", 1, 8) = 1\n1 close(4<anon_inode:[eventfd]>) = 0\n";
    let imported = imported(recording);
    assert_eq!(
        on_files(&imported),
        [
            (0, Call::Write { offset: 0, bytes: 1 }),
            (0, Call::Fdatasync),
            (1, Call::Write { offset: 8, bytes: 1 }),
        ]
    );
    assert!(imported.warnings[0].contains("4 calls on descriptors"), "{:?}", imported.warnings);
    // What is not where its process sees it may be a file all the same.
    let recording =
        "1 open(\"a\", O_RDWR) = 3<(unreachable)/w/a>\n1 write(3<(unreachable)/w/a>, \"ab\", 2) = 2\n";
    assert_eq!(self::imported(recording).recording.calls.len(), 2);
}

/// What happened: of a call with raw arguments (`-e raw=fsync`) the descriptor was taken for 0, so
/// the syncs of all files were those of one that there never was.
#[test]
fn calls_with_raw_arguments_are_left_out_and_counted() {
    let recording = "1 openat(AT_FDCWD, \"/w/a.db\", O_RDWR) = 3\n1 fsync(0x3) = 0\n\
        1 pwrite64(0x3, 0x7f12, 0x1000, 0x2000) = 0x1000\n1 read(0x3, 0x7f12, 0x10) = 0x10\n\
        1 close(0x3) = 0\n1 fsync(3) = 0\n";
    let imported = imported(recording);
    assert_eq!(on_files(&imported), [(0, Call::Open), (0, Call::Fsync)]);
    let warnings = imported.warnings.join("\n");
    assert!(warnings.ends_with("does not have: 2 × calls with raw arguments (`-e raw`)"), "{warnings}");
    // Nor is it known without their names (`-X raw`) what a file is opened for.
    let recording = "1 openat(-100, \"/w/log\", 0x80441, 0644) = 3\n1 write(3, \"ab\", 2) = 2\n";
    let warnings = self::imported(recording).warnings.join("\n");
    assert!(warnings.ends_with("does not have: 1 × flags of an open as numbers (`-X raw`)"), "{warnings}");
}

/// What happened: a file over which another one was renamed, as programs save, was there for ever:
/// each time that one was saved was a file more, and that renames are left out was not told.
#[test]
fn what_another_file_takes_the_name_of_is_gone() {
    let save = |descriptor: u32| {
        format!(
            "1 openat(AT_FDCWD, \"/d/a.tmp\", O_WRONLY|O_CREAT|O_TRUNC, 0600) = {descriptor}\n\
             1 fsync({descriptor}) = 0\n1 renameat2(AT_FDCWD, \"/d/a.tmp\", AT_FDCWD, \"/d/a\", 0) = 0\n"
        )
    };
    let recording = format!("{}{}1 rename(\"/d/not-known\", \"/d/a\") = 0\n", save(3), save(4));
    let imported = imported(&recording);
    assert_eq!(
        on_files(&imported),
        [
            (0, Call::Open),
            (0, Call::Fsync),
            (1, Call::Open),
            (1, Call::Fsync),
            (0, Call::Unlink),
            (1, Call::Unlink),
        ]
    );
    assert!(imported.warnings[0].ends_with("does not have: 3 × rename"), "{:?}", imported.warnings);
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
        assert_eq!(FileCalls::check(&path).is_err(), text == "hello", "{text}");
    }
    std::fs::write(&path, MAGIC).expect("written");
    FileCalls::check(&path).expect("a recording");
    let error = FileCalls::check(directory.path()).expect_err("a directory").to_string();
    assert!(error.contains("is no file"), "{error}");
    // What happened: of three files that are read at the end of all offsets the import panicked.
    let mut far = String::new();
    for descriptor in 5..8 {
        far += &format!("1 1 open \"/{descriptor}\" O_RDONLY {descriptor}\n");
        far += &format!("1 2 pread {descriptor} 9223372036854775000 800\n");
    }
    std::fs::write(&path, far).expect("written");
    assert!(import(&path).expect_err("too large").to_string().contains("bytes at the start, more than"));
    std::fs::write(&path, "nothing\n").expect("written");
    assert!(import(&path).expect_err("no calls").to_string().contains("holds no file call"));
}

/// What happened: `trace import --format file-calls` of what has no line breaks, a device or a file
/// with a hole of 100 GB that takes no room on the disk, filled the memory and was aborted.
#[test]
fn a_line_without_an_end_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls");
    for (text, line) in [("1 1 open \"/a\" O_RDONLY 5\n", "calls:2"), ("", "calls:1")] {
        std::fs::write(&path, text).expect("written");
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
        file.set_len(LONGEST + 100).expect("a hole");
        let error = import(&path).expect_err("no line").to_string();
        assert!(error.contains(line) && error.contains("more than 16 MiB"), "{error}");
    }
    std::fs::write(&path, format!("{MAGIC}\nfile 0 0 a\n")).expect("written");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.set_len(LONGEST + 100).expect("a hole");
    let error = FileCalls::read(&path).expect_err("no line").to_string();
    assert!(error.contains("calls:3") && error.contains("more than 16 MiB"), "{error}");
}
