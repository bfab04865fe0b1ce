//! A server as a user starts it, and a client that sends whatever octets it is told to.
#![allow(clippy::unwrap_used, dead_code)]

use smsc::serve::hash_password;
use smsc::smpp::{
    Address, Bind, Command as Smpp, Deliver, Framing, HEADER_OCTETS, Header, Status, Submit, Time, frame, pdu,
};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

pub const PASSWORD: &str = "secret";

/// However slow the machine: what is waited for so long does not come.
pub const FOREVER: Duration = Duration::from_secs(120);

/// One hash for all tests: it is slow on purpose.
pub fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| hash_password(PASSWORD).unwrap())
}

/// Two applications: "app" (1), and "other" (2), whose number is 1234. `more` goes before them.
pub fn config(more: &str) -> String {
    let account = |number: u32, system_id: &str, limits: &str| {
        let hash = hash();
        format!(
            "[[account]]\nnumber = {number}\nsystem_id = \"{system_id}\"\npassword = \"{hash}\"\n{limits}\n"
        )
    };
    let [app, other] = [account(1, "app", "sessions = 3"), account(2, "other", "numbers = [\"1234\"]")];
    let limited = account(3, "limited", "rate = 5\nwindow = 100\nsessions = 1");
    let narrow = account(4, "narrow", "window = 1");
    format!("listen = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n{more}\n{app}{other}{limited}{narrow}")
}

/// A server that runs.
pub struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub address: String,
    pub http: String,
    /// Where the HTTP API and the admin page are, if they are.
    pub api: String,
    pub admin: String,
    /// What it said until it listened.
    pub said: String,
    /// The lines of that which [`Server::line_with`] has not heard.
    unheard: VecDeque<String>,
}

impl Server {
    /// Starts one on the store in `dir`, with the configuration there.
    pub fn start(dir: &Path, options: &[&str]) -> Server {
        Server::start_with(dir, options, "true")
    }

    /// As [`Server::start`], in a shell after this command.
    pub fn start_with(dir: &Path, options: &[&str], before: &str) -> Server {
        let store = dir.join("store").display().to_string();
        Server::start_as(dir, &[&["--store", &store], options].concat(), before)
    }

    /// As [`Server::start`], on the store of this URL.
    pub fn start_at(dir: &Path, url: &str, options: &[&str]) -> Server {
        Server::start_as(dir, &[&["--store", url], options].concat(), "true")
    }

    /// As [`Server::start`], on the store that the configuration names.
    pub fn start_configured(dir: &Path, options: &[&str]) -> Server {
        Server::start_as(dir, options, "true")
    }

    fn start_as(dir: &Path, options: &[&str], before: &str) -> Server {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_smsc")]);
        command.args(["serve", "--config"]).arg(dir.join("smsc.toml"));
        let mut child = command.args(options).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let nothing = String::new;
        let [address, http, api, admin, said] = std::array::from_fn(|_| nothing());
        let unheard = VecDeque::new();
        let mut server = Server { child, stderr, address, http, api, admin, said, unheard };
        while server.address.is_empty() {
            let line = server.line();
            assert!(!line.is_empty(), "the server ended: {}", server.said);
            if let Some(address) = line.strip_prefix("listening: ") {
                server.address = address.trim().to_owned();
            }
            if let Some(address) = line.strip_prefix("metrics: http://") {
                server.http = address.trim().trim_end_matches("/metrics").to_owned();
            }
            for (name, address) in [("api: http://", &mut server.api), ("admin: http://", &mut server.admin)]
            {
                if let Some(found) = line.strip_prefix(name) {
                    *address = found.trim().trim_end_matches('/').to_owned();
                }
            }
            server.said.push_str(&line);
            server.unheard.push_back(line);
        }
        server
    }

    /// One with the usual configuration in a new directory, small log segments, and a perfect
    /// network.
    pub fn new(more: &str) -> (tempfile::TempDir, Server) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("smsc.toml"), config(more)).unwrap();
        let server = Server::start(dir.path(), &["--segment-mib", "1"]);
        (dir, server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for its end: its exit code, and what it said since. One that does not end in two
    /// minutes is killed, and has no exit code.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        let (ended, end) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            if end.recv_timeout(FOREVER) == Err(RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &id]).status();
            }
        });
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let code = self.child.wait().unwrap().code();
        drop(ended);
        (code, said)
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    /// The next line that it says with these words, without those between; what it says once may
    /// come before it listens.
    pub fn line_with(&mut self, words: &str) -> String {
        loop {
            let line = self.unheard.pop_front();
            let line = line.unwrap_or_else(|| self.line());
            assert!(!line.is_empty(), "the server ended without a word of {words}");
            if line.contains(words) {
                return line;
            }
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection from an address of this machine.
pub fn connect_from(source: [u8; 4], address: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        socket.connect(address.parse().unwrap()).await
    });
    let stream = connected.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// A number of `GET /metrics`, by its name.
pub fn metric(http: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(http).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}: {answer}")).parse().unwrap()
}

/// A bind, whole.
pub fn bind_pdu(system_id: &str, password: &str, command: Smpp) -> Vec<u8> {
    numbered_bind_pdu(system_id, password, command, 1)
}

fn numbered_bind_pdu(system_id: &str, password: &str, command: Smpp, sequence: u32) -> Vec<u8> {
    let bind = Bind {
        system_id: system_id.into(),
        password: password.into(),
        system_type: String::new(),
        interface_version: 0x34,
    };
    let mut out = Vec::new();
    bind.write(&mut out, command, sequence);
    out
}

