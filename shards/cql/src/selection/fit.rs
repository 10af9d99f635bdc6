//! Whether a selector after a type hint fits the type.
//!
//! Literals are checked part by part. Unknown fields of a user type are reported at once, in the order in which they
//! were written; where a tuple is wanted they count as a part that does not fit.

use super::{Result, Selecting};
use crate::ast::Selector;
use crate::functions::{Argument, Fit};
use model::{CqlType, Failure};
use std::collections::{BTreeMap, BTreeSet};

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
            // Where a map is wanted, names before the colons are columns.
            (Selector::UserType(fields), CqlType::Map { key, value: of_value, .. }) => {
                Fit::all(fields.iter().map(|(name, value)| {
                    let column = Selector::Column(name.clone());
                    Ok(self.fit(&column, key)?.min(self.fit(value, of_value)?))
                }))
            }
            (Selector::UserType(fields), CqlType::User { definition, .. }) => {
                let known: BTreeSet<&String> = definition.fields.iter().map(|(name, _)| name).collect();
                if let Some((unknown, _)) = fields.iter().find(|(name, _)| !known.contains(name)) {
                    return Err(Failure::invalid(format!(
                        "Unknown field '{unknown}' in value of user defined type {}",
                        definition.name
                    )));
                }
                let given: BTreeMap<&String, &Selector> = fields.iter().map(|(name, part)| (name, part)).collect();
                let of_type = definition.fields.iter();
                Fit::all(of_type.filter_map(|(name, of_field)| Some(self.fit(given.get(name)?, of_field))))
            }
            _ => self.argument_of(selector)?.fit(wanted, self.scope),
        }
    }
}
