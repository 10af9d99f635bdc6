//! When deletions may be forgotten: the table option `tombstone_gc`, ScyllaDB's name.
//!
//! * `timeout`, the default: `gc_grace_seconds` after they were made, as in Cassandra.
//! * `repair`: once a repair has succeeded on all replicas that began after they were made. A deletion that a replica
//!   has missed then never makes what it deletes come back, however long that replica was away.
//! * `immediate`: at once; for tables in which data only expires.
//! * `disabled`: never.
//!
//! [`RepairedRanges`] is what a node knows of repairs of one table: for each part of the ring the second before which
//! everything has reached all replicas.
//!
//! Invariants: what is not known to be repaired is not; a repair that is noted never makes anything less repaired;
//! where there would be more than [`STEPS_MAX`] parts, neighbours count as repaired at the earlier one's second.

use crate::partitioner::Partitioner;
use crate::token::{RingToken, Token, TokenRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most parts of the ring with seconds of their own.
pub const STEPS_MAX: usize = 16 << 10;
/// The second of what was never repaired, and of deletions that are never forgotten.
const NEVER: i64 = i64::MIN;
/// ScyllaDB's default of `propagation_delay_in_seconds`.
const DELAY_SECONDS: u32 = 3600;

/// When deletions may be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GcMode {
    /// After `gc_grace_seconds`.
    Timeout,
    /// After a repair.
    Repair,
    /// At once.
    Immediate,
    /// Never.
    Disabled,
}

impl GcMode {
    const ALL: [GcMode; 4] = [GcMode::Timeout, GcMode::Repair, GcMode::Immediate, GcMode::Disabled];

    /// Its name in CQL.
    pub fn name(self) -> &'static str {
        match self {
            GcMode::Timeout => "timeout",
            GcMode::Repair => "repair",
            GcMode::Immediate => "immediate",
            GcMode::Disabled => "disabled",
        }
    }
}

/// The table option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TombstoneGc {
    /// The mode.
    pub mode: GcMode,
    /// How much older than a repair a deletion must be: clocks of nodes differ, and writes travel.
    pub delay_seconds: u32,
}

impl Default for TombstoneGc {
    fn default() -> TombstoneGc {
        TombstoneGc { mode: GcMode::Timeout, delay_seconds: DELAY_SECONDS }
    }
}

impl TombstoneGc {
    /// The option as it is written in CQL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_map<'m>(pairs: impl IntoIterator<Item = (&'m str, &'m str)>) -> Result<TombstoneGc, String> {
        let mut option = TombstoneGc::default();
        for (name, value) in pairs {
            match name {
                "mode" => {
                    let found = GcMode::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(value));
                    option.mode = found.ok_or_else(|| {
                        format!(
                            "Invalid value '{value}' for 'mode' of tombstone_gc: must be timeout, repair, immediate or \
                             disabled"
                        )
                    })?;
                }
                "propagation_delay_in_seconds" => {
                    let seconds = value.parse::<u32>().ok().filter(|seconds| i32::try_from(*seconds).is_ok());
                    option.delay_seconds = seconds.ok_or_else(|| {
                        format!(
                            "Invalid value '{value}' for 'propagation_delay_in_seconds' of tombstone_gc: must be a \
                             number of seconds"
                        )
                    })?;
                }
                other => return Err(format!("Unknown option '{other}' of tombstone_gc")),
            }
        }
        Ok(option)
    }

    /// The option as a map of CQL.
    pub fn to_map(self) -> BTreeMap<String, String> {
        let mut map = BTreeMap::from([("mode".to_owned(), self.mode.name().to_owned())]);
        if self.mode == GcMode::Repair {
            map.insert("propagation_delay_in_seconds".into(), self.delay_seconds.to_string());
        }
        map
    }
}

/// Before which second deletions of a table may be forgotten.
#[derive(Clone, Debug)]
pub enum GcBefore {
    /// This one.
    At(i64),
    /// Once that is repaired.
    Repaired {
        /// What is repaired.
        ranges: Arc<RepairedRanges>,
        /// How much older than the repair.
        delay_seconds: i64,
    },
}

impl GcBefore {
    /// That of a table with this option and these `gc_grace_seconds`, of which `ranges` are known to be repaired.
    pub fn of(
        option: TombstoneGc,
        gc_grace_seconds: i32,
        ranges: Option<&Arc<RepairedRanges>>,
        now_in_seconds: i64,
    ) -> GcBefore {
        let TombstoneGc { mode, delay_seconds } = option;
        match (mode, ranges) {
            (GcMode::Timeout, _) => GcBefore::At(now_in_seconds.saturating_sub(gc_grace_seconds.into())),
            (GcMode::Immediate, _) => GcBefore::At(now_in_seconds),
            (GcMode::Disabled, _) | (GcMode::Repair, None) => GcBefore::At(NEVER),
            (GcMode::Repair, Some(ranges)) => {
                GcBefore::Repaired { ranges: ranges.clone(), delay_seconds: delay_seconds.into() }
            }
        }
    }

