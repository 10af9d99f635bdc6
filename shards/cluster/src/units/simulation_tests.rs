//! Coordinators with any load, and one keeper: what is admitted in any second, and whether anybody starves.
//!
//! Each seed is a run of virtual time: arrivals, askings that travel, answers that travel back, silence.

use super::keeper::{Ask, Grant, Keeper};
use super::lease::{ASKING_MICROS_MAX, Admission, Lease};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use uuid::Uuid;

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;
/// Seeds of each test.
const SEEDS: u64 = 60;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives { load: u64 },
    Asks { wanted: u64, least: u64, round_trip_micros: u64 },
    Answered { units: u64, ask_again_micros: u64 },
    TooLate { asking: u64 },
}

struct Coordinator {
    lease: Lease,
    /// One way to the keeper.
    latency: u64,
    /// Microseconds between two requests; `u64::MAX`: none come.
    between: u64,
    /// The number of the load that runs; arrivals of earlier ones come no more.
    load: u64,
    waiting: u64,
    /// The number of the asking under way.
    asking: u64,
    awaits: bool,
    is_cut: bool,
    /// Hundredths admitted, by the millisecond.
    admitted: Vec<u64>,
    refused: u64,
}

struct World {
    random: Random,
    now: u64,
    number: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize, Event)>>,
    keeper: Keeper,
    rate: u64,
    price: u64,
    coordinators: Vec<Coordinator>,
}

impl World {
    fn new(seed: u64, coordinators: usize, rate: u64, price: u64, latency: u64) -> World {
        let mut random = Random(seed);
        let coordinators = (0..coordinators).map(|_| Coordinator {
            lease: Lease::new(0, 0),
            latency: 50 + random.below(latency),
            between: u64::MAX,
            load: 0,
            waiting: 0,
            asking: 0,
            awaits: false,
            is_cut: false,
            admitted: Vec::new(),
            refused: 0,
        });
        let coordinators = coordinators.collect();
        let keeper = Keeper::new(rate, 0);
        World { random, now: 0, number: 0, events: BinaryHeap::new(), keeper, rate, price, coordinators }
    }

