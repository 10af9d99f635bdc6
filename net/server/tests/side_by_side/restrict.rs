//! WHERE clauses: restrictions of keys that need no filtering, and all others.

use crate::schema::{Column, Kind};
use crate::script::Generator;
use crate::types::Type;

/// A WHERE clause.
#[derive(Default)]
pub(crate) struct Restrictions {
    pub(crate) relations: Vec<String>,
    /// Whether Cassandra may want ALLOW FILTERING.
    pub(crate) filtering: bool,
    /// Whether the whole partition key is given.
    pub(crate) one_partition: bool,
}

impl Generator {
    /// The WHERE clause of a SELECT.
    pub(crate) fn restrictions(&mut self, table: usize, distinct: bool) -> Restrictions {
        let mut out = Restrictions::default();
        let partition = self.of(table, Kind::Partition);
        let indexed = !self.tables[table].indexes.is_empty() && self.dice.use_of("index", 45);
        if indexed {
            self.indexed_relations(table, &mut out);
        }
        // Through an index of a compact table without clustering Cassandra finds no row of a partition that is named.
        let own = &self.tables[table];
        let lost_by_key = own.compact && !own.indexes.is_empty() && own.of(Kind::Clustering).is_empty();
        let weights = match indexed {
            true if lost_by_key => &[0, 0, 66, 8, 0, 4],
            true => &[14, 4, 66, 8, 4, 4],
            false => &[44, 12, 20, 14, 4, 4],
        };
        match self.dice.weighted(weights) {
            0 => {
                out.one_partition = true;
                for column in &partition {
                    let relation = self.equality(column);
                    out.relations.push(relation);
                }
            }
            1 if self.dice.has("in") => {
                out.one_partition = true;
                let last = partition.len() - 1;
                for (at, column) in partition.iter().enumerate() {
                    let relation =
                        if at == last || self.dice.one_in(3) { self.membership(column) } else { self.equality(column) };
                    out.relations.push(relation);
                }
            }
            3 if self.dice.has("token") => self.token_relations(&partition, &mut out),
            4 if self.dice.has("filtering") && partition.len() > 1 => {
                let column = self.dice.pick(&partition).clone();
                let relation = self.equality(&column);
                out.relations.push(relation);
                out.filtering = true;
            }
            5 if self.dice.has("filtering") => {
                let column = self.dice.pick(&partition).clone();
                let relation = self.comparison(&column);
                out.relations.push(relation);
                out.filtering = true;
            }
            _ => {}
        }
        let clustering = self.of(table, Kind::Clustering);
        // Through an index of a static column Cassandra finds no row behind a clustering bound.
        let of_static = |column: &Column| self.tables[table].has_index_of(&column.name);
        let lost_behind = self.of(table, Kind::Static).iter().any(of_static);
        let before = out.relations.len();
        let takes_bounds = !distinct || self.dice.slip();
        if takes_bounds && !clustering.is_empty() && (!indexed || !lost_behind) {
            self.clustering_relations(&clustering, &mut out);
        }
        let bounded = out.relations.len() > before;
        if self.dice.use_of("filtering", 16)
            && (!bounded || !lost_behind)
            && (!lost_by_key || !indexed && !out.one_partition)
        {
            self.filters(table, &mut out);
        }
        if self.may_shuffle() && self.dice.one_in(10) {
            self.dice.shuffle(&mut out.relations);
        }
        out
    }

    fn equality(&mut self, column: &Column) -> String {
        format!("{} = {}", self.name(column), self.key_term(&column.cql_type))
    }

    pub(crate) fn membership(&mut self, column: &Column) -> String {
        let name = self.name(column);
        let count = if self.dice.one_in(15) { 0 } else { 1 + self.dice.below(3) };
        let data: Vec<_> = (0..count).map(|_| self.datum(&column.cql_type, true)).collect();
        if self.dice.one_in(4) {
            // The whole list as one value, if it becomes a marker.
            let whole = crate::value::sequence(&data, "(", ")");
            return format!("{name} IN {}", self.place(whole));
        }
        let terms: Vec<String> = data.into_iter().map(|datum| self.place(datum)).collect();
        format!("{name} IN ({})", terms.join(", "))
    }

    fn comparison(&mut self, column: &Column) -> String {
        let operator = *self.dice.pick(&["<", ">", "<=", ">="]);
        format!("{} {operator} {}", self.name(column), self.key_term(&column.cql_type))
    }

    fn token_relations(&mut self, partition: &[Column], out: &mut Restrictions) {
        let mut columns = partition.to_vec();
        if self.dice.slip() {
            columns.reverse();
        }
        let names: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        let left = format!("token({})", names.join(", "));
        let operators: &[&str] = match self.dice.below(4) {
            0 => &[">"],
            1 => &["<="],
            2 => &["="],
            _ => &[">=", "<"],
        };
        for operator in operators {
            let right = if self.dice.one_in(2) {
                let inner = self.tuple_of(partition);
                format!("token{inner}")
            } else {
                let token =
                    *self.dice.pick(&[i64::MIN, -4_611_686_018_427_387_904, 0, 4_611_686_018_427_387_904, i64::MAX]);
                self.number_term(token, 8)
            };
            out.relations.push(format!("{left} {operator} {right}"));
        }
    }

