//! Generic functions: what their parameters accept, and the overload that is built for a call.
//!
//! 1. The type of each argument is its own or, if it has none, is inferred by its parameter from the type of the call's
//!    place or from another argument. A second round uses what the first one found.
//! 2. Each type is checked against its parameter.
//! 3. The types determine the overload. The arguments are then checked like those of any other function.

use super::catalogue::{Scalar, Similarity};
use super::resolve::{Argument, Fit};
use super::{Aggregate, CollectionFunction, Function, Mask, catalogue::function};
use crate::literal::Scope;
use model::{ColumnMask, CqlType, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// What a parameter of a generic function accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameter {
    /// A vector of floats; an unknown type is that of the argument at index `like`.
    FloatVector { like: usize },
    /// Any known type.
    Any,
    /// Any type; an unknown type is that of the call's place.
    AnyOfPlace,
    /// The type of the first argument.
    LikeFirst,
    /// A text.
    String,
    /// A number.
    Int,
    /// A text; the argument may be left out.
    OptionalText,
    /// A map.
    Map,
    /// A collection.
    Collection,
    /// A set or list.
    SetOrList,
    /// A set or list of numbers.
    NumericSetOrList,
}

/// The overload that is built for a call.
#[derive(Clone, Copy, Debug)]
enum Product {
    Similarity(Similarity),
    CollectionFunction(CollectionFunction),
    Mask(Mask),
    ShardOf,
}

/// A generic function.
pub(crate) struct Factory {
    /// Its name in lower case.
    name: &'static str,
    parameters: &'static [Parameter],
    product: Product,
}

const VECTORS: &[Parameter] = &[Parameter::FloatVector { like: 1 }, Parameter::FloatVector { like: 0 }];
const PARTS: &[Parameter] = &[Parameter::String, Parameter::Int, Parameter::Int, Parameter::OptionalText];

const fn similarity(name: &'static str, measure: Similarity) -> Factory {
    Factory { name, parameters: VECTORS, product: Product::Similarity(measure) }
}

const fn of_collection(name: &'static str, parameters: &'static [Parameter], what: CollectionFunction) -> Factory {
    Factory { name, parameters, product: Product::CollectionFunction(what) }
}

const fn mask(name: &'static str, parameters: &'static [Parameter], mask: Mask) -> Factory {
    Factory { name, parameters, product: Product::Mask(mask) }
}

const FACTORIES: [Factory; 17] = [
    similarity("similarity_cosine", Similarity::Cosine),
    similarity("similarity_euclidean", Similarity::Euclidean),
    similarity("similarity_dot_product", Similarity::DotProduct),
    of_collection("map_keys", &[Parameter::Map], CollectionFunction::Keys),
    of_collection("map_values", &[Parameter::Map], CollectionFunction::Values),
    of_collection("collection_count", &[Parameter::Collection], CollectionFunction::Count),
    of_collection("collection_min", &[Parameter::SetOrList], CollectionFunction::Aggregate(Aggregate::Min)),
    of_collection("collection_max", &[Parameter::SetOrList], CollectionFunction::Aggregate(Aggregate::Max)),
    of_collection("collection_sum", &[Parameter::NumericSetOrList], CollectionFunction::Aggregate(Aggregate::Sum)),
    of_collection("collection_avg", &[Parameter::NumericSetOrList], CollectionFunction::Aggregate(Aggregate::Avg)),
    mask("mask_null", &[Parameter::Any], Mask::Null),
    mask("mask_default", &[Parameter::Any], Mask::Default),
    mask("mask_replace", &[Parameter::AnyOfPlace, Parameter::LikeFirst], Mask::Replace),
    mask("mask_inner", PARTS, Mask::Inner),
    mask("mask_outer", PARTS, Mask::Outer),
    mask("mask_hash", &[Parameter::Any, Parameter::OptionalText], Mask::Hash),
    Factory { name: "shard_of", parameters: &[Parameter::Any, Parameter::Int], product: Product::ShardOf },
];

/// The generic function with this name.
pub(crate) fn factory(name: &str) -> Option<&'static Factory> {
    FACTORIES.iter().find(|factory| factory.name == name)
}

/// The function of a column's mask, which takes the column's values first. `None` if there is no such function.
pub(crate) fn function_of(mask: &ColumnMask, masked: &CqlType) -> Option<Function> {
    let factory = factory(&mask.function).filter(|factory| matches!(factory.product, Product::Mask(_)))?;
    let given = mask.arguments.iter().map(|(cql_type, _)| cql_type);
    factory.made(std::iter::once(masked).chain(given).cloned().collect()).ok()
}

