//! TLS: of the listener, towards peers, and what is wrong with either.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use smpp_client::{Client, FOREVER, Server, config, message};
use smsc::smpp::{Command, Status, pdu};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Writes `NAME-ca.pem`, `NAME.pem` and `NAME.key`: a CA of its own and a certificate for
/// localhost.
fn certificate(dir: &Path, name: &str) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join(format!("{name}-ca.pem")), issuer.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

fn tls_table(dir: &Path, name: &str, more: &str) -> String {
    let path = |file: String| dir.join(file).display().to_string();
    format!(
        "[tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"{}\"\nkey = \"{}\"\n{more}\n",
        path(format!("{name}.pem")),
        path(format!("{name}.key"))
    )
}

fn start(dir: &Path, text: &str) -> (Server, String) {
    std::fs::write(dir.join("smsc.toml"), text).unwrap();
    let server = Server::start(dir, &["--segment-mib", "1"]);
    let line = server.said.lines().find_map(|line| line.strip_prefix("listening_tls: "));
    let address = line.unwrap().to_owned();
    (server, address)
}

/// A session with TLS that asks whether anybody is there; whether somebody is.
fn asks(address: &str, ca: &Path) -> std::io::Result<()> {
    let mut roots = RootCertStore::empty();
    let pem = std::fs::read(ca).unwrap();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(client), name).unwrap();
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(FOREVER))?;
    let mut stream = StreamOwned::new(connection, socket);
    let mut out = Vec::new();
    pdu(&mut out, Command::EnquireLink as u32, Status::Ok, 7, |_| ());
    stream.write_all(&out)?;
    let mut answer = [0; 16];
    stream.read_exact(&mut answer)?;
    assert_eq!(answer[4..8], (Command::EnquireLinkResp as u32).to_be_bytes());
    Ok(())
}

#[test]
fn a_certificate_is_read_again_and_half_open_handshakes_end() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path(), "old");
    // Handshakes that are meant have this time as well, also beside other work.
    let timers = "[timers]\nsession_init_s = 15\n";
    let text = config(timers) + &tls_table(dir.path(), "old", "");
    let (mut server, address) = start(dir.path(), &text);
    asks(&address, &dir.path().join("old-ca.pem")).unwrap();
    // Neither silence nor what is no TLS holds a place for longer than a bind may take.
    let half_open: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut plain = TcpStream::connect(&address).unwrap();
    plain.write_all(b"\0\0\0\x10\0\0\0\x15\0\0\0\0\0\0\0\x01").unwrap();
    for mut stream in half_open.into_iter().chain([plain]) {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut rest = Vec::new();
        // An alert, or nothing, and then the end.
        let ended = stream.read_to_end(&mut rest);
        let is_held =
            ended.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(!is_held && rest.len() < 64, "{rest:?}");
    }
    asks(&address, &dir.path().join("old-ca.pem")).unwrap();
    // Another certificate at the next SIGHUP; the old one's CA does not know it.
    certificate(dir.path(), "new");
    std::fs::write(dir.path().join("smsc.toml"), config(timers) + &tls_table(dir.path(), "new", "")).unwrap();
    server.signal("-HUP");
    server.line_with("reloaded");
    asks(&address, &dir.path().join("new-ca.pem")).unwrap();
    assert!(asks(&address, &dir.path().join("old-ca.pem")).is_err());
    // One that cannot be read leaves the old one in force.
    std::fs::write(dir.path().join("new.key"), "no key").unwrap();
    server.signal("-HUP");
    let line = server.line_with("not_reloaded");
    assert!(
        line.contains("there is no private key") && line.contains("the old configuration holds"),
        "{line}"
    );
    asks(&address, &dir.path().join("new-ca.pem")).unwrap();
}

/// A pipe in the place of a certificate: SIGHUP waited for whoever would write into it, and with it
/// the signals that should have ended the centre.
#[test]
fn a_pipe_for_a_certificate_is_refused_and_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path(), "old");
    let text = config("") + &tls_table(dir.path(), "old", "");
    let (mut server, address) = start(dir.path(), &text);
    let pem = dir.path().join("old.pem");
    std::fs::remove_file(&pem).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pem).status().unwrap().success());
    server.signal("-HUP");
    let line = server.line_with("not_reloaded");
    assert!(line.contains("it is no regular file") && line.contains("the old configuration holds"), "{line}");
    asks(&address, &dir.path().join("old-ca.pem")).unwrap();
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
}

/// Two centres that speak TLS, each of which knows the other by its certificate.
#[test]
fn a_peer_is_reached_with_tls() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path(), "second");
    certificate(dir.path(), "first");
    certificate(dir.path(), "stranger");
    let path = |file: &str| dir.path().join(file).display().to_string();
    let second_dir = tempfile::tempdir().unwrap();
    let more = format!("client_ca = \"{}\"", path("first-ca.pem"));
    let (_second, address) =
        start(second_dir.path(), &(config("") + &tls_table(dir.path(), "second", &more)));
    let port = address.rsplit_once(':').unwrap().1;
    let of_first = |ca: &str, mine: &str| {
        config("")
            + &format!(
                "[[peer]]\nnumber = 1\nname = \"second\"\naddress = \"localhost:{port}\"\nsystem_id = \"app\"\n\
                 password = \"secret\"\nreconnect_s = 0.1\nreconnect_max_s = 0.2\n\
                 [peer.tls]\nca = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n[[route]]\nto = \"second\"\n",
                path(ca),
                path(&format!("{mine}.pem")),
                path(&format!("{mine}.key"))
            )
    };
    let first_dir = tempfile::tempdir().unwrap();
    std::fs::write(first_dir.path().join("smsc.toml"), of_first("second-ca.pem", "first")).unwrap();
    let first = Server::start(first_dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&first.address, "app", Command::BindTransceiver);
    let (_, id) = client.submit(&message("491700000001", b"hello", 1));
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.starts_with(&format!("id:{id} ")) && receipt.contains("stat:DELIVRD"), "{receipt}");
    drop(first);
    // A CA that did not sign the other's certificate, and a certificate that the other does not
    // know: the message waits.
    for (ca, mine) in [("stranger-ca.pem", "first"), ("second-ca.pem", "stranger")] {
        std::fs::write(first_dir.path().join("smsc.toml"), of_first(ca, mine)).unwrap();
        let mut first = Server::start(first_dir.path(), &["--segment-mib", "1"]);
        let said = first.line_with("peer_away");
        assert!(
            said.contains("second") && (said.contains("certificate") || said.contains("fatal alert")),
            "{ca} {mine}: {said}"
        );
    }
}
