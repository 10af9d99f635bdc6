//! Evaluates the references and conditions of transactions.
//!
//! Invariants: the outcome depends on values alone, so that every replica and every retry decides alike; a reference
//! that is null compares with nothing.

use super::evaluate::{compares_values, part_of};
use crate::ast::Operator;
use crate::plan::{EvaluationContext, NULL_COMPARISON, Reference, Term, Transaction, TransactionCondition, Value};
use model::value::BoundValue;
use model::{Failure, Table};

impl Reference {
    /// The value, given that of its whole column; `None` is null.
    ///
    /// # Errors
    /// The key or index of an element is null, unset or negative.
    pub fn of<'r>(
        &self,
        table: &Table,
        column: Option<&'r [u8]>,
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
    ) -> Result<Option<&'r [u8]>, Failure> {
        match table.column_by_id(self.column) {
            Some(described) => part_of(&self.part, &described.cql_type, column, values, context),
            None => Err(Failure::server("a reference to a column that is not there")),
        }
    }
}

impl Transaction {
    /// Whether all conditions hold. `exists` says of each LET assignment whether it has found a row; `values` are those
    /// of the markers, then those of the references. A reference that is null compares with nothing.
    ///
    /// # Errors
    /// A value of the request that is compared is null or unset.
    pub fn holds(
        &self,
        exists: &[bool],
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
    ) -> Result<bool, Failure> {
        for condition in &self.conditions {
            let holds = match condition {
                TransactionCondition::Row { tuple, exists: wanted } => {
                    exists.get(*tuple).copied().unwrap_or(false) == *wanted
                }
                TransactionCondition::Value { reference, exists } => {
                    self.value_of(*reference, values).is_some() == *exists
                }
                TransactionCondition::Compare { reference, operator, right } => {
                    self.compares(*reference, *operator, right, values, context)?
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn compares(
        &self,
        reference: usize,
        operator: Operator,
        right: &Term,
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
    ) -> Result<bool, Failure> {
        let Some(described) = self.references.get(reference) else {
            return Err(Failure::server("a condition on a reference that is not there"));
        };
        let expected = right.evaluate(&described.cql_type, values, context)?;
        if expected == Value::Null {
            return match right {
                Term::Marker(marker) if usize::from(*marker) >= self.markers => Ok(false),
                _ => Err(Failure::invalid(NULL_COMPARISON)),
            };
        }
        match self.value_of(reference, values) {
            None => Ok(false),
            left => compares_values(operator, &described.cql_type, &expected, left),
        }
    }

    /// The value of a reference among `values`.
    pub fn value_of<'v>(&self, reference: usize, values: &[BoundValue<'v>]) -> Option<&'v [u8]> {
        match values.get(self.markers + reference) {
            Some(BoundValue::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }
}
