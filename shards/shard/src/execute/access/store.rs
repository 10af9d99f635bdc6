//! Statements of this program about the tables of `system_auth`. Clients may not modify these tables, so such
//! statements have plans of their own, which no cache keeps.

use crate::execute::values::binding::Values;
use crate::execute::{select, write};
use crate::rows::block::cells_of;
use crate::shard_state::Shard;
use crate::statements::Statement;
use cql::plan::Plan;
use model::value::{BoundValue, push_element};
use model::{Consistency, Failure, QueryParameters};

/// A row: its cells in the order of the columns that were selected.
pub(super) type Row = Vec<Option<Vec<u8>>>;

fn planned(shard: &Shard, text: &str) -> Result<Statement, Failure> {
    let prepared = cql::prepare_own(&cql::parse(text)?, &shard.schema())?;
    Ok(Statement::new(prepared, None, text))
}

/// Reads rows at a consistency level.
pub(super) async fn read(shard: &Shard, text: &str, values: &[&[u8]], level: Consistency) -> Result<Vec<Row>, Failure> {
    let statement = planned(shard, text)?;
    let Plan::Select(plan) = &statement.prepared.plan else { return Err(unfit(text)) };
    let bound: Vec<BoundValue<'_>> = values.iter().map(|value| BoundValue::Bytes(value)).collect();
    let (values, parameters) = (Values::in_order(&bound), QueryParameters::new(level));
    let rows = Box::pin(select::select(shard, &statement, plan, &values, &parameters, &mut Vec::new(), None)).await?;
    let cells: Row = cells_of(&rows.block.bytes).map(|cell| cell.map(<[u8]>::to_vec)).collect();
    Ok(cells.chunks(rows.columns.len().max(1)).map(<[_]>::to_vec).collect())
}

/// Reads rows at the level of the options.
pub(super) async fn rows(shard: &Shard, text: &str, values: &[&[u8]]) -> Result<Vec<Row>, Failure> {
    read(shard, text, values, shard.config().access.read_level).await
}

/// Writes at a consistency level.
pub(super) async fn write_at(shard: &Shard, text: &str, values: &[&[u8]], level: Consistency) -> Result<(), Failure> {
    let statement = planned(shard, text)?;
    let Plan::Modify(plan) = &statement.prepared.plan else { return Err(unfit(text)) };
    let bound: Vec<BoundValue<'_>> = values.iter().map(|value| BoundValue::Bytes(value)).collect();
    let (values, parameters) = (Values::in_order(&bound), QueryParameters::new(level));
    Box::pin(write::statement::modify(shard, &statement, plan, &values, &parameters, None)).await
}

/// Writes at the level of the options.
pub(super) async fn change(shard: &Shard, text: &str, values: &[&[u8]]) -> Result<(), Failure> {
    write_at(shard, text, values, shard.config().access.write_level).await
}

fn unfit(text: &str) -> Failure {
    Failure::server(format!("a statement of this program is of another kind: {text}"))
}

/// A set of texts as a bound value; they must be in order.
pub(super) fn set_of<'t>(texts: impl ExactSizeIterator<Item = &'t str>) -> Vec<u8> {
    let mut out = (texts.len() as i32).to_be_bytes().to_vec();
    texts.for_each(|text| push_element(&mut out, Some(text.as_bytes())));
    out
}

/// The texts of a set.
pub(super) fn texts_of(cell: Option<&Vec<u8>>) -> Vec<String> {
    let elements = cell.into_iter().flat_map(|bytes| model::value::elements(bytes, false));
    elements.map(|element| String::from_utf8_lossy(element).into_owned()).collect()
}

/// The text of a cell.
pub(super) fn text_of(cell: Option<&Option<Vec<u8>>>) -> Option<String> {
    cell?.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Whether a boolean cell is true.
pub(super) fn is_true(cell: Option<&Option<Vec<u8>>>) -> bool {
    cell.and_then(Option::as_ref).is_some_and(|bytes| bytes.first().is_some_and(|byte| *byte != 0))
}
