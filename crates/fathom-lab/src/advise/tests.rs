use proptest::prelude::*;

use super::*;
use crate::stats::mean_interval;

const PROMISES: [Durability; 5] = [
    Durability::None,
    Durability::ProcessCrash,
    Durability::PowerCutPrefix,
    Durability::PowerCutAllButLast,
    Durability::PowerCut,
];

fn tried_in(candidate: Candidate, durability: Option<Durability>, times_ms: &[f64]) -> Trial {
    let ns: Vec<f64> = times_ms.iter().map(|ms| ms * 1e6).collect();
    Trial {
        filesystem: "ext4".into(),
        label: candidate.key(),
        candidate,
        durability,
        runs: (0..).zip(ns.iter().copied()).collect(),
        time_ns: mean_interval(&ns).unwrap(),
        cpu_ns: 0.0,
        count: 1000,
        p99_ns: None,
        flushes: 1.0,
        written_bytes: 4096.0,
        writing: None,
        loss: None,
        is_log_felt: None,
        is_apart: false,
    }
}

/// What SQLite promises in these modes.
fn one(journal_mode: &str, synchronous: &str, ms: f64) -> Trial {
    let durability = match (journal_mode, synchronous) {
        ("wal", "normal") => Durability::PowerCutPrefix,
        ("delete", "full") => Durability::PowerCutAllButLast,
        (_, "off") => Durability::ProcessCrash,
        _ => Durability::PowerCut,
    };
    tried_in(Candidate::new(journal_mode, synchronous), Some(durability), &[ms, ms * 1.001, ms * 0.999])
}

fn named(tried: &[Trial], must: Durability) -> String {
    choose(tried, must, Some(0)).map_or("nothing".into(), |place| tried[place].candidate.name())
}

#[test]
fn the_fastest_with_the_promise_is_named_and_a_weaker_one_is_only_told() {
    let all = [
        one("delete", "full", 10.0),
        one("wal", "full", 5.0),
        one("wal", "normal", 2.0),
        one("wal", "off", 1.0),
    ];
    assert_eq!(named(&all, Durability::PowerCutAllButLast), "WAL/FULL");
    assert_eq!(named(&all, Durability::PowerCutPrefix), "WAL/NORMAL");
    assert_eq!(named(&all[2..], Durability::PowerCut), "nothing");
    let (place, gain) = weaker(&all, 1, Durability::PowerCut).unwrap();
    // Without synchronous a power cut may take the database: that is never a thought.
    assert_eq!(all[place].candidate.name(), "WAL/NORMAL");
    assert!(gain.proven && (gain.ratio - 2.5).abs() < 0.02, "{gain:?}");
    assert!(weaker(&all[..2], 1, Durability::PowerCut).is_none());
}

/// What happened: `--must keep=all` named WAL/FULL on file systems where explored power cuts left
/// databases that cannot be opened with it.
#[test]
fn what_is_known_to_lose_databases_keeps_nothing_whatever_it_promises() {
    let on_ext2 = |trial: Trial| Trial { filesystem: "ext2".into(), ..trial };
    let tried = vec![
        on_ext2(one("delete", "full", 10.0)),
        on_ext2(one("wal", "full", 2.0)),
        on_ext2(one("persist", "full", 8.0)),
        on_ext2(one("wal", "normal", 1.0)),
    ];
    for must in [Durability::PowerCutPrefix, Durability::PowerCutAllButLast, Durability::PowerCut] {
        assert_eq!(named(&tried, must), "PERSIST/FULL");
    }
    assert!(weaker(&tried, 2, Durability::PowerCut).is_none(), "what loses databases is no thought");
    let more = second(&[tried], Durability::PowerCut, AppUse::default());
    assert!(!more.is_empty() && more.iter().all(|candidate| candidate.journal_mode != "wal"), "{more:?}");
}

/// What happened: `--must keep=all` named WAL to an application with attached databases that has
/// WAL now, although a power cut may leave a transaction in one file and not in another with it.
#[test]
fn what_keeps_each_file_by_itself_is_not_named_where_transactions_must_be_whole() {
    let all = [one("wal", "full", 2.0), one("persist", "full", 8.0), one("wal", "normal", 1.0)];
    assert_eq!(named(&all, Durability::PowerCut), "WAL/FULL");
    let whole = all.map(Trial::of_whole_transactions);
    for must in [Durability::PowerCut, Durability::PowerCutAllButLast] {
        assert_eq!(named(&whole, must), "PERSIST/FULL");
    }
    let device =
        DeviceAdvice::of(None, String::new(), whole.to_vec(), &whole[0].candidate, Durability::PowerCut);
    assert_eq!((device.best, device.weaker.map(|weaker| weaker.0)), (Some(1), Some(2)));
    assert_eq!(device.tried[0].durability, Some(Durability::PowerCut), "the promise is told as it is");
    let found = common(&[device.clone(), device], Durability::PowerCut).unwrap();
    assert_eq!(found.candidate.journal_mode, "persist");
}

