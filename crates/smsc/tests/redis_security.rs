//! A Redis Cluster that speaks TLS alone and knows a user with the least rights: `smsc serve`,
//! `smsc check` and a bench work on it, and what is missing or wrong is told with the node that said
//! so.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use smpp_client::{Client, Server, config, message};
use smsc::centre::Rules;

use smsc::smpp::{Command as Smpp, Status};
use smsc::store::{Opening, Place, PrivateCluster, RedisClusterStore, RedisClusterUrl, Store};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The administrator's, for the nodes among themselves as well.
const ROOT: &str = "root";
/// What docs/redis-cluster.md says that the user needs.
const RIGHTS: &str = "+cluster|slots +info +config|get +wait +asking +function|load +fcall +fcall_ro +@hash \
                      +@sortedset +scan +time ~smsc:*";
/// A password that has everything special in it.
const PASSWORD: &str = "a:b@c/d%e?f#g";
const PASSWORD_ENCODED: &str = "a%3Ab%40c%2Fd%25e%3Ff%23g";

/// Writes `NAME-ca.pem`, `NAME.pem` and `NAME.key`: a CA of its own, and a certificate for the
/// loopback address.
fn certificate(dir: &Path, name: &str) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a certificate whose issuer has its own name for one that has signed itself.
    params.distinguished_name.push(DnType::CommonName, format!("CA of {name}"));
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join(format!("{name}-ca.pem")), issuer.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

