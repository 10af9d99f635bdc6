//! What holds on open connections and on other nodes when roles change, and that passwords are not shown.

use crate::node::with_configured_nodes;
use crate::play::{login, run};
use runtime::NodeId;
use runtime::sim::Sim;
use server::client::{CallError, Client, QueryOptions};
use std::net::SocketAddr;
use std::time::Duration;

/// More than the time that has to pass between two changes of a password, Cassandra's.
const BETWEEN_PASSWORDS: Duration = Duration::from_secs(6);
/// How long a failed login counts for its address.
const FAILURES_COUNT_FOR: Duration = Duration::from_secs(10);
/// How long a change may take to be known everywhere.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

fn options() -> Vec<String> {
    ["authenticator=PasswordAuthenticator", "authorizer=CassandraAuthorizer"].map(str::to_owned).to_vec()
}

async fn told(client: &mut Client, text: &str) -> String {
    match client.query(text, &QueryOptions::default()).await {
        Ok(_) => "done".into(),
        Err(CallError::Failure { text, .. }) => text,
        Err(CallError::Broken(error)) => panic!("{text}: {error}"),
    }
}

async fn table(root: &mut Client) {
    run(root, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").await;
    run(root, "CREATE TABLE k.t (k int PRIMARY KEY)").await;
    run(root, "CREATE ROLE a WITH PASSWORD = 'pa' AND LOGIN = true").await;
    run(root, "GRANT SELECT ON k.t TO a").await;
}

/// A change through one node counts for connections to another one, and to all of its cores: open ones and new ones.
#[test]
fn changes_count_on_open_connections_of_other_nodes() {
    with_configured_nodes(&options(), &[2, 2], |address| async move {
        let other = SocketAddr::new(Sim::address_of(NodeId(1)), address.port());
        let mut root = login(other, "cassandra cassandra").await.expect("the default superuser");
        table(&mut root).await;
        let mut clients = Vec::new();
        for at in [address, address, other, other] {
            clients.push(login(at, "a pa").await.expect("logs in"));
        }
        const READ: &str = "SELECT * FROM k.t";
        for (change, expected) in [
            ("REVOKE SELECT ON k.t FROM a", "User a has no SELECT permission on <table k.t> or any of its parents"),
            ("GRANT SELECT ON KEYSPACE k TO a", "done"),
            ("ALTER ROLE a WITH LOGIN = false", "a is not permitted to log in"),
            ("ALTER ROLE a WITH LOGIN = true", "done"),
            ("ALTER ROLE a WITH PASSWORD = 'new'", "The password of a has changed since this connection has logged in"),
            ("DROP ROLE a", "Role a doesn't exist"),
        ] {
            runtime::sleep(BETWEEN_PASSWORDS).await;
            for client in &mut clients {
                told(client, READ).await;
            }
            run(&mut root, change).await;
            runtime::sleep(KNOWN_WITHIN).await;
            for client in &mut clients {
                assert_eq!(told(client, READ).await, expected, "{change}");
            }
            if change.contains("PASSWORD") {
                // Every core of both has known the former one by now.
                for at in [address, address, other, other] {
                    assert!(login(at, "a pa").await.is_err(), "the former password");
                    assert!(login(at, "a new").await.is_ok(), "the new one");
                }
            }
        }
    });
}

/// The connection that changes the password of its role need not log in again.
#[test]
fn whoever_changes_the_own_password_goes_on() {
    with_configured_nodes(&options(), &[1], |address| async move {
        let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
        table(&mut root).await;
        runtime::sleep(BETWEEN_PASSWORDS).await;
        let mut client = login(address, "a pa").await.expect("logs in");
        assert_eq!(told(&mut client, "ALTER ROLE a WITH PASSWORD = 'new'").await, "done");
        assert_eq!(told(&mut client, "SELECT * FROM k.t").await, "done");
        assert!(login(address, "a pa").await.is_err(), "the former password");
        assert!(login(address, "a new").await.is_ok(), "the new one");
        let again = told(&mut client, "ALTER ROLE a WITH PASSWORD = 'newer'").await;
        assert_eq!(again, "Password for role a can only be changed every 5000ms.");
    });
}

/// The rights on a table end with it, and the creator of the next one of its name has them.
#[test]
fn rights_end_with_what_they_are_about() {
    with_configured_nodes(&options(), &[1], |address| async move {
        let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
        table(&mut root).await;
        let mut client = login(address, "a pa").await.expect("logs in");
        run(&mut root, "DROP TABLE k.t").await;
        run(&mut root, "CREATE TABLE k.t (k int PRIMARY KEY)").await;
        assert!(told(&mut client, "SELECT * FROM k.t").await.contains("no SELECT permission"));
        run(&mut root, "GRANT CREATE ON KEYSPACE k TO a").await;
        assert_eq!(told(&mut client, "CREATE TABLE k.own (k int PRIMARY KEY)").await, "done");
        assert_eq!(told(&mut client, "INSERT INTO k.own (k) VALUES (1)").await, "done");
        assert_eq!(told(&mut client, "DROP TABLE k.own").await, "done");
    });
}

/// The most failures of an address are checked, one more is refused at once, also with the right password.
#[test]
fn failed_logins_of_an_address_are_bounded() {
    with_configured_nodes(&options(), &[1], |address| async move {
        const FAILURES_MAX: usize = 20;
        let text = |error| match error {
            Err(CallError::Failure { code: 0x0100, text, .. }) => text,
            Err(error) => panic!("{error:?}"),
            Ok(_) => "logged in".to_owned(),
        };
        for at in 0..FAILURES_MAX {
            let name = if at % 2 == 0 { "cassandra" } else { "nobody" };
            let expected = format!("Provided username {name} and/or password are incorrect");
            assert_eq!(text(login(address, &format!("{name} wrong")).await), expected);
        }
        let refused = "Too many failed logins from this address, try again later";
        assert_eq!(text(login(address, "cassandra cassandra").await), refused);
        runtime::sleep(FAILURES_COUNT_FOR).await;
        assert_eq!(text(login(address, "cassandra cassandra").await), "logged in");
    });
}

/// Neither tables nor traces show a password.
#[test]
fn passwords_are_not_shown() {
    with_configured_nodes(&options(), &[1], |address| async move {
        let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
        let text = "CREATE ROLE b WITH PASSWORD = 'geheim' AND LOGIN = true";
        let prepared = root.prepare(text).await.expect("prepared");
        root.execute(&prepared, &QueryOptions::default()).await.expect("runs");
        assert!(login(address, "b geheim").await.is_ok());
        for table in
            ["system.prepared_statements", "system_traces.sessions", "system_views.queries", "system_auth.roles"]
        {
            let found = root.query(&format!("SELECT * FROM {table}"), &QueryOptions::default()).await.expect(table);
            let shows =
                |cell: &Option<Vec<u8>>| cell.as_ref().is_some_and(|cell| cell.windows(6).any(|w| w == b"geheim"));
            assert!(!found.rows.iter().flatten().any(shows), "{table}");
        }
    });
}

/// A transaction needs SELECT for what it reads, MODIFY for what it changes, and UNMASK for masked values that it uses.
#[test]
fn a_transaction_needs_what_its_statements_need() {
    const READ: &str =
        "BEGIN TRANSACTION LET a = (SELECT v FROM k.m WHERE p = 1 AND c = 1); SELECT a.v; COMMIT TRANSACTION";
    const ADD: &str = "BEGIN TRANSACTION UPDATE k.m SET v += 1 WHERE p = 1 AND c = 1; COMMIT TRANSACTION";
    const BOTH: &str = "BEGIN TRANSACTION LET a = (SELECT v FROM k.m WHERE p = 1 AND c = 1); IF a.v > 0 THEN \
                        DELETE FROM k.m WHERE p = 1 AND c = 1; END IF COMMIT TRANSACTION";
    const HIDDEN: &str = "BEGIN TRANSACTION LET a = (SELECT * FROM k.m WHERE p = 1 AND c = 1); IF a.h = 'x' THEN \
                          DELETE FROM k.m WHERE p = 1 AND c = 1; END IF COMMIT TRANSACTION";
    const NO_SELECT: &str = "User a has no SELECT permission on <table k.m> or any of its parents";
    const NO_MODIFY: &str = "User a has no MODIFY permission on <table k.m> or any of its parents";
    const NO_UNMASK: &str =
        "User a has no UNMASK permission on table k.m, cannot reference masked columns [h] in a transaction";
    let mut options = options();
    options.push("dynamic_data_masking_enabled=true".to_owned());
    with_configured_nodes(&options, &[2], |address| async move {
        let mut root = login(address, "cassandra cassandra").await.expect("the default superuser");
        run(&mut root, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            .await;
        run(&mut root, "CREATE TABLE k.m (p int, c int, v int, h text MASKED WITH DEFAULT, PRIMARY KEY (p, c))").await;
        run(&mut root, "INSERT INTO k.m (p, c, v, h) VALUES (1, 1, 0, 'x')").await;
        run(&mut root, "CREATE ROLE a WITH PASSWORD = 'pa' AND LOGIN = true").await;
        let mut client = login(address, "a pa").await.expect("logs in");
        for (grant, expected) in [
            ("LIST ROLES", [NO_SELECT, NO_MODIFY, NO_SELECT, NO_SELECT]),
            ("GRANT SELECT ON k.m TO a", ["done", NO_MODIFY, NO_MODIFY, NO_MODIFY]),
            ("GRANT MODIFY ON k.m TO a", ["done", "done", "done", NO_UNMASK]),
            ("REVOKE SELECT ON k.m FROM a", [NO_SELECT, "done", NO_SELECT, NO_SELECT]),
        ] {
            run(&mut root, grant).await;
            runtime::sleep(KNOWN_WITHIN).await;
            for (text, expected) in [READ, ADD, BOTH, HIDDEN].into_iter().zip(expected) {
                assert_eq!(told(&mut client, text).await, expected, "{grant}: {text}");
            }
        }
        run(&mut root, "GRANT SELECT ON k.m TO a").await;
        run(&mut root, "INSERT INTO k.m (p, c, v, h) VALUES (1, 2, 0, 'x')").await;
        runtime::sleep(KNOWN_WITHIN).await;
        // What a SELECT of a transaction shows is masked as that of any other.
        const SHOW: &str = "BEGIN TRANSACTION SELECT h FROM k.m WHERE p = 1 AND c = 2; COMMIT TRANSACTION";
        for (unmask, shown) in [(None, "****"), (Some("GRANT UNMASK ON k.m TO a"), "x")] {
            if let Some(unmask) = unmask {
                run(&mut root, unmask).await;
                runtime::sleep(KNOWN_WITHIN).await;
            }
            let outcome = client.query(SHOW, &QueryOptions::default()).await.expect("it is answered");
            assert_eq!(outcome.rows, [[Some(shown.as_bytes().to_vec())]]);
        }
        assert_eq!(told(&mut client, HIDDEN).await, "done");
    });
}
