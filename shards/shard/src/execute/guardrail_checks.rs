//! Guardrail checks of a read or write with its values, made before it is run.
//!
//! Invariants: without guardrails nothing here is called; system tables are exempt.

use crate::execute::values::binding::Values;
use crate::execute::values::json;
use crate::execute::values::keys::Keys;
use crate::shard_state::Shard;
use cql::guardrails::{Guardrails, Threshold, ensure};
use cql::plan::{
    Batch, Choice, ClusteringRestriction, ColumnChange, Modify, Operation, PartitionRestriction, Plan, Prepared,
    Returning, Select, Term, Transaction, Value,
};
use model::schema::is_system_keyspace;
use model::value::{self, BoundValue};
use model::{Consistency, CqlType, Failure, QueryParameters, Table};
use std::cell::Cell;

/// Bytes that Cassandra counts for a cell besides its path and value: timestamp, time to live, local deletion time.
const CELL_BYTES: u64 = 20;

/// Checks a statement and returns the client warnings.
///
/// # Errors
/// A guardrail refuses the statement.
pub(super) fn check(
    shard: &Shard,
    prepared: &Prepared,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    match &prepared.plan {
        Plan::Select(plan) => {
            let Some(guardrails) = shard.guardrails_of(&plan.table) else { return Ok(told) };
            let asking = Asking { shard, guardrails, values, row_bytes: Cell::new(0) };
            if !is_exempt(&plan.table) {
                asking.select(plan, parameters, &mut told)?;
            }
            // Applies to every table, as in Cassandra.
            asking.page(&plan.table.name, parameters, &mut told)?;
        }
        Plan::Modify(plan) => write(shard, plan, values, parameters, &mut told)?,
        Plan::Batch(Batch { statements, .. }) => {
            for modify in statements {
                write(shard, modify, values, parameters, &mut told)?;
            }
        }
        Plan::Transaction(plan) => transaction(shard, plan, values, parameters, &mut told)?,
        Plan::Truncate(table) if !is_exempt(table) => {
            let Some(guardrails) = shard.guardrails_of(table) else { return Ok(told) };
            ensure(
                guardrails.drop_truncate_table,
                "drop_truncate_table_enabled",
                "DROP and TRUNCATE TABLE functionality",
            )?;
        }
        Plan::Truncate(_) | Plan::Use(_) | Plan::Define(_) | Plan::Describe(_) | Plan::Access(_) => {}
    }
    Ok(told)
}

/// Checks the reads and changes of a transaction. What is read is not checked again where it is written.
fn transaction(
    shard: &Shard,
    plan: &Transaction,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    told: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut bound: Vec<BoundValue<'_>> = values.bound.iter().copied().collect();
    bound.resize(plan.markers + plan.references.len(), BoundValue::Unset);
    let unset = Values::in_order(&bound);
    if let Some(guardrails) = shard.guardrails_of(&plan.table) {
        let asking = Asking { shard, guardrails, values, row_bytes: Cell::new(0) };
        let returned = plan.returning.iter().filter_map(|returning| match returning {
            Returning::Select(select) => Some(select),
            Returning::References(_) => None,
        });
        for select in plan.lets.iter().map(|assignment| &assignment.select).chain(returned) {
            asking.select(select, parameters, told)?;
        }
    }
    for modify in &plan.updates {
        match modify.json {
            Some(_) => write(shard, modify, values, parameters, told)?,
            None => write(shard, modify, &unset, parameters, told)?,
        }
    }
    Ok(())
}

/// Checks one change and adds client warnings to `told`.
///
/// # Errors
/// A guardrail refuses the change.
pub(super) fn write(
    shard: &Shard,
    modify: &Modify,
    values: &Values<'_>,
    parameters: &QueryParameters<'_>,
    told: &mut Vec<String>,
) -> Result<(), Failure> {
    if is_exempt(&modify.table) {
        return Ok(());
    }
    let Some(guardrails) = shard.guardrails_of(&modify.table) else { return Ok(()) };
    if let Some(insert) = &modify.json {
        let parts = json::values(&modify.table, insert, values)?;
        let bound = json::bound(values, &parts);
        return Asking { shard, guardrails, values: &Values::in_order(&bound), row_bytes: Cell::new(0) }
            .modify(modify, parameters, told);
    }
    Asking { shard, guardrails, values, row_bytes: Cell::new(0) }.modify(modify, parameters, told)
}

