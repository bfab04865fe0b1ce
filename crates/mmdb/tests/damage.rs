//! Any bytes may stand in the files. Opening then gives a state that the log explains, without its
//! torn tail, or an error that names the file and the offset: no panic, no memory out of
//! proportion, no invention.
//!
//! `MMDB_DAMAGE_CASES` sets how many mutations are tried of each sort (2,000 by default).
#![allow(clippy::unwrap_used)]

use mmdb::medium::{Medium, MemoryMedium};
use mmdb::{ColumnType, Database, Error, LogKind, OfflineDatabase, Options, Schema, Value};
use proptest::prelude::*;
use proptest::sample::Index;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Notes the largest piece of memory that was asked for, and refuses what no file here can justify.
struct Watch;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator; null is what an allocator without
// memory returns.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // 4 GiB; a processor of 32 bits has no more to ask for.
        if layout.size() as u64 > 1 << 32 {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static WATCH: Watch = Watch;

type Files = BTreeMap<PathBuf, Vec<u8>>;
type Rows = Vec<String>;

fn options(medium: &MemoryMedium, after: bool) -> Options {
    Options {
        medium: Arc::new(medium.clone()),
        streams: 2,
        segment_bytes: 16384,
        container_bytes: 4096,
        recovery_threads: 1,
        background: false,
        log_kind: if after { LogKind::AfterImage } else { LogKind::Differential },
        ..Options::in_memory()
    }
}

fn rows(db: &Database) -> Rows {
    let mut tx = db.begin().unwrap();
    let mut all = Rows::new();
    for t in db.tables() {
        all.extend(tx.scan(&t).unwrap().map(|r| format!("{} {}", t.name(), r.unwrap().to_json())));
    }
    all.sort();
    all
}

/// The files of a database in the middle of its life (images of a checkpoint, segments of two
/// streams), and its rows after every commit.
fn sample(after: bool) -> &'static (Files, Vec<Rows>) {
    static SAMPLES: [OnceLock<(Files, Vec<Rows>)>; 2] = [const { OnceLock::new() }; 2];
    SAMPLES[usize::from(after)].get_or_init(|| {
        let m = MemoryMedium::new();
        let db = Database::open("/db", options(&m, after)).unwrap();
        for name in ["a", "b"] {
            let s =
                Schema::new(name).column("id", ColumnType::Int32).nullable("v", ColumnType::VarBytes(900));
            db.create_table(s.primary_key(&["id"]).ordered_index("by_v", &["v"])).unwrap();
        }
        let mut states = vec![rows(&db)];
        for i in 0..40i64 {
            if i == 15 || i == 25 {
                db.checkpoint().unwrap();
            }
            let pad = vec![i as u8; (i * 37 % 700) as usize];
            db.run(|tx| {
                for t in &db.tables() {
                    tx.upsert(t, &[(i % 11).into(), Value::Bytes(&pad)])?;
                    tx.delete(t, &[((i + 5) % 11).into()])?;
                }
                Ok::<_, Error>(())
            })
            .unwrap();
            states.push(rows(&db));
        }
        drop(db);
        let mut files = Files::new();
        for dir in ["/db", "/db/log-0", "/db/log-1"].map(Path::new) {
            for name in m.list(dir).unwrap() {
                let path = dir.join(name);
                let file = m.open(&path).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_at(0, &mut bytes).unwrap();
                files.insert(path, bytes);
            }
        }
        (files, states)
    })
}

/// What happens to a file. Places and lengths are taken modulo what is there.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Write(Index, Vec<u8>),
    Zero(Index, Index),
    Cut(Index),
    Grow(Vec<u8>),
    Move(Index, Index, u16),
    Other(Index),
    Anything(Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = |n| proptest::collection::vec(any::<u8>(), 0..n);
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(a, b)| Damage::Flip(a, b)),
        4 => (any::<Index>(), bytes(40)).prop_map(|(a, b)| Damage::Write(a, b)),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Damage::Zero(a, b)),
        2 => any::<Index>().prop_map(Damage::Cut),
        1 => bytes(5000).prop_map(Damage::Grow),
        2 => (any::<Index>(), any::<Index>(), any::<u16>()).prop_map(|(a, b, c)| Damage::Move(a, b, c)),
        1 => any::<Index>().prop_map(Damage::Other),
        1 => bytes(9000).prop_map(Damage::Anything),
    ]
}

