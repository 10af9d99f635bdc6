//! What one coordinating core has leased of one scope, and which requests that admits.
//!
//! 1. A request is admitted while the balance is positive, and its price is taken off. So the balance may go below zero
//!    by one request; what is owed is paid before the next one is admitted. A read whose price is known only afterwards
//!    is admitted by an estimate, and the difference is settled then.
//! 2. If the balance is used up, the first request makes the core ask the keeper; those that come meanwhile wait for
//!    the answer. If the keeper had too little, requests are refused until it is worth asking again.
//! 3. When half of what came last is used, the next units are asked for beforehand, so that nothing waits.
//! 4. If the keeper does not answer, the core admits an equal part of the rate by itself and asks again every
//!    [`RETRY_MICROS`].
//!
//! Invariants: one asking is under way at most; what was leased [`VALID_MICROS`] ago is void.

use super::keeper::{Ask, Grant, HUNDREDTHS_MAX, POOL_MICROS};

/// What is leased and not used is void after this time.
pub const VALID_MICROS: u64 = 500_000;
/// A core asks for what it expects to use within this time.
pub const AHEAD_MICROS: u64 = 10_000;
/// How long a core that got no answer waits before it asks again.
pub const RETRY_MICROS: u64 = 250_000;
/// How long an asking may take.
pub const ASKING_MICROS_MAX: u64 = 250_000;
const MICROS_PER_SECOND: u64 = 1_000_000;

/// Whether a request is admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is. If there is an asking, it is to be sent while the request goes on.
    Admitted(Option<Ask>),
    /// The keeper must be asked; then the request has to be looked at again.
    Ask(Ask),
    /// The keeper has been asked already; then the request has to be looked at again.
    Wait,
    /// It is not, and may be when this time has passed.
    Refused {
        /// The time.
        retry_after_micros: u64,
    },
}

/// What one core has leased.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Hundredths; below zero: owed.
    balance: i64,
    /// The last grant, and until when it is valid.
    granted: u64,
    valid_to: u64,
    /// When the asking under way began.
    asked_at: Option<u64>,
    /// Before this time it is not worth asking.
    ask_from: u64,
    round_trip_micros: u64,
    /// What requests wanted since `counted_from`, admitted or not.
    demanded: u64,
    counted_from: u64,
    /// If the keeper does not answer: up to when the own part of the rate was added.
    alone_since: Option<u64>,
}

impl Lease {
    /// A lease that begins with so many hundredths, for which nobody was asked.
    pub fn new(balance: u64, now: u64) -> Lease {
        Lease {
            balance: i64::try_from(balance).unwrap_or(i64::MAX),
            granted: balance,
            valid_to: now + VALID_MICROS,
            asked_at: None,
            ask_from: 0,
            round_trip_micros: 0,
            demanded: 0,
            counted_from: now,
            alone_since: None,
        }
    }

    /// Looks at a request with this price. `part` is the rate of which this core would be entitled to by itself,
    /// hundredths a second.
    pub fn admit(&mut self, price: u64, part: u64, now: u64) -> Admission {
        self.demanded = self.demanded.saturating_add(price);
        self.admit_again(price, part, now)
    }

    /// The same for a request that has been looked at before.
    pub fn admit_again(&mut self, price: u64, part: u64, now: u64) -> Admission {
        if now >= self.valid_to && self.balance > 0 {
            self.balance = 0;
        }
        if let Some(since) = self.alone_since {
            self.add_part(part, price, since, now);
        }
        if self.balance > 0 {
            self.balance -= to_signed(price);
            let is_low = self.balance < to_signed(self.granted / 2);
            let is_due = is_low || self.alone_since.is_some();
            let asks = is_due && self.asked_at.is_none() && now >= self.ask_from;
            return Admission::Admitted(asks.then(|| self.begin(price, now)));
        }
        if self.alone_since.is_some() {
            // Nobody is held up by a keeper that may still be silent.
            return Admission::Refused { retry_after_micros: self.positive_in(part) };
        }
        match self.asked_at {
            Some(_) => Admission::Wait,
            None if now >= self.ask_from => Admission::Ask(self.begin(price, now)),
            None => Admission::Refused { retry_after_micros: (self.ask_from - now).max(1) },
        }
    }

    /// What to ask the keeper that did not answer, if it is time for that.
    pub fn ask_once_more(&mut self, price: u64, now: u64) -> Option<Ask> {
        let is_due = self.alone_since.is_some() && self.asked_at.is_none() && now >= self.ask_from;
        is_due.then(|| self.begin(price, now))
    }

    /// Takes the keeper's answer.
    pub fn answered(&mut self, grant: Grant, now: u64) {
        let asked_at = self.asked_at.take().unwrap_or(now);
        self.round_trip_micros = now.saturating_sub(asked_at);
        self.alone_since = None;
        self.balance = self.balance.saturating_add(to_signed(grant.units));
        if grant.units > 0 {
            (self.granted, self.valid_to) = (grant.units, now + VALID_MICROS);
        }
        self.ask_from = if self.balance > 0 { now } else { now + grant.ask_again_micros };
        if grant.units == 0 {
            self.ask_from = now + grant.ask_again_micros;
        }
    }

    /// Notes that the keeper did not answer.
    pub fn unanswered(&mut self, now: u64) {
        self.asked_at = None;
        self.alone_since.get_or_insert(now);
        self.ask_from = now + RETRY_MICROS;
    }

