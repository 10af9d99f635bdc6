//! Values of composite types.
//!
//! ```text
//! CompositeType:        [ff ff]? component*              component: [length u16][value][end i8]
//! DynamicCompositeType: (comparator component)*          comparator: [80, alias] | [length u16, below 8000][class]
//! ```
//! `ff ff` marks the static part of a row in old tables and sorts first. `end` is 0; that of the last component may be
//! -1 or 1, which makes a bound before or after all values that begin with these components. Values may have fewer
//! components than their type. Their byte-comparable form is in `comparable.rs`, their text in `text/composite.rs`.

use crate::types::{Component, CqlType, NAMED_CLASS_DEPTH_MAX};
use crate::value::{ValueError, compare, validate};
use std::borrow::Cow;
use std::cmp::Ordering;

/// What the first two bytes of the static part of a row are.
const STATIC: [u8; 2] = [0xff, 0xff];
/// Set in a comparator that is an alias, which is its lowest byte.
pub(crate) const IS_ALIAS: u16 = 0x8000;

/// Reads the components of a value; the errors are Cassandra's texts for bytes that are no value.
pub(crate) struct Components<'t, 'v> {
    cql_type: &'t CqlType,
    rest: &'v [u8],
    count: usize,
    /// Whether the value is the static part of a row.
    pub(crate) is_static: bool,
}

/// How a value says which type a component has.
#[derive(Clone, Copy)]
pub(crate) enum Comparator<'v> {
    /// It does not: the type's components stand in order.
    Position,
    Alias(u8),
    Class(&'v str),
}

/// A component without its end.
pub(crate) struct Part<'t, 'v> {
    pub(crate) component: Cow<'t, Component>,
    pub(crate) comparator: Comparator<'v>,
    pub(crate) value: &'v [u8],
}

impl<'t, 'v> Components<'t, 'v> {
    /// The components of a value of a composite type. Any other type has none.
    pub(crate) fn new(cql_type: &'t CqlType, bytes: &'v [u8]) -> Components<'t, 'v> {
        let marked = bytes.strip_prefix(&STATIC).filter(|_| matches!(cql_type, CqlType::Composite(_)));
        Components { cql_type, rest: marked.unwrap_or(bytes), count: 0, is_static: marked.is_some() }
    }

    /// Reads the next component, whose end [`Components::end`] reads; `None` after the last one.
    pub(crate) fn component(&mut self) -> Result<Option<Part<'t, 'v>>, ValueError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let at = self.count;
        let fail = |text: String| ValueError(text);
        let (component, comparator) = match self.cql_type {
            CqlType::DynamicComposite(aliases) => {
                let short = || fail(format!("Not enough bytes to header of the comparator part of component {at}"));
                let header = self.short().ok_or_else(short)?;
                let unknown = || fail(format!("Cannot find comparator for component {at}"));
                if header & IS_ALIAS != 0 {
                    let alias = header as u8;
                    let (_, component) = aliases.iter().find(|(known, _)| *known == alias).ok_or_else(unknown)?;
                    (Cow::Borrowed(component), Comparator::Alias(alias))
                } else {
                    let short = || fail(format!("Not enough bytes to read comparator name of component {at}"));
                    let class = self.bytes(header).ok_or_else(short)?;
                    let class = std::str::from_utf8(class).map_err(|_| unknown())?;
                    (Cow::Owned(named(class).ok_or_else(unknown)?), Comparator::Class(class))
                }
            }
            CqlType::Composite(components) => {
                let component = components.get(at).ok_or_else(|| fail("Too many bytes for comparator".into()))?;
                (Cow::Borrowed(component), Comparator::Position)
            }
            _ => return Ok(None),
        };
        let short = || fail(format!("Not enough bytes to read value size of component {at}"));
        let len = self.short().ok_or_else(short)?;
        let short = || fail(format!("Not enough bytes to read value of component {at}"));
        let value = self.bytes(len).ok_or_else(short)?;
        Ok(Some(Part { component, comparator, value }))
    }

    /// Reads the end of the component that was read last.
    pub(crate) fn end(&mut self) -> Result<i8, ValueError> {
        let at = self.count;
        self.count += 1;
        let short = || ValueError(format!("Not enough bytes to read the end-of-component byte of component{at}"));
        let (&end, rest) = self.rest.split_first().ok_or_else(short)?;
        self.rest = rest;
        if end != 0 && !rest.is_empty() {
            return Err(ValueError(format!("Invalid bytes remaining after an end-of-component at component{at}")));
        }
        Ok(end as i8)
    }

    fn short(&mut self) -> Option<u16> {
        let (short, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u16::from_be_bytes(*short))
    }

    fn bytes(&mut self, len: u16) -> Option<&'v [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len.into())?;
        self.rest = rest;
        Some(bytes)
    }
}

