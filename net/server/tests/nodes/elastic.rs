//! Operations on the ring with data: nodes join, leave, die, are replaced and move, and a keyspace gets more replicas.
//! What nodes do under load and while others fail is judged by the crate `sim`.

use super::*;
use model::Consistency;

pub(super) const FOUR: NodeId = NodeId(4);
const FIVE: NodeId = NodeId(5);
const ROWS: i32 = 60;

/// Starts these nodes of one core, and creates and fills a table with so many replicas.
pub(super) fn filled(seed: u64, nodes: &[NodeId], factor: u32) -> Sim {
    filled_as(seed, nodes, factor, config)
}

/// The same with nodes of this configuration.
fn filled_as(seed: u64, nodes: &[NodeId], factor: u32, config_of: fn(NodeId) -> Config) -> Sim {
    let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
    for node in nodes {
        assert_eq!(start(&mut sim, *node, 1, config_of(*node)), []);
    }
    run(&mut sim, move || async move {
        let mut client = client(ONE).await;
        let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}");
        query(&mut client, &format!("CREATE KEYSPACE k WITH replication = {replication}")).await;
        query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        for key in 0..ROWS {
            query(&mut client, &format!("INSERT INTO k.t (a, b) VALUES ({key}, {key})")).await;
        }
    });
    sim
}

/// Which of the rows a node shows at a level; a row that it cannot read is none.
pub(super) async fn shown(node: NodeId, consistency: Consistency) -> Vec<i32> {
    let mut client = client(node).await;
    let mut keys = Vec::new();
    for key in 0..ROWS {
        let options = QueryOptions { consistency, ..QueryOptions::default() };
        let found = client.query(&format!("SELECT b FROM k.t WHERE a = {key}"), &options).await;
        if found.is_ok_and(|outcome| !outcome.rows.is_empty()) {
            keys.push(key);
        }
    }
    keys
}

pub(super) fn all() -> Vec<i32> {
    (0..ROWS).collect()
}

/// The keys of which a node is a replica.
async fn owned(node: NodeId) -> Vec<i32> {
    let mut keys = Vec::new();
    for key in 0..ROWS {
        let endpoints = tool(ONE, "getendpoints", &[], &["k", "t", &key.to_string()]).await;
        if endpoints.lines().any(|line| line == Sim::address_of(node).to_string()) {
            keys.push(key);
        }
    }
    keys
}

/// Waits until a node says that these, and no others, are up and normal.
pub(super) async fn normal(through: NodeId, nodes: &[NodeId]) {
    let expected: Vec<String> = nodes.iter().map(|node| format!("UN {}", Sim::address_of(*node))).collect();
    while letters(through).await != expected {
        runtime::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until a node takes another one for dead.
pub(super) async fn down(through: NodeId, dead: NodeId) {
    let expected = ["DN", "DL"].map(|letters| format!("{letters} {}", Sim::address_of(dead)));
    while !letters(through).await.iter().any(|row| expected.contains(row)) {
        runtime::sleep(Duration::from_millis(500)).await;
    }
}

pub(super) fn replacing(node: NodeId, dead: NodeId) -> Config {
    let address = Sim::address_of(node);
    let options = [
        format!("listen_address={address}"),
        format!("rpc_address={address}"),
        format!("replace_address_first_boot={}", Sim::address_of(dead)),
    ];
    let read = Config::read("", &options).expect("options that exist");
    let mut config = config(node);
    config.node.replace_address = read.node.replace_address;
    config
}

#[test]
fn a_node_that_joins_has_its_data_and_the_others_may_remove_it() {
    let mut sim = filled(40, &[ONE, TWO], 1);
    assert_eq!(start(&mut sim, THREE, 2, config(THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        for node in [ONE, TWO] {
            tool(node, "cleanup", &[], &[]).await;
        }
        assert_eq!(shown(THREE, Consistency::One).await, all());
    });
    // What it shows without the others is what it has itself.
    sim.kill(ONE);
    sim.kill(TWO);
    let own = Rc::new(RefCell::new(Vec::new()));
    let seen = own.clone();
    run(&mut sim, move || {
        let seen = seen.clone();
        async move { *seen.borrow_mut() = shown(THREE, Consistency::One).await }
    });
    let own = own.borrow().clone();
    assert!(own.len() > 3, "{own:?}");
    for node in [ONE, TWO] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, move || {
        let own = own.clone();
        async move { assert_eq!(owned(THREE).await, own) }
    });
}

#[test]
fn a_node_that_leaves_gives_its_only_replicas_to_the_others() {
    let mut sim = filled(41, &[ONE, TWO, THREE], 1);
    run(&mut sim, || async {
        assert!(!owned(THREE).await.is_empty());
        // By force: a keyspace of the system wants three nodes.
        tool(THREE, "decommission", &["-f"], &[]).await;
    });
    sim.crash(THREE);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO]).await;
        assert_eq!(shown(ONE, Consistency::One).await, all());
    });
}

