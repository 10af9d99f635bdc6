//! Tablets: the second source of placement. The ring of tokens is cut into tablets for each table by itself, and the
//! metadata say which nodes have each.
//!
//! A tablet is a contiguous range of tokens of one table, and the unit that splits, merges and moves. All rows of a
//! partition key are in one tablet. Within a node the tokens of a tablet are spread over the cores as those of a ring
//! are, so that drivers that know cores find them, and one tablet keeps all cores of its nodes busy.
//!
//! 1. A table of a keyspace with tablets gets them when it is created ([`TabletMap`], in an entry of the metadata log).
//! 2. To split a tablet, or to merge two with the same replicas, changes nothing about who has which data: it is one
//!    entry, and no data is copied.
//! 3. A tablet gets other replicas by an operation ([`crate::metadata::Operation`]): its *goal* is set, whoever gains
//!    it fetches it, data is read from the goal, and then the goal becomes the replicas. There are goals only while an
//!    operation is under way, and all belong to it.
//! 4. A table that follows the ring gets tablets that are where it is, ranges of the ring: that is one entry too. The
//!    other way round what the ring says is the goal of an operation, after which the table has no tablets any more.
//! 5. What is to be split, merged or moved is planned by [`planner`], from the sizes and loads that nodes report.
//!
//! Invariants: tablets of a table are in the order of their ends, which are distinct, and the last has no end; all
//! tablets of a table have as many replicas; no node is twice among the replicas or the goal of a tablet.

pub mod load;
pub mod planner;

use model::token::RingPosition;
use model::{RingToken, TokenRange};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// Most tablets of a table.
pub const TABLETS_MAX: usize = model::tablets::TABLETS_MAX as usize;

/// The tablets of one table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TabletMap {
    /// In the order of their ranges; never empty.
    pub tablets: Vec<Tablet>,
}

/// A range of tokens of one table, and its replicas.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tablet {
    /// The last token of it, of Murmur3Partitioner; `None` if it ends with the ring. It begins after the end of the
    /// tablet before it.
    pub until: Option<i64>,
    /// The host ids of the nodes that have it.
    pub replicas: Vec<Uuid>,
    /// The host ids of the nodes that are going to have it once the operation under way has ended; `None` if that does
    /// not change them.
    pub goal: Option<Vec<Uuid>>,
}

/// The tablets of all tables at one epoch, and by which of their replicas data is read and written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tablets {
    /// By the tables' ids.
    pub maps: BTreeMap<[u8; 16], Arc<TabletMap>>,
    /// The tables that are going to follow the ring: their goal is what the ring says.
    pub to_ring: BTreeSet<[u8; 16]>,
    /// What goals mean.
    pub goals: Goals,
}

/// What the goals of tablets mean for requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Goals {
    /// Data is read from the replicas, and written to those of the goal as well.
    #[default]
    Pending,
    /// Data is read from those of the goal, and written to the replicas as well.
    Read,
    /// Data is read from and written to those of the goal: whoever loses a tablet is down for good.
    Only,
}

/// A change of the tablets of one table.
///
/// The order of variants and fields is part of the encoding: new ones come at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TabletChange {
    /// The table has these tablets from now on, and none of before.
    Set(TabletMap),
    /// The table has no tablets any more.
    Drop,
    /// The tablet that ends at `until` is cut in two: the first ends at `at`.
    Split {
        /// Its end.
        until: Option<i64>,
        /// The end of the first of the two.
        at: i64,
    },
    /// The tablet that ends at this token becomes one with the next.
    Merge {
        /// The end of the first of the two.
        until: i64,
    },
    /// The tablet that ends at `until` is going to have these replicas, by the operation that begins with this entry.
    Move {
        /// Its end.
        until: Option<i64>,
        /// The host ids of its replicas to be.
        goal: Vec<Uuid>,
    },
    /// The table is going to follow the ring, by the change of replication that begins with this entry.
    ToRing,
}

/// Changes of the tablets of one table, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TabletsUpdate {
    /// The table's id.
    pub table: [u8; 16],
    /// The changes.
    pub changes: Vec<TabletChange>,
}

/// Why tablets cannot be changed so. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TabletError {
    /// The table has no tablets.
    NoTablets,
    /// No tablet ends there.
    NoSuchTablet(Option<i64>),
    /// The token does not lie within the tablet, or is its end.
    NotWithin(i64),
    /// The two tablets do not have the same replicas, or one of them is being moved.
    NotAlike(i64),
    /// The table would have more tablets than [`TABLETS_MAX`], or none.
    Count(usize),
    /// The tablets break a rule of [`TabletMap`]: order, numbers of replicas, a node twice.
    Malformed,
}

impl std::fmt::Display for TabletError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TabletError::NoTablets => f.write_str("the table has no tablets"),
            TabletError::NoSuchTablet(Some(until)) => write!(f, "no tablet ends at token {until}"),
            TabletError::NoSuchTablet(None) => f.write_str("no tablet ends with the ring"),
            TabletError::NotWithin(at) => write!(f, "token {at} is not within the tablet"),
            TabletError::NotAlike(until) => {
                write!(f, "the tablets on both sides of token {until} do not have the same replicas, or one moves")
            }
            TabletError::Count(count) => write!(f, "a table has between 1 and {TABLETS_MAX} tablets, not {count}"),
            TabletError::Malformed => f.write_str("the tablets are not in order, or their replicas are not"),
        }
    }
}

impl std::error::Error for TabletError {}

