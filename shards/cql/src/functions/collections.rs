//! Functions of one collection: its keys, its values, its size, and aggregates over its elements.

use super::{Aggregate, AggregateFunction, AggregateState, Function};
use crate::plan::encode_composite;
use model::value::elements;
use model::{CqlType, Failure};
use std::borrow::Cow;

/// The functions of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectionFunction {
    /// The set of a map's keys.
    Keys,
    /// The list of a map's values.
    Values,
    /// The number of elements or entries.
    Count,
    /// An aggregate over the elements.
    Aggregate(Aggregate),
}

impl CollectionFunction {
    /// The result type for a collection of a suitable type.
    pub(super) fn result(self, of: &CqlType) -> CqlType {
        match (self, of) {
            (CollectionFunction::Keys, CqlType::Map { key, .. }) => CqlType::Set { element: key.clone(), frozen: true },
            (CollectionFunction::Values, CqlType::Map { value, .. }) => {
                CqlType::List { element: value.clone(), frozen: true }
            }
            (CollectionFunction::Aggregate(_), CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                (**element).clone()
            }
            _ => CqlType::Int,
        }
    }
}

/// Evaluates a function of a collection.
pub(super) fn evaluate(
    function: &Function,
    what: CollectionFunction,
    arguments: &[&[u8]],
) -> Result<Option<Vec<u8>>, Failure> {
    let ([of], [of_type]) = (arguments, function.arguments.as_slice()) else { return Ok(None) };
    let is_map = matches!(of_type, CqlType::Map { .. });
    let parts = elements(of, is_map);
    let every_second = |first: usize| elements(of, true).skip(first).step_by(2).map(|part| Some(Cow::Borrowed(part)));
    match what {
        CollectionFunction::Keys => encode_composite(&function.result, every_second(0).collect()).map(Some),
        CollectionFunction::Values => encode_composite(&function.result, every_second(1).collect()).map(Some),
        CollectionFunction::Count => {
            let count = parts.count() as i32;
            Ok(Some((if is_map { count / 2 } else { count }).to_be_bytes().to_vec()))
        }
        CollectionFunction::Aggregate(aggregate) => {
            let of_elements = AggregateFunction {
                name: function.name.to_string(),
                aggregate,
                argument: [function.result.clone()],
                result: function.result.clone(),
            };
            let mut state = AggregateState::new(&of_elements);
            for element in parts {
                state.add(&of_elements, Some(element))?;
            }
            state.finish(&of_elements)
        }
    }
}
