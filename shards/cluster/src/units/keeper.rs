//! The bucket of one scope: it fills at a rate, and coordinating cores ask it for units.
//!
//! 1. The pool fills with time, up to what fills within [`POOL_MICROS`], or within two round trips of the slowest that
//!    asks. A pool that small is what keeps any second within a few percent of the rate, and a pool that is no smaller
//!    than the time between two askings is what keeps units from being lost.
//! 2. Each holder has a *tag*: units that it got. Tags begin at that of whoever was served last (start-time fair
//!    queueing, Goyal, Vin and Cheng, 1996), so what somebody did not use before is nothing that it has saved up.
//! 3. A holder that asks gets what the pool has, but for a request of each holder that waits. One that is ahead of a
//!    holder that waits gets only what is in the upper half of the pool.
//! 4. Whoever gets less than the least that is of use to it is told when to ask again.
//!
//! Invariants: the pool is never negative; the holders are at most [`HOLDERS_MAX`].

use std::collections::BTreeMap;
use uuid::Uuid;

/// The pool holds what fills within this time.
pub const POOL_MICROS: u64 = 15_000;
/// The longest round trip that makes the pool larger.
pub const ROUND_TRIP_MICROS_MAX: u64 = 125_000;
/// A holder that has not asked for so long waits no more, and its tag is forgotten.
pub const ACTIVE_MICROS: u64 = 500_000;
/// Most holders that a keeper tells apart; further ones share a tag.
pub const HOLDERS_MAX: usize = 4096;
/// Most hundredths of any asking or grant: sums of them stay far from the limits of 64 bits.
pub const HUNDREDTHS_MAX: u64 = 1 << 56;
/// The shortest time after which a holder asks again.
pub const ASK_AGAIN_MICROS: u64 = 4_000;
/// The longest one.
pub const ASK_AGAIN_MICROS_MAX: u64 = 1_000_000;
/// Over how long the use of a bucket is told, microseconds.
pub const USE_MICROS: u64 = 5_000_000;
const MICROS_PER_SECOND: u64 = 1_000_000;

/// A coordinating core: the host id of its node and its number.
pub type Holder = (Uuid, u16);

/// What a holder asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Hundredths that it could use: those that it owes, and those of the requests that it expects.
    pub wanted: u64,
    /// The least that is of use: the price of one request.
    pub least: u64,
    /// How long its last asking took.
    pub round_trip_micros: u64,
}

/// What it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// Hundredths.
    pub units: u64,
    /// If that is less than it wanted: when asking again may be worth it.
    pub ask_again_micros: u64,
}

/// What is known of a holder.
#[derive(Clone, Copy, Debug)]
struct Asker {
    tag: u64,
    asked_at: u64,
    /// Until when it counts as one that waits: it got nothing, and comes again.
    waits_to: u64,
    round_trip_micros: u64,
}

/// The bucket of one scope.
#[derive(Clone, Debug)]
pub struct Keeper {
    /// Hundredths a second.
    rate: u64,
    pool: u64,
    /// The time up to which the pool was filled.
    filled_to: u64,
    /// The tag from which the last holder was served.
    served_tag: u64,
    askers: BTreeMap<Holder, Asker>,
    /// When the time began over which the use is told, and what was handed out since.
    use_began: u64,
    handed_out: u64,
}

impl Keeper {
    /// A bucket with a rate in hundredths a second. It begins empty but for what one interval brings.
    pub fn new(rate: u64, now: u64) -> Keeper {
        let pool = amount(rate, POOL_MICROS);
        let askers = BTreeMap::new();
        Keeper { rate, pool, filled_to: now, served_tag: 0, askers, use_began: now, handed_out: 0 }
    }

    /// Changes the rate from now on.
    pub fn set_rate(&mut self, rate: u64, now: u64) {
        if rate != self.rate {
            self.fill(now, 0);
            self.rate = rate;
            self.pool = self.pool.min(amount(rate, POOL_MICROS));
        }
    }

    /// When it was last asked; a keeper that nobody has asked for long may be forgotten.
    pub fn asked_at(&self) -> u64 {
        self.askers.values().map(|asker| asker.asked_at).max().unwrap_or(self.filled_to)
    }

