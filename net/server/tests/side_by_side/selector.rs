//! Selectors: columns, elements, functions, casts, aggregates.

use crate::schema::{Column, Kind, ident};
use crate::script::{Generator, capital};
use crate::types::{NATIVES, Type};

impl Generator {
    /// The list between SELECT and FROM.
    pub(crate) fn selection(&mut self, table: usize) -> String {
        let columns = self.tables[table].columns.clone();
        match self.dice.weighted(&[32, 28, 24, 10, 6]) {
            0 => "*".into(),
            1 => {
                let count = 1 + self.dice.below(4);
                let names: Vec<String> = (0..count)
                    .map(|_| {
                        let column = self.dice.pick(&columns).clone();
                        let name = self.name(&column);
                        self.aliased(name)
                    })
                    .collect();
                names.join(", ")
            }
            2 => {
                let count = 1 + self.dice.below(3);
                let parts: Vec<String> = (0..count)
                    .map(|_| {
                        let column = self.dice.pick(&columns).clone();
                        let part = self.selector(&column, table);
                        self.aliased(part)
                    })
                    .collect();
                parts.join(", ")
            }
            3 if self.dice.has("aggregate") => {
                let count = 1 + self.dice.below(3);
                let parts: Vec<String> = (0..count).map(|_| self.aggregate(table)).collect();
                parts.join(", ")
            }
            4 if self.dice.has("aggregate") => {
                let plain = self.dice.pick(&columns).clone();
                format!("{}, {}", self.name(&plain), self.aggregate(table))
            }
            _ => "*".into(),
        }
    }

    fn aliased(&mut self, selector: String) -> String {
        if self.dice.one_in(12) { format!("{selector} AS {}", self.dice.pick(&["x", "\"Y\"", "v0"])) } else { selector }
    }

    fn aggregate(&mut self, table: usize) -> String {
        let columns = self.tables[table].columns.clone();
        let column = self.dice.pick(&columns).clone();
        let name = self.name(&column);
        let function = if column.cql_type.is_number() || self.dice.slip() {
            *self.dice.pick(&["count", "min", "max", "sum", "avg"])
        } else {
            *self.dice.pick(&["count", "min", "max"])
        };
        match self.dice.below(6) {
            0 => "count(*)".into(),
            1 => "COUNT(1)".into(),
            2 if column.cql_type.is_number() && self.dice.has("cast") => {
                format!("{function}(CAST({name} AS {}))", self.dice.pick(&["double", "bigint", "decimal", "varint"]))
            }
            _ => format!("{function}({name})"),
        }
    }

    /// A selector of a column.
    fn selector(&mut self, column: &Column, table: usize) -> String {
        let name = self.name(column);
        // What the server stamps is the server's own.
        let value = matches!(column.kind, Kind::Regular | Kind::Static) && !self.tables[table].clocked;
        match self.dice.weighted(&[4, 3, 2, 3, 6, 2, 1]) {
            0 if value || !self.tables[table].clocked && self.dice.slip() => format!("writetime({name})"),
            1 if (value || self.dice.slip() || column.cql_type.is_one_of(&["int", "text"])) && self.dice.has("ttl") => {
                format!("ttl({name})")
            }
            1 if value => format!("maxwritetime({name})"),
            2 if self.dice.has("token") => {
                let names: Vec<String> = self.of(table, Kind::Partition).iter().map(|c| ident(&c.name)).collect();
                format!("token({})", names.join(", "))
            }
            3 if self.dice.has("cast") => {
                let to = self.cast_target(&column.cql_type);
                format!("CAST({name} AS {to})")
            }
            4 => self.of_type(&name, &column.cql_type, value),
            5 if self.dice.has("json") => {
                format!("{}({name})", self.dice.pick(&["toJson", "to_json", "tojson"]))
            }
            6 if self.dice.has("mask") => self.mask(&name, &column.cql_type),
            _ => self.of_type(&name, &column.cql_type, value),
        }
    }

