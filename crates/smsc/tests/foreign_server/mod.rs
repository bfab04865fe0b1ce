//! A server of PostgreSQL as somebody else has it: on TCP, with TLS, roles and passwords.
#![allow(clippy::unwrap_used, dead_code)]

#[path = "../free_ports/mod.rs"]
mod free_ports;

use free_ports::free_ports;
use postgresql_server::Server;
use postgresql_server::connection::settings::Settings;
use postgresql_server::connection::{Answer, Connection, ConnectionError};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::path::{Path, PathBuf};

/// Who may come in, and how: the superuser on the socket and from this machine, as he likes.
const RULES: &str = "local all fathom trust
local all all scram-sha-256
host all fathom 127.0.0.1/32 trust
hostssl all shown 127.0.0.1/32 cert
hostssl all hashed 127.0.0.1/32 md5
host all clear 127.0.0.1/32 password
hostnossl all plain 127.0.0.1/32 scram-sha-256
hostssl all all 127.0.0.1/32 scram-sha-256
";

/// Each role's password is "secret".
const ROLES: &str = "CREATE ROLE owner LOGIN PASSWORD 'secret'; CREATE ROLE guest LOGIN PASSWORD 'secret';
    CREATE ROLE shown LOGIN; CREATE ROLE clear LOGIN PASSWORD 'secret'; CREATE ROLE plain LOGIN PASSWORD 'secret';
    SET password_encryption = md5; CREATE ROLE hashed LOGIN PASSWORD 'secret'";

/// The server, its directory, its port.
pub struct ForeignServer {
    pub server: Server,
    pub dir: tempfile::TempDir,
    pub port: u16,
}

/// Writes certificates for a host of a new CA: `NAME-ca.pem`, `NAME.pem`, `NAME.key`; and one of the
/// role `shown`: `NAME-role.pem`, `NAME-role.key`.
pub fn certificates(dir: &Path, name: &str, host: &str, last_year: i32) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, format!("CA of {name}"));
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "shown");
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join(format!("{name}-role.pem")), certificate.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}-role.key")), key.serialize_pem()).unwrap();
    let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(dir.join(format!("{name}-role.key")), owner).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join(format!("{name}-ca.pem")), issuer.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

impl ForeignServer {
    /// Starts one; none where PostgreSQL is not installed.
    pub fn start(options: &[&str]) -> Option<ForeignServer> {
        if let Err(error) = postgresql_server::find_programs(None) {
            eprintln!("SKIP: {error}");
            return None;
        }
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), readable).unwrap();
        certificates(dir.path(), "right", "localhost", 2100);
        certificates(dir.path(), "expired", "localhost", 2001);
        certificates(dir.path(), "elsewhere", "other.example", 2100);
        for name in ["shown.pem", "shown.key"] {
            let from = name.replace("shown", "right");
            std::fs::copy(dir.path().join(from), dir.path().join(name)).unwrap();
        }
        close_key(&dir.path().join("shown.key"));
        std::fs::write(dir.path().join("hba.conf"), RULES).unwrap();
        let [port] = free_ports();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut settings = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "ssl=on".into(),
            format!("ssl_cert_file={}", at("shown.pem")),
            format!("ssl_key_file={}", at("shown.key")),
            format!("ssl_ca_file={}", at("right-ca.pem")),
            format!("hba_file={}", at("hba.conf")),
            "max_connections=60".into(),
        ];
        settings.extend(options.iter().map(|&option| option.to_owned()));
        let root = format!("postgresql://fathom@127.0.0.1:{port}/postgres?sslmode=disable");
        let answers = move |_: &Path| connect(&root).map(drop).map_err(|error| error.to_string());
        let server = Server::start(None, dir.path(), None, settings, answers).unwrap();
        let given = ForeignServer { server, dir, port };
        given.root("postgres", ROLES);
        given.root("postgres", "CREATE DATABASE sms OWNER owner");
        Some(given)
    }

    /// A URL of a role with its password, with these parameters.
    pub fn url(&self, role: &str, parameters: &str) -> String {
        format!("postgresql://{role}:secret@localhost:{}/sms?{parameters}", self.port)
    }

    /// The same, with a certificate that is checked.
    pub fn checked_url(&self, role: &str, parameters: &str) -> String {
        let ca = self.path("right-ca.pem");
        self.url(role, &format!("sslmode=verify-full&sslrootcert={}&{parameters}", ca.display()))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs statements as the superuser; the first column of their rows.
    pub fn root(&self, database: &str, sql: &str) -> Vec<String> {
        let url = format!("postgresql://fathom@127.0.0.1:{}/{database}?sslmode=disable", self.port);
        rows(&mut connect(&url).unwrap(), sql).unwrap()
    }

    /// Shows other certificates from now on.
    pub fn show(&self, name: &str) {
        for end in ["pem", "key"] {
            // Written over, so that owner and mode stay.
            let octets = std::fs::read(self.path(&format!("{name}.{end}"))).unwrap();
            std::fs::write(self.path(&format!("shown.{end}")), octets).unwrap();
        }
        let loaded = "SELECT extract(epoch from pg_conf_load_time())::text";
        let before = self.root("postgres", loaded);
        self.root("postgres", "SELECT pg_reload_conf()");
        // Each connection has the time of the configuration that it began with.
        while self.root("postgres", loaded) == before {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// A key is its owner's, who runs the server.
fn close_key(path: &Path) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    if std::process::Command::new("id").arg("postgres").output().unwrap().status.success() {
        // Only root may, and only root has to.
        _ = std::process::Command::new("chown").arg("postgres").arg(path).status();
    }
}

pub fn connect(url: &str) -> Result<Connection, ConnectionError> {
    Settings::parse(url).unwrap().0.connect(&[], &mut |_| Ok(()))
}

pub fn rows(connection: &mut Connection, sql: &str) -> Result<Vec<String>, ConnectionError> {
    connection.script(sql)?;
    let mut rows = Vec::new();
    connection.until_ready(&mut |answer| {
        if let Answer::Row(row) = answer {
            let first = row.columns().next().flatten().unwrap_or_default();
            rows.push(String::from_utf8_lossy(first).into_owned());
        }
        Ok::<_, ConnectionError>(())
    })?;
    Ok(rows)
}
