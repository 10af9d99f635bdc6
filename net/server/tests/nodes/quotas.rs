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
            writing.push(Box::pin(write_for(client(node).await, table, 5, Duration::ZERO, limited.clone())));
        }
        let pause = Duration::from_millis(10);
        writing.push(Box::pin(write_for(client(ONE).await, "other.t", 5, pause, other.clone())));
        join_all(writing).await;
        check(&limited.borrow(), 1_400, "two tables of a keyspace");
        let refusal = limited.borrow().refusal.clone().expect("there was more");
        assert_eq!(without_time(&refusal), "Request rate is large.  the keyspace k may use 1400 units a second");
        assert_eq!(other.borrow().refusal, None, "another keyspace is not hindered");
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