impl Parameter {
    fn type_text(self) -> &'static str {
        match self {
            Parameter::FloatVector { .. } => "vector<float, n>",
            Parameter::Any | Parameter::AnyOfPlace | Parameter::LikeFirst => "any",
            Parameter::String => "[text|varchar|ascii]",
            Parameter::Int => "int",
            Parameter::OptionalText => "[text]",
            Parameter::Map => "map",
            Parameter::Collection => "collection",
            Parameter::SetOrList | Parameter::NumericSetOrList => "numeric_set_or_list",
        }
    }

    /// The type of an argument: its own, or inferred from its place or other arguments.
    fn infer(
        self,
        argument: &impl Argument,
        place: Option<&CqlType>,
        known: &[Option<CqlType>],
        scope: &Scope,
    ) -> Result<Option<CqlType>> {
        match self {
            Parameter::FloatVector { like } => {
                if let Some(len) = argument.list_len() {
                    return Ok(Some(CqlType::Vector { element: Box::new(CqlType::Float), dimension: len as u32 }));
                }
                let own = argument.known_type(scope)?;
                Ok(own.or_else(|| place.cloned()).or_else(|| known.get(like).cloned().flatten()))
            }
            Parameter::AnyOfPlace => Ok(argument.known_type(scope)?.or_else(|| place.cloned())),
            Parameter::LikeFirst => match known.first().cloned().flatten() {
                Some(first) => Ok(Some(first)),
                None => argument.known_type(scope),
            },
            Parameter::String | Parameter::OptionalText => {
                Ok(Some(argument.known_type(scope)?.unwrap_or(CqlType::Text)))
            }
            Parameter::Int => Ok(Some(argument.known_type(scope)?.unwrap_or(CqlType::Int))),
            _ => argument.known_type(scope),
        }
    }

    /// Fails if the parameter does not accept an argument's type.
    fn check(self, name: &str, argument: &impl Argument, given: &CqlType) -> Result<()> {
        let (fits, wanted) = match self {
            Parameter::FloatVector { .. } => {
                let is_float_vector = matches!(given, CqlType::Vector { element, .. } if **element == CqlType::Float);
                (is_float_vector, "a float vector argument")
            }
            Parameter::Any | Parameter::AnyOfPlace | Parameter::LikeFirst => return Ok(()),
            Parameter::String => {
                (Fit::of(&CqlType::Text, given) != Fit::No, "an argument of type [text|varchar|ascii]")
            }
            Parameter::OptionalText => (Fit::of(&CqlType::Text, given) != Fit::No, "an argument of type text"),
            Parameter::Int => (Fit::of(&CqlType::Int, given) != Fit::No, "an argument of type int"),
            Parameter::Map => (matches!(given, CqlType::Map { .. }), "a map argument"),
            Parameter::Collection => (given.is_collection(), "a collection argument"),
            Parameter::SetOrList => {
                (matches!(given, CqlType::List { .. } | CqlType::Set { .. }), "a set or list argument")
            }
            Parameter::NumericSetOrList => {
                let numeric = match given {
                    CqlType::List { element, .. } | CqlType::Set { element, .. } => is_number(element),
                    _ => false,
                };
                (numeric, "a numeric set/list argument")
            }
        };
        let by_shape = !matches!(self, Parameter::String | Parameter::OptionalText | Parameter::Int);
        if fits && !(by_shape && argument.descends()) {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "Function system.{name} requires {wanted}, but found argument {argument} of type {given}"
        )))
    }
}

impl Factory {
    /// The signature as in errors: `system.name(parameters)`.
    fn signature(&self) -> String {
        let parameters: Vec<&str> = self.parameters.iter().map(|parameter| parameter.type_text()).collect();
        format!("system.{}({})", self.name, parameters.join(", "))
    }

    /// The overload for a call's arguments. `place` is the type of the call's place, if known.
    pub(crate) fn build(
        &self,
        arguments: &[impl Argument],
        place: Option<&CqlType>,
        scope: &Scope,
    ) -> Result<Function> {
        let optional = self.parameters.iter().filter(|parameter| matches!(parameter, Parameter::OptionalText)).count();
        let most = self.parameters.len();
        if arguments.len() > most || arguments.len() < most - optional {
            return Err(Failure::invalid(format!("Invalid number of arguments for function {}", self.signature())));
        }
        let mut known = Vec::with_capacity(arguments.len());
        for (argument, parameter) in arguments.iter().zip(self.parameters) {
            known.push(parameter.infer(argument, place, &[], scope)?);
        }
        let mut types = Vec::with_capacity(arguments.len());
        for (at, (argument, parameter)) in arguments.iter().zip(self.parameters).enumerate() {
            let Some(found) = parameter.infer(argument, place, &known, scope)? else {
                return Err(Failure::invalid(format!(
                    "Cannot infer type of argument {argument} in call to function {}: use type casts to disambiguate",
                    self.signature()
                )));
            };
            parameter.check(self.name, argument, &found)?;
            known[at] = Some(found.clone());
            types.push(found);
        }
        self.made(types)
    }

    fn made(&self, mut types: Vec<CqlType>) -> Result<Function> {
        let (result, body) = match self.product {
            Product::Similarity(measure) => {
                if types.first() != types.last() {
                    return Err(Failure::invalid("All arguments must have the same vector dimensions"));
                }
                (CqlType::Float, Scalar::Similarity(measure))
            }
            Product::CollectionFunction(what) => {
                (types.first().map_or(CqlType::Int, |of| what.result(of)), Scalar::CollectionFunction(what))
            }
            Product::ShardOf => {
                types.truncate(1);
                types.push(CqlType::Int);
                (CqlType::Int, Scalar::ShardOf)
            }
            Product::Mask(mask) => {
                // The arguments that control the masking have types of their own.
                for (given, parameter) in types.iter_mut().zip(self.parameters).skip(1) {
                    match parameter {
                        Parameter::Int => *given = CqlType::Int,
                        Parameter::OptionalText => *given = CqlType::Text,
                        _ => {}
                    }
                }
                let result = match (mask, types.first()) {
                    (Mask::Hash, _) | (_, None) => CqlType::Blob,
                    (_, Some(first)) => first.clone(),
                };
                (result, Scalar::Mask(mask))
            }
        };
        Ok(function(self.name, types, result, body))
    }
}

fn is_number(cql_type: &CqlType) -> bool {
    use CqlType::*;
    matches!(cql_type, Tinyint | Smallint | Int | Bigint | Varint | Decimal | Float | Double | Counter)
}