#[test]
fn what_they_have_stays_where_nothing_is_proven_to_be_worth_a_change() {
    let near = [one("persist", "full", 10.0), one("wal", "full", 9.9)];
    assert_eq!(named(&near, Durability::PowerCut), "PERSIST/FULL");
    let scatter = [
        tried_in(Candidate::new("persist", "full"), Some(Durability::PowerCut), &[10.0, 9.0, 10.0]),
        tried_in(Candidate::new("wal", "full"), Some(Durability::PowerCut), &[9.0, 10.0, 9.3]),
    ];
    assert_eq!(named(&scatter, Durability::PowerCut), "PERSIST/FULL");
    let proven = [one("persist", "full", 10.0), one("wal", "full", 9.6)];
    assert_eq!(named(&proven, Durability::PowerCut), "WAL/FULL");
    // Where it keeps less than is asked, it goes, whatever that costs.
    let slower = [one("wal", "normal", 1.0), one("wal", "full", 4.0)];
    assert_eq!(named(&slower, Durability::PowerCut), "WAL/FULL");
}

#[test]
fn of_equals_the_one_that_promises_more_and_changes_less_is_named() {
    let all = [one("delete", "full", 10.0), one("delete", "extra", 5.05), one("wal", "full", 5.0)];
    // EXTRA is one change, WAL another: the same promise, and so the faster.
    assert_eq!(named(&all, Durability::PowerCutAllButLast), "WAL/FULL");
    let mut small = one("wal", "full", 4.95);
    small.candidate.page_size = 1024;
    let all = [one("delete", "full", 10.0), small, one("wal", "full", 5.0)];
    assert_eq!(
        named(&all, Durability::PowerCutAllButLast),
        "WAL/FULL",
        "one percent is no reason for other pages"
    );
}

// What happened: pages of 512 bytes were named, 0.03 % faster than pages of 1 KiB, and the advice
// stood in one of five variations.
/// What happened: with `--fs ext4,xfs` the same settings on xfs were named to an application on
/// ext4, for they were 0.8 % faster, which was not proven: a card would have been formatted for
/// nothing.
#[test]
fn of_equals_the_one_on_the_file_system_of_now_is_named() {
    let on = |filesystem: &str, journal: &str, ms: f64| Trial {
        filesystem: filesystem.into(),
        label: format!("{filesystem} {journal}"),
        ..one(journal, "full", ms)
    };
    let near = |of_other: f64| {
        let all = [on("ext4", "delete", 10.0), on("ext4", "wal", 5.0), on("xfs", "wal", of_other)];
        choose(&all, Durability::PowerCut, Some(0))
    };
    assert_eq!((near(4.96), near(4.0)), (Some(1), Some(2)));
    // It asks more than a setting does.
    let own = on("ext4", "wal", 5.0);
    let tuned = Trial {
        filesystem: "ext4".into(),
        label: "tuned".into(),
        ..tried_in(
            Candidate::new("wal", "full").with("wal_autocheckpoint", "100"),
            Some(Durability::PowerCut),
            &[3.0, 3.003, 2.997],
        )
    };
    let all = [own, on("xfs", "wal", 2.98), tuned];
    assert_eq!(choose(&all, Durability::PowerCut, Some(0)), Some(2));
}

#[test]
fn of_equals_the_one_with_the_more_usual_pages_is_named() {
    let with_pages = |page_size, ms: f64| {
        let candidate = Candidate { page_size, ..Candidate::new("wal", "full") };
        tried_in(candidate, Some(Durability::PowerCut), &[ms, ms, ms])
    };
    let tried = [one("delete", "full", 9.0), with_pages(512, 3.0), with_pages(1024, 3.01)];
    let place = choose(&tried, Durability::PowerCut, Some(0));
    assert_eq!(place.map(|place| tried[place].candidate.page_size), Some(1024));
    let tried = [one("delete", "full", 9.0), with_pages(512, 3.0), with_pages(1024, 3.1)];
    let place = choose(&tried, Durability::PowerCut, Some(0));
    assert_eq!(place.map(|place| tried[place].candidate.page_size), Some(512), "3 % is more than equal");
}

/// What happened: on most devices `gmail` was told pages of 1 KiB, and 512 bytes were 2 to 6 %
/// faster: what is not proven to be slower was as good up to 10 %, though neither asks less.
#[test]
fn of_pages_that_both_are_others_the_faster_are_named() {
    let with_pages = |page_size, ms: [f64; 3]| {
        let candidate = Candidate { page_size, ..Candidate::new("wal", "full") };
        tried_in(candidate, Some(Durability::PowerCut), &ms)
    };
    let now = one("delete", "full", 9.0);
    let (small, usual) = (with_pages(512, [3.0, 3.4, 3.2]), with_pages(1024, [3.3, 3.4, 3.5]));
    assert!(!gain(&small, &usual).unwrap().proven);
    let tried = [now.clone(), small.clone(), usual];
    assert_eq!(named(&tried, Durability::PowerCut), "WAL/FULL, 512 byte pages");
    // What needs no VACUUM still does ask less.
    let tried = [now, small, with_pages(4096, [3.3, 3.4, 3.5])];
    assert_eq!(named(&tried, Durability::PowerCut), "WAL/FULL");
}

