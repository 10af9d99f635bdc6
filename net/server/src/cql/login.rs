//! The ways in which clients log in: the certificate of a connection, whose subject is a SPIFFE URI, and SASL PLAIN
//! ([`wire::sasl`]).
//!
//! Invariants: texts are Cassandra's and do not show passwords; every login, good or bad, is noted in the audit log.

use crate::cql::connection::Connection;
use model::{ErrorCode, Failure};
use shard::{Authenticator, LoggedIn};
use wire::sasl::Credentials;

/// Logs the client in with the token of an AUTH_RESPONSE.
pub(crate) async fn with_token(connection: &Connection, token: Option<&[u8]>) -> Result<(), Failure> {
    let outcome = match Credentials::decode(token.unwrap_or_default()) {
        Ok(Credentials { name, password }) => {
            connection.context.shard.log_in(connection.peer().ip(), name, password).await
        }
        Err(failure) => Err(failure),
    };
    finish(connection, outcome).await
}

/// Logs the client in by the certificate that it has shown, if certificates say who clients are. Without one it may
/// still log in by name and password, where that is allowed.
pub(crate) async fn with_certificate(connection: &Connection) -> Result<(), Failure> {
    let authenticator = connection.context.config.node.access.authenticator;
    let shown = connection.secured.as_ref().filter(|secured| !secured.peer_certificates.is_empty());
    let identity = match (authenticator, shown) {
        (Authenticator::AllowAll | Authenticator::Password, _) => return Ok(()),
        (Authenticator::MutualTlsWithPasswordFallback, None) => return Ok(()),
        (Authenticator::MutualTls, None) => Err("Invalid or not supported certificate"),
        (_, Some(secured)) => {
            let uris = secured.peer_uris().unwrap_or_default();
            let identity = uris.into_iter().find(|uri| uri.starts_with(SPIFFE));
            identity.ok_or("Unable to extract Spiffe from the certificate")
        }
    };
    let outcome = match identity {
        Ok(identity) => connection.context.shard.log_in_by_certificate(connection.peer().ip(), identity).await,
        Err(text) => Err(Failure::new(ErrorCode::BadCredentials, text)),
    };
    finish(connection, outcome).await
}

/// How the identities begin that certificates have.
const SPIFFE: &str = "spiffe://";

/// Notes a login, and begins the session of its role.
async fn finish(connection: &Connection, outcome: Result<LoggedIn, Failure>) -> Result<(), Failure> {
    let logs = &connection.context.query_logs;
    if logs.is_on() {
        // Who has failed to show who they are is nobody.
        let user = outcome.as_ref().ok().map(|user| user.name.to_string());
        Box::pin(logs.note_login(&connection.asker(), user.as_deref(), outcome.as_ref().err())).await;
    }
    connection.session.user.replace(Some(outcome?));
    Ok(())
}
