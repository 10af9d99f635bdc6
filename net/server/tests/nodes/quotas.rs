//! Quotas of keyspaces and roles, through several nodes at once.

use super::*;
use runtime::sync::join_all;
use server::client::CallError;
use shard::Authenticator;

/// Writes of a table with two replicas cost 3.5 units.
const WRITE_HUNDREDTHS: u64 = 350;
const REFUSED: u16 = 0x1001;
/// How long a client leaves the node alone that has refused its request, virtual time: the pace of its load.
const PAUSE_WHEN_REFUSED: Duration = Duration::from_millis(3);

/// What clients have done together: the writes of each second, and the text of the last refusal.
#[derive(Debug, Default)]
struct Tally {
    done: Vec<u64>,
    refusal: Option<String>,
}

/// Writes to keys of a table through one connection for so many seconds, with a pause between two writes. All times are
/// virtual: pauses are the pace of the load, nothing is waited for.
async fn write_for(
    mut client: Client,
    table: &'static str,
    seconds: usize,
    pause: Duration,
    tally: Rc<RefCell<Tally>>,
) {
    let began = runtime::now();
    tally.borrow_mut().done.resize(seconds, 0);
    for key in 0.. {
        let at = runtime::now().since(began).as_secs() as usize;
        if at >= seconds {
            return;
        }
        let text = format!("INSERT INTO {table} (a, b) VALUES ({}, 'x')", key % 1000);
        match client.query(&text, &QueryOptions::default()).await {
            Ok(_) => tally.borrow_mut().done[at] += 1,
            Err(CallError::Failure { code: REFUSED, text, .. }) => {
                tally.borrow_mut().refusal = Some(text);
                runtime::sleep(PAUSE_WHEN_REFUSED).await;
            }
            Err(other) => panic!("{other:?}"),
        }
        if !pause.is_zero() {
            runtime::sleep(pause).await;
        }
    }
}

/// Every second after the first has the units, within 5% and a write of each coordinating core.
fn check(tally: &Tally, units: u64, what: &str) {
    let writes = units * 100 / WRITE_HUNDREDTHS;
    let margin = writes / 20 + 4;
    for (second, count) in tally.done.iter().enumerate().skip(1) {
        assert!((writes - margin..=writes + margin).contains(count), "{what}, second {second}: {:?}", tally.done);
    }
}

/// A text without the time after which trying again may help.
fn without_time(text: &str) -> String {
    let (before, after) = text.split_once("RetryAfterMs=").expect("a time");
    let (millis, rest) = after.split_once(',').expect("a number");
    assert!(millis.parse::<u32>().is_ok_and(|millis| (1..=1_000).contains(&millis)), "{text}");
    format!("{before}{rest}")
}

fn three_nodes(seed: u64, config: impl Fn(NodeId) -> Config) -> Sim {
    let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
    for (node, shards) in [(ONE, 1), (TWO, 2), (THREE, 1)] {
        assert_eq!(start(&mut sim, node, shards, config(node)), []);
    }
    sim
}

/// What is shown of the quota of a keyspace or role by a node: the writes that it was charged, and the refusals.
async fn shown(client: &mut Client, keyspace: &str, role: &str) -> Option<(i64, i64)> {
    let text = format!(
        "SELECT writes, refused FROM system_views.throughput WHERE keyspace_name = '{keyspace}' AND table_name = '' AND role = '{role}'"
    );
    let row = query(client, &text).await.rows.pop()?;
    Some((bigint(&row, 0), bigint(&row, 1)))
}

/// Whether some node tells that a quota is nearly used up.
async fn is_told(mut clients: [Client; 3], kind: &str, subject: &str) -> bool {
    let text = "SELECT kind, subject FROM system_views.alerts WHERE key = 'local'";
    for client in &mut clients {
        let wanted = [Some(kind.as_bytes().to_vec()), Some(subject.as_bytes().to_vec())];
        if query(client, text).await.rows.contains(&wanted.to_vec()) {
            return true;
        }
    }
    false
}

const REPLICATION: &str = "replication = {'class': 'SimpleStrategy', 'replication_factor': 2}";