#[test]
fn what_a_dead_node_had_is_made_again_when_it_is_removed() {
    let mut sim = filled(42, &[ONE, TWO, THREE], 2);
    sim.crash(THREE);
    run(&mut sim, || async {
        down(ONE, THREE).await;
        assert!(shown(ONE, Consistency::All).await.len() < ROWS as usize);
        let status = tool(ONE, "status", &[], &[]).await;
        let row = status.lines().find(|line| line.starts_with("DN")).expect("the dead node");
        let host_id = row.split_whitespace().rev().nth(1).expect("a host id").to_owned();
        tool(ONE, "removenode", &[], &[&host_id]).await;
        assert_eq!(shown(ONE, Consistency::All).await, all());
        normal(TWO, &[ONE, TWO]).await;
    });
}

#[test]
fn a_node_that_dies_when_it_has_almost_left_can_be_removed() {
    for step in ["operation switched", "operation settled"] {
        let mut sim = filled(48, &[ONE, TWO, THREE], 1);
        sim.forget_reached();
        let asking = NodeId(8);
        sim.start_node(asking, 1, |_| async {
            let request = Request {
                command: "decommission".into(),
                options: [("-f".to_owned(), String::new())].into(),
                arguments: Vec::new(),
            };
            let _ = admin::ask(Sim::address_of(THREE), &request).await;
        });
        while !sim.reached().contains(step) {
            assert!(sim.step());
        }
        sim.crash(THREE);
        run(&mut sim, || async {
            down(ONE, THREE).await;
            let status = tool(ONE, "status", &[], &[]).await;
            let row = status.lines().find(|line| line.starts_with('D') && !line.starts_with("Data")).expect("it");
            let host_id = row.split_whitespace().rev().nth(1).expect("a host id").to_owned();
            tool(ONE, "removenode", &[], &[&host_id]).await;
            normal(ONE, &[ONE, TWO]).await;
            normal(TWO, &[ONE, TWO]).await;
            assert_eq!(shown(ONE, Consistency::All).await, all());
        });
    }
}

#[test]
fn a_wiped_node_does_not_come_back_but_as_its_own_replacement() {
    let mut sim = filled(43, &[ONE, TWO, THREE], 2);
    sim.crash(THREE);
    sim.wipe(THREE);
    run(&mut sim, || down(ONE, THREE));
    // As if nothing had happened.
    assert_eq!(start(&mut sim, THREE, 1, config(THREE)), [Exit::Misconfigured]);
    assert_eq!(start(&mut sim, THREE, 1, replacing(THREE, THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        assert_eq!(shown(THREE, Consistency::All).await, all());
    });
    // It has everything itself: at RF 2 its ranges survive the other nodes.
    sim.crash(TWO);
    run(&mut sim, || async {
        let kept = owned(THREE).await;
        let shown = shown(THREE, Consistency::One).await;
        assert!(kept.iter().all(|key| shown.contains(key)), "{kept:?} {shown:?}");
    });
}

#[test]
fn a_dead_node_is_replaced_at_another_address() {
    let mut sim = filled(44, &[ONE, TWO, THREE], 2);
    sim.crash(THREE);
    run(&mut sim, || down(ONE, THREE));
    assert_eq!(start(&mut sim, FOUR, 1, replacing(FOUR, THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, FOUR]).await;
        assert_eq!(shown(FOUR, Consistency::All).await, all());
    });
    // The old one hears that it is none any more.
    assert_eq!(start(&mut sim, THREE, 1, config(THREE)), [Exit::Misconfigured]);
}

#[test]
fn a_keyspace_that_gets_more_replicas_fills_them_by_itself() {
    let mut sim = filled(45, &[ONE, TWO, THREE], 1);
    run(&mut sim, || async {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
        query(&mut client(ONE).await, &format!("ALTER KEYSPACE k WITH replication = {replication}")).await;
        // No reader sees a hole meanwhile.
        while owned(THREE).await != all() {
            assert_eq!(shown(TWO, Consistency::One).await, all());
        }
        assert_eq!(shown(TWO, Consistency::One).await, all());
    });
    sim.crash(ONE);
    sim.crash(TWO);
    run(&mut sim, || async { assert_eq!(shown(THREE, Consistency::One).await, all()) });
}

