//! Traces × devices × promises: the setting that `fathom advise` names, against the best of a full
//! grid of settings, each measured live on the device, in model time, which no load disturbs.
//!
//! It takes hours, so it is asked for: `FATHOM_LONG=1 cargo test --workspace --test advise_grid`
//! (root). `FATHOM_TRACES` (profiles and files), `FATHOM_PRESETS` and `FATHOM_SCALE` (percent of a
//! profile, 10) choose less; `FATHOM_GRIDS=DIR` keeps what was measured there, and goes on with it
//! the next time.
//!
//! In parts: the grids of a trace on its devices are numbered from 0, trace by trace (6 traces x 12
//! presets are 0 to 71), and `FATHOM_CELLS=12-23` does those alone. Each prints a line for each of
//! its three promises, and in `FATHOM_GRIDS` they are kept in `results.txt`, so that parts add up:
//! a part judges itself only.
//!
//! What is counted. A cell is a trace, a device and a promise, and every cell counts:
//!
//! - *Right*: what is named takes at most 1.05 times as long as the best. Where the single runs of
//!   the grid say so, that is enough: the fastest of a hundred single runs is the luckiest of those
//!   that are as fast, so they speak against what is named. Where they do not, both are measured
//!   once more, in paired blocks, until each is known to within 2 %, and where that does not decide
//!   1 % and 0.5 % (5 to 40 blocks), and the whole 95 % interval of the paired ratio must lie at
//!   1.05 or below. With 2 % alone, which is 2.8 % of a ratio, nothing between 1.022 and 1.078 was
//!   decided; to look up to three times costs a little of the 95 %.
//! - *Wrong*: the whole interval lies above 1.05.
//! - *Not decided*: the interval holds 1.05. What is named is not proven to be more than 5 %
//!   slower, nor proven to be near enough.
//!
//! Nobody knows which of the cells that are not decided are right. So the share of right cells is
//! only known to lie between two: none of those is right (right / all), and all of them are (right
//! and not decided / all). Both are printed, and the test asks for 95 % by the lower one: to leave
//! such cells out of the count would be to guess that they are right as often as the others, and
//! they are those where it is hardest. A quieter machine decides them: there the pairs of a grid
//! that is gone on with (`FATHOM_GRIDS`) are gone on with, too, as far as 40 are not made.
//!
//! Two limits. A cell that single runs decide has no interval; how many these are is printed. And
//! "the best" is the one that was fastest in the grid: of several that are as fast another one may
//! be better by some of the noise of one run, and is not measured again.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

mod place;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use fathom_lab::analysis::{Analysis, OfRun};
use fathom_lab::stats::{Comparison, paired_ratio};
use fathom_lab::store::{Results, RunStatus};
use place::{Place, can_serve};
use serde_json::Value;

/// Journal modes with what they promise at a power cut, from the weakest.
const MODES: [(&str, &str, u8); 6] = [
    ("wal", "normal", 0),
    ("delete", "full", 1),
    ("delete", "extra", 2),
    ("truncate", "full", 2),
    ("persist", "full", 2),
    ("wal", "full", 2),
];

/// Words of `--must`, from the weakest.
const MUSTS: [&str; 3] = ["keep=prefix", "keep=all-but-last", "keep=all"];

/// All settings of the grid, as advice names them.
fn grid() -> Vec<String> {
    let mut all = Vec::new();
    for (journal, synchronous, _) in MODES {
        for page in ["512", "1024", "2048", "4096", "8192", "16384"] {
            let plain = format!("{journal}/{synchronous}/{page}");
            if journal == "wal" {
                all.extend(["100", "300", "4000"].map(|log| format!("{plain}/wal_autocheckpoint={log}")));
            }
            all.push(format!("{plain}/locking_mode=exclusive"));
            all.push(plain);
        }
    }
    all
}

fn promise(settings: &str) -> u8 {
    // Its journal stays then, and what ends it is synced.
    if settings.starts_with("delete/full/") && settings.contains("locking_mode=exclusive") {
        return 2;
    }
    let of = |(journal, synchronous, promise): &(&str, &str, u8)| {
        settings.starts_with(&format!("{journal}/{synchronous}/")).then_some(*promise)
    };
    MODES.iter().find_map(of).unwrap_or_else(|| panic!("{settings}: none of the grid's modes"))
}