#[test]
fn a_keyspace_gets_its_quota_through_all_nodes_together() {
    let mut sim = three_nodes(71, config);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, &format!("CREATE KEYSPACE k WITH {REPLICATION} AND quota = {{'units_per_second': 1400}}"))
            .await;
        query(&mut one, &format!("CREATE KEYSPACE other WITH {REPLICATION}")).await;
        for table in ["k.t", "k.u", "other.t"] {
            query(&mut one, &format!("CREATE TABLE {table} (a int PRIMARY KEY, b text)")).await;
        }
        let limited = Rc::<RefCell<Tally>>::default();
        let other = Rc::<RefCell<Tally>>::default();
        let mut writing = Vec::new();
        // Two tables, and more through some nodes than through others.
        for (node, table) in [(ONE, "k.t"), (ONE, "k.u"), (ONE, "k.t"), (TWO, "k.t"), (TWO, "k.u"), (THREE, "k.u")] {
            // Longer than the five seconds over which keepers look at what is used.
            writing.push(Box::pin(write_for(client(node).await, table, 7, Duration::ZERO, limited.clone())));
        }
        let pause = Duration::from_millis(10);
        writing.push(Box::pin(write_for(client(ONE).await, "other.t", 5, pause, other.clone())));
        join_all(writing).await;
        check(&limited.borrow(), 1_400, "two tables of a keyspace");
        let refusal = limited.borrow().refusal.clone().expect("there was more");
        assert_eq!(without_time(&refusal), "Request rate is large.  the keyspace k may use 1400 units a second");
        assert_eq!(other.borrow().refusal, None, "another keyspace is not hindered");
        let (writes, refused) = shown(&mut one, "k", "").await.expect("a row");
        assert!(writes > 100 && refused > 0, "{writes} {refused}");
        assert_eq!(shown(&mut one, "other", "").await, None);
        assert!(
            is_told([client(ONE).await, client(TWO).await, client(THREE).await], "keyspace_quota", "the keyspace")
                .await
        );
        assert!(other.borrow().done.iter().all(|count| *count > 40), "{:?}", other.borrow().done);

        query(&mut one, "ALTER KEYSPACE k WITH quota = {'units_per_second': 700}").await;
        let limited = Rc::<RefCell<Tally>>::default();
        let nodes = [ONE, TWO, THREE];
        let mut writing = Vec::new();
        for node in nodes {
            writing.push(Box::pin(write_for(client(node).await, "k.t", 4, Duration::ZERO, limited.clone())));
        }
        join_all(writing).await;
        check(&limited.borrow(), 700, "less than before");

        query(&mut one, "ALTER KEYSPACE k WITH quota = {}").await;
        let free = Rc::<RefCell<Tally>>::default();
        write_for(client(TWO).await, "k.t", 2, Duration::from_millis(1), free.clone()).await;
        assert_eq!(free.borrow().refusal, None, "there is no quota any more");
    });
}

/// A node where clients log in.
fn with_logins(node: NodeId) -> Config {
    let mut config = config(node);
    config.node.access.authenticator = Authenticator::Password;
    config.node.access.authorizes = true;
    config.node.access.default_superuser = true;
    config
}

async fn logged_in(node: NodeId, role: &str) -> Client {
    Client::connect_as(at(node, 9042), 5, role, role).await.expect("a login")
}

