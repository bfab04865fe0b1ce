//! mmdb's directories: manifest, images, segments. With damage as a disk makes it, the state that
//! opens is one that was committed, and no commit is missing whose frame, and every frame before
//! it, is whole; with damage under right checksums, nothing is harmed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathom_fuzz::{Fuzz, Random, mutate};
use mmdb::medium::{Medium, MemoryMedium};
use mmdb::{ColumnType, Database, Error, LogKind, OfflineDatabase, Options, Schema, Value};

type Files = BTreeMap<PathBuf, Vec<u8>>;
type Rows = Vec<String>;

/// A database in the middle of its life, or closed, and its rows after every commit.
struct Seed {
    after: bool,
    /// Closed stores name their last commit in the manifest: all of it is there, or the store is
    /// refused.
    closed: bool,
    files: Files,
    states: Vec<Rows>,
    /// Where the frames are: file, place, length, number.
    frames: Vec<Frame>,
    /// The salt of each segment that has frames.
    salts: BTreeMap<PathBuf, [u8; 8]>,
    /// The commit that the checkpoint stands for.
    checkpoint: usize,
}

struct Frame {
    path: PathBuf,
    at: usize,
    length: usize,
    number: u64,
}

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

fn rows(db: &Database) -> Result<Rows, String> {
    let text = |error: Error| error.to_string();
    let mut tx = db.begin().map_err(text)?;
    let mut all = Rows::new();
    for table in db.tables() {
        for row in tx.scan(&table).map_err(text)? {
            all.push(format!("{} {}", table.name(), row.map_err(text)?.to_json()));
        }
    }
    all.sort();
    Ok(all)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Stream and number of a segment; none for other files.
fn segment(path: &Path) -> Option<(u32, u64)> {
    let number = path.file_name()?.to_str()?.strip_prefix("segment-")?.parse().ok()?;
    let stream = path.parent()?.file_name()?.to_str()?.strip_prefix("log-")?.parse().ok()?;
    Some((stream, number))
}

/// The checksum of a frame's header at `at`.
fn frame_checksum(bytes: &[u8], at: usize, salt: &[u8], stream: u32, number: u64) -> u32 {
    let mut seed = salt.to_vec();
    seed.extend_from_slice(&stream.to_le_bytes());
    seed.extend_from_slice(&number.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&seed) ^ (at as u32).rotate_left(7), &bytes[at..at + 28])
}

/// Places where a frame may begin.
fn marks(bytes: &[u8]) -> impl Iterator<Item = usize> {
    (4096..bytes.len().saturating_sub(31)).step_by(8).filter(|at| &bytes[*at..*at + 4] == b"MMFR")
}

impl Seed {
    fn new(after: bool, closed: bool) -> Seed {
        let medium = MemoryMedium::new();
        let db = Database::open("/db", options(&medium, after)).expect("a new database");
        for name in ["a", "b"] {
            let schema =
                Schema::new(name).column("id", ColumnType::Int32).nullable("v", ColumnType::VarBytes(900));
            db.create_table(schema.primary_key(&["id"]).ordered_index("by_v", &["v"])).expect("a table");
        }
        let mut states = vec![rows(&db).expect("no rows")];
        let checkpoint = 15;
        for number in 0..24_i64 {
            if number == 8 || number == checkpoint {
                db.checkpoint().expect("a checkpoint");
            }
            let pad = vec![number as u8; (number * 37 % 300) as usize];
            db.run(|tx| {
                for table in &db.tables() {
                    tx.upsert(table, &[(number % 7).into(), Value::Bytes(&pad)])?;
                    tx.delete(table, &[((number + 3) % 7).into()])?;
                }
                Ok::<_, mmdb::Error>(())
            })
            .expect("a commit");
            states.push(rows(&db).expect("rows"));
        }
        if closed {
            db.close().expect("closed")
        } else {
            drop(db)
        }
        let mut files = Files::new();
        for directory in ["/db", "/db/log-0", "/db/log-1"].map(Path::new) {
            for name in medium.list(directory).expect("the files") {
                let path = directory.join(name);
                let Ok(file) = medium.open(&path) else { continue };
                let mut bytes = vec![0; file.len().expect("a length") as usize];
                file.read_at(0, &mut bytes).expect("a file");
                files.insert(path, bytes);
            }
        }
        // Where the salt stands in the manifest is the manifest's business: it is the eight bytes
        // that make a frame's checksum right.
        let manifest = files[Path::new("/db/MANIFEST")].clone();
        let (mut frames, mut salts) = (Vec::new(), BTreeMap::new());
        for (path, bytes) in &files {
            let Some((stream, number)) = segment(path) else { continue };
            for at in marks(bytes) {
                let right =
                    |salt: &[u8]| frame_checksum(bytes, at, salt, stream, number) == u32_at(bytes, at + 28);
                let salt = manifest.windows(8).find(|salt| right(salt));
                let Some(salt) = salt else { continue };
                let mut own = [0; 8];
                own.copy_from_slice(salt);
                salts.insert(path.clone(), own);
                let length = 32 + u32_at(bytes, at + 4) as usize;
                frames.push(Frame { path: path.clone(), at, length, number: u64_at(bytes, at + 8) });
            }
        }
        assert!(frames.len() >= 9, "{} frames are found", frames.len());
        Seed { after, closed, files, states, frames, salts, checkpoint: checkpoint as usize }
    }

