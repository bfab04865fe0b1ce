//! Debian's Kannel beside a centre, with the shipped configurations: an application sends over
//! Kannel's HTTP, its message goes through the centre, and both of its reports come back; a message
//! to Kannel's number gets the answer of its service. Kannel is an SMPP client: its bearerbox binds
//! to the centre.
#![allow(clippy::unwrap_used)]

mod free_ports;
mod smpp_client;

use free_ports::free_ports;
use smpp_client::{Client, Server, config, message};
use smsc::smpp::Command as Smpp;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough for any machine: bearerbox tries again every ten seconds.
const FOREVER: Duration = Duration::from_secs(60);

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// A program of Kannel's, which ends with the test.
struct Box(Child);

impl Box {
    fn start(name: &str, dir: &Path) -> Option<Box> {
        let log = std::fs::File::create(dir.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(format!("/usr/sbin/{name}"));
        command.arg("kannel.conf").current_dir(dir).stdout(log.try_clone().unwrap()).stderr(log);
        command.stdin(Stdio::null()).spawn().ok().map(Box)
    }
}

impl Drop for Box {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is answered to a request; none while nobody listens.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn until<T>(what: &str, dir: &Path, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let log = || std::fs::read_to_string(dir.join("bearerbox.log")).unwrap_or_default();
        assert!(begin.elapsed() < FOREVER, "{what} does not come: {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn kannel_sends_and_receives_through_the_centre() {
    if !Path::new("/usr/sbin/bearerbox").exists() {
        return eprintln!("SKIP: Kannel is not installed (apt-get install kannel)");
    }
    let dir = tempfile::tempdir().unwrap();
    let account = example("kannel.toml");
    let account = &account[account.find("[[account]]").unwrap()..];
    // Whoever else may bind has other numbers of accounts.
    let others = config("").replace("number = 1\n", "number = 91\n");
    std::fs::write(dir.path().join("smsc.toml"), format!("{others}\n{account}")).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    // Ports that nobody has; Kannel cannot be told to take any.
    let [admin, boxes, http] = free_ports();
    let reporter = TcpListener::bind("127.0.0.1:0").unwrap();
    let reports = reporter.local_addr().unwrap().port();
    let smpp = server.address.rsplit_once(':').unwrap().1;
    let conf = example("kannel.conf")
        .replace("admin-port = 13000", &format!("admin-port = {admin}"))
        .replace("smsbox-port = 13001", &format!("smsbox-port = {boxes}"))
        .replace("sendsms-port = 13013", &format!("sendsms-port = {http}"))
        .replace("port = 2775", &format!("port = {smpp}"));
    std::fs::write(dir.path().join("kannel.conf"), conf).unwrap();
    let _bearerbox = Box::start("bearerbox", dir.path()).unwrap();
    let status = || get(admin, "/status.txt?password=secret");
    until("bearerbox", dir.path(), || status().filter(|text| text.contains("online")));
    let _smsbox = Box::start("smsbox", dir.path()).unwrap();
    until("smsbox", dir.path(), || status().filter(|text| text.contains("smsbox:")));
    // The command that the configuration shows.
    let answer = until("the sender", dir.path(), || {
        get(
            http,
            &format!(
                "/cgi-bin/sendsms?username=shop&password=secret&from=4900&to=491701234567&text=hello&dlr-mask=31\
                 &dlr-url=http://127.0.0.1:{reports}/%25d"
            ),
        )
    });
    assert!(answer.contains("202") && answer.contains("0: Accepted for delivery"), "{answer}");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let (mut stream, _) = reporter.accept().unwrap();
        let mut request = [0; 1024];
        let count = stream.read(&mut request).unwrap();
        seen.push(String::from_utf8_lossy(&request[..count]).split(' ').nth(1).unwrap().to_owned());
        stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
    seen.sort_unstable();
    // 8: the centre has it; 1: the mobile has it.
    assert_eq!(seen, ["/1", "/8"]);
    // A message to Kannel's number, and what its service says, to the application that sent it.
    let mut other = Client::bound(&server.address, "other", Smpp::BindTransceiver);
    let mut question = message("4900", b"question", 0);
    question.source.text = "1234".into();
    assert_eq!(other.submit(&question).0, 0);
    let deliver = other.deliver(smsc::smpp::Status::Ok);
    assert_eq!(deliver.source.text, "4900");
    assert_eq!(deliver.body, b"This is the service of 4900.");
}
