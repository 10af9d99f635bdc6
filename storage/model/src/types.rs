//! CQL types. Their names are in `types/name.rs` (CQL) and `types/class.rs` (Cassandra's marshal classes).
//!
//! Invariants: a user type's definition contains only frozen user types; `frozen` of a collection or user type says
//! whether its elements are cells of their own, and changes nothing about the bytes of a value.

mod class;
mod name;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A CQL type. Collections and user types record whether they are frozen. A type inside a collection, tuple or user
/// type is frozen in effect: only the elements of the outermost type can be cells of their own.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the natives are named as in CQL")]
pub enum CqlType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    /// The type whose only value has no bytes: that of the hidden value column of dense compact tables.
    Empty,
    Float,
    Inet,
    Int,
    /// A uuid that sorts as two signed numbers: Cassandra's `LexicalUUIDType`, which CQL writes as a class.
    LexicalUuid,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    Varint,
    List {
        element: Box<CqlType>,
        frozen: bool,
    },
    Set {
        element: Box<CqlType>,
        frozen: bool,
    },
    Map {
        key: Box<CqlType>,
        value: Box<CqlType>,
        frozen: bool,
    },
    Tuple(Vec<CqlType>),
    Vector {
        element: Box<CqlType>,
        dimension: u32,
    },
    User {
        definition: Arc<UserType>,
        frozen: bool,
    },
    /// Cassandra's `CompositeType`: up to one value of each component, each with its length.
    Composite(Vec<Component>),
    /// Cassandra's `DynamicCompositeType`: values that name their own classes, or characters that stand for them here;
    /// in the order of [`CqlType::dynamic_composite`].
    DynamicComposite(Vec<(u8, Component)>),
}

/// A component of a composite type.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Component {
    /// The type of its values. As in Cassandra, freezing what contains the composite type leaves it as it is.
    pub cql_type: CqlType,
    /// Whether its values sort in descending order: the class is wrapped in `ReversedType`.
    pub reversed: bool,
}

/// A user type, as created by CREATE TYPE.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct UserType {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name in the case that is stored.
    pub name: String,
    /// Names and types of its fields, in the order in which their values are serialised; at most [`FIELDS_MAX`].
    pub fields: Vec<(String, CqlType)>,
}

impl UserType {
    /// The index of the field with this name.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| field == name)
    }

    /// The types of the fields, in order.
    pub fn field_types(&self) -> impl ExactSizeIterator<Item = &CqlType> + DoubleEndedIterator + Clone {
        self.fields.iter().map(|(_, cql_type)| cql_type)
    }

    /// `keyspace.name`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }
}

/// Why bytes or a text are not a value of a type, or a text is not a type. Cassandra's text: `Expected 4 or 0 byte int
/// (5)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueError(pub String);

/// Deepest nesting of a type; the fields of a user type are one level below it. What walks types and their values
/// recurses: two megabytes of stack are enough for this depth without optimisation, which tests show.
pub const TYPE_DEPTH_MAX: usize = 64;
/// Deepest nesting of a class that a value of a `DynamicCompositeType` names. It contains no other such type, so that
/// this bounds what a value can make its readers recurse.
pub const NAMED_CLASS_DEPTH_MAX: usize = 16;
/// Most fields of a user type, because cell paths number them with 16 bits, as in Cassandra.
pub const FIELDS_MAX: usize = i16::MAX as usize;
/// The largest dimension of a vector.
pub const DIMENSION_MAX: u32 = i32::MAX as u32;

impl Component {
    fn map(&self, change: &dyn Fn(&CqlType) -> CqlType) -> Component {
        Component { cql_type: change(&self.cql_type), reversed: self.reversed }
    }
}

impl CqlType {
    /// Whether each element of a column of this type is a cell with a path: a collection or user type that is not
    /// frozen.
    pub fn is_multicell(&self) -> bool {
        matches!(
            self,
            CqlType::List { frozen: false, .. }
                | CqlType::Set { frozen: false, .. }
                | CqlType::Map { frozen: false, .. }
                | CqlType::User { frozen: false, .. }
        )
    }