fn apply(files: &mut Files, which: Index, what: &Damage) -> PathBuf {
    let path = which.get(&files.keys().cloned().collect::<Vec<_>>()).clone();
    let other = match what {
        Damage::Other(i) => i.get(&files.values().cloned().collect::<Vec<_>>()).clone(),
        _ => Vec::new(),
    };
    let b = files.get_mut(&path).unwrap();
    // Most of a segment is empty: damage near the front is damage to something.
    let used = b.iter().rposition(|&x| x != 0).map_or(0, |n| n + 1);
    let at = |i: &Index| i.index(used.max(1)).min(b.len().saturating_sub(1));
    match what {
        _ if b.is_empty() => {}
        Damage::Flip(i, bit) => {
            let n = at(i);
            b[n] ^= 1 << (bit % 8);
        }
        Damage::Write(i, new) => {
            let n = at(i);
            b[n..].iter_mut().zip(new).for_each(|(a, x)| *a = *x);
        }
        Damage::Zero(i, j) => {
            let (m, n) = (at(i), at(j));
            b[m.min(n)..m.max(n)].fill(0);
        }
        Damage::Cut(i) => {
            let n = at(i);
            b.truncate(n);
        }
        Damage::Grow(more) => b.extend(more),
        Damage::Move(i, j, len) => {
            let (m, n) = (at(i), at(j));
            let len = usize::from(*len % 3000).min(b.len() - m.max(n));
            b.copy_within(m..m + len, n);
        }
        Damage::Other(_) => *b = other,
        Damage::Anything(bytes) => b.clone_from(bytes),
    }
    path
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    b.get(at..at + 8).map_or(0, |s| u64::from_le_bytes(s.try_into().unwrap()))
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    b.get(at..at + 4).map_or(0, |s| u32::from_le_bytes(s.try_into().unwrap()))
}

/// Makes every checksum in a file right again, by the layouts in `docs/design.md` and nothing else,
/// so that the damage gets as far as whoever believes checksums.
fn reseal(path: &Path, bytes: &mut [u8], manifest: &[u8]) {
    let name = path.file_name().unwrap().to_str().unwrap();
    if ["MANIFEST", "STREAM"].contains(&name) && bytes.len() > 4 {
        let n = bytes.len() - 4;
        let crc = crc32c::crc32c(&bytes[..n]);
        bytes[n..].copy_from_slice(&crc.to_le_bytes());
    }
    let Some(number) = name.strip_prefix("segment-") else { return };
    let stream = path.parent().unwrap().to_str().unwrap().ends_with('1');
    // The manifest's only life: number u32 at 59, salt u64 at 63.
    let mut seed = manifest[63..71].to_vec();
    seed.extend_from_slice(&u32::from(stream).to_le_bytes());
    seed.extend_from_slice(&number.parse::<u64>().unwrap().to_le_bytes());
    let seed = crc32c::crc32c(&seed);
    for at in (4096..bytes.len().saturating_sub(32)).step_by(8) {
        if &bytes[at..at + 4] != b"MMFR" {
            continue;
        }
        let len = (u32_at(bytes, at + 4) as usize).min(bytes.len() - at - 32);
        let body = crc32c::crc32c(&bytes[at + 32..at + 32 + len]);
        bytes[at + 24..at + 28].copy_from_slice(&body.to_le_bytes());
        let head = crc32c::crc32c_append(seed ^ (at as u32).rotate_left(7), &bytes[at..at + 28]);
        bytes[at + 28..at + 32].copy_from_slice(&head.to_le_bytes());
    }
}

