//! The schema of a script: user types and tables as the generator expects them to be.

use crate::dice::Dice;
use crate::types::{self, Type};

/// A user type.
#[derive(Clone, Debug)]
pub(crate) struct UserType {
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, Type)>,
}

/// The kind of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Partition,
    Clustering,
    Static,
    Regular,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) cql_type: Type,
    pub(crate) kind: Kind,
    pub(crate) descending: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// `default_time_to_live`, seconds; 0 for none.
    pub(crate) default_ttl: u32,
    /// Dropped columns, which may be added again.
    pub(crate) dropped: Vec<Column>,
    /// Whether all columns outside the key are counters.
    pub(crate) counters: bool,
    /// Whether the table has COMPACT STORAGE.
    pub(crate) compact: bool,
    /// Whether conditional updates are made to the table.
    pub(crate) conditional: bool,
    /// Whether writes leave their timestamps to the server, so that they do not lose against ballots.
    pub(crate) clocked: bool,
    /// Whether counters are deleted rather than rows and partitions. With both, later counts depend on what Cassandra
    /// has flushed.
    pub(crate) deletes_counters: bool,
    /// Whether a column was dropped as of an earlier time: whether newer values come back depends on what was flushed,
    /// also for an index.
    pub(crate) dropped_early: bool,
    /// Whether the table has ever had an index.
    pub(crate) indexed: bool,
    /// The indexes that are expected to exist.
    pub(crate) indexes: Vec<Index>,
}

/// A secondary index.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) column: String,
    pub(crate) target: Target,
}

/// What an index holds of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The column's value, or the values of a collection.
    Plain,
    Values,
    Keys,
    Entries,
    Full,
}

/// An identifier as a statement writes it.
pub(crate) fn ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name != "select";
    if plain { name.into() } else { format!("\"{name}\"") }
}

impl Table {
    /// The columns of a kind, in key order.
    pub(crate) fn of(&self, kind: Kind) -> Vec<Column> {
        self.columns.iter().filter(|column| column.kind == kind).cloned().collect()
    }

    /// Static and regular columns.
    pub(crate) fn values(&self) -> Vec<Column> {
        self.columns.iter().filter(|column| matches!(column.kind, Kind::Static | Kind::Regular)).cloned().collect()
    }

    /// Whether an index of a column is expected to exist.
    pub(crate) fn has_index_of(&self, column: &str) -> bool {
        self.indexes.iter().any(|index| index.column == column)
    }

    /// CREATE TABLE.
    pub(crate) fn create(&self) -> String {
        let mut lines: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let word = if column.kind == Kind::Static { " static" } else { "" };
                format!("{} {}{word}", ident(&column.name), column.cql_type.cql())
            })
            .collect();
        let names = |kind| self.of(kind).iter().map(|c| ident(&c.name)).collect::<Vec<_>>().join(", ");
        let (partition, clustering) = (names(Kind::Partition), names(Kind::Clustering));
        let several = self.of(Kind::Partition).len() > 1;
        let partition = if several { format!("({partition})") } else { partition };
        let key = if clustering.is_empty() { partition } else { format!("{partition}, {clustering}") };
        lines.push(format!("PRIMARY KEY ({key})"));
        let mut options = Vec::new();
        if self.compact {
            options.push("COMPACT STORAGE".to_string());
        }
        if self.of(Kind::Clustering).iter().any(|column| column.descending) {
            let order: Vec<String> = self
                .of(Kind::Clustering)
                .iter()
                .map(|c| format!("{} {}", ident(&c.name), if c.descending { "DESC" } else { "ASC" }))
                .collect();
            options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
        }
        if self.default_ttl > 0 {
            options.push(format!("default_time_to_live = {}", self.default_ttl));
        }
        let with = if options.is_empty() { String::new() } else { format!(" WITH {}", options.join(" AND ")) };
        format!("CREATE TABLE {} ({}){with}", ident(&self.name), lines.join(", "))
    }
}

