//! The beginning of a connection: who is there, and whether that is true.

use super::conversation::{Connection, refusal};
use super::error::ConnectionError;
use super::settings::{ChannelBinding, Methods};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{self, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

/// Who logs in, and what the server may ask for.
pub(super) struct Credentials<'a> {
    pub user: &'a str,
    pub password: Option<&'a str>,
    /// Why there is no password, where there could be one.
    pub note: Option<String>,
    pub binding: ChannelBinding,
    /// Where nothing is said: all but MD5, and a password in clear only where nobody reads along.
    pub methods: Option<Methods>,
    /// The server is reached by a socket of this machine.
    pub local: bool,
}

/// Of a private server: nothing is asked.
pub(super) fn private<'a>(user: &'a str, password: Option<&'a str>) -> Credentials<'a> {
    let methods = Some(Methods { password: true, md5: true, scram: true, none: true });
    Credentials { user, password, note: None, binding: ChannelBinding::Disable, methods, local: true }
}

impl Credentials<'_> {
    fn given(&self) -> Result<&str, ConnectionError> {
        self.password.ok_or_else(|| {
            let note = self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
            let places = "PGPASSWORD, ~/.pgpass (mode 0600) or the URL has one";
            ConnectionError::Login(format!(
                "it asks for a password of {}, and none was given{note}: {places}",
                self.user
            ))
        })
    }

    /// Whether a method may be used.
    fn allows(&self, name: &str, of: fn(&Methods) -> bool, usually: bool) -> Result<(), ConnectionError> {
        if self.methods.as_ref().map_or(usually, of) {
            return Ok(());
        }
        let why = match (name, self.methods) {
            (_, Some(_)) => format!("require_auth does not allow {name}"),
            ("md5", _) => "MD5 hashes of passwords are broken: have the server store it anew \
                           (password_encryption = 'scram-sha-256', then ALTER ROLE … PASSWORD), or allow it by \
                           require_auth=md5"
                .into(),
            _ => "the password would go to a server that has not shown who it is: sslmode=verify-full or verify-ca"
                .into(),
        };
        Err(ConnectionError::Login(format!("it asks for {name} authentication; {why}")))
    }
}

/// Answers what the server asks until it lets the user in.
pub(super) fn authenticate(
    connection: &mut Connection,
    credentials: &Credentials<'_>,
) -> Result<(), ConnectionError> {
    let mut scram: Option<ScramSha256> = None;
    let (mut asked, mut bound, mut proved) = (false, false, false);
    loop {
        match connection.message()? {
            Message::AuthenticationOk => {
                // One that has begun to prove that it knows the password has to end it: else
                // anybody could be the server.
                if scram.is_some() && !proved {
                    return Err(out_of_turn("it lets in before it has shown that it knows the password"));
                }
                if credentials.binding == ChannelBinding::Require && !bound {
                    let problem = "channel_binding=require, and the server lets in without it";
                    return Err(ConnectionError::Login(problem.into()));
                }
                if !asked {
                    credentials.allows("no", |methods| methods.none, true)?;
                }
                return Ok(());
            }
            Message::AuthenticationCleartextPassword => {
                let is_safe = credentials.local || connection.is_checked();
                credentials.allows("password (in clear)", |methods| methods.password, true)?;
                if !is_safe {
                    Credentials { methods: None, note: None, ..*credentials }.allows(
                        "password (in clear)",
                        |methods| methods.password,
                        false,
                    )?;
                }
                let password = credentials.given()?;
                connection.write(|out| frontend::password_message(password.as_bytes(), out))?;
                asked = true;
            }
            Message::AuthenticationMd5Password(body) => {
                credentials.allows("md5", |methods| methods.md5, false)?;
                let (user, password) = (credentials.user.as_bytes(), credentials.given()?.as_bytes());
                let hash = md5_hash(user, password, body.salt());
                connection.write(|out| frontend::password_message(hash.as_bytes(), out))?;
                asked = true;
            }
            Message::AuthenticationSasl(body) if scram.is_none() => {
                let (mut plain, mut plus) = (false, false);
                body.mechanisms().for_each(|mechanism| {
                    plain |= mechanism == SCRAM_SHA_256;
                    plus |= mechanism == SCRAM_SHA_256_PLUS;
                    Ok(())
                })?;
                credentials.allows("scram-sha-256", |methods| methods.scram, true)?;
                let end_point = match credentials.binding {
                    ChannelBinding::Disable => None,
                    _ => connection.end_point(),
                };
                let (binding, name) = match end_point {
                    Some(end_point) if plus => {
                        bound = true;
                        (sasl::ChannelBinding::tls_server_end_point(end_point), SCRAM_SHA_256_PLUS)
                    }
                    // It is told that we could: a server that could as well notices who is between.
                    Some(_) => (sasl::ChannelBinding::unrequested(), SCRAM_SHA_256),
                    None => (sasl::ChannelBinding::unsupported(), SCRAM_SHA_256),
                };
                if !plain && !bound {
                    return Err(out_of_turn("it asks for a SASL authentication that is not supported"));
                }
                if credentials.binding == ChannelBinding::Require && !bound {
                    let problem = "channel_binding=require, and it is not to be had: that takes TLS, and a \
                                   certificate whose signature names a hash";
                    return Err(ConnectionError::Login(problem.into()));
                }
                let begun = ScramSha256::new(credentials.given()?.as_bytes(), binding);
                connection.write(|out| frontend::sasl_initial_response(name, begun.message(), out))?;
                scram = Some(begun);
                asked = true;
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = scram.as_mut().ok_or_else(|| out_of_turn("SASL"))?;
                scram.update(body.data()).map_err(|error| unproved(&error))?;
                connection.write(|out| frontend::sasl_response(scram.message(), out))?;
            }
            Message::AuthenticationSaslFinal(body) => {
                let scram = scram.as_mut().ok_or_else(|| out_of_turn("SASL"))?;
                scram.finish(body.data()).map_err(|error| unproved(&error))?;
                proved = true;
            }
            Message::ErrorResponse(body) => return Err(refusal(&body)),
            Message::NoticeResponse(_) => {}
            _ => return Err(out_of_turn("it asks for an authentication that is not supported")),
        }
    }
}

fn unproved(error: &std::io::Error) -> ConnectionError {
    ConnectionError::Login(format!("the server has not shown that it knows the password: {error}"))
}

fn out_of_turn(what: &str) -> ConnectionError {
    ConnectionError::Unexpected(what.into())
}