/// Opens damaged files and judges the answer. Returns the bytes of the largest piece of memory that
/// opening and reading asked for; [`LARGEST`] is another test's as soon as this one returns.
fn judge(files: &Files, after: bool, sealed: bool) -> Result<usize, TestCaseError> {
    let m = MemoryMedium::new();
    for (path, bytes) in files {
        m.create(path).unwrap().write_at(0, bytes).unwrap();
    }
    // One at a time, or one test would see what another asks for.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    LARGEST.store(0, Ordering::Relaxed);
    let opened = Database::open("/db", options(&m, after));
    let largest = LARGEST.load(Ordering::Relaxed);
    // What a believed number may cost at most: the table of 2^22 containers.
    prop_assert!(largest < if sealed { 16 << 20 } else { 1 << 30 }, "{largest} bytes at once");
    match opened {
        Ok(db) => {
            let states = &sample(after).1;
            let cut = db.recovery().cut as usize;
            if sealed {
                prop_assert!(cut >= 25, "commits behind the checkpoint at most are a torn tail");
                prop_assert_eq!(Some(&rows(&db)), states.get(cut), "at cut {}", cut);
            }
            db.verify().map_err(|e| TestCaseError::fail(e.to_string()))?;
            rows(&db);
        }
        // What a manifest that lies names need not exist.
        Err(Error::Corrupt { file, offset: 0, what }) if !sealed && what.contains("is missing:") => {
            prop_assert!(!files.contains_key(&file), "{} is there", file.display());
        }
        Err(Error::Corrupt { file, offset, .. }) => {
            let len = files.get(&file).map(|b| b.len() as u64);
            prop_assert!(len.is_some_and(|n| offset <= n), "{} at {offset}", file.display());
        }
        // Frames that are whole each and contradict each other have no place, only a table.
        Err(Error::CorruptTable { table, what }) => {
            prop_assert!(!sealed && (table == "a" || table == "b"), "{table}: {what}");
        }
        // A manifest that lies about what the database is to its standbys.
        Err(Error::Directory { dir, reason }) if !sealed && dir == Path::new("/db") => {
            let says_so = reason.starts_with("it is a standby") || reason.contains("was deposed");
            prop_assert!(says_so, "{reason}");
        }
        // A mark that is whole but of another stream, or a manifest of other things, says so.
        Err(Error::Directory { dir, reason }) => {
            let stands = ["/db/log-0", "/db/log-1"].map(Path::new).contains(&dir.as_path());
            prop_assert!(stands && (!sealed || reason.contains("stream")), "{}: {reason}", dir.display());
        }
        Err(e) => prop_assert!(!sealed, "{e}"),
    }
    // Reading without opening, as the tool does, must not panic either.
    let _ = OfflineDatabase::load("/db", &options(&m, after)).map(|s| s.check());
    let _ = mmdb::read_log("/db", &options(&m, after), |_| {});
    let _ = mmdb::salvage("/db", "/saved", &options(&m, after));
    Ok(LARGEST.load(Ordering::Relaxed))
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("MMDB_DAMAGE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(2000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn damage_is_a_torn_tail_or_is_refused_with_file_and_offset(
        after: bool, what in proptest::collection::vec((any::<Index>(), damage()), 1..4),
    ) {
        let mut files = sample(after).0.clone();
        for (which, damage) in &what {
            apply(&mut files, *which, damage);
        }
        judge(&files, after, true)?;
    }

    /// As if a program wrote them that believes itself: the checksums are right, the content is
    /// not.
    #[test]
    fn damage_under_right_checksums_does_no_harm(
        after: bool, what in proptest::collection::vec((any::<Index>(), damage()), 1..4),
    ) {
        let mut files = sample(after).0.clone();
        let manifest = files[Path::new("/db/MANIFEST")].clone();
        for (which, damage) in &what {
            let path = apply(&mut files, *which, damage);
            reseal(&path, files.get_mut(&path).unwrap(), &manifest);
        }
        judge(&files, after, false)?;
    }
}

