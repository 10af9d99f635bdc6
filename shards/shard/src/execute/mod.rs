//! Running CQL statements.
//!
//! 1. `planning` gives the plan of a QUERY's text or of an EXECUTE's id.
//! 2. The request's values are matched with the plan's markers ([`values`]).
//! 3. The session's role must have the permissions that the plan needs ([`access`]).
//! 4. The plan is run: reads ([`select`]) and writes ([`write`](mod@write), [`conditional`], [`transaction`]) by this
//!    core as coordinator, DDL and TRUNCATE by shard 0.

pub(crate) mod access;
pub(crate) mod conditional;
mod guardrail_checks;
mod paging;
mod select;
mod tablet_routes;
pub(crate) mod transaction;
mod values;
pub(crate) mod write;

use crate::coordinator::throttle::Bill;
use crate::coordinator::truncate;
use crate::describe;
use crate::messages::Request;
use crate::messages::schema::Defined;
use crate::operations::stored_bytes;
use crate::planning::{ParseTrace, plan_text, prepared};
use crate::request::{Answer, Response, Rows, Session};
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use crate::statements::Statement;
use crate::virtual_tables;
use cql::plan::{Describe, Plan};
use model::{Failure, QueryParameters};
use runtime::ShardId;
use std::rc::Rc;
use std::sync::Arc;
use values::binding::{Values, wrong_count_executed, wrong_count_queried};
use values::timeout::timeout_of;

/// Runs a QUERY.
pub(crate) async fn query(
    shard: &Shard,
    session: &Session,
    text: &str,
    parameters: &QueryParameters<'_>,
) -> Result<Answer, Failure> {
    shard.trace_query(text, parameters);
    let statement = plan_text(shard, session, text, parameters.keyspace, ParseTrace::Shown)?;
    let values = Values::of(&statement.prepared.markers, parameters, wrong_count_queried)?;
    shard.metrics().regular_runs.increment();
    let mut answer = run(shard, session, &statement, &values, parameters).await?;
    if let Response::Rows(rows) = &mut answer.response {
        rows.result_metadata_id = None;
    }
    Ok(answer)
}

/// Runs an EXECUTE.
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
    shard.metrics().prepared_runs.increment();
    run(shard, session, &statement, &values, parameters).await
}

async fn run(
    shard: &Shard,
    session: &Session,
    statement: &Statement,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
) -> Result<Answer, Failure> {
    access::check::check(shard, session, statement).await?;
    let statement = access::check::as_shown(shard, session, statement).await?;
    let prepared = &*statement.prepared;
    let mut warnings = prepared.warnings.clone();
    if shard.has_guardrails() {
        warnings.extend(guardrail_checks::check(shard, prepared, values, parameters)?);
    }
    let bill = bill(shard, session, std::iter::once(&prepared.plan), parameters);
    if bill.is_some() {
        stored_bytes::check(shard, &prepared.plan)?;
    }
    let bill = bill.as_ref();
    let response = match &prepared.plan {
        Plan::Select(plan) => {
            Response::Rows(select::select(shard, statement, plan, values, parameters, &mut warnings, bill).await?)
        }
        Plan::Modify(plan) if plan.is_conditional() => {
            Response::Rows(Box::pin(conditional::modify(shard, statement, plan, values, parameters, bill)).await?)
        }
        Plan::Modify(plan) => {
            write::statement::modify(shard, statement, plan, values, parameters, bill).await?;
            Response::Void
        }
        Plan::Batch(plan) => {
            let answer = match plan.conditional {
                true => Box::pin(conditional::batch(shard, statement, plan, values, parameters, bill)).await?,
                false => Box::pin(write::batch::statement(shard, statement, plan, values, parameters, bill)).await?,
            };
            warnings.extend(answer.warnings);
            answer.response
        }
        Plan::Transaction(plan) => Box::pin(transaction::run(shard, statement, plan, values, parameters, bill)).await?,
        Plan::Truncate(table) if table.is_virtual() => {
            virtual_tables::truncate(table)?;
            Response::Void
        }
        Plan::Truncate(table) => {
            let timeout = timeout_of(shard, prepared, values, shard.timeouts().truncate)?;
            Box::pin(truncate::on_all_nodes(shard, table.id, timeout)).await?;
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
            let before = shard.schema();
            let reply = Box::pin(shard.call(ShardId(0), Request::Define(Box::new(plan.clone())))).await;
            let Defined { change, warnings: told } = reply.defined()?;
            warnings.extend(told);
            if let Some(change) = &change {
                Box::pin(access::ownership::schema_changed(shard, session, &before, change)).await;
            }
            change.map_or(Response::Void, Response::SchemaChange)
        }
        Plan::Describe(plan) => Response::Rows(describe_page(shard, statement, plan, parameters)?),
        Plan::Access(plan) => Box::pin(access::statements::run(shard, session, statement, plan, &mut warnings)).await?,
    };
    let tablet = match session.knows_tablets.get() {
        true => tablet_routes::to_tell(shard, prepared, &values.bound),
        false => None,
    };
    Ok(Answer { response, warnings, charge: bill.and_then(|bill| bill.told()), tablet })
}

/// Who pays for a request of these plans; nobody if nothing is metered and the client does not ask for the price.
#[inline]
fn bill<'p>(
    shard: &Shard,
    session: &Session,
    plans: impl Iterator<Item = &'p Plan>,
    parameters: &QueryParameters<'_>,
) -> Option<Rc<Bill>> {
    if !shard.throughput().is_metered() && !parameters.wants_charge {
        return None;
    }
    metered_bill(shard, session, plans, parameters.wants_charge)
}

/// The same where something is metered, though perhaps not what the plans concern.
fn metered_bill<'p>(
    shard: &Shard,
    session: &Session,
    mut plans: impl Iterator<Item = &'p Plan>,
    is_asked: bool,
) -> Option<Rc<Bill>> {
    let user = session.user.borrow();
    let user = user.as_ref();
    let role_quota =
        user.filter(|user| user.has_quota()).and_then(|user| shard.throughput().of_role(&user.name, runtime::now()));
    let is_metered = |table: &model::Table| shard.throughput().is_metered_table(table.id);
    let concerns = |plan: &Plan| match plan {
        Plan::Select(select) => is_metered(&select.table),
        Plan::Modify(modify) => is_metered(&modify.table),
        Plan::Batch(_) | Plan::Transaction(_) => true,
        _ => false,
    };
    if role_quota.is_none() && !is_asked && !plans.any(concerns) {
        return None;
    }
    Some(Rc::new(Bill::new(user.map(|user| user.name.clone()), role_quota, is_asked)))
}

fn describe_page(
    shard: &Shard,
    statement: &Statement,
    plan: &Describe,
    parameters: &QueryParameters<'_>,
) -> Result<Rows, Failure> {
    let placement = shard.placement();
    let described = describe::describe(&shard.schema_ref(), shard.config(), &placement, plan)?;
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
    // As in Cassandra, a page that is exactly full promises another one, even if that will be empty.
    let is_full = page == Some(block.rows as usize);
    let paging_state = is_full.then(|| paging::encode_describe(statement.fingerprint, next));
    Ok(Rows { columns: described.columns, result_metadata_id: Some(statement.result_metadata_id), block, paging_state })
}
