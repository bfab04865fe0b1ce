//! TLS of a connection: rustls between the socket and the messages, on the calling thread.

use super::error::ConnectionError;
use super::host::{Host, Place};
use super::settings::{Settings, SslMode};
use bytes::{Buf, BytesMut};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Octets that are encrypted ahead of what the socket takes.
const AHEAD: usize = 256 << 10;
/// Octets of a file of certificates or of a key at most.
const FILE_MAX: u64 = 16 << 20;
/// Where distributions keep the CAs that the system trusts.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The TLS side of a connection.
pub(super) struct Tls {
    session: ClientConnection,
    /// What is encrypted and has not been sent.
    cipher: BytesMut,
    /// Whether the server's certificate was checked.
    pub checked: bool,
}

impl Tls {
    /// Begins with a server; nothing is sent yet.
    pub fn begin(host: &Host, settings: &Settings) -> Result<Tls, ConnectionError> {
        let (config, checked) = config(settings)?;
        let name = match &host.place {
            Place::Name(name) => name.clone(),
            // A socket is not asked for TLS.
            Place::Socket(_) => "localhost".into(),
        };
        let problem = |error: &dyn std::fmt::Display| ConnectionError::Tls(format!("{name}: {error}"));
        let server = ServerName::try_from(name.clone()).map_err(|error| problem(&error))?;
        let session = ClientConnection::new(Arc::new(config), server).map_err(|error| problem(&error))?;
        Ok(Tls { session, cipher: BytesMut::new(), checked })
    }

    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Encrypts of `plain` as much as is to be sent soon; the octets for the socket.
    pub fn encrypt(&mut self, plain: &mut BytesMut) -> io::Result<&mut BytesMut> {
        loop {
            while self.session.wants_write() && self.cipher.len() < AHEAD {
                let mut octets = Vec::new();
                self.session.write_tls(&mut octets)?;
                self.cipher.extend_from_slice(&octets);
            }
            if plain.is_empty() || self.session.is_handshaking() || self.cipher.len() >= AHEAD {
                return Ok(&mut self.cipher);
            }
            let taken = self.session.writer().write(plain)?;
            plain.advance(taken);
        }
    }

    /// Whether there is something for the socket.
    pub fn has_unsent(&self) -> bool {
        !self.cipher.is_empty() || self.session.wants_write()
    }

    /// Decrypts what came.
    pub fn decrypt(&mut self, mut octets: &[u8], plain: &mut BytesMut) -> Result<(), ConnectionError> {
        while !octets.is_empty() {
            // The server has said that nothing more comes, and then went on.
            if self.session.read_tls(&mut octets)? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let state = self.session.process_new_packets().map_err(|error| told(&error))?;
            let more = state.plaintext_bytes_to_read();
            let begin = plain.len();
            plain.resize(begin + more, 0);
            self.session.reader().read_exact(&mut plain[begin..])?;
        }
        Ok(())
    }

    /// What a proof of a password is bound to (RFC 5929, tls-server-end-point): a hash of the
    /// server's certificate; none where its signature names no hash.
    pub fn end_point(&self) -> Option<Vec<u8>> {
        let certificate = self.session.peer_certificates()?.first()?;
        end_point_of(certificate)
    }
}

/// What is wrong, and what helps where that is not plain.
fn told(error: &Error) -> ConnectionError {
    let hint = match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "; sslrootcert names a file with the CA that has signed the server's certificate"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            "; the host of the URL has to be a subjectAltName of the server's certificate (its CN alone does not do)"
        }
        Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "; the server shows a CA's own certificate: give it one that the CA has signed (CA:FALSE)"
        }
        _ => "",
    };
    ConnectionError::Tls(format!("{error}{hint}"))
}

/// The configuration, and whether it checks the server's certificate.
fn config(settings: &Settings) -> Result<(ClientConfig, bool), ConnectionError> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |error: &dyn std::fmt::Display| ConnectionError::Tls(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let roots = roots(settings, usual_roots())?;
    let checked = roots.is_some();
    let verifier: Arc<dyn ServerCertVerifier> = match roots {
        None => Arc::new(Unchecked(provider)),
        Some(path) => {
            let (store, path) = store(&path)?;
            let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
            let inner = inner.map_err(|error| wrong(&format!("{}: {error}", path.display())))?;
            match settings.sslmode {
                SslMode::VerifyFull => inner,
                _ => Arc::new(AnyName(inner)),
            }
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let config = match &settings.sslcert {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let (chain, key_octets) = (certificates(certificate)?, key_octets(key)?);
            let private = PrivateKeyDer::from_pem_slice(&key_octets)
                .map_err(|_| file(key, "there is no private key (PEM, not encrypted) in it"))?;
            builder
                .with_client_auth_cert(chain, private)
                .map_err(|error| file(key, &format!("not the key of {}: {error}", certificate.display())))?
        }
    };
    Ok((config, checked))
}

fn file(path: &Path, problem: &str) -> ConnectionError {
    ConnectionError::Tls(format!("{}: {problem}", path.display()))
}

/// The CAs of a file, and which file that is.
fn store(path: &Path) -> Result<(RootCertStore, PathBuf), ConnectionError> {
    let path =
        match path == Path::new("system") {
            false => path.to_owned(),
            true => SYSTEM.iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| {
                file(path, "no CAs of the system were found (apt-get install ca-certificates)")
            })?,
        };
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates(&path)?);
    if added == 0 {
        return Err(file(&path, "no certificate of a CA is in it"));
    }
    Ok((store, path))
}

