//! What a trace tells of its application: what it sets itself, and what matters for the choice.

use std::collections::BTreeMap;
use std::path::Path;

use fathom_lab::advise::{AppUse, Candidate, DeviceAdvice};
use fathom_output::shown_path;
use fathom_trace::info::{DatabaseInfo, Info, info};

use super::hints::{nothing_written, of_locking, of_settings, of_singles, writing};
use super::settings::{TAKEN_OVER, care, set, take_over, value_of};
use crate::outcome::Error;

/// What advice on an encrypted database leaves out.
const ENCRYPTED: &str = "the application gives a key to its database (PRAGMA key), and what is replayed is SQLite without \
                         encryption: what it costs of the processor, for each page that is read or written, is in no number, so that \
                         other pages may be better or worse than told. SQLCipher's have their size by PRAGMA cipher_page_size, given \
                         by each connection, which no VACUUM changes. `fathom run journal-modes --trace TRACE --set engine=sqlcipher` \
                         measures journal modes with encryption";

/// What binds no files together.
const WITHOUT_MAIN: &str = "a connection has several files attached whose own database is in memory, and then no journal mode keeps \
                            a transaction over them together at a power cut: each file keeps its own part by itself with a rollback \
                            journal, too (https://sqlite.org/lang_attach.html)";

/// The application.
pub struct Application {
    info: Info,
    /// What it has now.
    pub baseline: Candidate,
    /// Where that is known from.
    pub baseline_source: String,
    /// What must be known.
    pub notes: Vec<String>,
    /// What is said before all: what is taken for granted, for nothing says it, and values that the
    /// trace lacks.
    pub warnings: Vec<String>,
}

impl Application {
    /// Of a trace that can be read to its end and writes something; what the user says that it has
    /// `now` counts before what the trace tells.
    ///
    /// # Errors
    /// One that cannot, or does not.
    pub fn of(trace: &Path, now: &[(String, String)]) -> Result<Application, Error> {
        let info = info(trace).map_err(Error::usage)?;
        let file = shown_path(trace).to_string();
        if let Some(reason) = &info.torn {
            return Err(Error::usage(format!("{file}: {reason}")));
        }
        if info.transactions.count == 0 || info.is_in_memory() {
            return Err(nothing_written(&file));
        }
        let own = OwnSettings { info: &info, now };
        let (baseline, source, mut notes) = own.baseline();
        let warnings = info.untold.clone().into_iter().chain(own.warning(&baseline)).collect();
        if info.lost > 0 {
            notes.push("the trace lacks calls that its capture lost".into());
        }
        if info.databases.iter().filter(|database| database.start != "memory").count() > 1 {
            notes.push(
                "the application has several databases, and the settings are for each of them. A transaction over several \
                 that are attached to one connection is atomic at a power cut with a rollback journal, and with WAL only \
                 within each file (https://sqlite.org/lang_attach.html)"
                    .into(),
            );
        }
        if info.files_without_main > 1 {
            notes.push(WITHOUT_MAIN.to_owned());
        }
        notes.extend(is_encrypted(&info).then(|| ENCRYPTED.to_owned()));
        Ok(Application { info, baseline, baseline_source: source, notes, warnings })
    }

    /// What decides which settings make sense.
    pub fn use_of(&self) -> AppUse {
        AppUse {
            has_one_connection: self.info.connections_at_once <= 1 && self.info.processes <= 1,
            reads_most: self.info.read_share > 0.5,
            over_files: self.over_files(),
        }
    }

    /// Whether a connection had several files at once.
    pub fn over_files(&self) -> bool {
        self.info.files_at_once > 1
    }

    /// Whether only one of its connections was open at any time, of which process ever: none of its
    /// threads meets another one then.
    pub fn takes_turns(&self) -> bool {
        self.info.connections_at_once <= 1
    }

    /// Seconds from one writing transaction to the next, as it made them; of what was captured
    /// alone, for other traces have times that are no user's.
    pub fn pace_s(&self, advised: &[DeviceAdvice]) -> Option<f64> {
        let is_known = self.info.how == "capture" && self.info.duration_s > 0.0;
        let count = writing(advised).unwrap_or(self.info.transactions.count);
        is_known.then(|| self.info.duration_s / count.max(1) as f64)
    }

    /// What it might do besides.
    pub fn hints(&self, advised: &[DeviceAdvice]) -> Vec<String> {
        let singles = of_singles(&self.info.transactions, writing(advised));
        let locking = of_locking(self.info.locking_several, writing(advised), &self.baseline, advised);
        let mut all: Vec<String> = singles.into_iter().chain(locking).collect();
        all.extend(of_settings(&self.baseline, advised));
        all
    }
}

