//! Logging in with the name of a role and its password, or with a certificate, and hashes of passwords.
//!
//! 1. Too many failures of an address: refused, nothing is hashed.
//! 2. The role is read. If there is none, or it has no password, a hash that no password has takes its place.
//! 3. The password is hashed off the cores (bcrypt), unless it is the one that was right last time: this is seen by a
//!    fast hash with a key that this process alone knows.
//!
//! Invariants: an unknown name and a wrong password take the same steps and give the same text; at most
//! [`crate::roles::FAILURES_MAX`] failures of an address are hashed on a core within a window.

use super::check::no_access_from;
use super::cidrs;
use super::load::{DEFAULT_SUPERUSER, entry};
use super::roles::role_of;
use super::store::{read, write_at};
use crate::request::LoggedIn;
use crate::roles::{Entry, VerifiedPassword};
use crate::shard_state::Shard;
use model::{Consistency, ErrorCode, Failure};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

/// Cassandra's default: 2^10 rounds.
const COST: u32 = 10;
/// A hash for roles that do not exist. Nobody knows a password for it.
const NOBODY: &str = "$2a$10$PfAaXG0jCO0zMcV8kV3sC.1K0bNNmFFh9Zv5yLZ4hzMMfvBYSxO6S";

fn bad_credentials(text: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::BadCredentials, text.into())
}

/// Logs a client in.
///
/// # Errors
/// Bad credentials, with Cassandra's texts; the failures of reads if roles cannot be read.
pub(crate) async fn log_in(shard: &Shard, address: IpAddr, name: &str, password: &str) -> Result<LoggedIn, Failure> {
    if shard.roles().is_barred(address) {
        return Err(bad_credentials("Too many failed logins from this address, try again later"));
    }
    let entry = entry(shard, name).await?;
    let grants = &entry.grants;
    let hash = grants.salted_hash.as_deref().unwrap_or(NOBODY);
    if !is_right(shard, name, password, hash).await? || grants.salted_hash.is_none() {
        shard.roles().note_failure(address);
        return Err(bad_credentials(format!("Provided username {name} and/or password are incorrect")));
    }
    logged_in(shard, address, name, None, entry)
}

/// Logs a client in whose certificate has an identity.
///
/// # Errors
/// Bad credentials, with Cassandra's texts; the failures of reads if roles cannot be read.
pub(crate) async fn log_in_by_certificate(
    shard: &Shard,
    address: IpAddr,
    identity: String,
) -> Result<LoggedIn, Failure> {
    let Some(role) = role_of(shard, &identity).await? else {
        return Err(bad_credentials(format!("Certificate identity '{identity}' not authorized")));
    };
    let entry = entry(shard, &role).await?;
    logged_in(shard, address, &role, Some(identity), entry)
}

/// Lets a client in that has shown who it is, if its role may log in from where it is.
fn logged_in(
    shard: &Shard,
    address: IpAddr,
    name: &str,
    identity: Option<String>,
    entry: Rc<Entry>,
) -> Result<LoggedIn, Failure> {
    let grants = &entry.grants;
    if !grants.can_login {
        return Err(bad_credentials(format!("{name} is not permitted to log in")));
    }
    if !cidrs::admits(shard, name, grants, address) {
        return Err(no_access_from(address));
    }
    let salted_hash = RefCell::new(grants.salted_hash.clone());
    Ok(LoggedIn { name: name.into(), address, identity, salted_hash, known: RefCell::new(Some(entry)) })
}

async fn is_right(shard: &Shard, name: &str, password: &str, hash: &str) -> Result<bool, Failure> {
    let roles = shard.roles();
    let mut digest = Sha256::new_with_prefix(roles.key());
    for part in [hash, password] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let fast = VerifiedPassword(digest.finalize().into());
    if roles.is_verified(name, fast) {
        return Ok(true);
    }
    let _permit = roles.hashes().acquire(1).await;
    // Another login with the same password may have been first.
    if roles.is_verified(name, fast) {
        return Ok(true);
    }
    let (password, hash) = (password.to_owned(), hash.to_owned());
    let verified = runtime::calculate(move || bcrypt::verify(password, &hash).unwrap_or(false)).await;
    let is_right = verified.map_err(|_| too_many())?;
    if is_right {
        roles.note_verified(name, fast);
    }
    Ok(is_right)
}

fn too_many() -> Failure {
    Failure::overloaded("Too many passwords wait to be checked")
}

/// The hash of a new password.
pub(super) async fn hash_of(password: &str) -> Result<String, Failure> {
    let (password, salt) = (password.to_owned(), runtime::rng::bytes16());
    let hashed = runtime::calculate(move || bcrypt::hash_with_salt(password, COST, salt)).await;
    let hashed = hashed.map_err(|_| too_many())?;
    let parts = hashed.map_err(|_| Failure::invalid("The password cannot be hashed"))?;
    Ok(parts.format_for_version(bcrypt::Version::TwoA))
}

/// Whether a text is a hash that logins can be checked with.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 60 && text.parse::<bcrypt::HashParts>().is_ok()
}

const ANY_ROLE: &str = "SELECT role FROM system_auth.roles LIMIT 1";
const INSERT_SUPERUSER: &str = "INSERT INTO system_auth.roles (role, is_superuser, can_login, salted_hash) \
                                VALUES (?, true, true, ?)";

/// Whether there is a role at all.
pub(crate) async fn has_roles(shard: &Shard) -> Result<bool, Failure> {
    Ok(!read(shard, ANY_ROLE, &[], Consistency::One).await?.is_empty()
        || !read(shard, ANY_ROLE, &[], Consistency::Quorum).await?.is_empty())
}

/// Makes the role `cassandra` with that password if there are no roles. With the lowest timestamp, as Cassandra does,
/// so that whatever is done with the role later counts.
pub(crate) async fn make_default_superuser(shard: &Shard) -> Result<(), Failure> {
    if has_roles(shard).await? {
        return Ok(());
    }
    let hash = hash_of(DEFAULT_SUPERUSER).await?;
    let text = format!("{INSERT_SUPERUSER} USING TIMESTAMP 0");
    write_at(shard, &text, &[DEFAULT_SUPERUSER.as_bytes(), hash.as_bytes()], Consistency::Quorum).await?;
    shard.forget_roles_here().await;
    tracing::info!("Created default superuser role '{DEFAULT_SUPERUSER}'");
    Ok(())
}

/// Makes a superuser, or gives a role that exists a new password and makes it one. On behalf of the operator of the
/// machine.
pub(crate) async fn make_superuser(shard: &Shard, name: &str, password: &str) -> Result<(), Failure> {
    let hash = hash_of(password).await?;
    write_at(shard, INSERT_SUPERUSER, &[name.as_bytes(), hash.as_bytes()], Consistency::Quorum).await?;
    super::roles::tell_all(shard).await;
    Ok(())
}
