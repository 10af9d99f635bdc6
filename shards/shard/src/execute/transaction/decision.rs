//! Deciding a transaction: from the rows that were read to its change and its answer.

use super::reading::{Found, read};
use crate::coordinator::row_source::RowSource;
use crate::execute::conditional::changes::Changes;
use crate::execute::values::binding::Values;
use crate::messages::data::{ConditionalRequest, ConditionalStatement, Decision, TransactionRequest, borrowed};
use crate::paxos::Update;
use crate::rows::block::RowBlock;
use crate::shard_state::Shard;
use cql::plan::{Returning, Transaction};
use model::value::{BoundValue, push_element};
use model::{DecoratedKey, Failure};

/// Decides a transaction: returns the change to be proposed, if any, and the answer. `timestamp` is the ballot's,
/// microseconds since 1970; `source` has the partition.
///
/// # Errors
/// Those of the read; a value cannot be compared, added or written.
pub(crate) async fn decide(
    shard: &Shard,
    request: &ConditionalRequest,
    transaction: &TransactionRequest,
    key: &DecoratedKey,
    timestamp: i64,
    source: &RowSource,
) -> Result<(Option<Update>, Decision), Failure> {
    let plan = &*transaction.plan;
    let found = read(shard, request, transaction, key, source).await?;
    let bound = borrowed(&transaction.bound);
    let values = with_references(shard, plan, &found, &bound)?;
    let exists: Vec<bool> = (0..plan.lets.len()).map(|tuple| found.has_row(tuple)).collect();
    let applied = plan.holds(&exists, &values, &mut shard.evaluation())?;
    let decision = Decision { applied, rows: answer(plan, &found, &values) };
    if !applied || request.statements.is_empty() {
        return Ok((None, decision));
    }
    let references = values.get(plan.markers..).unwrap_or_default();
    let mut changes = Changes::new(shard, request, timestamp, source);
    for (ConditionalStatement { modify, bound }, added) in request.statements.iter().zip(&transaction.added) {
        let mut bound = borrowed(bound);
        bound.extend_from_slice(references);
        let values = Values::in_order(&bound);
        let existing = |is_row: bool, column| match (is_row, added) {
            (true, Some(read)) => found.value(*read, column).map(<[u8]>::to_vec),
            (true, None) => None,
            (false, _) => found.static_value(column).map(<[u8]>::to_vec),
        };
        changes.add(modify, &values, &existing).await?;
    }
    Ok((changes.finish()?, decision))
}

/// The values of the markers, then those of the references.
fn with_references<'v>(
    shard: &Shard,
    plan: &Transaction,
    found: &'v Found,
    bound: &[BoundValue<'v>],
) -> Result<Vec<BoundValue<'v>>, Failure> {
    let mut values = bound.to_vec();
    let mut context = shard.evaluation();
    for reference in &plan.references {
        let column = found.static_value(reference.column).or_else(|| found.value(reference.tuple, reference.column));
        let value = reference.of(&plan.table, column, bound, &mut context)?;
        values.push(value.map_or(BoundValue::Null, BoundValue::Bytes));
    }
    Ok(values)
}

/// The rows of the answer, before a projection.
fn answer(plan: &Transaction, found: &Found, values: &[BoundValue<'_>]) -> RowBlock {
    match &plan.returning {
        None => RowBlock::default(),
        Some(Returning::Select(_)) => found.rows(plan.lets.len()),
        Some(Returning::References(references)) => {
            let mut row = Vec::new();
            for reference in references {
                push_element(&mut row, plan.value_of(*reference, values));
            }
            let mut block = RowBlock::default();
            block.push_row(&row);
            block
        }
    }
}
