//! Points in time as openraft counts them.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A point on the shard's monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(pub(crate) runtime::Instant);

impl openraft::Instant for Moment {
    fn now() -> Moment {
        Moment(runtime::now())
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.after(duration))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, duration: Duration) -> Moment {
        let nanos = duration.as_nanos().min(u128::from(u64::MAX)) as u64;
        Moment(runtime::Instant(self.0.0.saturating_sub(nanos)))
    }
}

impl SubAssign<Duration> for Moment {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Moment> for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        self.0.since(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;
    use runtime::Instant;
    use std::time::Duration;

    #[test]
    fn sums_and_differences_saturate() {
        let second = Duration::from_secs(1);
        let mut moment = Moment(Instant(1_500_000_000));
        moment -= second;
        assert_eq!(moment, Moment(Instant(500_000_000)));
        assert_eq!(moment - second, Moment(Instant(0)));
        moment += second;
        assert_eq!(moment - Moment(Instant(0)), Duration::from_millis(1_500));
        assert_eq!(Moment(Instant(0)) - moment, Duration::ZERO);
        assert_eq!(Moment(Instant(u64::MAX)) + second, Moment(Instant(u64::MAX)));
    }
}