/// Advice that is so near to the best stands.
const ENOUGH: f64 = 1.05;

/// How near the two of a pair are to be known, as long as that does not decide.
const UNTIL: [&str; 3] = ["2%", "1%", "0.5%"];

/// What became of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// What is named is within 5 % of the best.
    Hit,
    /// It is further behind.
    Miss,
    /// Which of the two, the runs do not tell.
    Undecided,
}

/// By the interval of how many times as long what is named takes as the best.
fn verdict(behind: &Comparison) -> Verdict {
    match () {
        () if behind.high <= ENOUGH => Verdict::Hit,
        () if behind.low > ENOUGH => Verdict::Miss,
        () => Verdict::Undecided,
    }
}

/// The grids of a part, `12-23` or `12`; all where nothing is said.
fn part(words: &str) -> Result<std::ops::RangeInclusive<usize>, String> {
    if words.is_empty() {
        return Ok(0..=usize::MAX);
    }
    let (first, last) = words.split_once('-').unwrap_or((words, words));
    let number = |word: &str| word.trim().parse().map_err(|error| format!("FATHOM_CELLS={words}: {error}"));
    Ok(number(first)?..=number(last)?)
}

/// What all cells come to. See the head of the file.
#[derive(Debug, PartialEq)]
struct Tally {
    hits: usize,
    misses: usize,
    undecided: usize,
}

impl Tally {
    fn of(verdicts: impl Iterator<Item = Verdict>) -> Tally {
        let mut tally = Tally { hits: 0, misses: 0, undecided: 0 };
        for verdict in verdicts {
            *match verdict {
                Verdict::Hit => &mut tally.hits,
                Verdict::Miss => &mut tally.misses,
                Verdict::Undecided => &mut tally.undecided,
            } += 1;
        }
        tally
    }

    fn all(&self) -> usize {
        self.hits + self.misses + self.undecided
    }

    /// The smallest and the largest share of right cells that there can be, percent.
    fn shares(&self) -> [f64; 2] {
        let share = |cells: usize| cells as f64 * 100.0 / self.all().max(1) as f64;
        [share(self.hits), share(self.hits + self.undecided)]
    }

    /// What that says of 19 right ones in 20.
    fn says(&self) -> &'static str {
        match self.shares() {
            [least, _] if least >= 95.0 => "shown",
            [_, most] if most < 95.0 => "refuted",
            _ => "neither shown nor refuted: more pairs decide more cells",
        }
    }
}

/// An experiment of these settings on the device.
fn experiment(settings: &[String], device: &str, repeats: u32) -> String {
    let mut text = format!(
        "name = \"grid\"\ntitle = \"grid\"\nrepeats = {repeats}\n[workload]\nname = \"trace\"\n[engine]\nname = \"sqlite\"\n\
         [stack]\nsize_mib = 512\n[matrix]\n\"stack.filesystem\" = [\"ext4\"]\n\"stack.device\" = [{device:?}]\n"
    );
    for setting in settings {
        let words: Vec<&str> = setting.split('/').collect();
        write!(
            text,
            "[[matrix.variants]]\nname = {setting:?}\n\"engine.journal_mode\" = {:?}\n\"engine.synchronous\" = {:?}\n\
             \"engine.page_size\" = {}\n",
            words[0], words[1], words[2]
        )
        .unwrap();
        for (key, value) in words[3..].iter().filter_map(|word| word.split_once('=')) {
            let value =
                value.parse::<i64>().map_or_else(|_| format!("{value:?}"), |number| number.to_string());
            writeln!(text, "\"engine.{key}\" = {value}").unwrap();
        }
    }
    text
}

