//! What a request needs of the replicas of one side, and what of it has come.

use crate::consistency::{Levels, Requirement, Scope};
use crate::topology::DataCenter;

/// What a request needs, and what of it has come.
#[derive(Clone, Debug)]
pub(super) struct Count {
    pub(super) requirement: Requirement,
    /// Answers that count.
    pub(super) received: u32,
    /// Replicas that were asked, and neither answered nor failed, and whose answers count.
    open: u32,
    /// For EACH_QUORUM.
    quorums: Vec<OpenQuorum>,
}

/// The majority of one data centre under way.
#[derive(Clone, Debug)]
struct OpenQuorum {
    data_center: Option<DataCenter>,
    quorum: u32,
    missing: u32,
    open: u32,
}

impl Count {
    pub(super) fn new(requirement: Requirement) -> Count {
        Count { requirement, received: 0, open: 0, quorums: Vec::new() }
    }

    /// With the majorities of data centres, if it needs them.
    pub(super) fn of(requirement: Requirement, levels: &Levels) -> Count {
        let open = |(data_center, quorum)| OpenQuorum { data_center, quorum, missing: quorum, open: 0 };
        let quorums = match requirement.scope {
            Scope::Each => levels.quorums().map(open).collect(),
            Scope::All | Scope::Local => Vec::new(),
        };
        Count { quorums, ..Count::new(requirement) }
    }

    /// The same before any replica was asked.
    pub(super) fn unasked(&self) -> Count {
        Count { quorums: self.quorums.iter().map(OpenQuorum::unasked).collect(), ..Count::new(self.requirement) }
    }

    #[inline]
    pub(super) fn ask(&mut self, data_center: DataCenter) {
        self.open += u32::from(self.requirement.counts(data_center));
        self.in_quorum(data_center, |quorum| quorum.open += 1);
    }

    /// An answer has come.
    #[inline]
    pub(super) fn answered(&mut self, data_center: DataCenter) {
        self.received += u32::from(self.requirement.counts(data_center));
        self.in_quorum(data_center, |quorum| quorum.missing = quorum.missing.saturating_sub(1));
    }

    /// A replica is not waited for any more.
    #[inline]
    pub(super) fn close(&mut self, data_center: DataCenter) {
        self.open -= u32::from(self.requirement.counts(data_center));
        self.in_quorum(data_center, |quorum| quorum.open -= 1);
    }

    #[inline]
    fn in_quorum(&mut self, data_center: DataCenter, change: impl FnOnce(&mut OpenQuorum)) {
        if let Some(quorum) = self.quorums.iter_mut().find(|quorum| quorum.data_center == Some(data_center)) {
            change(quorum);
        }
    }

    #[inline]
    pub(super) fn is_reached(&self) -> bool {
        match self.requirement.scope {
            Scope::Each => self.quorums.iter().all(|quorum| quorum.missing == 0),
            Scope::All | Scope::Local => self.received >= self.requirement.block_for,
        }
    }

    pub(super) fn is_out_of_reach(&self) -> bool {
        match self.requirement.scope {
            Scope::Each => self.quorums.iter().any(|quorum| quorum.missing > quorum.open),
            Scope::All | Scope::Local => self.received + self.open < self.requirement.block_for,
        }
    }
}

impl OpenQuorum {
    /// The same majority before any replica was asked.
    fn unasked(&self) -> OpenQuorum {
        OpenQuorum { data_center: self.data_center, quorum: self.quorum, missing: self.quorum, open: 0 }
    }
}
