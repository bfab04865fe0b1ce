//! `sms`: the SMS centre of P5 on one store: messages received, sent, and both at once, by number
//! of threads.
//!
//! The centre is the crate `smsc`, stores and all, so this workload takes no `[engine]`: `store`
//! chooses, and the axes of mmdb are parameters. Each phase (`receive`, `send`, `both`) has the
//! number of threads as its abscissa and a fresh store; what `send` sends was received untimed
//! before. After each, the centre's invariants are checked over the whole store.
//!
//! **Results.** An execution is a message: `count` over `wall_ns` is messages a second. Latency is
//! from submission to the durable acknowledgement (`receive`), from the claim to the durable
//! completion (`send`, `both`). The split's wall time is threads × wall time of the phase, its CPU
//! time that of this process and the store's server, all else `other`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::ErrorKind;

use fathom_probe::Split;
use mmdb::{Locking, LogKind};
use smsc::bench::{Measurement, measure};
use smsc::load::{LoadProfile, Plan, Side};
use smsc::model::UnloggedTables;
use smsc::network::NetworkProfile;
use smsc::store::{Acknowledge, MmdbOptions, StoreKind};

use crate::params::{Kind, Parameter, Params, Preset};
use crate::sample::{PhaseSummary, Sink};
use crate::spec::Durability;
use crate::workload::{Context, IdleParameters, Workload, WorkloadError, WorkloadKind};

/// The workload's entry in the registry.
pub static KIND: WorkloadKind = WorkloadKind {
    name: "sms",
    summary: "an SMS centre (P5) on mmdb, SQLite, PostgreSQL or a Redis Cluster: messages received and sent, by threads",
    parameters: PARAMETERS,
    needs_engine: false,
    needs: needs_of_store,
    abscissa: "threads",
    // However many clients there are: a store has threads of its own, or a server.
    one_thread: |_| false,
    // Its figures are of whole phases.
    samples: |_| 0,
    idle: idle_with_store,
    create,
};

const STORES: &[&str] = &[
    "mmdb",
    "sqlite",
    "sqlite-naive",
    "postgresql",
    "postgresql-grouped",
    "postgresql-batched",
    "postgresql-statements",
    "redis-cluster",
];
const DERIVABLE: &[&str] =
    &["encoded_msg", "to_delivery", "scheduled_msg", "ms_state", "retry_timer", "sent"];
const SIDES: &[&str] = &["receive", "send", "both"];