/// What a file has of each setting: none if there is no such file, and whether every run failed if
/// it was tried. A setting with which the application fails does so on every device: it holds its
/// own database locked. Its busy handler has ten seconds for that in each run, two thirds of the
/// time of a whole grid.
fn tried(out: &Path) -> Vec<(String, Option<bool>)> {
    if !out.exists() {
        return Vec::new();
    }
    let results = Results::load(out).unwrap();
    let of_cell = |cell: &fathom_lab::store::CellRow| {
        let runs: Vec<_> = results.runs.iter().filter(|run| run.cell == cell.id).collect();
        let fails = runs.iter().all(|run| run.status == RunStatus::Failed);
        Some((setting_of(&cell.label)?, (!runs.is_empty()).then_some(fails)))
    };
    results.cells.iter().filter_map(of_cell).collect()
}

/// The setting in the label of a cell.
fn setting_of(label: &str) -> Option<String> {
    label.split(' ').find(|word| word.matches('/').count() > 1).map(str::to_owned)
}

/// What is measured live, by setting: block and model time of one transaction of each run, ns. A
/// setting with which the application fails is left out.
fn live(
    (place, kept, trace): (&Place, &Path, &str),
    name: &str,
    source: &str,
    more: &[&str],
) -> Vec<(String, Vec<(u32, f64)>)> {
    let out = kept.join(format!("{name}.db"));
    let out = out.to_str().unwrap();
    place.write(&format!("{name}.toml"), source);
    let file = format!("./{name}.toml");
    let words = ["run", &file, "--trace", trace, "--out", out, "--dir", ".", "--quiet"];
    let resume = ["--resume"];
    let resume = if Path::new(out).exists() { &resume[..] } else { &[] };
    let known = tried(Path::new(out));
    // What failed is not tried again; pairs are gone on with until they are as many as is asked.
    if known.is_empty() || !more.is_empty() || known.iter().any(|(_, fails)| fails.is_none()) {
        place.fathom(&[&words[..], more, resume].concat());
    }
    let results = Results::load(Path::new(out)).unwrap();
    let analysis = Analysis::of(&results).unwrap();
    let of_cell = |cell: &fathom_lab::store::CellRow| {
        let label = setting_of(&cell.label)?;
        let of_run = |run: &OfRun| Some((run.block, run.model?.model_ns));
        let runs: Vec<_> = analysis.get(cell.id, "replay", None)?.runs.iter().filter_map(of_run).collect();
        (!runs.is_empty()).then_some((label, runs))
    };
    results.cells.iter().filter_map(of_cell).collect()
}

