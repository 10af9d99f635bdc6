//! The built-in functions of Cassandra 5.0 and our own (`sharding`), by name, with their overloads.
//!
//! Names are in lower case. Most functions have two (`todate`, `to_date`), and results show the one that was written.

use super::factories::factory;
use super::operators;
use super::{AggregateFunction, CollectionFunction, Mask, Math};
use crate::ast::{Arithmetic, NEGATION};
use model::{CqlType, Partitioner};
use std::sync::Arc;

/// One overload of a scalar function.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Its name in errors and result columns: `system.todate`.
    pub name: Arc<str>,
    /// The types of the arguments.
    pub arguments: Vec<CqlType>,
    /// The type of the result.
    pub result: CqlType,
    /// The function that it computes.
    pub body: Scalar,
}

/// The scalar functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Scalar {
    Now,
    Uuid,
    Token(Partitioner),
    CurrentDate,
    CurrentTime,
    CurrentTimestamp,
    ToDate,
    ToTimestamp,
    ToUnixTimestamp,
    MinTimeuuid,
    MaxTimeuuid,
    Floor,
    ToJson,
    FromJson,
    ToBlob,
    FromBlob,
    Cast,
    Operation(Arithmetic),
    Negation,
    Similarity(Similarity),
    Math(Math),
    CollectionFunction(CollectionFunction),
    Mask(Mask),
    ShardOf,
    RandomShard,
}

/// Measures of the similarity of vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Similarity {
    /// The angle between them.
    Cosine,
    /// Their distance.
    Euclidean,
    /// Their dot product.
    DotProduct,
}

/// The aggregates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in CQL")]
pub enum Aggregate {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

/// The numeric types.
const NUMBERS: [CqlType; 8] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Varint,
    CqlType::Decimal,
    CqlType::Float,
    CqlType::Double,
];

/// The types for which `<name>_as_blob` and `blob_as_<name>` exist.
const BLOB_TYPES: [(&str, CqlType); 20] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::Bigint),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::Smallint),
    ("text", CqlType::Text),
    ("varchar", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::Timeuuid),
    ("tinyint", CqlType::Tinyint),
    ("uuid", CqlType::Uuid),
    ("varint", CqlType::Varint),
];

pub(super) fn function(name: &str, arguments: Vec<CqlType>, result: CqlType, body: Scalar) -> Function {
    Function { name: format!("system.{name}").into(), arguments, result, body }
}

/// What `token` takes and gives.
#[derive(Default)]
pub(crate) struct TokenTypes {
    /// The partitioner, which says the type that it gives.
    pub(crate) partitioner: Partitioner,
    /// The types of the partition key.
    pub(crate) key: Vec<CqlType>,
}

/// The overloads of the functions with this name. `token` is for the function of that name, `first` is the type of the
/// first argument if known (for functions of any type), `wanted` that of the place (for `from_json`).
pub(crate) fn scalars(
    name: &str,
    token: &TokenTypes,
    first: Option<&CqlType>,
    wanted: Option<&CqlType>,
) -> Vec<Function> {
    use CqlType::*;
    let one = |arguments: Vec<CqlType>, result: CqlType, body| vec![function(name, arguments, result, body)];
    let of_each = |types: &[CqlType], result: &dyn Fn(&CqlType) -> CqlType, body| -> Vec<Function> {
        types.iter().map(|argument| function(name, vec![argument.clone()], result(argument), body)).collect()
    };
    match name {
        "now" | "current_timeuuid" | "currenttimeuuid" => one(vec![], Timeuuid, Scalar::Now),
        "uuid" => one(vec![], Uuid, Scalar::Uuid),
        "random_shard" => one(vec![Int], Int, Scalar::RandomShard),
        "token" => one(token.key.clone(), token.partitioner.token_type(), Scalar::Token(token.partitioner)),
        "current_date" | "currentdate" => one(vec![], Date, Scalar::CurrentDate),
        "current_time" | "currenttime" => one(vec![], Time, Scalar::CurrentTime),
        "current_timestamp" | "currenttimestamp" => one(vec![], Timestamp, Scalar::CurrentTimestamp),
        "to_date" | "todate" => of_each(&[Timeuuid, Timestamp], &|_| Date, Scalar::ToDate),
        "to_timestamp" | "totimestamp" => of_each(&[Timeuuid, Date], &|_| Timestamp, Scalar::ToTimestamp),
        "to_unix_timestamp" | "tounixtimestamp" => {
            of_each(&[Timeuuid, Timestamp, Date], &|_| Bigint, Scalar::ToUnixTimestamp)
        }
        "min_timeuuid" | "mintimeuuid" => one(vec![Timestamp], Timeuuid, Scalar::MinTimeuuid),
        "max_timeuuid" | "maxtimeuuid" => one(vec![Timestamp], Timeuuid, Scalar::MaxTimeuuid),
        "floor" => [(Timestamp, Timestamp), (Timeuuid, Timestamp), (Date, Date), (Time, Time)]
            .into_iter()
            .flat_map(|(argument, result)| {
                let short = function(name, vec![argument.clone(), Duration], result.clone(), Scalar::Floor);
                let start = match argument {
                    Time => None,
                    Timeuuid => Some(Timestamp),
                    _ => Some(argument.clone()),
                };
                let long =
                    start.map(|start| function(name, vec![argument, Duration, start], result.clone(), Scalar::Floor));
                [Some(short), long].into_iter().flatten()
            })
            .collect(),
        "to_json" | "tojson" => match first {
            // The function has two names.
            Some(argument) => vec![function("to_json", vec![argument.clone()], Text, Scalar::ToJson)],
            None => Vec::new(),
        },
        "from_json" | "fromjson" => match wanted {
            Some(wanted) => vec![function("from_json", vec![Text], wanted.clone(), Scalar::FromJson)],
            None => Vec::new(),
        },
        NEGATION => operators::negations(),
        _ if let Some(math) = Math::of_name(name) => {
            let numbers: Vec<CqlType> = NUMBERS.into_iter().chain([Counter]).collect();
            of_each(&numbers, &Clone::clone, Scalar::Math(math))
        }
        _ if let Some(operator) = Arithmetic::of_function(name) => operators::overloads(operator),
        _ => match name.strip_prefix("cast_as_").and_then(cast_target) {
            Some(to) => cast(&to),
            None => blob_functions(name).into_iter().collect(),
        },
    }
}

