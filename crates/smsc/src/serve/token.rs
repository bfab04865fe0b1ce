//! Tokens of programs: 256 random bits, so that one round of SHA-256 keeps them as safe as Argon2
//! keeps a password, and a request costs no 20 ms.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// How a hash of a token begins.
const PREFIX: &str = "sha256:";
/// Octets of a token.
const OCTETS: usize = 32;

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// A new token.
///
/// # Errors
/// The system gives no random octets.
pub fn new_token() -> Result<String, String> {
    let mut octets = [0; OCTETS];
    getrandom::fill(&mut octets).map_err(|error| format!("no random octets: {error}"))?;
    Ok(hex(&octets))
}

/// The hash of a token, as the configuration has it.
#[must_use]
pub fn hash_token(token: &str) -> String {
    format!("{PREFIX}{}", hex(&Sha256::digest(token.as_bytes())))
}

/// Whether a text is such a hash.
#[must_use]
pub fn is_token_hash(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == 64 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Whether a hash is that of this token. The time does not depend on how much of both is alike:
/// digests of one length are compared to their end.
#[must_use]
pub fn is_token(hash: &str, token: &str) -> bool {
    let made = hash_token(token);
    let differs =
        made.bytes().zip(hash.bytes()).fold(0, |differs, (a, b)| std::hint::black_box(differs | (a ^ b)));
    made.len() == hash.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_that_of_its_hash_only() {
        let (token, other) = (new_token().unwrap(), new_token().unwrap());
        let hash = hash_token(&token);
        assert!(is_token_hash(&hash) && is_token(&hash, &token));
        assert!(!is_token(&hash, &other) && !is_token("", &token) && !is_token(&hash[..70], &token));
        assert!(!is_token_hash(&token) && !is_token_hash("sha256:") && !is_token_hash(&hash.to_uppercase()));
        // FIPS 180-2, appendix B.1.
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_token("abc"), abc);
    }
}
