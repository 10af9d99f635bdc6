//! Functions that exist for whatever types they are called with: what their parameters take, and the overload that is made
//! for a call.
//!
//! 1. The type of each argument is what the argument tells, or else what its parameter takes from the place of the call or
//!    from another argument; a second round sees what the first found.
//! 2. Each type is checked against its parameter.
//! 3. The types make the overload; the arguments are then checked like those of any other function.

use super::catalogue::{Scalar, Similarity};
use super::resolve::Argument;
use super::{Function, catalogue::function};
use crate::literal::Scope;
use model::{CqlType, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// What a parameter takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameter {
    /// A vector of floats; of an unknown type that of the other argument at this place.
    FloatVector { like: usize },
}

/// A function for whatever types it is called with.
pub(crate) struct Factory {
    /// In lower case.
    name: &'static str,
    parameters: &'static [Parameter],
}

const VECTORS: [Parameter; 2] = [Parameter::FloatVector { like: 1 }, Parameter::FloatVector { like: 0 }];

const FACTORIES: [Factory; 3] = [
    Factory { name: "similarity_cosine", parameters: &VECTORS },
    Factory { name: "similarity_euclidean", parameters: &VECTORS },
    Factory { name: "similarity_dot_product", parameters: &VECTORS },
];

/// The factory of a name.
pub(crate) fn factory(name: &str) -> Option<&'static Factory> {
    FACTORIES.iter().find(|factory| factory.name == name)
}

impl Parameter {
    fn shown(self) -> &'static str {
        match self {
            Parameter::FloatVector { .. } => "vector<float, n>",
        }
    }

    /// The type of an argument, perhaps from its place or from what is known of other arguments.
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
        }
    }

    /// Fails if an argument's type is not what the parameter takes.
    fn check(self, name: &str, argument: &impl Argument, given: &CqlType) -> Result<()> {
        let (fits, wanted) = match self {
            Parameter::FloatVector { .. } => {
                let is_float_vector = matches!(given, CqlType::Vector { element, .. } if **element == CqlType::Float);
                (is_float_vector, "a float vector argument")
            }
        };
        if fits {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "Function system.{name} requires {wanted}, but found argument {argument} of type {given}"
        )))
    }
}

impl Factory {
    /// `system.name(parameters)`
    fn shown(&self) -> String {
        let parameters: Vec<&str> = self.parameters.iter().map(|parameter| parameter.shown()).collect();
        format!("system.{}({})", self.name, parameters.join(", "))
    }

    /// The overload for a call's arguments. `place` is the type of the place of the call, if it has one.
    pub(crate) fn build(
        &self,
        arguments: &[impl Argument],
        place: Option<&CqlType>,
        scope: &Scope,
    ) -> Result<Function> {
        if arguments.len() != self.parameters.len() {
            return Err(Failure::invalid(format!("Invalid number of arguments for function {}", self.shown())));
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
                    self.shown()
                )));
            };
            parameter.check(self.name, argument, &found)?;
            known[at] = Some(found.clone());
            types.push(found);
        }
        self.made(types)
    }

    fn made(&self, types: Vec<CqlType>) -> Result<Function> {
        let measure = match self.name {
            "similarity_cosine" => Similarity::Cosine,
            "similarity_euclidean" => Similarity::Euclidean,
            _ => Similarity::DotProduct,
        };
        if types.first() != types.last() {
            return Err(Failure::invalid("All arguments must have the same vector dimensions"));
        }
        Ok(function(self.name, types, CqlType::Float, Scalar::Similarity(measure)))
    }
}