    /// Equalities on a prefix of the clustering columns, then perhaps one more relation on the next ones.
    fn clustering_relations(&mut self, clustering: &[Column], out: &mut Restrictions) {
        if !out.one_partition {
            if !self.dice.use_of("filtering", 12) {
                return;
            }
            out.filtering = true;
        }
        let fixed = self.dice.below(clustering.len() + 1);
        for column in &clustering[..fixed] {
            let relation = if self.dice.use_of("in", 10) { self.membership(column) } else { self.equality(column) };
            out.relations.push(relation);
        }
        let mut rest = &clustering[fixed..];
        if rest.len() > 1 && self.dice.use_of("filtering", 6) {
            rest = &rest[1..];
            out.filtering = true;
        }
        if !rest.is_empty() && self.dice.percent(45) {
            let relations = self.slice(rest);
            out.relations.extend(relations);
        }
    }

    /// One or two bounds on the first of these columns, or on several together.
    pub(crate) fn slice(&mut self, columns: &[Column]) -> Vec<String> {
        let multi = columns.len() > 1 && self.dice.use_of("multi_column", 35);
        let used = if multi { 2 + self.dice.below(columns.len() - 1) } else { 1 };
        let columns = &columns[..used];
        let names: Vec<String> = columns.iter().map(|column| self.name(column)).collect();
        let left = if multi { format!("({})", names.join(", ")) } else { names.join(", ") };
        if multi && self.dice.one_in(3) {
            let tuples: Vec<String> = (0..1 + self.dice.below(2)).map(|_| self.tuple_of(columns)).collect();
            return vec![format!("{left} IN ({})", tuples.join(", "))];
        }
        let operators: &[&str] = match self.dice.below(6) {
            0 => &[">"],
            1 => &["<="],
            2 => &[">="],
            3 => &["<"],
            4 => &[">=", "<"],
            _ => &[">", "<="],
        };
        operators
            .iter()
            .map(|operator| {
                // A bound may be shorter than its columns.
                let len = if multi && self.dice.one_in(4) { 1 + self.dice.below(used) } else { used };
                let (left, columns) = if multi {
                    (format!("({})", names[..len].join(", ")), &columns[..len])
                } else {
                    (left.clone(), columns)
                };
                let right = if multi { self.tuple_of(columns) } else { self.key_term(&columns[0].cql_type) };
                format!("{left} {operator} {right}")
            })
            .collect()
    }

    /// Relations on columns outside the key, or on key columns that those before them leave open.
    fn filters(&mut self, table: usize, out: &mut Restrictions) {
        out.filtering = true;
        for _ in 0..1 + usize::from(self.dice.one_in(5)) {
            let columns = self.tables[table].columns.clone();
            let values = self.tables[table].values();
            let column = if values.is_empty() || self.dice.one_in(6) {
                self.dice.pick(&columns).clone()
            } else {
                self.dice.pick(&values).clone()
            };
            let relation = self.filter(&column);
            out.relations.push(relation);
        }
    }

    fn filter(&mut self, column: &Column) -> String {
        let name = self.name(column);
        if self.dice.slip() {
            let rest =
                *self.dice.pick(&["LIKE 'a%'", "IS NOT NULL", "!= 1", "= null", "IN (null)", "CONTAINS 1", "[0] = 1"]);
            return format!("{name} {rest}");
        }
        // Of one partition Cassandra finds elements of static columns that were deleted.
        let finds_deleted = column.kind == Kind::Static && column.cql_type.is_multicell();
        let contains = !finds_deleted && self.dice.use_of("contains", 60);
        match column.cql_type.clone() {
            Type::List(element, _) if contains => format!("{name} CONTAINS {}", self.element_term(&element)),
            Type::Set(element, _) if contains => format!("{name} CONTAINS {}", self.element_term(&element)),
            Type::Map(key, value, _) if contains => match self.dice.below(3) {
                0 => format!("{name} CONTAINS {}", self.element_term(&value)),
                1 => format!("{name} CONTAINS KEY {}", self.element_term(&key)),
                _ => format!("{name}[{}] = {}", self.element_term(&key), self.element_term(&value)),
            },
            Type::User(user_type, _) if self.dice.slip() => match self.field(&user_type) {
                Some((field, field_type)) => format!("{name}.{field} = {}", self.value_term(&field_type)),
                None => format!("{name} = null"),
            },
            other => match self.dice.below(8) {
                0 if self.dice.has("in") => self.membership(column),
                0..=4 => {
                    let datum = self.datum(&other, false);
                    format!("{name} = {}", self.place(datum))
                }
                _ => {
                    let operator = *self.dice.pick(&["<", ">", "<=", ">="]);
                    let datum = self.datum(&other, false);
                    format!("{name} {operator} {}", self.place(datum))
                }
            },
        }
    }

    pub(crate) fn element_term(&mut self, cql_type: &Type) -> String {
        if self.dice.slip() {
            return self.value_term(cql_type);
        }
        let datum = self.datum(cql_type, false);
        self.place(datum)
    }
}