/// What other stores have not.
const OF_MMDB: &[&str] =
    &["logging", "unlogged", "log_kind", "group_commit", "streams", "segment_mib", "locking"];

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "store",
        kind: Kind::TextOf(STORES),
        default: Preset::Text("mmdb"),
        unit: "",
        description: "Where messages live, and in which form: see `smsc bench --help`.",
    },
    Parameter {
        name: "phases",
        kind: Kind::TextsOf(SIDES),
        default: Preset::Texts(SIDES),
        unit: "",
        description: "What is measured, each on a fresh store.",
    },
    Parameter {
        name: "threads",
        kind: Kind::Integers { min: 1, max: 1024 },
        default: Preset::Integers(&[1, 8, 32, 96]),
        unit: "",
        description: "Numbers of clients, senders, or of each.",
    },
    Parameter {
        name: "window",
        kind: Kind::Integer { min: 1, max: 65_536 },
        default: Preset::Integer(1),
        unit: "messages",
        description: "Messages under way for each client and sender; 1 waits for each.",
    },
    Parameter {
        name: "messages",
        kind: Kind::Integer { min: 1, max: 100_000_000 },
        default: Preset::Integer(30_000),
        unit: "messages",
        description: "Messages of a phase, for each number of threads.",
    },
    Parameter {
        name: "stations",
        kind: Kind::Integer { min: 1, max: 10_000_000 },
        default: Preset::Integer(1_000_000),
        unit: "",
        description: "Stations that messages go to, all alike.",
    },
    Parameter {
        name: "receipt_percent",
        kind: Kind::Integer { min: 0, max: 100 },
        default: Preset::Integer(0),
        unit: "%",
        description: "Messages that ask for a delivery receipt.",
    },
    Parameter {
        name: "acknowledge",
        kind: Kind::TextOf(&["durable", "early"]),
        default: Preset::Text("durable"),
        unit: "",
        description: "Whether an answer waits for the durable commit. Early: flushes cost nobody time, and what is left is processing.",
    },
    Parameter {
        name: "logging",
        kind: Kind::TextOf(&["all", "selective"]),
        default: Preset::Text("all"),
        unit: "",
        description: "mmdb: whether tables that follow from others are logged, too.",
    },
    Parameter {
        name: "unlogged",
        kind: Kind::TextsOf(DERIVABLE),
        default: Preset::Unset,
        unit: "",
        description: "mmdb with selective logging: the tables that are left out of the log; all that follow from others where none is named.",
    },
    Parameter {
        name: "log_kind",
        kind: Kind::TextOf(&["differential", "after-image"]),
        default: Preset::Text("differential"),
        unit: "",
        description: "mmdb: what a log record holds.",
    },
    Parameter {
        name: "group_commit",
        kind: Kind::Boolean,
        default: Preset::Boolean(true),
        unit: "",
        description: "mmdb: whether one flush serves all commits that wait.",
    },
    Parameter {
        name: "streams",
        kind: Kind::Integer { min: 1, max: 256 },
        default: Preset::Integer(1),
        unit: "",
        description: "mmdb: log streams.",
    },
    Parameter {
        name: "segment_mib",
        kind: Kind::Integer { min: 1, max: 1024 },
        // As `MmdbOptions` has it.
        default: Preset::Integer(64),
        unit: "MiB",
        description: "mmdb: size of a log segment. Three are filled with zeros beforehand or meanwhile: small ones on slow disks.",
    },
    Parameter {
        name: "locking",
        kind: Kind::TextOf(&["none", "record", "page", "container"]),
        default: Preset::Text("none"),
        unit: "",
        description: "mmdb: what is locked besides stations.",
    },
];

/// The workload, its parameters checked.
struct Sms {
    params: Params,
    store: StoreKind,
    acknowledge: Acknowledge,
    mmdb: MmdbOptions,
}

/// The server that a store is, if it is none of this program's own.
fn needs_of_store(params: &BTreeMap<String, serde_json::Value>) -> Option<&'static str> {
    match StoreKind::named(params.get("store")?.as_str()?)? {
        StoreKind::RedisCluster => Some("redis-server"),
        kind if kind.has_server() => Some("postgresql"),
        _ => None,
    }
}

/// The options of mmdb, with another store.
fn idle_with_store(params: &Params) -> Option<IdleParameters> {
    let why = "is an option of mmdb, and the store is another";
    (params.text("store") != "mmdb").then_some(IdleParameters { parameters: OF_MMDB, why })
}

fn create(params: Params) -> Result<Box<dyn Workload>, WorkloadError> {
    let store = StoreKind::named(params.text("store"))
        .ok_or_else(|| WorkloadError::refused(KIND.name, "store", "unknown".into()))?;
    let locking = match params.text("locking") {
        "none" => Locking::None,
        "record" => Locking::Record,
        "page" => Locking::Page,
        _ => Locking::Container,
    };
    let differential = params.text("log_kind") == "differential";
    let mmdb = MmdbOptions {
        unlogged: unlogged(&params)?,
        log_kind: if differential { LogKind::Differential } else { LogKind::AfterImage },
        group_commit: params.boolean("group_commit"),
        // At most 256.
        streams: params.count("streams") as usize,
        segment_mib: params.count("segment_mib"),
        locking,
        ..MmdbOptions::default()
    };
    let early = params.text("acknowledge") == "early";
    if early && store == StoreKind::RedisCluster {
        let problem =
            "early: the cluster has no such thing, as its functions wait for replicas; leave it out";
        return Err(WorkloadError::refused(KIND.name, "acknowledge", problem.into()));
    }
    let acknowledge = if early { Acknowledge::Early } else { Acknowledge::Durable };
    Ok(Box::new(Sms { params, store, acknowledge, mmdb }))
}