fn is_exempt(table: &Table) -> bool {
    is_system_keyspace(&table.keyspace)
}

/// Adds the warnings that were not given yet.
fn push(told: &mut Vec<String>, text: impl IntoIterator<Item = String>) {
    for text in text {
        if !told.contains(&text) {
            told.push(text);
        }
    }
}

struct Asking<'a, 'v> {
    shard: &'a Shard,
    guardrails: &'a Guardrails,
    values: &'a Values<'v>,
    /// Bytes of the values that the statement writes into each row.
    row_bytes: Cell<u64>,
}

impl Asking<'_, '_> {
    fn select(&self, select: &Select, parameters: &QueryParameters<'_>, told: &mut Vec<String>) -> Result<(), Failure> {
        let guardrails = self.guardrails;
        ensure_level(guardrails, true, &[parameters.consistency], told)?;
        let table = &select.table.name;
        if let PartitionRestriction::Keys(choices) = &select.partitions {
            let keys = Keys::unchecked(self.shard, &select.table, choices, self.values)?.iter().count() as u64;
            if keys > 1 {
                push(
                    told,
                    guardrails.partition_keys_in_select.check(
                        "partition_keys_in_select",
                        keys,
                        |limit| {
                            format!(
                                "Query with partition keys in IN clause on table {table}, with number of partition keys \
                                 {keys} exceeds warning threshold of {limit}."
                            )
                        },
                        |limit| {
                            format!(
                                "Aborting query with partition keys in IN clause on table {table}, number of partition \
                                 keys {keys} exceeds fail threshold of {limit}."
                            )
                        },
                    )?,
                );
            }
            self.product(choices, "partition", told)?;
        }
        self.rows(&select.clustering, told)
    }

    fn page(&self, table: &str, parameters: &QueryParameters<'_>, told: &mut Vec<String>) -> Result<(), Failure> {
        if let Some(rows) = parameters.page_size.and_then(|rows| u64::try_from(rows).ok()) {
            push(
                told,
                self.guardrails.page_size.check(
                    "page_size",
                    rows,
                    |limit| {
                        format!("Query for table {table} with page size {rows} exceeds warning threshold of {limit}.")
                    },
                    |limit| {
                        format!("Aborting query for table {table}, page size {rows} exceeds fail threshold of {limit}.")
                    },
                )?,
            );
        }
        Ok(())
    }

    fn modify(&self, modify: &Modify, parameters: &QueryParameters<'_>, told: &mut Vec<String>) -> Result<(), Failure> {
        self.row_bytes.set(0);
        let mut levels = vec![parameters.consistency];
        if modify.is_conditional() {
            levels.push(parameters.serial_consistency.unwrap_or(Consistency::Serial));
        }
        ensure_level(self.guardrails, false, &levels, told)?;
        // As in Cassandra, a full disk does not stop conditional changes.
        if !modify.is_conditional() {
            push(told, self.shard.disk_usage().check()?);
        }
        self.timestamp(modify, parameters, told)?;
        self.product(&modify.keys, "partition", told)?;
        self.rows(&modify.clustering, told)?;
        self.keys(modify, told)?;
        let mut operations = modify.statics.iter().chain(&modify.operations);
        operations.try_for_each(|operation| self.operation(modify, operation, told))?;
        let (name, size) = (&modify.table.name, self.row_bytes.get());
        let what = format!("Row of table {name} that is written has size {size}");
        push(told, self.guardrails.row_size.check_size("row_size", size, what)?);
        Ok(())
    }

