//! What nodes leave behind in memory: a run of the simulator has many lives of nodes in one process.

use super::*;

#[test]
fn nodes_that_ended_in_any_way_give_their_memory_back() {
    let mut sim = Sim::new(71, Options::default());
    let mut marks = Vec::new();
    // Every core of a node holds the options in parts that they share.
    let mut marked = |node| {
        let config = config(node);
        marks.push(Arc::downgrade(&config.node.memtables));
        config
    };
    assert_eq!(start(&mut sim, ONE, 2, marked(ONE)), []);
    assert_eq!(start(&mut sim, TWO, 1, marked(TWO)), []);
    run(&mut sim, || async {
        let two = format!("UN {}", Sim::address_of(TWO));
        while !letters(ONE).await.contains(&two) {
            runtime::sleep(Duration::from_millis(100)).await;
        }
    });
    // One crashes and comes back, the other is stopped.
    sim.crash(TWO);
    assert_eq!(start(&mut sim, TWO, 1, marked(TWO)), []);
    sim.terminate(ONE);
    while sim.is_running(ONE) {
        assert!(sim.step(), "the node does not end");
    }
    drop(sim);
    let held: Vec<usize> = marks.iter().map(|mark| mark.strong_count()).collect();
    assert_eq!(held, [0, 0, 0], "of ONE, and of both lives of TWO");
}
