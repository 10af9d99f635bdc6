//! Any bytes as messages of gossip: two bytes of length before each. What decodes has one form, and is taken.
#![no_main]

use cluster::gossip::{Clocks, Gossiper, Message, Options};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let now = Clocks { monotonic: Duration::from_secs(100), wall: 1_795_435_200_000_000 };
    let options = Options {
        cluster_name: "a".into(),
        partitioner: "b".into(),
        address: ([127, 0, 0, 1], 7000).into(),
        seeds: Vec::new(),
        phi_convict_threshold: 8.0,
        ring_delay: Duration::from_secs(30),
        generation: 1_795_435_200,
    };
    let mut gossiper = Gossiper::new(options, now);
    let mut rest = data;
    while let Some((length, tail)) = rest.split_first_chunk() {
        let (bytes, tail) = tail.split_at(tail.len().min(usize::from(u16::from_be_bytes(*length))));
        rest = tail;
        let Ok(message) = Message::decode(bytes) else { continue };
        assert_eq!(message.encode(), bytes);
        for (_, answer) in gossiper.received(now, ([127, 0, 0, 2], 7000).into(), message) {
            assert!(Message::decode(&answer.encode()).is_ok());
        }
    }
    gossiper.tick(now, &mut || 0);
});