impl TabletMap {
    /// Tablets of equal parts of the ring, each with the replicas that `replicas` gives for its number.
    ///
    /// # Panics
    /// If `count` is 0 or more than [`TABLETS_MAX`].
    pub fn even(count: usize, mut replicas: impl FnMut(usize) -> Vec<Uuid>) -> TabletMap {
        assert!((1..=TABLETS_MAX).contains(&count), "{count} tablets");
        let part = (1u128 << 64) / count as u128;
        let end = |number: usize| (i64::MIN as i128 + (part * (number as u128 + 1)) as i128 - 1) as i64;
        let tablet = |number: usize| Tablet {
            until: (number + 1 < count).then(|| end(number)),
            replicas: replicas(number),
            goal: None,
        };
        TabletMap { tablets: (0..count).map(tablet).collect() }
    }

    /// The position of the tablet that has a token.
    pub fn at(&self, token: i64) -> usize {
        self.tablets.partition_point(|tablet| tablet.until.is_some_and(|until| until < token))
    }

    /// The keys of the tablet at a position.
    pub fn range(&self, at: usize) -> TokenRange {
        let position = |token: i64| RingPosition { token: RingToken::Murmur3(token), is_after: true };
        let start = at.checked_sub(1).and_then(|before| self.tablets[before].until);
        TokenRange { start: start.map(position), end: self.tablets[at].until.map(position) }
    }

    /// The position of the tablet that ends at a token, or with the ring.
    fn ending_at(&self, until: Option<i64>) -> Result<usize, TabletError> {
        let at = match until {
            Some(until) => self.at(until),
            None => self.tablets.len().saturating_sub(1),
        };
        let is_it = self.tablets.get(at).is_some_and(|tablet| tablet.until == until);
        is_it.then_some(at).ok_or(TabletError::NoSuchTablet(until))
    }

    /// Makes one change of tablets that stay those of their table.
    fn change(&mut self, change: &TabletChange) -> Result<(), TabletError> {
        match change {
            TabletChange::Set(_) | TabletChange::Drop | TabletChange::ToRing => Ok(()),
            TabletChange::Split { until, at } => {
                let place = self.ending_at(*until)?;
                let start = place.checked_sub(1).and_then(|before| self.tablets[before].until);
                let is_within = start.is_none_or(|start| start < *at) && until.is_none_or(|until| *at < until);
                if !is_within || *at == i64::MAX {
                    return Err(TabletError::NotWithin(*at));
                }
                if self.tablets.len() == TABLETS_MAX {
                    return Err(TabletError::Count(TABLETS_MAX + 1));
                }
                let first = Tablet { until: Some(*at), ..self.tablets[place].clone() };
                self.tablets.insert(place, first);
                Ok(())
            }
            TabletChange::Merge { until } => {
                let place = self.ending_at(Some(*until))?;
                let [first, second] = &self.tablets[place..place + 2] else {
                    return Err(TabletError::NoSuchTablet(Some(*until)));
                };
                let same = |a: &[Uuid], b: &[Uuid]| a.len() == b.len() && a.iter().all(|node| b.contains(node));
                if first.goal.is_some() || second.goal.is_some() || !same(&first.replicas, &second.replicas) {
                    return Err(TabletError::NotAlike(*until));
                }
                self.tablets.remove(place);
                Ok(())
            }
            TabletChange::Move { until, goal } => {
                let place = self.ending_at(*until)?;
                let tablet = &mut self.tablets[place];
                tablet.goal = (tablet.replicas != *goal).then(|| goal.clone());
                Ok(())
            }
        }
    }

    /// Whether the invariants hold, of the replicas and of the goals.
    pub(crate) fn check(&self) -> Result<(), TabletError> {
        if self.tablets.is_empty() || self.tablets.len() > TABLETS_MAX {
            return Err(TabletError::Count(self.tablets.len()));
        }
        let in_order = self.tablets.windows(2).all(|pair| match (pair[0].until, pair[1].until) {
            (Some(first), Some(second)) => first < second,
            (Some(_), None) => true,
            (None, _) => false,
        });
        let ends = self.tablets.last().is_some_and(|last| last.until.is_none());
        let is_set = |nodes: &[Uuid]| (1..nodes.len()).all(|at| !nodes[..at].contains(&nodes[at]));
        let (now, next) = (self.tablets[0].replicas.len(), self.tablets[0].next().len());
        let are_alike = self.tablets.iter().all(|tablet| {
            tablet.replicas.len() == now
                && tablet.next().len() == next
                && is_set(&tablet.replicas)
                && is_set(tablet.next())
        });
        (in_order && ends && are_alike).then_some(()).ok_or(TabletError::Malformed)
    }
}

impl Tablet {
    /// The host ids of the nodes that have it once the operation under way has ended.
    pub fn next(&self) -> &[Uuid] {
        self.goal.as_ref().unwrap_or(&self.replicas)
    }
}

impl TabletsUpdate {
    /// The tablets of its table after the changes, `None` if it has none; `before` are those that it has now.
    ///
    /// # Errors
    /// The changes do not fit them.
    pub fn applied(&self, before: Option<&TabletMap>) -> Result<Option<TabletMap>, TabletError> {
        let mut map = before.cloned();
        for change in &self.changes {
            match change {
                TabletChange::Set(tablets) => map = Some(tablets.clone()),
                TabletChange::Drop => map = None,
                change => map.as_mut().ok_or(TabletError::NoTablets)?.change(change)?,
            }
        }
        map.as_ref().map_or(Ok(()), TabletMap::check)?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests;
