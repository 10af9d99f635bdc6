//! DESCRIBE: what is defined, as rows and as the CREATE statements that make it again (`statement`), with Cassandra's
//! text and order.
//!
//! 1. Find the objects that are asked for, or fail with Cassandra's text.
//! 2. Answer one row per object: keyspace, type, name and, except in lists, the statement. Names are quoted where CQL
//!    needs it.
//!
//! Invariants: keyspaces, tables and indexes are sorted by name, ignoring case; so are user types in lists, but in a
//! series of statements a type comes after those that it uses; hidden tables do not appear.

mod statement;

use crate::config::Config;
use crate::schema::system_tables::{CustomIndex, INDEXES, is_hidden};
use cluster::placement::Placement;
use cql::plan::{Describe, DescribeTarget};
use model::identifier::quoted;
use model::schema::is_system_keyspace;
use model::types::UserType;
use model::value::push_element;
use model::{ColumnSpec, CqlType, Failure, Index, Keyspace, RingToken, Schema, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The snitch that Cassandra wraps around the configured one, and so the name that DESCRIBE CLUSTER shows.
const SNITCH: &str = "DynamicEndpointSnitch";

/// The answer to a DESCRIBE, all pages together.
pub(crate) struct Described {
    /// The columns.
    pub(crate) columns: Arc<[ColumnSpec]>,
    /// The encoded rows; per column `[int length][bytes]`.
    pub(crate) rows: Vec<Vec<u8>>,
}

/// Describes what `target` names in `schema`; `config` and `placement` are for DESCRIBE CLUSTER. Fails with
/// Invalid if it does not exist.
pub(crate) fn describe(
    schema: &Schema,
    config: &Config,
    placement: &Placement,
    describe: &Describe,
) -> Result<Described, Failure> {
    let session = describe.session_keyspace.as_deref();
    let internals = describe.internals;
    let statements = |things: Vec<Thing<'_>>| Ok(statements(&things, internals));
    // The keyspace in which a name is looked up.
    let within = |keyspace: &Option<String>| match keyspace.as_deref().or(session) {
        Some(name) => find_keyspace(schema, name),
        None => Err(Failure::invalid("No keyspace specified and no current keyspace")),
    };
    let missing = |what: &str, name: &str, keyspace: &Keyspace| {
        Failure::invalid(format!("{what} '{name}' not found in '{}'", keyspace.name))
    };
    match &describe.target {
        DescribeTarget::Cluster => Ok(cluster(config, placement, session)),
        DescribeTarget::Keyspaces => Ok(list(sorted_keyspaces(schema).into_iter().map(Thing::Keyspace))),
        DescribeTarget::Tables => {
            let keyspaces = listed_keyspaces(schema, session)?;
            Ok(list(keyspaces.into_iter().flat_map(sorted_tables).map(Thing::Table)))
        }
        DescribeTarget::Types => {
            let keyspaces = listed_keyspaces(schema, session)?;
            Ok(list(keyspaces.into_iter().flat_map(sorted_types).map(Thing::Type)))
        }
        DescribeTarget::Functions | DescribeTarget::Aggregates => {
            listed_keyspaces(schema, session)?;
            Ok(list(std::iter::empty()))
        }
        DescribeTarget::Schema { full } => {
            let shown = |keyspace: &&Keyspace| *full || !is_system_keyspace(&keyspace.name);
            statements(sorted_keyspaces(schema).into_iter().filter(shown).flat_map(with_tables).collect())
        }
        DescribeTarget::Keyspace { name, only } => {
            let keyspace = within(name)?;
            statements(if *only { vec![Thing::Keyspace(keyspace)] } else { with_tables(keyspace) })
        }
        DescribeTarget::Table { keyspace, name } => {
            let keyspace = within(keyspace)?;
            let table = find_table(keyspace, name)
                .ok_or_else(|| Failure::invalid(format!("Table '{name}' not found in keyspace '{}'", keyspace.name)))?;
            statements(with_indexes(table))
        }
        DescribeTarget::Index { keyspace, name } => {
            let keyspace = within(keyspace)?;
            let index = find_index(keyspace, name);
            let index = index.ok_or_else(|| missing("Table for existing index", name, keyspace))?;
            statements(vec![index])
        }
        DescribeTarget::Type { keyspace, name } => {
            let keyspace = within(keyspace)?;
            let definition = keyspace.types.get(name).ok_or_else(|| missing("User defined type", name, keyspace))?;
            statements(vec![Thing::Type(definition)])
        }
        DescribeTarget::Function { keyspace, name } => Err(missing("User defined function", name, within(keyspace)?)),
        DescribeTarget::Aggregate { keyspace, name } => Err(missing("User defined aggregate", name, within(keyspace)?)),
        DescribeTarget::MaterializedView { keyspace, name } => {
            Err(missing("Materialized view", name, within(keyspace)?))
        }
        DescribeTarget::Any { keyspace, name } => {
            if keyspace.is_none()
                && let Some(keyspace) = schema.keyspace(name)
            {
                return statements(with_tables(keyspace));
            }
            let keyspace = match keyspace.as_deref().or(session) {
                Some(keyspace) => find_keyspace(schema, keyspace)?,
                None => find_keyspace(schema, name)?,
            };
            match (find_table(keyspace, name), find_index(keyspace, name)) {
                (Some(table), _) => statements(with_indexes(table)),
                (None, Some(index)) => statements(vec![index]),
                (None, None) => Err(Failure::invalid(format!("'{name}' not found in keyspace '{}'", keyspace.name))),
            }
        }
    }
}

/// The statements that make a table again with the id that it has: first its user types, then the table and its
/// indexes, one per line. Each has IF NOT EXISTS.
pub(crate) fn recreate(keyspace: &Keyspace, table: &Table) -> String {
    let held: BTreeSet<&str> = {
        let references = table.columns.iter().flat_map(|column| column.cql_type.references());
        references.map(|definition| definition.name.as_str()).collect()
    };
    let types = keyspace.types_by_dependency();
    let types = types.into_iter().filter(|definition| held.contains(definition.name.as_str()));
    let mut out = String::new();
    for definition in types {
        out += &unless_there("TYPE", &statement::user_type(definition));
    }
    out += &unless_there("TABLE", &statement::table(table, true));
    for index in &table.indexes {
        out += &unless_there("INDEX", &statement::index(table, index));
    }
    out
}

/// The statement that makes a keyspace again, with IF NOT EXISTS.
pub(crate) fn recreate_keyspace(keyspace: &Keyspace) -> String {
    unless_there("KEYSPACE", &statement::keyspace(keyspace))
}

fn unless_there(kind: &str, statement: &str) -> String {
    statement.replacen(&format!("CREATE {kind} "), &format!("CREATE {kind} IF NOT EXISTS "), 1) + "\n"
}

/// An object to describe.
#[derive(Clone, Copy)]
enum Thing<'s> {
    Keyspace(&'s Keyspace),
    Type(&'s UserType),
    Table(&'s Table),
    Index(&'s Table, &'s Index),
    CustomIndex(&'static CustomIndex),
}

impl Thing<'_> {
    fn keyspace(&self) -> &str {
        match self {
            Thing::Keyspace(keyspace) => &keyspace.name,
            Thing::Type(definition) => &definition.keyspace,
            Thing::Table(table) => &table.keyspace,
            Thing::Index(table, _) => &table.keyspace,
            Thing::CustomIndex(index) => index.keyspace,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Thing::Keyspace(_) => "keyspace",
            Thing::Type(_) => "type",
            Thing::Table(_) => "table",
            Thing::Index(..) | Thing::CustomIndex(_) => "index",
        }
    }

    fn name(&self) -> &str {
        match self {
            Thing::Keyspace(keyspace) => &keyspace.name,
            Thing::Type(definition) => &definition.name,
            Thing::Table(table) => &table.name,
            Thing::Index(_, index) => &index.name,
            Thing::CustomIndex(index) => index.name,
        }
    }

    fn statement(&self, internals: bool) -> String {
        match self {
            Thing::Keyspace(keyspace) => statement::keyspace(keyspace),
            Thing::Type(definition) => statement::user_type(definition),
            Thing::Table(table) => statement::table(table, internals),
            Thing::Index(table, index) => statement::index(table, index),
            Thing::CustomIndex(index) => statement::custom_index(index),
        }
    }
}

/// Sorts by name, ignoring case, as Cassandra does.
fn by_name<T>(things: &mut [T], name: impl Fn(&T) -> &str) {
    things.sort_by_cached_key(|thing| (name(thing).to_lowercase(), name(thing).to_string()));
}

fn sorted_keyspaces(schema: &Schema) -> Vec<&Keyspace> {
    let mut keyspaces: Vec<&Keyspace> = schema.keyspaces.values().map(|keyspace| &**keyspace).collect();
    by_name(&mut keyspaces, |keyspace| &keyspace.name);
    keyspaces
}

fn sorted_tables(keyspace: &Keyspace) -> Vec<&Table> {
    let tables = keyspace.tables.values().map(|table| &**table);
    let mut tables: Vec<&Table> = tables.filter(|table| !is_hidden(table)).collect();
    by_name(&mut tables, |table| &table.name);
    tables
}

fn sorted_types(keyspace: &Keyspace) -> Vec<&UserType> {
    let mut types: Vec<&UserType> = keyspace.types.values().map(|definition| &**definition).collect();
    by_name(&mut types, |definition| &definition.name);
    types
}

/// The session's keyspace if it has one, otherwise all.
fn listed_keyspaces<'s>(schema: &'s Schema, session: Option<&str>) -> Result<Vec<&'s Keyspace>, Failure> {
    match session {
        Some(name) => Ok(vec![find_keyspace(schema, name)?]),
        None => Ok(sorted_keyspaces(schema)),
    }
}

fn find_keyspace<'s>(schema: &'s Schema, name: &str) -> Result<&'s Keyspace, Failure> {
    let found = schema.keyspace(name).map(|keyspace| &**keyspace);
    found.ok_or_else(|| Failure::invalid(format!("'{name}' not found in keyspaces")))
}

