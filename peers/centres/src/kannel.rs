//! Kannel 1.4: bearerbox, which keeps the messages, and smsbox, which takes them over HTTP and
//! answers when bearerbox has them (`immediate-sendsms-reply` is off, as by default).
//!
//! `store-type = spool` is what its guide recommends: a file for each message. Kannel never calls
//! fsync, so an acknowledged message survives the end of the process and not that of the machine.
//! *Synced*, the spool's directories have the attributes S and D of ext4 (chattr(1)): what is
//! written to the files and the directories is on the disk when the call returns.

use crate::Failure;
use crate::centre::{Request, Running};
use crate::client::ask;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Kannel {
    boxes: Vec<Child>,
    admin: u16,
    http: u16,
}

/// Starts both boxes, without debug logs, and a centre beyond that is away.
pub fn start(dir: &Path, store: &str, synced: bool) -> Result<Box<dyn Running>, Failure> {
    let place = dir.join("store");
    let location = if store == "spool" { place.clone() } else { place.join("messages") };
    std::fs::create_dir_all(&place)?;
    if synced {
        let done = Command::new("chattr").args(["+S", "+D"]).arg(&place).status()?;
        if !done.success() {
            return Err("chattr +SD failed: the directory has to be on ext4".into());
        }
    }
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = Vec::new();
    for listener in &listeners {
        ports.push(listener.as_ref().map_err(ToString::to_string)?.local_addr()?.port());
    }
    drop(listeners);
    let [admin, boxes, http] = ports[..] else { return Err("three ports".into()) };
    let conf = format!(
        "group = core\nadmin-port = {admin}\nadmin-password = x\nsmsbox-port = {boxes}\n\
         box-allow-ip = \"127.0.0.1\"\nlog-level = 3\nstore-type = {store}\nstore-location = \"{}\"\n\
         sms-outgoing-queue-limit = 100000000\n\n\
         group = smsc\nsmsc = smpp\nsmsc-id = away\nhost = 127.0.0.1\nport = 1\nsmsc-username = a\n\
         smsc-password = b\nsystem-type = \"\"\n\n\
         group = smsbox\nbearerbox-host = 127.0.0.1\nsendsms-port = {http}\nlog-level = 3\n\n\
         group = sendsms-user\nusername = u\npassword = p\n",
        location.display()
    );
    std::fs::write(dir.join("kannel.conf"), conf)?;
    let mut kannel = Kannel { boxes: Vec::new(), admin, http };
    kannel.run("bearerbox", dir)?;
    kannel.status(|_| true)?;
    kannel.run("smsbox", dir)?;
    kannel.status(|text| text.contains("smsbox:"))?;
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", http)).is_err() {
        if begin.elapsed() > Duration::from_secs(20) {
            return Err("smsbox does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Box::new(kannel))
}

impl Kannel {
    fn run(&mut self, name: &str, dir: &Path) -> Result<(), Failure> {
        let log = std::fs::File::create(dir.join(format!("{name}.log")))?;
        let child = Command::new(format!("/usr/sbin/{name}"))
            .arg(dir.join("kannel.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{name}: {error}; apt-get install kannel"))?;
        self.boxes.push(child);
        Ok(())
    }

    /// Bearerbox's page about itself, once it says what is wanted.
    fn status(&self, wanted: fn(&str) -> bool) -> Result<String, Failure> {
        let begin = Instant::now();
        loop {
            let told = TcpStream::connect(("127.0.0.1", self.admin)).and_then(|mut stream| {
                ask(
                    &mut stream,
                    "GET /status.txt?password=x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                )
            });
            match told {
                Ok(text) if text.contains("Status: ") && wanted(&text) => return Ok(text),
                _ if begin.elapsed() > Duration::from_secs(60) => {
                    return Err("bearerbox does not answer".into());
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl Running for Kannel {
    fn request(&self) -> Request {
        let of = |to: &str| {
            format!(
                "GET /cgi-bin/sendsms?username=u&password=p&from=4900&to={to}&text=a+message+of+some+forty+octets+\
                 as+usual HTTP/1.1\r\nHost: x\r\n\r\n"
            )
        };
        Request { port: self.http, of, accepted: "HTTP/1.1 202" }
    }

    fn kill(&mut self) {
        for child in &mut self.boxes {
            // One that has ended already is none to be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.boxes.clear();
    }

    fn kept(&mut self, dir: &Path) -> Result<u64, Failure> {
        self.run("bearerbox", dir)?;
        // It tells what it has read so far, and takes its time.
        let (mut size, mut since) = (None, Instant::now());
        while since.elapsed() < Duration::from_secs(4) {
            let status = self.status(|_| true)?;
            let told =
                status.split_once("store size ").ok_or("bearerbox does not tell the size of its store")?.1;
            let now =
                told.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default().parse().ok();
            if now != size {
                (size, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        self.kill();
        size.ok_or_else(|| "bearerbox has no store".into())
    }
}

impl Drop for Kannel {
    fn drop(&mut self) {
        self.kill();
    }
}