    fn push(&mut self, at: u64, who: usize, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, who, event)));
    }

    /// Shares a demand of `percent` of the rate among the coordinators, at random and unevenly.
    fn demand(&mut self, percent: u64) {
        let weights: Vec<u64> = (0..self.coordinators.len())
            .map(|_| match self.random.below(4) {
                0 => 0,
                1 => 100,
                _ => 1 + self.random.below(10),
            })
            .collect();
        let sum = weights.iter().sum::<u64>();
        let weights = if sum == 0 { vec![1; weights.len()] } else { weights };
        let sum = weights.iter().sum::<u64>();
        for (at, weight) in weights.into_iter().enumerate() {
            let wanted = self.rate * percent / 100 * weight / sum;
            let between = (self.price * SECOND).checked_div(wanted).unwrap_or(u64::MAX);
            self.coordinators[at].between = between;
            self.coordinators[at].load += 1;
            if between < u64::MAX {
                let first = self.now + self.random.below(between);
                self.push(first, at, Event::Arrives { load: self.coordinators[at].load });
            }
        }
    }

    fn run_until(&mut self, end: u64) {
        while let Some(Reverse((at, ..))) = self.events.peek() {
            if *at >= end {
                break;
            }
            let Some(Reverse((at, _, who, event))) = self.events.pop() else { break };
            self.now = at;
            self.happens(who, event);
        }
        self.now = end;
    }

    fn happens(&mut self, who: usize, event: Event) {
        match event {
            Event::Arrives { load } => {
                let between = self.coordinators[who].between;
                if load != self.coordinators[who].load {
                    return;
                }
                let jitter = self.random.below(between) + between / 2;
                self.push(self.now + jitter.max(1), who, Event::Arrives { load });
                self.look_at(who, true);
            }
            Event::Asks { wanted, least, round_trip_micros } => {
                let ask = Ask { wanted, least, round_trip_micros };
                let Grant { units, ask_again_micros } = self.keeper.ask((Uuid::nil(), who as u16), ask, self.now);
                if !self.coordinators[who].is_cut {
                    let at = self.now + self.coordinators[who].latency;
                    self.push(at, who, Event::Answered { units, ask_again_micros });
                }
            }
            Event::Answered { units, ask_again_micros } => {
                if !self.coordinators[who].awaits {
                    return;
                }
                self.coordinators[who].awaits = false;
                self.coordinators[who].lease.answered(Grant { units, ask_again_micros }, self.now);
                self.look_at_waiting(who);
            }
            Event::TooLate { asking } => {
                if self.coordinators[who].awaits && self.coordinators[who].asking == asking {
                    self.coordinators[who].awaits = false;
                    self.coordinators[who].lease.unanswered(self.now);
                    self.look_at_waiting(who);
                }
            }
        }
    }

    fn look_at_waiting(&mut self, who: usize) {
        let waiting = std::mem::take(&mut self.coordinators[who].waiting);
        (0..waiting).for_each(|_| self.look_at(who, false));
    }

    fn look_at(&mut self, who: usize, is_new: bool) {
        let (part, price, now) = (self.rate / self.coordinators.len() as u64, self.price, self.now);
        let coordinator = &mut self.coordinators[who];
        let admission = match is_new {
            true => coordinator.lease.admit(price, part, now),
            false => coordinator.lease.admit_again(price, part, now),
        };
        let mut ask = None;
        match admission {
            Admission::Admitted(next) => {
                let milli = (now / MILLI) as usize;
                coordinator.admitted.resize(coordinator.admitted.len().max(milli + 1), 0);
                coordinator.admitted[milli] += price;
                ask = next;
            }
            Admission::Ask(next) => {
                coordinator.waiting += 1;
                ask = Some(next);
            }
            Admission::Wait => coordinator.waiting += 1,
            Admission::Refused { retry_after_micros } => {
                assert!(retry_after_micros > 0, "a client may be told to come back at once");
                coordinator.refused += 1;
                ask = coordinator.lease.ask_once_more(price, now);
            }
        }
        let Some(Ask { wanted, least, round_trip_micros }) = ask else { return };
        coordinator.asking += 1;
        coordinator.awaits = true;
        let (latency, asking, is_cut) = (coordinator.latency, coordinator.asking, coordinator.is_cut);
        if !is_cut {
            self.push(now + latency, who, Event::Asks { wanted, least, round_trip_micros });
        }
        self.push(now + ASKING_MICROS_MAX, who, Event::TooLate { asking });
    }

    /// What was admitted from `from` to `to`, in all.
    fn admitted(&self, from: u64, to: u64) -> u64 {
        self.coordinators.iter().map(|coordinator| sum(&coordinator.admitted, from, to)).sum()
    }

    /// Checks every second between two times, by steps of 50 ms.
    fn check_seconds(&self, seed: u64, from: u64, to: u64, least_percent: u64, most_percent: u64) {
        let slack = self.price * self.coordinators.len() as u64;
        let mut begin = from;
        while begin + SECOND <= to {
            let admitted = self.admitted(begin, begin + SECOND);
            let (least, most) = (self.rate * least_percent / 100, self.rate * most_percent / 100);
            assert!(
                admitted + slack >= least && admitted <= most + slack,
                "seed {seed}: {admitted} of {} in the second from {} ms, {} coordinators",
                self.rate,
                begin / MILLI,
                self.coordinators.len()
            );
            begin += 50 * MILLI;
        }
    }
}

fn sum(admitted: &[u64], from: u64, to: u64) -> u64 {
    let at = |time: u64| ((time / MILLI) as usize).min(admitted.len());
    admitted[at(from)..at(to)].iter().sum()
}

