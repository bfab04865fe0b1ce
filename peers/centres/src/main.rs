//! SMS centres under one client and workload, in one interleaved run: `smsc serve` and Kannel.
//!
//! An application submits over HTTP, which is what both take from applications: Debian's Kannel is
//! an SMPP client towards centres and has no SMPP server (opensmppbox is not in Debian). The centre
//! beyond is away, so that what is measured is accepting and keeping: each message has a station of
//! its own and stays. Afterwards the centre is killed and started again, and what it then has is
//! compared with what it acknowledged.

mod centre;
mod client;
mod disk;
mod kannel;
mod smsc;
mod table;

use centre::Centre;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
SMS centres under one client and workload, in one interleaved run: smsc serve and Kannel

Usage: centres [--smsc FILE] [--dir DIR] [--seconds N] [--blocks N] [--clients N,N] [--only WORDS]

  --smsc FILE      The program [default: target/release/smsc]
  --dir DIR        Where the centres keep messages: the disk that is measured [default: /var/tmp]
  --seconds N      Of each measurement [default: 10]
  --blocks N       How often every centre is measured with every number of clients [default: 5]
  --clients N,N    Clients at a time [default: 1,16,64]
  --only WORDS     Centres with these words in their name, such as Kannel [default: all]
";

/// A mistake, in words.
type Failure = Box<dyn Error>;

/// What was asked for.
struct Options {
    smsc: PathBuf,
    dir: PathBuf,
    seconds: u64,
    blocks: usize,
    clients: Vec<usize>,
    only: String,
}

impl Options {
    fn read() -> Result<Options, Failure> {
        let mut options = Options {
            smsc: PathBuf::from("target/release/smsc"),
            dir: PathBuf::from("/var/tmp"),
            seconds: 10,
            blocks: 5,
            clients: vec![1, 16, 64],
            only: String::new(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "--help" | "-h") {
                print!("{HELP}");
                std::process::exit(0);
            }
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            match word.as_str() {
                "--smsc" => options.smsc = value()?.into(),
                "--dir" => options.dir = value()?.into(),
                "--seconds" => options.seconds = value()?.parse()?,
                "--blocks" => options.blocks = value()?.parse()?,
                "--only" => options.only = value()?,
                "--clients" => {
                    options.clients = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("{word} is no option; --help tells them").into()),
            }
        }
        options.smsc = std::fs::canonicalize(&options.smsc)
            .map_err(|error| format!("--smsc {}: {error}", options.smsc.display()))?;
        Ok(options)
    }
}

/// One measurement.
struct Cell {
    centre: &'static str,
    clients: usize,
    figures: client::Figures,
    /// Flushes of the disk for each message.
    flushes: f64,
    /// Messages that the centre has after a kill, of those that it acknowledged.
    kept: u64,
}

fn measure(centre: &Centre, clients: usize, options: &Options) -> Result<Cell, Failure> {
    let dir = options.dir.join(format!("centres-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let cell = (|| {
        let mut running = centre.start(&dir, options)?;
        let before = disk::flushes(&dir)?;
        let figures = client::run(running.request(), clients, Duration::from_secs(options.seconds))?;
        let flushed = disk::flushes(&dir)? - before;
        running.kill();
        let kept = running.kept(&dir)?;
        let flushes = flushed as f64 / figures.accepted.max(1) as f64;
        Ok(Cell { centre: centre.name, clients, figures, flushes, kept })
    })();
    std::fs::remove_dir_all(&dir)?;
    cell
}

/// An order of its own for each block: a generator of Lehmer's.
fn shuffle<T>(cells: &mut [T], seed: u64) {
    let mut state = seed * 2 + 1;
    for at in (1..cells.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cells.swap(at, (state >> 33) as usize % (at + 1));
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::read()?;
    let centres: Vec<Centre> =
        Centre::all().into_iter().filter(|centre| centre.name.contains(&options.only)).collect();
    let mut cells = Vec::new();
    for block in 0..options.blocks {
        let mut order: Vec<(&Centre, usize)> = centres
            .iter()
            .flat_map(|centre| options.clients.iter().map(move |&clients| (centre, clients)))
            .collect();
        shuffle(&mut order, block as u64 + 1);
        for (centre, clients) in order {
            let cell = measure(centre, clients, &options)
                .map_err(|error| format!("{} with {clients} clients: {error}", centre.name))?;
            eprintln!("{}", table::line(&cell));
            cells.push(cell);
        }
    }
    print!("{}", table::table(&centres, &options.clients, &cells));
    Ok(())
}