    /// Corrects the price of a request that was admitted by an estimate.
    pub fn settle(&mut self, estimate: u64, price: u64) {
        self.balance = self.balance.saturating_add(to_signed(estimate)).saturating_sub(to_signed(price));
    }

    /// Whether the keeper is being asked.
    pub fn is_asking(&self) -> bool {
        self.asked_at.is_some()
    }

    /// The hundredths that are left; below zero: owed.
    pub fn balance(&self) -> i64 {
        self.balance
    }

    fn begin(&mut self, price: u64, now: u64) -> Ask {
        let elapsed = now.saturating_sub(self.counted_from).max(1);
        let expected = u128::from(self.demanded) * u128::from(AHEAD_MICROS + self.round_trip_micros);
        let expected = u64::try_from(expected / u128::from(elapsed)).unwrap_or(u64::MAX);
        (self.demanded, self.counted_from) = (0, now);
        self.asked_at = Some(now);
        let owed = self.balance.min(0).unsigned_abs();
        let wanted = owed.saturating_add(expected.max(price)).min(HUNDREDTHS_MAX);
        Ask { wanted, least: price.min(HUNDREDTHS_MAX), round_trip_micros: self.round_trip_micros }
    }

    /// Adds the part of the rate that this core has by itself.
    fn add_part(&mut self, part: u64, price: u64, since: u64, now: u64) {
        let elapsed = now.saturating_sub(since);
        let more = u128::from(part) * u128::from(elapsed) / u128::from(MICROS_PER_SECOND);
        if more == 0 {
            return;
        }
        let of_interval = u128::from(part) * u128::from(POOL_MICROS) / u128::from(MICROS_PER_SECOND);
        let full = to_signed(u64::try_from(of_interval).unwrap_or(u64::MAX).max(price.min(part)));
        let more = to_signed(u64::try_from(more).unwrap_or(u64::MAX));
        if self.balance < full {
            self.balance = self.balance.saturating_add(more).min(full);
        }
        self.valid_to = now + VALID_MICROS;
        self.alone_since = Some(now);
    }

    /// In how many microseconds the balance is positive by the own part of the rate alone.
    fn positive_in(&self, part: u64) -> u64 {
        let missing = u128::from(self.balance.min(0).unsigned_abs() + 1);
        let micros = (missing * u128::from(MICROS_PER_SECOND)).checked_div(u128::from(part));
        micros.map_or(MICROS_PER_SECOND, |micros| u64::try_from(micros).unwrap_or(u64::MAX)).max(1)
    }
}

fn to_signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(units: u64) -> Grant {
        Grant { units, ask_again_micros: 4_000 }
    }

    #[test]
    fn requests_are_admitted_by_what_was_leased() {
        let mut lease = Lease::new(0, 0);
        let Admission::Ask(ask) = lease.admit(500, 0, 0) else { panic!("nothing was leased") };
        assert_eq!((ask.least, ask.round_trip_micros), (500, 0));
        assert_eq!(lease.admit(500, 0, 100), Admission::Wait);
        lease.answered(granted(1_200), 1_000);
        assert_eq!(lease.admit_again(500, 0, 1_000), Admission::Admitted(None));
        let Admission::Admitted(Some(ask)) = lease.admit_again(500, 0, 1_000) else { panic!("the balance is low") };
        assert_eq!(ask.round_trip_micros, 1_000);
        assert_eq!(lease.admit(500, 0, 1_100), Admission::Admitted(None), "one asking is under way");
        assert_eq!(lease.balance(), -300);
        assert_eq!(lease.admit(500, 0, 1_200), Admission::Wait);
        lease.answered(granted(0), 1_300);
        assert_eq!(lease.admit_again(500, 0, 1_300), Admission::Refused { retry_after_micros: 4_000 });
        let Admission::Ask(ask) = lease.admit(500, 0, 5_300) else { panic!("it is time to ask") };
        assert_eq!(ask.wanted.min(800), 800, "what is owed, and the next request");
        lease.answered(granted(800), 5_400);
        lease.settle(500, 100);
        assert_eq!(lease.balance(), 900);
        assert!(matches!(lease.admit(500, 0, 5_400 + VALID_MICROS), Admission::Ask(_)), "what was leased is void");
    }

    #[test]
    fn without_an_answer_a_core_has_its_part_of_the_rate() {
        let mut lease = Lease::new(0, 0);
        assert!(matches!(lease.admit(100, 10_000, 0), Admission::Ask(_)));
        lease.unanswered(250_000);
        let mut admitted = 0;
        let mut asked = 0;
        for millis in 250..1_250 {
            let now = millis * 1_000;
            match lease.admit(100, 10_000, now) {
                Admission::Admitted(ask) => {
                    admitted += 1;
                    if ask.is_some() {
                        asked += 1;
                        lease.unanswered(now + 100);
                    }
                }
                Admission::Refused { retry_after_micros } => assert!(retry_after_micros <= 20_000),
                other => panic!("{other:?}"),
            }
            if lease.ask_once_more(100, now).is_some() {
                asked += 1;
                lease.unanswered(now + 100);
            }
        }
        assert!((98..=102).contains(&admitted), "{admitted} of 100 units");
        assert_eq!(asked, 3);
        assert!(lease.ask_once_more(100, 3_000_000).is_some());
        lease.answered(granted(100), 3_001_000);
        assert!(lease.ask_once_more(100, 9_000_000).is_none(), "the keeper is there again");
    }
}
