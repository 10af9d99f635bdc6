//! The matrix of statements, resources and grants: which statement a role may run that has one permission on one
//! resource, itself or by other roles.
//!
//! 1. A role is made for every permission on every resource of a list, and a role that has that one by another.
//! 2. Each of them logs in and sends every statement. All statements leave what they are about as it is.
//! 3. What counts is whether the answer is "unauthorized", and with which text.
//!
//! `access/matrix.txt` has a paragraph for every statement: its text, the texts of its denials (the role is `*`), and
//! a line for roles with the permission itself and for those that have it by others: a letter for each grant, in the
//! order of [`grants`], `y` where the statement is allowed, or else the number of the text of the denial.

use crate::play::{login, run};
use model::access::{Permission, Resource};
use server::client::{CallError, Client, QueryOptions};
use std::fmt::Write;
use std::net::SocketAddr;

const UNAUTHORIZED: u16 = 0x2100;
/// A hash of `p` that is quick to check.
const HASH: &str = "$2a$04$Lkf5RLXxYb/8gZ7EGm0YX.Sm2zaKObtrKnyesw8GrMCMxpjkB/dWe";

/// Statements; those after `execute` are prepared first.
const STATEMENTS: &[&str] = &[
    "SELECT * FROM k.t",
    "SELECT v FROM k.t WHERE v = 1",
    "SELECT JSON * FROM k.t WHERE k = 1",
    "SELECT count(*) FROM k2.t",
    "execute SELECT * FROM k.t WHERE k = 1",
    "INSERT INTO k.t (k, v) VALUES (1, 1)",
    "INSERT INTO k.t JSON '{\"k\": 1}'",
    "execute UPDATE k.t SET v = 1 WHERE k = 1",
    "DELETE FROM k.t WHERE k = 2",
    "INSERT INTO k.t (k) VALUES (1) IF NOT EXISTS",
    "UPDATE k.t SET v = 1 WHERE k = 1 IF v = 7",
    "BEGIN BATCH INSERT INTO k.t (k) VALUES (1); INSERT INTO k2.t (k) VALUES (1); APPLY BATCH",
    "TRUNCATE k2.t",
    "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "ALTER KEYSPACE k WITH durable_writes = true",
    "DROP KEYSPACE IF EXISTS k3",
    "CREATE TABLE IF NOT EXISTS k.t (k int PRIMARY KEY)",
    "ALTER TABLE k.t RENAME nope TO nope2",
    "DROP TABLE IF EXISTS k.nope",
    "CREATE TYPE IF NOT EXISTS k.ty (a int)",
    "ALTER TYPE k.ty RENAME nope TO nope2",
    "DROP TYPE IF EXISTS k.nope",
    "CREATE INDEX IF NOT EXISTS i ON k.t (v)",
    "CREATE ROLE IF NOT EXISTS victim",
    "CREATE ROLE IF NOT EXISTS victim WITH SUPERUSER = true",
    "ALTER ROLE victim WITH LOGIN = false",
    "ALTER ROLE victim WITH SUPERUSER = false",
    "DROP ROLE IF EXISTS nope",
    "GRANT victim TO victim",
    "REVOKE other FROM victim",
    "GRANT SELECT ON k.t TO victim",
    "REVOKE MODIFY ON KEYSPACE k FROM victim",
    "GRANT DESCRIBE ON ROLE other TO victim",
    "LIST ROLES OF victim",
    "LIST ALL PERMISSIONS OF victim",
    "LIST ALL PERMISSIONS",
    "ADD IDENTITY IF NOT EXISTS 'x' TO ROLE victim",
    "DROP IDENTITY IF EXISTS 'nope'",
    "SELECT role FROM system_auth.roles WHERE role = 'a'",
    "SELECT name FROM system_views.settings LIMIT 1",
    "SELECT cluster_name FROM system.local",
    "USE k",
    "DESCRIBE TABLE k.t",
];

