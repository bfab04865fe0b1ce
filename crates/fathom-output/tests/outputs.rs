//! What happened: `--out`, `--html` and `--svg` renamed a new file over whatever the name led to.
//! As root, `fathom trace synthesise gmail --out /dev/null` replaced the machine's null device, and
//! every program of the machine wrote into a growing trace; `--out s.sql` of an import of `s.sql`
//! destroyed the input; `report r.db --html r.db` destroyed the results; a link was lost, and with
//! it the connection to what it led to. The mend: one function writes every output, by the rules of
//! the crate's documentation. Each of them is a test here.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fathom_output::{
    Access, Output, OutputError, check, check_access, check_overwritten, check_unnamed, is_same_file, write,
};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.at(name), bytes).unwrap();
        self.at(name)
    }

    fn files(&self) -> usize {
        fs::read_dir(self.0.path()).unwrap().count()
    }
}

fn put(path: &Path, text: &str) -> Result<(), OutputError> {
    write(path, &[], Access::Public, |out| {
        out.write_all(text.as_bytes()).map_err(|source| OutputError::Io { path: path.to_owned(), source })
    })
}

#[track_caller]
fn refused(path: &Path, inputs: &[&Path], words: &str) {
    let before = fs::read(path).ok();
    for error in [
        check(path, inputs).unwrap_err(),
        Output::create(path, inputs, Access::Public).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, OutputError::Refused { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(fs::read(path).ok(), before);
}

/// A node of the kernel's null device, or a FIFO; none where this user may not make it.
fn node(path: &Path, kind: libc::mode_t, device: libc::dev_t) -> Option<()> {
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero byte and outlives the call.
    (unsafe { libc::mknod(name.as_ptr(), kind | 0o600, device) } == 0).then_some(())
}

#[test]
fn a_regular_file_is_replaced_whole_and_keeps_its_mode() {
    let place = Place::new();
    let path = place.with("r.html", b"old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let mut out = Output::create(&path, &[], Access::Public).unwrap();
    out.write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old", "until it is complete");
    out.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    let mut out = Output::create(&path, &[], Access::Public).unwrap();
    out.write_all(b"half").unwrap();
    drop(out);
    assert_eq!((fs::read(&path).unwrap(), place.files()), (b"new".to_vec(), 1));
}

#[test]
fn what_is_private_is_readable_by_the_user_alone_also_where_it_replaces_what_was_not() {
    let place = Place::new();
    let path = place.with("a.trace", b"old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    Output::create(&path, &[], Access::Private).unwrap().finish().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_link_stays_a_link_and_its_target_is_replaced() {
    let place = Place::new();
    fs::create_dir(place.at("elsewhere")).unwrap();
    let target = place.with("elsewhere/target", b"old");
    symlink("elsewhere/target", place.at("middle")).unwrap();
    symlink("middle", place.at("link")).unwrap();
    put(&place.at("link"), "new").unwrap();
    assert!(fs::symlink_metadata(place.at("link")).unwrap().is_symlink());
    assert_eq!(fs::read(&target).unwrap(), b"new");
    // One that leads to no file yet makes it there.
    symlink("elsewhere/fresh", place.at("dangling")).unwrap();
    put(&place.at("dangling"), "made").unwrap();
    assert_eq!(fs::read(place.at("elsewhere/fresh")).unwrap(), b"made");
    symlink("nowhere/at/all", place.at("lost")).unwrap();
    refused(&place.at("lost"), &[], "there is no directory");
    symlink("ring", place.at("ring")).unwrap();
    assert!(put(&place.at("ring"), "x").is_err());
}

#[test]
fn a_fifo_is_written_to_and_stays_a_fifo() {
    let place = Place::new();
    let path = place.at("pipe");
    node(&path, libc::S_IFIFO, 0).unwrap();
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut text = String::new();
            fs::File::open(path).unwrap().read_to_string(&mut text).map(|_| text).unwrap()
        })
    };
    put(&path, "through the pipe").unwrap();
    assert_eq!(reader.join().unwrap(), "through the pipe");
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
}

#[test]
fn a_device_is_written_to_and_stays_a_device() {
    let place = Place::new();
    let path = place.at("null");
    if node(&path, libc::S_IFCHR, libc::makedev(1, 3)).is_none() {
        return println!("skipped: device nodes need root");
    }
    symlink("null", place.at("link")).unwrap();
    for name in ["null", "link"] {
        // A directory mounted `nodev` refuses to open it, which is as well.
        if let Err(error) = put(&place.at(name), "gone") {
            assert!(matches!(error, OutputError::Io { .. }), "{error}");
        }
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_char_device());
    }
    assert_eq!(place.files(), 2);
    // A full device says so.
    let full = place.at("full");
    node(&full, libc::S_IFCHR, libc::makedev(1, 7)).unwrap();
    assert!(put(&full, "more").unwrap_err().to_string().contains("full"));
    // No device of this number exists: a mend that opened it would fail otherwise.
    let block = place.at("block");
    node(&block, libc::S_IFBLK, libc::makedev(240, 250)).unwrap();
    refused(&block, &[], "a block device");
}

