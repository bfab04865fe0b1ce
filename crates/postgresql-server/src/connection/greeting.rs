//! The beginning of a connection: who is there, and whether that is true.

use super::{Connection, ConnectionError, refusal};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

/// Answers what the server asks until it lets `user` in.
pub(super) fn authenticate(
    connection: &mut Connection,
    user: &str,
    password: Option<&str>,
) -> Result<(), ConnectionError> {
    let given = || {
        let missing =
            || ConnectionError::Unexpected(format!("it asks for a password of {user}, and none was given"));
        password.ok_or_else(missing)
    };
    let mut scram: Option<ScramSha256> = None;
    loop {
        match connection.message()? {
            Message::AuthenticationOk => return Ok(()),
            Message::AuthenticationCleartextPassword => {
                let password = given()?;
                connection.write(|out| frontend::password_message(password.as_bytes(), out))?;
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(user.as_bytes(), given()?.as_bytes(), body.salt());
                connection.write(|out| frontend::password_message(hash.as_bytes(), out))?;
            }
            Message::AuthenticationSasl(_) => {
                let begun = ScramSha256::new(given()?.as_bytes(), ChannelBinding::unsupported());
                connection
                    .write(|out| frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), out))?;
                scram = Some(begun);
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = scram.as_mut().ok_or_else(|| out_of_turn("SASL"))?;
                scram.update(body.data())?;
                connection.write(|out| frontend::sasl_response(scram.message(), out))?;
            }
            Message::AuthenticationSaslFinal(body) => {
                scram.as_mut().ok_or_else(|| out_of_turn("SASL"))?.finish(body.data())?;
            }
            Message::ErrorResponse(body) => return Err(refusal(&body)),
            Message::NoticeResponse(_) => {}
            _ => return Err(out_of_turn("it asks for an authentication that is not supported")),
        }
    }
}

fn out_of_turn(what: &str) -> ConnectionError {
    ConnectionError::Unexpected(what.into())
}
