//! Prepares transactions.
//!
//! Invariants: what is prepared is about one table whose rows of a key are one partition; whether all statements name
//! the same partition is known only with their values.

use super::operation::Existing;
use super::{Resolver, bare, prepare_modify, prepare_select};
use crate::ast::{self, Operator, Position, WRITE_SHARDING};
use crate::conditions::refuse_durations;
use crate::literal::{Markers, Receiver, Referenced, References, Scope, prepare_term, resolve_reference as resolve};
use crate::plan::{
    Choice, Let, MaskedPlan, NULL_COMPARISON, ONE_ROW, PartitionRestriction, Plan, Prepared, Returning, Select,
    Selector, Term, Transaction, TransactionCondition,
};
use model::schema::is_system_keyspace;
use model::{ColumnSpec, Failure, Table};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn prepare_transaction(
    transaction: &ast::Transaction,
    resolver: &Resolver<'_>,
    markers: &mut Markers<'_>,
) -> Result<Prepared> {
    if transaction.updates.is_empty() && transaction.returning.is_none() {
        return Err(Failure::invalid("Transaction contains no reads or writes"));
    }
    if transaction.updates.is_empty() && !transaction.conditions.is_empty() {
        return Err(Failure::invalid("A transaction with IF must contain updates"));
    }
    markers.references = Some(Box::default());
    let mut of = Preparing { resolver, table: None, fully_qualified: true, masked: None };
    let mut lets = Vec::with_capacity(transaction.lets.len());
    for assignment in &transaction.lets {
        lets.push(of.assignment(assignment, markers)?);
    }
    let mut result: Option<Arc<[ColumnSpec]>> = None;
    let returning = match &transaction.returning {
        None => None,
        Some(ast::Returning::Select(select, position)) => {
            let (select, columns) = of.returning(select, *position, markers)?;
            result = columns;
            Some(Returning::Select(select))
        }
        Some(ast::Returning::References(references)) => {
            let (numbers, columns) = of.returned_references(references, markers)?;
            result = Some(columns);
            Some(Returning::References(numbers))
        }
    };
    let mut updates = Vec::with_capacity(transaction.updates.len());
    for (modify, position) in &transaction.updates {
        updates.push(of.update(modify, *position, markers)?);
    }
    let Some(table) = of.table.clone() else { return Err(Failure::server("a transaction without a table")) };
    let scope = resolver.scope_of(&table);
    let conditions = transaction.conditions.iter().map(|condition| prepare_condition(condition, &scope, markers));
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    let references = markers.references.take().map(|references: Box<References>| references.found).unwrap_or_default();
    let plan = Transaction { table, markers: markers.len(), lets, references, returning, conditions, updates };
    let masked = of.masked_plan(&plan);
    let fully_qualified = of.fully_qualified;
    Ok(Prepared { result, fully_qualified, masked, ..bare(Plan::Transaction(Arc::new(plan))) })
}

/// What the statements of a transaction have in common.
struct Preparing<'r> {
    resolver: &'r Resolver<'r>,
    table: Option<Arc<Table>>,
    fully_qualified: bool,
    /// For a table with masks: the SELECT that the answer comes from as it is without what is masked, and the masked
    /// columns that are restricted.
    masked: Option<(Option<Select>, Vec<String>)>,
}

