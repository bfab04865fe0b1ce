//! Passwords: what is kept of them is an Argon2 hash.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

/// Octets of a password at most: SMPP's field has nine, one of them its end.
pub const PASSWORD_OCTETS_MAX: usize = 8;

/// Octets of the password of the admin page at most.
const ADMIN_OCTETS_MAX: usize = 128;

/// The hash of a password, with a salt of its own, as the configuration has it.
///
/// # Errors
/// It is longer than SMPP allows, or not printable; the system gives no random salt.
pub fn hash_password(password: &str) -> Result<String, String> {
    hash(password, "of SMPP", PASSWORD_OCTETS_MAX)
}

/// As [`hash_password`], for the admin page, which is not bound to SMPP's field.
///
/// # Errors
/// As of [`hash_password`].
pub fn hash_admin_password(password: &str) -> Result<String, String> {
    hash(password, "of the admin page", ADMIN_OCTETS_MAX)
}

fn hash(password: &str, of: &str, most: usize) -> Result<String, String> {
    let octets = password.len();
    if octets == 0 || octets > most || !password.bytes().all(|octet| (b' '..=b'~').contains(&octet)) {
        return Err(format!(
            "a password {of} has 1 to {most} printable characters of ASCII, this one has {octets} octets"
        ));
    }
    let hash = Argon2::default().hash_password(password.as_bytes()).map_err(|error| error.to_string())?;
    Ok(hash.to_string())
}

/// Whether a text is such a hash.
#[must_use]
pub fn is_hash(text: &str) -> bool {
    text.starts_with("$argon2") && PasswordHash::new(text).is_ok()
}

/// Whether a hash is that of this password. Takes some milliseconds and 19 MiB, on purpose.
#[must_use]
pub fn is_password(hash: &str, password: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_that_of_its_hash_only() {
        let hash = hash_password("secret").unwrap();
        assert!(is_hash(&hash) && is_password(&hash, "secret") && !is_password(&hash, "Secret"));
        assert!(!is_hash("secret") && !is_hash("$argon2id$") && !is_password("secret", "secret"));
        assert_ne!(hash, hash_password("secret").unwrap(), "a salt of its own");
        for wrong in ["", "123456789", "a\nb", "é"] {
            assert!(hash_password(wrong).is_err(), "{wrong:?}");
        }
    }
}
