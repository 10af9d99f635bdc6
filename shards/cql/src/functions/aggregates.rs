//! Aggregate functions: their state while rows are added, and their result.
//!
//! As in Cassandra, sums of integers wrap around in their own type, averages of integers are truncated, sums of floats
//! are compensated (Kahan), and null inputs are skipped.

use super::numbers::{Decimal, Number};
use super::{Aggregate, Candidate};
use model::value::compare;
use model::{CqlType, Failure};
use num_bigint::BigInt;
use std::cmp::Ordering;

/// One overload of an aggregate.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregateFunction {
    /// Its name in errors: `system.sum`.
    pub name: String,
    /// The aggregate that it computes.
    pub aggregate: Aggregate,
    /// The type of its argument.
    pub argument: [CqlType; 1],
    /// The type of its result.
    pub result: CqlType,
}

impl Candidate for AggregateFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn arguments(&self) -> &[CqlType] {
        &self.argument
    }

    fn result(&self) -> &CqlType {
        &self.result
    }
}

/// The state of an aggregate.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Count(u64),
    Extreme { keep: Ordering, value: Option<Vec<u8>> },
    Sum { sum: Sum },
    Avg { avg: Avg, count: i64 },
}

/// The state of a sum.
#[derive(Clone, Debug)]
pub(crate) enum Sum {
    /// Integers of fixed size: an exact sum.
    Integers(i128),
    Big(BigInt),
    Decimal(Decimal),
    Floats(Floats),
}

/// The state of an average.
#[derive(Clone, Debug)]
pub(crate) enum Avg {
    /// A sum that is divided at the end.
    Sum(Sum),
    /// A running average, rounded after each input to the scale so far, as Cassandra computes it for decimals.
    Running(Decimal),
}

/// A compensated sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floats {
    sum: f64,
    compensation: f64,
    simple: f64,
}

impl Floats {
    fn add(&mut self, number: f64) {
        self.simple += number;
        let corrected = number - self.compensation;
        let rounded = self.sum + corrected;
        self.compensation = (rounded - self.sum) - corrected;
        self.sum = rounded;
    }

    fn total(&self) -> f64 {
        // Compensating a sum of equal infinities would give NaN.
        let total = self.sum + self.compensation;
        if total.is_nan() && self.simple.is_infinite() { self.simple } else { total }
    }
}

impl Sum {
    fn new(cql_type: &CqlType) -> Sum {
        match cql_type {
            CqlType::Varint => Sum::Big(BigInt::ZERO),
            CqlType::Decimal => Sum::Decimal(Decimal { unscaled: BigInt::ZERO, scale: 0 }),
            CqlType::Float | CqlType::Double => Sum::Floats(Floats::default()),
            _ => Sum::Integers(0),
        }
    }

    fn add(&mut self, number: &Number) -> Result<(), Failure> {
        match self {
            Sum::Integers(sum) => *sum = sum.wrapping_add(number.to_long()?.into()),
            Sum::Big(sum) => *sum += number.to_big()?,
            Sum::Decimal(sum) => *sum = sum.add(&number.to_decimal()?)?,
            Sum::Floats(floats) => floats.add(number.to_double()),
        }
        Ok(())
    }
}

impl State {
    pub(crate) fn new(function: &AggregateFunction) -> State {
        let [argument] = &function.argument;
        match function.aggregate {
            Aggregate::CountRows | Aggregate::Count => State::Count(0),
            Aggregate::Min => State::Extreme { keep: Ordering::Less, value: None },
            Aggregate::Max => State::Extreme { keep: Ordering::Greater, value: None },
            Aggregate::Sum => State::Sum { sum: Sum::new(argument) },
            Aggregate::Avg => {
                let avg = match Sum::new(argument) {
                    Sum::Decimal(zero) => Avg::Running(zero),
                    sum => Avg::Sum(sum),
                };
                State::Avg { avg, count: 0 }
            }
        }
    }

