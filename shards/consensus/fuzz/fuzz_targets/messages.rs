//! Any bytes as messages of other members: two bytes of length before each. A member that leads a group of its own, or
//! belongs to none, answers each of them or is too slow, and never ends.
#![no_main]

use consensus::testing::{MemoryStore, Nothing};
use consensus::{Config, Group, Timings};
use libfuzzer_sys::fuzz_target;
use runtime::NodeId;
use runtime::sim::{Options, Sim, Stop};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

fuzz_target!(|data: &[u8]| {
    let Some((leads, data)) = data.split_first() else { return };
    let (leads, data) = (leads % 2 == 1, data.to_vec());
    let mut sim = Sim::new(1, Options::default());
    let ended = Rc::new(Cell::new(false));
    let told = ended.clone();
    sim.start_node(NodeId(1), 1, move |_| {
        let (told, data) = (told.clone(), data.clone());
        async move {
            let config = Config { me: Uuid::from_u128(1), timings: Timings::default() };
            let store = MemoryStore::new(Duration::from_micros(10));
            let group = Group::start(config, store, Nothing, Nothing).await.expect("it starts");
            if leads {
                group.create().await.expect("it leads");
            }
            let mut rest = data.as_slice();
            while let Some((length, tail)) = rest.split_first_chunk() {
                let (bytes, tail) = tail.split_at(tail.len().min(usize::from(u16::from_be_bytes(*length))));
                rest = tail;
                runtime::timeout(Duration::from_secs(5), group.handle(bytes)).await;
            }
            told.set(true);
        }
    });
    assert_eq!(sim.run_until(Duration::from_secs(3_600), || ended.get()), Stop::Condition);
});