    /// The last commit that must be there: in a closed store the last of all; else the one before
    /// the first whose frame, or whose segment's header, is not as it was.
    fn least(&self, files: &Files) -> usize {
        if self.closed {
            return self.states.len() - 1;
        }
        let is_whole = |frame: &Frame| {
            let now = files.get(&frame.path).map_or(&[][..], Vec::as_slice);
            let same = |from: usize, to: usize| {
                now.get(from..to).is_some_and(|part| *part == self.files[&frame.path][from..to])
            };
            same(0, 4096) && same(frame.at, frame.at + frame.length)
        };
        let damaged = self.frames.iter().filter(|frame| !is_whole(frame)).map(|frame| frame.number);
        let least = damaged.min().map_or(self.states.len() - 1, |number| number.saturating_sub(1) as usize);
        least.max(self.checkpoint)
    }

    /// Makes every checksum in a file right again.
    fn reseal(&self, path: &Path, bytes: &mut [u8]) {
        match segment(path) {
            None => {
                // Files that end in a checksum of all before it.
                let Some(good) = self.files.get(path) else { return };
                let ends =
                    |bytes: &[u8]| bytes.len().checked_sub(4).map(|n| (n, crc32c::crc32c(&bytes[..n])));
                if ends(good).is_some_and(|(n, checksum)| checksum == u32_at(good, n))
                    && let Some((n, checksum)) = ends(bytes)
                {
                    bytes[n..].copy_from_slice(&checksum.to_le_bytes());
                }
            }
            Some((stream, number)) => {
                if bytes.len() >= 28
                    && self
                        .files
                        .get(path)
                        .is_some_and(|good| crc32c::crc32c(&good[..24]) == u32_at(good, 24))
                {
                    let own = crc32c::crc32c(&bytes[..24]);
                    bytes[24..28].copy_from_slice(&own.to_le_bytes());
                }
                let Some(salt) = self.salts.get(path) else { return };
                let places: Vec<usize> = marks(bytes).collect();
                for at in places {
                    let length = (u32_at(bytes, at + 4) as usize).min(bytes.len() - at - 32);
                    let body = crc32c::crc32c(&bytes[at + 32..at + 32 + length]);
                    bytes[at + 24..at + 28].copy_from_slice(&body.to_le_bytes());
                    let head = frame_checksum(bytes, at, salt, stream, number);
                    bytes[at + 28..at + 32].copy_from_slice(&head.to_le_bytes());
                }
            }
        }
    }

    /// Damages one file, most often where there is something.
    fn damage(&self, random: &mut Random, files: &mut Files) -> PathBuf {
        let paths: Vec<PathBuf> = files.keys().cloned().collect();
        let path = random.pick(&paths).clone();
        let bytes = files.get_mut(&path).expect("one of the files");
        match random.below(24) {
            0 => drop(files.remove(&path)),
            1 => {
                let other = self.files[random.pick(&paths)].clone();
                files.insert(path.clone(), other);
            }
            2 => {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                bytes.truncate(at);
            }
            3 => bytes.resize(bytes.len() + random.below(5000) as usize, random.bits() as u8),
            _ => {
                // Most of a segment is empty, and most of what is not is in its frames.
                let begins: Vec<usize> =
                    self.frames.iter().filter(|frame| frame.path == path).map(|frame| frame.at).collect();
                let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                let from = if begins.is_empty() || random.below(5) == 0 { 0 } else { *random.pick(&begins) };
                let to = (from + 1 + random.below(200) as usize).min(used.max(1)).min(bytes.len());
                let from = from.min(to);
                let mut piece = bytes[from..to].to_vec();
                mutate::bytes(random, &mut piece, 1, &[]);
                if random.below(4) > 0 {
                    // In place, as a disk damages; else what follows moves.
                    piece.resize(to - from, 0);
                }
                bytes.splice(from..to, piece);
            }
        }
        path
    }
}