#[test]
fn a_role_gets_its_quota_through_all_nodes_together() {
    let mut sim = three_nodes(72, with_logins);
    run(&mut sim, || async {
        let mut root = logged_in(ONE, "cassandra").await;
        query(&mut root, &format!("CREATE KEYSPACE k WITH {REPLICATION}")).await;
        query(&mut root, &format!("CREATE KEYSPACE j WITH {REPLICATION}")).await;
        // It has one too, which refuses nothing.
        query(&mut root, "ALTER KEYSPACE k WITH quota = {'units_per_second': 1000000}").await;
        for table in ["k.t", "j.t"] {
            query(&mut root, &format!("CREATE TABLE {table} (a int PRIMARY KEY, b text)")).await;
        }
        query(
            &mut root,
            "CREATE ROLE tenant WITH PASSWORD = 'tenant' AND LOGIN = true AND OPTIONS = {'units_per_second': 1400}",
        )
        .await;
        // What a role is granted to does not inherit its quota.
        query(&mut root, "CREATE ROLE app WITH PASSWORD = 'app' AND LOGIN = true").await;
        query(&mut root, "GRANT tenant TO app").await;
        for keyspace in ["k", "j"] {
            query(&mut root, &format!("GRANT MODIFY ON KEYSPACE {keyspace} TO tenant")).await;
        }
        let limited = Rc::<RefCell<Tally>>::default();
        let other = Rc::<RefCell<Tally>>::default();
        let mut writing = Vec::new();
        for (node, table) in [(ONE, "k.t"), (ONE, "j.t"), (ONE, "k.t"), (TWO, "k.t"), (TWO, "j.t"), (THREE, "j.t")] {
            let client = logged_in(node, "tenant").await;
            writing.push(Box::pin(write_for(client, table, 5, Duration::ZERO, limited.clone())));
        }
        let pause = Duration::from_millis(10);
        writing.push(Box::pin(write_for(logged_in(ONE, "app").await, "k.t", 5, pause, other.clone())));
        join_all(writing).await;
        check(&limited.borrow(), 1_400, "two keyspaces of a role");
        let refusal = limited.borrow().refusal.clone().expect("there was more");
        assert_eq!(without_time(&refusal), "Request rate is large.  the role tenant may use 1400 units a second");
        assert_eq!(other.borrow().refusal, None, "another role is not hindered");
        let (writes, refused) = shown(&mut root, "system_auth", "tenant").await.expect("a row");
        assert!(writes > 100 && refused > 0, "{writes} {refused}");
        let (writes, refused) = shown(&mut root, "k", "").await.expect("a row");
        assert!(writes > 100 && refused == 0, "what the role refuses is not the keyspace's: {writes} {refused}");
        let root_of = |node| logged_in(node, "cassandra");
        let roots = [root_of(ONE).await, root_of(TWO).await, root_of(THREE).await];
        assert!(is_told(roots, "role_quota", "the role tenant").await);
        assert!(other.borrow().done.iter().all(|count| *count > 40), "{:?}", other.borrow().done);

        // A change counts on connections that are open, within a second.
        let limited = Rc::<RefCell<Tally>>::default();
        let mut writing = Vec::new();
        for node in [ONE, TWO, THREE] {
            let client = logged_in(node, "tenant").await;
            writing.push(Box::pin(write_for(client, "k.t", 4, Duration::ZERO, limited.clone())));
        }
        query(&mut root, "ALTER ROLE tenant WITH OPTIONS = {'units_per_second': 700}").await;
        join_all(writing).await;
        check(&limited.borrow(), 700, "less than before");
        let shown = query(&mut root, "LIST ROLES OF tenant").await.rows;
        let options = b"\0\0\0\x01\0\0\0\x10units_per_second\0\0\0\x03700";
        assert_eq!(shown[0][3].as_deref(), Some(&options[..]));

        query(&mut root, "ALTER ROLE tenant WITH OPTIONS = {}").await;
        let free = Rc::<RefCell<Tally>>::default();
        write_for(logged_in(TWO, "tenant").await, "k.t", 2, Duration::from_millis(1), free.clone()).await;
        assert_eq!(free.borrow().refusal, None, "there is no quota any more");
    });
}

/// Writes by so many clients of each node at the same time; what they have done together.
async fn at_once(nodes: &[NodeId], clients: usize, role: &str) -> Rc<RefCell<Tally>> {
    let tally = Rc::<RefCell<Tally>>::default();
    let mut writing = Vec::new();
    for node in nodes {
        for _ in 0..clients {
            writing.push(Box::pin(write_for(logged_in(*node, role).await, "k.t", 2, Duration::ZERO, tally.clone())));
        }
    }
    join_all(writing).await;
    tally
}

#[test]
fn so_many_requests_run_at_once_on_a_node() {
    let mut sim = three_nodes(73, with_logins);
    run(&mut sim, || async {
        let mut root = logged_in(ONE, "cassandra").await;
        query(&mut root, &format!("CREATE KEYSPACE k WITH {REPLICATION}")).await;
        query(&mut root, "CREATE TABLE k.t (a int PRIMARY KEY, b text)").await;
        for role in ["tenant", "app"] {
            query(&mut root, &format!("CREATE ROLE {role} WITH PASSWORD = '{role}' AND LOGIN = true")).await;
            query(&mut root, &format!("GRANT MODIFY ON KEYSPACE k TO {role}")).await;
        }
        query(&mut root, "ALTER ROLE tenant WITH OPTIONS = {'requests_at_once': 2}").await;
        let all = [ONE, TWO, THREE];
        let within = at_once(&all, 2, "tenant").await;
        assert_eq!(within.borrow().refusal, None, "two on each node, whatever their cores");
        let alone = within.borrow().done.iter().sum::<u64>();
        let beyond = at_once(&[TWO], 5, "tenant").await;
        let refusal = beyond.borrow().refusal.clone().expect("three are too many");
        assert_eq!(without_time(&refusal), "Too many requests.  the role tenant may have 2 at once on a node");
        assert!(beyond.borrow().done.iter().sum::<u64>() > alone / 6, "two of them are let in: {beyond:?} of {alone}");
        assert_eq!(at_once(&[TWO], 5, "app").await.borrow().refusal, None, "another role is not hindered");

        query(&mut root, "ALTER ROLE tenant WITH OPTIONS = {}").await;
        query(&mut root, "ALTER KEYSPACE k WITH quota = {'requests_at_once': 3}").await;
        assert_eq!(at_once(&[TWO], 3, "app").await.borrow().refusal, None);
        let beyond = at_once(&[TWO], 6, "app").await;
        let refusal = beyond.borrow().refusal.clone().expect("three are too many");
        assert_eq!(without_time(&refusal), "Too many requests.  the keyspace k may have 3 at once on a node");
        query(&mut root, "ALTER KEYSPACE k WITH quota = {'requests_at_once': 6}").await;
        assert_eq!(at_once(&[TWO], 6, "app").await.borrow().refusal, None, "all were taken off that had ended");
    });
}

