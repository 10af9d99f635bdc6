//! What all nodes of a cluster agree on: who its members are, and which version of the schema they serve.
//!
//! Nodes agree on a log of [`Command`]s. Each node applies the entries in order ([`Metadata::apply`]), so that all have
//! the same value after the same entry; the index of that entry is the *epoch*. A command is an effect, not a wish:
//! it fits the state that its proposer had seen, and is refused if it does not fit any more ([`Rejected`]). Its
//! proposer looks again and decides anew.
//!
//! The rows of the schema are not here: a command carries them as an encoded mutation of `system_schema`, which every
//! node applies to its own tables. [`Metadata`] has the version alone, which is enough to refuse what came too late.
//!
//! Invariants: no two members have the same address or a token in common; a host id that has left never comes back;
//! timestamps of schema changes strictly increase; tablets have goals only while an operation is under way; what tables
//! have sub-partitions is as [`crate::sub_partitions`] says.

mod command;
mod description;
mod member;
mod operation;
mod tablets;

pub use command::{Command, Rejected, SchemaUpdate, UpdatedKind, UpdatedTarget};
pub use description::{ClusterDescription, DescribedNode};
pub use member::{Member, MemberState};
pub use operation::{Operation, OperationKind, Stage};

use crate::sub_partitions::{GrowthReason, SubPartitionMap};
use crate::tablets::TabletMap;
use crate::topology::Node;
use model::{Partitioner, RingToken, ShardMap};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use uuid::Uuid;

/// The version of the encoding of [`Metadata`] and [`Command`], their first byte.
const ENCODING: u8 = 1;
/// The version of the encoding of [`Metadata`] that has truncations.
const ENCODING_WITH_TRUNCATIONS: u8 = 2;
/// The version of the encoding of [`Metadata`] that has operations.
const ENCODING_WITH_OPERATIONS: u8 = 3;
/// The version of the encoding of [`Metadata`] that has tablets.
const ENCODING_WITH_TABLETS: u8 = 4;
/// The version of the encoding of [`Metadata`] that has nodes which are emptied.
const ENCODING_WITH_EMPTIED: u8 = 5;
/// The version of the encoding of [`Metadata`] that has sub-partitions.
const ENCODING_WITH_SUB_PARTITIONS: u8 = 6;
/// The version of the encoding of [`Metadata`] that has reasons for which keys have grown.
const ENCODING_WITH_GROWTH_REASONS: u8 = 7;
/// Most members of a cluster.
pub const MEMBERS_MAX: usize = 4096;

/// What the members of a cluster agree on at one epoch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Metadata {
    /// The cluster's random id; nil before the first entry.
    pub cluster_id: Uuid,
    /// The cluster's name, which every member's configuration must have.
    pub cluster_name: String,
    /// The simple name of the partitioner, which every member's configuration must have.
    pub partitioner: String,
    /// The index of the last entry applied.
    pub epoch: u64,
    /// The epoch at which the members changed last: what requests between nodes name to say where data are.
    pub members_epoch: u64,
    /// The version of the schema.
    pub schema_version: Uuid,
    /// The timestamp of the last change of the schema, microseconds since 1970.
    pub schema_timestamp: i64,
    /// The members, by host id. Those that an entry leaves as they were are shared with the metadata before it.
    pub members: BTreeMap<Uuid, Arc<Member>>,
    /// The host ids of nodes that have left.
    pub left: BTreeSet<Uuid>,
    /// The tables that members still have to truncate, because they were down: by host id and id of the table, the
    /// epoch of the last truncation. Others take such a member for down until it has.
    #[serde(skip)]
    pub owed_truncations: BTreeMap<Uuid, BTreeMap<[u8; 16], u64>>,
    /// The operations that are under way, by the epochs at which they began.
    #[serde(skip)]
    pub operations: BTreeMap<u64, Operation>,
    /// The tablets of the tables that have some, by the tables' ids. Those that an entry leaves as they were are shared
    /// with the metadata before it.
    #[serde(skip)]
    pub tablets: BTreeMap<[u8; 16], Arc<TabletMap>>,
    /// The tables with tablets that follow the ring once the operation under way has ended.
    #[serde(skip)]
    pub to_ring: BTreeSet<[u8; 16]>,
    /// The host ids of members that are to have no tablets, by an operator's word.
    #[serde(skip)]
    pub emptied: BTreeSet<Uuid>,
    /// The sub-partitions of the tables whose number of them is not, or was not always, the one that they were created
    /// with, by the tables' ids.
    #[serde(skip)]
    pub sub_partitions: BTreeMap<[u8; 16], Arc<SubPartitionMap>>,
}

impl Default for Metadata {
    fn default() -> Metadata {
        Metadata {
            cluster_id: Uuid::nil(),
            cluster_name: String::new(),
            partitioner: String::new(),
            epoch: 0,
            members_epoch: 0,
            schema_version: Uuid::nil(),
            schema_timestamp: 0,
            members: BTreeMap::new(),
            left: BTreeSet::new(),
            owed_truncations: BTreeMap::new(),
            operations: BTreeMap::new(),
            tablets: BTreeMap::new(),
            to_ring: BTreeSet::new(),
            emptied: BTreeSet::new(),
            sub_partitions: BTreeMap::new(),
        }
    }
}