#[test]
fn resealing_what_is_whole_changes_nothing() {
    let files = &sample(false).0;
    let manifest = &files[Path::new("/db/MANIFEST")];
    let mut frames = 0;
    for (path, bytes) in files {
        let mut again = bytes.clone();
        reseal(path, &mut again, manifest);
        assert_eq!(&again, bytes, "{}", path.display());
        frames += bytes.windows(4).filter(|w| w == b"MMFR").count();
    }
    assert!(frames >= 15 && u64_at(manifest, 63) != 0, "{frames} frames");
    judge(files, false, true).unwrap();
}

/// Every byte of the manifest changed in some ways, under right checksums: what is believed of it
/// must be checked where it is used.
#[test]
fn a_manifest_that_lies_is_refused_or_does_no_harm() {
    for after in [false, true] {
        let (whole, _) = sample(after);
        let path = Path::new("/db/MANIFEST");
        for at in 0..whole[path].len() {
            for flip in [1, 2, 3, 4, 8, 64, 91] {
                let mut files = whole.clone();
                let bytes = files.get_mut(path).unwrap();
                bytes[at] ^= flip;
                reseal(path, bytes, &whole[path]);
                let judged = judge(&files, after, false);
                assert!(judged.is_ok(), "byte {at} changed by {flip}, after-images {after}: {judged:?}");
            }
        }
    }
}

/// The numbers that memory is sized by, under right checksums.
#[test]
fn numbers_out_of_range_cost_no_memory() {
    let (whole, _) = sample(false);
    let manifest = &whole[Path::new("/db/MANIFEST")];
    let mut files: Vec<(PathBuf, usize, Vec<u8>)> = Vec::new();
    // Streams u32 at 32; behind the only life: next table u32 at 79.
    for at in [32, 79] {
        for n in [u32::MAX, 1 << 30, 1 << 24] {
            files.push(("/db/MANIFEST".into(), at, n.to_le_bytes().to_vec()));
        }
    }
    // A frame's number and horizon.
    for (path, bytes) in whole {
        if let Some(frame) = bytes.windows(4).position(|w| w == b"MMFR") {
            for n in [u64::MAX, 1 << 60, 1 << 40] {
                files.push((path.clone(), frame + 8, n.to_le_bytes().to_vec()));
                files.push((path.clone(), frame + 16, n.to_le_bytes().to_vec()));
            }
        }
    }
    assert!(files.len() >= 18, "{}", files.len());
    for (path, at, number) in files {
        let mut files = whole.clone();
        let bytes = files.get_mut(&path).unwrap();
        bytes[at..at + number.len()].copy_from_slice(&number);
        reseal(&path, bytes, manifest);
        let judged = judge(&files, false, false);
        let small = judged.as_ref().is_ok_and(|&largest| largest < 64 << 20);
        assert!(small, "{number:?} at {at} of {}: {judged:?}", path.display());
    }
}

#[test]
fn a_change_that_is_missing_from_a_slot_is_noticed() {
    let mut files = sample(false).0.clone();
    let manifest = files[Path::new("/db/MANIFEST")].clone();
    let last = |b: &Vec<u8>| b.windows(4).rposition(|w| w == b"MMFR");
    let (path, at) = files
        .iter()
        .filter_map(|(p, b)| Some((p.clone(), last(b)?)))
        .max_by_key(|(p, at)| u64_at(&files[p], at + 8))
        .unwrap();
    // Kind, class, table, container, slot, then the version after the change: one more, as if a
    // change before were lost.
    let bytes = files.get_mut(&path).unwrap();
    bytes[at + 32 + 5] += 1;
    reseal(&path, bytes, &manifest);
    let m = MemoryMedium::new();
    for (path, bytes) in &files {
        m.create(path).unwrap().write_at(0, bytes).unwrap();
    }
    let e = Database::open("/db", options(&m, false)).unwrap_err().to_string();
    assert!(e.contains("changes lead from version"), "{e}");
}
