//! Tokens of SASL PLAIN, in AUTH_RESPONSE: an identity to act for (which is ignored, as in Cassandra), the name of a
//! role and its password, each after a NUL but the first.
//!
//! Invariants: texts are Cassandra's and show nothing of the token.

use model::{ErrorCode, Failure};
use std::fmt;

/// The name and the password of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credentials<'t> {
    /// The name of the role.
    pub name: &'t str,
    /// Its password.
    pub password: &'t str,
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'t> Credentials<'t> {
    /// Reads a token from its end, as Cassandra does: the password is what follows the last NUL. Fails with
    /// [`ErrorCode::BadCredentials`].
    pub fn decode(token: &'t [u8]) -> Result<Credentials<'t>, Failure> {
        let failure = |text: &'static str| Err(Failure::new(ErrorCode::BadCredentials, text));
        let Ok(token) = std::str::from_utf8(token) else { return failure(FORMAT) };
        // Four parts are one too many, however many more there are.
        let parts: Vec<&str> = token.splitn(4, '\0').collect();
        match parts.as_slice() {
            [_, name, password] if !name.is_empty() && !password.is_empty() => Ok(Credentials { name, password }),
            [_, _, ""] | [""] | [_] => failure("Password must not be null"),
            [_, "", _] | [_, _] => failure("Authentication ID must not be null"),
            _ => failure(FORMAT),
        }
    }
}

const FORMAT: &str = "Credential format error: username or password is empty or contains NUL(\\0) character";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_cassandra_does() {
        let told = |token: &[u8]| match Credentials::decode(token) {
            Ok(Credentials { name, password }) => format!("{name} {password}"),
            Err(failure) => failure.text.into_owned(),
        };
        for (token, expected) in [
            (&b"\0a\0p"[..], "a p"),
            (b"other\0a\0p", "a p"),
            (b"", "Password must not be null"),
            (b"abc", "Password must not be null"),
            (b"\0a\0", "Password must not be null"),
            (b"\0abc", "Authentication ID must not be null"),
            (b"\0\0pw", "Authentication ID must not be null"),
            (b"\0a\0b\0p", FORMAT),
            (b"\0a\0p\0", FORMAT),
            (b"\0a\0\xff", FORMAT),
        ] {
            assert_eq!(told(token), expected, "{token:?}");
        }
        let shown = format!("{:?}", Credentials::decode(b"\0joe\0secret"));
        assert!(shown.contains("joe") && !shown.contains("secret"), "{shown}");
    }
}
