//! Spools that are damaged or made by an enemy: they are what saves a capture that was killed.

use std::path::Path;

use super::{merge, running};
use crate::Writer;
use crate::model::Origin;

/// A spool of one process with these records; its header says that so many bytes of them are
/// finished.
fn spool(directory: &Path, records: &[u8], finished: u64) {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(b"FSPOOL1\n");
    bytes[8..16].copy_from_slice(&finished.to_le_bytes());
    bytes[16..20].copy_from_slice(&7_u32.to_le_bytes());
    bytes.extend_from_slice(records);
    std::fs::write(directory.join("7-1.spool"), bytes).expect("written");
}

/// A record with these words and texts; a text's length may be another than it is.
fn record(tag: u8, words: &[u64], texts: &[(&[u8], u64)]) -> Vec<u8> {
    let mut bytes = vec![tag, words.len() as u8, texts.len() as u8, 0];
    bytes.resize(32, 0);
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    for (text, length) in texts {
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(text);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

fn merged(directory: &Path) -> Result<(), String> {
    let mut writer = Writer::create(&directory.join("out.trace")).expect("created");
    merge(directory, Origin::default(), &mut writer).map(drop).map_err(|error| error.to_string())
}

/// What happened: `fathom` was killed and the program went on. What was imported meanwhile ended in
/// its middle, and was said to be all that it did until it was killed.
#[test]
fn who_still_writes_into_a_spool_is_known() {
    use std::os::fd::AsRawFd;
    let place = tempfile::tempdir().expect("a directory");
    let process = std::process::id();
    let path = place.path().join(format!("{process}-1.spool"));
    std::fs::write(&path, [0; 4096]).expect("written");
    assert!(running(place.path()).is_empty());
    let file = std::fs::File::open(&path).expect("opened");
    // SAFETY: a page of the file, which nobody reads.
    let map = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_ne!(map, libc::MAP_FAILED);
    assert_eq!(running(place.path()), [process]);
    // SAFETY: it was mapped above.
    assert_eq!(unsafe { libc::munmap(map, 4096) }, 0);
    assert!(running(place.path()).is_empty());
}

/// A spool whose header spoke of more than the file held was believed: "memory allocation of
/// 2533274812021296 bytes failed".
#[test]
fn a_spool_is_believed_as_far_as_the_file_goes() {
    let place = tempfile::tempdir().expect("a directory");
    let sql = b"SELECT 1";
    for (records, finished) in [
        (record(1, &[0], &[(sql, 2_533_274_812_021_296)]), u64::MAX),
        (record(1, &[0], &[(sql, u64::MAX)]), u64::MAX),
        (record(1, &[0], &[(sql, 9)]), 1000),
        (record(1, &[0], &[(sql, 8)]), 1000),
        (vec![1; 40], 40),
        (Vec::new(), u64::MAX),
    ] {
        spool(place.path(), &records, finished);
        let error = merged(place.path()).expect_err("damaged");
        assert!(error.contains("7-1.spool: damaged at byte 4"), "{error}");
    }
    let whole = record(1, &[0], &[(sql, 8)]);
    spool(place.path(), &whole, whole.len() as u64);
    assert_eq!(merged(place.path()), Ok(()));
    // One that is long and holds nothing.
    let sparse = record(1, &[0], &[(b"", 1 << 40)]);
    spool(place.path(), &sparse, u64::MAX);
    let file = std::fs::File::options().write(true).open(place.path().join("7-1.spool")).expect("opens");
    file.set_len(1 << 42).expect("lengthened");
    assert!(merged(place.path()).expect_err("damaged").contains("damaged at byte"));
}

/// What happened: the key that is given to an ATTACH was kept, in its text or as what was bound,
/// and later where it is in the URI of the file. Then the name of a database in memory was not kept
/// either, and its replay knew no such database.
#[test]
fn a_key_that_an_attach_is_given_is_not_kept() {
    let place = tempfile::tempdir().expect("a directory");
    let [literal, bound]: [&[u8]; 2] = [b"ATTACH 'b' AS b KEY 'sesame'", b"ATTACH ? AS c KEY ?"];
    let [uri, bound_uri, name]: [&[u8]; 3] =
        [b"ATTACH 'file:d?key=sesame' AS d", b"ATTACH ? AS e", b"file:e?key=sesame"];
    let [in_memory, into]: [&[u8]; 2] = [b"ATTACH ':memory:' AS ?", b"VACUUM INTO ?"];
    let text = |bytes: &[u8]| bytes.len() as u64;
    let records = [
        record(2, &[0], &[(b"/a.db", 5), (b"", 0), (b"empty", 5)]),
        record(3, &[0, 6, 0], &[(b"", 0), (b"", 0)]),
        record(1, &[5], &[(in_memory, text(in_memory))]),
        record(1, &[6], &[(into, text(into))]),
        record(4, &[3, 5, 0], &[(b"", 0)]),
        record(4, &[4, 6, 0], &[(b"", 0)]),
        record(5, &[3 | 1 << 32, 1, 88], &[]),
        record(5, &[4 | 1 << 32, 3, text(name)], &[(name, text(name))]),
        record(1, &[3], &[(uri, text(uri))]),
        record(1, &[4], &[(bound_uri, text(bound_uri))]),
        record(4, &[2, 4, 0], &[(b"", 0)]),
        record(5, &[2 | 1 << 32, 3, text(name)], &[(name, text(name))]),
        record(1, &[0], &[(literal, text(literal))]),
        record(1, &[1], &[(bound, text(bound))]),
        record(4, &[0, 0, 0], &[(b"", 0)]),
        record(4, &[1, 1, 0], &[(b"", 0)]),
        record(5, &[1 | 2 << 32, 3, 6], &[(b"sesame", 6)]),
        // Another statement with its number, where it did not compile.
        record(1, &[2], &[(b"SELECT ?", 8)]),
        record(4, &[1, 2, 0], &[(b"", 0)]),
        record(5, &[1 | 1 << 32, 1, 77], &[]),
    ]
    .concat();
    spool(place.path(), &records, records.len() as u64);
    let file = place.path().join("out.trace");
    let mut writer = Writer::create(&file).expect("created");
    merge(place.path(), Origin::default(), &mut writer).expect("merged");
    writer.finish().expect("finished");
    let trace = crate::Reader::open(&file).expect("opens");
    let told = format!("{:?}", trace.collect::<Result<Vec<_>, _>>().expect("read"));
    assert!(told.contains("KEY '(left out)'") && told.contains("value: Null"), "{told}");
    assert!(told.contains("Integer(77)") && told.contains("Integer(88)"), "{told}");
    let bytes = format!("{:?}", b"sesame");
    assert!(!told.contains("sesame") && !told.contains(bytes.trim_matches(['[', ']'])), "{told}");
}

#[test]
fn a_spool_names_no_file_but_its_own() {
    let place = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let secret = elsewhere.path().join("secret.content");
    std::fs::write(&secret, "what others must not see").expect("written");
    let inside = place.path().join("spool");
    std::fs::create_dir(&inside).expect("made");
    let key = format!("../../{}/secret", elsewhere.path().file_name().expect("a name").to_string_lossy());
    let with_key = |key: &[u8]| {
        let length = key.len() as u64;
        let records = record(2, &[0], &[(b"/a.db", 5), (key, length), (b"image", 5)]);
        spool(&inside, &records, records.len() as u64);
        merged(&inside)
    };
    let error = with_key(key.as_bytes()).expect_err("a path");
    assert!(error.contains("the key of a database"), "{error}");
    std::os::unix::fs::symlink(&secret, inside.join("1-2-3.content")).expect("linked");
    assert!(with_key(b"1-2-3").is_err(), "a symbolic link");
    std::fs::remove_file(inside.join("1-2-3.content")).expect("removed");
    std::fs::write(inside.join("1-2-3.content"), "its own").expect("written");
    assert_eq!(with_key(b"1-2-3"), Ok(()));
}
