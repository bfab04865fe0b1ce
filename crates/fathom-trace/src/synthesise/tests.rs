//! Made-up traces: the same bytes for the same seed, what they promise, and what is told when they
//! cannot be made.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::Reader;
use crate::info::{Info, info};
use crate::model::{Action, Record, Start};
use crate::start::{Layout, Restore};

fn make(name: &str, seed: u64, scale_percent: u32) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("made.trace");
    let profile = profile(name).expect("known");
    synthesise(profile, seed, scale_percent, &path).unwrap_or_else(|error| panic!("{name}: {error}"));
    (directory, path)
}

fn info_of(name: &str) -> Info {
    info(&make(name, 1, 100).1).expect("readable")
}

#[test]
fn every_profile_is_right_and_says_what_it_rests_on() {
    for name in NAMES {
        let text = text_of(name).expect("embedded");
        let profile = Profile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(profile.name, name);
        assert!(!profile.sources.is_empty() && !profile.assumed.is_empty(), "{name}");
        assert!(
            profile.stands_for.contains("never published") || profile.stands_for.contains("nobody"),
            "{name}"
        );
    }
    assert_eq!(profiles().len(), NAMES.len());
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_other_bytes() {
    for name in NAMES {
        let bytes = |seed| std::fs::read(make(name, seed, 20).1).expect("readable");
        assert_eq!(bytes(7), bytes(7), "{name}");
        assert_ne!(bytes(7), bytes(8), "{name}");
    }
}

/// A profile, or the code that plays it, that gives another trace for the same seed must have
/// another version: traces name their databases' generator, and results name the profile. The
/// number is FNV-1a of all records.
#[test]
fn a_changed_trace_has_a_new_version() {
    let known = [
        ("androbench/1", 8_404_163_615_480_241_983),
        ("gmail/1", 13_918_685_426_311_223_917),
        ("kakaotalk/1", 6_097_595_340_211_319_601),
        ("facebook/1", 14_517_954_874_505_468_561),
        ("browser/1", 3_818_459_593_779_392_466),
        ("media-scan/1", 1_051_607_180_547_281_371),
    ];
    let found = profiles().iter().map(|profile| {
        let (_directory, path) = make(&profile.name, 42, 10);
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for record in Reader::open(&path).expect("opens") {
            for byte in format!("{:?}", record.expect("readable")).bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        (profile.identity(), hash)
    });
    let found: Vec<(String, u64)> = found.collect();
    let known: Vec<(String, u64)> = known.iter().map(|(name, hash)| ((*name).to_owned(), *hash)).collect();
    assert_eq!(found, known);
}

/// What the sources say of each profile, as the trace has it.
#[test]
fn traces_are_what_their_profiles_promise() {
    use crate::sql::Verb;
    let of = |info: &Info, verb| info.statements.get(&verb).map_or(0, |work| work.executions);
    let androbench = info_of("androbench");
    for verb in [Verb::Insert, Verb::Update, Verb::Delete] {
        assert_eq!(of(&androbench, verb), 300, "{verb:?}");
        assert_eq!(androbench.statements[&verb].changes, 300, "{verb:?}: each finds its row");
    }
    assert_eq!(androbench.transactions.count, 900);
    let facebook = info_of("facebook");
    let writes = of(&facebook, Verb::Insert) + of(&facebook, Verb::Update) + of(&facebook, Verb::Delete);
    let begins = of(&facebook, Verb::Begin) as f64;
    // The captured session: 995 of 2,420 INSERT, UPDATE, DELETE and SELECT are UPDATE or INSERT …;
    // 1,310 BEGIN to 1,929 writes.
    assert!((begins / writes as f64 - 1310.0 / 1929.0).abs() < 0.1, "{begins} of {writes}");
    assert!((facebook.read_share - 471.0 / 2400.0).abs() < 0.08, "{}", facebook.read_share);
    let media = info_of("media-scan");
    // (The histogram keeps three digits.)
    assert!((499..=501).contains(&media.transactions.writes.max()), "a batch of 500");
    let browser = info_of("browser");
    assert!(browser.transactions.writes.at(0.5) >= 8, "commits are batches");
    assert_eq!((browser.databases.len(), browser.threads, browser.connections), (3, 2, 3));
    for name in NAMES {
        let info = info_of(name);
        assert_eq!(
            (info.how.as_str(), info.errors.len(), info.foreign.len()),
            ("synthesise", 0, 0),
            "{name}"
        );
        assert!(info.databases.iter().all(|database| database.start == "generator"), "{name}");
        // Statements that do nothing would measure nothing.
        for (verb, statements) in &info.statements {
            let busy = statements.rows + statements.changes;
            let is_work = matches!(verb, Verb::Select | Verb::Insert | Verb::Update | Verb::Delete);
            assert!(!is_work || busy * 2 > statements.executions, "{name}: {verb:?} {statements:?}");
        }
        println!(
            "{name}: {} executions, {} writing transactions, {:.0} % reads, {:.0} s",
            info.executed,
            info.transactions.count,
            info.read_share * 100.0,
            info.duration_s
        );
    }
}

#[test]
fn databases_are_made_with_the_layout_of_the_cell() {
    let (directory, path) = make("kakaotalk", 3, 5);
    let mut restore = Restore::default();
    let mut files = Vec::new();
    for record in Reader::open(&path).expect("opens") {
        if let Record::Database(database) = record.expect("readable") {
            let file = directory.path().join(format!("{}.db", database.id));
            restore.database(&database, &file).expect("known");
            files.push(file);
        }
    }
    restore.finish(Layout { page_bytes: Some(8192) }).expect("made");
    let database = rusqlite::Connection::open(&files[0]).expect("opens");
    let ask = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
    assert_eq!(ask("PRAGMA page_size"), 8192);
    assert_eq!(ask("SELECT count(*) FROM chat_logs"), 1000);
    assert_eq!(ask("SELECT count(DISTINCT chat_id) > 2 FROM chat_logs"), 1);
}

#[test]
fn what_cannot_be_made_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("a.trace");
    let error = profile("gmial").expect_err("no such profile").to_string();
    assert!(error.contains("did you mean `gmail`?") && error.contains("media-scan"), "{error}");
    // What happened: "there is none of this name There are".
    let error = profile("nothing-like-it").expect_err("no such profile").to_string();
    assert!(error.contains("there is none of this name; there are: androbench"), "{error}");
    let gmail = profile("gmail").expect("known");
    for scale in [0, 10_001] {
        let error = synthesise(gmail, 1, scale, &out).expect_err("out of range").to_string();
        assert!(error.contains("1 to 10000 %"), "{error}");
    }
    assert!(synthesise(gmail, 1, 10, &directory.path().join("missing/a.trace")).is_err());
    assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0, "nothing is left");
    let start = |identity: &str, path: &[u8], scale| Generator::new(identity, 1, scale, path).map(|_| ());
    let path = gmail.databases[0].path.as_bytes();
    assert!(start("gmail/1", path, 100).is_ok());
    for (identity, path, scale, words) in [
        ("gmail/99", path, 100, "gmail/99 is not known to this program, which has androbench/1"),
        ("gmail/1", b"/other.db".as_slice(), 100, "is no database of the generator gmail/1"),
        ("gmail/1", path, 0, "scale 0 % is out of range"),
    ] {
        let error = start(identity, path, scale).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_wrong_profile_is_told_with_its_place() {
    let profile = |database: &str, thread: &str| {
        format!(
            "name='a'\nversion=1\ntitle=''\nstands_for=''\nsources=[]\nassumed=[]\n[[database]]\nname='d'\npath='d'\nschema='{database}'\n\
             [[thread]]\nname='t'\nthink_ms=0\npause_us=0\n[[thread.activity]]\n{thread}"
        )
    };
    for (thread, words) in [
        ("name='x'\non='other'\ncount=1\nstatements=[]", "\"x\" is on \"other\", which is no database"),
        ("name='x'\non='d'\nstatements=[]", "has a count or a share"),
        ("name='x'\non='d'\nshare=1\nstatements=[]", "shares without activities"),
        ("name='x'\non='d'\ncount=1\nlet={a='dice(6)'}\nstatements=[]", "there is no function dice"),
        ("name='x'\non='d'\ncount=1\nwhatever=1\nstatements=[]", "unknown field `whatever`"),
    ] {
        let error = Profile::parse(&profile("", thread)).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    for (thread, words) in [
        ("name='x'\non='d'\ncount=1\nstatements=['SELECT :b']", "profile a, \"x\": there is no value `b`"),
        ("name='x'\non='d'\ncount=1\nstatements=['SELECT * FROM u']", "no such table: u"),
        (
            "name='x'\non='d'\ncount=1\nstatements=['INSERT INTO t VALUES (NULL)']",
            "NOT NULL constraint failed: t.a",
        ),
    ] {
        let made = Profile::parse(&profile("CREATE TABLE t(a NOT NULL)", thread)).expect("readable");
        let directory = tempfile::tempdir().expect("a directory");
        let error =
            synthesise(&made, 1, 100, &directory.path().join("a.trace")).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Calls stand in the order of their returns, each connection is used by one thread, opened
    /// before and closed after all else, and no two calls on a database overlap.
    #[test]
    fn traces_of_every_seed_and_scale_are_in_order(which in 0..NAMES.len(), seed: u64, scale in 1_u32..12) {
        let (_directory, path) = make(NAMES[which], seed, scale);
        let mut returned = 0;
        let mut free: std::collections::HashMap<u32, u64> = Default::default();
        let mut database_of: Vec<u32> = Vec::new();
        let mut thread_of: Vec<u32> = Vec::new();
        let mut open = 0;
        for record in Reader::open(&path).expect("opens") {
            match record.expect("readable") {
                Record::Database(database) => {
                    let is_generator = matches!(&database.start, Start::Generator { seed: its, .. } if *its == seed);
                    prop_assert!(is_generator);
                }
                Record::Event(event) => {
                    let end = event.start_ns + event.duration_ns;
                    prop_assert!(end >= returned, "{event:?} returned before {returned}");
                    returned = end;
                    let place = event.connection as usize;
                    match &event.action {
                        Action::Open { database, .. } => {
                            prop_assert_eq!(place, database_of.len());
                            database_of.push(*database);
                            thread_of.push(event.thread);
                            open += 1;
                        }
                        Action::Close { .. } => open -= 1,
                        Action::Step(step) => {
                            prop_assert_eq!(step.outcome.code, crate::model::DONE);
                            let free = free.entry(database_of[place]).or_default();
                            prop_assert!(event.start_ns >= *free, "{event:?} overlaps another one on its database");
                            *free = end;
                        }
                        _ => {}
                    }
                    prop_assert_eq!(event.thread, thread_of[place]);
                }
                _ => {}
            }
        }
        prop_assert_eq!(open, 0);
    }
}