/// What happened: of 20 transactions that write, pages were named for 1.02 to 1.04 times, proven by
/// recordings that hardly differ. A database that exists takes a VACUUM for them. Then they had to
/// bring 10 %, and what was named was 6 to 10 % behind the best of full live grids, by as much as
/// the simulation had said.
#[test]
fn a_short_trace_is_no_reason_for_other_pages_that_bring_little() {
    let named = |writing: Option<u64>, small_ms: f64| {
        let with_pages = |size: &str, ms: f64| {
            let candidate = Candidate::new("wal", "full").with("page_size", size);
            let runs = [ms, ms * 1.001, ms * 0.999];
            Trial { writing, ..tried_in(candidate, Some(Durability::PowerCut), &runs) }
        };
        let tried = vec![
            Trial { writing, ..one("delete", "full", 9.0) },
            with_pages("1024", small_ms),
            with_pages("4096", 5.0),
        ];
        let must = Durability::PowerCutAllButLast;
        let of = |name: &str| {
            DeviceAdvice::of(Some(name.into()), String::new(), tried.clone(), &Candidate::default(), must)
        };
        let found = common(&[of("a"), of("b")], must).unwrap();
        let place = choose(&tried, must, Some(0)).unwrap();
        assert_eq!(found.candidate, tried[place].candidate);
        tried[place].candidate.page_size
    };
    for ms in [4.88, 4.85, 4.83] {
        assert_eq!((named(Some(20), ms), named(Some(FEW), ms), named(None, ms)), (4096, 1024, 1024), "{ms}");
    }
    for ms in [4.76, 4.6, 4.4] {
        assert_eq!(
            named(Some(20), ms),
            1024,
            "{ms}: live it is as much, and 5 % is what advice may be behind"
        );
    }
}

/// What happened: of two times the same command on a trace of 23 commits, one named
/// `locking_mode exclusive`, the other 1 KiB pages, and a third `wal_autocheckpoint 4000`, which a
/// log of 50 pages never comes to.
#[test]
fn near_ties_go_to_what_asks_the_least_and_what_has_no_effect_is_never_named() {
    let with = |key: &str, value: &str, ms: &[f64]| {
        let candidate = Candidate::new("wal", "full").with(key, value);
        tried_in(candidate, Some(Durability::PowerCut), ms)
    };
    let long_log = |ms: &[f64]| Trial { is_log_felt: Some(false), ..with("wal_autocheckpoint", "4000", ms) };
    let (plain, now) = (with("page_size", "4096", &[5.0, 5.3, 5.1]), one("delete", "full", 10.0));
    let must = Durability::PowerCutAllButLast;
    for other in [
        with("locking_mode", "exclusive", &[4.8, 5.2, 4.7]),
        with("page_size", "1024", &[4.7, 5.2, 4.6]),
        long_log(&[2.0, 2.01, 1.99]),
        // It is faster, but not by what is worth to lock others out.
        with("locking_mode", "exclusive", &[4.99, 5.29, 5.09]),
    ] {
        let name = other.candidate.name();
        assert_eq!(named(&[now.clone(), other, plain.clone()], must), "WAL/FULL", "{name}");
    }
    // Its own short log is no other setting, also where it is never reached.
    let own = Candidate::new("delete", "full").with("cache_size", "-500");
    let short = |candidate: Candidate, ms: f64| {
        let candidate = candidate.with("wal_autocheckpoint", "100");
        let durability = Some(Durability::PowerCut);
        Trial { is_log_felt: Some(false), ..tried_in(candidate, durability, &[ms, ms * 1.001, ms * 0.999]) }
    };
    let inherited = [
        tried_in(own, Some(Durability::PowerCutAllButLast), &[9.0, 9.01, 8.99]),
        short(Candidate::new("wal", "full").with("cache_size", "-500"), 4.0),
    ];
    assert_eq!(named(&inherited, must), "WAL/FULL, cache_size -500, wal_autocheckpoint 100");
    // What is proven is named.
    let proven = with("locking_mode", "exclusive", &[4.5, 4.77, 4.59]);
    assert_eq!(named(&[now.clone(), proven, plain.clone()], must), "WAL/FULL, locking_mode exclusive");
    // Of runs without an interval nothing is proven.
    let single = [
        one("delete", "full", 9.0),
        with("locking_mode", "exclusive", &[4.0]),
        with("page_size", "1024", &[4.7]),
        with("page_size", "4096", &[5.0]),
    ];
    assert_eq!(named(&single, must), "WAL/FULL");
}

/// What happened: `wal_autocheckpoint 4000` was named with WAL/NORMAL for 2 % more speed, and takes
/// four times as many commits at a power cut.
#[test]
fn where_commits_may_be_lost_fewer_are_worth_a_little_speed() {
    let with = |log: Option<&str>, commits, ms: f64| {
        let plain = Candidate::new("wal", "normal");
        let candidate = log.map_or(plain.clone(), |pages| plain.with("wal_autocheckpoint", pages));
        let loss = Some(Loss { commits, is_all: false, is_least: false });
        let runs = [ms, ms * 1.001, ms * 0.999];
        Trial { loss, ..tried_in(candidate, Some(Durability::PowerCutPrefix), &runs) }
    };
    let now = one("delete", "full", 10.0);
    let all = |long_ms| [now.clone(), with(Some("4000"), 1000, long_ms), with(None, 250, 1.0)];
    assert_eq!(named(&all(0.96), Durability::PowerCutPrefix), "WAL/NORMAL");
    assert_eq!(named(&all(0.9), Durability::PowerCutPrefix), "WAL/NORMAL, wal_autocheckpoint 4000");
}

