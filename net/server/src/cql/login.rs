//! The ways in which clients log in: the certificate of a connection, whose subject is a SPIFFE URI, and SASL PLAIN. A
//! token of the latter holds an identity to act for (which is ignored, as in Cassandra), the name of a role and its
//! password, each after a NUL but the first.
//!
//! Invariants: texts are Cassandra's and do not show passwords.

use crate::cql::connection::Connection;
use model::{ErrorCode, Failure};
use shard::Authenticator;

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

/// Logs the client in by the certificate that it has shown, if certificates say who clients are. Without one it may
/// still log in by name and password, where that is allowed.
pub(crate) async fn with_certificate(connection: &Connection) -> Result<(), Failure> {
    let authenticator = connection.context.config.node.access.authenticator;
    let shown = connection.secured.as_ref().filter(|secured| !secured.peer_certificates.is_empty());
    let failure = |text: &'static str| Err(Failure::new(ErrorCode::BadCredentials, text));
    let secured = match (authenticator, shown) {
        (Authenticator::AllowAll | Authenticator::Password, _) => return Ok(()),
        (Authenticator::MutualTlsWithPasswordFallback, None) => return Ok(()),
        (Authenticator::MutualTls, None) => return failure("Invalid or not supported certificate"),
        (_, Some(secured)) => secured,
    };
    let uris = secured.peer_uris().unwrap_or_default();
    let Some(identity) = uris.into_iter().find(|uri| uri.starts_with(SPIFFE)) else {
        return failure("Unable to extract Spiffe from the certificate");
    };
    let user = connection.context.shard.log_in_by_certificate(connection.peer().ip(), identity).await?;
    connection.session.user.replace(Some(user));
    Ok(())
}

/// How the identities begin that certificates have.
const SPIFFE: &str = "spiffe://";

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
