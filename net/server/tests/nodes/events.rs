//! What drivers are told of a node that joins, stops, dies, stands still, leaves and is removed: Cassandra's events in
//! its order, once each.

use super::*;

const FOUR: NodeId = NodeId(4);

type Events = Rc<RefCell<Vec<String>>>;

/// Collects the events that a driver of `node` gets, until its connection ends. It runs on a node `watcher` of its own.
fn watch(sim: &mut Sim, watcher: NodeId, node: NodeId) -> Events {
    let events = Events::default();
    let registered = Rc::new(Cell::new(false));
    let (kept, set) = (events.clone(), registered.clone());
    sim.start_node(watcher, 1, move |_| {
        let (kept, set) = (kept.clone(), set.clone());
        async move {
            let mut client = client(node).await;
            client.register().await.expect("registered");
            set.set(true);
            while let Ok(event) = client.next_event().await {
                kept.borrow_mut().push(event);
            }
        }
    });
    until(sim, "registered", || registered.get());
    events
}

/// Waits until the driver of each of these has got as many events, and a minute more; returns them.
fn told(sim: &mut Sim, events: &[&Events], expected: &[String]) {
    until(sim, &format!("{expected:?} of {events:?}"), || {
        events.iter().all(|events| events.borrow().len() >= expected.len())
    });
    sim.run_until(Duration::from_secs(60), || false);
    for events in events {
        assert_eq!(*events.borrow_mut().drain(..).collect::<Vec<_>>(), *expected);
    }
}

/// Events about a node.
fn of<const N: usize>(node: NodeId, events: [&str; N]) -> [String; N] {
    events.map(|event| {
        let kind = if event.ends_with("_NODE") { "TOPOLOGY_CHANGE" } else { "STATUS_CHANGE" };
        format!("{kind} {event} {}", at(node, 9042))
    })
}

#[test]
fn drivers_hear_of_each_change_once_and_in_order() {
    let mut sim = Sim::new(51, Options { buggify: false, ..Options::default() });
    for node in [ONE, THREE] {
        assert_eq!(start(&mut sim, node, 1, config(node)), []);
    }
    sim.run_until(Duration::from_secs(5), || false);
    let (first, third) = (watch(&mut sim, NodeId(11), ONE), watch(&mut sim, NodeId(12), THREE));
    let others = [&first, &third];

    let two = begin(&mut sim, TWO, 1, config(TWO));
    told(&mut sim, &others, &of(TWO, ["NEW_NODE", "UP"]));
    assert!(two.serves());

    let own = watch(&mut sim, NodeId(13), TWO);
    sim.terminate(TWO);
    assert_eq!(two.ended(&mut sim), [Exit::Stopped]);
    told(&mut sim, &others, &of(TWO, ["DOWN"]));
    assert_eq!(*own.borrow(), of(TWO, ["DOWN"]), "its own driver");

    begin(&mut sim, TWO, 1, config(TWO));
    told(&mut sim, &others, &of(TWO, ["UP"]));
    sim.kill(TWO);
    told(&mut sim, &others, &of(TWO, ["DOWN"]));
    begin(&mut sim, TWO, 1, config(TWO));
    told(&mut sim, &others, &of(TWO, ["UP"]));
    sim.pause(TWO, Duration::from_secs(5));
    told(&mut sim, &others, &[]);
    sim.pause(TWO, Duration::from_secs(60));
    told(&mut sim, &others, &of(TWO, ["DOWN", "UP"]));

    let own = watch(&mut sim, NodeId(14), TWO);
    run(&mut sim, || async {
        tool(TWO, "decommission", &["-f"], &[]).await;
    });
    told(&mut sim, &others, &of(TWO, ["REMOVED_NODE", "DOWN"]));
    assert_eq!(*own.borrow(), of(TWO, ["REMOVED_NODE"]), "its own driver");

    assert_eq!(start(&mut sim, FOUR, 1, config(FOUR)), []);
    told(&mut sim, &others, &of(FOUR, ["NEW_NODE", "UP"]));
    run(&mut sim, || async {
        tool(ONE, "assassinate", &[], &[&Sim::address_of(FOUR).to_string()]).await;
    });
    told(&mut sim, &others, &of(FOUR, ["DOWN", "REMOVED_NODE"]));
}