/// A world with a random number of coordinators, a rate of 2,000 to 4,000 units a second, and a price.
fn world(seed: u64, latency: u64) -> World {
    let mut random = Random(seed ^ 0x5eed);
    let coordinators = 1 + random.below(9) as usize;
    let rate = 200_000 + random.below(200_000);
    let price = [200, 500, 730][random.below(3) as usize];
    World::new(seed, coordinators, rate, price, latency)
}

#[test]
fn any_second_after_the_first_is_exact_to_five_percent() {
    for seed in 0..SEEDS {
        let mut world = world(seed, 1_000);
        world.demand(200);
        world.run_until(2 * SECOND);
        let others = 130 + world.random.below(300);
        world.demand(others);
        world.run_until(3500 * MILLI);
        world.check_seconds(seed, SECOND, 3500 * MILLI, 95, 105);
    }
}

#[test]
fn below_the_rate_nothing_is_refused() {
    for seed in 0..SEEDS {
        let mut world = world(seed, 1_000);
        world.demand(70);
        world.run_until(2 * SECOND);
        // Requests that come by chance at once may be refused; most are not.
        let refused: u64 = world.coordinators.iter().map(|coordinator| coordinator.refused).sum();
        let admitted = world.admitted(0, 2 * SECOND) / world.price;
        assert!(refused * 50 <= admitted, "seed {seed}: {refused} refused, {admitted} admitted");
    }
}

#[test]
fn nobody_starves() {
    for seed in 0..SEEDS {
        let mut world = world(seed, 1_000);
        let count = world.coordinators.len();
        let slow = world.random.below(count as u64) as usize;
        world.coordinators[slow].latency = 10 * MILLI + world.random.below(40 * MILLI);
        let round_trip = 2 * world.coordinators[slow].latency;
        world.demand(250);
        world.run_until(4 * SECOND);
        world.check_seconds(seed, SECOND, 4 * SECOND, 90, 105 + 2 * round_trip * 100 / SECOND);
        for (at, coordinator) in world.coordinators.iter().enumerate() {
            let demand = (SECOND.checked_div(coordinator.between).unwrap_or(0)) * world.price;
            let entitled = demand.min(world.rate / count as u64) * 3;
            let admitted = sum(&coordinator.admitted, SECOND, 4 * SECOND);
            let percent = if at == slow { 20 } else { 45 };
            assert!(
                admitted + 2 * world.price >= entitled * percent / 100,
                "seed {seed}: {at} of {count} got {admitted}, was entitled to {entitled}, slow is {slow}"
            );
        }
    }
}

#[test]
fn a_coordinator_that_is_cut_off_has_its_part_and_no_more() {
    for seed in 0..SEEDS {
        let mut world = world(seed, 1_000);
        let count = world.coordinators.len() as u64;
        world.demand(300);
        world.run_until(SECOND);
        let cut = world.random.below(count) as usize;
        world.coordinators[cut].is_cut = true;
        world.run_until(3 * SECOND);
        world.check_seconds(seed, SECOND, 3 * SECOND, 0, 105 + 105 / count);
        let of_cut = sum(&world.coordinators[cut].admitted, 1500 * MILLI, 2500 * MILLI);
        assert!(of_cut <= world.rate / count * 105 / 100 + world.price, "seed {seed}: {of_cut}");
        world.coordinators[cut].is_cut = false;
        world.run_until(5 * SECOND);
        world.check_seconds(seed, 3500 * MILLI, 5 * SECOND, 95, 105);
    }
}

#[test]
fn without_a_keeper_the_rate_is_not_exceeded() {
    for seed in 0..SEEDS / 2 {
        let mut world = world(seed, 1_000);
        world.demand(400);
        world.run_until(SECOND);
        world.coordinators.iter_mut().for_each(|coordinator| coordinator.is_cut = true);
        world.run_until(3 * SECOND);
        world.check_seconds(seed, 1500 * MILLI, 3 * SECOND, 0, 105);
    }
}