    /// Whether this is a list, set or map.
    pub fn is_collection(&self) -> bool {
        matches!(self, CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. })
    }

    /// Whether this is a user type.
    pub fn is_user_type(&self) -> bool {
        matches!(self, CqlType::User { .. })
    }

    /// Whether this is a `CompositeType` or `DynamicCompositeType`.
    pub fn is_composite(&self) -> bool {
        matches!(self, CqlType::Composite(_) | CqlType::DynamicComposite(_))
    }

    /// Whether CQL has no name for this type, but writes the class in quotes.
    pub fn is_class(&self) -> bool {
        *self == CqlType::LexicalUuid || self.is_composite()
    }

    /// The `DynamicCompositeType` with these aliases, of which the last one of a character counts. They are in the
    /// order of a hash table of Java, in which Cassandra writes the class.
    pub fn dynamic_composite(given: Vec<(u8, Component)>) -> CqlType {
        let mut aliases: Vec<(u8, Component)> = Vec::with_capacity(given.len());
        for (alias, component) in given {
            match aliases.iter_mut().find(|(known, _)| *known == alias) {
                Some((_, known)) => *known = component,
                None => aliases.push((alias, component)),
            }
        }
        // The table has 16 buckets at first and twice as many whenever it is three quarters full.
        let mut buckets = 16;
        while aliases.len() > buckets / 4 * 3 {
            buckets *= 2;
        }
        aliases.sort_by_key(|(alias, _)| usize::from(*alias) % buckets);
        CqlType::DynamicComposite(aliases)
    }

    /// The length in bytes of every value, for types that Cassandra considers fixed: they are written without a length
    /// in vectors and files. Cassandra does not consider all types fixed that could be.
    pub fn fixed_len(&self) -> Option<usize> {
        use CqlType::*;
        match self {
            Boolean => Some(1),
            Int | Float => Some(4),
            Bigint | Double | Timestamp => Some(8),
            LexicalUuid | Uuid | Timeuuid => Some(16),
            Vector { element, dimension } => element.fixed_len()?.checked_mul(*dimension as usize),
            _ => None,
        }
    }

    /// Whether an empty value (no bytes) is valid.
    pub fn allows_empty(&self) -> bool {
        use CqlType::*;
        !(self.is_collection() || matches!(self, Date | Duration | Smallint | Time | Tinyint | Vector { .. }))
    }

    /// Whether an empty value is valid but meaningless, as for int: functions treat it as null.
    pub fn is_empty_meaningless(&self) -> bool {
        use CqlType::*;
        let meaningful = matches!(self, Ascii | Blob | Empty | Text | Tuple(_) | User { .. }) || self.is_composite();
        self.allows_empty() && !meaningful
    }

    /// The types directly inside this one: elements, keys and values, or fields.
    pub fn parts(&self) -> Vec<&CqlType> {
        use CqlType::*;
        match self {
            List { element, .. } | Set { element, .. } | Vector { element, .. } => vec![element],
            Map { key, value, .. } => vec![key, value],
            Tuple(elements) => elements.iter().collect(),
            User { definition, .. } => definition.field_types().collect(),
            Composite(components) => components.iter().map(|component| &component.cql_type).collect(),
            DynamicComposite(aliases) => aliases.iter().map(|(_, component)| &component.cql_type).collect(),
            _ => Vec::new(),
        }
    }

    /// The type with `change` applied to every type directly inside it, fields of user types included.
    pub fn map_parts(&self, change: &dyn Fn(&CqlType) -> CqlType) -> CqlType {
        use CqlType::*;
        match self {
            List { element, frozen } => List { element: change(element).into(), frozen: *frozen },
            Set { element, frozen } => Set { element: change(element).into(), frozen: *frozen },
            Map { key, value, frozen } => Map { key: change(key).into(), value: change(value).into(), frozen: *frozen },
            Tuple(elements) => Tuple(elements.iter().map(change).collect()),
            Vector { element, dimension } => Vector { element: change(element).into(), dimension: *dimension },
            User { definition, frozen } => {
                let fields = definition.fields.iter().map(|(name, cql_type)| (name.clone(), change(cql_type)));
                let definition = UserType {
                    keyspace: definition.keyspace.clone(),
                    name: definition.name.clone(),
                    fields: fields.collect(),
                };
                User { definition: definition.into(), frozen: *frozen }
            }
            Composite(components) => Composite(components.iter().map(|component| component.map(change)).collect()),
            DynamicComposite(aliases) => {
                DynamicComposite(aliases.iter().map(|(alias, component)| (*alias, component.map(change))).collect())
            }
            native => native.clone(),
        }
    }

    /// The depth of nesting: 0 for a native type. What values of a `DynamicCompositeType` may name counts.
    pub fn depth(&self) -> usize {
        let named = if matches!(self, CqlType::DynamicComposite(_)) { NAMED_CLASS_DEPTH_MAX + 1 } else { 0 };
        self.parts().into_iter().map(|part| part.depth() + 1).max().unwrap_or(0).max(named)
    }

    /// The type with everything frozen that can be, except the fields of user types, whose definitions stay unchanged,
    /// and the components of composite types.
    pub fn frozen(&self) -> CqlType {
        use CqlType::*;
        let mut changed = match self {
            User { definition, .. } => return User { definition: definition.clone(), frozen: true },
            composite if composite.is_composite() => return composite.clone(),
            other => other.map_parts(&CqlType::frozen),
        };
        if let List { frozen, .. } | Set { frozen, .. } | Map { frozen, .. } = &mut changed {
            *frozen = true;
        }
        changed
    }

    /// Whether this type is or contains the user type with this name.
    pub fn contains_user_type(&self, keyspace: &str, name: &str) -> bool {
        let here = match self {
            CqlType::User { definition, .. } => definition.keyspace == keyspace && definition.name == name,
            _ => false,
        };
        here || self.parts().into_iter().any(|part| part.contains_user_type(keyspace, name))
    }

    /// The type with `definition` in place of every user type with its name, also inside other user types.
    pub fn with_user_type(&self, definition: &Arc<UserType>) -> CqlType {
        if !self.contains_user_type(&definition.keyspace, &definition.name) {
            return self.clone();
        }
        match self {
            CqlType::User { definition: old, frozen }
                if old.keyspace == definition.keyspace && old.name == definition.name =>
            {
                CqlType::User { definition: definition.clone(), frozen: *frozen }
            }
            other => other.map_parts(&|part| part.with_user_type(definition)),
        }
    }

    /// The user types that this type is or contains, each once, by keyspace and name.
    pub fn references(&self) -> Vec<&Arc<UserType>> {
        let mut found = BTreeMap::new();
        self.collect_references(&mut found);
        found.into_values().collect()
    }

    fn collect_references<'a>(&'a self, found: &mut BTreeMap<(&'a str, &'a str), &'a Arc<UserType>>) {
        if let CqlType::User { definition, .. } = self {
            found.insert((&definition.keyspace, &definition.name), definition);
        }
        self.parts().into_iter().for_each(|part| part.collect_references(found));
    }
}