fn find_table<'s>(keyspace: &'s Keyspace, name: &str) -> Option<&'s Table> {
    keyspace.tables.get(name).map(|table| &**table).filter(|table| !is_hidden(table))
}

fn find_index<'s>(keyspace: &'s Keyspace, name: &str) -> Option<Thing<'s>> {
    sorted_tables(keyspace).into_iter().flat_map(indexes).find(|index| index.name() == name)
}

/// The indexes of a table, by name.
fn indexes(table: &Table) -> Vec<Thing<'_>> {
    let custom = INDEXES.iter().filter(|index| (index.keyspace, index.table) == (&table.keyspace, &table.name));
    let own = table.indexes.iter().map(|index| Thing::Index(table, index));
    let mut things: Vec<Thing<'_>> = own.chain(custom.map(Thing::CustomIndex)).collect();
    by_name(&mut things, |index| index.name());
    things
}

fn with_indexes(table: &Table) -> Vec<Thing<'_>> {
    let mut things = vec![Thing::Table(table)];
    things.extend(indexes(table));
    things
}

fn with_tables(keyspace: &Keyspace) -> Vec<Thing<'_>> {
    let types = keyspace.types_by_dependency().into_iter().map(|definition| Thing::Type(definition));
    let tables = sorted_tables(keyspace).into_iter().flat_map(with_indexes);
    std::iter::once(Thing::Keyspace(keyspace)).chain(types).chain(tables).collect()
}

