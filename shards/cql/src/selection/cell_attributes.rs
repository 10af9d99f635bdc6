//! `writetime`, `maxwritetime` and `ttl` of columns and of parts of them.

use super::{Result, Selecting, Shown};
use crate::ast::{self, CellAttribute};
use crate::names::column;
use crate::plan::{Expression, Selector};
use model::{Column, CqlType, Failure};

/// The column that a selector is a part of.
fn root(of: &ast::Selector) -> Option<&str> {
    match of {
        ast::Selector::Column(name) => Some(name),
        ast::Selector::Field(of, _) | ast::Selector::Element(of, _) | ast::Selector::Slice(of, ..) => root(of),
        _ => None,
    }
}

/// Whether a selector is a column or a slice of its cells, not a single cell.
fn is_run(of: &ast::Selector) -> bool {
    match of {
        ast::Selector::Slice(of, ..) => is_run(of),
        other => matches!(other, ast::Selector::Column(_)),
    }
}

impl Selecting<'_, '_, '_> {
    /// The type of an attribute: a list if there are several cells, except for the greatest write time.
    pub(super) fn fact_type(&self, fact: CellAttribute, of: &ast::Selector) -> Result<CqlType> {
        let one = match fact {
            CellAttribute::WriteTime | CellAttribute::MaxWriteTime => CqlType::Bigint,
            CellAttribute::Ttl => CqlType::Int,
        };
        let several =
            fact != CellAttribute::MaxWriteTime && is_run(of) && self.fact_column(of)?.cql_type.is_multicell();
        Ok(if several { CqlType::List { element: Box::new(one), frozen: true } } else { one })
    }

    fn fact_column(&self, of: &ast::Selector) -> Result<&Column> {
        let name = root(of).ok_or_else(|| Failure::invalid(format!("{of} is no part of a column")))?;
        column(self.scope, name)
    }

    pub(super) fn cell_fact(&mut self, fact: CellAttribute, of: &ast::Selector) -> Result<(Expression, CqlType)> {
        let column = self.fact_column(of)?;
        if column.kind.is_key() {
            return Err(Failure::invalid(format!(
                "Cannot use selection function {} on PRIMARY KEY part {}",
                fact.name(),
                column.name
            )));
        }
        let (id, multicell) = (column.id, column.cql_type.is_multicell());
        let fetched = match fact {
            CellAttribute::WriteTime | CellAttribute::MaxWriteTime => Selector::WriteTime(id),
            CellAttribute::Ttl => Selector::Ttl(id),
        };
        let cql_type = self.fact_type(fact, of)?;
        if matches!(of, ast::Selector::Column(_)) && (!multicell || fact != CellAttribute::MaxWriteTime) {
            return Ok((Expression::Fetched(self.fetch(fetched)), cql_type));
        }
        // Which cell is meant depends on the value itself.
        let shown = std::mem::replace(&mut self.shown, Shown::Clear);
        let of = self.expression(of, None);
        self.shown = shown;
        let of = Box::new(of?.0);
        let facts = self.fetch(fetched);
        let several = matches!(cql_type, CqlType::List { .. });
        Ok((Expression::CellAttribute { of, facts, multicell, several }, cql_type))
    }
}
