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
//! The fastest of a hundred single runs is the luckiest of those that are as fast: who is more than
//! 5 % behind it is measured with it once more, in paired blocks, until both are known to within 2
//! % (5 to 40 blocks), and that counts. Where the interval of the paired ratio holds 1.05, it is
//! *not decided*: it is counted for itself, and is neither a hit nor a miss.

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
    let of = |(journal, synchronous, promise): &(&str, &str, u8)| {
        settings.starts_with(&format!("{journal}/{synchronous}/")).then_some(*promise)
    };
    MODES.iter().find_map(of).unwrap_or_else(|| panic!("{settings}: none of the grid's modes"))
}

/// Advice that is so near to the best stands.
const ENOUGH: f64 = 1.05;

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
    // What failed is not tried again.
    if known.is_empty() || known.iter().any(|(_, fails)| fails.is_none()) {
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
                if ratio > ENOUGH {
                    let both = [named.to_owned(), best.clone()];
                    let name = format!("{stem}-{device}-{least}-again");
                    let more = ["--until", "2%", "--repeat", "40"];
                    let source = experiment(&both, device, 5);
                    let again = live((&place, &kept, &file), &name, &source, &more);
                    let of = |which: &str| &again.iter().find(|cell| cell.0 == which).unwrap().1;
                    let of_best = of(best);
                    let pair =
                        |run: &(u32, f64)| Some((run.1, of_best.iter().find(|other| other.0 == run.0)?.1));
                    let pairs: Vec<_> = of(named).iter().filter_map(pair).collect();
                    let behind = paired_ratio(&pairs).unwrap();
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
    let count = |of: Verdict| judged.iter().filter(|cell| cell.0 == of).count();
    let (hits, misses) = (count(Verdict::Hit), count(Verdict::Miss));
    println!(
        "{hits} of {} cells named the best of the live grid, or one within 5 %; {misses} one that is further behind; {} are not decided",
        judged.len(),
        count(Verdict::Undecided)
    );
    let others: Vec<_> = judged.iter().filter(|cell| cell.0 != Verdict::Hit).collect();
    assert!(hits * 100 >= (hits + misses) * 95, "{others:?}");
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
fn what_its_interval_does_not_decide_is_neither_a_hit_nor_a_miss() {
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
    assert_eq!(all.iter().filter(|key| promise(key) == 2).count(), 66);
    let place = Place::new();
    place.fathom(&["trace", "synthesise", "gmail", "--scale", "3", "--out", "g.trace"]).exits(0);
    place.write("grid.toml", &experiment(&all, "sd-slow", 1));
    let end = place.fathom(&["run", "./grid.toml", "--trace", "g.trace", "--plan"]);
    end.exits(0);
    assert!(end.stdout.contains("108 runs in all"), "{end}");
}
