//! What a statement is about, for logs of what clients do: its kind in Cassandra's words, keyspace, and what it names.
//!
//! Texts are parsed again for this, because logs are off most of the time.

use cql::ast::{AccessStatement, Body, Definition, ModifyBody, TableName};

/// What a statement is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatementFacts {
    /// Its kind, a name of Cassandra's `AuditLogEntryType`.
    pub kind: &'static str,
    /// The category of its kind: QUERY, DML, DDL, DCL or OTHER.
    pub category: &'static str,
    /// The keyspace of what it names, or else the session's.
    pub keyspace: Option<String>,
    /// What it names: a table, index, type or resource.
    pub scope: Option<String>,
}

/// What a statement is about that runs in a session with this keyspace; `None` if it cannot be parsed.
pub fn statement_facts(text: &str, session_keyspace: Option<&str>) -> Option<StatementFacts> {
    let of_session = || session_keyspace.map(str::to_owned);
    let facts = |kind, category, keyspace: Option<&String>, scope: Option<&String>| StatementFacts {
        kind,
        category,
        keyspace: keyspace.cloned().or_else(of_session),
        scope: scope.cloned(),
    };
    let named = |kind, category, name: &TableName| facts(kind, category, name.keyspace.as_ref(), Some(&name.name));
    Some(match cql::parse(text).ok()?.body {
        Body::Select(select) => named("SELECT", "QUERY", &select.table),
        Body::Modify(modify) => match modify.kind {
            ModifyBody::Delete { .. } => named("DELETE", "DML", &modify.table),
            _ => named("UPDATE", "DML", &modify.table),
        },
        Body::Batch(_) => facts("BATCH", "DML", None, None),
        Body::Transaction(_) => facts("TRANSACTION", "DML", None, None),
        Body::Use(keyspace) => facts("USE_KEYSPACE", "OTHER", Some(&keyspace), None),
        Body::Truncate { table, .. } => named("TRUNCATE", "DDL", &table),
        Body::Describe { .. } => facts("DESCRIBE", "OTHER", None, None),
        Body::Define(definition) => match &*definition {
            Definition::CreateKeyspace(keyspace) => facts("CREATE_KEYSPACE", "DDL", Some(&keyspace.name), None),
            Definition::AlterKeyspace(keyspace) => facts("ALTER_KEYSPACE", "DDL", Some(&keyspace.name), None),
            Definition::DropKeyspace(keyspace) => facts("DROP_KEYSPACE", "DDL", Some(&keyspace.name), None),
            Definition::CreateTable(table) => named("CREATE_TABLE", "DDL", &table.table),
            Definition::AlterTable(table) => named("ALTER_TABLE", "DDL", &table.table),
            Definition::DropTable(table) => named("DROP_TABLE", "DDL", &table.table),
            Definition::CreateType(of) => named("CREATE_TYPE", "DDL", &of.name),
            Definition::AlterType(of) => named("ALTER_TYPE", "DDL", &of.name),
            Definition::DropType(of) => named("DROP_TYPE", "DDL", &of.name),
            Definition::CreateIndex(index) => {
                facts("CREATE_INDEX", "DDL", index.table.keyspace.as_ref(), index.name.as_ref())
            }
            Definition::DropIndex(index) => named("DROP_INDEX", "DDL", &index.name),
            #[allow(unreachable_patterns, reason = "kinds of definitions that have no name here yet")]
            _ => facts("ALTER_KEYSPACE", "DDL", None, None),
        },
        Body::Access(access) => {
            let about = |kind, resource: &model::access::Resource| {
                let parent = resource.parent().unwrap_or_else(|| resource.clone());
                facts(kind, "DCL", Some(&parent.name()), Some(&resource.name()))
            };
            let plain = |kind| facts(kind, "DCL", None, None);
            match &*access {
                AccessStatement::CreateRole { .. } => plain("CREATE_ROLE"),
                AccessStatement::AlterRole { .. } => plain("ALTER_ROLE"),
                AccessStatement::DropRole { .. } => plain("DROP_ROLE"),
                AccessStatement::GrantRole { .. } => plain("GRANT"),
                AccessStatement::RevokeRole { .. } => plain("REVOKE"),
                AccessStatement::Grant { resource, .. } => about("GRANT", resource),
                AccessStatement::Revoke { resource, .. } => about("REVOKE", resource),
                AccessStatement::ListPermissions { .. } => plain("LIST_PERMISSIONS"),
                AccessStatement::AddIdentity { .. } => plain("CREATE_IDENTITY"),
                AccessStatement::DropIdentity { .. } => plain("DROP_IDENTITY"),
                // LIST USERS is one of these in Cassandra too.
                _ => plain("LIST_ROLES"),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Cassandra's audit log, in a session that uses the keyspace `ks`.
    #[test]
    fn statements_are_named_as_in_cassandras_audit_log() {
        for (text, expected) in [
            (
                "CREATE KEYSPACE k WITH replication={'class':'SimpleStrategy','replication_factor':1}",
                "CREATE_KEYSPACE DDL k ",
            ),
            ("CREATE TABLE k.t (a int primary key, b text)", "CREATE_TABLE DDL k t"),
            ("USE k", "USE_KEYSPACE OTHER k "),
            ("INSERT INTO t (a,b) VALUES (1,'x')", "UPDATE DML ks t"),
            ("UPDATE k.t SET b='y' WHERE a=1", "UPDATE DML k t"),
            ("DELETE FROM t WHERE a=1", "DELETE DML ks t"),
            ("SELECT JSON * FROM k.t", "SELECT QUERY k t"),
            ("BEGIN BATCH INSERT INTO t (a,b) VALUES (1,'x') APPLY BATCH", "BATCH DML ks "),
            ("BEGIN TRANSACTION INSERT INTO t (a,b) VALUES (1,'x'); COMMIT TRANSACTION", "TRANSACTION DML ks "),
            ("CREATE ROLE joe WITH PASSWORD = 'secret' AND LOGIN=true", "CREATE_ROLE DCL ks "),
            ("LIST ROLES", "LIST_ROLES DCL ks "),
            ("LIST USERS", "LIST_ROLES DCL ks "),
            ("GRANT SELECT ON k.t TO joe", "GRANT DCL data/k/* data/k/t"),
            ("REVOKE SELECT ON k.t FROM joe", "REVOKE DCL data/k/* data/k/t"),
            ("DESCRIBE TABLES", "DESCRIBE OTHER ks "),
            ("TRUNCATE k.t", "TRUNCATE DDL k t"),
            ("CREATE INDEX i ON k.t (b)", "CREATE_INDEX DDL k i"),
            ("DROP INDEX k.i", "DROP_INDEX DDL k i"),
            ("CREATE TYPE k.ty (a int)", "CREATE_TYPE DDL k ty"),
            ("ALTER TABLE k.t ADD c int", "ALTER_TABLE DDL k t"),
            ("LIST ALL PERMISSIONS", "LIST_PERMISSIONS DCL ks "),
            ("DROP KEYSPACE k", "DROP_KEYSPACE DDL k "),
        ] {
            let facts = statement_facts(text, Some("ks")).expect(text);
            let shown = |name: &Option<String>| name.clone().unwrap_or_default();
            let (keyspace, scope) = (shown(&facts.keyspace), shown(&facts.scope));
            assert_eq!(format!("{} {} {keyspace} {scope}", facts.kind, facts.category), expected, "{text}");
        }
        assert_eq!(statement_facts("SELEC 1", None), None);
    }
}