    /// Checks the sizes of the partition keys that are written to.
    fn keys(&self, modify: &Modify, told: &mut Vec<String>) -> Result<(), Failure> {
        if self.guardrails.partition_key_size == Threshold::default() {
            return Ok(());
        }
        let name = &modify.table.name;
        for key in Keys::unchecked(self.shard, &modify.table, &modify.keys, self.values)?.iter() {
            let what = format!("Partition key of table {name} has size {}", key.len());
            let checked = self.guardrails.partition_key_size;
            push(told, checked.check_size("partition_key_size", key.len() as u64, what)?);
        }
        Ok(())
    }

    /// Checks the timestamp of a change if one was given, with the statement or the request.
    fn timestamp(
        &self,
        modify: &Modify,
        parameters: &QueryParameters<'_>,
        told: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let own = match &modify.timestamp {
            Some(term) => match self.values.evaluate(self.shard, term, &CqlType::Bigint)? {
                Value::Bytes(bytes) => <[u8; 8]>::try_from(&*bytes).ok().map(i64::from_be_bytes),
                Value::Null | Value::Unset => None,
            },
            None => None,
        };
        let Some(timestamp) = own.or(parameters.timestamp) else { return Ok(()) };
        let now = runtime::wall_micros();
        push(told, self.guardrails.check_timestamp(&modify.table.name, timestamp, now)?);
        Ok(())
    }

    /// Checks how many rows the choices of clustering columns name.
    fn rows(&self, clustering: &ClusteringRestriction, told: &mut Vec<String>) -> Result<(), Failure> {
        self.product(&clustering.choices, "clustering", told)
    }

    fn product(&self, choices: &[Choice], kind: &str, told: &mut Vec<String>) -> Result<(), Failure> {
        let count = choices.iter().fold(1u64, |count, choice| count.saturating_mul(self.count(choice)));
        if count <= 1 {
            return Ok(());
        }
        let warning = self.guardrails.in_select_cartesian_product.check(
            "in_select_cartesian_product",
            count,
            |limit| {
                format!(
                    "The cartesian product of the IN restrictions on {kind} key produces {count} values, this exceeds \
                     warning threshold of {limit}."
                )
            },
            |limit| {
                format!(
                    "Aborting query because the cartesian product of the IN restrictions on {kind} key produces {count} \
                     values, this exceeds fail threshold of {limit}."
                )
            },
        )?;
        push(told, warning);
        Ok(())
    }

    fn count(&self, choice: &Choice) -> u64 {
        match choice {
            Choice::One(_) => 1,
            Choice::Many(terms) => terms.len() as u64,
            Choice::Tuples { tuples, .. } => tuples.len() as u64,
            Choice::Marker(marker) | Choice::TuplesMarker { marker, .. } => {
                match self.values.bound.get(usize::from(*marker)) {
                    Some(BoundValue::Bytes(list)) => value::elements(list, false).count() as u64,
                    Some(BoundValue::Null | BoundValue::Unset) | None => 1,
                }
            }
        }
    }

