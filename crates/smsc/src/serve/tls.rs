//! TLS: `[tls]` of the listener, and `[peer.tls]`. Keys and certificates are read with the
//! configuration, so that `--check` sees them and SIGHUP brings new ones.

use super::config::{Problem, read_octets};
use serde::Deserialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use toml::Spanned;

/// Where TLS is spoken, and with what.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Where.
    pub listen: SocketAddr,
    /// The rest, as rustls has it.
    pub(super) server: Arc<ServerConfig>,
}

/// Two are equal that listen at one address: what else differs is taken at once.
impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        self.listen == other.listen
    }
}

impl Eq for TlsConfig {}

/// TLS towards a peer.
#[derive(Clone, Debug)]
pub struct PeerTls {
    /// The name that the peer's certificate must have.
    pub name: ServerName<'static>,
    pub(super) client: Arc<ClientConfig>,
    /// A hash of the files.
    files: u64,
}

/// Sessions begin again where a file has another content.
impl PartialEq for PeerTls {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.files) == (&other.name, other.files)
    }
}

impl Eq for PeerTls {}

/// `[tls]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenTls {
    listen: Spanned<String>,
    certificate: Spanned<PathBuf>,
    key: Spanned<PathBuf>,
    client_ca: Option<Spanned<PathBuf>>,
}

/// `[peer.tls]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPeerTls {
    ca: Spanned<PathBuf>,
    name: Option<Spanned<String>>,
    certificate: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// How a file is read.
type Read<'a> = &'a dyn Fn(&Path) -> std::io::Result<Vec<u8>>;

/// Files, each read once: what is taken of one is what its hash is of, also where it is replaced in
/// between.
struct Files<'a> {
    read: Read<'a>,
    hasher: DefaultHasher,
}

impl<'a> Files<'a> {
    fn new(read: Read<'a>) -> Files<'a> {
        Files { read, hasher: DefaultHasher::new() }
    }

    fn read(&mut self, path: &Path) -> std::io::Result<Vec<u8>> {
        let octets = (self.read)(path)?;
        octets.hash(&mut self.hasher);
        Ok(octets)
    }
}

/// All certificates of a file of PEM.
fn certificates(
    files: &mut Files<'_>,
    path: &Spanned<PathBuf>,
    key: &str,
) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let wrong = |problem: String| (path.span(), format!("{key} {}: {problem}", path.get_ref().display()));
    let text = files.read(path.get_ref()).map_err(|error| wrong(error.to_string()))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = read.map_err(|error| wrong(format!("no PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(wrong("there is no certificate (PEM) in it".into()));
    }
    Ok(certificates)
}

fn identity(
    files: &mut Files<'_>,
    certificate: &Spanned<PathBuf>,
    key: &Spanned<PathBuf>,
) -> Result<Identity, Problem> {
    let chain = certificates(files, certificate, "certificate")?;
    let wrong = |problem: String| (key.span(), format!("key {}: {problem}", key.get_ref().display()));
    let text = files.read(key.get_ref()).map_err(|error| wrong(error.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| wrong("there is no private key (PEM, not encrypted) in it".into()))?;
    Ok((chain, private))
}

fn roots(files: &mut Files<'_>, path: &Spanned<PathBuf>, key: &str) -> Result<Arc<RootCertStore>, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(files, path, key)? {
        roots.add(certificate).map_err(|error| {
            (path.span(), format!("{key} {}: no certificate of a CA: {error}", path.get_ref().display()))
        })?;
    }
    Ok(Arc::new(roots))
}

impl WrittenTls {
    pub fn checked(&self) -> Result<TlsConfig, Problem> {
        let listen = self.listen.get_ref();
        let listen = listen.parse().map_err(|_| {
            (self.listen.span(), format!("{listen:?} is no address: give one such as 127.0.0.1:3550"))
        })?;
        let mut files = Files::new(&read_octets);
        let (chain, key) = identity(&mut files, &self.certificate, &self.key)?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| (self.listen.span(), error.to_string()))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = roots(&mut files, path, "client_ca")?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
                let wrong = |error| (path.span(), format!("client_ca: {error}"));
                builder.with_client_cert_verifier(verifier.map_err(wrong)?)
            }
        };
        let server = builder.with_single_cert(chain, key).map_err(|error| {
            (
                self.key.span(),
                format!("key {}: not that of the certificate: {error}", self.key.get_ref().display()),
            )
        })?;
        Ok(TlsConfig { listen, server: Arc::new(server) })
    }
}

impl WrittenPeerTls {
    /// `host` is the peer's, whose name its certificate has if no other is written.
    pub fn checked(&self, host: &str) -> Result<PeerTls, Problem> {
        self.checked_by(host, &read_octets)
    }

    fn checked_by(&self, host: &str, read: Read<'_>) -> Result<PeerTls, Problem> {
        let mut files = Files::new(read);
        let (text, span) = match &self.name {
            Some(name) => (name.get_ref().as_str(), name.span()),
            None => (host, self.ca.span()),
        };
        let name = ServerName::try_from(text.to_owned())
            .map_err(|_| (span, format!("{text:?} is no name that a certificate can have: give `name`")))?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| (self.ca.span(), error.to_string()))?
            .with_root_certificates(roots(&mut files, &self.ca, "ca")?);
        let client = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let (chain, private) = identity(&mut files, certificate, key)?;
                builder.with_client_auth_cert(chain, private).map_err(|error| {
                    (
                        key.span(),
                        format!("key {}: not that of the certificate: {error}", key.get_ref().display()),
                    )
                })?
            }
            (None, None) => builder.with_no_client_auth(),
            (Some(path), None) | (None, Some(path)) => {
                return Err((path.span(), "give certificate and key, or neither".into()));
            }
        };
        Ok(PeerTls { name, client: Arc::new(client), files: files.hasher.finish() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// What happened: each file was read a second time for its hash. One that was replaced in
    /// between was known by the new content and taken with the old, and the next SIGHUP saw no
    /// change.
    #[test]
    fn what_is_taken_of_a_file_is_what_is_known_of_it() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let pem = params.self_signed(&pair).unwrap().pem();
        let written = "ca = \"ca\"\ncertificate = \"pem\"\nkey = \"key\"\n";
        let written: WrittenPeerTls = toml::from_str(written).unwrap();
        let reads = RefCell::new(Vec::new());
        let checked = |comment: &str| {
            let read = |path: &Path| -> std::io::Result<Vec<u8>> {
                reads.borrow_mut().push(path.display().to_string());
                let text = if path == Path::new("key") { pair.serialize_pem() } else { pem.clone() };
                Ok((comment.to_owned() + &text).into_bytes())
            };
            written.checked_by("localhost", &read).unwrap()
        };
        let first = checked("");
        assert_eq!(reads.borrow().as_slice(), ["ca", "pem", "key"]);
        assert_eq!(first, checked(""));
        assert_ne!(first, checked("another\n"));
    }
}