/// A write that two of three replicas have acknowledged may be on the two that are none any more.
#[test]
fn d8_nothing_is_lost_when_a_keyspace_gets_fewer_replicas() {
    let mut sim = filled(49, &[ONE, TWO, THREE], 3);
    // What the third node misses, and gets no hints of.
    sim.crash(THREE);
    run(&mut sim, || async {
        down(ONE, THREE).await;
        for node in [ONE, TWO] {
            tool(node, "disablehandoff", &[], &[]).await;
        }
        let mut client = client(ONE).await;
        let options = QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() };
        for key in 0..ROWS {
            let text = format!("UPDATE k.t SET b = {} WHERE a = {key}", key + 1000);
            client.query(&text, &options).await.expect("two of three");
        }
    });
    assert_eq!(start(&mut sim, THREE, 1, config(THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        normal(THREE, &[ONE, TWO, THREE]).await;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        query(&mut client(ONE).await, &format!("ALTER KEYSPACE k WITH replication = {replication}")).await;
        while owned(ONE).await.len() + owned(TWO).await.len() + owned(THREE).await.len() > ROWS as usize {
            runtime::sleep(Duration::from_millis(100)).await;
        }
        assert!(owned(THREE).await.len() > 3);
        let mut client = client(TWO).await;
        let options = QueryOptions { consistency: Consistency::One, ..QueryOptions::default() };
        for key in 0..ROWS {
            let found = client.query(&format!("SELECT b FROM k.t WHERE a = {key}"), &options).await.expect("read");
            assert_eq!(found.rows[0][0].as_deref(), Some(&(key + 1000).to_be_bytes()[..]), "{key}");
        }
    });
}