/// The type that a value names by its class; `None` if it is none, nests deeper than [`NAMED_CLASS_DEPTH_MAX`] or
/// contains a type whose values name classes again, which would let a value decide how deep its readers recurse.
pub(crate) fn named(class: &str) -> Option<Component> {
    fn names_classes(cql_type: &CqlType) -> bool {
        matches!(cql_type, CqlType::DynamicComposite(_)) || cql_type.parts().into_iter().any(names_classes)
    }
    let (cql_type, reversed) = CqlType::parse_class(class).ok()?;
    let allowed = cql_type.depth() <= NAMED_CLASS_DEPTH_MAX && !names_classes(&cql_type);
    allowed.then_some(Component { cql_type, reversed })
}

/// Checks that bytes are a value of a composite type.
pub(super) fn validate_composite(cql_type: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    let mut components = Components::new(cql_type, bytes);
    while let Some(part) = components.component()? {
        validate(&part.component.cql_type, part.value)?;
        components.end()?;
    }
    Ok(())
}

/// A value that is compared component by component: types by the names of their classes, then values, then ends. What
/// has fewer components comes first.
#[derive(PartialEq, Eq)]
pub(super) struct Ordered<'t, 'v> {
    is_static: bool,
    parts: Vec<OrderedPart<'t, 'v>>,
}

struct OrderedPart<'t, 'v> {
    component: Cow<'t, Component>,
    value: &'v [u8],
    end: i8,
}

impl<'t, 'v> Ordered<'t, 'v> {
    /// Takes a value apart; `None` if it is not of the type.
    pub(super) fn read(cql_type: &'t CqlType, bytes: &'v [u8]) -> Option<Ordered<'t, 'v>> {
        let mut components = Components::new(cql_type, bytes);
        let mut parts = Vec::new();
        while let Some(Part { component, value, .. }) = components.component().ok()? {
            parts.push(OrderedPart { component, value, end: components.end().ok()? });
        }
        Some(Ordered { is_static: components.is_static, parts })
    }
}

impl Ord for Ordered<'_, '_> {
    fn cmp(&self, other: &Ordered<'_, '_>) -> Ordering {
        other.is_static.cmp(&self.is_static).then_with(|| self.parts.cmp(&other.parts))
    }
}

impl PartialOrd for Ordered<'_, '_> {
    fn partial_cmp(&self, other: &Ordered<'_, '_>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedPart<'_, '_> {
    fn cmp(&self, other: &OrderedPart<'_, '_>) -> Ordering {
        let (Component { cql_type, reversed }, theirs) = (&*self.component, &*other.component);
        if *self.component != *theirs {
            let by_name = self.component.class_words().cmp(theirs.class_words());
            let by_class = || cql_type.class_name().cmp(&theirs.cql_type.class_name());
            match by_name.then_with(by_class) {
                Ordering::Equal => {}
                differs => return differs,
            }
        }
        let by_value = compare(cql_type, self.value, other.value);
        let by_value = if *reversed { by_value.reverse() } else { by_value };
        by_value.then(self.end.cmp(&other.end))
    }
}

impl PartialOrd for OrderedPart<'_, '_> {
    fn partial_cmp(&self, other: &OrderedPart<'_, '_>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedPart<'_, '_> {
    fn eq(&self, other: &OrderedPart<'_, '_>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedPart<'_, '_> {}

#[cfg(test)]
mod tests;
