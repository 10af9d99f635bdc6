//! Built-in functions: which there are, which overload a call means, and evaluating calls.
//!
//! A [`Function`] is one overload with its types. Its body works on encoded values; every function except `to_json` and
//! masks gives null if an argument is null.

mod aggregates;
mod blobs;
mod catalogue;
mod collections;
mod conversions;
mod factories;
pub(crate) mod json;
mod logarithms;
mod masking;
mod math;
pub(crate) mod numbers;
mod operators;
mod resolve;
mod sharding;
mod similarity;
mod times;

pub use aggregates::AggregateFunction;
pub(crate) use aggregates::State as AggregateState;
pub use catalogue::{Aggregate, Function, Scalar, Similarity};
pub(crate) use catalogue::{TokenTypes, aggregates, cast, is_aggregate_name, is_known, scalars};
pub use collections::CollectionFunction;
pub(crate) use factories::{factory, function_of};
pub use masking::Mask;
pub use math::Math;
pub(crate) use resolve::{Argument, Candidate, Fit, call, pick, signature_of, term_fit};

use crate::ast::Arithmetic;
use crate::plan::{EvaluationContext, Term, Value};
use model::value::BoundValue;
use model::{CqlType, Failure};
use std::borrow::Cow;

/// The class that generic functions report for a timeuuid.
pub(crate) const LEGACY_TIMEUUID: &str = "org.apache.cassandra.db.marshal.LegacyTimeUUIDType";

/// The failure of a generic function for a wrong number of arguments.
pub(crate) fn wrong_arguments(name: &str, wanted: &str) -> Failure {
    Failure::invalid(format!("Invalid number of arguments for function system.{name}({wanted})"))
}

/// The function that adds two values of a type and gives the same type, if there is one.
pub(crate) fn sum_of(cql_type: &CqlType) -> Option<Function> {
    within(Arithmetic::Add, cql_type)
}

/// The function that subtracts two values of a type and gives the same type, if there is one.
pub(crate) fn difference_of(cql_type: &CqlType) -> Option<Function> {
    within(Arithmetic::Subtract, cql_type)
}

/// The overload of an operator all of whose types are this one.
fn within(operator: Arithmetic, cql_type: &CqlType) -> Option<Function> {
    let all = operators::overloads(operator).into_iter();
    let mut fitting = all.filter(|sum| sum.result == *cql_type && sum.arguments.iter().all(|one| one == cql_type));
    fitting.next().filter(|_| *cql_type != CqlType::Counter)
}

/// A function call with the terms of its arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The overload.
    pub function: Function,
    /// The arguments, with the types as which they are evaluated.
    pub arguments: Vec<(Term, CqlType)>,
}

impl Call {
    /// Evaluates the call; `None` is null.
    pub(crate) fn evaluate(
        &self,
        values: &[BoundValue<'_>],
        context: &mut dyn EvaluationContext,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let mut arguments = Vec::with_capacity(self.arguments.len());
        for (term, cql_type) in &self.arguments {
            arguments.push(match term.evaluate(cql_type, values, context)? {
                Value::Null => None,
                Value::Bytes(bytes) => Some(bytes),
                Value::Unset => return Err(self.function.unset_argument()),
            });
        }
        self.function.evaluate(&arguments, context)
    }
}

impl Function {
    /// The failure for an unset argument.
    pub(crate) fn unset_argument(&self) -> Failure {
        let name = self.name.strip_prefix("system.").unwrap_or(&self.name);
        Failure::invalid(format!("Invalid unset value for argument in call to function {name}"))
    }

    /// Whether larger arguments never give smaller values, so that rows sorted by the argument are also sorted by the
    /// value.
    pub(crate) fn is_monotonic(&self) -> bool {
        matches!(self.body, Scalar::ToDate | Scalar::ToTimestamp | Scalar::ToUnixTimestamp | Scalar::Floor)
    }

    /// Evaluates the function for encoded arguments of its types; `None` is null.
    pub fn evaluate(
        &self,
        arguments: &[Option<Cow<'_, [u8]>>],
        context: &mut dyn EvaluationContext,
    ) -> Result<Option<Vec<u8>>, Failure> {
        if let Scalar::Mask(mask) = self.body {
            let arguments: Vec<Option<&[u8]>> = arguments.iter().map(Option::as_deref).collect();
            return masking::evaluate(self, mask, &arguments);
        }
        if self.body == Scalar::ToJson {
            return Ok(Some(json::to_json(self, arguments.first().and_then(Option::as_deref))));
        }
        let Some(arguments) = arguments.iter().map(Option::as_deref).collect::<Option<Vec<&[u8]>>>() else {
            return Ok(None);
        };
        match self.body {
            Scalar::Now => Ok(Some(context.timeuuid().to_vec())),
            Scalar::Uuid => Ok(Some(context.uuid().to_vec())),
            Scalar::Token(partitioner) => Ok(Some(crate::plan::token_of(partitioner, &arguments).to_value())),
            Scalar::CurrentDate | Scalar::CurrentTime | Scalar::CurrentTimestamp => {
                Ok(Some(times::current(self.body, context.wall_micros())))
            }
            Scalar::ToDate | Scalar::ToTimestamp | Scalar::ToUnixTimestamp => times::convert(self, &arguments),
            Scalar::MinTimeuuid | Scalar::MaxTimeuuid => times::bound_timeuuid(self.body, &arguments),
            Scalar::Floor => times::floor(self, &arguments),
            Scalar::ToJson | Scalar::Mask(_) => Ok(None),
            Scalar::Math(math) => math::evaluate(self, math, &arguments),
            Scalar::CollectionFunction(what) => collections::evaluate(self, what, &arguments),
            Scalar::FromJson => json::from_json(self, &arguments),
            Scalar::ToBlob => Ok(arguments.first().map(|value| value.to_vec())),
            Scalar::FromBlob => blobs::from_blob(self, &arguments),
            Scalar::Cast => conversions::cast(self, &arguments),
            Scalar::Operation(operator) => operators::evaluate(self, operator, &arguments),
            Scalar::Negation => operators::negate(self, &arguments),
            Scalar::ShardOf => match arguments[..] {
                [value, count] => sharding::shard_of(value, count),
                _ => Ok(None),
            },
            Scalar::RandomShard => match arguments[..] {
                [count] => sharding::random_shard(count, context.uuid()),
                _ => Ok(None),
            },
            Scalar::Similarity(measure) => similarity::evaluate(self, measure, &arguments),
        }
    }
}
