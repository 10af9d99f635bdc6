//! Finding the plan of a request and dispatching it.
//!
//! 1. QUERY parses and plans its text, unless its plan is in the `text_cache`; EXECUTE finds a plan made by PREPARE.
//! 2. The request's values are matched with the plan's markers.
//! 3. The plan is run: reads and writes by this core's coordinator, DDL and TRUNCATE by shard 0.

pub(crate) mod batch;
pub(crate) mod batch_reading;
pub(crate) mod binding;
pub(crate) mod conditional;
pub(crate) mod define;
pub(crate) mod describe;
mod guarded;
pub(crate) mod modify;
pub(crate) mod paging;
pub(crate) mod prepared;
pub(crate) mod project;
pub(crate) mod select;
mod shown;
pub(crate) mod slices;
mod sorted;
pub(crate) mod text_cache;

use crate::row_block::RowBlock;
use crate::verbs::{Defined, Request};
use crate::{Answer, Response, Rows, Session, Shard, virtual_tables};
use binding::{Values, wrong_count_executed, wrong_count_queried};
use cql::Prepared;
use cql::plan::{Describe, Plan, Value};
use model::{CqlType, ErrorCode, Failure, QueryParameters};
use prepared::Statement;
use runtime::ShardId;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// QUERY.
pub(crate) async fn query(
    shard: &Shard,
    session: &Session,
    text: &str,
    parameters: &QueryParameters<'_>,
) -> Result<Answer, Failure> {
    shard.trace_query(text, parameters);
    let statement = plan_text(shard, session, text, parameters.keyspace, Told::ToTrace)?;
    let values = Values::of(&statement.prepared.markers, parameters, wrong_count_queried)?;
    shard.figures().regular_runs.increment();
    let mut answer = run(shard, session, &statement, &values, parameters).await?;
    if let Response::Rows(rows) = &mut answer.response {
        rows.result_metadata_id = None;
    }
    Ok(answer)
}

/// EXECUTE.
pub(crate) async fn execute(
    shard: &Shard,
    session: &Session,
    id: &[u8],
    parameters: &QueryParameters<'_>,
) -> Result<Answer, Failure> {
    let statement = prepared::find(shard, id).await?;
    let values = Values::of(&statement.prepared.markers, parameters, wrong_count_executed);
    if shard.is_traced() {
        let bound = values.as_ref().ok().map(|values| &*values.bound);
        shard.trace_execute(statement.text(), parameters, &statement.prepared.markers, bound);
    }
    let values = values?;
    shard.figures().prepared_runs.increment();
    run(shard, session, &statement, &values, parameters).await
}

/// The plan of a text in the request's keyspace or the session's, known or made.
pub(crate) fn plan_text(
    shard: &Shard,
    session: &Session,
    text: &str,
    keyspace: Option<&str>,
    told: Told,
) -> Result<Rc<Statement>, Failure> {
    let session_keyspace = session.keyspace.borrow();
    check_keyspace(shard, keyspace)?;
    let keyspace = keyspace.or(session_keyspace.as_deref());
    if shard.is_traced() {
        return plan(shard, keyspace, text, told).map(Rc::new);
    }
    let known = shard.texts().borrow_mut().get(text, |statement| statement.fits(keyspace));
    if let Some(statement) = known {
        return Ok(statement);
    }
    let statement = Rc::new(plan(shard, keyspace, text, told)?);
    if statement.is_read_or_write() {
        shard.texts().borrow_mut().offer(text, &statement, statement.bytes());
    }
    Ok(statement)
}

/// Whether the request's trace is told of parsing and planning: only that of a QUERY is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    ToTrace,
    ToNobody,
}

/// Refuses a request's own keyspace if there is none of that name.
pub(crate) fn check_keyspace(shard: &Shard, keyspace: Option<&str>) -> Result<(), Failure> {
    match keyspace {
        Some(name) if shard.schema_ref().keyspace(name).is_none() => {
            Err(Failure::invalid(format!("Keyspace '{name}' does not exist")))
        }
        _ => Ok(()),
    }
}

/// Plans a text. A panic in the parser or planner, which hold no state of the shard, fails this statement only; in the
/// simulator it fails the run.
pub(crate) fn plan_text_in(shard: &Shard, keyspace: Option<&str>, text: &str) -> Result<Statement, Failure> {
    plan(shard, keyspace, text, Told::ToNobody)
}