/// What happened: three devices had three settings, and who ships one program for all of them was
/// told none.
#[test]
fn one_setting_for_all_devices_is_the_least_behind_where_it_is_furthest_behind() {
    let of = |name: &str, ms: [f64; 3]| {
        let pages = |size: &str, ms: f64| {
            let candidate = Candidate::new("wal", "full").with("page_size", size);
            tried_in(candidate, Some(Durability::PowerCut), &[ms, ms * 1.001, ms * 0.999])
        };
        let all = vec![
            one("delete", "full", 20.0),
            pages("512", ms[0]),
            pages("1024", ms[1]),
            pages("4096", ms[2]),
            one("wal", "normal", 0.5),
        ];
        let must = Durability::PowerCutAllButLast;
        DeviceAdvice::of(Some(name.into()), String::new(), all, &Candidate::default(), must)
    };
    let devices = [of("a", [4.0, 4.4, 6.0]), of("b", [6.0, 4.4, 4.0])];
    let found = common(&devices, Durability::PowerCutAllButLast).unwrap();
    assert_eq!(found.candidate.page_size, 1024);
    assert!((found.worst - 1.1).abs() < 0.01, "{found:?}");
    assert_eq!(found.of_each.iter().map(|of| of.0).collect::<Vec<_>>(), [2, 2]);
    assert!(common(&devices[..1], Durability::PowerCut).is_none());
}

/// What happened: EXCLUSIVE, which is named of a device only where it is proven to be faster, was
/// the one setting for all of them without a proof.
#[test]
fn what_locks_others_out_is_no_setting_for_all_devices_unless_it_is_proven() {
    let of = |name: &str, [small, large]: [f64; 2], out: &[f64]| {
        let pages = |size: &str, runs: &[f64]| {
            tried_in(Candidate::new("wal", "full").with("page_size", size), Some(Durability::PowerCut), runs)
        };
        let steady = |ms: f64| [ms, ms * 1.001, ms * 0.999];
        let exclusive = Candidate::new("wal", "full").with("locking_mode", "exclusive");
        let all = vec![
            one("delete", "full", 20.0),
            pages("1024", &steady(small)),
            pages("4096", &steady(large)),
            tried_in(exclusive, Some(Durability::PowerCut), out),
        ];
        let must = Durability::PowerCutAllButLast;
        DeviceAdvice::of(Some(name.into()), String::new(), all, &Candidate::default(), must)
    };
    let named = |out: &[f64]| {
        let devices = [of("a", [4.0, 5.0], out), of("b", [5.0, 4.0], out)];
        common(&devices, Durability::PowerCutAllButLast).unwrap().candidate.name()
    };
    let scattered = [3.0, 4.6, 3.9];
    assert_eq!(named(&scattered), "WAL/FULL", "as far behind as small pages are, and it changes less");
    assert_eq!(named(&[3.0, 3.001, 2.999]), "WAL/FULL, locking_mode exclusive");
}

/// What happened: of settings within 5 % the one that loses the fewest commits is named of each
/// device, and of all of them together the one that loses four times as many.
#[test]
fn of_all_devices_too_fewer_lost_commits_are_worth_a_little_speed() {
    let of = |name: &str, [small, large]: [f64; 2], long_ms: f64| {
        let with = |key: &str, value: &str, commits, ms: f64| {
            let candidate = Candidate::new("wal", "normal").with(key, value);
            let loss = Some(Loss { commits, is_all: false, is_least: false });
            let runs = [ms, ms * 1.001, ms * 0.999];
            Trial { loss, ..tried_in(candidate, Some(Durability::PowerCutPrefix), &runs) }
        };
        let all = vec![
            one("delete", "full", 20.0),
            with("page_size", "1024", 250, small),
            with("page_size", "4096", 250, large),
            with("wal_autocheckpoint", "4000", 1000, long_ms),
        ];
        let must = Durability::PowerCutPrefix;
        DeviceAdvice::of(Some(name.into()), String::new(), all, &Candidate::default(), must)
    };
    let named = |long_ms: f64| {
        let devices = [of("a", [4.0, 4.2], long_ms), of("b", [4.4, 4.2], long_ms)];
        common(&devices, Durability::PowerCutPrefix).unwrap().candidate.name()
    };
    assert_eq!(named(4.05), "WAL/NORMAL");
    assert_eq!(named(3.0), "WAL/NORMAL, wal_autocheckpoint 4000");
}