/// Every permission on every resource of the list.
pub(crate) fn grants() -> Vec<(Permission, String)> {
    let table = |keyspace: &str| (Resource::Table(keyspace.into(), "t".into()), format!("{keyspace}.t"));
    let resources = [
        (Resource::AllKeyspaces, "ALL KEYSPACES".to_owned()),
        (Resource::Keyspace("k".into()), "KEYSPACE k".into()),
        (Resource::AllTables("k".into()), "ALL TABLES IN KEYSPACE k".into()),
        table("k"),
        (Resource::Keyspace("k2".into()), "KEYSPACE k2".into()),
        table("k2"),
        (Resource::AllRoles, "ALL ROLES".into()),
        (Resource::Role("victim".into()), "ROLE victim".into()),
        (Resource::Role("other".into()), "ROLE other".into()),
        (Resource::AllFunctions, "ALL FUNCTIONS".into()),
        (Resource::AllMbeans, "ALL MBEANS".into()),
    ];
    let of = |(resource, name): (Resource, String)| {
        resource.applicable().iter().map(move |permission| (permission, name.clone())).collect::<Vec<_>>()
    };
    resources.into_iter().flat_map(of).collect()
}

/// How many cells there are.
pub(crate) fn cells() -> usize {
    STATEMENTS.len() * grants().len() * 2
}

/// Asks a server for all cells and returns them as the file has them.
pub(crate) async fn play(address: SocketAddr) -> String {
    let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
    for keyspace in ["k", "k2"] {
        run(&mut root, &format!("DROP KEYSPACE IF EXISTS {keyspace}")).await;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        run(&mut root, &format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}")).await;
        run(&mut root, &format!("CREATE TABLE {keyspace}.t (k int PRIMARY KEY, v int)")).await;
    }
    run(&mut root, "CREATE TYPE k.ty (a int)").await;
    run(&mut root, "CREATE INDEX i ON k.t (v)").await;
    run(&mut root, "CREATE ROLE IF NOT EXISTS victim").await;
    run(&mut root, "CREATE ROLE IF NOT EXISTS other").await;
    let grants = grants();
    for (at, (permission, resource)) in grants.iter().enumerate() {
        for name in [format!("r{at}"), format!("m{at}"), format!("n{at}")] {
            run(&mut root, &format!("CREATE ROLE {name} WITH HASHED PASSWORD = '{HASH}' AND LOGIN = true")).await;
        }
        run(&mut root, &format!("GRANT {permission} ON {resource} TO r{at}")).await;
        run(&mut root, &format!("GRANT r{at} TO m{at}")).await;
        run(&mut root, &format!("GRANT m{at} TO n{at}")).await;
    }
    let mut rows: Vec<(Vec<String>, [String; 2])> = vec![Default::default(); STATEMENTS.len()];
    for (way, prefix) in ["r", "n"].into_iter().enumerate() {
        for at in 0..grants.len() {
            let name = format!("{prefix}{at}");
            let mut client = login(address, &format!("{name} p")).await.unwrap_or_else(|_| panic!("{name} logs in"));
            for (statement, (texts, lines)) in STATEMENTS.iter().zip(&mut rows) {
                lines[way].push(match denial(&mut client, statement).await {
                    None => 'y',
                    Some(text) => {
                        let text = text.replace(&format!("User {name} "), "User * ");
                        let known = texts.iter().position(|known| *known == text).unwrap_or(texts.len());
                        if known == texts.len() {
                            texts.push(text);
                        }
                        char::from_digit(known as u32, 10).expect("few texts")
                    }
                });
            }
        }
    }
    let mut out = String::new();
    for (statement, (texts, lines)) in STATEMENTS.iter().zip(&rows) {
        let _ = writeln!(out, "{statement}");
        for (at, text) in texts.iter().enumerate() {
            let _ = writeln!(out, "{at} {text}");
        }
        for line in lines {
            let _ = writeln!(out, "= {line}");
        }
        out.push('\n');
    }
    out
}

/// The text with which a statement is denied.
async fn denial(client: &mut Client, statement: &str) -> Option<String> {
    let options = QueryOptions::default();
    let result = match statement.strip_prefix("execute ") {
        None => client.query(statement, &options).await,
        Some(statement) => match client.prepare(statement).await {
            Ok(prepared) => client.execute(&prepared, &options).await,
            Err(error) => Err(error),
        },
    };
    match result {
        Err(CallError::Failure { code: UNAUTHORIZED, text, .. }) => Some(text),
        Err(CallError::Broken(error)) => panic!("{statement}: {error}"),
        _ => None,
    }
}