    /// Serves a holder.
    pub fn ask(&mut self, holder: Holder, ask: Ask, now: u64) -> Grant {
        self.askers.retain(|_, asker| now.saturating_sub(asker.asked_at) < ACTIVE_MICROS);
        let holder = match self.askers.contains_key(&holder) || self.askers.len() < HOLDERS_MAX {
            true => holder,
            false => (Uuid::max(), u16::MAX),
        };
        let lead = amount(self.rate, POOL_MICROS).max(ask.least);
        let mut asker = *self.askers.entry(holder).or_insert(Asker {
            tag: self.served_tag,
            asked_at: now,
            waits_to: 0,
            round_trip_micros: 0,
        });
        asker.asked_at = now;
        asker.round_trip_micros = ask.round_trip_micros.min(ROUND_TRIP_MICROS_MAX);
        asker.tag = asker.tag.max(self.served_tag.saturating_sub(lead));
        let others = self.askers.iter().filter(|(other, _)| **other != holder).map(|(_, other)| other);
        let waiting: Vec<u64> = others.filter(|other| other.waits_to > now).map(|other| other.tag).collect();
        let floor = self.served_tag.saturating_sub(lead);
        let is_ahead = waiting.iter().any(|tag| (*tag).max(floor) + lead < asker.tag);

        let full = self.fill(now, ask.least);
        let least = ask.least.min(ask.wanted).clamp(1, full.max(1));
        // What is kept for those that have had less.
        let kept = if is_ahead { full / 2 } else { 0 };
        let there = self.pool.saturating_sub(kept);
        // One request of each other holder that waits is left, but half of the pool is there for this one.
        let others = (waiting.len() as u64).saturating_mul(least).min(there / 2);
        let part = (there - others).max(least);
        let units = if there >= least { ask.wanted.min(part) } else { 0 };
        self.pool -= units;
        self.handed_out = self.handed_out.saturating_add(units);
        if units > 0 {
            self.served_tag = self.served_tag.max(asker.tag);
            asker.tag += units;
        }
        let missing = (least + kept).saturating_sub(self.pool);
        let ask_again_micros = (missing * MICROS_PER_SECOND).checked_div(self.rate).unwrap_or(ASK_AGAIN_MICROS_MAX);
        let ask_again_micros = ask_again_micros.clamp(ASK_AGAIN_MICROS, ASK_AGAIN_MICROS_MAX);
        asker.waits_to = match units < least {
            true => now + ask_again_micros + 2 * asker.round_trip_micros + POOL_MICROS,
            false => 0,
        };
        self.askers.insert(holder, asker);
        Grant { units, ask_again_micros }
    }

    /// What was handed out of the rate in the last [`USE_MICROS`] or more, percent, if so much time has passed since
    /// that was told last. The time ends when somebody asks, so after a pause it is longer, and the use is less.
    pub fn take_use(&mut self, now: u64) -> Option<u64> {
        let elapsed = now.saturating_sub(self.use_began);
        if elapsed < USE_MICROS {
            return None;
        }
        let could = u128::from(self.rate) * u128::from(elapsed) / u128::from(MICROS_PER_SECOND);
        let percent = (u128::from(self.handed_out) * 100).checked_div(could);
        (self.use_began, self.handed_out) = (now, 0);
        percent.map(|percent| percent as u64)
    }

    /// What the pool holds at most if at least `least` must fit.
    fn full(&self, least: u64) -> u64 {
        let slowest = self.askers.values().map(|asker| asker.round_trip_micros).max().unwrap_or(0);
        amount(self.rate, (2 * slowest).max(POOL_MICROS)).max(least.min(self.rate))
    }

    /// Fills the pool for the time that has passed. Returns what it holds at most.
    fn fill(&mut self, now: u64, least: u64) -> u64 {
        let full = self.full(least);
        let elapsed = now.saturating_sub(self.filled_to);
        if elapsed >= MICROS_PER_SECOND {
            (self.pool, self.filled_to) = (full, now);
            return full;
        }
        let more = amount(self.rate, elapsed);
        if self.pool + more >= full {
            (self.pool, self.filled_to) = (full, now);
        } else if more > 0 {
            // The time that has not brought a whole hundredth yet counts later.
            self.pool += more;
            self.filled_to += more * MICROS_PER_SECOND / self.rate;
        }
        full
    }
}

