//! Whether a session may run a statement.
//!
//! What the session's role may do is usually known, and then nothing is awaited or allocated. Where clients need not
//! log in nothing is looked at.

use super::cidrs;
use super::load::{entry, refresh_if_due};
use crate::request::{LoggedIn, Session};
use crate::roles::Entry;
use crate::shard_state::Shard;
use crate::statements::{MaskedStatement, Statement};
use cql::plan::{Plan, required_by_definition};
use model::access::{Permission, Required};
use model::{ErrorCode, Failure};
use std::net::IpAddr;
use std::rc::Rc;

/// The failure for a session that lacks a permission, or that may not do anything any more.
pub(crate) fn unauthorized(text: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Unauthorized, text.into())
}

/// The failure for a role that is used from an address that it is not kept to.
pub(crate) fn no_access_from(address: IpAddr) -> Failure {
    unauthorized(format!("You do not have access from this IP {address}"))
}

/// Fails if a session may not run a statement.
#[inline]
pub(crate) async fn check(shard: &Shard, session: &Session, statement: &Statement) -> Result<(), Failure> {
    if !shard.config().access.requires_login() || session.is_internal {
        return Ok(());
    }
    match known(shard, session) {
        Some(entry) => decide(shard, session, &entry, statement),
        None => Box::pin(check_after_loading(shard, session, statement)).await,
    }
}

/// The statement that a session runs in place of one that it may run: the one without what is masked, unless its role
/// may see that.
#[inline]
pub(crate) async fn as_shown<'s>(
    shard: &Shard,
    session: &Session,
    statement: &'s Statement,
) -> Result<&'s Statement, Failure> {
    match &statement.masked {
        Some(masked) if !session.is_internal => Box::pin(shown_of(shard, session, statement, masked)).await,
        _ => Ok(statement),
    }
}

async fn shown_of<'s>(
    shard: &Shard,
    session: &Session,
    statement: &'s Statement,
    masked: &'s MaskedStatement,
) -> Result<&'s Statement, Failure> {
    let entry = match known(shard, session) {
        Some(entry) => entry,
        None => of_session(shard, session).await?,
    };
    match entry.grants.may(Permission::Unmask, &masked.chain) {
        true => Ok(statement),
        false => Ok(&masked.statement),
    }
}

/// What is known of the session's role, if it still counts.
fn known(shard: &Shard, session: &Session) -> Option<Rc<Entry>> {
    let user = session.user.borrow();
    let user = user.as_ref()?;
    let known = user.known.borrow().clone().filter(|known| shard.roles().counts(known));
    let entry = known.or_else(|| {
        let found = shard.roles().get(&user.name)?;
        user.known.replace(Some(found.clone()));
        Some(found)
    })?;
    refresh_if_due(shard, &user.name, &entry);
    Some(entry)
}

async fn check_after_loading(shard: &Shard, session: &Session, statement: &Statement) -> Result<(), Failure> {
    let entry = of_session(shard, session).await?;
    if let Some(user) = session.user.borrow().as_ref() {
        user.known.replace(Some(entry.clone()));
    }
    decide(shard, session, &entry, statement)
}

/// What the session's role may do.
pub(crate) async fn of_session(shard: &Shard, session: &Session) -> Result<Rc<Entry>, Failure> {
    let name = session.user.borrow().as_ref().map(|user| user.name.clone());
    let Some(name) = name else { return Err(unauthorized("You have not logged in")) };
    entry(shard, &name).await
}

/// The session's role may still do something, and has the permissions that a statement needs.
fn decide(shard: &Shard, session: &Session, entry: &Entry, statement: &Statement) -> Result<(), Failure> {
    let user = session.user.borrow();
    let Some(user) = user.as_ref() else { return Err(unauthorized("You have not logged in")) };
    still_valid(shard, user, entry)?;
    if !shard.config().access.authorizes {
        return Ok(());
    }
    for required in &*statement.required {
        ensure(user, entry, required)?;
    }
    if let Some(MaskedStatement { chain, refusal: Some(refusal), .. }) = statement.masked.as_deref() {
        let may = |permission| entry.grants.may(permission, chain);
        if !may(Permission::Unmask) && !may(Permission::SelectMasked) {
            return Err(unauthorized(format!("User {} {refusal}", user.name)));
        }
    }
    if let Some(MaskedStatement { chain, hidden: Some(hidden), .. }) = statement.masked.as_deref()
        && !entry.grants.may(Permission::Unmask, chain)
    {
        return Err(unauthorized(format!("User {} {hidden}", user.name)));
    }
    match &statement.prepared.plan {
        Plan::Define(define) => match required_by_definition(define, &shard.schema_ref()) {
            Some(required) => ensure(user, entry, &required),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

#[inline]
fn ensure(user: &LoggedIn, entry: &Entry, required: &Required) -> Result<(), Failure> {
    match entry.grants.may(required.permission, &required.chain) {
        true => Ok(()),
        false => Err(unauthorized(required.denial(&user.name))),
    }
}

/// Fails if the role was dropped, may not log in any more, has another password by now, or has no access here.
pub(crate) fn still_valid(shard: &Shard, user: &LoggedIn, entry: &Entry) -> Result<(), Failure> {
    let (grants, name) = (&entry.grants, &user.name);
    if !grants.exists {
        return Err(unauthorized(format!("Role {name} doesn't exist")));
    }
    if !grants.can_login {
        return Err(unauthorized(format!("{name} is not permitted to log in")));
    }
    if let Some(identity) = &user.identity {
        if !grants.identities.contains(identity) {
            return Err(unauthorized(format!("Certificate identity '{identity}' not authorized")));
        }
    } else if *user.salted_hash.borrow() != grants.salted_hash {
        return Err(unauthorized(format!("The password of {name} has changed since this connection has logged in")));
    }
    if let Some(centers) = &grants.data_centers
        && !grants.is_superuser
        && !centers.contains(&shard.config().data_center)
    {
        let center = &shard.config().data_center;
        return Err(unauthorized(format!("You do not have access to this datacenter ({center})")));
    }
    if !cidrs::may_access(shard, grants, user.address) {
        return Err(no_access_from(user.address));
    }
    Ok(())
}
