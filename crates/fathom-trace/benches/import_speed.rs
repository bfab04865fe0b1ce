//! Statements a second of `fathom trace import`: `cargo bench -p fathom-trace --bench import_speed
//! [-- STATEMENTS]`.
//!
//! Two streams of statements of a key-value store, one a line without semicolon, no text twice:
//! each is compiled and executed on the private database. The time is that of the whole import, its
//! loading script included. Beside each import stands a floor: SQLite alone compiles and executes
//! the same lines, one file after the other, on a database in memory; it writes no trace and finds
//! no ends of statements. Printed: the best and the median of five of each, by wall time and by CPU
//! time, which a machine that is busy with something else lengthens less.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use fathom_random::Random;
use fathom_trace::import::{Request, import};

fn main() {
    let statements: u64 =
        std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(200_000);
    let place = tempfile::tempdir().expect("a directory");
    let app = place.path().join("app");
    std::fs::create_dir_all(app.join("benchset")).expect("made");
    let mut random = Random::new(1);
    let mut loading = "CREATE TABLE t(k INTEGER PRIMARY KEY, state INTEGER, body TEXT);\nBEGIN;\n".to_owned();
    for key in 0..1000 {
        let _ = writeln!(loading, "INSERT INTO t VALUES({key},0,'body {key}');");
    }
    loading.push_str("COMMIT;\n");
    std::fs::write(app.join("loading.sql"), loading).expect("written");
    for stream in 0..2 {
        let mut lines = String::new();
        let mut written = 0;
        while written < statements / 2 {
            let (key, number) = (random.below(1000), random.below(1 << 40));
            written += 1;
            let _ = match random.below(10) {
                0 => {
                    written += 3;
                    writeln!(
                        lines,
                        "BEGIN EXCLUSIVE;\nUPDATE t SET state={number} WHERE k={key}\nUPDATE t SET body='{number}' WHERE k='{key}'\nCOMMIT;"
                    )
                }
                1 | 2 => writeln!(lines, "INSERT OR REPLACE INTO t VALUES('{key}',{number},'body {number}')"),
                _ => writeln!(lines, "SELECT state, body FROM t WHERE k='{key}' AND state<>{number}"),
            };
        }
        std::fs::write(app.join(format!("benchset/{stream}.sql")), lines).expect("written");
    }
    let (mut imports, mut floors) = (Rates::default(), Rates::default());
    for _ in 0..5 {
        imports.add(|| {
            let request =
                Request { path: app.clone(), out: place.path().join("a.trace"), ..Request::default() };
            import(&request).expect("imported").statements
        });
        floors.add(|| floor(&app));
    }
    println!("{statements} statements");
    println!("import: {}", imports.words());
    println!("floor:  {}", floors.words());
}

/// Statements a second, by wall time and by CPU time.
#[derive(Default)]
struct Rates {
    by_wall: Vec<f64>,
    by_cpu: Vec<f64>,
}

impl Rates {
    /// Times work that gives how many statements it did.
    fn add(&mut self, work: impl FnOnce() -> u64) {
        let (begin, cpu) = (Instant::now(), cpu_s());
        let statements = work() as f64;
        self.by_wall.push(statements / begin.elapsed().as_secs_f64());
        self.by_cpu.push(statements / (cpu_s() - cpu));
    }

    fn words(&mut self) -> String {
        for rates in [&mut self.by_wall, &mut self.by_cpu] {
            rates.sort_by(f64::total_cmp);
        }
        let (last, middle) = (self.by_wall.len() - 1, self.by_wall.len() / 2);
        format!(
            "{:.0} a second, median {:.0}; {:.0} a second of CPU, median {:.0}",
            self.by_wall[last], self.by_wall[middle], self.by_cpu[last], self.by_cpu[middle]
        )
    }
}

/// What SQLite alone takes for the same lines; gives how many they are.
fn floor(app: &Path) -> u64 {
    let database = rusqlite::Connection::open_in_memory().expect("opened");
    database.execute_batch(&std::fs::read_to_string(app.join("loading.sql")).expect("read")).expect("loaded");
    let mut statements = 0;
    for stream in 0..2 {
        let lines = std::fs::read_to_string(app.join(format!("benchset/{stream}.sql"))).expect("read");
        for line in lines.lines() {
            let mut statement = database.prepare(line).expect("compiled");
            let mut rows = statement.raw_query();
            while rows.next().expect("done").is_some() {}
            statements += 1;
        }
    }
    statements
}

/// CPU time of this process, s.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is that of a `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