fn plan(shard: &Shard, keyspace: Option<&str>, text: &str, told: Told) -> Result<Statement, Failure> {
    let schema = shard.schema();
    let told = told == Told::ToTrace && shard.is_traced();
    if told {
        shard.trace(|| format!("Parsing {text}"));
    }
    let plan = || {
        let parsed = cql::parse(text)?;
        if let Some(guardrails) = &shard.config().guardrails {
            guardrails.check_text(&parsed, keyspace)?;
        }
        if told {
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
        Ok(prepared) => Ok(Statement::new(prepared?, keyspace, text)),
        Err(_) => {
            tracing::error!(statement_hash = runtime::hash64(text.as_bytes()), "a statement made the parser panic");
            Err(Failure::server("The statement could not be parsed: a defect of this server"))
        }
    }
}

/// How long a request may take: USING TIMEOUT or the configured time.
pub(crate) fn timeout_of(
    shard: &Shard,
    prepared: &Prepared,
    values: &Values<'_>,
    configured: Duration,
) -> Result<Duration, Failure> {
    let Some(term) = &prepared.timeout else { return Ok(configured) };
    match values.evaluate(shard, term, &CqlType::Duration)? {
        Value::Bytes(duration) => cql::plan::timeout_of(&duration),
        Value::Null => Err(Failure::invalid("Timeout value cannot be null")),
        Value::Unset => Ok(configured),
    }
}

async fn run(
    shard: &Shard,
    session: &Session,
    statement: &Statement,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
) -> Result<Answer, Failure> {
    let prepared = &*statement.prepared;
    let mut warnings = prepared.warnings.clone();
    if let Some(guardrails) = &shard.config().guardrails {
        warnings.extend(guarded::check(shard, guardrails, prepared, values, parameters)?);
    }
    let response = match &prepared.plan {
        Plan::Select(plan) => {
            Response::Rows(select::select(shard, statement, plan, values, parameters, &mut warnings).await?)
        }
        Plan::Modify(plan) if plan.is_conditional() => {
            Response::Rows(Box::pin(conditional::modify(shard, statement, plan, values, parameters)).await?)
        }
        Plan::Modify(plan) => {
            modify::modify(shard, statement, plan, values, parameters).await?;
            Response::Void
        }
        Plan::Batch(plan) => {
            let answer = match plan.conditional {
                true => Box::pin(conditional::batch(shard, statement, plan, values, parameters)).await?,
                false => Box::pin(batch::statement(shard, statement, plan, values, parameters)).await?,
            };
            warnings.extend(answer.warnings);
            answer.response
        }
        Plan::Truncate(table) if virtual_tables::is_virtual(table) => {
            virtual_tables::truncate(table)?;
            Response::Void
        }
        Plan::Truncate(table) => {
            let timeout = timeout_of(shard, prepared, values, shard.config().truncate_timeout)?;
            let call = Box::pin(shard.call(ShardId(0), Request::Truncate(table.id)));
            match runtime::timeout(timeout, call).await {
                Some(reply) => reply.done()?,
                None => {
                    return Err(
                        Failure::new(ErrorCode::Truncate, "Truncate timed out - received only 0 responses").unknown()
                    );
                }
            }
            Response::Void
        }
        Plan::Use(_) if !shard.config().use_statements => {
            return Err(Failure::invalid("USE statements prohibited. (see use_statements_enabled in cassandra.yaml)"));
        }
        Plan::Use(keyspace) => {
            let keyspace: Arc<str> = keyspace.as_str().into();
            *session.keyspace.borrow_mut() = Some(keyspace.clone());
            Response::SetKeyspace(keyspace)
        }
        Plan::Define(plan) => {
            let reply = Box::pin(shard.call(ShardId(0), Request::Define(Box::new(plan.clone())))).await;
            let Defined { change, warnings: told } = reply.defined()?;
            warnings.extend(told);
            change.map_or(Response::Void, Response::SchemaChange)
        }
        Plan::Describe(plan) => Response::Rows(describe(shard, statement, plan, parameters)?),
    };
    Ok(Answer { response, warnings })
}

fn describe(
    shard: &Shard,
    statement: &Statement,
    plan: &Describe,
    parameters: &QueryParameters<'_>,
) -> Result<Rows, Failure> {
    let described = describe::describe(&shard.schema_ref(), shard.config(), shard.identity(), plan)?;
    let first = match parameters.paging_state {
        Some(state) => paging::decode_describe(state, statement.fingerprint)?,
        None => 0,
    };
    let page = parameters.page_size.and_then(|rows| usize::try_from(rows).ok()).filter(|&rows| rows > 0);
    let mut block = RowBlock::default();
    for row in described.rows.iter().skip(first).take(page.unwrap_or(usize::MAX)) {
        block.push_row(row);
    }
    let next = first + block.rows as usize;
    // As in Cassandra, a page that is filled exactly promises another, even when that will be empty.
    let is_full = page == Some(block.rows as usize);
    let paging_state = is_full.then(|| paging::encode_describe(statement.fingerprint, next));
    Ok(Rows { columns: described.columns, result_metadata_id: Some(statement.result_metadata_id), block, paging_state })
}