    /// The target of a cast, which mostly fits the type.
    fn cast_target(&mut self, from: &Type) -> &'static str {
        if from.is_number() {
            return self.dice.pick::<&str>(&[
                "text", "int", "bigint", "double", "float", "decimal", "varint", "smallint", "tinyint", "ascii",
            ]);
        }
        if from.is_one_of(&["timestamp", "date", "timeuuid"]) {
            return self.dice.pick::<&str>(&["text", "timestamp", "date", "ascii"]);
        }
        if self.dice.one_in(3) { self.dice.pick::<&str>(&NATIVES) } else { "text" }
    }

    /// `stamps` says whether timestamps and times to live may be selected.
    fn of_type(&mut self, name: &str, cql_type: &Type, stamps: bool) -> String {
        if !self.dice.has("function") {
            return name.into();
        }
        match cql_type.clone() {
            Type::Native(native) => self.of_native(name, native),
            Type::List(element, _) => {
                let function = self.collection_function(&element);
                format!("{function}({name})")
            }
            Type::Set(element, _) => match self.dice.below(4) {
                0 if self.dice.has("element") => {
                    let datum = self.datum(&element, false);
                    format!("{name}[{}]", self.place(datum))
                }
                1 if self.dice.has("element") => self.range_of(name, &element),
                _ => format!("{}({name})", self.collection_function(&element)),
            },
            Type::Map(key, value, _) => match self.dice.below(6) {
                0 | 1 if self.dice.has("element") => {
                    let datum = self.datum(&key, false);
                    let term = self.place(datum);
                    let element = format!("{name}[{term}]");
                    match self.dice.below(12) {
                        0 | 1 if stamps => format!("writetime({element})"),
                        2 => format!("ttl({element})"),
                        _ => element,
                    }
                }
                2 if self.dice.has("element") => self.range_of(name, &key),
                3 => format!("map_keys({name})"),
                4 => format!("map_values({name})"),
                _ => format!("{}({name})", self.collection_function(&value)),
            },
            Type::User(user_type, _) => match self.field(&user_type) {
                Some((field, field_type)) if self.dice.one_in(4) => {
                    let inner = format!("{name}.{field}");
                    self.of_type(&inner, &field_type, stamps)
                }
                Some((field, _)) => format!("{name}.{field}"),
                None => name.into(),
            },
            Type::Vector(element, len) if element.is_one_of(&["float"]) => {
                let function =
                    *self.dice.pick(&["similarity_cosine", "similarity_euclidean", "similarity_dot_product"]);
                let other = self.datum(&Type::Vector(element, len), false).literal;
                format!("{function}({name}, {other})")
            }
            Type::Tuple(_) | Type::Vector(..) => {
                if self.dice.slip() {
                    format!("{name}[0]")
                } else {
                    name.into()
                }
            }
        }
    }

    fn range_of(&mut self, name: &str, element: &Type) -> String {
        let (from, to) = (self.datum(element, false).literal, self.datum(element, false).literal);
        match self.dice.below(3) {
            0 => format!("{name}[{from}..]"),
            1 => format!("{name}[..{to}]"),
            _ => format!("{name}[{from}..{to}]"),
        }
    }

    fn collection_function(&mut self, element: &Type) -> &'static str {
        if element.is_number() || self.dice.slip() {
            self.dice.pick::<&str>(&[
                "collection_count",
                "collection_min",
                "collection_max",
                "collection_sum",
                "collection_avg",
            ])
        } else {
            self.dice.pick::<&str>(&["collection_count", "collection_min", "collection_max"])
        }
    }

    fn of_native(&mut self, name: &str, native: &'static str) -> String {
        match native {
            "timeuuid" | "timestamp" | "date" if self.dice.percent(75) => {
                let functions: &[&str] = match native {
                    "timeuuid" => {
                        &["toDate", "toTimestamp", "toUnixTimestamp", "to_date", "to_timestamp", "to_unix_timestamp"]
                    }
                    "timestamp" => {
                        &["toDate", "toUnixTimestamp", "to_date", "min_timeuuid", "max_timeuuid", "minTimeuuid"]
                    }
                    _ => &["toTimestamp", "toUnixTimestamp", "to_timestamp", "to_unix_timestamp"],
                };
                let function = *self.dice.pick(functions);
                format!("{function}({name})")
            }
            "int" | "bigint" | "counter" | "smallint" | "tinyint" | "varint" | "double" | "float" | "decimal"
                if self.dice.percent(60) =>
            {
                if self.dice.use_of("arithmetic", 35) {
                    let operator = *self.dice.pick(&["+", "-", "*", "/", "%"]);
                    let right = *self.dice.pick(&["1", "2", "-3", "1.5", "0"]);
                    return if self.dice.one_in(6) { format!("-{name}") } else { format!("{name} {operator} {right}") };
                }
                let function = *self.dice.pick(&["abs", "round", "abs", "round", "exp", "log", "log10"]);
                format!("{function}({name})")
            }
            "varchar" => format!("textAsBlob({name})"),
            "blob" => {
                let target = *self.dice.pick(&NATIVES);
                format!("blobAs{}({name})", capital(target))
            }
            _ if self.dice.slip() => format!("blobAsInt({name})"),
            _ if self.dice.one_in(2) => format!("{native}AsBlob({name})"),
            _ => format!("blob_as_{native}({native}_as_blob({name}))"),
        }
    }

    fn mask(&mut self, name: &str, cql_type: &Type) -> String {
        let text = cql_type.is_one_of(&["text", "ascii", "varchar"]);
        match self.dice.below(if text { 5 } else { 3 }) {
            0 => format!("mask_null({name})"),
            1 => format!("mask_default({name})"),
            2 => format!("mask_hash({name})"),
            3 => format!("mask_inner({name}, 1, 1)"),
            _ => format!("mask_outer({name}, 1, 1, '#')"),
        }
    }
}