    /// Adds the argument's value in one row; `None` is null.
    pub(crate) fn add(&mut self, function: &AggregateFunction, input: Option<&[u8]>) -> Result<(), Failure> {
        let [argument] = &function.argument;
        if let (State::Count(count), Aggregate::CountRows) = (&mut *self, function.aggregate) {
            *count += 1;
            return Ok(());
        }
        let Some(input) = input else { return Ok(()) };
        match self {
            State::Count(count) => *count += 1,
            State::Extreme { keep, value } => {
                if value.as_ref().is_none_or(|value| compare(argument, input, value) == *keep) {
                    *value = Some(input.to_vec());
                }
            }
            State::Sum { sum } => {
                if let Some(number) = Number::read(argument, input) {
                    sum.add(&number)?;
                }
            }
            State::Avg { avg, count } => {
                if let Some(number) = Number::read(argument, input) {
                    *count += 1;
                    match avg {
                        Avg::Sum(sum) => sum.add(&number)?,
                        Avg::Running(avg) => {
                            let correction = number.to_decimal()?.add(&avg.negated())?.divided(*count);
                            *avg = avg.add(&correction)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The result; `None` is null.
    pub(crate) fn finish(&self, function: &AggregateFunction) -> Result<Option<Vec<u8>>, Failure> {
        let number = match self {
            State::Count(count) => return Ok(Some(count.to_be_bytes().to_vec())),
            State::Extreme { value, .. } => return Ok(value.clone()),
            State::Sum { sum } => match sum {
                // The low bits are those of a sum that wraps in the type itself.
                Sum::Integers(sum) => Number::Long(*sum as i64),
                Sum::Big(sum) => Number::Big(sum.clone()),
                Sum::Decimal(sum) => Number::Decimal(sum.clone()),
                Sum::Floats(floats) => Number::Double(floats.total()),
            },
            State::Avg { avg, count } => {
                let count = (*count).max(1);
                match avg {
                    Avg::Sum(Sum::Integers(sum)) => Number::Long((sum / i128::from(count)) as i64),
                    Avg::Sum(Sum::Big(sum)) => Number::Big(sum / BigInt::from(count)),
                    Avg::Sum(Sum::Decimal(sum)) => Number::Decimal(sum.divided(count)),
                    Avg::Sum(Sum::Floats(floats)) => Number::Double(floats.total() / count as f64),
                    Avg::Running(avg) => Number::Decimal(avg.clone()),
                }
            }
        };
        number.write(&function.result).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::text::{from_bare, to_literal};

    fn aggregate(aggregate: Aggregate, cql_type: CqlType, inputs: &[&str]) -> String {
        let function = AggregateFunction {
            name: String::new(),
            aggregate,
            argument: [cql_type.clone()],
            result: cql_type.clone(),
        };
        let mut state = State::new(&function);
        state.add(&function, None).unwrap();
        for input in inputs {
            state.add(&function, Some(&from_bare(&cql_type, input).unwrap())).unwrap();
        }
        state.finish(&function).unwrap().map_or("null".to_owned(), |value| to_literal(&cql_type, &value))
    }

    /// Expected results are Cassandra's for the same inputs.
    #[test]
    fn results_are_cassandras() {
        use Aggregate::*;
        use CqlType::*;
        let expected: [(Aggregate, CqlType, &[&str], &str); 16] = [
            (Sum, Int, &["2147483647", "1"], "-2147483648"),
            (Sum, Bigint, &["9223372036854775807", "1"], "-9223372036854775808"),
            (Sum, Tinyint, &["127", "1"], "-128"),
            (Sum, Varint, &["123456789012345678901234567890", "1"], "123456789012345678901234567891"),
            (Sum, Decimal, &["12.340", "0.1"], "12.440"),
            (Sum, Float, &["1.5", "0.1"], "1.6"),
            (Avg, Int, &["2147483647", "1"], "1073741824"),
            (Avg, Bigint, &["9223372036854775807", "1"], "4611686018427387904"),
            (Avg, Decimal, &["12.340", "0.1"], "6.220"),
            (Avg, Varint, &["123456789012345678901234567890", "1"], "61728394506172839450617283945"),
            (Avg, Decimal, &["1", "2"], "1"),
            (Avg, Decimal, &["0.001", "1e5", "1.10"], "33333.701"),
            (Avg, Int, &[], "0"),
            (Sum, Decimal, &[], "0"),
            (Min, Int, &[], "null"),
            (Max, Int, &["-5", "3", "1"], "3"),
        ];
        for (which, cql_type, inputs, result) in expected {
            assert_eq!(aggregate(which, cql_type.clone(), inputs), result, "{which:?} {cql_type} {inputs:?}");
        }
    }

    #[test]
    fn infinities_do_not_turn_into_nan() {
        assert_eq!(aggregate(Aggregate::Sum, CqlType::Double, &["Infinity", "Infinity", "1"]), "Infinity");
    }
}