#[test]
fn what_is_named_is_what_a_full_live_grid_finds() {
    let place = Place::new();
    if std::env::var_os("FATHOM_LONG").is_none() || !can_serve(&place) {
        println!("SKIP: takes hours (FATHOM_LONG=1), root, mkfs.ext4 and /dev/fuse");
        return;
    }
    let wanted = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
    let traces = wanted("FATHOM_TRACES", "androbench,gmail,facebook,kakaotalk,browser,media-scan");
    let presets = wanted(
        "FATHOM_PRESETS",
        "emmc-51,nvme,nvme-protected,sd-sandisk-8,sd-sandisk-micro-16,sd-sandisk-extreme,sd-samsung-32,sd-slow,\
         flash-p1,disk-p5,ufs-fresh,ufs-fragmented",
    );
    let scale = wanted("FATHOM_SCALE", "10");
    let kept: std::path::PathBuf =
        std::env::var_os("FATHOM_GRIDS").map_or_else(|| place.path("."), Into::into);
    let part = part(&wanted("FATHOM_CELLS", "")).unwrap();
    let all_presets: Vec<&str> = presets.split(',').collect();
    let mut judged: Vec<(Verdict, String)> = Vec::new();
    let mut by_single_runs = 0;
    for (number, trace) in traces.split(',').enumerate() {
        let first = number * all_presets.len();
        let is_of_part = |place: &usize| part.contains(&(first + *place));
        let chosen: Vec<&str> =
            (0..all_presets.len()).filter(is_of_part).map(|place| all_presets[place]).collect();
        if chosen.is_empty() {
            continue;
        }
        let presets = chosen.join(",");
        let mut file = trace.to_owned();
        if !Path::new(trace).exists() {
            file = place.path(&format!("{trace}.trace")).to_str().unwrap().to_owned();
            place.fathom(&["trace", "synthesise", trace, "--scale", &scale, "--out", &file]).exits(0);
        }
        let stem = Path::new(&file).file_stem().unwrap().to_str().unwrap().to_owned();
        let file_of = |device: &str| kept.join(format!("{stem}-{device}.db"));
        let failing = |device: &&str| tried(&file_of(device)).into_iter().filter(|of| of.1 == Some(true));
        let of_device = |device: &str| {
            let name = format!("{stem}-{device}");
            let begun: Vec<String> = tried(&file_of(device)).into_iter().map(|of| of.0).collect();
            let broken: Vec<String> = all_presets.iter().flat_map(failing).map(|of| of.0).collect();
            let settings = if begun.is_empty() {
                grid().into_iter().filter(|setting| !broken.contains(setting)).collect()
            } else {
                begun
            };
            let all = live((&place, &kept, &file), &name, &experiment(&settings, device, 1), &[]);
            all.into_iter().map(|(settings, runs)| (settings, runs[0].1)).collect::<Vec<_>>()
        };
        let grids: Vec<(&str, Vec<(String, f64)>)> =
            presets.split(',').map(|device| (device, of_device(device))).collect();
        for (least, must) in (0_u8..).zip(MUSTS) {
            let started = std::time::Instant::now();
            let words = ["advise", &file, "--device", &presets, "--must", must, "--json"];
            let text = place.fathom(&words).exits(0).stdout.clone();
            println!("{stem}, {must}: advised in {:.0} s", started.elapsed().as_secs_f64());
            let advice: Value = serde_json::from_str(&text).unwrap();
            for device in advice["advised"].as_array().unwrap() {
                let (device, named) =
                    (device["device"].as_str().unwrap(), device["advised"].as_str().unwrap());
                assert!(promise(named) >= least, "{stem} {device} {must}: {named} breaks the promise");
                let (_, grid) = grids.iter().find(|grid| grid.0 == device).unwrap();
                let allowed = grid.iter().filter(|cell| promise(&cell.0) >= least);
                let (best, best_ns) = allowed.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
                // What is named may have settings together that the grid has not.
                let ours = grid.iter().find(|cell| cell.0 == named).map(|cell| cell.1);
                let ratio = ours.map_or(f64::INFINITY, |ours| ours / best_ns);
                let (mut verdict_of, mut says) = (Verdict::Hit, format!("{ratio:.3}"));
                if ratio <= ENOUGH {
                    by_single_runs += 1;
                } else {
                    let both = [named.to_owned(), best.clone()];
                    // Another pair than an earlier Fathom's is measured by itself.
                    let pair = both.join("-against-").replace(['/', '='], "_");
                    let name = format!("{stem}-{device}-{pair}");
                    let source = experiment(&both, device, 5);
                    let measured = |until: &str| {
                        let more = ["--until", until, "--repeat", "40"];
                        let again = live((&place, &kept, &file), &name, &source, &more);
                        let of = |which: &str| &again.iter().find(|cell| cell.0 == which).unwrap().1;
                        let of_best = of(best);
                        let pair = |run: &(u32, f64)| {
                            Some((run.1, of_best.iter().find(|other| other.0 == run.0)?.1))
                        };
                        let pairs: Vec<_> = of(named).iter().filter_map(pair).collect();
                        paired_ratio(&pairs).unwrap()
                    };
                    let mut behind = measured(UNTIL[0]);
                    for until in &UNTIL[1..] {
                        if verdict(&behind) == Verdict::Undecided {
                            behind = measured(until);
                        }
                    }
                    verdict_of = verdict(&behind);
                    let Comparison { ratio, low, high, n, .. } = behind;
                    says = format!("{verdict_of:?}, {ratio:.3} [{low:.3}, {high:.3}] in {n} pairs");
                }
                let line =
                    format!("{stem} {device} {must}: {named}, {says} of the best of {}, {best}", grid.len());
                println!("{line}");
                let mut results = std::fs::File::options()
                    .append(true)
                    .create(true)
                    .open(kept.join("results.txt"))
                    .unwrap();
                writeln!(results, "{line}").unwrap();
                judged.push((verdict_of, format!("{stem} {device} {must}: {named}, {says} of {best}")));
            }
        }
    }
    let tally = Tally::of(judged.iter().map(|cell| cell.0));
    let [least, most] = tally.shares();
    println!(
        "{} of {} cells named the best of the live grid, or one within 5 % ({by_single_runs} by the single runs of the grid); {} one \
         that is further behind; {} are not decided. So {least:.1} to {most:.1} % are right: 95 % are {}",
        tally.hits,
        tally.all(),
        tally.misses,
        tally.undecided,
        tally.says()
    );
    let others: Vec<_> = judged.iter().filter(|cell| cell.0 != Verdict::Hit).collect();
    for (verdict, cell) in &others {
        println!("{verdict:?}: {cell}");
    }
    assert!(!judged.is_empty(), "no cell was judged");
    assert!(least >= 95.0, "{least:.1} to {most:.1} % are right: {others:?}");
}

