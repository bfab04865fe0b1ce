//! Spools: what captured processes leave, as `docs/spool.md` of fathom-trace says it.

use std::path::Path;

use fathom_fuzz::{Fuzz, Random, Scratch, mutate};
use fathom_trace::model::{Origin, Record};
use fathom_trace::spool::merge;
use fathom_trace::{Reader, Writer};

/// A record: tag, thread, connection, times, words, texts.
#[derive(Clone)]
struct Raw {
    tag: u8,
    thread: u32,
    connection: u32,
    start: u64,
    end: u64,
    words: Vec<u64>,
    texts: Vec<Vec<u8>>,
}

/// A process's file, before it is bytes.
#[derive(Clone)]
struct Spool {
    /// None: as many bytes as there are.
    finished: Option<u64>,
    pid: u32,
    flags: u32,
    start: u64,
    parent: (u32, u64),
    inherited: u32,
    records: Vec<Raw>,
}

impl Spool {
    fn bytes(&self) -> Vec<u8> {
        let mut page = vec![0_u8; 4096];
        let mut at = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        at(0, b"FSPOOL1\n");
        at(16, &self.pid.to_le_bytes());
        at(20, &self.flags.to_le_bytes());
        at(24, &self.start.to_le_bytes());
        at(32, &1_700_000_000_000_000_000_u64.to_le_bytes());
        at(40, &self.parent.1.to_le_bytes());
        at(48, &self.parent.0.to_le_bytes());
        at(52, &self.inherited.to_le_bytes());
        at(56, b"3.45.1");
        at(120, b"app\0--run");
        let mut body = Vec::new();
        for raw in &self.records {
            body.extend([raw.tag, raw.words.len() as u8, raw.texts.len() as u8, 0]);
            body.extend(raw.thread.to_le_bytes());
            body.extend(raw.connection.to_le_bytes());
            body.extend([0; 4]);
            body.extend(raw.start.to_le_bytes());
            body.extend(raw.end.to_le_bytes());
            raw.words.iter().for_each(|word| body.extend(word.to_le_bytes()));
            for text in &raw.texts {
                body.extend((text.len() as u64).to_le_bytes());
                body.extend(text);
                body.resize(body.len().next_multiple_of(8), 0);
            }
        }
        let finished = self.finished.unwrap_or(body.len() as u64);
        page[8..16].copy_from_slice(&finished.to_le_bytes());
        page.extend(body);
        page
    }
}

/// What a process and its child do: every tag, several kinds of values, an execution that is not
/// finished.
fn good() -> Vec<Spool> {
    let mut clock = 1000_u64;
    let mut raw = |tag: u8, words: &[u64], texts: &[&str]| {
        clock += 10;
        let texts = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        Raw { tag, thread: 7, connection: 0, start: clock, end: clock + 5, words: words.to_vec(), texts }
    };
    let first = vec![
        raw(2, &[0], &["/home/u/a.db", "8-33-12", "image"]),
        raw(2, &[1], &["b.db", "8-34-12", "empty"]),
        raw(2, &[2], &["c.db", "8-35-12", "encrypted"]),
        raw(3, &[0, 6, 0], &["unix", ""]),
        raw(12, &[0, 0, 1000], &[]),
        raw(1, &[0], &["INSERT INTO t(a, b) VALUES(?, :b)"]),
        raw(1, &[1], &["SELECT * FROM t WHERE a = ?1"]),
        raw(1, &[2], &["PRAGMA key = 'secret'"]),
        raw(4, &[0, 0, 0], &[""]),
        raw(5, &[1 << 32, 1, 42], &[]),
        raw(5, &[2 << 32, 3, 8], &["Liv Berg"]),
        raw(5, &[2 << 32, 4, 3], &["abc"]),
        raw(5, &[1 << 32, 2, 4_612_811_918_334_230_528], &[]),
        raw(5, &[1 << 32, 5, 0], &[]),
        raw(5, &[1 << 32, 6, 100], &[]),
        raw(7, &[0], &[]),
        raw(8, &[0, 1, 0, 1, 101, 4], &[""]),
        raw(9, &[0], &[]),
        raw(6, &[0], &[]),
        raw(4, &[1, 1, 0], &[""]),
        raw(16, &[1], &["SELECT * FROM t WHERE a = 17"]),
        raw(10, &[0], &[]),
        raw(13, &[0, 5], &["main", "database is locked"]),
        raw(14, &[1], &["other"]),
        raw(15, &[3], &["icu"]),
        raw(4, &[2, 2, 0], &[""]),
        raw(7, &[1], &[]),
    ];
    let second = vec![
        raw(1, &[0], &["DELETE FROM t"]),
        raw(4, &[9, 0, 0], &[""]),
        raw(8, &[9, 3, 0, 5, 5, 4], &["database is locked"]),
        raw(11, &[0], &[""]),
    ];
    let spool = |pid, start, parent, inherited, records| Spool {
        finished: None,
        pid,
        flags: 1,
        start,
        parent,
        inherited,
        records,
    };
    vec![spool(41, 900, (0, 0), 0, first), spool(42, 1100, (41, 900), 1, second)]
}

fn word(random: &mut Random) -> u64 {
    if random.below(3) == 0 { random.below(4) } else { mutate::number(random) }
}