#[test]
fn rounds_go_from_modes_to_tuning_to_those_that_lead() {
    let own = Candidate::new("wal", "normal").with("wal_autocheckpoint", "100").with("cache_size", "-500");
    let modes = first(&own);
    assert_eq!(modes[0], own, "the baseline is first");
    assert!(modes.iter().all(|mode| mode.more.get("cache_size").is_some_and(|size| size == "-500")), "stays");
    assert!(
        modes.iter().all(|mode| mode.journal_mode == "wal" || !mode.more.contains_key("wal_autocheckpoint"))
    );
    assert_eq!(modes.len(), 5, "five modes, of which one is its own: {modes:?}");
    // One that makes its log short itself needs no other; who does not may win by that alone.
    let usual = first(&Candidate::default());
    assert!(usual.contains(&Candidate::new("wal", "full").with("wal_autocheckpoint", "100")));
    assert!(!usual.contains(&Candidate::new("wal", "normal").with("wal_autocheckpoint", "100")));
    let tried = vec![vec![
        one("delete", "full", 10.0),
        one("persist", "full", 8.0),
        one("wal", "full", 5.0),
        one("wal", "normal", 2.0),
    ]];
    let keys = |all: &[Candidate]| all.iter().map(Candidate::key).collect::<Vec<String>>();
    let app = AppUse { has_one_connection: true, reads_most: false, over_files: false };
    let more = second(&tried, Durability::PowerCutAllButLast, app);
    let expected = [
        "wal/full/1024",
        "wal/full/8192",
        "wal/full/4096/wal_autocheckpoint=100",
        "wal/full/4096/wal_autocheckpoint=300",
        "wal/full/4096/wal_autocheckpoint=4000",
        "wal/full/4096/locking_mode=exclusive",
    ];
    assert_eq!(keys(&more), expected, "what is weaker is tuned as the leader of its journal");
    // Whether two connections break is for the replay to show, once.
    let shared = second(&tried, Durability::PowerCutAllButLast, AppUse::default());
    assert_eq!(keys(&shared), expected);
    // What does more than DELETE/FULL is worth a recording only where that leads.
    let slow = vec![vec![one("delete", "full", 4.0), one("wal", "full", 5.0), one("wal", "normal", 4.5)]];
    let more = keys(&second(&slow, Durability::PowerCutAllButLast, app));
    assert!(
        more.contains(&"delete/extra/4096".into()) && more.contains(&"wal/normal/1024".into()),
        "{more:?}"
    );
    // Pages and checkpoints that each help are tried together.
    let mut round = tried.clone();
    let with = |key: &str, value: &str, ms: f64| {
        let candidate = Candidate::new("wal", "full").with(key, value);
        tried_in(candidate, Some(Durability::PowerCut), &[ms])
    };
    round[0].extend([with("page_size", "1024", 4.0), with("wal_autocheckpoint", "4000", 4.5)]);
    let together = "wal/full/1024/wal_autocheckpoint=4000";
    let sizes = ["wal/full/512", "wal/full/2048"];
    // And with other pages than are the best without: 512 bytes were, with a short log, 6 % faster.
    let beside = sizes.map(|size| format!("{size}/wal_autocheckpoint=4000"));
    let expected = [&sizes[..], &[together, &*beside[0], &*beside[1]]].concat();
    let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
    // And logs of each length: they were tried with the pages of before alone.
    for size in [1024, 512, 2048] {
        expected.extend([100, 300].map(|log| format!("wal/full/{size}/wal_autocheckpoint={log}")));
    }
    assert_eq!(keys(&third(&round, Durability::PowerCutAllButLast, usize::MAX)), expected);
    // Where there is no time for them, none of the logs.
    let in_a_hurry = third(&round, Durability::PowerCutAllButLast, 0);
    assert_eq!(keys(&in_a_hurry), expected[..5]);
    let last = keys(&finalists(&Candidate::default(), &round, Durability::PowerCutAllButLast).all);
    let own_pages = "wal/full/4096/wal_autocheckpoint=4000";
    // And the mode as it is, which asks less: what is no faster for sure gives way to it. It was
    // not among them, and one command named pages of 1 KiB, and the same one pages of 2 KiB.
    let plain = "wal/full/4096";
    let expected = ["delete/full/4096", "wal/full/1024", plain, own_pages, together, "wal/normal/1024"];
    assert_eq!(last, expected);
    // Of several lengths the best is taken, and what is weaker does not get a short one.
    let mut short = round.clone();
    short[0].extend([
        with("wal_autocheckpoint", "300", 3.5),
        with("wal_autocheckpoint", "100", 3.8),
        with("locking_mode", "exclusive", 4.9),
    ]);
    let last = keys(&finalists(&Candidate::default(), &short, Durability::PowerCutAllButLast).all);
    let together = "wal/full/1024/locking_mode=exclusive/wal_autocheckpoint=300";
    let short = "wal/full/4096/wal_autocheckpoint=300";
    let open = "wal/full/1024/wal_autocheckpoint=300";
    assert_eq!(last, ["delete/full/4096", short, plain, together, open, "wal/normal/4096"]);
    // Larger ones are tried while they go on getting better.
    round[0].push(with("page_size", "8192", 3.9));
    assert!(
        keys(&third(&round, Durability::PowerCutAllButLast, usize::MAX)).contains(&"wal/full/16384".into())
    );
}

/// What happened: with WAL/NORMAL a log of 10,000 pages made an application 5 to 12 % faster than
/// any that was tried, of 4000 at the most.
#[test]
fn a_log_that_is_longer_still_is_tried_where_a_long_one_has_helped() {
    let keys = |page_size: &str, felt: bool, long_ms: f64| -> Vec<String> {
        let plain = Candidate::new("wal", "normal").with("page_size", page_size);
        let promise = Some(Durability::PowerCutPrefix);
        let usual = tried_in(plain.clone(), promise, &[2.0]);
        let long = tried_in(plain.with("wal_autocheckpoint", "4000"), promise, &[long_ms]);
        let tried = vec![vec![usual, Trial { is_log_felt: Some(felt), ..long }]];
        third(&tried, Durability::PowerCutPrefix, usize::MAX).iter().map(Candidate::key).collect()
    };
    let longer =
        |all: &[String]| all.iter().filter(|key| key.ends_with("=10000")).cloned().collect::<Vec<_>>();
    assert_eq!(longer(&keys("4096", true, 1.8)), ["wal/normal/4096/wal_autocheckpoint=10000"]);
    assert_eq!(longer(&keys("4096", true, 1.99)), Vec::<String>::new(), "it has not helped");
    assert_eq!(longer(&keys("4096", false, 1.8)), Vec::<String>::new(), "by luck");
    assert_eq!(longer(&keys("8192", true, 1.8)), Vec::<String>::new(), "80 MB");
}

