//! BEGIN TRANSACTION ... COMMIT TRANSACTION: reads of one partition, and changes of it that depend on them.
//!
//! 1. The keys of all statements are evaluated; all must name the same partition.
//! 2. The request goes the way of a conditional batch: Paxos of the partition orders it among other transactions,
//!    conditional changes and reads at SERIAL, and finishes it if its coordinator dies.
//! 3. Under the promise, [`decision`] reads all rows at once ([`reading`]), puts their values in the place of
//!    references, tests the conditions, and builds the change.
//! 4. The answer comes from what was read: rows of the SELECT, or one row of references.
//!
//! Invariants: what is read, decided and written is of one state of the partition; a transaction that changes nothing
//! is a read at SERIAL.

pub(crate) mod decision;
mod reading;

use crate::coordinator::cas;
use crate::coordinator::throttle::{Bill, admit_decision};
use crate::execute::conditional::{self, plan_change};
use crate::execute::select::{limit_of, projected};
use crate::execute::values::binding::Values;
use crate::execute::values::keys::Keys;
use crate::execute::values::slices::{Bounds, NullBound};
use crate::execute::write::mutations::named_row;
use crate::messages::data::{ConditionalRequest, ConditionalStatement, RowsRead, TransactionRequest, borrowed, owned};
use crate::request::{Response, Rows, request_second};
use crate::rows::block::RowBlock;
use crate::rows::commands::row_slice;
use crate::shard_state::Shard;
use crate::statements::Statement;
use cluster::consistency::check_conditional;
use cluster::plan::CasPlan;
use cql::plan::{Choice, ColumnChange, ONE_ROW, PartitionRestriction, Returning, Select, Selector, Transaction};
use model::mutation::Clustering;
use model::query::Slice;
use model::{ColumnId, ColumnKind, Consistency, DecoratedKey, Failure, QueryParameters, Table};
use std::rc::Rc;
use std::sync::Arc;

/// Runs a transaction.
///
/// # Errors
/// Statements name several partitions, or a read more than one row; those of conditional changes and of reads at
/// SERIAL.
pub(crate) async fn run(
    shard: &Shard,
    statement: &Statement,
    plan: &Arc<Transaction>,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    bill: Option<&Rc<Bill>>,
) -> Result<Response, Failure> {
    let table = &plan.table;
    let mut partition = OnePartition { shard, table, key: None };
    let mut reads = Vec::with_capacity(plan.lets.len() + 1);
    for (tuple, assignment) in plan.lets.iter().enumerate() {
        let select = &assignment.select;
        partition.add(keys_of(select), values)?;
        let limit = limit_of(shard, select.limit.as_ref(), values)?;
        if limit != 1 && !select.names_one_row() {
            return Err(Failure::invalid(format!("{ONE_ROW} LET assignment {}", assignment.position)));
        }
        let columns = columns_of(plan, tuple).map(Selector::Column).collect();
        reads.push(RowsRead { rows_max: 1, selection: columns, ..rows_of(shard, select, values)? });
    }
    if let Some(Returning::Select(select)) = &plan.returning {
        partition.add(keys_of(select), values)?;
        let rows_max = limit_of(shard, select.limit.as_ref(), values)?;
        reads.push(RowsRead { rows_max, ..rows_of(shard, select, values)? });
    }
    let mut parts = Vec::with_capacity(plan.updates.len());
    let mut added = Vec::with_capacity(plan.updates.len());
    for modify in &plan.updates {
        let part = conditional::part(shard, modify, values)?;
        {
            let bound = borrowed(&part.bound);
            let values = Values::in_order(&bound);
            partition.add(&part.modify.keys, &values)?;
            let row = named_row(shard, &part.modify, &values)?;
            added.push(existing_row(table, &part, row.as_deref()).map(|read| {
                reads.push(read);
                reads.len() - 1
            }));
        }
        parts.push(part);
    }
    let Some(key) = partition.key else { return Err(Failure::server("a transaction without a partition")) };
    let reads_alone = parts.is_empty();
    let placement = shard.placement_of(table)?;
    let serial = match parameters.consistency {
        level if level.is_serial() && reads_alone => level,
        _ => parameters.serial_consistency.unwrap_or(Consistency::Serial),
    };
    let cas_plan = match reads_alone {
        true => {
            check_conditional(serial, Consistency::Any, placement.keyspace().levels())?;
            let replicas = placement.replicas(shard.partitioner().token(&key), &key);
            CasPlan::of_read(serial, replicas, placement.live())?
        }
        false => plan_change(shard, &placement, &key, serial, parameters.consistency)?,
    };
    let mut charge = None;
    if let Some(bill) = bill {
        let bytes = parts.iter().map(ConditionalStatement::bytes).sum();
        let token = shard.partitioner().token(&key);
        let admitted = admit_decision(shard, bill, table, (token, &key), bytes, parameters.consistency, true);
        charge = Some((bill, admitted.await?));
    }
    let timeouts = shard.request_timeouts();
    let statics = statics_of(plan);
    let transaction = TransactionRequest { plan: plan.clone(), bound: owned(&values.bound), reads, added, statics };
    let mut request = ConditionalRequest {
        table: table.clone(),
        key,
        statements: parts,
        shown: Arc::from([]),
        plan: cas_plan.clone(),
        now_in_seconds: request_second(parameters),
        timeout: if reads_alone { timeouts.read } else { timeouts.write },
        read: None,
        transaction: Some(Box::new(transaction)),
    };
    let topology = placement.keyspace().topology();
    if request.plan.only().is_none_or(|replica| replica.node != topology.here()) {
        let key = DecoratedKey::new(shard.partitioner(), &request.key);
        request.read = reading::first_command(&request, &key);
    }
    let decided = cas::coordinate(shard, topology, request, conditional::decision::decide).await;
    let decided = match reads_alone {
        true => decided.map_err(|failure| cas_plan.failure_of_read(failure))?,
        false => decided?,
    };
    if let Some((bill, charge)) = charge {
        let rows = plan.lets.len() as u64 + u64::from(decided.rows.rows);
        charge.end(bill, rows, decided.rows.bytes.len() as u64);
    }
    Ok(match &plan.returning {
        None => Response::Void,
        Some(Returning::Select(select)) => {
            Response::Rows(rows(statement, projected(shard, select, decided.rows, values)?))
        }
        Some(Returning::References(_)) => Response::Rows(rows(statement, decided.rows)),
    })
}