#[test]
fn d8_writes_go_on_while_a_keyspace_gets_replicas_on_a_node_that_is_down() {
    let mut sim = filled(50, &[ONE, TWO, THREE], 1);
    sim.crash(THREE);
    run(&mut sim, || async {
        down(ONE, THREE).await;
        let kept: Vec<i32> = owned(ONE).await.into_iter().chain(owned(TWO).await).collect();
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
        query(&mut client(ONE).await, &format!("ALTER KEYSPACE k WITH replication = {replication}")).await;
        let mut client = client(TWO).await;
        let options = QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() };
        for key in &kept {
            let text = format!("UPDATE k.t SET b = {} WHERE a = {key}", key + 1000);
            client.query(&text, &options).await.expect("the only replica, and two of three to be");
        }
        assert!(kept.len() > 10 && kept.len() < ROWS as usize);
    });
    // It comes back, fetches what it gains, and the change ends.
    assert_eq!(start(&mut sim, THREE, 1, config(THREE)), []);
    run(&mut sim, || async {
        while owned(THREE).await != all() {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
    sim.crash(ONE);
    run(&mut sim, || async { assert_eq!(shown(TWO, Consistency::Quorum).await, all()) });
}

/// The state of the acceptors: without it a decision that has reached too few replicas could be made otherwise.
#[test]
fn d2_the_state_of_conditional_changes_moves_with_the_data() {
    let mut sim = filled(51, &[ONE, TWO], 1);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        for key in 0..ROWS {
            query(&mut client, &format!("UPDATE k.t SET b = {} WHERE a = {key} IF b = {key}", key + 1000)).await;
        }
    });
    assert_eq!(start(&mut sim, THREE, 2, config(THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        let mut client = client(THREE).await;
        let found = client.query("SELECT row_key FROM system.paxos", &QueryOptions::default()).await.expect("read");
        let of_row = |row: &Vec<Option<Vec<u8>>>| {
            let key = row[0].as_deref().and_then(|key| key.try_into().ok()).expect("a key");
            i32::from_be_bytes(key)
        };
        let states: Vec<i32> = found.rows.iter().map(of_row).collect();
        let own = owned(THREE).await;
        assert!(own.len() > 3 && own.iter().all(|key| states.contains(key)), "{own:?} {states:?}");
        // The next decision goes on from there.
        query(&mut client, &format!("UPDATE k.t SET b = 1 WHERE a = {} IF b = {}", own[0], own[0] + 1000)).await;
    });
}

/// Asks for a command on a node of its own, which goes on while the test looks. Its exit code and errors come in the
/// end.
pub(super) fn ask_beside(
    sim: &mut Sim,
    node: NodeId,
    command: &str,
    arguments: &[&str],
) -> Rc<RefCell<Option<(u8, String)>>> {
    let request = Request {
        command: command.to_owned(),
        options: [("-f".to_owned(), String::new())].into(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    };
    let answer = Rc::<RefCell<Option<(u8, String)>>>::default();
    let kept = answer.clone();
    sim.start_node(NodeId(8), 1, move |_| {
        let (request, kept) = (request.clone(), kept.clone());
        async move {
            if let Ok(answer) = admin::ask(Sim::address_of(node), &request).await {
                *kept.borrow_mut() = Some((answer.exit, answer.err));
            }
        }
    });
    answer
}

/// The host ids of nodes by their addresses, as a node shows them.
pub(super) async fn host_id(through: NodeId, node: NodeId) -> String {
    let status = tool(through, "status", &[], &[]).await;
    let address = format!(" {} ", Sim::address_of(node));
    let row = status.lines().find(|line| line.contains(&address)).expect("a row of the node");
    row.split_whitespace().rev().nth(1).expect("a host id").to_owned()
}

/// Neither can fetch what it would gain by the removal of the other.
#[test]
fn two_nodes_that_are_dead_are_removed_together() {
    let mut sim = filled(52, &[ONE, TWO, THREE, FOUR, FIVE], 3);
    sim.crash(THREE);
    sim.crash(FOUR);
    let ids = Rc::new(RefCell::new(Vec::new()));
    let seen = ids.clone();
    run(&mut sim, move || {
        let seen = seen.clone();
        async move {
            down(ONE, THREE).await;
            down(ONE, FOUR).await;
            down(TWO, FOUR).await;
            down(FIVE, THREE).await;
            *seen.borrow_mut() = vec![host_id(ONE, THREE).await, host_id(ONE, FOUR).await];
        }
    });
    let ids = ids.borrow().clone();
    let first = ask_beside(&mut sim, ONE, "removenode", &[&ids[0]]);
    let second = ids[1].clone();
    run(&mut sim, move || {
        let second = second.clone();
        async move {
            while tool(ONE, "removenode", &[], &["status"]).await.contains("No token removals") {
                runtime::sleep(Duration::from_millis(10)).await;
            }
            tool(ONE, "removenode", &[], &[&second]).await;
            normal(ONE, &[ONE, TWO, FIVE]).await;
            normal(FIVE, &[ONE, TWO, FIVE]).await;
            assert_eq!(shown(ONE, Consistency::All).await, all());
        }
    });
    until(&mut sim, "the first is answered too", || first.borrow().is_some());
    assert_eq!(*first.borrow(), Some((0, String::new())));
}

#[test]
fn a_node_that_was_killed_while_it_left_leaves_and_serves_no_clients_then() {
    let mut sim = filled(53, &[ONE, TWO, THREE], 1);
    sim.forget_reached();
    ask_beside(&mut sim, THREE, "decommission", &[]);
    while !sim.reached().contains("operation begun") {
        assert!(sim.step());
    }
    sim.crash(THREE);
    let began = begin(&mut sim, THREE, 1, config(THREE));
    until(&mut sim, "it serves or has left", || began.serves() || !began.exits.borrow().is_empty());
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO]).await;
        assert_eq!(shown(ONE, Consistency::One).await, all());
        while Client::connect(at(THREE, 9042), None, 4).await.is_ok() {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn a_node_that_moves_takes_its_data_along() {
    let mut sim = Sim::new(46, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO] {
        let mut single = config(node);
        single.node.num_tokens = 1;
        assert_eq!(start(&mut sim, node, 1, single), []);
    }
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        query(&mut client, &format!("CREATE KEYSPACE k WITH replication = {replication}")).await;
        query(&mut client, "CREATE TABLE k.t (a int PRIMARY KEY, b int)").await;
        for key in 0..ROWS {
            query(&mut client, &format!("INSERT INTO k.t (a, b) VALUES ({key}, {key})")).await;
        }
        for token in ["-9000000000000000000", "17", "9000000000000000000"] {
            tool(TWO, "move", &[], &[token]).await;
            assert_eq!(shown(ONE, Consistency::One).await, all(), "{token}");
            let ring = tool(ONE, "ring", &[], &[]).await;
            assert!(ring.contains(token), "{ring}");
            for node in [ONE, TWO] {
                tool(node, "cleanup", &[], &[]).await;
            }
        }
        assert_eq!(shown(TWO, Consistency::One).await, all());
    });
}