/// What happened: an application of 4,000 queries and 200 updates, which fills its database with
/// 20,000 rows in one transaction, was taken to write more than it reads. A cache of 16 MiB, with
/// which it is 1.1 to 1.5 times as fast, was not tried.
#[test]
fn a_cache_is_tried_where_most_transactions_only_read() {
    let keys = |writing: u64| -> Vec<String> {
        let of = |trial: Trial| Trial { writing: Some(writing), ..trial };
        let tried = vec![vec![of(one("delete", "full", 10.0)), of(one("wal", "full", 5.0))]];
        second(&tried, Durability::PowerCut, AppUse::default()).iter().map(Candidate::key).collect()
    };
    // Of 1000.
    let reading = keys(48);
    for setting in ["cache_size=-16000", "mmap_size=268435456"] {
        assert!(reading.contains(&format!("wal/full/4096/{setting}")), "{reading:?}");
    }
    assert!(!keys(900).iter().any(|key| key.contains("cache_size")));
}

/// What happened: `cache_size -16000, mmap_size 268435456` was named with a short log for a small
/// database, which is as fast without both: one recording of each had been 1 % faster, and what
/// leaves them out was not in the last round.
#[test]
fn what_saves_reading_calls_is_compared_with_what_does_not_have_it() {
    let own = Candidate::new("wal", "full").with("cache_size", "-8000");
    let short = own.with("page_size", "1024").with("wal_autocheckpoint", "100");
    let cached = short.with("cache_size", "-16000");
    let mapped = cached.with("mmap_size", "268435456");
    let trial =
        |candidate: &Candidate, ms: f64| tried_in(candidate.clone(), Some(Durability::PowerCut), &[ms]);
    let tried = vec![vec![trial(&own, 8.0), trial(&mapped, 4.0)]];
    let last = finalists(&own, &tried, Durability::PowerCut);
    for candidate in [&mapped, &cached, &short] {
        assert!(last.all[..last.needed].contains(candidate), "{last:?}");
    }
    let runs = |candidate: &Candidate, ms: f64| {
        tried_in(candidate.clone(), Some(Durability::PowerCut), &[ms, ms * 1.001, ms * 0.999])
    };
    let last = [runs(&own, 8.0), runs(&mapped, 4.0), runs(&cached, 4.01), runs(&short, 4.02)];
    assert_eq!(choose(&last, Durability::PowerCut, Some(0)), Some(3), "it changes the least");
}

/// What happened: single recordings, whose CPU time differs by up to a quarter on a busy machine,
/// decided in which direction pages were tried, so that 512 bytes were not.
#[test]
fn pages_are_tried_beside_all_that_may_be_the_best() {
    let with_pages = |size: &str, ms: f64, cpu_ms: f64| {
        let candidate = Candidate::new("wal", "full").with("page_size", size);
        let trial = tried_in(candidate, Some(Durability::PowerCut), &[ms]);
        Trial { cpu_ns: cpu_ms * 1e6, ..trial }
    };
    let tried = |cpu_ms| {
        vec![vec![
            one("delete", "full", 10.0),
            with_pages("4096", 5.0, cpu_ms),
            with_pages("1024", 4.2, cpu_ms),
            with_pages("8192", 4.0, cpu_ms),
        ]]
    };
    let keys = |cpu_ms| -> Vec<String> {
        third(&tried(cpu_ms), Durability::PowerCut, usize::MAX).iter().map(Candidate::key).collect()
    };
    assert!(!keys(0.1).contains(&"wal/full/512".to_owned()), "5 % are more than 0.1 ms explain");
    assert!(keys(1.0).contains(&"wal/full/512".to_owned()), "{:?}", keys(1.0));
}

/// What happened: of results with `engine.library` or SQLCipher's `engine.key` the lines to paste
/// had `PRAGMA library = /usr/lib/…;`, which is no SQL, and the key.
#[test]
fn what_is_no_pragma_is_not_pasted_and_a_key_is_not_told() {
    let settings = [
        ("journal_mode", "wal"),
        ("library", "/usr/lib/libsqlcipher.so"),
        ("key", "secret"),
        ("extension", "./fts.so"),
        ("temp_store", "memory"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), serde_json::json!(value)));
    let engine = fathom_workload::spec::EngineSpec { name: "sqlcipher".into(), settings: settings.into() };
    let found = Candidate::of(&engine).unwrap();
    assert!(found.name().contains("library /usr/lib") && !found.name().contains("secret"), "{found:?}");
    let expected =
        ["PRAGMA journal_mode = WAL;", "PRAGMA synchronous = FULL;", "PRAGMA temp_store = memory;"];
    assert_eq!(found.pragmas(), expected);
}

