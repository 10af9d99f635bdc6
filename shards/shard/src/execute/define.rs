//! DDL and TRUNCATE, on shard 0, one at a time.
//!
//! CREATE and DROP:
//! 1. Check the statement against the schema of this moment.
//! 2. Write the new `schema_version`, then the rows of `system_schema` (one mutation); both are durable.
//! 3. Every shard serves the new schema and confirms; events go out.
//! 4. DROP only: cut the table's data on every shard, record the cut, let the shards forget the table.
//!
//! TRUNCATE: cut on every shard, record the cut durably, let the log segments go that nothing else needs.
//!
//! Invariants: a crash between the steps leaves the change whole or undone (a new version without a change is harmless);
//! timestamps strictly increase, also over restarts; once started a change runs to its end, whether or not the client
//! waits; a table made WITH ID never shows rows of an earlier table of that id.

use crate::schema::cells::read_partition;
use crate::schema::local::{self, LOCAL_KEY, Stored};
use crate::schema::rows;
use crate::verbs::{Reply, Request};
use crate::{ChangeKind, ChangeTarget, SchemaChange, Shard};
use cql::plan::Define;
use engine::store::{LogPosition, Truncation};
use model::failure::{Detail, Outcome};
use model::schema::SYSTEM_KEYSPACES;
use model::{ErrorCode, Failure, Keyspace, Mutation, Schema, Table, TableId};
use std::sync::Arc;
use uuid::Uuid;

/// Most keyspaces, those of the system too.
pub(crate) const KEYSPACES_MAX: usize = 1_000;
/// Most tables, those of the system too.
pub(crate) const TABLES_MAX: usize = 10_000;

/// Runs one DDL statement; `None`: nothing changed. Returns when every shard serves the new schema.
pub(crate) async fn define(shard: &Shard, define: Define) -> Result<Option<SchemaChange>, Failure> {
    let shard = shard.clone();
    runtime::spawn(async move { Definition::begin(&shard).await?.define(define).await }).await
}

/// Empties a table on every shard and records it.
pub(crate) async fn truncate(shard: &Shard, table: TableId) -> Result<(), Failure> {
    let shard = shard.clone();
    runtime::spawn(async move { Definition::begin(&shard).await?.truncate(table).await }).await
}

/// The client warnings of a DDL statement that took effect.
pub(crate) fn warnings(define: &Define, data_center: &str) -> Vec<String> {
    let Define::CreateKeyspace { keyspace, .. } = define else { return Vec::new() };
    let options = &keyspace.replication.options;
    let (factor, place) = if keyspace.replication.class.ends_with("NetworkTopologyStrategy") {
        let factor = options.get(data_center).or_else(|| options.get("replication_factor"));
        (factor, format!(" for datacenter {data_center}"))
    } else {
        (options.get("replication_factor"), String::new())
    };
    match factor.and_then(|factor| factor.split('/').next()?.trim().parse::<u32>().ok()) {
        Some(factor) if factor > 1 => vec![format!(
            "Your replication factor {factor} for keyspace {} is higher than the number of nodes 1{place}",
            keyspace.name
        )],
        _ => Vec::new(),
    }
}

/// A change of the schema while it holds the right to make one.
struct Definition<'s> {
    shard: &'s Shard,
    schema: Arc<Schema>,
    stored: Stored,
    now_micros: i64,
    _permit: runtime::gate::Permit,
}