/// The file that libpq takes where none is named, if it is there.
fn usual_roots() -> Option<PathBuf> {
    let usual = std::env::home_dir().map(|home| home.join(".postgresql/root.crt"));
    usual.filter(|path| path.is_file())
}

/// The file of the CAs by which the server's certificate is checked, if it is: as libpq does, also
/// with `require` where there is one.
fn roots(settings: &Settings, usual: Option<PathBuf>) -> Result<Option<PathBuf>, ConnectionError> {
    let found = settings.sslrootcert.clone().or(usual);
    match settings.sslmode {
        SslMode::Disable | SslMode::Prefer => Ok(None),
        SslMode::Require => Ok(found),
        SslMode::VerifyCa | SslMode::VerifyFull => found.map(Some).ok_or_else(|| {
            let problem = "the server's certificate is to be checked, and by which CA was not said: sslrootcert=FILE, \
                           or sslrootcert=system for those that this system trusts";
            ConnectionError::Tls(problem.into())
        }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConnectionError> {
    let failed = |error: io::Error| file(path, &error.to_string());
    let opened = std::fs::File::open(path).map_err(failed)?;
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err(file(path, "it is no regular file"));
    }
    let mut octets = Vec::new();
    opened.take(FILE_MAX).read_to_end(&mut octets).map_err(failed)?;
    Ok(octets)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectionError> {
    let octets = read(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&octets).collect();
    let certificates = read.map_err(|error| file(path, &format!("no PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(file(path, "there is no certificate (PEM) in it"));
    }
    Ok(certificates)
}

/// A key, which others may not read; a group may, if it is root's.
fn key_octets(path: &Path) -> Result<Vec<u8>, ConnectionError> {
    let about = std::fs::metadata(path).map_err(|error| file(path, &error.to_string()))?;
    let closed_to = if about.uid() == 0 { 0o037 } else { 0o077 };
    if about.mode() & closed_to != 0 {
        return Err(file(path, "others may read this key: `chmod 600` it"));
    }
    read(path)
}

/// Takes every certificate whose key its owner has.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Takes a certificate of a trusted CA whatever name it has.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at last: who fails by it has passed all else.
        match self.0.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            done => done,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Signatures by the octets of their object identifier, and the hash that tls-server-end-point
/// takes: the signature's own, SHA-256 for MD5 and SHA-1.
const SIGNATURES: [(&[u8], Hash); 8] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], Hash::Sha512),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04], Hash::Sha512),
];

#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

fn end_point_of(certificate: &[u8]) -> Option<Vec<u8>> {
    // Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm SEQUENCE { OID, … }, … }
    let (whole, _) = element(certificate, 0x30)?;
    let (_, after) = element(whole, 0x30)?;
    let (algorithm, _) = element(after, 0x30)?;
    let (oid, _) = element(algorithm, 0x06)?;
    let hash = SIGNATURES.iter().find(|signature| signature.0 == oid)?.1;
    Some(match hash {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

/// The content of the DER element with this tag that `octets` begin with, and what follows it.
fn element(octets: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[first, length], rest) = octets.split_first_chunk::<2>()?;
    if first != tag {
        return None;
    }
    let (length, rest) = match length {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let count = usize::from(long & 0x7f);
            let (digits, rest) = rest.split_at_checked(count)?;
            let length = (1..=4)
                .contains(&count)
                .then(|| digits.iter().fold(0_usize, |length, &digit| length << 8 | usize::from(digit)))?;
            (length, rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `require` the usual file was left out, and whoever answered was believed, who is not
    /// with libpq.
    #[test]
    fn a_file_of_cas_is_found_where_libpq_finds_it() {
        let of = |parameters: &str, usual: Option<&str>| {
            let url = format!("postgresql://u@h/?{parameters}");
            roots(&Settings::parse(&url).unwrap().0, usual.map(PathBuf::from))
        };
        let usual = Some("root.crt");
        for mode in ["require", "verify-ca", "verify-full"] {
            let mode = format!("sslmode={mode}");
            assert_eq!(of(&mode, usual).unwrap(), Some("root.crt".into()), "{mode}");
            let named = of(&format!("{mode}&sslrootcert=ca.pem"), usual).unwrap();
            assert_eq!(named, Some("ca.pem".into()), "{mode}");
        }
        assert_eq!(of("sslmode=require", None).unwrap(), None);
        assert!(of("sslmode=verify-ca", None).is_err() && of("sslmode=verify-full", None).is_err());
        assert_eq!(of("sslmode=prefer&sslrootcert=ca.pem", usual).unwrap(), None);
    }

    #[test]
    fn cut_off_certificates_have_no_end_point() {
        // SEQUENCE { SEQUENCE {}, SEQUENCE { OID sha384WithRSA, NULL } }
        let oid = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c];
        let mut whole = vec![0x30, 0x11, 0x30, 0x00, 0x30, 0x0d, 0x06, 0x09];
        whole.extend(oid);
        whole.extend([0x05, 0x00]);
        assert_eq!(end_point_of(&whole).map(|hash| hash.len()), Some(48));
        for end in 0..whole.len() {
            assert!(end_point_of(&whole[..end]).is_none(), "{end}");
        }
        assert!(end_point_of(&[0x30, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_none());
        assert!(end_point_of(&[0x30, 0x80, 0, 0]).is_none());
    }
}
