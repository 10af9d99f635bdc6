//! Whether what stands behind a type hint of a selection fits the type.
//!
//! Literals of a selection are looked at part by part. Fields that a user type has not are told at once, in the order
//! in which they were written; where a tuple is wanted they are one more part that does not fit.

use super::{Result, Selecting};
use crate::ast::Selector;
use crate::functions::{Argument, Fit};
use model::{CqlType, Failure};

impl Selecting<'_, '_, '_> {
    pub(super) fn fit(&mut self, selector: &Selector, wanted: &CqlType) -> Result<Fit> {
        match (selector, wanted) {
            (Selector::Tuple(parts), CqlType::Tuple(elements)) => {
                if parts.len() > elements.len() {
                    return Ok(Fit::No);
                }
                let fit = Fit::all(parts.iter().zip(elements).map(|(part, element)| self.fit(part, element)));
                Ok(fit.unwrap_or(Fit::No))
            }
            (Selector::Tuple(parts), _) if parts.len() == 1 => self.fit(&parts[0], wanted),
            (Selector::List(parts), CqlType::List { element, .. })
            | (Selector::Set(parts), CqlType::Set { element, .. }) => {
                Fit::all(parts.iter().map(|part| self.fit(part, element)))
            }
            (Selector::Map(entries), CqlType::Map { key: of_key, value: of_value, .. }) => {
                Fit::all(entries.iter().map(|(key, value)| Ok(self.fit(key, of_key)?.min(self.fit(value, of_value)?))))
            }
            // Names before the colons are columns where a map is wanted.
            (Selector::UserType(fields), CqlType::Map { key, value: of_value, .. }) => {
                Fit::all(fields.iter().map(|(name, value)| {
                    let column = Selector::Column(name.clone());
                    Ok(self.fit(&column, key)?.min(self.fit(value, of_value)?))
                }))
            }
            (Selector::UserType(fields), CqlType::User { definition, .. }) => {
                if let Some((unknown, _)) = fields.iter().find(|(name, _)| definition.field_index(name).is_none()) {
                    return Err(Failure::invalid(format!(
                        "Unknown field '{unknown}' in value of user defined type {}",
                        definition.name
                    )));
                }
                let given = |field: &str| fields.iter().rev().find(|(name, _)| name == field);
                let of_type = definition.fields.iter();
                Fit::all(of_type.filter_map(|(name, of_field)| Some(self.fit(&given(name)?.1, of_field))))
            }
            _ => self.asked(selector)?.fit(wanted, self.scope),
        }
    }
}