/// The tables that are left out of the log.
fn unlogged(params: &Params) -> Result<UnloggedTables, WorkloadError> {
    let refused = |problem| WorkloadError::refused(KIND.name, "unlogged", problem);
    match (params.text("logging") == "selective", params.is_set("unlogged")) {
        (false, false) => Ok(UnloggedTables::NONE),
        (false, true) => Err(refused("is for logging = \"selective\" only: set that as well".into())),
        (true, false) => Ok(UnloggedTables::ALL),
        (true, true) => {
            let names = params.texts("unlogged");
            UnloggedTables::named(names.iter().map(String::as_str))
                .map_err(|error| refused(error.to_string()))
        }
    }
}

impl Sms {
    fn plan(&self, side: Side, threads: usize, seed: u64) -> Plan {
        let load = LoadProfile {
            seed,
            stations: self.params.count("stations"),
            // At most 100.
            receipt_percent: self.params.count("receipt_percent") as u32,
            ..LoadProfile::default()
        };
        Plan {
            side,
            receivers: threads,
            senders: threads,
            // At most 65,536.
            window: self.params.count("window") as usize,
            messages: self.params.count("messages"),
            load,
            network: NetworkProfile::perfect(seed),
            keep_accepted: true,
            acknowledge: self.acknowledge,
            ..Plan::default()
        }
    }
}

impl Workload for Sms {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let phases = self.params.texts("phases");
        let threads = self.params.integers("threads");
        let steps = (phases.len() * threads.len()) as f64;
        let mut done = 0.0;
        for phase in &phases {
            let side = match phase.as_str() {
                "receive" => Side::Receiver,
                "send" => Side::Sender,
                _ => Side::Both,
            };
            for &threads in &threads {
                let directory = context.directory.join(format!("{phase}-{threads}"));
                let io = |source| WorkloadError::Io { path: directory.display().to_string(), source };
                std::fs::create_dir(&directory).map_err(io)?;
                // A server that root starts runs as another user, who has to get through.
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
                std::fs::set_permissions(&directory, mode).map_err(io)?;
                // At most 1024.
                let plan = self.plan(side, threads as usize, context.seed);
                let measured = measure(&directory, self.store, &self.mmdb, &plan, true, &mut |_| true);
                let measured = measured.map_err(|error| match error.is_full_disk() {
                    true => io(std::io::Error::new(ErrorKind::StorageFull, error.to_string())),
                    false => WorkloadError::Verification(format!("{phase}, {threads} threads: {error}")),
                })?;
                sink.phase(summary(phase, threads, side, &measured));
                let checked = measured.checked.join(", ");
                sink.verified(format!("{phase}, {threads} threads: the invariants {checked} hold"));
                std::fs::remove_dir_all(&directory).map_err(io)?;
                done += 1.0;
                sink.progress(done / steps);
            }
        }
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        self.params.all().clone()
    }

    /// Every store syncs before it acknowledges, unless it is told not to wait; the cluster on a
    /// second node, too.
    fn durability(&self) -> Option<Durability> {
        Some(match (self.acknowledge, self.store) {
            (_, StoreKind::RedisCluster) => Durability::OneNode,
            (Acknowledge::Durable, _) => Durability::PowerCut,
            (Acknowledge::Early, _) => Durability::PowerCutPrefix,
        })
    }
}

fn summary(phase: &str, threads: i64, side: Side, measured: &Measurement) -> PhaseSummary {
    let ns = |ms: f64| (ms * 1e6) as u64;
    let count = if side == Side::Receiver { measured.figures.accepted } else { measured.figures.finished };
    let wall_ns = (measured.seconds * 1e9) as u64;
    let threads_ns = wall_ns.saturating_mul(threads.unsigned_abs());
    let cpu_ns = (measured.cpu_us_per_message.unwrap_or(0.0) * 1000.0 * count as f64) as u64;
    let cpu_ns = cpu_ns.min(threads_ns);
    let split = Split { wall_ns: threads_ns, cpu_ns, other_ns: threads_ns - cpu_ns, ..Split::default() };
    let latency = if side == Side::Receiver { measured.accept_ms } else { measured.send_ms };
    PhaseSummary {
        phase: phase.to_owned(),
        x: Some(threads as f64),
        unit: "message".into(),
        count,
        wall_ns,
        // Without executions these are no times, and nobody shows them.
        latency_ns: latency.unwrap_or_default().map(ns),
        split,
        lock_wait_ns: None,
        lock_waits: None,
        critical_path: None,
    }
}