/// What happened: cells that are not decided were left out of the count, so that 17 right ones, 17
/// that nobody could tell, and none that was wrong would have been "100 %".
#[test]
fn a_cell_that_is_not_decided_counts_as_one_that_nobody_knows() {
    use Verdict::{Hit, Miss, Undecided};
    let tally = |hits, misses, undecided| {
        let all = [(Hit, hits), (Miss, misses), (Undecided, undecided)];
        Tally::of(all.into_iter().flat_map(|(verdict, times)| std::iter::repeat_n(verdict, times)))
    };
    assert_eq!(tally(17, 0, 17).shares(), [50.0, 100.0]);
    assert!(tally(17, 0, 17).says().starts_with("neither"));
    assert_eq!(tally(19, 1, 0).shares(), [95.0, 95.0]);
    assert_eq!((tally(19, 1, 0).says(), tally(19, 0, 1).says()), ("shown", "shown"));
    assert_eq!(tally(17, 2, 17).says(), "refuted", "what gmail came to: 47 to 94 %");
    assert_eq!(tally(0, 0, 0).shares(), [0.0, 0.0]);
}

#[test]
fn a_part_is_a_range_of_grids() {
    assert_eq!(part("").unwrap(), 0..=usize::MAX);
    assert_eq!((part("3").unwrap(), part("12-23").unwrap()), (3..=3, 12..=23));
    assert!(part("a-b").is_err() && part("-").is_err());
}

/// What happened: ten of eleven cells that counted as misses were behind by a mean of five noisy
/// pairs, whose interval held 1.05 all the same.
#[test]
fn what_its_interval_does_not_decide_is_not_decided() {
    let of = |behind: &[f64]| {
        let pairs: Vec<(f64, f64)> = behind.iter().map(|ratio| (*ratio, 1.0)).collect();
        verdict(&paired_ratio(&pairs).unwrap())
    };
    assert_eq!(of(&[1.0, 1.01, 1.02]), Verdict::Hit);
    assert_eq!(of(&[1.8, 1.7, 1.9]), Verdict::Miss);
    assert_eq!(of(&[1.3, 0.95, 1.1, 1.2, 1.0]), Verdict::Undecided);
    assert_eq!(of(&[1.3]), Verdict::Undecided, "one pair tells nothing");
}

#[test]
fn the_grid_has_every_mode_and_an_experiment_takes_all_of_it() {
    let all = grid();
    assert_eq!(all.len(), 108);
    assert_eq!(all.iter().filter(|key| promise(key) == 2).count(), 72);
    let place = Place::new();
    place.fathom(&["trace", "synthesise", "gmail", "--scale", "3", "--out", "g.trace"]).exits(0);
    place.write("grid.toml", &experiment(&all, "sd-slow", 1));
    let end = place.fathom(&["run", "./grid.toml", "--trace", "g.trace", "--plan"]);
    end.exits(0);
    assert!(end.stdout.contains("108 runs in all"), "{end}");
}
