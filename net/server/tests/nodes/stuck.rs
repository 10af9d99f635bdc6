//! Operations on the ring that wait for a dead node, and how its removal makes way.

use super::elastic::{FOUR, all, ask_beside, down, filled, host_id, normal, shown};
use super::failures::voters;
use super::*;
use model::{Consistency, RingToken};

/// What the first needs had its only replica on the other, so it waits, and the other's removal waits for its turn.
#[test]
fn a_node_that_joins_lets_the_removal_of_a_dead_one_go_first() {
    let mut sim = filled(55, &[ONE, TWO, THREE], 1);
    sim.crash(TWO);
    run(&mut sim, || down(ONE, TWO));
    let joining = begin(&mut sim, FOUR, 1, config(FOUR));
    run(&mut sim, || async {
        let joins = format!("UJ {}", Sim::address_of(FOUR));
        while !letters(ONE).await.contains(&joins) {
            runtime::sleep(Duration::from_millis(100)).await;
        }
        // It does not end by itself.
        runtime::sleep(Duration::from_secs(20)).await;
        assert!(letters(ONE).await.contains(&joins));
        let dead = host_id(ONE, TWO).await;
        tool(ONE, "removenode", &[], &[&dead]).await;
        normal(ONE, &[ONE, THREE, FOUR]).await;
    });
    until(&mut sim, "it serves", || joining.serves());
}

/// Lets THREE leave, whose ranges TWO, which has died, is to get. Returns what the command answers at last.
fn leaves_for_a_dead_node(sim: &mut Sim) -> Rc<RefCell<Option<(u8, String)>>> {
    sim.crash(TWO);
    run(sim, || async {
        down(ONE, TWO).await;
        down(THREE, TWO).await;
    });
    let leaves = ask_beside(sim, THREE, "decommission", &[]);
    run(sim, || async {
        let leaving = format!("UL {}", Sim::address_of(THREE));
        while !letters(ONE).await.contains(&leaving) {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
    leaves
}

#[test]
fn what_cannot_end_is_aborted_by_the_operator() {
    let mut sim = filled(54, &[ONE, TWO, THREE, FOUR], 1);
    let leaves = leaves_for_a_dead_node(&mut sim);
    run(&mut sim, || async {
        // It does not end by itself.
        runtime::sleep(Duration::from_secs(20)).await;
        let refused = async |command: &str, options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let request = Request { command: command.to_owned(), options, arguments: Vec::new() };
            let answer = admin::ask(Sim::address_of(ONE), &request).await.expect("it is answered");
            assert_ne!(answer.exit, 0, "{command}");
            format!("{}{}", answer.out, answer.err)
        };
        let id = host_id(ONE, THREE).await;
        let told = refused("abortmove", &[("--node", &id)]).await;
        assert!(told.contains(&format!("Can't abort move for node {id} since the state is LEAVING")), "{told}");
        let told = refused("abortbootstrap", &[("--node", &id)]).await;
        assert!(told.contains(&format!("Can't abort bootstrap for {id} - it is alive")), "{told}");
        tool(THREE, "abortdecommission", &[], &[]).await;
        let stays = format!("UN {}", Sim::address_of(THREE));
        while !letters(ONE).await.contains(&stays) {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
    until(&mut sim, "the decommission is answered", || leaves.borrow().is_some());
    let (exit, error) = leaves.borrow().clone().expect("answered");
    assert!(exit != 0 && error.contains("aborted"), "{exit} {error}");
}

/// It is to get a share of what the leaver has, and cannot fetch it.
#[test]
fn the_removal_of_a_dead_node_undoes_a_decommission_that_waits_for_it() {
    let mut sim = filled(56, &[ONE, TWO, THREE, FOUR], 2);
    let leaves = leaves_for_a_dead_node(&mut sim);
    run(&mut sim, || async {
        let dead = host_id(ONE, TWO).await;
        tool(ONE, "removenode", &[], &[&dead]).await;
        normal(ONE, &[ONE, THREE, FOUR]).await;
    });
    until(&mut sim, "the decommission is answered", || leaves.borrow().is_some());
    let (exit, error) = leaves.borrow().clone().expect("answered");
    assert!(exit != 0 && error.contains("aborted"), "{exit} {error}");
    let leaves = ask_beside(&mut sim, THREE, "decommission", &[]);
    until(&mut sim, "nothing is in its way now", || leaves.borrow().is_some());
    run(&mut sim, || async {
        normal(ONE, &[ONE, FOUR]).await;
        assert_eq!(shown(ONE, Consistency::One).await, all());
    });
}

/// The only replica of what the other takes dies before it has heard that nobody reads from it any more.
#[test]
fn the_removal_of_a_dead_node_ends_a_move_that_waits_for_it() {
    let mut sim = Sim::new(57, Options { buggify: false, ..Options::default() });
    for (node, token) in [(ONE, 0), (TWO, 3_000_000_000_000_000_000), (THREE, -3_000_000_000_000_000_000)] {
        let mut single = config(node);
        (single.node.num_tokens, single.node.initial_tokens) = (1, vec![RingToken::Murmur3(token)]);
        assert_eq!(start(&mut sim, node, 1, single), []);
    }
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        query(&mut client, &format!("CREATE KEYSPACE k WITH replication = {replication}")).await;
        while voters(&tool(ONE, "describecluster", &[], &[]).await) < 3 {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
    sim.forget_reached();
    let moves = ask_beside(&mut sim, THREE, "move", &["1500000000000000000"]);
    while !sim.reached().contains("operation switched") {
        assert!(sim.step());
    }
    sim.crash(TWO);
    run(&mut sim, || async {
        down(ONE, TWO).await;
        // It does not end by itself.
        runtime::sleep(Duration::from_secs(20)).await;
        assert!(letters(ONE).await.contains(&format!("UM {}", Sim::address_of(THREE))));
        let dead = host_id(ONE, TWO).await;
        tool(ONE, "removenode", &[], &[&dead]).await;
        normal(ONE, &[ONE, THREE]).await;
    });
    until(&mut sim, "the move is answered", || moves.borrow().is_some());
    assert_eq!(*moves.borrow(), Some((0, String::new())));
}

/// It has more cores than when the others last heard of it, so who knows the old number fetches a part of its data.
#[test]
fn a_node_that_starts_without_a_majority_tells_its_cores_when_there_is_one() {
    let mut sim = filled(57, &[ONE, TWO, THREE], 1);
    for node in [ONE, TWO, THREE] {
        sim.crash(node);
    }
    assert_eq!(start(&mut sim, THREE, 3, config(THREE)), []);
    for node in [ONE, TWO] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    run(&mut sim, || normal(ONE, &[ONE, TWO, THREE]));
    assert_eq!(start(&mut sim, FOUR, 1, config(FOUR)), []);
    run(&mut sim, || async {
        normal(ONE, &[ONE, TWO, THREE, FOUR]).await;
        assert_eq!(shown(FOUR, Consistency::One).await, all());
    });
}