/// Changes something in one of the records or headers, which stay records and headers.
fn twist(random: &mut Random, spools: &mut Vec<Spool>) {
    let which = random.below(spools.len() as u64) as usize;
    if random.below(8) == 0 {
        let spool = &mut spools[which];
        match random.below(7) {
            0 => spool.finished = Some(mutate::number(random)),
            1 => spool.start = mutate::number(random),
            2 => spool.parent = (41 + random.below(3) as u32, *random.pick(&[900, 1100, 0])),
            3 => spool.inherited = mutate::number(random) as u32,
            4 => spool.flags = random.below(5) as u32,
            5 => spool.pid = 41 + random.below(3) as u32,
            _ => {
                let copy = spool.clone();
                spools.push(copy);
            }
        }
        return;
    }
    let records = &mut spools[which].records;
    if records.is_empty() {
        return;
    }
    let at = random.below(records.len() as u64) as usize;
    let other = random.below(records.len() as u64) as usize;
    match random.below(12) {
        0 => drop(records.remove(at)),
        1 => records.insert(at, records[other].clone()),
        2 => records.swap(at, other),
        3 => records[at].tag = random.below(19) as u8,
        4 => records[at].thread = random.bits() as u32,
        5 => records[at].connection = word(random) as u32,
        6 => records[at].start = mutate::number(random),
        7 => records[at].end = mutate::number(random),
        8 => records[at].words.truncate(random.below(3) as usize),
        9 | 10 => {
            let value = word(random);
            let count = records[at].words.len() as u64;
            if count > 0 {
                records[at].words[random.below(count) as usize] = value;
            }
        }
        _ => {
            const TEXTS: &[&str] = &[
                "../outside",
                "/etc/passwd",
                "image",
                "empty",
                "memory",
                "",
                "8-33-12",
                "../../../../../etc/passwd",
                "x\0y",
                "?1 ?2 ?3",
                "'open",
                "PRAGMA key=1",
            ];
            let count = records[at].texts.len() as u64;
            if count > 0 {
                let text = random.pick(TEXTS).as_bytes().to_vec();
                records[at].texts[random.below(count) as usize] = text;
            }
        }
    }
}

/// What stands beside the spool's directory, which no spool may reach.
const SECRET: &[u8] = b"not of this capture";

fn merged(directory: &Path, out: &Path) -> Result<(), String> {
    let text = |error: fathom_trace::TraceError| error.to_string();
    let mut writer = Writer::create(out).map_err(text)?;
    // Refused is fine.
    if merge(directory, Origin::default(), &mut writer).is_err() {
        return Ok(());
    }
    let totals = writer.finish().map_err(text)?;
    let mut events = 0;
    for record in Reader::open(out).map_err(text)? {
        match record.map_err(|error| format!("what was merged cannot be read: {error}"))? {
            Record::Event(_) => events += 1,
            Record::Content(content)
                if content.bytes.windows(SECRET.len()).any(|window| window == SECRET) =>
            {
                return Err("a file outside of the spool's directory is in the trace".into());
            }
            _ => {}
        }
    }
    if events == totals.events { Ok(()) } else { Err(format!("{events} events of {}", totals.events)) }
}

#[test]
fn spools_are_merged_or_refused() {
    let target = Fuzz::new("spools::spools_are_merged_or_refused", 5_000).memory(12 << 20, 64);
    let seeds = good();
    let files: Vec<Vec<u8>> = seeds.iter().map(Spool::bytes).collect();
    let scratch = Scratch::new().expect("a scratch directory");
    let directory = scratch.path();
    std::fs::write(scratch.outside().join("outside.content"), SECRET).expect("a file outside");
    std::fs::write(directory.join("8-33-12.content"), crate::traces::image()).expect("a content");
    let out = directory.join("out.trace");
    let names: Vec<_> = (0..8).map(|number| directory.join(format!("{number}.spool"))).collect();
    let mut before = 0;
    let put = |spools: &[Vec<u8>], before: usize| -> std::io::Result<()> {
        for (name, bytes) in names.iter().zip(spools) {
            std::fs::write(name, bytes)?;
        }
        names.iter().take(before).skip(spools.len()).try_for_each(std::fs::remove_file)
    };
    put(&files, 0).expect("the good spools");
    merged(directory, &out).expect("the good spools");
    let spools = Reader::open(&out).expect("what was merged").count();
    assert!(spools > 30, "the good spools give {spools} records only");
    before += files.len();
    target.run(
        |random| {
            let mut spools = seeds.clone();
            let times = 1 + random.below(4);
            let mut made: Vec<Vec<u8>> = if random.below(4) == 0 {
                files.clone()
            } else {
                (0..times).for_each(|_| twist(random, &mut spools));
                spools.iter().map(Spool::bytes).collect()
            };
            if random.below(3) == 0 {
                let which = random.below(made.len() as u64) as usize;
                mutate::bytes(random, &mut made[which], times, &files);
            }
            made.truncate(names.len());
            let length = made.iter().map(Vec::len).sum();
            (made, length)
        },
        |made| {
            put(made, before).map_err(|error| error.to_string())?;
            before = made.len();
            merged(directory, &out)
        },
    );
}