impl<'s> Definition<'s> {
    async fn begin(shard: &'s Shard) -> Result<Definition<'s>, Failure> {
        let permit = shard.definitions().acquire(1).await;
        let schema = shard.schema();
        let table = rows::system_table(&schema, "system", "local");
        let local = read_partition(shard.store(), table, LOCAL_KEY.as_bytes()).await;
        let stored = local.and_then(|rows| Stored::load(&schema, &rows));
        let stored = stored.map_err(|error| Failure::server(error.to_string()))?;
        Ok(Definition { shard, schema, stored, now_micros: runtime::wall_micros(), _permit: permit })
    }

    /// Above that of every change before; microseconds.
    fn timestamp(&self) -> i64 {
        self.now_micros.max(self.stored.last_timestamp.saturating_add(1))
    }

    fn now_in_seconds(&self) -> i64 {
        self.now_micros.div_euclid(1_000_000)
    }

    async fn define(&self, define: Define) -> Result<Option<SchemaChange>, Failure> {
        let new_id = TableId(crate::schema::random_uuid().into_bytes());
        let Some(effect) = check(&self.schema, define, &self.shard.config().data_center, new_id)? else {
            return Ok(None);
        };
        let timestamp = self.timestamp();
        let version = crate::schema::random_uuid();
        let after = Arc::new(effect.schema_after(&self.schema, version));

        if let Effect::CreateTable { table, with_id: true } = &effect {
            self.forget_earlier(table.id, timestamp).await?;
        }
        self.apply(local::schema_version_changed(&self.schema, version, timestamp)).await?;
        if let Err(failure) = self.apply(effect.mutation(&self.schema, timestamp, self.now_in_seconds())).await {
            if failure.outcome == Outcome::NotApplied {
                self.apply(local::schema_version_changed(&self.schema, self.schema.version, timestamp + 1)).await?;
            }
            return Err(failure);
        }
        self.sync().await?;

        let change = effect.change();
        self.switch(&after, Some(&change), &[]).await?;
        let dropped = effect.dropped();
        if !dropped.is_empty() {
            // The drop itself is done: what fails here costs space until the next start, nothing else.
            if let Err(failure) = self.cut(&dropped, timestamp).await {
                tracing::warn!(%failure, "data of a dropped table stays in the log");
            }
            self.switch(&after, None, &dropped).await?;
            self.release(&dropped).await;
        }
        Ok(Some(change))
    }

    async fn truncate(&self, table: TableId) -> Result<(), Failure> {
        let description = self.schema.table_by_id(table);
        let description = description.ok_or_else(|| Failure::invalid("table does not exist"))?;
        refuse_system(&description.keyspace, || format!("Cannot MODIFY <table {}>", description.full_name()))?;
        self.cut(&[table], self.timestamp()).await.map_err(Failure::unknown)?;
        self.release(&[table]).await;
        Ok(())
    }

    /// Empties tables on every shard and records from where on their log records count again.
    async fn cut(&self, tables: &[TableId], timestamp: i64) -> Result<(), Failure> {
        let mut records = Vec::new();
        for &table in tables {
            let replies = self.shard.call_all(|| Request::TruncateLocal(table)).await;
            let positions: Result<Vec<LogPosition>, Failure> = replies.into_iter().map(Reply::truncated).collect();
            let truncation = Truncation {
                counter_floor: self.shard.store().counter_floor(),
                positions: positions?,
                at_millis: self.now_micros.div_euclid(1_000),
            };
            records.push((table, truncation));
        }
        self.apply(local::truncated(&self.schema, &records, timestamp)).await?;
        self.sync().await
    }

    /// Before a table is made WITH ID: log records of that id from before this process are not its. Those of this
    /// process were cut when the table was dropped.
    async fn forget_earlier(&self, table: TableId, timestamp: i64) -> Result<(), Failure> {
        let counter_floor = self.shard.store().counter_floor();
        let cut = |(id, truncation): &(TableId, Truncation)| *id == table && truncation.counter_floor >= counter_floor;
        if self.stored.truncations.iter().any(cut) {
            return Ok(());
        }
        let at_millis = self.now_micros.div_euclid(1_000);
        let truncation = Truncation { counter_floor, positions: Vec::new(), at_millis };
        self.apply(local::truncated(&self.schema, &[(table, truncation)], timestamp)).await
    }

    async fn switch(
        &self,
        schema: &Arc<Schema>,
        change: Option<&SchemaChange>,
        dropped: &[TableId],
    ) -> Result<(), Failure> {
        let request =
            || Request::SwitchSchema { schema: schema.clone(), change: change.cloned(), dropped: dropped.to_vec() };
        let replies = self.shard.call_all(request).await;
        replies.into_iter().try_for_each(Reply::done).map_err(Failure::unknown)
    }

    async fn apply(&self, mutation: Mutation) -> Result<(), Failure> {
        self.shard.store().apply(mutation, true).await.map_err(store_failure)
    }

    /// Durable in every commit log mode.
    async fn sync(&self) -> Result<(), Failure> {
        self.shard.store().sync().await.map_err(|error| store_failure(error).unknown())
    }

    async fn release(&self, tables: &[TableId]) {
        for &table in tables {
            for reply in self.shard.call_all(|| Request::Release(table)).await {
                if let Err(failure) = reply.done() {
                    tracing::warn!(%failure, %table, "log segments stay");
                }
            }
        }
    }
}

fn store_failure(error: engine::Error) -> Failure {
    let failure = Failure::server(error.to_string());
    if matches!(error, engine::Error::LogFailed(_)) { failure.unknown() } else { failure }
}

/// A DDL statement that changes something, checked.
#[derive(Clone, PartialEq, Debug)]
enum Effect {
    CreateKeyspace(Arc<Keyspace>),
    DropKeyspace(Arc<Keyspace>),
    CreateTable { table: Arc<Table>, with_id: bool },
    DropTable(Arc<Table>),
}

/// What `define` does to `schema`; `None`: nothing. `new_id` is for a table made without an id.
fn check(schema: &Schema, define: Define, data_center: &str, new_id: TableId) -> Result<Option<Effect>, Failure> {
    match define {
        Define::CreateKeyspace { mut keyspace, if_not_exists } => {
            let name = &keyspace.name;
            if matches!(name.as_str(), "system" | "system_schema") {
                return Err(Failure::invalid(format!("System keyspace '{name}' is not user-modifiable")));
            }
            if schema.keyspace(name).is_some() {
                let text = format!("Cannot add existing keyspace \"{name}\"");
                return exists(if_not_exists, text, &keyspace.name, "");
            }
            if schema.keyspaces.len() >= KEYSPACES_MAX {
                return Err(Failure::invalid(format!("Cannot have more than {KEYSPACES_MAX} keyspaces")));
            }
            place_in_data_centers(&mut keyspace, data_center)?;
            Ok(Some(Effect::CreateKeyspace(Arc::new(keyspace))))
        }
        Define::DropKeyspace { name, if_exists } => {
            refuse_system(&name, || format!("Cannot DROP <keyspace {name}>"))?;
            match schema.keyspace(&name) {
                Some(keyspace) => Ok(Some(Effect::DropKeyspace(keyspace.clone()))),
                None if if_exists => Ok(None),
                None => Err(no_keyspace(&name)),
            }
        }
        Define::CreateTable { mut table, id, if_not_exists } => {
            refuse_system(&table.keyspace, || format!("Cannot CREATE <all tables in {}>", table.keyspace))?;
            let keyspace = schema.keyspace(&table.keyspace).ok_or_else(|| no_keyspace(&table.keyspace))?;
            let (name, keyspace_name) = (&table.name, &table.keyspace);
            if keyspace.tables.contains_key(name) {
                let text = format!("Cannot add already existing table \"{name}\" to keyspace \"{keyspace_name}\"");
                return exists(if_not_exists, text, keyspace_name, name);
            }
            if schema.tables.len() >= TABLES_MAX {
                return Err(Failure::invalid(format!("Cannot have more than {TABLES_MAX} tables")));
            }
            table.id = id.unwrap_or(new_id);
            if let Some(other) = schema.table_by_id(table.id) {
                return Err(Failure::invalid(format!("Table id {} is in use by {}", table.id, other.full_name())));
            }
            // As stored by Cassandra: what is the default is null.
            table.options.cdc = table.options.cdc.filter(|&cdc| cdc);
            table.options.memtable = table.options.memtable.filter(|memtable| memtable != "default");
            Ok(Some(Effect::CreateTable { table: Arc::new(table), with_id: id.is_some() }))
        }
        Define::DropTable { keyspace, name, if_exists } => {
            refuse_system(&keyspace, || format!("Cannot DROP <table {keyspace}.{name}>"))?;
            match schema.table(&keyspace, &name) {
                Some(table) => Ok(Some(Effect::DropTable(table.clone()))),
                None if if_exists => Ok(None),
                None => Err(Failure::invalid(format!("Table '{keyspace}.{name}' doesn't exist"))),
            }
        }
    }
}

/// Nobody changes the keyspaces that keep the schema itself; to the others there is a permission, which nobody has.
fn refuse_system(keyspace: &str, no_permission: impl FnOnce() -> String) -> Result<(), Failure> {
    match keyspace {
        "system" | "system_schema" => {
            let text = format!("{keyspace} keyspace is not user-modifiable.");
            Err(Failure::new(ErrorCode::Unauthorized, text))
        }
        other if SYSTEM_KEYSPACES.contains(&other) => Err(Failure::new(ErrorCode::Unauthorized, no_permission())),
        _ => Ok(()),
    }
}

fn no_keyspace(name: &str) -> Failure {
    Failure::invalid(format!("Keyspace '{name}' doesn't exist"))
}

fn exists(tolerated: bool, text: String, keyspace: &str, table: &str) -> Result<Option<Effect>, Failure> {
    if tolerated {
        return Ok(None);
    }
    let detail = Detail::AlreadyExists { keyspace: keyspace.to_string(), table: table.to_string() };
    Err(Failure::new(ErrorCode::AlreadyExists, text).with(detail))
}

/// Gives a NetworkTopologyStrategy its factor per data centre, as it is stored: `replication_factor` stands for every
/// centre that is not named, a factor of 0 for none.
fn place_in_data_centers(keyspace: &mut Keyspace, data_center: &str) -> Result<(), Failure> {
    if !keyspace.replication.class.ends_with("NetworkTopologyStrategy") {
        return Ok(());
    }
    let options = &mut keyspace.replication.options;
    let for_all = options.remove("replication_factor");
    if let Some(unknown) = options.keys().rev().find(|name| *name != data_center) {
        return Err(Failure::config(format!(
            "Unrecognized strategy option {{{unknown}}} passed to NetworkTopologyStrategy for keyspace {}",
            keyspace.name
        )));
    }
    if !options.contains_key(data_center) {
        options.insert(data_center.to_string(), for_all.unwrap_or_else(|| "1".to_string()));
    }
    options.retain(|_, factor| factor.parse() != Ok(0));
    if options.is_empty() {
        return Err(Failure::config("Configuration for at least one datacenter must be present"));
    }
    Ok(())
}

impl Effect {
    fn schema_after(&self, before: &Schema, version: Uuid) -> Schema {
        let mut after = before.clone();
        after.version = version;
        let with_tables = |name: &str, edit: &dyn Fn(&mut Keyspace)| {
            let mut keyspace = Keyspace::clone(&before.keyspaces[name]);
            edit(&mut keyspace);
            Arc::new(keyspace)
        };
        match self {
            Effect::CreateKeyspace(keyspace) => after.put_keyspace(keyspace.clone()),
            Effect::DropKeyspace(keyspace) => after.drop_keyspace(&keyspace.name),
            Effect::CreateTable { table, .. } => after.put_keyspace(with_tables(&table.keyspace, &|keyspace| {
                keyspace.tables.insert(table.name.clone(), table.clone());
            })),
            Effect::DropTable(table) => after.put_keyspace(with_tables(&table.keyspace, &|keyspace| {
                keyspace.tables.remove(&table.name);
            })),
        }
        after
    }

