//! Types of the generated schemas.

use crate::dice::Dice;
use crate::schema::{UserType, ident};

/// A CQL type. `frozen` says whether `frozen<...>` is written around it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Native(&'static str),
    List(Box<Type>, bool),
    Set(Box<Type>, bool),
    Map(Box<Type>, Box<Type>, bool),
    Tuple(Vec<Type>),
    User(String, bool),
    Vector(Box<Type>, usize),
}

/// Every native type but `counter`.
pub(crate) const NATIVES: [&str; 20] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
    "varchar",
];

/// How deeply the generator nests types.
const DEPTH_MAX: usize = 2;

impl Type {
    /// The type as CQL writes it.
    pub(crate) fn cql(&self) -> String {
        let frozen = |inner: String, frozen: bool| if frozen { format!("frozen<{inner}>") } else { inner };
        match self {
            Type::Native(name) => name.to_string(),
            Type::List(element, f) => frozen(format!("list<{}>", element.cql()), *f),
            Type::Set(element, f) => frozen(format!("set<{}>", element.cql()), *f),
            Type::Map(key, value, f) => frozen(format!("map<{}, {}>", key.cql(), value.cql()), *f),
            Type::Tuple(elements) => {
                let elements: Vec<String> = elements.iter().map(Type::cql).collect();
                format!("tuple<{}>", elements.join(", "))
            }
            Type::User(name, f) => frozen(ident(name), *f),
            Type::Vector(element, n) => format!("vector<{}, {n}>", element.cql()),
        }
    }

    /// Whether a column of this type has a cell per element.
    pub(crate) fn is_multicell(&self) -> bool {
        matches!(self, Type::List(_, false) | Type::Set(_, false) | Type::Map(_, _, false) | Type::User(_, false))
    }

    /// Whether this is one of the named native types.
    pub(crate) fn is_one_of(&self, names: &[&str]) -> bool {
        matches!(self, Type::Native(name) if names.contains(name))
    }

    /// Whether the aggregates `sum` and `avg` accept the type.
    pub(crate) fn is_number(&self) -> bool {
        self.is_one_of(&["bigint", "counter", "decimal", "double", "float", "int", "smallint", "tinyint", "varint"])
    }

    /// Whether all values have the same length, which decides how vectors are encoded.
    pub(crate) fn fixed_len(&self) -> Option<usize> {
        match self {
            Type::Native(name) => match *name {
                "boolean" => Some(1),
                "int" | "float" => Some(4),
                "bigint" | "double" | "timestamp" => Some(8),
                "uuid" | "timeuuid" => Some(16),
                _ => None,
            },
            Type::Vector(element, n) => element.fixed_len().map(|len| len * n),
            _ => None,
        }
    }

    /// The type with everything in it frozen.
    pub(crate) fn frozen(self) -> Type {
        match self {
            Type::List(element, _) => Type::List(element, true),
            Type::Set(element, _) => Type::Set(element, true),
            Type::Map(key, value, _) => Type::Map(key, value, true),
            Type::User(name, _) => Type::User(name, true),
            other => other,
        }
    }

    /// Whether the type contains a `duration`: such types have no order.
    pub(crate) fn has_duration(&self, types: &[UserType]) -> bool {
        self.has(types, &|part| matches!(part, Type::Native("duration")))
    }

    /// Whether the type contains a set or map: their elements have an order, which those of a bound value may not have.
    pub(crate) fn has_order(&self, types: &[UserType]) -> bool {
        self.has(types, &|part| matches!(part, Type::Set(..) | Type::Map(..)))
    }

    /// Whether `wanted` holds for the type or for a type in it.
    pub(crate) fn has(&self, types: &[UserType], sought: &dyn Fn(&Type) -> bool) -> bool {
        if sought(self) {
            return true;
        }
        match self {
            Type::Native(_) => false,
            Type::List(element, _) | Type::Set(element, _) | Type::Vector(element, _) => element.has(types, sought),
            Type::Map(key, value, _) => key.has(types, sought) || value.has(types, sought),
            Type::Tuple(elements) => elements.iter().any(|element| element.has(types, sought)),
            Type::User(name, _) => types
                .iter()
                .filter(|known| known.name == *name)
                .any(|known| known.fields.iter().any(|(_, field)| field.has(types, sought))),
        }
    }
}

/// A native type; with `ordered` one that keys and elements of sets may have.
pub(crate) fn native(dice: &mut Dice, ordered: bool) -> Type {
    loop {
        // Half of all are the plain ones, so that statements find columns to compare.
        let name = if dice.percent(40) { *dice.pick(&["int", "text", "bigint"]) } else { *dice.pick(&NATIVES) };
        if !(ordered && name == "duration") {
            return Type::Native(name);
        }
    }
}

/// A type that another type may contain.
pub(crate) fn inner(dice: &mut Dice, types: &[UserType], ordered: bool, depth: usize) -> Type {
    if depth >= DEPTH_MAX || dice.percent(65) {
        return native(dice, ordered);
    }
    let found = compound(dice, types, ordered, depth).frozen();
    if ordered && found.has_duration(types) { native(dice, true) } else { found }
}

/// A collection, tuple, user type or vector, not frozen where possible; a native type if no such feature may be used.
pub(crate) fn compound(dice: &mut Dice, types: &[UserType], ordered: bool, depth: usize) -> Type {
    match dice.weighted(&[4, 4, 4, 2, 3, 1]) {
        0 if dice.has("collection") => Type::List(inner(dice, types, ordered, depth + 1).into(), false),
        1 if dice.has("collection") => Type::Set(inner(dice, types, true, depth + 1).into(), false),
        2 if dice.has("collection") => {
            let key = inner(dice, types, true, depth + 1);
            Type::Map(key.into(), inner(dice, types, ordered, depth + 1).into(), false)
        }
        3 if dice.has("tuple") => {
            let len = 1 + dice.below(3);
            Type::Tuple((0..len).map(|_| inner(dice, types, ordered, depth + 1)).collect())
        }
        4 if dice.has("udt") && !types.is_empty() => Type::User(dice.pick(types).name.clone(), false),
        5 if dice.has("vector") => {
            let len = 1 + dice.below(3);
            let element = if dice.percent(60) { Type::Native("float") } else { inner(dice, types, ordered, depth + 1) };
            Type::Vector(element.into(), len)
        }
        _ => native(dice, ordered),
    }
}

/// The type of a column outside the key.
pub(crate) fn of_column(dice: &mut Dice, types: &[UserType]) -> Type {
    if dice.percent(45) {
        return native(dice, false);
    }
    let found = compound(dice, types, false, 0);
    if dice.use_of("frozen", 35) { found.frozen() } else { found }
}

/// The type of a key column.
pub(crate) fn of_key(dice: &mut Dice, types: &[UserType]) -> Type {
    if dice.percent(85) || !dice.has("frozen") {
        return native(dice, true);
    }
    let found = compound(dice, types, true, 1).frozen();
    if found.has_duration(types) { native(dice, true) } else { found }
}