/// The function for a name like `int_as_blob`, `intasblob`, `blob_as_int` or `blobasint`.
fn blob_functions(name: &str) -> Option<Function> {
    let of = |short: &str| BLOB_TYPES.iter().find(|(known, _)| *known == short).map(|(_, cql_type)| cql_type.clone());
    if let Some(cql_type) = name.strip_suffix("_as_blob").or_else(|| name.strip_suffix("asblob")).and_then(of) {
        return Some(function(name, vec![cql_type], CqlType::Blob, Scalar::ToBlob));
    }
    let cql_type = name.strip_prefix("blob_as_").or_else(|| name.strip_prefix("blobas")).and_then(of)?;
    Some(function(name, vec![CqlType::Blob], cql_type, Scalar::FromBlob))
}

/// Whether there is a scalar function with this name, for any types.
pub(crate) fn is_known(name: &str) -> bool {
    matches!(name, "to_json" | "tojson" | "from_json" | "fromjson")
        || factory(name).is_some()
        || !scalars(name, &TokenTypes::default(), None, None).is_empty()
}

/// The native types that can be cast to `to`: every number to every number and to text; dates and times to each other.
fn cast_sources(to: &CqlType) -> Vec<CqlType> {
    use CqlType::*;
    let numbers = || NUMBERS.into_iter().chain([Counter]);
    match to {
        Tinyint | Smallint | Int | Bigint | Varint | Decimal | Float | Double => {
            let own = to.clone();
            numbers().filter(|number| *number != own).collect()
        }
        Ascii => numbers().chain([Boolean, Inet, Date, Time, Timestamp, Timeuuid, Uuid]).collect(),
        Text => numbers().chain([Ascii, Boolean, Inet, Date, Time, Timestamp, Timeuuid, Uuid]).collect(),
        Date => vec![Timeuuid, Timestamp],
        Timestamp => vec![Timeuuid, Date],
        _ => Vec::new(),
    }
}

/// The type of `cast_as_<name>`; there is none for `varchar`.
fn cast_target(name: &str) -> Option<CqlType> {
    BLOB_TYPES.iter().find(|(known, _)| *known == name && name != "varchar").map(|(_, cql_type)| cql_type.clone())
}

/// The overloads of `CAST(... AS to)`.
pub(crate) fn cast(to: &CqlType) -> Vec<Function> {
    let name = format!("cast_as_{to}");
    cast_sources(to).into_iter().map(|from| function(&name, vec![from], to.clone(), Scalar::Cast)).collect()
}

/// Whether a name is an aggregate's.
pub(crate) fn is_aggregate_name(name: &str) -> bool {
    matches!(name, "count" | "min" | "max" | "sum" | "avg")
}

/// The overloads of an aggregate for an argument of this type.
pub(crate) fn aggregates(name: &str, argument: &CqlType) -> Vec<AggregateFunction> {
    let of = |aggregate, argument: CqlType, result: CqlType| AggregateFunction {
        name: format!("system.{name}"),
        aggregate,
        argument: [argument],
        result,
    };
    let numbers = |aggregate| {
        let numbers = NUMBERS.into_iter().chain([CqlType::Counter]);
        numbers.map(|number| of(aggregate, number.clone(), number)).collect()
    };
    match name {
        "count" => vec![of(Aggregate::Count, argument.clone(), CqlType::Bigint)],
        "min" => vec![of(Aggregate::Min, argument.clone(), argument.clone())],
        "max" => vec![of(Aggregate::Max, argument.clone(), argument.clone())],
        "sum" => numbers(Aggregate::Sum),
        "avg" => numbers(Aggregate::Avg),
        _ => Vec::new(),
    }
}