/// A database that is wrong somewhere.
struct Store<'a> {
    seed: &'a Seed,
    files: Files,
    /// Whether its checksums were made right again.
    sealed: bool,
}

fn judge(store: &Store<'_>) -> Result<(), String> {
    let Store { seed, files, sealed } = store;
    let text = |error: std::io::Error| error.to_string();
    let medium = MemoryMedium::new();
    for (path, bytes) in files {
        medium.create(path).map_err(text)?.write_at(0, bytes).map_err(text)?;
    }
    // The tool reads without opening; it must not change anything, and opening comes to the same.
    let seen = OfflineDatabase::load("/db", &options(&medium, seed.after))
        .map(|database| (database.report().cut, database.check().is_ok()));
    let _ = mmdb::read_log("/db", &options(&medium, seed.after), |_| {});
    for (path, bytes) in files {
        let file =
            medium.open(path).map_err(|error| format!("reading has removed {}: {error}", path.display()))?;
        let mut now = vec![0; file.len().map_err(text)? as usize];
        file.read_at(0, &mut now).map_err(text)?;
        if now != *bytes {
            return Err(format!("reading has changed {}", path.display()));
        }
    }
    match Database::open("/db", options(&medium, seed.after)) {
        Ok(db) => {
            let cut = db.recovery().cut;
            db.verify().map_err(|error| format!("opened, and does not pass its own check: {error}"))?;
            let found = rows(&db)?;
            if let Ok((before, false)) = seen {
                return Err(format!("opens at {cut}, and the check of what was read at {before} fails"));
            }
            if !sealed {
                let least = seed.least(files);
                if (cut as usize) < least {
                    return Err(format!("opened at commit {cut}, and every frame up to {least} is whole"));
                }
                if seed.states.get(cut as usize) != Some(&found) {
                    return Err(format!("opened at commit {cut} with rows that were never committed"));
                }
            }
            // It is a database again: what is committed now is there after the next opening. (A
            // manifest that lies under a right checksum may say that a table is not logged.)
            if !sealed {
                let table = db.table("a").map_err(|error| error.to_string())?;
                db.run(|tx| tx.upsert(&table, &[1000.into(), Value::Null]))
                    .map_err(|error| format!("opened, and cannot commit: {error}"))?;
                let committed = rows(&db)?;
                drop((table, db));
                let db = Database::open("/db", options(&medium, seed.after))
                    .map_err(|error| format!("opened, committed, and cannot be opened again: {error}"))?;
                if rows(&db)? != committed {
                    return Err(format!(
                        "opened at commit {cut}, committed, and has other rows after the next opening"
                    ));
                }
            }
            Ok(())
        }
        Err(error) => {
            if error.to_string().is_empty() {
                return Err("an error without words".into());
            }
            // What can be saved is saved, or the error says why not.
            let _ = mmdb::salvage("/db", "/saved", &options(&medium, seed.after));
            Ok(())
        }
    }
}

#[test]
fn stores_open_as_they_were_committed_or_are_refused() {
    let target =
        Fuzz::new("stores::stores_open_as_they_were_committed_or_are_refused", 3_000).memory(32 << 20, 64);
    let seeds: Vec<Seed> = [(false, false), (true, false), (false, true), (true, true)]
        .map(|(after, closed)| Seed::new(after, closed))
        .into();
    for seed in &seeds {
        let whole = Store { seed, files: seed.files.clone(), sealed: false };
        assert_eq!(judge(&whole), Ok(()));
        assert_eq!(seed.least(&seed.files), seed.states.len() - 1);
        let mut again = seed.files.clone();
        again.iter_mut().for_each(|(path, bytes)| seed.reseal(path, bytes));
        assert!(again == seed.files, "resealing what is whole changes it");
    }
    // One number that lies costs no places of those before it: a container may be the last of 2^22
    // that a table can have. A commit's may be far ahead of all others: 8 MiB of bits.
    target.run(
        |random| {
            let seed = random.pick(&seeds);
            let mut files = seed.files.clone();
            let sealed = random.below(2) == 0;
            for _ in 0..1 + random.below(3) {
                let path = seed.damage(random, &mut files);
                if sealed && let Some(bytes) = files.get_mut(&path) {
                    seed.reseal(&path, bytes);
                }
                if files.is_empty() {
                    break;
                }
            }
            let length = files.values().map(Vec::len).sum();
            (Store { seed, files, sealed }, length)
        },
        judge,
    );
}
