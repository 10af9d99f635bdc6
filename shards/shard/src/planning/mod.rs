//! From the text of a statement to its plan: parsing, planning, and the caches in front of both.
//!
//! [`prepared`] is PREPARE and the lookup of ids for EXECUTE. Running a plan is in `execute`.

pub(crate) mod facts;
pub(crate) mod prepared;

use crate::request::Session;
use crate::schema::system_tables::refuse_named_extensions;
use crate::shard_state::Shard;
use crate::statements::Statement;
use model::Failure;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

/// The plan of a text, from the cache or made anew. Names without a keyspace are looked up in the request's keyspace,
/// or else in the session's.
pub(crate) fn plan_text(
    shard: &Shard,
    session: &Session,
    text: &str,
    keyspace: Option<&str>,
    trace: ParseTrace,
) -> Result<Rc<Statement>, Failure> {
    let session_keyspace = session.keyspace.borrow();
    check_keyspace(shard, keyspace)?;
    let keyspace = keyspace.or(session_keyspace.as_deref());
    if shard.is_traced() {
        return plan(shard, keyspace, text, trace).map(Rc::new);
    }
    let known = shard.texts().borrow_mut().get(text, |statement| statement.fits(keyspace));
    if let Some(statement) = known {
        return Ok(statement);
    }
    let statement = Rc::new(plan(shard, keyspace, text, trace)?);
    if statement.is_read_or_write() {
        shard.texts().borrow_mut().offer(text, &statement, statement.bytes());
    }
    Ok(statement)
}

/// Whether parsing and planning are events of the request's trace: only those of a QUERY are, as in Cassandra.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParseTrace {
    Shown,
    Hidden,
}

/// Refuses the keyspace that a request names if it does not exist.
pub(crate) fn check_keyspace(shard: &Shard, keyspace: Option<&str>) -> Result<(), Failure> {
    match keyspace {
        Some(name) if shard.schema_ref().keyspace(name).is_none() => {
            Err(Failure::invalid(format!("Keyspace '{name}' does not exist")))
        }
        _ => Ok(()),
    }
}

/// Plans a text. A panic in the parser or planner, which hold no state of the shard, fails only this statement; in the
/// simulator it fails the run.
pub(crate) fn plan_text_in(shard: &Shard, keyspace: Option<&str>, text: &str) -> Result<Statement, Failure> {
    plan(shard, keyspace, text, ParseTrace::Hidden)
}

fn plan(shard: &Shard, keyspace: Option<&str>, text: &str, trace: ParseTrace) -> Result<Statement, Failure> {
    let schema = shard.schema();
    let traced = trace == ParseTrace::Shown && shard.is_traced();
    if traced {
        shard.trace(|| format!("Parsing {}", cql::without_passwords(text)));
    }
    let plan = || {
        let parsed = cql::parse(text)?;
        refuse_named_extensions(&parsed, keyspace)?;
        if let Some(guardrails) = &shard.config().guardrails {
            guardrails.check_text(&parsed, keyspace)?;
        }
        if traced {
            shard.trace(|| "Preparing statement".into());
        }
        let planned = cql::prepare(&parsed, keyspace, &schema);
        match &shard.config().guardrails {
            Some(guardrails) => planned.map_err(|failure| guardrails.explained(failure)),
            None => planned,
        }
    };
    let planned =
        if runtime::fault::is_simulated() { Ok(plan()) } else { std::panic::catch_unwind(AssertUnwindSafe(plan)) };
    match planned {
        Ok(prepared) => {
            let mut statement = Statement::new(prepared?, keyspace, text);
            if shard.config().access.authorizes {
                statement.required = cql::plan::required(&statement.prepared.plan).into();
                if shard.config().masking {
                    statement.apply_masks();
                }
            }
            Ok(statement)
        }
        Err(_) => {
            tracing::error!(statement_hash = runtime::hash64(text.as_bytes()), "a statement made the parser panic");
            Err(Failure::server("The statement could not be parsed: a defect of this server"))
        }
    }
}
