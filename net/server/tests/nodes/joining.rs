//! Nodes that look for their cluster, and operators who look at them meanwhile.

use super::*;
use server::admin::{ANSWER_TIMEOUT, SIMULATED_PORT};
use server::config::ResurrectionCheck;

fn calm(seed: u64) -> Sim {
    Sim::new(seed, Options { buggify: false, ..Options::default() })
}

fn with_seeds(node: NodeId, seeds: &[NodeId]) -> Config {
    let mut config = config(node);
    config.node.seeds = seeds.iter().map(|seed| at(*seed, 7000)).collect();
    config
}

#[test]
fn a_node_that_joins_answers_operators_and_stops_when_it_is_asked() {
    let mut sim = calm(11);
    // Its seed is down.
    let joining = begin(&mut sim, TWO, 2, with_seeds(TWO, &[ONE]));
    sim.run_until(Duration::from_secs(3), || false);
    run(&mut sim, || async {
        assert_eq!(letters(TWO).await, [format!("UJ {}", Sim::address_of(TWO))]);
        let netstats = tool(TWO, "netstats", &[], &[]).await;
        assert!(netstats.starts_with("Mode: STARTING\n"), "{netstats}");
        let info = tool(TWO, "info", &[], &[]).await;
        for line in ["Native Transport active: false", "Bootstrap state        : NEEDS_BOOTSTRAP"] {
            assert!(info.contains(line), "{info}");
        }
        assert_eq!(tool(TWO, "statusbinary", &[], &[]).await, "not running\n");
    });
    assert!(!joining.serves());
    sim.terminate(TWO);
    assert_eq!(joining.ended(&mut sim), [Exit::Stopped; 2]);
    assert_eq!(sim.tasks(TWO), 0, "nothing is left running");
}

#[test]
fn a_node_without_ranges_is_shown_as_joining() {
    let mut sim = calm(12);
    assert_eq!(start(&mut sim, ONE, 1, config(ONE)), []);
    let mut idle = config(TWO);
    idle.node.join_ring = false;
    assert_eq!(start(&mut sim, TWO, 1, idle), []);
    run(&mut sim, || async {
        let shown = [ONE, TWO].map(|node| Sim::address_of(node).to_string());
        for node in [ONE, TWO] {
            while letters(node).await != [format!("UN {}", shown[0]), format!("UJ {}", shown[1])] {
                runtime::sleep(Duration::from_millis(100)).await;
            }
        }
        let netstats = tool(TWO, "netstats", &[], &[]).await;
        assert!(netstats.starts_with("Mode: JOINING\n"), "{netstats}");
    });
}