/// Why bytes are not a command or metadata of this version.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DecodeError {
    /// They begin with the number of another version of the encoding.
    Version(u8),
    /// They end early, or have a value that cannot be.
    Malformed,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Version(version) => write!(f, "cluster metadata of the unknown version {version}"),
            DecodeError::Malformed => f.write_str("malformed cluster metadata"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Metadata {
    /// Applies the entry at `epoch`. A command that is refused changes nothing but the epoch.
    ///
    /// # Errors
    /// [`Rejected`] if the command does not fit the state any more.
    pub fn apply(&mut self, epoch: u64, command: &Command) -> Result<(), Rejected> {
        self.epoch = epoch;
        let stages = |metadata: &Metadata| -> Vec<(u64, Stage)> {
            metadata.operations.iter().map(|(id, operation)| (*id, operation.stage)).collect()
        };
        let before = stages(self);
        command.apply(self)?;
        if command.is_about_members() || stages(self) != before {
            self.members_epoch = epoch;
        }
        Ok(())
    }

    /// The member that has an address for other nodes.
    pub fn member_at(&self, address: SocketAddr) -> Option<(Uuid, &Member)> {
        self.members.iter().find(|(_, member)| member.address == address).map(|(id, member)| (*id, &**member))
    }

    /// The member that has a token in its textual form, or is going to have it by a move that is under way.
    pub fn owner_of(&self, token: &str) -> Option<Uuid> {
        let has = |tokens: &[String]| tokens.iter().any(|own| own == token);
        let owner = self.members.iter().find(|(_, member)| has(&member.tokens)).map(|(id, _)| *id);
        let moving = || {
            self.operations.values().find_map(|operation| match &operation.kind {
                OperationKind::Move { host_id, tokens } if has(tokens) => Some(*host_id),
                _ => None,
            })
        };
        owner.or_else(moving)
    }

    /// The members in the order of their host ids, as nodes that own ranges. Members that are joining have no tokens
    /// yet.
    pub fn nodes(&self) -> Vec<Node> {
        let Some(partitioner) = Partitioner::named(&self.partitioner) else { return Vec::new() };
        let node = |(id, member): (&Uuid, &Arc<Member>)| Node {
            tokens: in_order(self.read_tokens(*id, member), partitioner),
            ..member.node(*id, partitioner)
        };
        self.members.iter().map(node).collect()
    }

    /// The members in the order of their host ids, as nodes with all tokens that they own or claim.
    pub fn claims(&self) -> Vec<Node> {
        let Some(partitioner) = Partitioner::named(&self.partitioner) else { return Vec::new() };
        let node = |(id, member): (&Uuid, &Arc<Member>)| Node {
            tokens: member.tokens_in(partitioner),
            ..member.node(*id, partitioner)
        };
        self.members.iter().map(node).collect()
    }

    /// The encoded form: a byte for its version, then postcard's encoding of the fields in order. Version 2 is that of
    /// metadata with truncations that are owed, version 3 that of metadata with operations under way, which come after
    /// the truncations, version 4 that of metadata with tablets, which come next, version 5 that of metadata with nodes
    /// that are emptied, which come next, version 6 that of metadata with sub-partitions, which come next, version 7
    /// that of metadata with reasons for which keys have grown, which come last; others have version 1 and none of
    /// these fields.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = encode(self);
        let has_last = !self.sub_partitions.is_empty();
        if has_last || !self.tablets.is_empty() || !self.to_ring.is_empty() || !self.emptied.is_empty() {
            out[0] = ENCODING_WITH_TABLETS;
            let maps: BTreeMap<&[u8; 16], &TabletMap> = self.tablets.iter().map(|(id, map)| (id, &**map)).collect();
            let rest = (&self.owed_truncations, &self.operations, maps, &self.to_ring);
            out = postcard::to_extend(&rest, out).unwrap_or_default();
            if has_last || !self.emptied.is_empty() {
                out[0] = ENCODING_WITH_EMPTIED;
                out = postcard::to_extend(&self.emptied, out).unwrap_or_default();
            }
            if has_last {
                out[0] = ENCODING_WITH_SUB_PARTITIONS;
                let maps = self.sub_partitions.iter().map(|(id, map)| (id, &**map));
                out = postcard::to_extend(&maps.collect::<BTreeMap<&[u8; 16], &SubPartitionMap>>(), out)
                    .unwrap_or_default();
            }
            let with_reasons = self.sub_partitions.iter().filter(|(_, map)| !map.reasons.is_empty());
            let reasons: BTreeMap<_, _> = with_reasons.map(|(id, map)| (id, &map.reasons)).collect();
            if !reasons.is_empty() {
                out[0] = ENCODING_WITH_GROWTH_REASONS;
                out = postcard::to_extend(&reasons, out).unwrap_or_default();
            }
        } else if !self.operations.is_empty() {
            out[0] = ENCODING_WITH_OPERATIONS;
            out = postcard::to_extend(&(&self.owed_truncations, &self.operations), out).unwrap_or_default();
        } else if !self.owed_truncations.is_empty() {
            out[0] = ENCODING_WITH_TRUNCATIONS;
            out = postcard::to_extend(&self.owed_truncations, out).unwrap_or_default();
        }
        out
    }

    /// Decodes what [`Metadata::encode`] gave.
    pub fn decode(bytes: &[u8]) -> Result<Metadata, DecodeError> {
        let (version, rest) = match bytes.split_first() {
            Some((&version @ ENCODING_WITH_TRUNCATIONS..=ENCODING_WITH_GROWTH_REASONS, rest)) => (version, rest),
            _ => return decode(bytes),
        };
        let malformed = |_| DecodeError::Malformed;
        let (metadata, rest) = postcard::take_from_bytes::<Metadata>(rest).map_err(malformed)?;
        let (owed_truncations, rest) = postcard::take_from_bytes(rest).map_err(malformed)?;
        let (operations, rest) = match version >= ENCODING_WITH_OPERATIONS {
            true => postcard::take_from_bytes(rest).map_err(malformed)?,
            false => (BTreeMap::new(), rest),
        };
        type Maps = BTreeMap<[u8; 16], TabletMap>;
        let ((tablets, to_ring), rest): ((Maps, _), _) = match version >= ENCODING_WITH_TABLETS {
            true => postcard::take_from_bytes(rest).map_err(malformed)?,
            false => (Default::default(), rest),
        };
        let (emptied, rest) = match version >= ENCODING_WITH_EMPTIED {
            true => postcard::take_from_bytes(rest).map_err(malformed)?,
            false => (BTreeSet::new(), rest),
        };
        let (mut spread, rest): (BTreeMap<[u8; 16], SubPartitionMap>, _) = match version >= ENCODING_WITH_SUB_PARTITIONS
        {
            true => postcard::take_from_bytes(rest).map_err(malformed)?,
            false => (BTreeMap::new(), rest),
        };
        type Reasons = BTreeMap<[u8; 16], BTreeMap<i64, GrowthReason>>;
        let (reasons, rest): (Reasons, _) = match version >= ENCODING_WITH_GROWTH_REASONS {
            true => postcard::take_from_bytes(rest).map_err(malformed)?,
            false => (BTreeMap::new(), rest),
        };
        for (id, reasons) in reasons {
            spread.get_mut(&id).ok_or(DecodeError::Malformed)?.reasons = reasons;
        }
        let tablets = tablets.into_iter().map(|(id, map)| (id, Arc::new(map))).collect();
        let are_sound = spread.values().all(SubPartitionMap::is_sound);
        let sub_partitions = spread.into_iter().map(|(id, map)| (id, Arc::new(map))).collect();
        let metadata = Metadata { owed_truncations, operations, tablets, to_ring, emptied, sub_partitions, ..metadata };
        match rest {
            [] if metadata.has_sound_tablets() && are_sound => Ok(metadata),
            _ => Err(DecodeError::Malformed),
        }
    }
}