/// A connection to it.
pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
    sequence: u32,
    /// deliver_sm that came while something else was waited for; they have no answer yet.
    waiting: VecDeque<(Header, Vec<u8>)>,
}

pub fn word(octets: &[u8]) -> u32 {
    u32::from_be_bytes(octets[..4].try_into().unwrap())
}

/// A C-Octet String at the beginning of a body.
pub fn c_string(body: &[u8]) -> String {
    let end = body.iter().position(|&octet| octet == 0).unwrap();
    String::from_utf8(body[..end].to_vec()).unwrap()
}

/// Reads what has come. A machine that was frozen and woken ends a read that has a time limit
/// without any signal handler (signal(7)): such a read is begun again.
pub fn read(stream: &mut TcpStream, octets: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(octets) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

impl Client {
    pub fn connect(address: &str) -> Client {
        Client::of(TcpStream::connect(address).unwrap())
    }

    /// The other side of a connection that was accepted.
    pub fn of(stream: TcpStream) -> Client {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(FOREVER)).unwrap();
        Client { stream, input: Vec::new(), sequence: 0, waiting: VecDeque::new() }
    }

    /// A client that is bound.
    pub fn bound(address: &str, system_id: &str, command: Smpp) -> Client {
        let mut client = Client::connect(address);
        assert_eq!(client.bind(system_id, PASSWORD, command), Status::Ok as u32);
        client
    }

    /// The status that a bind is answered with.
    pub fn bind(&mut self, system_id: &str, password: &str, command: Smpp) -> u32 {
        self.sequence += 1;
        let out = numbered_bind_pdu(system_id, password, command, self.sequence);
        self.stream.write_all(&out).unwrap();
        let (header, _) = self.next().unwrap();
        assert_eq!((header.command, header.sequence), (command.response() as u32, self.sequence));
        header.status
    }

    /// Sends a PDU with this body; its sequence number.
    pub fn send(&mut self, command: u32, body: &[u8]) -> u32 {
        self.sequence += 1;
        let mut out = Vec::new();
        pdu(&mut out, command, Status::Ok, self.sequence, |out| out.extend_from_slice(body));
        self.stream.write_all(&out).unwrap();
        self.sequence
    }

    /// The next PDU; none if the connection has ended.
    pub fn next(&mut self) -> Option<(Header, Vec<u8>)> {
        loop {
            if let Framing::Pdu(header) = frame(&self.input) {
                let end = header.length as usize;
                let body = self.input[HEADER_OCTETS..end].to_vec();
                self.input.drain(..end);
                return Some((header, body));
            }
            let mut chunk = [0; 4096];
            match read(&mut self.stream, &mut chunk) {
                Ok(0) => return None,
                Ok(read) => self.input.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next PDU of an operation. A deliver_sm that comes before it is kept for later.
    pub fn next_of(&mut self, command: Smpp) -> (Header, Vec<u8>) {
        if command == Smpp::DeliverSm
            && let Some(first) = self.waiting.pop_front()
        {
            return first;
        }
        loop {
            let (header, body) = self.next().expect("the connection goes on");
            if header.command == command as u32 {
                return (header, body);
            }
            if header.command == Smpp::DeliverSm as u32 {
                self.waiting.push_back((header, body));
            }
        }
    }

    pub fn answer(&mut self, command: Smpp, status: Status, sequence: u32) {
        let mut out = Vec::new();
        pdu(&mut out, command as u32, status, sequence, |out| out.push(0));
        self.stream.write_all(&out).unwrap();
    }

    /// Submits a message; its status and number.
    pub fn submit(&mut self, submit: &Submit) -> (u32, String) {
        self.sequence += 1;
        let mut out = Vec::new();
        submit.write(&mut out, self.sequence);
        self.stream.write_all(&out).unwrap();
        let (header, body) = self.next_of(Smpp::SubmitSmResp);
        assert_eq!(header.sequence, self.sequence);
        (header.status, if header.status == 0 { c_string(&body) } else { String::new() })
    }

    /// Who sent what comes within the stream's time limit, answered.
    pub fn delivered_so_far(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            while let Framing::Pdu(header) = frame(&self.input) {
                let end = header.length as usize;
                let body = self.input[HEADER_OCTETS..end].to_vec();
                self.input.drain(..end);
                if header.command == Smpp::DeliverSm as u32 {
                    self.waiting.push_back((header, body));
                }
            }
            while let Some((header, body)) = self.waiting.pop_front() {
                self.answer(Smpp::DeliverSmResp, Status::Ok, header.sequence);
                came.push(Deliver::read(&body).unwrap().source.text);
            }
            match read(&mut self.stream, &mut chunk) {
                Ok(0) | Err(_) => return came,
                Ok(read) => self.input.extend_from_slice(&chunk[..read]),
            }
        }
    }

    /// The next deliver_sm, answered with `status`.
    pub fn deliver(&mut self, status: Status) -> Deliver {
        let (header, body) = self.next_of(Smpp::DeliverSm);
        self.answer(Smpp::DeliverSmResp, status, header.sequence);
        Deliver::read(&body).unwrap()
    }
}

/// A message for `to`.
pub fn message(to: &str, body: &[u8], registered_delivery: u8) -> Submit {
    Submit {
        service_type: String::new(),
        source: Address { ton: 1, npi: 1, text: "4900".into() },
        destination: Address { ton: 1, npi: 1, text: to.into() },
        esm_class: 0,
        protocol_id: 0,
        priority: 0,
        schedule: Time::None,
        validity: Time::None,
        registered_delivery,
        replaces: false,
        data_coding: 0,
        body: body.to_vec(),
        tlvs: Vec::new(),
        segment: None,
    }
}