fn rows(statement: &Statement, block: RowBlock) -> Rows {
    let columns = statement.prepared.result.clone().unwrap_or_else(|| Arc::from([]));
    Rows { columns, result_metadata_id: Some(statement.result_metadata_id), block, paging_state: None }
}

/// The partition that all statements name.
struct OnePartition<'s> {
    shard: &'s Shard,
    table: &'s Table,
    key: Option<Vec<u8>>,
}

impl OnePartition<'_> {
    /// Notes the partition that a statement names. Fails if it is another one than that of those before it.
    fn add(&mut self, choices: &[Choice], values: &Values<'_>) -> Result<(), Failure> {
        let several = || {
            Failure::invalid(format!(
                "Transactions cannot span multiple partitions: all statements must name the same partition key of table {}",
                self.table.full_name()
            ))
        };
        let Keys::One(key) = Keys::of(self.shard, self.table, choices, values)? else { return Err(several()) };
        match &self.key {
            Some(before) if **before != *key => Err(several()),
            Some(_) => Ok(()),
            None => {
                self.key = Some(key.into_owned());
                Ok(())
            }
        }
    }
}

fn keys_of(select: &Select) -> &[Choice] {
    match &select.partitions {
        PartitionRestriction::Keys(keys) => keys,
        PartitionRestriction::Tokens { .. } | PartitionRestriction::Scan => &[],
    }
}

/// The columns of rows that references to a LET assignment use, each once; static ones are read apart.
fn columns_of(plan: &Transaction, tuple: usize) -> impl Iterator<Item = ColumnId> {
    let mut columns: Vec<ColumnId> = Vec::new();
    for reference in plan.references.iter().filter(|reference| reference.tuple == tuple) {
        if !columns.contains(&reference.column) && !is_static(&plan.table, reference.column) {
            columns.push(reference.column);
        }
    }
    columns.into_iter()
}

/// The static columns whose values are used.
fn statics_of(plan: &Transaction) -> Arc<[ColumnId]> {
    let referenced = plan.references.iter().map(|reference| reference.column);
    let added = plan.updates.iter().flat_map(|modify| &modify.statics).filter(|operation| operation.increases());
    let mut columns: Vec<ColumnId> = referenced.chain(added.map(|operation| operation.column)).collect();
    columns.retain(|column| is_static(&plan.table, *column));
    columns.sort_unstable();
    columns.dedup();
    columns.into()
}

fn is_static(table: &Table, column: ColumnId) -> bool {
    table.column_by_id(column).is_some_and(|column| column.kind == ColumnKind::Static)
}

/// The rows that a SELECT names, without its limit.
fn rows_of(shard: &Shard, select: &Select, values: &Values<'_>) -> Result<RowsRead, Failure> {
    let restriction = &select.clustering;
    let slices: Arc<[Slice]> = match restriction.is_empty() {
        true => Arc::from([Slice::all()]),
        false => match Bounds::of(shard, &select.table, restriction, values, NullBound::SortsFirst)? {
            Some(bounds) => bounds.slices(&select.table),
            None => Arc::from([]),
        },
    };
    Ok(RowsRead {
        slices,
        rows_max: u64::MAX,
        selection: select.selection.as_slice().into(),
        static_rows: select.static_rows && select.table.static_len > 0,
        names_row: select.names_one_row(),
    })
}

/// The read of the values that a change adds to in a row; `None` if it adds to none.
fn existing_row(table: &Table, part: &ConditionalStatement, row: Option<&[u8]>) -> Option<RowsRead> {
    let added = part.modify.operations.iter().filter(|one| matches!(one.change, ColumnChange::Increase { .. }));
    let mut columns: Vec<ColumnId> = added.map(|operation| operation.column).collect();
    columns.dedup();
    let row = row.filter(|_| !columns.is_empty())?;
    let slice = match table.clustering_len {
        0 => Slice::all(),
        _ => row_slice(table, Clustering(row)),
    };
    Some(RowsRead {
        slices: Arc::from([slice]),
        rows_max: 1,
        selection: columns.into_iter().map(Selector::Column).collect(),
        static_rows: false,
        names_row: true,
    })
}