impl Preparing<'_> {
    /// Finds the table of a statement, which must be that of those before it.
    fn table(&mut self, name: &ast::TableName, kind: &str, position: Position) -> Result<()> {
        let table = self.resolver.table(name)?;
        self.fully_qualified &= name.keyspace.is_some();
        let shown = table.full_name();
        if table.is_counter() {
            return Err(Failure::invalid(format!(
                "Counter columns cannot be accessed within a transaction; {kind} statement {position}"
            )));
        }
        if is_system_keyspace(&table.keyspace) {
            return Err(Failure::invalid(format!(
                "Transactions are not supported on table {shown} of a system keyspace"
            )));
        }
        if table.write_sharding().is_some() {
            return Err(Failure::invalid(format!(
                "Transactions are not supported on table {shown}, which has {WRITE_SHARDING}: the rows of a key are in \
                 several partitions, of which a transaction can decide only one"
            )));
        }
        match &self.table {
            Some(before) if before.id != table.id => Err(Failure::invalid(format!(
                "Transactions cannot span multiple tables: {} and {shown}; {kind} statement {position}",
                before.full_name()
            ))),
            _ => {
                self.table = Some(table.clone());
                Ok(())
            }
        }
    }

    fn assignment(&mut self, assignment: &ast::Let, markers: &mut Markers<'_>) -> Result<Let> {
        let ast::Let { name, select, position } = assignment;
        if markers.references.as_ref().is_some_and(|references| references.has(name)) {
            return Err(Failure::invalid(format!("The name '{name}' has already been used by a LET assignment.")));
        }
        let (select, _) = self.read(select, *position, markers)?;
        if !matches!(select.partitions, PartitionRestriction::Keys(_)) {
            return Err(Failure::invalid(format!(
                "Range queries are not allowed for reads within a transaction; LET assignment {name} {position}"
            )));
        }
        check_keys(&select, *position)?;
        if may_have_rows(&select) {
            return Err(Failure::invalid(format!("{ONE_ROW} LET assignment {name} {position}")));
        }
        let columns = select.selection.iter().map(|selector| match selector {
            Selector::Column(id) if select.projection.is_none() => Some(*id),
            _ => None,
        });
        let Some(columns) = columns.collect() else {
            return Err(Failure::invalid(format!(
                "A LET assignment selects columns only; LET assignment {name} {position}"
            )));
        };
        if let Some(references) = &mut markers.references {
            references.add(name, columns);
        }
        Ok(Let { name: name.clone(), select, position: *position })
    }

    /// Prepares the SELECT that gives the answer, with the columns of its result.
    fn returning(
        &mut self,
        select: &ast::Select,
        position: Position,
        markers: &mut Markers<'_>,
    ) -> Result<(Select, Option<Arc<[ColumnSpec]>>)> {
        let (select, prepared) = self.read(select, position, markers)?;
        if !matches!(select.partitions, PartitionRestriction::Keys(_)) {
            return Err(Failure::invalid(format!(
                "SELECT must specify either all partition key elements. Partition key elements must be always specified \
                 with equality operators; returning select {position}"
            )));
        }
        check_keys(&select, position)?;
        if let (Some((shown, _)), Some(masked)) = (&mut self.masked, prepared.masked)
            && let Plan::Select(masked) = masked.plan
        {
            *shown = Some(masked);
        }
        Ok((select, prepared.result))
    }

    /// Prepares a read of the partition.
    fn read(
        &mut self,
        select: &ast::Select,
        position: Position,
        markers: &mut Markers<'_>,
    ) -> Result<(Select, Prepared)> {
        let refuse = |what: &str| {
            Err(Failure::invalid(format!("No {what} allowed within a transaction; SELECT statement {position}")))
        };
        if !select.order.is_empty() {
            return refuse("ORDER BY clause");
        }
        if !select.group.is_empty() {
            return refuse("GROUP BY clause");
        }
        self.table(&select.table, "SELECT", position)?;
        let mut prepared = prepare_select(select, self.resolver, markers)?;
        let Plan::Select(plan) = std::mem::replace(&mut prepared.plan, Plan::Use(String::new())) else {
            return Err(Failure::server("a SELECT without a plan"));
        };
        if plan.aggregate || plan.projection.as_ref().is_some_and(|projection| projection.grouped) {
            return refuse("aggregation functions");
        }
        if select.distinct {
            return refuse("DISTINCT");
        }
        if plan.per_partition_limit.is_some() {
            return refuse("PER PARTITION LIMIT");
        }
        if !plan.filter.is_empty() || plan.index.is_some() {
            return refuse("filtering or index");
        }
        if select.timeout.is_some() {
            return refuse("USING TIMEOUT");
        }
        if let Some(masked) = &mut prepared.masked {
            let (_, restricted) = self.masked.get_or_insert_default();
            restricted.append(&mut masked.restricted);
        }
        Ok((plan, prepared))
    }

    /// Prepares the references that give the answer: their numbers and the columns of the result.
    fn returned_references(
        &mut self,
        references: &[ast::Reference],
        markers: &mut Markers<'_>,
    ) -> Result<(Vec<usize>, Arc<[ColumnSpec]>)> {
        let mut numbers = Vec::with_capacity(references.len());
        let mut columns = Vec::with_capacity(references.len());
        for reference in references {
            if reference.column.is_none() {
                return Err(Failure::invalid("SELECT references must specify a column."));
            }
            let Some(table) = &self.table else {
                let name = &reference.tuple;
                return Err(Failure::invalid(format!("Cannot resolve reference to tuple '{name}'.")));
            };
            let scope = self.resolver.scope_of(table);
            let Referenced::Value(number) = resolve(reference, &scope, markers)? else { continue };
            let found = markers.references.as_ref().and_then(|references| references.found.get(number));
            let cql_type = found.map(|found| found.cql_type.clone());
            columns.extend(cql_type.map(|cql_type| scope.spec(&reference.to_string(), cql_type)));
            numbers.push(number);
        }
        Ok((numbers, columns.into()))
    }

    fn update(
        &mut self,
        modify: &ast::Modify,
        position: Position,
        markers: &mut Markers<'_>,
    ) -> Result<crate::plan::Modify> {
        let kind = match modify.kind {
            ast::ModifyBody::Insert { .. } | ast::ModifyBody::InsertJson { .. } => "INSERT",
            ast::ModifyBody::Update { .. } => "UPDATE",
            ast::ModifyBody::Delete { .. } => "DELETE",
        };
        self.table(&modify.table, kind, position)?;
        let scope = self.resolver.scope_of(self.resolver.writable_table(&modify.table)?);
        let plan = prepare_modify(modify, &scope, Existing::OfTransaction, markers)?;
        let refuse = |what: &str| {
            Err(Failure::invalid(format!(
                "Updates within transactions may not specify {what}; {kind} statement {position}"
            )))
        };
        if modify.conditions != ast::Conditions::None {
            return refuse("their own conditions");
        }
        if modify.using.timestamp.is_some() {
            return refuse("custom timestamps");
        }
        if modify.using.ttl.is_some() {
            return refuse("custom ttls");
        }
        if modify.using.timeout.is_some() {
            return refuse("a timeout");
        }
        let several = |choices: &[Choice]| choices.iter().any(|choice| !matches!(choice, Choice::One(_)));
        if several(&plan.keys) || several(&plan.clustering.choices) {
            return refuse("IN or tuples for key columns");
        }
        Ok(plan)
    }

    /// The plan for those who may not see what is masked, if the table has masks and the transaction reads.
    fn masked_plan(&mut self, plan: &Transaction) -> Option<Box<MaskedPlan>> {
        let (shown, restricted) = self.masked.take()?;
        let table = plan.table.clone();
        let mut referenced = Vec::new();
        for reference in &plan.references {
            if let Some(column) = table.column_by_id(reference.column)
                && table.masks.contains_key(&column.id)
                && !referenced.contains(&column.name)
            {
                referenced.push(column.name.clone());
            }
        }
        let returning = shown.map(Returning::Select).or_else(|| plan.returning.clone());
        let plan = Plan::Transaction(Arc::new(Transaction { returning, ..plan.clone() }));
        Some(Box::new(MaskedPlan { plan, table, restricted, referenced }))
    }
}