/// The error of a statement; `None` if it succeeds.
async fn error_of(client: &mut Client, text: &str) -> Option<String> {
    match client.query(text, &QueryOptions::default()).await {
        Ok(_) => None,
        Err(CallError::Failure { code, text, .. }) => Some(format!("{code:04x} {text}")),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_keyspace_that_stores_its_quota_takes_deletions_alone() {
    const LIMIT: usize = 200 << 10;
    let mut sim = three_nodes(74, config);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        for (keyspace, quota) in [("k", " AND quota = {'bytes_stored': '200KiB'}"), ("other", "")] {
            query(&mut one, &format!("CREATE KEYSPACE {keyspace} WITH {REPLICATION}{quota}")).await;
            query(&mut one, &format!("CREATE TABLE {keyspace}.t (a int PRIMARY KEY, b text)")).await;
        }
        let value = "x".repeat(2 << 10);
        let insert = |key: usize| format!("INSERT INTO k.t (a, b) VALUES ({key}, '{value}')");
        let mut clients = [client(ONE).await, client(TWO).await, client(THREE).await];
        // A write every 20 ms, so that the nodes measure while they come.
        let deadline = runtime::now().after(Duration::from_secs(120));
        let mut key = 0;
        let refusal = loop {
            assert!(runtime::now() < deadline, "nothing was refused");
            runtime::sleep(Duration::from_millis(20)).await;
            key += 1;
            if let Some(refusal) = error_of(&mut clients[key % 3], &insert(key)).await {
                break refusal;
            }
        };
        let text = ", and its quota allows 204800: only deletions are possible";
        assert!(refusal.starts_with("2200 The keyspace k stores ") && refusal.ends_with(text), "{refusal}");
        // What is told is the bytes of one replica, of several seconds before.
        assert!((LIMIT / value.len()..1_000).contains(&key), "{key} rows of {} bytes", value.len());
        assert!(is_told(clients, "keyspace_quota", "the keyspace").await);
        let batch = "BEGIN BATCH INSERT INTO other.t (a) VALUES (1); INSERT INTO k.t (a) VALUES (1); APPLY BATCH";
        for refused in ["UPDATE k.t SET b = 'y' WHERE a = 1", "INSERT INTO k.t (a) VALUES (1) IF NOT EXISTS", batch] {
            assert!(error_of(&mut one, refused).await.is_some_and(|error| error.ends_with(text)), "{refused}");
        }
        for taken in [
            "DELETE FROM k.t WHERE a = 1",
            "DELETE b FROM k.t WHERE a = 2",
            "SELECT * FROM k.t WHERE a = 3",
            "INSERT INTO other.t (a, b) VALUES (1, 'x')",
            "TRUNCATE k.t",
        ] {
            assert_eq!(error_of(&mut one, taken).await, None, "{taken}");
        }
        let deadline = runtime::now().after(Duration::from_secs(60));
        while error_of(&mut one, &insert(key)).await.is_some() {
            assert!(runtime::now() < deadline, "there is room again");
            runtime::sleep(Duration::from_millis(100)).await;
            key += 1;
        }
        query(&mut one, "ALTER KEYSPACE k WITH quota = {'bytes_stored': 1}").await;
        let deadline = runtime::now().after(Duration::from_secs(60));
        while error_of(&mut one, &insert(key)).await.is_none() {
            assert!(runtime::now() < deadline, "another quota");
            runtime::sleep(Duration::from_millis(100)).await;
        }
        query(&mut one, "ALTER KEYSPACE k WITH quota = {}").await;
        assert_eq!(error_of(&mut one, &insert(key)).await, None, "there is no quota any more");
    });
}