#[test]
fn an_input_is_never_an_output_by_whatever_name() {
    let place = Place::new();
    let input = place.with("s.sql", b"CREATE TABLE t (a);");
    fs::hard_link(&input, place.at("hard")).unwrap();
    symlink("s.sql", place.at("soft")).unwrap();
    for name in ["s.sql", "hard", "soft", "./s.sql", "../"] {
        let path = place.at(name);
        if name == "../" {
            refused(&path, &[&input], "a directory");
        } else {
            refused(&path, &[Path::new("other"), &input], "is the input itself");
        }
    }
    // A folder that is read is all files in it; a new one in it may be made.
    refused(&input, &[place.0.path()], "is the input itself");
    check(&place.at("new.trace"), &[place.0.path()]).unwrap();
}

#[test]
fn a_database_is_never_replaced_and_nothing_is_put_where_sqlite_would_take_it_for_its_own() {
    let place = Place::new();
    let mut bytes = b"SQLite format 3\0".to_vec();
    bytes.resize(4096, 0);
    let other = place.with("app.db", &bytes);
    bytes[68..72].copy_from_slice(b"FATM");
    let results = place.with("r.html", &bytes);
    refused(&results, &[], "holds results of Fathom");
    refused(&other, &[], "an SQLite database");
    symlink("r.html", place.at("link")).unwrap();
    refused(&place.at("link"), &[], "holds results of Fathom");
    for end in ["-wal", "-shm", "-journal"] {
        refused(&place.at(&format!("app.db{end}")), &[], "a part of");
    }
    check(&place.at("notes-journal"), &[]).unwrap();
}

/// A hidden half of an output stayed in its directory when a signal ended the command.
#[test]
fn an_output_has_no_name_until_it_is_complete() {
    use std::os::unix::fs::OpenOptionsExt;
    let place = Place::new();
    let nameless = fs::OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(place.0.path());
    if nameless.is_err() {
        println!("SKIP: this file system has no files without a name");
        return;
    }
    for before in [0, 1] {
        let path = place.at("new.trace");
        let mut out = Output::create(&path, &[], Access::Private).unwrap();
        out.write_all(b"whole").unwrap();
        assert_eq!(place.files(), before);
        out.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), place.files()), (b"whole".to_vec(), 1));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}

/// `fathom run --out index.db` put its report over the user's own `index.html`, which nobody had
/// named.
#[test]
fn what_nobody_named_replaces_only_what_bears_the_mark() {
    let place = Place::new();
    let ours = place.with("ours.html", b"<html><meta made by us>");
    symlink(&ours, place.at("link.html")).unwrap();
    for path in [&ours, &place.at("link.html"), &place.at("new.html")] {
        check_unnamed(path, &[], "made by us").unwrap();
    }
    let far = [vec![b' '; 5000], b"made by us".to_vec()].concat();
    let theirs = [
        place.with("theirs.html", b"<h1>my site</h1>"),
        place.with("far.html", &far),
        place.with("empty.html", b""),
    ];
    symlink(&theirs[0], place.at("to-theirs.html")).unwrap();
    symlink("nowhere", place.at("dangling.html")).unwrap();
    let links = [place.at("to-theirs.html"), place.at("dangling.html")];
    for path in theirs.iter().chain(&links) {
        let error = check_unnamed(path, &[], "made by us").unwrap_err();
        assert!(matches!(error, OutputError::Refused { .. }), "{error}");
    }
    assert!(check_unnamed(Path::new("/dev/null"), &[], "").is_err());
}

#[test]
fn what_is_no_file_is_refused() {
    let place = Place::new();
    refused(place.0.path(), &[], "a directory; name a file in it");
    refused(&place.at("new/"), &[], "a directory; name a file in it");
    refused(&place.at("no/r.html"), &[], "there is no directory");
    refused(Path::new(""), &[], "names no file");
    refused(Path::new("/"), &[], "a directory");
    let _socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
    refused(&place.at("socket"), &[], "no regular file");
    assert_eq!(place.files(), 1);
}

#[test]
fn what_became_something_else_meanwhile_is_not_replaced() {
    let place = Place::new();
    let path = place.at("r.html");
    let out = Output::create(&path, &[], Access::Public).unwrap();
    node(&path, libc::S_IFIFO, 0).unwrap();
    assert!(out.finish().unwrap_err().to_string().contains("meanwhile"));
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
}