/// Refuses reads that may name several partitions.
fn check_keys(select: &Select, position: Position) -> Result<()> {
    let PartitionRestriction::Keys(keys) = &select.partitions else { return Ok(()) };
    let refuse = |text: &str| Err(Failure::invalid(format!("{text}; SELECT statement {position}")));
    if keys.iter().any(|choice| !matches!(choice, Choice::One(_))) {
        return match select.limit {
            Some(_) => {
                refuse("Partition key is present in IN clause and there is a LIMIT... this is currently not supported")
            }
            None => refuse("Transactions cannot span multiple partitions: IN on the partition key is not supported"),
        };
    }
    match select.key_tokens {
        Some(_) => refuse("Restrictions of the token are not supported within a transaction"),
        None => Ok(()),
    }
}

/// Whether a read is known to be of more than one row. A limit that is a marker is known only with its value.
fn may_have_rows(select: &Select) -> bool {
    let is_one = match &select.limit {
        Some(Term::Constant(bytes)) => **bytes == 1_i32.to_be_bytes(),
        Some(Term::Marker(_)) => true,
        _ => false,
    };
    !is_one && !select.names_one_row()
}

fn prepare_condition(
    condition: &ast::TransactionCondition,
    scope: &Scope,
    markers: &mut Markers<'_>,
) -> Result<TransactionCondition> {
    let (left, operator, right) = match condition {
        ast::TransactionCondition::Null { reference, not } => {
            let exists = *not;
            return Ok(match resolve(reference, scope, markers)? {
                Referenced::Row(tuple) => TransactionCondition::Row { tuple, exists },
                Referenced::Value(reference) => TransactionCondition::Value { reference, exists },
            });
        }
        ast::TransactionCondition::Compare { left, operator, right } => (left, *operator, right),
    };
    let (reference, operator, other) = match (left, right) {
        (ast::Term::Reference(reference), other) => (reference, operator, other),
        (other, ast::Term::Reference(reference)) => (reference, reversed(operator), other),
        _ => return Err(Failure::invalid("Either the left-hand or right-hand side must be a reference!")),
    };
    let Referenced::Value(number) = resolve(reference, scope, markers)? else {
        return Err(Failure::invalid(format!(
            "Row reference ({reference}) can only be used with IS NULL/IS NOT NULL conditions"
        )));
    };
    let found = markers.references.as_ref().and_then(|references| references.found.get(number));
    let Some(cql_type) = found.map(|found| found.cql_type.clone()) else {
        return Err(Failure::server("a reference that was not noted"));
    };
    if !matches!(operator, Operator::Equal | Operator::NotEqual) {
        refuse_durations(&cql_type, operator)?;
    }
    let name = match &reference.column {
        Some((column, ast::ConditionPart::Whole)) => column.clone(),
        Some((column, ast::ConditionPart::Element(_))) => format!("value({column})"),
        Some((column, ast::ConditionPart::Field(field))) => format!("{column}.{field}"),
        None => String::new(),
    };
    let right = prepare_term(other, &Receiver { scope, name: &name, cql_type: &cql_type }, markers)?;
    if right == Term::Null {
        return Err(Failure::invalid(NULL_COMPARISON));
    }
    Ok(TransactionCondition::Compare { reference: number, operator, right })
}

/// The operator that says the same of two values in the other order.
fn reversed(operator: Operator) -> Operator {
    match operator {
        Operator::Less => Operator::Greater,
        Operator::LessEqual => Operator::GreaterEqual,
        Operator::Greater => Operator::Less,
        Operator::GreaterEqual => Operator::LessEqual,
        Operator::Equal | Operator::NotEqual => operator,
    }
}