    fn operation(&self, modify: &Modify, operation: &Operation, told: &mut Vec<String>) -> Result<(), Failure> {
        let Some(column) = modify.table.column_by_id(operation.column) else { return Ok(()) };
        let (name, cql_type) = (column.name.as_str(), &column.cql_type);
        let lists = |what: &str| {
            ensure(
                self.guardrails.read_before_write_list_operations,
                "read_before_write_list_operations",
                &format!("{what} requiring read before write"),
            )
        };
        let part = |of_key: bool| match cql_type {
            CqlType::Map { key, value, .. } => if of_key { key } else { value }.as_ref().clone(),
            CqlType::List { element, .. } | CqlType::Set { element, .. } => element.as_ref().clone(),
            other => other.clone(),
        };
        match &operation.change {
            ColumnChange::Set(term) | ColumnChange::Add(term)
                if cql_type.is_collection() && cql_type.is_multicell() =>
            {
                self.collection(name, cql_type, term, told)
            }
            ColumnChange::Set(term) | ColumnChange::Add(term) => self.value(name, cql_type, term, told),
            ColumnChange::SetEntry { key, value } => {
                self.value(name, &part(true), key, told)?;
                self.value(name, &part(false), value, told)
            }
            ColumnChange::SetIndex { value, .. } => {
                lists("Setting of list items by index")?;
                self.value(name, &part(false), value, told)
            }
            ColumnChange::DeleteIndex(_) => lists("Removal of list items by index"),
            ColumnChange::RemoveValues(_) => lists("Removal of list items"),
            ColumnChange::SetField(field, term) => match cql_type {
                CqlType::User { definition, .. } => match definition.fields.get(usize::from(*field)) {
                    Some((_, cql_type)) => self.value(name, cql_type, term, told),
                    None => Ok(()),
                },
                _ => Ok(()),
            },
            // The path of a cell counts, even that of a deleted one.
            ColumnChange::DeleteEntry(key) => self.value(name, &part(true), key, told),
            ColumnChange::Remove(keys) => {
                let of = CqlType::Set { element: Box::new(part(true)), frozen: false };
                match self.values.evaluate(self.shard, keys, &of)? {
                    Value::Bytes(bytes) => {
                        value::elements(&bytes, false).try_for_each(|key| self.size(name, key.len() as u64, told))
                    }
                    Value::Null | Value::Unset => Ok(()),
                }
            }
            ColumnChange::Delete
            | ColumnChange::Prepend(_)
            | ColumnChange::DeleteField(_)
            | ColumnChange::Increase { .. }
            | ColumnChange::Increment(_)
            | ColumnChange::Decrement(_) => Ok(()),
        }
    }

    fn value(&self, name: &str, cql_type: &CqlType, term: &Term, told: &mut Vec<String>) -> Result<(), Failure> {
        match self.values.evaluate(self.shard, term, cql_type)? {
            Value::Bytes(bytes) => {
                self.row_bytes.set(self.row_bytes.get() + bytes.len() as u64);
                self.size(name, bytes.len() as u64, told)
            }
            Value::Null | Value::Unset => Ok(()),
        }
    }

    fn size(&self, name: &str, size: u64, told: &mut Vec<String>) -> Result<(), Failure> {
        let what = format!("Value of column '{name}' has size {size}");
        push(told, self.guardrails.column_value_size.check_size("column_value_size", size, what)?);
        Ok(())
    }

    /// Checks a collection whose elements are separate cells.
    fn collection(&self, name: &str, cql_type: &CqlType, term: &Term, told: &mut Vec<String>) -> Result<(), Failure> {
        let Value::Bytes(bytes) = self.values.evaluate(self.shard, term, cql_type)? else { return Ok(()) };
        let is_map = matches!(cql_type, CqlType::Map { .. });
        let path_bytes = if matches!(cql_type, CqlType::List { .. }) { 16 } else { 0 };
        let (mut parts, mut size) = (0, 0);
        for part in value::elements(&bytes, is_map) {
            parts += 1;
            size += part.len() as u64;
        }
        self.row_bytes.set(self.row_bytes.get() + size);
        let items = if is_map { parts / 2 } else { parts };
        let counted = format!("Detected collection {name} with {items} items");
        let warning = self.guardrails.items_per_collection.check_size("items_per_collection", items, counted)?;
        push(told, warning);
        for part in value::elements(&bytes, is_map) {
            self.size(name, part.len() as u64, told)?;
        }
        let size = size + items * (CELL_BYTES + path_bytes);
        let what = format!("Detected collection {name} of size {size}");
        push(told, self.guardrails.collection_size.check_size("collection_size", size, what)?);
        Ok(())
    }
}

fn ensure_level(
    guardrails: &Guardrails,
    reads: bool,
    levels: &[Consistency],
    told: &mut Vec<String>,
) -> Result<(), Failure> {
    let (values, name, what) = match reads {
        true => (&guardrails.read_consistency_levels, "read_consistency_levels", "read consistency levels"),
        false => (&guardrails.write_consistency_levels, "write_consistency_levels", "write consistency levels"),
    };
    push(told, values.check(name, what, levels, |level| level.name().to_owned())?);
    Ok(())
}
