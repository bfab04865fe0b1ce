use super::*;
use crate::sample::{IoRow, Sample};

#[derive(Default)]
struct MemorySink {
    phases: Vec<PhaseSummary>,
    verified: usize,
}

impl Sink for MemorySink {
    fn sample(&mut self, _: Sample) {}
    fn phase(&mut self, summary: PhaseSummary) {
        self.phases.push(summary);
    }
    fn io(&mut self, _: IoRow) {}
    fn progress(&mut self, _: f64) {}
    fn warning(&mut self, text: String) {
        panic!("{text}");
    }
    fn verified(&mut self, _: String) {
        self.verified += 1;
    }
}

fn run(pairs: &[(&str, serde_json::Value)]) -> MemorySink {
    let given = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let workload = create(Params::read(PARAMETERS, &given).unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut kept = MemorySink::default();
    let context = Context { directory: directory.path(), engine: None, seed: 5 };
    workload.run(&context, &mut kept).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "stores are left behind");
    kept
}

#[test]
fn every_phase_and_number_of_threads_is_measured_and_verified() {
    for store in ["mmdb", "sqlite"] {
        let kept = run(&[
            ("store", store.into()),
            ("threads", vec![1, 4].into()),
            ("messages", 200.into()),
            ("stations", 100.into()),
        ]);
        let of: Vec<_> =
            kept.phases.iter().map(|sample| (sample.phase.as_str(), sample.x, sample.count)).collect();
        let expected: Vec<_> =
            SIDES.iter().flat_map(|side| [(*side, Some(1.0), 200), (*side, Some(4.0), 200)]).collect();
        assert_eq!(of, expected, "{store}");
        assert_eq!(kept.verified, 6);
        for phase in &kept.phases {
            // What reports show as a rate.
            assert_eq!(phase.unit, "message");
            assert!(
                phase.wall_ns > 0 && phase.latency_ns.is_sorted() && phase.latency_ns[0] > 0,
                "{phase:?}"
            );
        }
    }
}

#[test]
fn all_axes_of_mmdb_can_be_switched() {
    let kept = run(&[
        ("threads", vec![2].into()),
        ("messages", 100.into()),
        ("window", 8.into()),
        ("logging", "selective".into()),
        ("unlogged", vec!["sent", "encoded_msg"].into()),
        ("log_kind", "after-image".into()),
        ("group_commit", false.into()),
        ("streams", 2.into()),
        ("segment_mib", 1.into()),
        ("locking", "record".into()),
    ]);
    assert_eq!(kept.phases.len(), 3);
}

/// On the modelled log disk of P5, 20 MB/s, the disk wrote 201 MiB for each store of 6,000
/// messages, 192 of them segments that were filled with zeros, most of it while messages were
/// timed; and no experiment could choose smaller ones.
#[test]
fn segments_may_be_small_where_a_disk_is_slow() {
    let usual = Params::read(PARAMETERS, &BTreeMap::new()).unwrap();
    assert_eq!(usual.count("segment_mib"), MmdbOptions::default().segment_mib);
    let kept = run(&[
        ("phases", vec!["receive"].into()),
        ("threads", vec![2].into()),
        ("messages", 100.into()),
        ("segment_mib", 1.into()),
    ]);
    assert_eq!(kept.phases.len(), 1);
}

#[test]
fn selective_logging_leaves_out_all_tables_or_those_named() {
    let of = |pairs: &[(&str, serde_json::Value)]| {
        let given = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        unlogged(&Params::read(PARAMETERS, &given).unwrap())
    };
    let selective = ("logging", "selective".into());
    let some = ("unlogged", vec!["sent", "ms_state"].into());
    assert_eq!(of(&[]).unwrap(), UnloggedTables::NONE);
    assert_eq!(of(std::slice::from_ref(&selective)).unwrap(), UnloggedTables::ALL);
    assert_eq!(of(&[selective, some.clone()]).unwrap().to_string(), "ms_state, sent");
    let refused = of(&[some]).unwrap_err().to_string();
    assert!(refused.contains("logging = \"selective\" only"), "{refused}");
}

#[test]
fn who_does_not_wait_for_commits_is_promised_less() {
    for (acknowledge, class) in [("durable", Durability::PowerCut), ("early", Durability::PowerCutPrefix)] {
        let given = [("acknowledge".to_owned(), acknowledge.into())].into();
        let workload = create(Params::read(PARAMETERS, &given).unwrap()).unwrap();
        assert_eq!(workload.durability(), Some(class));
    }
    let kept = run(&[
        ("store", "sqlite".into()),
        ("acknowledge", "early".into()),
        ("threads", vec![2].into()),
        ("messages", 100.into()),
    ]);
    assert_eq!(kept.verified, 3);
}

/// What is not installed is left out of a plan with the command that brings it.
#[test]
fn a_store_that_is_a_server_asks_for_it() {
    let needs = |store: &str| needs_of_store(&[("store".to_owned(), store.into())].into());
    assert_eq!((needs("mmdb"), needs("sqlite-naive"), needs("nothing")), (None, None, None));
    assert_eq!(needs_of_store(&BTreeMap::new()), None);
    assert_eq!(
        (needs("postgresql-batched"), needs("redis-cluster")),
        (Some("postgresql"), Some("redis-server"))
    );
}

/// Three masters and three replicas on this machine: what is acknowledged is on two of them, and
/// that is a class of its own.
#[test]
fn a_cluster_survives_one_node() {
    let given = [("store".to_owned(), "redis-cluster".into())].into();
    let workload = create(Params::read(PARAMETERS, &given).unwrap()).unwrap();
    assert_eq!(workload.durability(), Some(Durability::OneNode));
    let early =
        [("store".to_owned(), "redis-cluster".into()), ("acknowledge".to_owned(), "early".into())].into();
    let refused = create(Params::read(PARAMETERS, &early).unwrap()).err().unwrap().to_string();
    assert!(refused.contains("wait for replicas"), "{refused}");
    if let Err(error) = smsc::store::PrivateCluster::is_possible() {
        eprintln!("SKIP: {error}");
        return;
    }
    let kept = run(&[
        ("store", "redis-cluster".into()),
        ("threads", vec![2].into()),
        ("window", 16.into()),
        ("messages", 200.into()),
        ("phases", vec!["receive", "send"].into()),
    ]);
    assert_eq!(kept.phases.iter().map(|phase| phase.count).collect::<Vec<_>>(), [200, 200]);
    assert_eq!(kept.verified, 2);
}

#[test]
fn the_stores_are_those_of_the_centre() {
    assert_eq!(STORES, StoreKind::known().map(StoreKind::name).collect::<Vec<_>>());
    assert_eq!(DERIVABLE.join(", "), smsc::model::UnloggedTables::ALL.to_string());
}