/// What happened: `advise rec.db --html app.trace`, `simulate --svg` and `anatomy --perfetto` wrote
/// over traces, of which a capture cannot be made again; databases alone were spared.
#[test]
fn what_was_recorded_is_never_replaced() {
    let place = Place::new();
    for (number, (head, words)) in [
        (&b"\x89FTRACE\n and more"[..], "is a trace"),
        (b"fathom-file-calls 1\n", "is a recording of file calls"),
        (b"FSPOOL1\n and more", "a spool"),
        (b"FATHDEV2 and more", "a log of a device's operations"),
        (b"MMDBMAN1 and more", "the manifest of an mmdb database"),
        (b"MMDBSEG1 and more", "a part of an mmdb database"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = place.with(&format!("file{number}"), head);
        let link = place.at(&format!("link{number}"));
        symlink(&path, &link).unwrap();
        refused(&path, &[], words);
        refused(&link, &[], words);
        // A trace may replace a trace, but for captures, which its writer knows.
        assert_eq!(check_access(&path, &[], Access::Private).is_ok(), number < 2, "{words}");
    }
    // Whatever lies in a database of mmdb, and what recordings of power cuts are of.
    fs::create_dir(place.at("store")).unwrap();
    place.with("store/MANIFEST", b"MMDBMAN1");
    refused(&place.with("store/image", b"anything"), &[], "a part of the mmdb database");
    refused(&place.with("cut.json", b"{\n \"version\": 1,\n \"cells\": {"), &[], "recordings of power cuts");
    // What became one while the new file was being made.
    let path = place.with("r.html", b"old");
    let out = Output::create(&path, &[], Access::Public).unwrap();
    fs::write(&path, b"\x89FTRACE\n").unwrap();
    assert!(out.finish().unwrap_err().to_string().contains("is a trace"));
    assert_eq!(fs::read(&path).unwrap(), b"\x89FTRACE\n");
}

/// What happened: `--html`, `--svg` and a trace's `--out` wrote over excerpts of results, which are
/// what is kept and published of a measurement; results themselves were spared.
#[test]
fn an_excerpt_is_replaced_by_an_excerpt_alone() {
    let place = Place::new();
    let path = place.with("r.db.zst", b"\x28\xb5\x2f\xfd and more");
    refused(&path, &[], "is an excerpt of results");
    assert!(check_access(&path, &[], Access::Private).is_err(), "nor by a trace");
    let mut out = Output::create(&path, &[], Access::Excerpt).unwrap();
    out.write_all(b"\x28\xb5\x2f\xfd another").unwrap();
    out.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"\x28\xb5\x2f\xfd another");
    for (what, name) in [(&b"\x89FTRACE\n"[..], "a.trace"), (b"SQLite format 3\0", "a.db")] {
        let other = place.with(name, what);
        assert!(check_access(&other, &[], Access::Excerpt).is_err(), "{name}");
    }
}

#[test]
fn two_names_of_one_file_are_known_before_it_is_there() {
    let place = Place::new();
    fs::create_dir(place.at("d")).unwrap();
    symlink("d", place.at("e")).unwrap();
    symlink("d/new", place.at("link")).unwrap();
    let same = |one: &str, other: &str| is_same_file(&place.at(one), &place.at(other));
    for other in ["d/new", "d/../d/new", "e/new", "link", "d/new-wal", "e/new-journal"] {
        assert!(same("d/new", other) && same(other, "d/new"), "{other}");
    }
    for other in ["new", "d/newer", "none/new", "d"] {
        assert!(!same("d/new", other), "{other}");
    }
    place.with("d/new", b"x");
    fs::hard_link(place.at("d/new"), place.at("hard")).unwrap();
    assert!(same("hard", "link") && same("d/new-wal", "link"));
    // A device is written to as often as it is asked for.
    assert!(!is_same_file(Path::new("/dev/null"), Path::new("/dev/null")));
}

/// What happened: `Permission denied … at path ".fathom-output-lcRj4d"`, which nobody had named.
#[test]
fn why_no_file_can_be_made_is_told_of_the_directory_that_was_named() {
    let error = Output::create(Path::new("/proc/r.html"), &[], Access::Public).map(drop).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("/proc/r.html: no file can be made in /proc: "), "{told}");
    assert!(!told.contains(".fathom-output-"), "{told}");
}