    /// The change in `system_schema`.
    fn mutation(&self, schema: &Schema, timestamp: i64, now_in_seconds: i64) -> Mutation {
        match self {
            Effect::CreateKeyspace(keyspace) => rows::keyspace_created(schema, keyspace, timestamp),
            Effect::DropKeyspace(keyspace) => rows::keyspace_dropped(schema, &keyspace.name, timestamp, now_in_seconds),
            Effect::CreateTable { table, .. } => rows::table_created(schema, table, timestamp),
            Effect::DropTable(table) => rows::table_dropped(schema, table, timestamp, now_in_seconds),
        }
    }

    fn dropped(&self) -> Vec<TableId> {
        match self {
            Effect::DropKeyspace(keyspace) => keyspace.tables.values().map(|table| table.id).collect(),
            Effect::DropTable(table) => vec![table.id],
            Effect::CreateKeyspace(_) | Effect::CreateTable { .. } => Vec::new(),
        }
    }

    fn change(&self) -> SchemaChange {
        let (change, target, keyspace, name) = match self {
            Effect::CreateKeyspace(keyspace) => (ChangeKind::Created, ChangeTarget::Keyspace, &keyspace.name, ""),
            Effect::DropKeyspace(keyspace) => (ChangeKind::Dropped, ChangeTarget::Keyspace, &keyspace.name, ""),
            Effect::CreateTable { table, .. } => {
                (ChangeKind::Created, ChangeTarget::Table, &table.keyspace, table.name.as_str())
            }
            Effect::DropTable(table) => {
                (ChangeKind::Dropped, ChangeTarget::Table, &table.keyspace, table.name.as_str())
            }
        };
        SchemaChange { change, target, keyspace: keyspace.clone(), name: name.to_string() }
    }
}

#[cfg(test)]
#[path = "define_tests.rs"]
mod tests;