#[test]
fn statements_stand_in_the_order_in_which_they_have_to_be_given() {
    let candidate = Candidate::new("wal", "full")
        .with("page_size", "1024")
        .with("locking_mode", "exclusive")
        .with("cache_size", "-500");
    assert_eq!(
        candidate.pragmas(),
        [
            "PRAGMA page_size = 1024;",
            "PRAGMA journal_mode = WAL;",
            "PRAGMA locking_mode = EXCLUSIVE;",
            "PRAGMA synchronous = FULL;",
            "PRAGMA cache_size = -500;"
        ]
    );
    // It was "-- before the first table; a database that exists needs journal_mode = DELETE, this,
    // VACUUM" behind a PRAGMA: nothing to paste for whoever has a database.
    let existing = [
        "PRAGMA journal_mode = DELETE;",
        "PRAGMA page_size = 1024;",
        "VACUUM;",
        "PRAGMA journal_mode = WAL;",
    ];
    assert!(candidate.to_paste(&Candidate::default()).ends_with(&existing.map(str::to_owned)));
    let same = Candidate::new("persist", "full").with("page_size", "1024");
    assert!(!same.to_paste(&same).contains(&"VACUUM;".to_owned()), "its pages stay as they are");
    let usual = Candidate::new("wal", "full");
    let back = usual.to_paste(&same);
    // What makes its own databases with other pages was told nothing of the next ones.
    let new = [
        "-- a new database, once, before its first table:",
        "PRAGMA page_size = 4096;",
        "PRAGMA journal_mode = WAL;",
    ];
    assert_eq!(back[..3], new);
    assert!(back.contains(&"VACUUM;".to_owned()), "{back:?}");
    let kept = usual.to_paste(&Candidate::default());
    assert_eq!(kept[..2], ["-- once; it stays with the database:", "PRAGMA journal_mode = WAL;"]);
    assert_eq!(candidate.name(), "WAL/FULL, 1 KiB pages, cache_size -500, locking_mode exclusive");
    assert_eq!(Candidate::default().with("page_size", "512").name(), "DELETE/FULL, 512 byte pages");
}

/// What happened: who attaches files, and pastes the lines where the connection is opened, had the
/// settings in its first file alone, and DELETE/FULL with 4 KiB pages in all others; with what
/// keeps every commit (EXTRA) those may lose the last one.
#[test]
fn an_attached_file_is_told_what_it_does_not_take_over() {
    let named = Candidate::new("delete", "extra")
        .with("page_size", "1024")
        .with("locking_mode", "exclusive")
        .with("cache_size", "-500");
    let lines = named.to_paste_with_attached(&named);
    let head = lines.iter().position(|line| line.contains("attaches")).unwrap();
    assert_eq!(
        lines[head + 1..],
        [
            "-- PRAGMA NAME.page_size = 1024;",
            "-- PRAGMA NAME.journal_mode = DELETE;",
            "-- PRAGMA NAME.synchronous = EXTRA;",
            "-- PRAGMA NAME.cache_size = -500;",
        ]
    );
    assert!(!named.to_paste(&named).iter().any(|line| line.contains("NAME")));
    // What is done once by hand is the last.
    let with_pages = named.to_paste_with_attached(&Candidate::default());
    assert!(with_pages.ends_with(&["VACUUM;".to_owned()]), "{with_pages:?}");
}

/// By SQLite itself: what holds for files that are attached later, and what does not.
#[test]
fn sqlite_gives_attached_files_its_defaults_of_what_is_of_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| rusqlite::Connection::open(directory.path().join(name)).unwrap();
    let connection = open("own.db");
    for line in Candidate::new("persist", "extra").with("locking_mode", "exclusive").pragmas() {
        connection.execute_batch(&line).unwrap();
    }
    let other = directory.path().join("other.db");
    connection.execute("ATTACH ?1 AS other", [other.to_str().unwrap()]).unwrap();
    let of = |schema: &str, name: &str| {
        let sql = format!("PRAGMA {schema}.{name}");
        connection.query_row(&sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap()
    };
    for name in ["journal_mode", "synchronous"] {
        assert_ne!(of("main", name), of("other", name), "{name}");
    }
    assert_eq!(of("main", "locking_mode"), of("other", "locking_mode"));
}

/// What happened: an application's own `auto_vacuum` stood among what each connection says, behind
/// WAL mode, where it has no effect: a new database was without it.
#[test]
fn what_only_a_new_database_takes_stands_before_its_journal_mode() {
    let own = Candidate::default().with("auto_vacuum", "full").with("cache_size", "-500");
    let told = own.with("journal_mode", "wal").to_paste(&own);
    let expected = [
        "-- a new database, once, before its first table:",
        "PRAGMA auto_vacuum = full;",
        "PRAGMA journal_mode = WAL;",
        "-- each connection, when it is opened:",
        "PRAGMA synchronous = FULL;",
        "PRAGMA cache_size = -500;",
    ];
    assert_eq!(told, expected);
    let plain = own.with("journal_mode", "persist").with("locking_mode", "exclusive").to_paste(&own);
    let expected = [
        "-- a new database, once, before its first table:",
        "PRAGMA auto_vacuum = full;",
        "-- each connection, when it is opened:",
        "PRAGMA locking_mode = EXCLUSIVE;",
        "PRAGMA journal_mode = PERSIST;",
        "PRAGMA synchronous = FULL;",
        "PRAGMA cache_size = -500;",
    ];
    assert_eq!(plain, expected);
}