/// What happened: `stack calibrate results.db --destroy` wrote over results.
#[test]
fn what_cannot_be_made_again_is_not_written_over_where_it_lies() {
    let place = Place::new();
    for (name, head) in [
        ("results.db", &b"SQLite format 3\0"[..]),
        ("app.trace", b"\x89FTRACE\n"),
        ("results.zst", b"\x28\xb5\x2f\xfd"),
        ("app.spool", b"FSPOOL1\n"),
    ] {
        let file = place.with(name, head);
        let link = place.at(&format!("to-{name}"));
        symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            let error = check_overwritten(path).unwrap_err();
            assert!(matches!(error, OutputError::Refused { .. }), "{error}");
        }
    }
    check_overwritten(&place.with("card.img", &[0; 4096])).unwrap();
    check_overwritten(&place.with("empty", b"")).unwrap();
}

/// What happened: where another user had made `x.trace` in /tmp, `--out /tmp/x.trace` by root wrote
/// the trace and gave it to that user, who read what was to be root's alone; through a FIFO it went
/// to him at once; through a link of his a file elsewhere was replaced; and the capturing library
/// that root loads (`trace extension`) was his to change.
#[test]
fn what_another_user_has_put_where_everybody_may_is_not_written_to() {
    let place = Place::new();
    let (shared, own) = (place.at("shared"), place.at("own"));
    for (directory, mode) in [(&shared, 0o1777), (&own, 0o755)] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
    }
    let victim = place.with("victim", b"precious");
    for directory in [&shared, &own] {
        fs::write(directory.join("file"), b"").unwrap();
        symlink(&victim, directory.join("link")).unwrap();
        symlink(place.at("new"), directory.join("dangling")).unwrap();
        symlink(place.0.path(), directory.join("away")).unwrap();
        node(&directory.join("fifo"), libc::S_IFIFO, 0).unwrap();
    }
    symlink(shared.join("file"), place.at("to-theirs")).unwrap();
    // As long as they are this user's they may be named.
    for name in ["file", "link", "dangling", "away/new", "fifo"] {
        check(&shared.join(name), &[]).unwrap();
    }
    let late = shared.join("late");
    let out = Output::create(&late, &[], Access::Private).unwrap();
    fs::write(&late, b"").unwrap();
    for directory in [&shared, &own] {
        for name in ["file", "link", "dangling", "away", "fifo", "late"] {
            match std::os::unix::fs::lchown(directory.join(name), Some(65_534), Some(65_534)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && name == "late" => {}
                // Not root, or one of a user namespace that has no such user.
                Err(error) => {
                    println!("SKIP: this user cannot give files away: {error}");
                    return;
                }
                Ok(()) => {}
            }
        }
    }
    let paths = ["file", "link", "dangling", "away/new", "fifo"].map(|name| shared.join(name));
    for path in paths.iter().chain(&[place.at("to-theirs")]) {
        for access in [Access::Public, Access::Private] {
            let error = check_access(path, &[], access).unwrap_err();
            assert!(matches!(error, OutputError::Refused { .. }), "{error}");
            assert!(error.to_string().contains("another user's (id 65534)"), "{error}");
        }
    }
    assert!(check_overwritten(&shared.join("link")).is_err(), "nor where it lies");
    assert!(out.finish().unwrap_err().to_string().contains("not there before"));
    assert_eq!((fs::metadata(&late).unwrap().len(), fs::read(&victim).unwrap()), (0, b"precious".to_vec()));
    // Whose directory it is may have any file in it, and root writes there as ever.
    for name in ["file", "link", "dangling", "away/new", "fifo"] {
        check(&own.join(name), &[]).unwrap();
    }
}

/// Why something is not written, as a command says it.
#[derive(Debug)]
enum Why {
    Output(OutputError),
    Doing(std::io::Error),
}

impl From<OutputError> for Why {
    fn from(error: OutputError) -> Why {
        Why::Output(error)
    }
}

/// What happened: `fathom cut --replay DIR --state 1/2 --image FILE` on a full disk said "write the
/// image: No space left on device", and not of which file.
#[test]
fn what_cannot_be_written_is_named_whoever_fills_it() {
    let full = Path::new("/dev/full");
    let fill = |out: &mut dyn Write| out.write_all(&[7; 1 << 20]).map_err(Why::Doing);
    let told = write(full, &[], Access::Public, fill).unwrap_err();
    let Why::Output(OutputError::Io { path, source }) = told else { panic!("{told:?}") };
    assert_eq!((path.as_path(), source.kind()), (full, std::io::ErrorKind::StorageFull));
    // What fails for another reason keeps it.
    let other = |_: &mut dyn Write| Err(Why::Doing(std::io::Error::other("no such state")));
    let told = write(full, &[], Access::Public, other).unwrap_err();
    assert!(matches!(told, Why::Doing(error) if error.to_string() == "no such state"));
}