/// Three masters and three replicas that listen with TLS alone.
struct Nodes {
    dir: tempfile::TempDir,
    ports: Vec<u16>,
    children: Vec<Child>,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Nodes {
    /// None where Redis is not installed, or knows no TLS.
    fn start() -> Option<Nodes> {
        if let Err(error) = PrivateCluster::is_possible() {
            eprintln!("SKIP: {error}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        certificate(dir.path(), "node");
        certificate(dir.path(), "other");
        let mut nodes = Nodes { ports: ports(6), dir, children: Vec::new() };
        for at in 0..6 {
            nodes.spawn(at);
        }
        let begin = Instant::now();
        while let Some(at) = (0..6).find(|&at| nodes.redis(at, &["PING"]) != "PONG") {
            if nodes.children[at].try_wait().unwrap().is_some() {
                eprintln!("SKIP: this redis-server knows no TLS: {}", nodes.log(at));
                return None;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{}", nodes.log(at));
            std::thread::sleep(Duration::from_millis(50));
        }
        let addresses: Vec<String> = nodes.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut words = vec!["--cluster", "create"];
        words.extend(addresses.iter().map(String::as_str));
        words.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        let made = nodes.redis_cli(0, &words);
        assert!(made.status.success(), "{made:?}");
        let all_linked = || {
            (0..6).all(|at| {
                let info = nodes.redis(at, &["INFO", "replication"]);
                let is_linked = info.contains("state=online") || info.contains("master_link_status:up");
                // Each node finds out for itself that all slots are there.
                is_linked && nodes.redis(at, &["CLUSTER", "INFO"]).contains("cluster_state:ok")
            })
        };
        while !all_linked() {
            assert!(begin.elapsed() < Duration::from_secs(120), "{}", nodes.log(0));
            std::thread::sleep(Duration::from_millis(100));
        }
        nodes.allow(RIGHTS);
        Some(nodes)
    }

    fn spawn(&mut self, at: usize) {
        let own = self.dir.path().join(at.to_string());
        std::fs::create_dir_all(&own).unwrap();
        let file = |name: &str| self.dir.path().join(name).display().to_string();
        let words = [
            ("port", "0".into()),
            ("tls-port", self.ports[at].to_string()),
            ("tls-cluster", "yes".into()),
            ("tls-replication", "yes".into()),
            ("tls-auth-clients", "no".into()),
            ("tls-cert-file", file("node.pem")),
            ("tls-key-file", file("node.key")),
            ("tls-ca-cert-file", file("node-ca.pem")),
            ("requirepass", ROOT.into()),
            ("masterauth", ROOT.into()),
            ("bind", "127.0.0.1".into()),
            ("dir", own.display().to_string()),
            ("logfile", own.join("redis.log").display().to_string()),
            ("cluster-enabled", "yes".into()),
            ("cluster-node-timeout", "5000".into()),
            ("appendonly", "yes".into()),
            ("appendfsync", "always".into()),
            ("min-replicas-to-write", "1".into()),
            ("repl-diskless-sync-delay", "0".into()),
            ("save", String::new()),
        ];
        let mut command = Command::new("redis-server");
        for (word, value) in words {
            command.arg(format!("--{word}")).arg(value);
        }
        // SAFETY: between fork and exec, only a call that is safe there: prctl(2).
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        self.children.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    fn log(&self, at: usize) -> String {
        std::fs::read_to_string(self.dir.path().join(at.to_string()).join("redis.log")).unwrap_or_default()
    }

    fn redis_cli(&self, at: usize, words: &[&str]) -> Output {
        let mut command = Command::new("redis-cli");
        command.args(["--tls", "--cacert"]).arg(self.dir.path().join("node-ca.pem"));
        command.args(["-h", "127.0.0.1", "-p", &self.ports[at].to_string()]).args(words);
        command.env("REDISCLI_AUTH", ROOT).output().unwrap()
    }

    fn redis(&self, at: usize, words: &[&str]) -> String {
        String::from_utf8_lossy(&self.redis_cli(at, words).stdout).trim().to_owned()
    }

    /// Gives the user these rights, and no others, at every node.
    fn allow(&self, rights: &str) {
        let password = format!(">{PASSWORD}");
        let mut words = vec!["ACL", "SETUSER", "smsc", "reset", "on", &password];
        words.extend(rights.split_whitespace());
        for at in 0..6 {
            assert_eq!(self.redis(at, &words), "OK", "{rights}");
        }
    }

    /// The store's URL, as this user and with this password, with the CA of this name.
    fn url(&self, user: &str, ca: &str) -> String {
        let nodes: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let ca = self.dir.path().join(format!("{ca}-ca.pem")).display().to_string();
        format!("redis-cluster://{user}@{}/?shards=64&keep=0&tls=yes&tlsrootcert={ca}", nodes.join(","))
    }
}

/// Ports that nobody has, whose second ones are free, too.
fn ports(count: usize) -> Vec<u16> {
    let mut found: Vec<(u16, TcpListener, TcpListener)> = Vec::new();
    // Below those that the system gives to whoever asks for any.
    let mut port = 12_000 + (std::process::id() % 10_000) as u16;
    while found.len() < count {
        port += 1;
        let pair = (TcpListener::bind(("127.0.0.1", port)), TcpListener::bind(("127.0.0.1", port + 10_000)));
        if let (Ok(first), Ok(second)) = pair {
            found.push((port, first, second));
        }
    }
    found.into_iter().map(|found| found.0).collect()
}

fn open(url: &str) -> Result<RedisClusterStore, String> {
    let url = RedisClusterUrl::parse(url).unwrap();
    RedisClusterStore::at(&url, Rules::default(), Opening::OrCreate).map_err(|error| error.to_string())
}

#[test]
fn a_cluster_with_tls_and_a_user_of_few_rights_is_a_store() {
    let Some(nodes) = Nodes::start() else { return };
    let user = format!("smsc:{PASSWORD_ENCODED}");
    let url = nodes.url(&user, "node");
    // What is wrong, before there is a store.
    let plain = format!("redis-cluster://{user}@127.0.0.1:{}/", nodes.ports[0]);
    for (url, words) in [
        (nodes.url(&user, "other"), "certificate"),
        (nodes.url("smsc:wrong", "node"), "WRONGPASS"),
        (nodes.url("nobody:x", "node"), "WRONGPASS"),
        (plain, "no node of the cluster can be asked"),
    ] {
        let error = open(&url).err().unwrap();
        assert!(error.contains(words) && !error.contains(PASSWORD), "{words}: {error}");
        assert!(!error.contains("wrong\"") && !error.contains(PASSWORD_ENCODED), "{error}");
    }
    // A name instead of the address that the nodes tell: the certificate is for the address.
    let by_name = url.replacen("127.0.0.1", "localhost", 1).replace(",127.0.0.1", ",localhost");
    assert!(open(&by_name).err().unwrap().contains("certificate"), "{by_name}");
    // A served store, from making it to looking at it.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    let server = Server::start_at(dir.path(), &url, &[]);
    assert!(!server.said.contains(PASSWORD) && !server.said.contains(PASSWORD_ENCODED), "{}", server.said);
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransceiver);
    for number in 0..20 {
        assert_eq!(client.submit(&message(&format!("49170{number:04}"), b"hello", 1)).0, 0);
    }
    (0..20).for_each(|_| assert_eq!(client.deliver(Status::Ok).esm_class, 4));
    let smsc = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smsc"));
        let output = command.args(words).env("REDISCLI_AUTH", PASSWORD).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    // The password of the environment, and a configuration with the URL.
    let without = nodes.url("smsc", "node");
    let (code, said) = smsc(&["check", &without]);
    assert!(code == Some(0) && !said.contains(PASSWORD), "{said}");
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
    let configured = format!("store = \"{url}\"\n{}", config(""));
    assert!(matches!(smsc::serve::Config::parse("x", &configured).unwrap().store, Some(Place::Cluster(_))));
    // Each right that it needs, taken away: what is said names a node and the command.
    for (right, command) in [
        ("+cluster|slots", "cluster|slots"),
        ("+info", "info"),
        ("+wait", "wait"),
        ("+function|load", "function|load"),
        ("+fcall", "fcall"),
        ("+@hash", "hget"),
        ("+@sortedset", "zadd"),
    ] {
        let rest: Vec<&str> = RIGHTS.split_whitespace().filter(|word| *word != right).collect();
        nodes.allow(&rest.join(" "));
        let begin = Instant::now();
        let error = open(&url).err().unwrap_or_else(|| panic!("{right} is not needed"));
        assert!(error.contains("127.0.0.1:") && error.contains(command), "{right}: {error}");
        assert!(!error.contains(PASSWORD) && begin.elapsed() < Duration::from_secs(60), "{error}");
    }
    // Its keys: another prefix is nobody's of this user's.
    nodes.allow(RIGHTS);
    let error = open(&url.replace("keep=0", "keep=0&prefix=other")).err().unwrap();
    assert!(error.contains("NOPERM"), "{error}");
    // Settings that it may not read are a remark.
    nodes.allow(&RIGHTS.replace("+config|get", ""));
    let store = open(&url).unwrap();
    assert!(store.remarks().iter().any(|remark| remark.contains("does not tell its settings")));
}