/// Waits until these nodes say that they, and no others, are up and normal.
async fn all_normal(nodes: &'static [NodeId]) {
    let expected: Vec<String> = nodes.iter().map(|node| format!("UN {}", Sim::address_of(*node))).collect();
    for node in nodes {
        while letters(*node).await != expected {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[test]
fn seeds_that_start_from_nothing_at_the_same_time_make_one_cluster() {
    for seed in 20..24 {
        let mut sim = calm(seed);
        let both = [ONE, TWO].map(|node| begin(&mut sim, node, 1, with_seeds(node, &[ONE, TWO])));
        until(&mut sim, "both serve", || both.iter().all(Started::serves));
        run(&mut sim, || all_normal(&[ONE, TWO]));
    }
}

#[test]
fn a_node_joins_by_any_seed_that_is_there() {
    let mut sim = calm(30);
    assert_eq!(start(&mut sim, ONE, 1, config(ONE)), []);
    assert_eq!(start(&mut sim, TWO, 1, with_seeds(TWO, &[NodeId(5), ONE])), []);
    run(&mut sim, || async {
        all_normal(&[ONE, TWO]).await;
        let described = tool(TWO, "describecluster", &[], &[]).await;
        assert!(described.contains(&format!("\tLeader: {}\n\tVoters: [", Sim::address_of(ONE))), "{described}");
    });
}

#[test]
fn a_node_waits_for_a_seed_that_does_not_know_its_cluster_yet() {
    let mut sim = calm(31);
    let [three, two] =
        [(THREE, TWO), (TWO, ONE)].map(|(node, seed)| begin(&mut sim, node, 1, with_seeds(node, &[seed])));
    sim.run_until(Duration::from_secs(5), || false);
    assert!(!two.serves() && !three.serves());
    assert_eq!(start(&mut sim, ONE, 1, config(ONE)), []);
    until(&mut sim, "all serve", || two.serves() && three.serves());
    run(&mut sim, || all_normal(&[ONE, TWO, THREE]));
}

#[test]
fn a_node_that_finds_no_seed_says_so() {
    let mut sim = calm(32);
    assert_eq!(start(&mut sim, TWO, 1, with_seeds(TWO, &[ONE])), [Exit::Misconfigured]);
}

#[test]
fn gossip_that_is_switched_on_again_does_not_promise_clients() {
    let mut sim = calm(33);
    let mut silent = config(ONE);
    silent.start_native_transport = false;
    assert_eq!(start(&mut sim, ONE, 1, silent), []);
    run(&mut sim, || async {
        for command in ["disablegossip", "enablegossip"] {
            tool(ONE, command, &[], &[]).await;
            let info = tool(ONE, "gossipinfo", &[], &[]).await;
            let ready = info.lines().find(|line| line.contains("RPC_READY")).expect("it is told");
            assert!(ready.ends_with(":false"), "{command}: {ready}");
        }
    });
}

#[test]
fn a_client_that_does_not_read_its_answer_is_given_up() {
    let mut sim = calm(34);
    let mut many = config(ONE);
    many.node.num_tokens = 1_536;
    assert_eq!(start(&mut sim, ONE, 1, many), []);
    run(&mut sim, || async {
        let ring = Request { command: "ring".into(), options: Default::default(), arguments: Vec::new() };
        let mut silent = Vec::new();
        for _ in 0..admin::CONNECTIONS_MAX {
            let stream = Stream::connect(at(ONE, SIMULATED_PORT), None).await.expect("connected");
            stream.write(|out| out.extend_from_slice(&ring.encode()));
            silent.push(stream);
        }
        runtime::sleep(Duration::from_secs(1)).await;
        let began = runtime::now();
        tool(ONE, "version", &[], &[]).await;
        let waited = runtime::now().since(began);
        assert!((Duration::from_secs(30)..=ANSWER_TIMEOUT).contains(&waited), "{waited:?}");
    });
}

#[test]
fn nodes_of_a_data_centre_reach_each_other_at_the_addresses_told_for_it() {
    let mut sim = calm(35);
    for node in [ONE, TWO] {
        let mut config = config(node);
        (config.internal_address, config.prefers_local) = (Some(Sim::address_of(node)), node == ONE);
        assert_eq!(start(&mut sim, node, 2, config), []);
    }
    run(&mut sim, || async {
        let preferred = "SELECT peer FROM system.peers WHERE peer = '{}' AND preferred_ip = '{}' ALLOW FILTERING";
        let text = preferred.replace("{}", &Sim::address_of(TWO).to_string());
        let mut one = client(ONE).await;
        while query(&mut one, &text).await.rows.is_empty() {
            runtime::sleep(Duration::from_millis(100)).await;
        }
        let told = tool(ONE, "gossipinfo", &[], &[]).await;
        assert!(
            told.contains(&format!(":{}\n", at(TWO, 7000))) && told.contains("INTERNAL_ADDRESS_AND_PORT"),
            "{told}"
        );
        all_normal(&[ONE, TWO]).await;
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}";
        query(&mut one, keyspace).await;
        let none = "SELECT peer FROM system.peers WHERE preferred_ip = '127.0.0.1' ALLOW FILTERING";
        assert!(query(&mut client(TWO).await, none).await.rows.is_empty());
    });
}

#[test]
fn a_node_is_in_another_data_centre_by_the_operators_word_only() {
    let mut sim = calm(36);
    for node in [ONE, TWO] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    let moved = |ignored: bool| {
        let mut config = config(TWO);
        (config.node.data_center, config.node.rack) = ("dc2".into(), "r2".into());
        (config.node.ignore_dc, config.node.ignore_rack) = (ignored, ignored);
        config
    };
    for (ignored, exits) in [(false, &[Exit::Misconfigured][..]), (true, &[]), (false, &[])] {
        sim.kill(TWO);
        assert_eq!(start(&mut sim, TWO, 1, moved(ignored)), exits, "{ignored}");
    }
    run(&mut sim, || async {
        for node in [ONE, TWO] {
            while !tool(node, "status", &[], &[]).await.contains("Datacenter: dc2\n") {
                runtime::sleep(Duration::from_millis(100)).await;
            }
        }
        let text = "SELECT rack FROM system.peers WHERE data_center = 'dc2' AND rack = 'r2' ALLOW FILTERING";
        assert_eq!(query(&mut client(ONE).await, text).await.rows.len(), 1);
    });
}

/// What its neighbours have forgotten to have deleted must not come back with it.
#[test]
fn a_node_that_was_away_for_longer_than_tombstones_are_kept_does_not_start() {
    let mut sim = calm(37);
    let checked = |excluded: &str| {
        let mut config = config(ONE);
        let excluded_tables = [("k".to_owned(), excluded.to_owned())].into();
        config.resurrection_check = Some(ResurrectionCheck { excluded_tables, ..ResurrectionCheck::default() });
        config
    };
    assert_eq!(start(&mut sim, ONE, 1, checked("none")), []);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        query(&mut one, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            .await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY) WITH gc_grace_seconds = 300").await;
        query(&mut one, "CREATE TABLE k.never (a int PRIMARY KEY) WITH gc_grace_seconds = 0").await;
    });
    // It serves for longer than tombstones are kept, and is away for less.
    run(&mut sim, || runtime::sleep(Duration::from_secs(400)));
    sim.crash(ONE);
    run(&mut sim, || runtime::sleep(Duration::from_secs(250)));
    assert_eq!(start(&mut sim, ONE, 1, checked("none")), []);
    sim.crash(ONE);
    run(&mut sim, || runtime::sleep(Duration::from_secs(400)));
    assert_eq!(start(&mut sim, ONE, 1, checked("none")), [Exit::Misconfigured]);
    assert_eq!(start(&mut sim, ONE, 1, checked("t")), [], "the operator says that this table does not matter");
}
