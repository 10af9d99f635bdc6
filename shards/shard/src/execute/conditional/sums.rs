//! `c = c + x` for numbers and texts in conditional changes: the current value is known and cannot change during the
//! round, so the sum is set as an ordinary value.

use crate::execute::values::binding::Values;
use crate::shard_state::Shard;
use cql::plan::{ColumnChange, Modify, Operation, Term, Value};
use model::{ColumnId, CqlType, Failure};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Whether a statement adds to what is there.
pub(super) fn adds(modify: &Modify) -> bool {
    modify.operations.iter().chain(&modify.statics).any(Operation::increases)
}

/// A statement with its additions replaced by the sums. `existing` gives the current value of a column, in the row that
/// the statement names if the first argument is true, else in the static row.
pub(super) fn summed<'m>(
    shard: &Shard,
    modify: &'m Modify,
    values: &Values<'_>,
    existing: &dyn Fn(bool, ColumnId) -> Option<Vec<u8>>,
) -> Result<Cow<'m, Modify>, Failure> {
    if !adds(modify) {
        return Ok(Cow::Borrowed(modify));
    }
    let mut modify = modify.clone();
    let table = modify.table.clone();
    let type_of = |id: ColumnId| table.column_by_id(id).map_or(CqlType::Blob, |column| column.cql_type.clone());
    for (operations, is_row) in [(&mut modify.operations, true), (&mut modify.statics, false)] {
        let mut sums: BTreeMap<ColumnId, Option<Vec<u8>>> = BTreeMap::new();
        for operation in operations.iter() {
            let ColumnChange::Increase { sum, by } = &operation.change else { continue };
            let there = match sums.remove(&operation.column) {
                Some(sum) => sum,
                None => existing(is_row, operation.column),
            };
            let result = match (there, values.evaluate(shard, by, &type_of(operation.column))?) {
                (_, Value::Null) => return Err(Failure::invalid("Invalid null value for an addition")),
                (_, Value::Unset) => return Err(Failure::invalid("Invalid unset value for an addition")),
                (None, Value::Bytes(_)) => None,
                (Some(there), Value::Bytes(by)) => {
                    sum.evaluate(&[Some(Cow::Borrowed(&there)), Some(by)], &mut shard.evaluation())?
                }
            };
            sums.insert(operation.column, result);
        }
        operations.retain(|operation| !operation.increases());
        operations.extend(sums.into_iter().filter_map(|(column, sum)| {
            let change = ColumnChange::Set(Term::Constant(sum?.into()));
            Some(Operation { column, change, written: 0 })
        }));
        operations.sort_by_key(|operation| operation.column);
    }
    Ok(Cow::Owned(modify))
}
