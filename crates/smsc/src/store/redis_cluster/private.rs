//! A cluster of our own on this machine: masters with a replica each, in a directory, on loopback,
//! gone with their process.

use super::cluster::SLOTS;
use super::connection::{Connection, Reply};
use super::url::RedisClusterUrl;
use crate::store::StoreError;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// How long nodes may take to answer, and to agree.
const START: Duration = Duration::from_secs(120);
const PROGRAM: &str = "redis-server";
/// How far a node's second port, for the others, is from its first.
const BUS: u16 = 10_000;

/// An order to start a process, and where the process is handed to.
type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

/// The thread that starts the nodes and ends after them: the kernel ends a node with the thread
/// that started it, and whoever opens a store may be a thread that soon has nothing to do.
struct Starter(mpsc::Sender<Order>);

impl Starter {
    fn new() -> std::io::Result<Starter> {
        let (to, orders) = mpsc::channel::<Order>();
        std::thread::Builder::new().name("smsc-nodes".into()).spawn(move || {
            for (mut command, answer) in orders {
                // Whoever ordered it waits for it.
                let _ = answer.send(command.spawn());
            }
        })?;
        Ok(Starter(to))
    }

    fn spawn(&self, command: Command) -> std::io::Result<Child> {
        let gone = || std::io::Error::other("the thread that starts nodes has ended");
        let (answer, child) = mpsc::channel();
        self.0.send((command, answer)).map_err(|_| gone())?;
        child.recv().map_err(|_| gone())?
    }
}

/// The nodes: masters first, then the replica of each, as they were made.
pub struct PrivateCluster {
    dir: PathBuf,
    ports: Vec<u16>,
    nodes: Vec<Option<Child>>,
    starter: Starter,
}

/// Why a private cluster cannot be.
fn refused(problem: impl Into<String>) -> StoreError {
    StoreError::Refused { place: "a private Redis Cluster".into(), problem: problem.into() }
}

impl PrivateCluster {
    /// Whether Redis is installed; else why not.
    ///
    /// # Errors
    /// It is not, or too old.
    pub fn is_possible() -> Result<(), StoreError> {
        let help = "install it: apt-get install redis-server (7.0 or later)";
        let told = Command::new(PROGRAM).arg("--version").output();
        let told = told.map_err(|error| refused(format!("{PROGRAM}: {error}; {help}")))?;
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or_default();
        let major = version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(0_u32);
        if major < 7 {
            return Err(refused(format!("{PROGRAM} is {version:?}, and functions came with 7.0; {help}")));
        }
        Ok(())
    }