/// What fills within a time.
fn amount(rate: u64, micros: u64) -> u64 {
    (u128::from(rate) * u128::from(micros) / u128::from(MICROS_PER_SECOND)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = MICROS_PER_SECOND;

    fn holder(number: u16) -> Holder {
        (Uuid::from_u128(7), number)
    }

    fn ask(wanted: u64) -> Ask {
        Ask { wanted, least: 100, round_trip_micros: 0 }
    }

    #[test]
    fn the_pool_fills_at_its_rate_and_no_further() {
        let mut keeper = Keeper::new(100_000, SECOND);
        assert_eq!(keeper.ask(holder(0), ask(10_000), SECOND).units, 1_500, "what one interval brings");
        let told = keeper.ask(holder(0), ask(10_000), SECOND);
        assert_eq!(told, Grant { units: 0, ask_again_micros: ASK_AGAIN_MICROS });
        assert_eq!(keeper.ask(holder(0), ask(10_000), SECOND + 4_000).units, 400);
        assert_eq!(keeper.ask(holder(0), ask(10_000), 9 * SECOND).units, 1_500, "no more than the pool holds");
        keeper.set_rate(200_000, 9 * SECOND);
        assert_eq!(keeper.ask(holder(0), ask(10_000), 9 * SECOND + 5_000).units, 1_000);
    }

    #[test]
    fn the_use_of_a_bucket_is_told_every_few_seconds() {
        let mut keeper = Keeper::new(100_000, 0);
        let mut told = Vec::new();
        for at in (0..11 * SECOND).step_by(10_000) {
            // Nine tenths of what a hundredth of a second brings.
            keeper.ask(holder(0), ask(900), at);
            told.extend(keeper.take_use(at));
        }
        assert_eq!(told, [90, 90]);
        assert_eq!(keeper.take_use(60 * SECOND), Some(1), "after a pause");
        assert_eq!(Keeper::new(0, 0).take_use(9 * SECOND), None);
    }

    #[test]
    fn the_largest_amounts_are_served() {
        let rate = 100_000_000_000;
        let mut keeper = Keeper::new(rate, 0);
        let most = Ask { wanted: HUNDREDTHS_MAX, least: HUNDREDTHS_MAX, round_trip_micros: u64::MAX };
        for second in 0..20 {
            let granted = [0, 1, 2].map(|number| keeper.ask(holder(number), most, second * SECOND).units);
            assert!(granted.iter().sum::<u64>() <= rate, "{granted:?}");
        }
    }

    #[test]
    fn a_rate_below_one_request_in_an_interval_adds_up() {
        // Five units a second, requests of five units each.
        let mut keeper = Keeper::new(500, 0);
        let mut got = 0;
        for millis in (0..10_000).step_by(10) {
            got += keeper.ask(holder(0), Ask { wanted: 500, least: 500, round_trip_micros: 0 }, millis * 1_000).units;
        }
        assert_eq!(got, 10 * 500, "one request a second");
    }

    #[test]
    fn who_waits_is_served_before_others_get_more() {
        let mut keeper = Keeper::new(1_000_000, 0);
        let (mut fast, mut slow) = (0, 0);
        // One asks every millisecond, the other every hundred; either could use everything.
        for millis in 0..5_000 {
            let now = millis * 1_000;
            fast += keeper.ask(holder(0), ask(1_000_000), now).units;
            if millis % 100 == 0 {
                slow += keeper.ask(holder(1), Ask { round_trip_micros: 100_000, ..ask(1_000_000) }, now).units;
            }
        }
        assert!(fast + slow > 4_850_000 && fast + slow < 5_250_000, "{fast} and {slow}");
        assert!(slow > 1_500_000, "{slow}");
        assert!(fast > 1_500_000, "{fast}");
    }

    #[test]
    fn holders_beyond_the_limit_share_a_tag() {
        let mut keeper = Keeper::new(1_000_000, 0);
        for number in 0..=HOLDERS_MAX as u16 {
            keeper.ask((Uuid::from_u128(u128::from(number)), 0), ask(100), 0);
        }
        keeper.ask((Uuid::from_u128(u128::MAX / 3), 0), ask(100), 0);
        assert_eq!(keeper.askers.len(), HOLDERS_MAX + 1, "the shared one is added");
        keeper.ask(holder(0), ask(100), SECOND);
        assert_eq!(keeper.askers.len(), 1, "those that do not ask are forgotten");
    }
}