    /// That of a partition.
    pub fn at(&self, token: Token, key: &[u8]) -> i64 {
        match self {
            GcBefore::At(second) => *second,
            GcBefore::Repaired { ranges, delay_seconds } => before(ranges.at(token, key), *delay_seconds),
        }
    }

    /// No partition has an earlier one.
    pub fn earliest(&self) -> i64 {
        self.most(|seconds| seconds.min())
    }

    /// No partition has a later one.
    pub fn latest(&self) -> i64 {
        self.most(|seconds| seconds.max())
    }

    fn most(&self, of: impl FnOnce(&mut dyn Iterator<Item = i64>) -> Option<i64>) -> i64 {
        match self {
            GcBefore::At(second) => *second,
            GcBefore::Repaired { ranges, delay_seconds } => {
                before(of(&mut ranges.steps.iter().map(|step| step.second)).unwrap_or(NEVER), *delay_seconds)
            }
        }
    }
}

fn before(repaired: i64, delay_seconds: i64) -> i64 {
    if repaired == NEVER { NEVER } else { repaired.saturating_sub(delay_seconds) }
}

/// A part of the ring, up to where the next one begins.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Step {
    /// It begins behind all keys of this token.
    after: RingToken,
    /// When it was last repaired, seconds since 1970.
    second: i64,
}

/// Which parts of the ring are repaired, and since when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairedRanges {
    /// By their tokens; the first one begins with the ring, and no two neighbours have the same second.
    steps: Vec<Step>,
}

impl RepairedRanges {
    /// Nothing is.
    pub fn none(partitioner: Partitioner) -> RepairedRanges {
        RepairedRanges { steps: vec![Step { after: partitioner.minimum(), second: NEVER }] }
    }

    /// Notes that everything in a range that was written before this second has reached all replicas.
    pub fn add(&mut self, range: &TokenRange, second: i64) {
        let begin = range.start.as_ref().map_or(0, |start| self.split(&start.token));
        let end = range.end.as_ref().map_or(self.steps.len(), |end| self.split(&end.token));
        self.steps.get_mut(begin..end).into_iter().flatten().for_each(|step| step.second = step.second.max(second));
        self.steps.dedup_by_key(|step| step.second);
        while self.steps.len() > STEPS_MAX {
            self.coarsen();
        }
    }

    /// The second before which everything with a key has reached all replicas.
    pub fn at(&self, token: Token, key: &[u8]) -> i64 {
        let begun = self.steps.partition_point(|step| step.after.is_before_key(token, key));
        self.steps[begun.saturating_sub(1)].second
    }

    /// Has a step begin behind a token, and returns which one does.
    fn split(&mut self, after: &RingToken) -> usize {
        match self.steps.binary_search_by(|step| step.after.cmp(after)) {
            Ok(at) => at,
            // Nothing is before the first step.
            Err(0) => 0,
            Err(at) => {
                let second = self.steps[at - 1].second;
                self.steps.insert(at, Step { after: after.clone(), second });
                at
            }
        }
    }

    /// Joins each two neighbours.
    fn coarsen(&mut self) {
        let join = |pair: &[Step]| Step {
            after: pair[0].after.clone(),
            second: pair.iter().map(|step| step.second).min().unwrap_or(NEVER),
        };
        self.steps = self.steps.chunks(2).map(join).collect();
        self.steps.dedup_by_key(|step| step.second);
    }