impl Member {
    /// The encoded form: a byte for its version, then postcard's encoding of the fields in order.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes what [`Member::encode`] gave.
    pub fn decode(bytes: &[u8]) -> Result<Member, DecodeError> {
        decode(bytes)
    }

    /// It as a node, without tokens.
    pub fn node(&self, host_id: Uuid, partitioner: Partitioner) -> Node {
        Node {
            host_id,
            address: self.address,
            data_center: self.data_center.clone(),
            rack: self.rack.clone(),
            shards: ShardMap { partitioner, shards: self.shards.max(1), ignore_msb: self.ignore_msb },
            tokens: Vec::new(),
            features: self.features,
        }
    }

    /// Its tokens as positions of the ring, in ascending order; texts that are no tokens are left out.
    pub fn tokens_in(&self, partitioner: Partitioner) -> Vec<RingToken> {
        in_order(&self.tokens, partitioner)
    }
}

/// Tokens as positions of the ring, in ascending order; texts that are no tokens are left out.
fn in_order(tokens: &[String], partitioner: Partitioner) -> Vec<RingToken> {
    let mut tokens: Vec<RingToken> = tokens.iter().filter_map(|text| partitioner.parse_token(text).ok()).collect();
    tokens.sort();
    tokens
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    // Only a type that says it cannot be serialised makes this fail, and none here does.
    postcard::to_extend(value, vec![ENCODING]).unwrap_or_default()
}

fn decode<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        Some((&ENCODING, rest)) => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            _ => Err(DecodeError::Malformed),
        },
        Some((version, _)) => Err(DecodeError::Version(*version)),
        None => Err(DecodeError::Malformed),
    }
}

#[cfg(test)]
pub(crate) mod tests;
