//! Many nodes on virtual time, with a network that loses, doubles, reorders and cuts.

use super::message::Message;
use super::tests::{WALL_SECONDS, address, at, options};
use super::*;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

/// Random numbers of a seed (splitmix64).
pub(crate) fn generator(seed: u64) -> impl FnMut() -> u64 {
    let mut x = seed;
    move || {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What happens next, the earliest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    millis: std::cmp::Reverse<u64>,
    order: std::cmp::Reverse<u64>,
    from: SocketAddr,
    to: SocketAddr,
    /// None: a round of `to`.
    bytes: Option<Vec<u8>>,
}

/// What the network does to messages.
#[derive(Clone, Copy, Default)]
struct Network {
    /// In percent.
    lost: u64,
    doubled: u64,
    delay_millis_max: u64,
}

struct Cluster {
    nodes: Vec<Option<Gossiper>>,
    random: Box<dyn FnMut() -> u64>,
    network: Network,
    /// Pairs that do not hear each other.
    cut: Box<dyn Fn(usize, usize) -> bool>,
    due: BinaryHeap<Due>,
    order: u64,
    millis: u64,
    messages: u64,
    bytes: u64,
    longest: usize,
    events: Vec<(usize, Event)>,
}

impl Cluster {
    /// Nodes that start at the same time; the first two are seeds.
    fn new(count: usize, seed: u64, network: Network) -> Cluster {
        let mut cluster = Cluster {
            nodes: Vec::new(),
            random: Box::new(generator(seed)),
            network,
            cut: Box::new(|_, _| false),
            due: BinaryHeap::new(),
            order: 0,
            millis: 0,
            messages: 0,
            bytes: 0,
            longest: 0,
            events: Vec::new(),
        };
        cluster.nodes.resize_with(count, || None);
        for node in 0..count {
            cluster.start(node, WALL_SECONDS as u32);
            let phase = (cluster.random)() % 1000;
            cluster.push(phase, address(node as u16), address(node as u16), None);
        }
        cluster
    }

    fn start(&mut self, node: usize, generation: u32) {
        let mut gossiper = Gossiper::new(options(node as u16, &[0, 1], generation), at(self.millis));
        gossiper.set_members((0..self.nodes.len() as u16).map(address), at(self.millis));
        for (state, value) in [
            (ApplicationState::STATUS_WITH_PORT, "NORMAL,-1234567890123456789"),
            (ApplicationState::DC, "datacenter1"),
            (ApplicationState::RACK, "rack1"),
            (ApplicationState::SCHEMA, "5707cee2-294b-37b2-abe5-62396dd25ef5"),
            (ApplicationState::HOST_ID, "d2b8d264-007a-40c8-b2d9-1fbd31e62f7d"),
            (ApplicationState::NATIVE_ADDRESS_AND_PORT, "127.0.0.31:9042"),
            (ApplicationState::RELEASE_VERSION, "5.0.9"),
            (ApplicationState::SSTABLE_VERSIONS, "big-oa"),
            (ApplicationState::LOAD, "171914.0"),
        ] {
            assert!(gossiper.set(state, value));
        }
        self.nodes[node] = Some(gossiper);
    }

    fn push(&mut self, millis: u64, from: SocketAddr, to: SocketAddr, bytes: Option<Vec<u8>>) {
        self.order += 1;
        self.due.push(Due { millis: std::cmp::Reverse(millis), order: std::cmp::Reverse(self.order), from, to, bytes });
    }

    fn send(&mut self, from: usize, messages: Vec<(SocketAddr, Message)>) {
        for (to, message) in messages {
            let bytes = message.encode();
            self.messages += 1;
            self.bytes += bytes.len() as u64;
            self.longest = self.longest.max(bytes.len());
            if (self.cut)(from, index(to)) || (self.random)() % 100 < self.network.lost {
                continue;
            }
            let copies = if (self.random)() % 100 < self.network.doubled { 2 } else { 1 };
            for _ in 0..copies {
                let delay = (self.random)() % (self.network.delay_millis_max + 1);
                self.push(self.millis + delay, address(from as u16), to, Some(bytes.clone()));
            }
        }
    }

    /// Runs until `until`, in milliseconds.
    fn run(&mut self, until: u64) {
        while let Some(due) = self.due.peek().is_some_and(|due| due.millis.0 <= until).then(|| self.due.pop()).flatten()
        {
            self.millis = due.millis.0;
            let now = at(self.millis);
            let node = index(due.to);
            if due.bytes.is_none() {
                self.push(self.millis + 1000, due.from, due.to, None);
            }
            let Some(gossiper) = &mut self.nodes[node] else { continue };
            let out = match due.bytes {
                None => gossiper.tick(now, &mut self.random),
                Some(bytes) => gossiper.received(now, due.from, Message::decode(&bytes).expect("undamaged")),
            };
            self.events.extend(gossiper.events().into_iter().map(|event| (node, event)));
            self.send(node, out);
        }
        self.millis = until;
    }

    /// Runs until all running nodes agree on who lives and know each other's values, and returns how many seconds that
    /// took.
    fn agree(&mut self, seconds_max: u64) -> u64 {
        let from = self.millis;
        for second in 0..=seconds_max {
            self.run(from + second * 1000);
            if self.all_agree() {
                return second;
            }
        }
        panic!("no agreement within {seconds_max} s: {:?}", self.disagreement());
    }

    fn all_agree(&self) -> bool {
        self.disagreement().is_none()
    }

    /// A node and what it believes wrongly of another.
    fn disagreement(&self) -> Option<(usize, usize, &'static str)> {
        let running = || self.nodes.iter().enumerate().filter_map(|(node, gossiper)| Some((node, gossiper.as_ref()?)));
        for (viewer, gossiper) in running() {
            for (node, seen) in self.nodes.iter().enumerate() {
                let at = address(node as u16);
                if gossiper.is_alive(at) != seen.is_some() {
                    return Some((viewer, node, "life"));
                }
                let Some(own) = seen.as_ref().map(Gossiper::own) else { continue };
                let known = gossiper.state(at).map(|known| (known.generation, known.values()));
                if known != Some((own.generation, own.values())) {
                    return Some((viewer, node, "values"));
                }
            }
        }
        None
    }

    fn downs(&self) -> usize {
        self.events.iter().filter(|(_, event)| matches!(event, Event::Down(_))).count()
    }
}

fn index(address: SocketAddr) -> usize {
    let SocketAddr::V4(v4) = address else { unreachable!("tests use IPv4") };
    let [_, _, c, d] = v4.ip().octets();
    usize::from(c) * 250 + usize::from(d) - 1
}

/// Seconds within which rumours reach `nodes` nodes, for certain enough: a few rounds for each doubling.
fn bound(nodes: usize) -> u64 {
    4 + 2 * u64::from(usize::BITS - nodes.leading_zeros())
}

const FAULTY: Network = Network { lost: 20, doubled: 20, delay_millis_max: 1500 };
const CALM: Network = Network { lost: 0, doubled: 0, delay_millis_max: 2 };

#[test]
fn nodes_that_start_together_agree_within_a_logarithm_of_rounds() {
    for (count, seeds) in [(1, 3), (2, 20), (3, 20), (9, 20), (30, 5), (100, 1)] {
        for seed in 0..seeds {
            let mut cluster = Cluster::new(count, seed, CALM);
            cluster.agree(bound(count));
            let values = "5707cee2-294b-37b2-abe5-62396dd25ef6";
            cluster.nodes[count - 1].as_mut().expect("runs").set(ApplicationState::SCHEMA, values);
            cluster.agree(bound(count));
        }
    }
}

#[test]
fn nobody_flaps_without_faults() {
    let mut cluster = Cluster::new(12, 1, CALM);
    cluster.run(600_000);
    assert!(cluster.all_agree());
    let ups = cluster.events.iter().filter(|(_, event)| matches!(event, Event::Up(_))).count();
    assert_eq!((ups, cluster.downs()), (12 * 11, 0));
}

#[test]
fn lost_doubled_and_reordered_messages_delay_agreement_only() {
    for seed in 0..30 {
        let mut cluster = Cluster::new(7, seed, FAULTY);
        cluster.agree(4 * bound(7));
        cluster.run(cluster.millis + 60_000);
        assert_eq!(cluster.downs(), 0, "seed {seed}");
        // A new generation wins, whatever of the old one is still under way.
        cluster.start(3, WALL_SECONDS as u32 + 100);
        cluster.agree(4 * bound(7));
    }
}

#[test]
fn a_killed_node_is_convicted_in_cassandras_time_by_all() {
    for seed in 0..10 {
        let mut cluster = Cluster::new(3, seed, CALM);
        cluster.run(300_000);
        let died = cluster.millis + (cluster.random)() % 1000;
        cluster.run(died);
        cluster.nodes[2] = None;
        cluster.events.clear();
        let mut convicted = Vec::new();
        while convicted.len() < 2 {
            cluster.run(cluster.millis + 50);
            convicted.extend(cluster.events.drain(..).map(|(node, event)| (cluster.millis - died, node, event)));
            assert!(cluster.millis - died < 21_000, "seed {seed}: {convicted:?}");
        }
        for (after, _, event) in &convicted {
            assert_eq!(*event, Event::Down(address(2)));
            // 18.4 mean intervals after the last heartbeat that arrived, which is up to a second or two older than the
            // end, and at the next round.
            assert!((16_500..20_500).contains(after), "seed {seed}: {after}");
        }
    }
}

#[test]
fn both_sides_of_a_cut_convict_each_other_and_agree_once_it_heals() {
    for seed in 0..10 {
        let mut cluster = Cluster::new(9, seed, CALM);
        cluster.run(60_000);
        cluster.cut = Box::new(|a, b| (a < 4) != (b < 4));
        cluster.run(100_000);
        for viewer in 0..9 {
            let gossiper = cluster.nodes[viewer].as_ref().expect("runs");
            let alive = (0..9).filter(|node| gossiper.is_alive(address(*node))).count();
            assert_eq!(alive, if viewer < 4 { 4 } else { 5 }, "seed {seed}, node {viewer}");
        }
        cluster.nodes[8].as_mut().expect("runs").set(ApplicationState::LOAD, "9.0");
        cluster.cut = Box::new(|_, _| false);
        cluster.agree(3 * bound(9));
    }
}

#[test]
fn a_node_that_hears_but_is_not_heard_is_not_called_up() {
    let mut cluster = Cluster::new(3, 4, CALM);
    cluster.run(60_000);
    // Node 2 sends to node 1 only, so that node 0 knows of its heartbeats by rumour.
    cluster.cut = Box::new(|from, to| from == 2 && to == 0);
    cluster.start(2, WALL_SECONDS as u32 + 100);
    cluster.run(120_000);
    let [Some(zero), Some(one), _] = cluster.nodes.as_slice() else { panic!("all run") };
    assert!(one.is_alive(address(2)) && !zero.is_alive(address(2)));
    assert_eq!(zero.state(address(2)).map(|state| state.generation), Some(WALL_SECONDS as u32 + 100));
}

/// Lets `count` nodes start, agree, lose a third and heal, and returns the figures of it as a text.
fn loss_of_a_third(count: usize) -> String {
    let mut cluster = Cluster::new(count, 11, CALM);
    let formed = cluster.agree(bound(count));
    cluster.run(cluster.millis + 5000);
    let (messages, bytes, from) = (cluster.messages, cluster.bytes, cluster.millis);
    cluster.run(cluster.millis + 20_000);
    let seconds = (cluster.millis - from) / 1000;
    let per = |count_of: u64| count_of as f64 / seconds as f64 / count as f64;
    let (messages, bytes) = (per(cluster.messages - messages), per(cluster.bytes - bytes));
    assert!(messages <= 4.0, "{messages} messages");
    assert!(cluster.longest <= 80_000, "the longest message");
    assert!(bytes <= 12_000.0, "{bytes} bytes");
    let lost = count - count / 3..count;
    lost.clone().for_each(|node| cluster.nodes[node] = None);
    let convicted = cluster.agree(50);
    for node in lost {
        cluster.start(node, WALL_SECONDS as u32 + 1000);
    }
    let healed = cluster.agree(3 * bound(count));
    format!(
        "{count} nodes: know each other after {formed} s; {messages:.2} messages and {bytes:.0} bytes per node and \
         second, the longest {} bytes; a third convicted after {convicted} s; known as back after {healed} s",
        cluster.longest
    )
}

#[test]
#[expect(clippy::print_stdout, reason = "figures for a document")]
fn a_hundred_and_three_hundred_nodes_lose_a_third_and_heal() {
    println!("{}", loss_of_a_third(100));
    println!("{}", loss_of_a_third(300));
}
