//! INSERT, UPDATE, DELETE and BATCH with IF: the request to the core that decides, and its decision as an answer.
//!
//! 1. The keys of the statements are evaluated; all must name the same partition.
//! 2. A request carries statements and values to the core that owns the partition; the module `cas` of the coordinator
//!    runs the round in which it is decided.
//! 3. There [`decision`] reads what the conditions look at and builds the change.
//! 4. The answer is a row with `[applied]` and, if the change was not applied, the rows that were looked at.

pub(super) mod changes;
mod conditions;
pub(crate) mod decision;
mod sums;

use crate::coordinator::cas::{self, finishing};
use crate::coordinator::sub_partitions::{is_closed, key_places, wait_until_open};
use crate::coordinator::throttle::{Bill, admit_decision};
use crate::execute::values::binding::Values;
use crate::execute::values::json;
use crate::execute::values::keys::Keys;
use crate::execute::values::timeout::timeout_of;
use crate::execute::write::mutations::named_row;
use crate::messages::data::{ConditionalRequest, ConditionalStatement, Decision, borrowed, owned};
use crate::request::{AckTerms, Answer, Response, Rows, request_second};
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use crate::statements::Statement;
use cluster::consistency::check_conditional;
use cluster::placement::TablePlacement;
use cluster::plan::{CasPlan, CasProgress};
use cql::plan::{Batch, Choice, Modify, ModifyKind, Term, Value};
use model::mutation::Clustering;
use model::{Column, ColumnId, ColumnSpec, Consistency, CqlType, DecoratedKey, Failure, QueryParameters, Table};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Runs an INSERT, UPDATE or DELETE with IF.
pub(crate) async fn modify(
    shard: &Shard,
    statement: &Statement,
    modify: &Modify,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    bill: Option<&Rc<Bill>>,
) -> Result<Rows, Failure> {
    let timeout = timeout_of(shard, &statement.prepared, values, shard.request_timeouts().write)?;
    wait_until_open(shard, &modify.table, timeout).await?;
    let part = part(shard, modify, values)?;
    let key = only_key(shard, &part, Alone::Yes)?;
    check_row(shard, &part)?;
    let key = stored_key(shard, &part, key)?;
    let table = &modify.table;
    let shown = match modify.conditions.test_existence() {
        true => table.visible_columns().map(|column| column.id).collect(),
        false => modify.conditions.result_columns(table),
    };
    decide(shard, table, key, vec![part], shown, parameters, timeout, bill).await
}