    /// As bytes, big-endian: of each step its second i64 and the token that it begins behind, with its length u16.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for step in &self.steps {
            let token = step.after.to_value();
            out.extend_from_slice(&step.second.to_be_bytes());
            out.extend_from_slice(&(token.len() as u16).to_be_bytes());
            out.extend_from_slice(&token);
        }
        out
    }

    /// What [`RepairedRanges::to_bytes`] gave; `None` for bytes that it does not give.
    pub fn from_bytes(partitioner: Partitioner, mut bytes: &[u8]) -> Option<RepairedRanges> {
        let mut steps = Vec::new();
        while !bytes.is_empty() {
            let (second, rest) = bytes.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (token, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let after = partitioner.token_of_value(token)?;
            steps.push(Step { after, second: i64::from_be_bytes(*second) });
            bytes = rest;
        }
        let is_whole = steps.first().is_some_and(|first| first.after == partitioner.minimum());
        let is_ordered = steps.is_sorted_by(|a, b| a.after < b.after) && steps.len() <= STEPS_MAX;
        (is_whole && is_ordered).then_some(RepairedRanges { steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::generator;

    const M3: Partitioner = Partitioner::Murmur3;

    fn range(after: i64, until: i64) -> TokenRange {
        TokenRange::between(RingToken::Murmur3(after), RingToken::Murmur3(until))
    }

    fn before(mode: GcMode, ranges: Option<&Arc<RepairedRanges>>) -> GcBefore {
        GcBefore::of(TombstoneGc { mode, delay_seconds: 10 }, 864_000, ranges, 2_000_000)
    }

    #[test]
    fn each_mode_has_its_second() {
        let mut ranges = RepairedRanges::none(M3);
        ranges.add(&range(0, 100), 1000);
        let ranges = Arc::new(ranges);
        let of = |mode, ranges: Option<&Arc<RepairedRanges>>, token| before(mode, ranges).at(Token(token), &[]);
        for ranges in [None, Some(&ranges)] {
            assert_eq!(of(GcMode::Timeout, ranges, 5), 2_000_000 - 864_000);
            assert_eq!(of(GcMode::Immediate, ranges, 5), 2_000_000);
            assert_eq!(of(GcMode::Disabled, ranges, 5), i64::MIN);
        }
        assert_eq!(of(GcMode::Repair, None, 5), i64::MIN);
        let at = |token| of(GcMode::Repair, Some(&ranges), token);
        assert_eq!([-5, 0, 1, 100, 101].map(at), [i64::MIN, i64::MIN, 990, 990, i64::MIN]);
        let before = before(GcMode::Repair, Some(&ranges));
        assert_eq!((before.earliest(), before.latest()), (i64::MIN, 990));
    }

    #[test]
    fn options_are_read_as_they_are_shown() {
        for mode in GcMode::ALL {
            let option = TombstoneGc { mode, ..TombstoneGc::default() };
            let map = option.to_map();
            let pairs = map.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(TombstoneGc::of_map(pairs), Ok(option));
        }
        let longer =
            TombstoneGc::of_map([("mode", "REPAIR"), ("propagation_delay_in_seconds", "7")]).expect("an option");
        assert_eq!(longer, TombstoneGc { mode: GcMode::Repair, delay_seconds: 7 });
        assert_eq!(longer.to_map()["propagation_delay_in_seconds"], "7");
        for (name, value) in [("mode", "never"), ("propagation_delay_in_seconds", "-1"), ("modus", "repair")] {
            assert!(TombstoneGc::of_map([(name, value)]).is_err(), "{name}");
        }
        assert!(TombstoneGc::of_map([("propagation_delay_in_seconds", "2147483648")]).is_err());
    }

    /// Against a map of single tokens.
    #[test]
    fn what_is_repaired_is_what_was_noted() {
        let mut below = generator(7);
        for _ in 0..300 {
            let (mut ranges, mut expected) = (RepairedRanges::none(M3), [i64::MIN; 32]);
            for _ in 0..below(12) {
                let (one, other) = (below(33) as i64, below(33) as i64);
                let (after, until) = (one.min(other) - 1, one.max(other) - 1);
                let second = below(6) as i64;
                let noted = match (after, until) {
                    _ if after == until => continue,
                    (-1, 31) => TokenRange::FULL,
                    (-1, until) => TokenRange { start: None, ..range(0, until) },
                    (after, 31) => TokenRange { end: None, ..range(after, 31) },
                    (after, until) => range(after, until),
                };
                ranges.add(&noted, second);
                for token in after + 1..=until {
                    expected[token as usize] = expected[token as usize].max(second);
                }
                let again = RepairedRanges::from_bytes(M3, &ranges.to_bytes()).expect("whole");
                assert_eq!(again, ranges);
            }
            let found: Vec<i64> = (0..32).map(|token| ranges.at(Token(token), &[])).collect();
            assert_eq!(found, expected, "{ranges:?}");
            assert!(ranges.steps.windows(2).all(|pair| pair[0].second != pair[1].second));
        }
    }

    #[test]
    fn steps_are_bounded_and_then_count_as_their_earliest() {
        let mut ranges = RepairedRanges::none(M3);
        ranges.add(&TokenRange::FULL, 5);
        for at in 0..STEPS_MAX as i64 {
            ranges.add(&range(at * 10, at * 10 + 5), 100 + at % 2);
            assert!(ranges.steps.len() <= STEPS_MAX);
        }
        assert!((0..STEPS_MAX as i64).all(|at| ranges.at(Token(at * 10 + 3), &[]) <= 100 + at % 2));
        assert_eq!(ranges.at(Token(i64::MIN + 5), &[]), 5, "and nothing was never repaired");
    }

    #[test]
    fn golden_bytes_of_repaired_ranges() {
        let mut ranges = RepairedRanges::none(M3);
        ranges.add(&range(258, i64::MIN), 7);
        let mut expected = i64::MIN.to_be_bytes().to_vec();
        expected.extend_from_slice(&[0, 8, 128, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(ranges.to_bytes(), expected);
        assert_eq!(RepairedRanges::from_bytes(M3, &expected), Some(ranges));
        assert!(
            (0..expected.len())
                .filter(|len| *len != 18)
                .all(|len| { RepairedRanges::from_bytes(M3, &expected[..len]).is_none() })
        );
        assert_eq!(RepairedRanges::from_bytes(M3, &expected[18..]), None, "it does not begin with the ring");
    }
}
