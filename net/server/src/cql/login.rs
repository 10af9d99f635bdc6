//! SASL PLAIN, the way in which clients log in: a token holds an identity to act for (which is ignored, as in
//! Cassandra), the name of a role and its password, each after a NUL but the first.
//!
//! Invariants: texts are Cassandra's and do not show passwords.

use crate::cql::connection::Connection;
use model::{ErrorCode, Failure};

/// The name and the password of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Credentials<'t> {
    name: &'t str,
    password: &'t str,
}

/// Logs the client in with the token of an AUTH_RESPONSE.
pub(crate) async fn with_token(connection: &Connection, token: Option<&[u8]>) -> Result<(), Failure> {
    let Credentials { name, password } = decoded(token.unwrap_or_default())?;
    let address = connection.peer().ip();
    let user = connection.context.shard.log_in(address, name, password).await?;
    connection.session.user.replace(Some(user));
    Ok(())
}

/// Reads a token from its end, as Cassandra does: the password is what follows the last NUL.
fn decoded(token: &[u8]) -> Result<Credentials<'_>, Failure> {
    let failure = |text: &'static str| Err(Failure::new(ErrorCode::BadCredentials, text));
    let Ok(token) = std::str::from_utf8(token) else { return failure(FORMAT) };
    let parts: Vec<&str> = token.split('\0').collect();
    match parts.as_slice() {
        [_, name, password] if !name.is_empty() && !password.is_empty() => Ok(Credentials { name, password }),
        [_, _, ""] | [""] | [_] => failure("Password must not be null"),
        [_, "", _] | [_, _] => failure("Authentication ID must not be null"),
        _ => failure(FORMAT),
    }
}

const FORMAT: &str = "Credential format error: username or password is empty or contains NUL(\\0) character";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_cassandra_does() {
        let told = |token: &[u8]| match decoded(token) {
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
    }
}