    /// Starts so many masters with a replica each in `dir`, or those that were there.
    ///
    /// # Errors
    /// Redis is not installed; a node does not start; a port of before is taken.
    pub fn open(dir: &Path, masters: usize) -> Result<PrivateCluster, StoreError> {
        PrivateCluster::is_possible()?;
        std::fs::create_dir_all(dir).map_err(StoreError::io(dir))?;
        // A node works in a directory of its own: names have to lead there from everywhere.
        let dir = &dir.canonicalize().map_err(StoreError::io(dir))?;
        let list = dir.join("ports");
        let known = match std::fs::read_to_string(&list) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::io(&list)(error)),
        };
        let ports: Vec<u16> = match &known {
            Some(text) => text.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
            None => free_ports(2 * masters)?,
        };
        let nodes = ports.iter().map(|_| None).collect();
        let starter = Starter::new().map_err(StoreError::io(Path::new("a thread")))?;
        let mut cluster = PrivateCluster { dir: dir.to_owned(), ports, nodes, starter };
        for at in 0..cluster.ports.len() {
            cluster.start(at)?;
        }
        if known.is_none() {
            cluster.join()?;
            // Once they are a cluster: what was cut off before is made again from nothing.
            let ports: Vec<String> = cluster.ports.iter().map(u16::to_string).collect();
            std::fs::write(&list, ports.join(" ")).map_err(StoreError::io(&list))?;
        }
        cluster.until("agree", |cluster| cluster.is_well())?;
        Ok(cluster)
    }

    /// How many nodes there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ports.len()
    }

    /// Its URL, with these parameters.
    #[must_use]
    pub fn url(&self, parameters: &str) -> String {
        let nodes: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis-cluster://{}/?{parameters}", nodes.join(","))
    }

    /// The process of a node that runs.
    #[must_use]
    pub fn process(&self, at: usize) -> Option<u32> {
        self.nodes.get(at)?.as_ref().map(Child::id)
    }

    /// Starts a node, and waits until it answers.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(&mut self, at: usize) -> Result<(), StoreError> {
        let Some(&port) = self.ports.get(at) else { return Err(refused("there is no such node")) };
        let dir = self.dir.join(at.to_string());
        std::fs::create_dir_all(&dir).map_err(StoreError::io(&dir))?;
        let log = dir.join("redis.log");
        let words = [
            ("port", port.to_string()),
            ("bind", "127.0.0.1".into()),
            ("dir", dir.display().to_string()),
            ("logfile", log.display().to_string()),
            ("daemonize", "no".into()),
            ("cluster-enabled", "yes".into()),
            ("cluster-config-file", "nodes.conf".into()),
            ("cluster-node-timeout", "2000".into()),
            // A replica that was cut off for long may still take over: here all are one machine.
            ("cluster-replica-validity-factor", "0".into()),
            ("cluster-allow-replica-migration", "no".into()),
            ("appendonly", "yes".into()),
            ("appendfsync", "always".into()),
            ("min-replicas-to-write", "1".into()),
            ("min-replicas-max-lag", "10".into()),
            ("repl-diskless-sync-delay", "0".into()),
            ("maxmemory-policy", "noeviction".into()),
            ("save", String::new()),
        ];
        let mut command = Command::new(PROGRAM);
        for (word, value) in words {
            command.arg(format!("--{word}")).arg(value);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        end_with_us(&mut command);
        let child = self.starter.spawn(command).map_err(|error| refused(format!("{PROGRAM}: {error}")))?;
        self.nodes[at] = Some(child);
        let begin = Instant::now();
        loop {
            let ended = self.nodes[at].as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = ended {
                self.nodes[at] = None;
                let told = std::fs::read_to_string(&log).unwrap_or_default();
                let last = told.lines().last().unwrap_or_default().to_owned();
                let is_taken = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
                let holder = if is_taken {
                    "; another process has that port: where it is an smsc that has this store open, wait \
                     until it has ended"
                } else {
                    ""
                };
                return Err(refused(format!("the node of port {port} has ended ({status}): {last}{holder}")));
            }
            let problem = match self.ask(at, &[b"PING"]) {
                Ok(_) if self.is_own(at) => return Ok(()),
                Ok(_) => "another process does".to_owned(),
                Err(error) => error,
            };
            // While it loads it is there, too.
            if begin.elapsed() > START && !problem.starts_with("LOADING") {
                return Err(refused(format!("the node of port {port} does not answer: {problem}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the node that answers is the one that was started here. Whoever has its port
    /// answers, too, before it has ended for that: an smsc that has this store, or another cluster.
    fn is_own(&self, at: usize) -> bool {
        let told = self.ask(at, &[b"INFO", b"server"]).map(|told| told.text()).unwrap_or_default();
        let process = told.lines().find_map(|line| line.strip_prefix("process_id:"));
        let process = process.and_then(|number| number.trim().parse::<u32>().ok());
        process.is_some() && process == self.process(at)
    }

    /// Kills a node as `kill -9` does.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.nodes.get_mut(at).and_then(Option::take) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether a node is a master now.
    #[must_use]
    pub fn is_master(&self, at: usize) -> bool {
        let role = self.ask(at, &[b"ROLE"]);
        role.is_ok_and(|role| role.array().first().is_some_and(|role| role.text() == "master"))
    }

    /// Whether all nodes see a whole cluster, and each replica its master.
    #[must_use]
    pub fn is_well(&self) -> bool {
        (0..self.count()).all(|at| {
            let state = self.ask(at, &[b"CLUSTER", b"INFO"]).map(|state| state.text()).unwrap_or_default();
            let linked = self.ask(at, &[b"INFO", b"replication"]).map(|info| info.text()).unwrap_or_default();
            let is_linked = match linked.contains("role:master") {
                // One whose place another has taken has none and needs none.
                true => linked.contains("state=online") || self.slots_of(at) == Some(0),
                false => linked.contains("master_link_status:up"),
            };
            let nodes = format!("cluster_known_nodes:{}\r", self.count());
            state.contains("cluster_state:ok") && state.contains(&nodes) && is_linked
        })
    }

    fn slots_of(&self, at: usize) -> Option<usize> {
        let told = self.ask(at, &[b"CLUSTER", b"NODES"]).ok()?.text();
        let own = told.lines().find(|line| line.contains("myself"))?;
        Some(own.split(' ').count().saturating_sub(8))
    }

    /// Waits until the cluster is well.
    ///
    /// # Errors
    /// It does not become so.
    pub fn until_well(&self) -> Result<(), StoreError> {
        self.until("agree", PrivateCluster::is_well)
    }

    fn until(&self, what: &str, is_so: impl Fn(&PrivateCluster) -> bool) -> Result<(), StoreError> {
        let begin = Instant::now();
        while !is_so(self) {
            if begin.elapsed() > START {
                let logs = self.dir.display();
                return Err(refused(format!(
                    "the nodes do not {what}; their logs are in {logs}/*/redis.log"
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Asks a node something.
    fn ask(&self, at: usize, words: &[&[u8]]) -> Result<Reply, String> {
        let going = AtomicBool::new(false);
        let port = self.ports.get(at).copied().unwrap_or(0);
        let url = RedisClusterUrl::parse("redis-cluster://127.0.0.1/").map_err(|error| error.to_string())?;
        let mut connection =
            Connection::open(("127.0.0.1", port), &url, None, &going).map_err(|e| e.to_string())?;
        match connection.ask(words, Instant::now() + Duration::from_secs(5), &going) {
            Ok(Reply::Error(error)) => Err(error),
            Ok(reply) => Ok(reply),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Makes a cluster of nodes that know nothing.
    fn join(&self) -> Result<(), StoreError> {
        let masters = self.count() / 2;
        let ask = |at: usize, words: &[&[u8]]| {
            self.ask(at, words).map_err(|error| refused(format!("node of port {}: {error}", self.ports[at])))
        };
        for at in 0..masters {
            let (first, last) = (SLOTS * at / masters, SLOTS * (at + 1) / masters - 1);
            let (first, last) = (first.to_string(), last.to_string());
            ask(at, &[b"CLUSTER", b"ADDSLOTSRANGE", first.as_bytes(), last.as_bytes()])?;
            let epoch = (at + 1).to_string();
            ask(at, &[b"CLUSTER", b"SET-CONFIG-EPOCH", epoch.as_bytes()])?;
        }
        for at in 1..self.count() {
            ask(at, &[b"CLUSTER", b"MEET", b"127.0.0.1", self.ports[0].to_string().as_bytes()])?;
        }
        self.until("meet", |cluster| {
            let nodes = format!("cluster_known_nodes:{}\r", cluster.count());
            (0..cluster.count()).all(|at| {
                let told =
                    cluster.ask(at, &[b"CLUSTER", b"INFO"]).map(|told| told.text()).unwrap_or_default();
                told.contains(&nodes) && told.contains("cluster_slots_assigned:16384")
            })
        })?;
        for at in masters..self.count() {
            let master = ask(at - masters, &[b"CLUSTER", b"MYID"])?.text();
            ask(at, &[b"CLUSTER", b"REPLICATE", master.as_bytes()])?;
        }
        Ok(())
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        (0..self.count()).for_each(|at| self.kill(at));
    }
}

/// The kernel ends a node when the thread that started it has ended.
fn end_with_us(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let parent = std::process::id();
    // SAFETY: between fork and exec, only calls that are safe there: prctl(2) and getppid(2).
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // It may have ended before.
            if libc::getppid() as u32 != parent {
                return Err(std::io::Error::other("the parent has ended"));
            }
            Ok(())
        });
    }
}

/// Ports that nobody has, with room for the second port of each. Both are below those that the
/// system gives to whoever asks for any or connects (32,768 and on), which may be gone before the
/// node has come up.
fn free_ports(count: usize) -> Result<Vec<u16>, StoreError> {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 12_000;
    let now = UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
    let begin = (u64::from(std::process::id()) * 7919 + u64::from(now)) % u64::from(COUNT);
    let mut found: Vec<(u16, TcpListener, TcpListener)> = Vec::new();
    for at in 0..COUNT {
        let port = FIRST + (begin as u16 + at) % COUNT;
        let (first, bus) =
            (TcpListener::bind(("127.0.0.1", port)), TcpListener::bind(("127.0.0.1", port + BUS)));
        if let (Ok(first), Ok(bus)) = (first, bus) {
            found.push((port, first, bus));
        }
        if found.len() == count {
            return Ok(found.into_iter().map(|found| found.0).collect());
        }
    }
    Err(refused("there are no free ports on this machine"))
}