/// Runs a BEGIN BATCH statement with IF.
pub(crate) async fn batch(
    shard: &Shard,
    statement: &Statement,
    batch: &Batch,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    bill: Option<&Rc<Bill>>,
) -> Result<Answer, Failure> {
    let timeout = timeout_of(shard, &statement.prepared, values, shard.request_timeouts().write)?;
    let statements: Vec<(&Modify, &Values<'_>)> = batch.statements.iter().map(|modify| (modify, values)).collect();
    several(shard, &statements, parameters, timeout, bill).await
}

/// Runs the statements of a batch, at least one of them with IF.
pub(crate) async fn several(
    shard: &Shard,
    statements: &[(&Modify, &Values<'_>)],
    parameters: &QueryParameters<'_>,
    timeout: Duration,
    bill: Option<&Rc<Bill>>,
) -> Result<Answer, Failure> {
    let Some(((first, _), _)) = statements.split_first() else {
        return Ok(Answer { response: Response::Void, warnings: Vec::new(), charge: None, tablet: None });
    };
    let table = &first.table;
    wait_until_open(shard, table, timeout).await?;
    if statements.iter().any(|(modify, _)| modify.table.id != table.id) {
        return Err(Failure::invalid("Batch with conditions cannot span multiple tables"));
    }
    // As in Cassandra, a batch shows the whole key, even the columns of it that a compact table hides.
    let mut shown: Vec<ColumnId> = table.columns[..table.primary_key_len()].iter().map(|column| column.id).collect();
    let mut key: Option<Vec<u8>> = None;
    let mut parts = Vec::with_capacity(statements.len());
    for (modify, values) in statements {
        let next = next_part(shard, modify, values, &mut key);
        // Conditions that exclude each other are reported before errors in the next statement.
        let next = match next {
            Ok(next) => next,
            Err(failure) => {
                decision::check(shard, table, &parts)?;
                return Err(failure);
            }
        };
        for column in modify.conditions.result_columns(table) {
            if !shown.contains(&column) {
                shown.push(column);
            }
        }
        parts.push(next);
    }
    if statements.iter().any(|(modify, _)| modify.conditions.test_existence()) {
        shown = table.visible_columns().map(|column| column.id).collect();
    }
    let key = key.unwrap_or_default();
    let rows = decide(shard, table, key, parts, shown, parameters, timeout, bill).await?;
    let charge = bill.and_then(|bill| bill.told());
    Ok(Answer { response: Response::Rows(rows), warnings: Vec::new(), charge, tablet: None })
}

/// Commits proposals that earlier rounds left accepted in these partitions. To be called before a read at SERIAL or
/// LOCAL_SERIAL.
pub(crate) async fn finish_rounds(
    shard: &Shard,
    table: &Arc<Table>,
    placement: &TablePlacement,
    keys: &[DecoratedKey],
    terms: AckTerms,
) -> Result<(), Failure> {
    for key in keys {
        finishing::finish(shard, table, placement, key, terms).await?;
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "what a conditional statement was resolved to")]
async fn decide(
    shard: &Shard,
    table: &Arc<Table>,
    key: Vec<u8>,
    parts: Vec<ConditionalStatement>,
    shown: Vec<ColumnId>,
    parameters: &QueryParameters<'_>,
    timeout: Duration,
    bill: Option<&Rc<Bill>>,
) -> Result<Rows, Failure> {
    let shown: Arc<[ColumnId]> = shown.into();
    let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
    let placement = shard.placement_of(table)?;
    let plan = plan_change(shard, &placement, &key, serial, parameters.consistency);
    if plan.is_err() {
        // As in Cassandra, errors in the conditions are reported first.
        decision::check(shard, table, &parts)?;
    }
    let plan = plan?;
    if is_closed(&placement) {
        return Err(plan.expired(CasProgress::Preparing, 0, 0));
    }
    if let Some(bill) = bill {
        let bytes = parts.iter().map(ConditionalStatement::bytes).sum();
        let token = shard.partitioner().token(&key);
        admit_decision(shard, bill, table, (token, &key), bytes, parameters.consistency, true).await?;
    }
    let now_in_seconds = request_second(parameters);
    let mut request = ConditionalRequest {
        table: table.clone(),
        key,
        statements: parts,
        shown: shown.clone(),
        plan,
        now_in_seconds,
        timeout,
        read: None,
        transaction: None,
    };
    let topology = placement.keyspace().topology();
    if request.plan.only().is_none_or(|replica| replica.node != topology.here()) {
        let key = DecoratedKey::new(shard.partitioner(), &request.key);
        request.read = decision::read_of(shard, &request, &key)?;
    }
    let decided = cas::coordinate(shard, topology, request, decision::decide).await?;
    Ok(answer(table, &shown, decided))
}

/// The plan of a change of the partition `key`, decided at the level `serial` and written at the level `commit`.
pub(super) fn plan_change(
    shard: &Shard,
    placement: &TablePlacement,
    key: &[u8],
    serial: Consistency,
    commit: Consistency,
) -> Result<CasPlan, Failure> {
    check_conditional(serial, commit, placement.keyspace().levels())?;
    let replicas = placement.replicas(shard.partitioner().token(key), key);
    CasPlan::of_change(serial, commit, replicas, placement.live())
}

/// Evaluates the next statement of a batch. Fails unless it is in the partition of those before it.
fn next_part(
    shard: &Shard,
    modify: &Modify,
    values: &Values<'_>,
    key: &mut Option<Vec<u8>>,
) -> Result<ConditionalStatement, Failure> {
    let part = part(shard, modify, values)?;
    let mut found = only_key(shard, &part, Alone::No)?;
    if modify.table.write_sharding().is_some() {
        check_row(shard, &part)?;
        found = stored_key(shard, &part, found)?;
    }
    if key.get_or_insert_with(|| found.clone()) != &found {
        return Err(Failure::invalid("Batch with conditions cannot span multiple partitions"));
    }
    check_row(shard, &part)?;
    Ok(part)
}

/// The answer: `[applied]` and, if the change was refused, the rows that caused it.
fn answer(table: &Table, shown: &[ColumnId], decided: Decision) -> Rows {
    let spec = |name: &str, cql_type: &CqlType| ColumnSpec {
        keyspace: table.keyspace.as_str().into(),
        table: table.name.as_str().into(),
        name: name.into(),
        cql_type: cql_type.clone(),
        class: None,
    };
    let mut columns = vec![spec("[applied]", &CqlType::Boolean)];
    let mut block = decided.rows;
    if block.rows == 0 {
        let mut row = Vec::with_capacity(5);
        model::value::push_element(&mut row, Some(&[u8::from(decided.applied)]));
        block = RowBlock::default();
        block.push_row(&row);
    } else {
        let shown = shown.iter().filter_map(|id| table.column_by_id(*id));
        columns.extend(shown.map(|column| spec(&column.name, &column.cql_type)));
    }
    // The columns depend on the rows found, so they have no id.
    Rows { columns: columns.into(), result_metadata_id: None, block, paging_state: None }
}

/// Whether a statement is a request of its own or part of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    Yes,
    No,
}

/// The only partition that a statement names. Fails for IN.
fn only_key(shard: &Shard, part: &ConditionalStatement, alone: Alone) -> Result<Vec<u8>, Failure> {
    let modify = &part.modify;
    let bound = borrowed(&part.bound);
    let values = Values::in_order(&bound);
    let key = match Keys::of(shard, &modify.table, &modify.keys, &values)? {
        Keys::One(key) => Some(key.into_owned()),
        Keys::Many(_) => None,
    };
    let word = word_of(modify.kind);
    let (Some(key), false) = (key, modify.keys.iter().any(is_in)) else {
        return Err(Failure::invalid(match alone {
            Alone::Yes => format!("IN on the partition key is not supported with conditional {word}"),
            Alone::No => {
                "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)"
                    .to_owned()
            }
        }));
    };
    Ok(key)
}

/// The stored key of the partition in which the row of a statement is. `key` is the one that the statement names.
fn stored_key(shard: &Shard, part: &ConditionalStatement, key: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let table = &part.modify.table;
    let Some(sharding) = table.write_sharding() else { return Ok(key) };
    let bound = borrowed(&part.bound);
    let clustering = &part.modify.clustering;
    let is_whole = part.modify.rows && !clustering.is_slice() && clustering.chosen() == table.clustering_len;
    let row = match is_whole {
        true => named_row(shard, &part.modify, &Values::in_order(&bound))?,
        false => None,
    };
    let places = key_places(&*shard.placement_of(table)?, sharding, &key).read;
    let place = row.and_then(|row| sharding.by.number_of_row(Clustering(&row), places));
    let stored = place.map(|place| table.stored_key(&key, place)).ok_or_else(|| {
        Failure::invalid(format!(
            "Statements that are decided with a condition must name a whole row of table {}, which has write_sharding",
            table.full_name()
        ))
    })?;
    if sharding.growth.is_some() {
        shard.key_figures().note_request(table, &stored);
    }
    Ok(stored)
}

/// Fails if a statement names rows by IN, or names a row wrongly, even if that row has no condition.
fn check_row(shard: &Shard, part: &ConditionalStatement) -> Result<(), Failure> {
    let modify = &part.modify;
    if modify.clustering.choices.iter().any(is_in) {
        let word = word_of(modify.kind);
        return Err(Failure::invalid(format!(
            "IN on the clustering key columns is not supported with conditional {word}"
        )));
    }
    let bound = borrowed(&part.bound);
    named_row(shard, modify, &Values::in_order(&bound)).map(|_| ())
}

fn word_of(kind: ModifyKind) -> &'static str {
    match kind {
        ModifyKind::Insert | ModifyKind::Update => "updates",
        ModifyKind::Delete => "deletions",
    }
}

/// Whether a choice was written with IN; a list of one tuple does not count.
fn is_in(choice: &Choice) -> bool {
    match choice {
        Choice::One(_) => false,
        Choice::Tuples { tuples, .. } => tuples.len() != 1,
        Choice::Many(_) | Choice::Marker(_) | Choice::TuplesMarker { .. } => true,
    }
}

/// A statement with its own copy of the values and with its functions evaluated.
pub(super) fn part(shard: &Shard, modify: &Modify, values: &Values<'_>) -> Result<ConditionalStatement, Failure> {
    let bound = match &modify.json {
        None => owned(&values.bound),
        Some(insert) => {
            let parts = json::values(&modify.table, insert, values)?;
            owned(&json::bound(values, &parts))
        }
    };
    let mut modify = Modify { json: None, ..modify.clone() };
    let in_order = borrowed(&bound);
    let values = Values::in_order(&in_order);
    let table = modify.table.clone();
    once(shard, &mut modify.keys, table.partition_key(), &values)?;
    once(shard, &mut modify.clustering.choices, table.clustering(), &values)?;
    drop(in_order);
    Ok(ConditionalStatement { modify, bound })
}

/// Replaces functions by their results, so that the row tested is also the row changed.
fn once(shard: &Shard, choices: &mut [Choice], columns: &[Column], values: &Values<'_>) -> Result<(), Failure> {
    let mut rest = columns;
    for choice in choices {
        let (own, after) = rest.split_at(choice.columns().min(rest.len()));
        rest = after;
        let (Choice::One(term @ (Term::Call(_) | Term::Composite(_))), [column]) = (choice, own) else { continue };
        if let Value::Bytes(bytes) = values.evaluate(shard, term, &column.cql_type)? {
            *term = Term::Constant(bytes.as_ref().into());
        }
    }
    Ok(())
}