/// Whether a connection gave a key: a capture tells it by itself, and of a log or script the
/// statement is left, without the key.
fn is_encrypted(info: &Info) -> bool {
    let gives_key = |setting: &String| setting.to_ascii_lowercase().starts_with("pragma key=");
    info.foreign.keys().any(|foreign| foreign.starts_with("encryption "))
        || info.settings.keys().any(gives_key)
}

/// Where what an application has now is known from: the user, then the trace's own PRAGMAs and
/// calls, then the file that it opens, and SQLite's default where none of them says anything.
struct OwnSettings<'a> {
    info: &'a Info,
    now: &'a [(String, String)],
}

impl OwnSettings<'_> {
    /// Values of each setting that the trace makes, with how often.
    fn of_trace(&self) -> BTreeMap<&'static str, BTreeMap<String, u64>> {
        let mut own: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
        for (text, count) in &self.info.settings {
            let lower = text.to_ascii_lowercase();
            let Some((name, value)) = lower.split_once('=') else { continue };
            let name = name.trim_start_matches("pragma ").trim_start_matches("sqlite3_").trim();
            let Some(key) = TAKEN_OVER.iter().find(|setting| **setting == name) else { continue };
            if let Some(value) = value_of(key, value) {
                *own.entry(key).or_default().entry(value).or_default() += count;
            }
        }
        own
    }

    /// What the application has, where that is known from, and what must be known of it.
    fn baseline(&self) -> (Candidate, String, Vec<String>) {
        let (mut baseline, mut notes, mut sources) = (Candidate::default(), Vec::new(), Vec::new());
        if let Some(size) = self.info.databases.iter().find_map(|database| database.page_bytes) {
            baseline.page_size = size;
        }
        if self.is_wal_file() {
            baseline.set("journal_mode", "wal");
            sources.push("its database is in WAL mode when it opens it".to_owned());
        }
        let mut own = self.of_trace();
        notes.extend(self.pages_in_vain(own.get("page_size")));
        if self.keeps_pages() {
            own.remove("page_size");
        }
        self.keep_auto_vacuum(&mut own, &mut baseline);
        for (key, values) in &own {
            let most = values.iter().max_by_key(|(value, count)| (**count, care(key, value)));
            let most = most.map(|value| value.0.clone());
            let Some(most) = most else { continue };
            if values.len() > 1 && !self.is_said(key) {
                let all: Vec<&str> = values.keys().map(String::as_str).collect();
                let often = values.values().copied().max();
                let is_alone = values.values().filter(|count| Some(**count) == often).count() == 1;
                let why = match is_alone {
                    true => "the most often".to_owned(),
                    false => format!("and no other more often; if that is wrong: --now {key}=VALUE"),
                };
                notes.push(format!(
                    "the application sets {key} to {}: it is taken to have {most}, {why}",
                    all.join(" and ")
                ));
            }
            set(&mut baseline, key, &most);
        }
        if self.info.unlike_files > 0 && !self.is_said("synchronous") {
            notes.push(format!(
                "of {} writing transactions the connection's files have not all the same synchronous: PRAGMA synchronous is of the \
                 connection's own file, or of the one that it names, and what is attached has FULL without a word. What is tried \
                 has one for all files, and so is the application taken to have {} in all: an attached file may be slower now, \
                 or faster, and keep more or less than is told of what it has now",
                self.info.unlike_files,
                baseline.synchronous.to_uppercase()
            ));
        }
        if !own.is_empty() {
            let keys = own.keys().copied().collect::<Vec<_>>().join(", ");
            sources.push(format!("as the trace sets {keys}"));
        }
        take_over(&mut baseline, self.now);
        if !self.now.is_empty() {
            let keys: Vec<&str> = self.now.iter().map(|pair| pair.0.as_str()).collect();
            sources.push(format!("as --now says of {}", keys.join(", ")));
        }
        let source = match sources.len() {
            0 => "SQLite's defaults: the trace sets nothing of these".to_owned(),
            _ => sources.join("; "),
        };
        (baseline, source, notes)
    }

    /// Takes `auto_vacuum` as the files have it that have content: what else the application says of
    /// it SQLite does not take, and a replay that asks for it is refused. Where they differ each
    /// keeps its own.
    fn keep_auto_vacuum(
        &self,
        own: &mut BTreeMap<&'static str, BTreeMap<String, u64>>,
        baseline: &mut Candidate,
    ) {
        let key = "auto_vacuum";
        let mut files = self.info.databases.iter().filter_map(|database| database.auto_vacuum.as_deref());
        let Some(first) = files.next() else { return };
        if files.any(|other| other != first) {
            own.remove(key);
            return;
        }
        set(baseline, key, first);
        // FULL and INCREMENTAL may be exchanged at any time.
        let is_taken = |value: &String| (value == "none") == (first == "none");
        if own.get(key).is_some_and(|values| !values.keys().all(is_taken)) {
            own.remove(key);
        }
    }

    /// Whether a `page_size` that the trace sets changes nothing: each of its databases has
    /// content, whose pages only a VACUUM changes, and there is none.
    fn keeps_pages(&self) -> bool {
        let mut files = self.info.databases.iter().filter(|database| database.start != "memory").peekable();
        let has_content =
            |database: &DatabaseInfo| database.start == "script" || database.page_bytes.is_some();
        self.info.vacuums == 0 && files.peek().is_some() && files.all(has_content)
    }

    /// What must be known of a `page_size` that comes too late.
    fn pages_in_vain(&self, set: Option<&BTreeMap<String, u64>>) -> Option<String> {
        let own = self.info.databases.iter().find_map(|database| database.page_bytes)?.to_string();
        let set = set.filter(|_| self.keeps_pages() && !self.is_said("page_size"))?;
        let others: Vec<&str> = set.keys().map(String::as_str).filter(|size| *size != own).collect();
        (!others.is_empty()).then(|| {
            format!(
                "the application sets page_size to {}, but its database has content and pages of {own} bytes: SQLite changes \
                 these at a VACUUM, of which the trace has none, so it is taken to have {own}",
                others.join(" and ")
            )
        })
    }

    /// What nothing says of an application that was not captured itself: a log or a script has what
    /// its author wrote down, and a framework's own PRAGMAs are seldom in it.
    fn warning(&self, baseline: &Candidate) -> Option<String> {
        let own = self.of_trace();
        let is_open = |key: &str| {
            let is_of_file = key == "journal_mode" && self.is_wal_file();
            !(own.contains_key(key) || self.is_said(key) || is_of_file)
        };
        let open: Vec<&str> =
            ["journal_mode", "synchronous"].into_iter().filter(|key| is_open(key)).collect();
        if self.info.how != "import" || open.is_empty() {
            return None;
        }
        Some(format!(
            "nothing in the recording says which {} the application has, so it is taken to have SQLite's default: {}. Where that is \
             wrong, so are what must be kept and the gain; say what it has: --now journal_mode=wal,synchronous=normal",
            open.join(" and "),
            baseline.name()
        ))
    }

    fn is_said(&self, key: &str) -> bool {
        self.now.iter().any(|pair| pair.0 == key)
    }

    fn is_wal_file(&self) -> bool {
        self.info.databases.iter().any(|database| database.journal_mode.as_deref() == Some("wal"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::now;
    use super::*;

    fn told(settings: &[(&str, u64)]) -> Info {
        let settings = settings.iter().map(|(text, count)| ((*text).to_owned(), *count)).collect();
        Info { how: "import".into(), settings, ..Info::default() }
    }

    fn of(settings: &[(&str, u64)]) -> (Candidate, String, Vec<String>) {
        OwnSettings { info: &told(settings), now: &[] }.baseline()
    }

    /// What happened: an application that says `PRAGMA cache.synchronous=OFF` of an attached file
    /// was taken to have OFF, and was told settings that lose commits of its own file, too.
    #[test]
    fn what_is_said_of_an_attached_file_is_not_the_application_s_own() {
        let (own, ..) = of(&[("PRAGMA cache.synchronous=OFF", 1), ("PRAGMA cache.journal_mode=OFF", 1)]);
        assert_eq!(own.key(), "delete/full/4096");
        let info = Info { unlike_files: 3, ..told(&[("PRAGMA synchronous=NORMAL", 1)]) };
        let notes = |now: &[(String, String)]| OwnSettings { info: &info, now }.baseline().2;
        let all = notes(&[]);
        assert!(all.len() == 1 && all[0].starts_with("of 3 writing transactions"), "{all:?}");
        assert!(all[0].contains("taken to have NORMAL in all"), "{all:?}");
        assert_eq!(notes(&said(&["synchronous=full"]).unwrap()), Vec::<String>::new(), "they know");
    }

    fn said(words: &[&str]) -> Result<Vec<(String, String)>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        now(&words).map_err(|error| format!("{error:?}"))
    }

    /// What happened: recordings without PRAGMAs, of applications that have WAL, were told their
    /// gain over DELETE/FULL.
    #[test]
    fn what_the_user_says_counts_before_the_trace_and_the_file_before_nothing() {
        let now = said(&["synchronous=1", "page_size=1024", "locking_mode=NORMAL"]).unwrap();
        let mut info = told(&[("PRAGMA synchronous=FULL", 1), ("PRAGMA locking_mode=EXCLUSIVE", 1)]);
        let (own, source, _) = OwnSettings { info: &info, now: &now }.baseline();
        assert_eq!(own.key(), "delete/normal/1024");
        assert!(source.contains("--now says of synchronous, page_size"), "{source}");
        let warning = OwnSettings { info: &info, now: &now }.warning(&own).unwrap();
        assert!(warning.contains("which journal_mode the"), "{warning}");
        info.databases.push(DatabaseInfo {
            path: "a.db".into(),
            start: "script".into(),
            bytes: None,
            page_bytes: Some(8192),
            journal_mode: Some("wal".into()),
            auto_vacuum: None,
            note: None,
        });
        let of_file = OwnSettings { info: &info, now: &[] };
        let (own, source, _) = of_file.baseline();
        assert_eq!(own.key(), "wal/full/8192/locking_mode=exclusive");
        assert!(source.contains("in WAL mode"), "{source}");
        assert_eq!(of_file.warning(&own), None, "both are said");
        let (own, ..) =
            OwnSettings { info: &info, now: &said(&["journal_mode=persist"]).unwrap() }.baseline();
        assert_eq!(own.journal_mode, "persist");
        // A capture has every PRAGMA that the application gives.
        info = Info { how: "capture".into(), ..Info::default() };
        assert_eq!(OwnSettings { info: &info, now: &[] }.warning(&Candidate::default()), None);
    }

    /// What happened: an application with SQLCipher was told which pages are the fastest, and not
    /// that what encrypts them was in no number.
    #[test]
    fn what_encryption_costs_is_said_to_be_left_out() {
        assert!(is_encrypted(&told(&[("PRAGMA key='(left out)'", 1)])));
        let mut captured = told(&[("PRAGMA journal_mode=WAL", 1)]);
        assert!(!is_encrypted(&captured));
        captured.foreign.insert("encryption PRAGMA key".into(), 2);
        assert!(is_encrypted(&captured));
    }

    /// What happened: an application that says `page_size = 4096` each time that it opens a
    /// database of before, which has pages of 1 KiB, was told what is faster than 4 KiB, and
    /// nothing of a VACUUM.
    #[test]
    fn a_page_size_is_of_a_database_without_content_or_of_a_vacuum() {
        let mut info = told(&[("PRAGMA page_size=4096", 3)]);
        info.databases.push(DatabaseInfo {
            path: "a.db".into(),
            start: "image".into(),
            bytes: Some(20_480),
            page_bytes: Some(1024),
            journal_mode: None,
            auto_vacuum: None,
            note: None,
        });
        let of = |info: &Info| OwnSettings { info, now: &[] }.baseline();
        let (own, source, notes) = of(&info);
        assert_eq!(own.key(), "delete/full/1024");
        assert!(notes[0].contains("taken to have 1024") && source.contains("SQLite's defaults"), "{notes:?}");
        info.vacuums = 1;
        assert_eq!((of(&info).0.page_size, of(&info).2.len()), (4096, 0));
        info.vacuums = 0;
        info.databases[0].page_bytes = Some(4096);
        assert_eq!((of(&info).0.page_size, of(&info).2.len()), (4096, 0));
        (info.databases[0].start, info.databases[0].page_bytes) = ("empty".into(), None);
        info.settings = told(&[("PRAGMA page_size=1024", 1)]).settings;
        assert_eq!(of(&info).0.page_size, 1024);
    }

    /// What happened: an application that says `auto_vacuum = FULL` each time that it opens a
    /// database of before, which has none, could not be advised: every recording was refused. And
    /// what a file has without a word of the application's was not among what a new one needs.
    #[test]
    fn auto_vacuum_is_what_the_file_has() {
        let of = |says: &[(&str, u64)], files: &[&str]| {
            let mut info = told(says);
            info.databases.extend(files.iter().map(|auto_vacuum| DatabaseInfo {
                path: "a.db".into(),
                start: "image".into(),
                bytes: Some(20_480),
                page_bytes: Some(4096),
                journal_mode: None,
                auto_vacuum: Some((*auto_vacuum).to_owned()),
                note: None,
            }));
            let (own, ..) = OwnSettings { info: &info, now: &[] }.baseline();
            own.more.get("auto_vacuum").cloned().unwrap_or_default()
        };
        let (full, incremental) = (&[("PRAGMA auto_vacuum=FULL", 3_u64)], &[("PRAGMA auto_vacuum=2", 1_u64)]);
        assert_eq!(of(full, &["none"]), "");
        assert_eq!(of(full, &[]), "full", "a new database");
        assert_eq!(of(&[], &["incremental"]), "incremental");
        assert_eq!(of(incremental, &["full", "full"]), "incremental");
        assert_eq!(of(&[("PRAGMA auto_vacuum=0", 1)], &["full"]), "full");
        assert_eq!(of(full, &["full", "none"]), "", "each keeps its own");
    }

    #[test]
    fn what_an_application_sets_itself_is_what_it_has() {
        let (own, source, notes) = of(&[
            ("PRAGMA journal_mode=WAL", 2),
            ("PRAGMA synchronous=1", 2),
            ("PRAGMA page_size=1024", 1),
            ("sqlite3_wal_autocheckpoint=100", 1),
            ("PRAGMA user_version=7", 1),
            ("PRAGMA cache_size='-8000'", 1),
        ]);
        assert_eq!(own.key(), "wal/normal/1024/cache_size=-8000/wal_autocheckpoint=100");
        assert!(source.contains("journal_mode") && !source.contains("user_version"), "{source}");
        assert!(notes.is_empty());
    }

    #[test]
    fn who_sets_nothing_has_the_defaults_and_what_sqlite_ignores_is_nothing() {
        for settings in [
            &[][..],
            &[("PRAGMA journal_mode=wla", 3), ("PRAGMA page_size=1000", 1), ("PRAGMA synchronous=9", 1)],
            &[("PRAGMA locking_mode=NORMAL", 1), ("PRAGMA mmap_size=x", 1), ("PRAGMA foreign_keys=1", 1)],
        ] {
            let (own, ..) = of(settings);
            assert_eq!(own, Candidate::default(), "{settings:?}");
        }
        assert!(of(&[]).1.contains("SQLite's defaults"));
    }

    #[test]
    fn of_two_values_the_more_frequent_is_taken_and_said() {
        let (own, _, notes) = of(&[("PRAGMA journal_mode=WAL", 5), ("PRAGMA journal_mode=delete", 1)]);
        assert_eq!(own.journal_mode, "wal");
        assert!(notes[0].ends_with("delete and wal: it is taken to have wal, the most often"), "{notes:?}");
        // "The most often" was said of two that are set as often as each other.
        let (own, _, notes) = of(&[("PRAGMA journal_mode=WAL", 1), ("PRAGMA journal_mode=delete", 1)]);
        assert!(own.journal_mode == "wal" && notes[0].ends_with("--now journal_mode=VALUE"), "{notes:?}");
        // OFF was taken of one that fills its database so, and goes on with NORMAL.
        let (own, ..) = of(&[("PRAGMA synchronous=OFF", 1), ("PRAGMA synchronous=NORMAL", 1)]);
        assert_eq!(own.synchronous, "normal");
        // EXCLUSIVE was taken of one that has it once, and sets it back each time.
        let (own, ..) = of(&[("PRAGMA locking_mode=EXCLUSIVE", 1), ("PRAGMA locking_mode=NORMAL", 5)]);
        assert_eq!(own, Candidate::default());
        // An autocheckpoint is WAL's alone.
        let (own, ..) = of(&[("sqlite3_wal_autocheckpoint=100", 1)]);
        assert_eq!(own, Candidate::default());
    }

    /// What happened: of a log without values a setting was named, and not a word said of them.
    #[test]
    fn values_that_a_trace_lacks_are_said_before_all() {
        let place = tempfile::tempdir().unwrap();
        let (path, out) = (place.path().join("app.sql"), place.path().join("app.trace"));
        let script = "CREATE TABLE t(a);\nINSERT INTO t VALUES (?);\nUPDATE t SET a = 1 WHERE a = ?;\n";
        std::fs::write(&path, script).unwrap();
        let request = fathom_trace::import::Request {
            path,
            out: out.clone(),
            ..fathom_trace::import::Request::default()
        };
        fathom_trace::import::import(&request).unwrap();
        let Ok(application) = Application::of(&out, &[]) else { panic!("it writes something") };
        let warning = &application.warnings[0];
        assert!(warning.contains("of 2 executions") && warning.contains("1 that should change"), "{warning}");
    }
}
