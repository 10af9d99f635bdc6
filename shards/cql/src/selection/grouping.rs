//! The GROUP BY of a selection.

use super::{Result, Selecting, Shown};
use crate::ast;
use crate::functions::{is_aggregate_name, signature_of};
use crate::names::column;
use crate::plan::{Expression, Grouping, Selector};
use model::{Column, ColumnKind, Failure};

const GROUP_ORDER: &str =
    "Group by currently only support groups of columns following their declared order in the PRIMARY KEY";

/// The only argument of a grouping function that is not a constant.
fn grouped_argument(arguments: &[ast::Selector]) -> Result<&ast::Selector> {
    let mut named: Vec<&ast::Selector> = Vec::new();
    for argument in arguments.iter().filter(|argument| argument.as_term().is_none()) {
        if !named.contains(&argument) {
            named.push(argument);
        }
    }
    match named.as_slice() {
        [] => Err(Failure::invalid("GROUP BY functions must have one clustering column name as parameter")),
        [only] => Ok(only),
        several => {
            let shown: Vec<String> = several.iter().map(|argument| argument.to_string()).collect();
            Err(Failure::invalid(format!(
                "GROUP BY functions accept only one clustering column as parameter, got: {}",
                shown.join(",")
            )))
        }
    }
}

/// The innermost function that is not monotonic, as errors show it.
fn not_monotonic(expression: &Expression) -> Option<String> {
    let Expression::Call(function, arguments) = expression else { return None };
    arguments.iter().find_map(not_monotonic).or_else(|| {
        let is_constant = |at: usize| matches!(arguments.get(at), Some(Expression::Term(..)));
        (!function.is_monotonic()).then(|| signature_of(function, is_constant))
    })
}

impl Selecting<'_, '_, '_> {
    /// Resolves GROUP BY: a prefix of the primary key, whose last column may be the argument of a function.
    pub(super) fn group_by(
        &mut self,
        group: &[ast::Selector],
        distinct: bool,
        is_equal: &dyn Fn(&Column) -> bool,
    ) -> Result<Vec<Grouping>> {
        let mut groupings = Vec::with_capacity(group.len());
        let key = &self.scope.table.columns[..self.scope.table.primary_key_len()];
        let mut on_function = false;
        let mut next = 0;
        for selector in group {
            let mut inner = selector;
            while let ast::Selector::Function { keyspace, name, arguments } = inner {
                if keyspace.as_deref().is_none_or(|keyspace| keyspace == "system") && is_aggregate_name(name) {
                    return Err(Failure::invalid(format!(
                        "Aggregate functions are not supported within the GROUP BY clause, got: system.{name}"
                    )));
                }
                inner = grouped_argument(arguments)?;
            }
            let ast::Selector::Column(name) = inner else {
                return Err(Failure::invalid(format!("GROUP BY takes columns and functions of one, got {selector}")));
            };
            let column = column(self.scope, name)?;
            let is_function = !matches!(selector, ast::Selector::Column(_));
            if on_function {
                return Err(Failure::invalid(
                    "Functions are only supported on the last element of the GROUP BY clause",
                ));
            }
            on_function = is_function;
            // The call is checked before its column.
            let expression = match is_function {
                true => self.expression(selector, None)?.0,
                // Rows with different values are different groups, also where a mask makes the values alike.
                false => Expression::Fetched(self.fetch(Selector::Column(column.id))),
            };
            if is_function && column.kind != ColumnKind::Clustering {
                return Err(Failure::invalid(format!(
                    "Group by functions are only supported on clustering columns, got {name}"
                )));
            }
            if !column.kind.is_key() {
                return Err(Failure::invalid(format!(
                    "Group by is currently only supported on the columns of the PRIMARY KEY, got {name}"
                )));
            }
            // A mask is none of the functions that were written.
            if self.shown == Shown::Clear
                && let Some(signature) = not_monotonic(&expression)
            {
                return Err(Failure::invalid(format!(
                    "Only monotonic functions are supported in the GROUP BY clause. Got: {signature} "
                )));
            }
            // Columns may be left out only if they are restricted to one value.
            let place = self.scope.table.index_of(column.id).unwrap_or(usize::MAX);
            if key.get(next..place).is_none_or(|skipped| !skipped.iter().all(is_equal)) {
                return Err(Failure::invalid(GROUP_ORDER));
            }
            next = place + 1;
            groupings.push(Grouping { expression });
        }
        if !group.is_empty() && next < self.scope.table.partition_key_len {
            return Err(Failure::invalid("Group by is not supported on only a part of the partition key"));
        }
        if distinct && next > self.scope.table.partition_key_len {
            return Err(Failure::invalid("Grouping on clustering columns is not allowed for SELECT DISTINCT queries"));
        }
        Ok(groupings)
    }
}
