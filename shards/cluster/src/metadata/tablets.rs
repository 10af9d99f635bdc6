//! Tablets in the metadata: their changes, and the goals that an operation reaches.
//!
//! A goal is set by the entry that begins an operation, and is one of it. When the operation is settled, all goals
//! become the replicas; when it is undone, they are given up. Data is read by the replicas until the operation has
//! switched, and by the goals from then on.
//!
//! An operation that only moves tablets ([`OperationKind::Tablets`]) makes room for any other one as long as data is
//! fetched: nothing has changed yet for those who read.

use super::{
    Command, DecodeError, Member, MemberState, Metadata, OperationKind, Rejected, Stage, UpdatedTarget, decode, encode,
};
use crate::tablets::{Goals, TabletChange, TabletError, TabletMap, Tablets, TabletsUpdate};
use std::sync::Arc;
use uuid::Uuid;

impl TabletMap {
    /// The encoded form: a byte for its version, then postcard's encoding of the fields in order.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes what [`TabletMap::encode`] gave.
    ///
    /// # Errors
    /// The bytes are of another version, or of no such value.
    pub fn decode(bytes: &[u8]) -> Result<TabletMap, DecodeError> {
        let map: TabletMap = decode(bytes)?;
        map.check().map(|()| map).map_err(|_| DecodeError::Malformed)
    }
}

impl Metadata {
    /// The tablets of all tables, and by which of their replicas data is read and written now.
    pub fn placed_tablets(&self) -> Tablets {
        let under_way = self.operations.values().find(|operation| operation.stage != Stage::Settled);
        let goals = match under_way {
            Some(operation) if operation.stage == Stage::Switched => match operation.kind.takes_out() {
                Some(_) => Goals::Only,
                None => Goals::Read,
            },
            _ => Goals::Pending,
        };
        Tablets { maps: self.tablets.clone(), to_ring: self.to_ring.clone(), goals }
    }

    /// Whether all tablets keep the rules of [`TabletMap`], and name members alone.
    pub fn has_sound_tablets(&self) -> bool {
        self.tablets.values().all(|map| map.check().is_ok() && is_of(self, map))
    }

    /// Changes tablets, together with the schema or the beginning of an operation.
    pub(super) fn change_tablets(&mut self, with: Option<&Command>, updates: &[TabletsUpdate]) -> Result<(), Rejected> {
        let mut changed = self.clone();
        match with {
            None => {}
            Some(command @ (Command::Schema(_) | Command::Begin { .. } | Command::Replicate { .. })) => {
                command.apply(&mut changed)?;
            }
            Some(_) => return Err(Rejected::Tablets(TabletError::Malformed)),
        }
        let is_move = |change: &TabletChange| matches!(change, TabletChange::Move { .. } | TabletChange::ToRing);
        let moves = |update: &TabletsUpdate| update.changes.iter().any(is_move);
        // A table that gets tablets where it is must be where the ring says, and nowhere else.
        let is_of_keyspace = matches!(with, Some(Command::Schema(update)) if update.target == UpdatedTarget::Keyspace);
        let under_way = self.operations.values().find(|_| is_of_keyspace && !updates.is_empty());
        if let Some(operation) = under_way {
            return Err(Rejected::OperationUnderWay(Box::new(operation.kind.clone())));
        }
        if updates.iter().any(moves) && !matches!(with, Some(Command::Begin { .. } | Command::Replicate { .. })) {
            return Err(Rejected::Tablets(TabletError::Malformed));
        }
        for update in updates {
            let before = changed.tablets.get(&update.table);
            match update.applied(before.map(|map| &**map)).map_err(Rejected::Tablets)? {
                Some(map) if is_of(&changed, &map) => _ = changed.tablets.insert(update.table, Arc::new(map)),
                Some(_) => return Err(Rejected::Tablets(TabletError::Malformed)),
                None => {
                    changed.tablets.remove(&update.table);
                    changed.to_ring.remove(&update.table);
                }
            }
            if update.changes.contains(&TabletChange::ToRing) {
                changed.to_ring.insert(update.table);
            }
        }
        *self = changed;
        Ok(())
    }

    /// The goals become the replicas.
    pub(super) fn reach_goals(&mut self) {
        for table in std::mem::take(&mut self.to_ring) {
            self.tablets.remove(&table);
        }
        for map in self.tablets.values_mut().filter(|map| has_goals(map)) {
            for tablet in &mut Arc::make_mut(map).tablets {
                if let Some(goal) = tablet.goal.take() {
                    tablet.replicas = goal;
                }
            }
        }
    }

    /// Forgets the goals of an operation that is undone. Removals that go on beside it keep theirs.
    pub(super) fn give_up_goals(&mut self) {
        let gone: Vec<Uuid> = self.operations.values().filter_map(|operation| operation.kind.host_id()).collect();
        for map in self.tablets.values_mut().filter(|map| has_goals(map)) {
            for tablet in &mut Arc::make_mut(map).tablets {
                if !tablet.replicas.iter().any(|node| gone.contains(node)) {
                    tablet.goal = None;
                }
            }
        }
    }

    /// Undoes an operation that only moves tablets and still fetches.
    pub(super) fn stop_moving_tablets(&mut self) {
        let is_one = |kind: &OperationKind, stage: Stage| *kind == OperationKind::Tablets && stage == Stage::Fetching;
        let count = self.operations.len();
        self.operations.retain(|_, operation| !is_one(&operation.kind, operation.stage));
        if self.operations.len() < count {
            self.give_up_goals();
        }
    }

    /// Replaces a node that is no member any more among replicas and goals: by another one of its data centre, which
    /// lacks the data until it is repaired, or by none if there are too few. Tablets are moved away from a node before
    /// it is removed, so only a removal that is forced finds something to do. All tablets of a table have as many
    /// replicas as each other afterwards too: those that lack a candidate have all nodes of the data centre.
    pub(super) fn forget_in_tablets(&mut self, host_id: Uuid, data_center: &str) {
        let is_candidate = |member: &Member| member.data_center == data_center && member.state != MemberState::Joining;
        let there = self.members.iter().filter(|(_, member)| is_candidate(member));
        let there: Vec<Uuid> = there.map(|(id, _)| *id).collect();
        let has_it = |map: &TabletMap| {
            map.tablets.iter().any(|tablet| tablet.replicas.contains(&host_id) || tablet.next().contains(&host_id))
        };
        for map in self.tablets.values_mut().filter(|map| has_it(map)) {
            for (at, tablet) in Arc::make_mut(map).tablets.iter_mut().enumerate() {
                let goal = tablet.goal.as_mut();
                for nodes in [Some(&mut tablet.replicas), goal].into_iter().flatten() {
                    let Some(place) = nodes.iter().position(|node| *node == host_id) else { continue };
                    let free: Vec<Uuid> = there.iter().copied().filter(|id| !nodes.contains(id)).collect();
                    match free.is_empty() {
                        true => _ = nodes.remove(place),
                        false => nodes[place] = free[at % free.len()],
                    }
                }
            }
        }
    }
}

fn has_goals(map: &TabletMap) -> bool {
    map.tablets.iter().any(|tablet| tablet.goal.is_some())
}

/// Whether all nodes that tablets name are members.
fn is_of(metadata: &Metadata, map: &TabletMap) -> bool {
    let known = |nodes: &[Uuid]| nodes.iter().all(|node| metadata.members.contains_key(node));
    map.tablets.iter().all(|tablet| known(&tablet.replicas) && known(tablet.next()))
}

#[cfg(test)]
#[path = "tablets_tests.rs"]
pub(crate) mod tests;