/// What happened: "the runs differ by up to 91 %" was said of times on the device that recordings
/// are made on, which no table shows; what the table shows differed by 3 %.
#[test]
fn the_scatter_that_is_told_is_that_of_the_times_that_are_shown() {
    let of = |times: &[f64]| {
        let steady = one("delete", "full", 9.0);
        let other = tried_in(Candidate::new("wal", "full"), Some(Durability::PowerCut), times);
        let must = Durability::PowerCutAllButLast;
        DeviceAdvice::of(
            Some("a-card".into()),
            "a card".into(),
            vec![steady, other],
            &Candidate::default(),
            must,
        )
    };
    assert_eq!(scatter(&[of(&[3.0, 3.1, 2.9])]), None);
    assert_eq!(scatter(&[of(&[3.0])]), None, "one run has no scatter");
    let told = scatter(&[of(&[3.0, 3.1, 2.9]), of(&[1.35, 1.51, 1.98])]).unwrap();
    assert!(told.starts_with("noisy recordings: 1 of 4 ") && told.contains("WAL/FULL on a-card"), "{told}");
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let journals = prop::sample::select(vec!["delete", "truncate", "persist", "memory", "wal", "off"]);
    let syncs = prop::sample::select(vec!["off", "normal", "full", "extra"]);
    let pages = prop::sample::select(vec!["512", "1024", "4096", "65536"]);
    (journals, syncs, pages)
        .prop_map(|(journal, sync, page)| Candidate::new(journal, sync).with("page_size", page))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever was tried, and whatever the application has: what is named keeps what must be kept;
    /// nothing is named only where nothing does; and no other that keeps it is faster by 5 % for
    /// sure.
    #[test]
    fn what_must_be_kept_is_kept(
        all in prop::collection::vec((any_candidate(), 0..6_usize, prop::collection::vec(0.1..50.0_f64, 1..5)), 1..12),
        must in 0..5_usize,
        baseline in 0..12_usize,
    ) {
        let must = PROMISES[must];
        let tried: Vec<Trial> = all
            .into_iter()
            .map(|(candidate, promise, ms)| tried_in(candidate, PROMISES.get(promise).copied(), &ms))
            .collect();
        let baseline = Some(baseline).filter(|value| *value < tried.len());
        let keeps = |tried: &Trial| tried.durability.is_some_and(|own| own >= must);
        match choose(&tried, must, baseline) {
            None => prop_assert!(!tried.iter().any(keeps)),
            Some(place) => {
                prop_assert!(keeps(&tried[place]));
                let fastest = tried.iter().filter(|tried| keeps(tried)).min_by(|a, b| a.ns().total_cmp(&b.ns())).unwrap();
                let is_proven = gain(fastest, &tried[place]).is_some_and(|gain| gain.proven);
                let most = if is_proven { ENOUGH } else { 1.1 };
                prop_assert!(tried[place].ns() <= fastest.ns() * most);
                if let Some((other, gain)) = weaker(&tried, place, must) {
                    prop_assert!(!keeps(&tried[other]) && gain.ratio > 1.0);
                    prop_assert!(tried[other].durability >= Some(Durability::PowerCutPrefix));
                }
            }
        }
    }
}

/// What happened: the best was 1 KiB pages, and whoever cannot VACUUM was told nothing.
#[test]
fn what_is_best_without_other_pages_is_told_beside_what_has_them() {
    let with_pages = |page_size, ms: f64| {
        let candidate = Candidate { page_size, ..Candidate::new("wal", "full") };
        tried_in(candidate, Some(Durability::PowerCut), &[ms, ms * 1.01, ms])
    };
    let all = vec![one("delete", "full", 10.0), with_pages(1024, 3.0), with_pages(4096, 5.0)];
    let of = |must, all: &[Trial]| {
        let title = String::new();
        DeviceAdvice::of(Some("sd".into()), title, all.to_vec(), &Candidate::default(), must)
    };
    let must = Durability::PowerCutAllButLast;
    let device = of(must, &all);
    let (place, gain) = device.same_pages.unwrap();
    assert_eq!((device.best, place), (Some(1), 2));
    assert!((gain.ratio - 2.0).abs() < 0.05, "{gain:?}");
    assert_eq!(of(must, &[all[0].clone(), all[2].clone()]).same_pages, None, "it has the same pages");
    // Nothing with its own pages keeps that.
    assert_eq!(of(Durability::PowerCut, &all[..2]).same_pages, None);
}

/// What happened: the path of a library stood in names and keys in small letters, where there is
/// no file.
#[test]
fn a_file_keeps_the_letters_of_its_name() {
    let settings = [("journal_mode", "WAL"), ("library", "/opt/SQLite-3.51/libsqlite3.so")];
    let settings = settings.map(|(key, value)| (key.to_owned(), serde_json::json!(value)));
    let engine = fathom_workload::spec::EngineSpec { name: "sqlite".into(), settings: settings.into() };
    let found = Candidate::of(&engine).unwrap();
    assert_eq!(found.name(), "WAL/FULL, library /opt/SQLite-3.51/libsqlite3.so");
}