fn columns<const N: usize>(columns: [(&str, CqlType); N]) -> Vec<ColumnSpec> {
    let spec = |(name, cql_type): (&str, CqlType)| ColumnSpec {
        keyspace: "system".into(),
        table: "describe".into(),
        name: name.into(),
        cql_type,
        class: None,
    };
    columns.into_iter().map(spec).collect()
}

fn row<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    values.into_iter().for_each(|value| push_element(&mut out, Some(value)));
    out
}

const LIST_COLUMNS: [(&str, CqlType); 3] =
    [("keyspace_name", CqlType::Text), ("type", CqlType::Text), ("name", CqlType::Text)];

fn list<'s>(things: impl Iterator<Item = Thing<'s>>) -> Described {
    let encode = |thing: Thing<'_>| {
        let (keyspace, name) = (quoted(thing.keyspace()), quoted(thing.name()));
        row([keyspace.as_bytes(), thing.kind().as_bytes(), name.as_bytes()])
    };
    Described { columns: columns(LIST_COLUMNS).into(), rows: things.map(encode).collect() }
}

fn statements(things: &[Thing<'_>], internals: bool) -> Described {
    let encode = |thing: &Thing<'_>| {
        let (keyspace, name) = (quoted(thing.keyspace()), quoted(thing.name()));
        let statement = thing.statement(internals);
        row([keyspace.as_bytes(), thing.kind().as_bytes(), name.as_bytes(), statement.as_bytes()])
    };
    let mut specs = columns(LIST_COLUMNS);
    specs.extend(columns([("create_statement", CqlType::Text)]));
    Described { columns: specs.into(), rows: things.iter().map(encode).collect() }
}

/// The answer to DESCRIBE CLUSTER. With a user keyspace in use it also says who owns which range, named by its last
/// token.
fn cluster(config: &Config, placement: &Placement, session: Option<&str>) -> Described {
    let mut specs = columns([("cluster", CqlType::Text), ("partitioner", CqlType::Text), ("snitch", CqlType::Text)]);
    let partitioner = config.partitioner.simple_name();
    let mut values =
        vec![config.cluster_name.clone().into_bytes(), partitioner.as_bytes().to_vec(), SNITCH.as_bytes().to_vec()];
    if let Some(keyspace) = session.filter(|keyspace| !is_system_keyspace(keyspace)) {
        let endpoints = CqlType::List { element: CqlType::Text.into(), frozen: true };
        let cql_type = CqlType::Map { key: CqlType::Text.into(), value: endpoints.into(), frozen: false };
        specs.extend(columns([("range_ownership", cql_type)]));
        let owners = |token: &RingToken| {
            let nodes = placement.keyspace(keyspace).map_or(&[][..], |placed| placed.nodes_of(token));
            let mut owners = (nodes.len() as i32).to_be_bytes().to_vec();
            for node in nodes {
                let endpoint = format!("/{}", placement.topology().node(*node).address);
                push_element(&mut owners, Some(endpoint.as_bytes()));
            }
            owners
        };
        let mut ranges: Vec<(String, Vec<u8>)> =
            placement.topology().ring().iter().map(|(token, _)| (token.to_string(), owners(token))).collect();
        ranges.sort();
        let mut ownership = (ranges.len() as i32).to_be_bytes().to_vec();
        for (token, owners) in &ranges {
            push_element(&mut ownership, Some(token.as_bytes()));
            push_element(&mut ownership, Some(owners));
        }
        values.push(ownership);
    }
    Described { columns: specs.into(), rows: vec![row(values.iter().map(Vec::as_slice))] }
}

#[cfg(test)]
mod tests;