impl UserType {
    /// A user type.
    pub(crate) fn create(&self) -> String {
        let fields: Vec<String> =
            self.fields.iter().map(|(name, field)| format!("{} {}", ident(name), field.cql())).collect();
        format!("CREATE TYPE {} ({})", ident(&self.name), fields.join(", "))
    }
}

/// Random user types; later ones may contain earlier ones.
pub(crate) fn user_types(dice: &mut Dice) -> Vec<UserType> {
    let mut all: Vec<UserType> = Vec::new();
    if !dice.has("udt") {
        return all;
    }
    for index in 0..1 + dice.below(3) {
        let count = 1 + dice.below(3);
        let fields = (0..count)
            .map(|field| {
                let name = if dice.one_in(8) { format!("F{field}") } else { format!("f{field}") };
                let found =
                    if dice.percent(60) { types::native(dice, false) } else { types::inner(dice, &all, false, 1) };
                (name, found)
            })
            .collect();
        let name = if dice.one_in(8) { format!("Ty{index}") } else { format!("ty{index}") };
        all.push(UserType { name, fields });
    }
    all
}

/// A random table.
pub(crate) fn table(dice: &mut Dice, types: &[UserType], index: usize) -> Table {
    let counters = dice.use_of("counter", 16);
    let compact = dice.use_of("compact", 14);
    let conditional = dice.use_of("conditional", 42) && !counters;
    // What remains of counters that have other timestamps than deletions beside them is a matter of who merges first.
    let clocked = conditional || counters;
    let mut columns = Vec::new();
    let mut push = |dice: &mut Dice, name: String, cql_type: Type, kind: Kind| {
        let name = if dice.one_in(12) { name.to_uppercase() } else { name };
        // Cassandra stores sets and maps that are bound to a descending column as they come, out of order.
        let descending = kind == Kind::Clustering && dice.use_of("descending", 35) && !cql_type.has_order(types);
        columns.push(Column { name, cql_type, kind, descending });
    };
    let of_value = |dice: &mut Dice| match types::of_column(dice, types) {
        _ if counters => Type::Native("counter"),
        found if compact => found.frozen(),
        found => found,
    };
    for at in 0..1 + dice.weighted(&[7, 2, 1]) {
        let found = types::of_key(dice, types);
        push(dice, format!("p{at}"), found, Kind::Partition);
    }
    let clusterings = dice.weighted(&[2, 4, 3, 2]);
    for at in 0..clusterings {
        let found = types::of_key(dice, types);
        push(dice, format!("c{at}"), found, Kind::Clustering);
    }
    if clusterings > 0 && !compact && dice.use_of("static", 45) {
        for at in 0..1 + dice.below(2) {
            let found = of_value(dice);
            push(dice, format!("s{at}"), found, Kind::Static);
        }
    }
    let drawn = dice.weighted(&[1, 2, 4, 4, 3]);
    // One at least makes a table of counters, or a static one of COMPACT STORAGE.
    let least = usize::from(counters || compact && clusterings == 0);
    let most = if compact && clusterings > 0 { 1 } else { drawn.max(1) };
    for at in 0..drawn.clamp(least, most) {
        let found = of_value(dice);
        push(dice, format!("v{at}"), found, Kind::Regular);
    }
    let default_ttl = if dice.use_of("default_ttl", 12) && !counters { 5_000_000 } else { 0 };
    let name = if dice.one_in(8) { format!("Tab{index}") } else { format!("t{index}") };
    let (dropped, indexes) = (Vec::new(), Vec::new());
    let (deletes_counters, dropped_early) = (dice.one_in(2), false);
    Table {
        name,
        columns,
        default_ttl,
        dropped,
        counters,
        compact,
        conditional,
        clocked,
        deletes_counters,
        dropped_early,
        indexed: false,
        indexes,
    }
}