#[test]
fn a_node_without_auto_bootstrap_has_nothing_until_it_is_rebuilt() {
    let mut sim = filled(47, &[ONE, TWO], 2);
    let mut empty = config(THREE);
    empty.node.auto_bootstrap = false;
    assert_eq!(start(&mut sim, THREE, 1, empty), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        let own = owned(THREE).await;
        let shown_at_one = shown(THREE, Consistency::One).await;
        assert!(!own.is_empty() && own.iter().any(|key| !shown_at_one.contains(key)), "{own:?} {shown_at_one:?}");
        tool(THREE, "rebuild", &[], &[]).await;
        assert_eq!(shown(THREE, Consistency::One).await, all());
    });
}

/// Deletes all rows on all of their replicas, and lets these forget that.
async fn delete_and_purge(through: NodeId, nodes: &[NodeId]) {
    let mut client = client(through).await;
    query(&mut client, "ALTER TABLE k.t WITH gc_grace_seconds = 0").await;
    for key in 0..ROWS {
        let options = QueryOptions { consistency: Consistency::All, ..QueryOptions::default() };
        client.query(&format!("DELETE FROM k.t WHERE a = {key}"), &options).await.expect("all replicas are there");
    }
    // Tombstones are purged when they are a second old.
    runtime::sleep(Duration::from_secs(2)).await;
    for node in nodes {
        tool(*node, "flush", &[], &[]).await;
        tool(*node, "compact", &[], &["k"]).await;
    }
}

#[test]
fn p7_what_was_deleted_stays_so_when_a_node_gets_a_range_back() {
    let mut sim = filled(54, &[ONE, TWO], 1);
    assert_eq!(start(&mut sim, THREE, 2, config(THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        assert!(!owned(THREE).await.is_empty());
        delete_and_purge(ONE, &[ONE, TWO, THREE]).await;
        tool(THREE, "decommission", &["-f"], &[]).await;
        for node in [ONE, TWO] {
            assert_eq!(shown(node, Consistency::One).await, [0; 0], "{node:?}");
        }
    });
}

#[test]
fn p7_what_was_deleted_stays_so_when_a_keyspace_gets_its_replicas_back() {
    let mut sim = filled(55, &[ONE, TWO], 2);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        for factor in [1, 2] {
            let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}");
            query(&mut client, &format!("ALTER KEYSPACE k WITH replication = {replication}")).await;
            if factor == 1 {
                delete_and_purge(ONE, &[ONE, TWO]).await;
            }
        }
        let deadline = runtime::now().after(Duration::from_secs(60));
        let reads_two = async || tool(ONE, "getendpoints", &[], &["k", "t", "1"]).await.lines().count() == 2;
        while !reads_two().await {
            assert!(runtime::now() < deadline, "two replicas");
            runtime::sleep(Duration::from_millis(100)).await;
        }
        for node in [ONE, TWO] {
            assert_eq!(shown(node, Consistency::One).await, [0; 0], "{node:?}");
        }
        assert_eq!(shown(ONE, Consistency::All).await, [0; 0]);
    });
}

#[test]
fn a_node_that_is_told_so_removes_what_it_has_lost_by_itself() {
    let config_of = |node| {
        let mut config = config(node);
        config.node.auto_cleanup = true;
        config
    };
    let mut sim = filled_as(56, &[ONE, TWO], 1, config_of);
    run(&mut sim, || async {
        for node in [ONE, TWO] {
            tool(node, "flush", &[], &[]).await;
        }
    });
    assert_eq!(start(&mut sim, THREE, 2, config_of(THREE)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE]).await;
        let deadline = runtime::now().after(Duration::from_secs(60));
        for node in [ONE, TWO] {
            while !tool(node, "compactionhistory", &[], &[]).await.contains("compaction_type:Cleanup") {
                assert!(runtime::now() < deadline, "{node:?} has lost something and cleans itself");
                runtime::sleep(Duration::from_millis(100)).await;
            }
        }
        assert_eq!(shown(ONE, Consistency::One).await, all());
        let history = tool(THREE, "compactionhistory", &[], &[]).await;
        assert!(!history.contains("compaction_type:Cleanup"), "a node that has lost nothing leaves its SSTables alone");
    });
}
