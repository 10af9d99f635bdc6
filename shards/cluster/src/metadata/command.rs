//! Changes of the metadata, as entries of the log.

use super::{DecodeError, MEMBERS_MAX, Member, MemberState, Metadata, OperationKind};
use crate::sub_partitions::{SubPartitionMap, SubPartitionsChange, SubPartitionsError};
use crate::tablets::{TabletError, TabletsUpdate};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use uuid::Uuid;

/// A change of the metadata.
///
/// The order of variants and fields is part of the encoding: new ones come at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Command {
    /// The first entry of a cluster: its name and its first member, which is part of the ring at once.
    Create {
        /// A random id.
        cluster_id: Uuid,
        /// Its name.
        cluster_name: String,
        /// The simple name of its partitioner.
        partitioner: String,
        /// The version of the schema that the first member has.
        schema_version: Uuid,
        /// The timestamp of the last change of that schema, microseconds.
        schema_timestamp: i64,
        /// The keyspaces that the first member has; opaque here.
        keyspaces: Vec<u8>,
        /// The host id of the first member.
        host_id: Uuid,
        /// The first member.
        member: Box<Member>,
    },
    /// A node joins: it claims its tokens.
    Join {
        /// Its host id.
        host_id: Uuid,
        /// The node; its state is of no account.
        member: Box<Member>,
    },
    /// A joining member owns the ranges of its tokens from now on.
    FinishJoin {
        /// Its host id.
        host_id: Uuid,
    },
    /// A member has started again, perhaps with other addresses, another number of cores or another version.
    Restart {
        /// Its host id.
        host_id: Uuid,
        /// The node; its state, tokens, data centre and rack are of no account.
        member: Box<Member>,
    },
    /// A member begins to give up its ranges.
    Leave {
        /// Its host id.
        host_id: Uuid,
    },
    /// A member that was leaving stays.
    AbortLeave {
        /// Its host id.
        host_id: Uuid,
    },
    /// A member is no member any more: it has left, or an operator has removed it.
    Remove {
        /// Its host id.
        host_id: Uuid,
    },
    /// A change of the schema.
    Schema(Box<SchemaUpdate>),
    /// Members that are down owe the truncation of a table.
    OweTruncation {
        /// The table's id.
        table: [u8; 16],
        /// The host ids of the members; those of others are of no account.
        host_ids: Vec<Uuid>,
    },
    /// A member has made the truncations that it owed up to an epoch.
    FinishTruncations {
        /// Its host id.
        host_id: Uuid,
        /// The epoch of the last of them, or a later one.
        epoch: u64,
    },
    /// A member is in another data centre or rack from now on, by the operator's word.
    Relocate {
        /// Its host id.
        host_id: Uuid,
        /// The name of its data centre.
        data_center: String,
        /// The name of its rack.
        rack: String,
    },
    /// An operation that moves data begins, if the members and the schema are those that its proposer has seen.
    Begin {
        /// What it changes. Replication changes by [`Command::Replicate`].
        kind: OperationKind,
        /// The host ids of the nodes that gain something by it.
        receivers: BTreeSet<Uuid>,
        /// [`Metadata::members_epoch`], as the proposer has seen it.
        members_epoch: u64,
        /// The version of the schema that the proposer has seen.
        schema_version: Uuid,
    },
    /// A change of the schema by which a keyspace gets other replicas. It has that replication at once, and the
    /// replicas when the operation ends. If such a change is under way, this one takes its place.
    Replicate {
        /// The change.
        update: Box<SchemaUpdate>,
        /// The full class name of the strategy that the keyspace has until then.
        class: String,
        /// The options of that strategy.
        options: BTreeMap<String, String>,
        /// The host ids of the nodes that gain something by it.
        receivers: BTreeSet<Uuid>,
        /// [`Metadata::members_epoch`], as the proposer has seen it.
        members_epoch: u64,
    },
    /// A node has all that it gains by an operation.
    Received {
        /// The operation.
        operation: u64,
        /// [`super::Operation::since`], as the node has seen it.
        since: u64,
        /// Its host id.
        host_id: Uuid,
    },
    /// An operation about a node is undone.
    Abort {
        /// The operation.
        operation: u64,
    },
    /// A node joins to take the tokens of the member at an address, which is down. It may have the same address. The
    /// operation begins later.
    JoinToReplace {
        /// Its host id.
        host_id: Uuid,
        /// The node; its state and tokens are of no account.
        member: Box<Member>,
        /// The address of the node that it replaces.
        address: IpAddr,
    },
    /// No node reads any more where the data of an operation was.
    Settle {
        /// The operation.
        operation: u64,
        /// [`super::Operation::since`], as the proposer has seen it.
        since: u64,
    },
    /// Tablets change, if the members, and what they own, are those that the proposer has seen.
    Tablets {
        /// What changes with them: the schema that creates or drops their tables, or the operation by which they get
        /// other replicas. Tablets can split and merge by themselves.
        with: Option<Box<Command>>,
        /// The changes.
        updates: Vec<TabletsUpdate>,
        /// [`Metadata::members_epoch`], as the proposer has seen it.
        members_epoch: u64,
    },
    /// A member is to have no tablets from now on, or may have some again.
    Empty {
        /// Its host id.
        host_id: Uuid,
        /// Whether it is to have none.
        is_emptied: bool,
    },
    /// The sub-partitions of a table change. Requests are planned by them, as they are by the members.
    SubPartitions {
        /// The table's id.
        table: [u8; 16],
        /// The change.
        change: SubPartitionsChange,
    },
}

/// A change of the schema, with all that a node needs to make it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SchemaUpdate {
    /// The version that the proposer has changed.
    pub before: Uuid,
    /// The version that this makes.
    pub after: Uuid,
    /// The timestamp of the change, microseconds since 1970, above that of every earlier one.
    pub timestamp: i64,
    /// What happens to the object that is named.
    pub kind: UpdatedKind,
    /// The kind of the object.
    pub target: UpdatedTarget,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name; empty for a keyspace.
    pub name: String,
    /// The id that WITH ID gave to a new table.
    pub given_id: Option<[u8; 16]>,
    /// The rows of `system_schema` that change, an encoded mutation of the keyspace's partition.
    pub rows: Vec<u8>,
}

/// What a change of the schema does to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum UpdatedKind {
    Created,
    Updated,
    Dropped,
}

/// The kind of object that a change of the schema is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the protocol's words")]
pub enum UpdatedTarget {
    Keyspace,
    Table,
    Type,
}

/// Why a command was refused. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Rejected {
    /// The cluster has been created already.
    Created,
    /// No cluster has been created.
    NotCreated,
    /// The host id is not that of a member.
    UnknownMember(Uuid),
    /// The host id is that of a member.
    KnownMember(Uuid),
    /// The host id is that of a node that has left.
    HasLeft(Uuid),
    /// Another member has the address.
    AddressTaken(SocketAddr),
    /// Another member has the token.
    TokenTaken {
        /// The token in its textual form.
        token: String,
        /// The address of its owner.
        owner: SocketAddr,
    },
    /// The member is not in the state that the change begins from.
    WrongState {
        /// Its host id.
        host_id: Uuid,
        /// Its state.
        state: MemberState,
    },
    /// It is the only member that owns ranges.
    LastMember,
    /// The cluster has as many members as it can have.
    TooManyMembers,
    /// The schema has changed since the proposer looked, or the timestamp is not above that of the last change.
    SchemaMoved {
        /// The version of the schema now.
        version: Uuid,
        /// The timestamp of its last change, microseconds.
        timestamp: i64,
    },
    /// The members, or what they own, have changed since the proposer looked.
    MembersMoved(u64),
    /// Another operation that moves data is under way.
    OperationUnderWay(Box<OperationKind>),
    /// There is no such operation, or it began anew meanwhile.
    NoOperation(u64),
    /// No member has the address of the node to be replaced.
    NothingToReplace(IpAddr),
    /// The tablets cannot be changed so.
    Tablets(TabletError),
    /// The sub-partitions cannot be changed so.
    SubPartitions(SubPartitionsError),
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rejected::Created => f.write_str("the cluster has been created already"),
            Rejected::NotCreated => f.write_str("no cluster has been created yet"),
            Rejected::UnknownMember(id) => write!(f, "Host ID {id} not found."),
            Rejected::KnownMember(id) => write!(f, "Host ID {id} is that of a member already"),
            Rejected::HasLeft(id) => write!(
                f,
                "This node was decommissioned and will not rejoin the ring unless all existing data is removed and the \
                 node is bootstrapped again (host ID {id})"
            ),
            Rejected::AddressTaken(address) => write!(
                f,
                "A node with address {address} already exists, cancelling join. Use cassandra.replace_address if you \
                 want to replace this node."
            ),
            Rejected::TokenTaken { token, owner } => write!(
                f,
                "Bootstrapping to existing token {token} of {owner} is not allowed (decommission/removenode the old \
                 node first)."
            ),
            Rejected::WrongState { host_id, state } => write!(f, "node {host_id} is {state:?}"),
            Rejected::LastMember => f.write_str("no other normal nodes in the ring; decommission would be pointless"),
            Rejected::TooManyMembers => write!(f, "a cluster has at most {MEMBERS_MAX} nodes"),
            Rejected::MembersMoved(epoch) => write!(f, "the nodes have changed in epoch {epoch}"),
            Rejected::OperationUnderWay(kind) => write!(f, "another operation is under way: {kind}"),
            Rejected::NothingToReplace(address) => {
                write!(f, "Cannot replace_address /{address} because it doesn't exist in gossip")
            }
            Rejected::Tablets(error) => write!(f, "{error}"),
            Rejected::SubPartitions(error) => write!(f, "{error}"),
            Rejected::NoOperation(id) => write!(f, "operation {id} is not under way"),
            Rejected::SchemaMoved { version, .. } => write!(f, "the schema has changed to version {version}"),
        }
    }
}

impl std::error::Error for Rejected {}

impl Rejected {
    /// The encoded form of what came of a command.
    pub fn encode_answer(answer: &Result<(), Rejected>) -> Vec<u8> {
        super::encode(answer)
    }

    /// Decodes what [`Rejected::encode_answer`] gave.
    pub fn decode_answer(bytes: &[u8]) -> Result<Result<(), Rejected>, DecodeError> {
        super::decode(bytes)
    }
}

impl Command {
    /// The encoded form: a byte for its version, then postcard's encoding.
    pub fn encode(&self) -> Vec<u8> {
        super::encode(self)
    }

    /// Decodes what [`Command::encode`] gave.
    pub fn decode(bytes: &[u8]) -> Result<Command, DecodeError> {
        super::decode(bytes)
    }

    pub(super) fn apply(&self, metadata: &mut Metadata) -> Result<(), Rejected> {
        if metadata.cluster_id.is_nil() != matches!(self, Command::Create { .. }) {
            return Err(if metadata.cluster_id.is_nil() { Rejected::NotCreated } else { Rejected::Created });
        }
        match self {
            Command::Create {
                cluster_id,
                cluster_name,
                partitioner,
                schema_version,
                schema_timestamp,
                host_id,
                member,
                ..
            } => {
                metadata.cluster_id = *cluster_id;
                metadata.cluster_name.clone_from(cluster_name);
                metadata.partitioner.clone_from(partitioner);
                metadata.schema_version = *schema_version;
                metadata.schema_timestamp = *schema_timestamp;
                let first = Member { state: MemberState::Normal, ..Member::clone(member) };
                metadata.members.insert(*host_id, Arc::new(first));
                Ok(())
            }
            Command::Join { host_id, member } => join(metadata, *host_id, member),
            Command::FinishJoin { host_id } => {
                if let Some(other) = metadata.operations.values().next() {
                    return Err(Rejected::OperationUnderWay(Box::new(other.kind.clone())));
                }
                advance(metadata, *host_id, MemberState::Joining, MemberState::Normal)
            }
            Command::Restart { host_id, member } => restart(metadata, *host_id, member),
            Command::Leave { host_id } => {
                if normal_but(metadata, *host_id) == 0 {
                    return Err(Rejected::LastMember);
                }
                advance(metadata, *host_id, MemberState::Normal, MemberState::Leaving)
            }
            Command::AbortLeave { host_id } => advance(metadata, *host_id, MemberState::Leaving, MemberState::Normal),
            Command::Remove { host_id } => remove(metadata, *host_id),
            Command::Schema(update) => change_schema(metadata, update),
            Command::OweTruncation { table, host_ids } => {
                for host_id in host_ids.iter().filter(|id| metadata.members.contains_key(id)) {
                    metadata.owed_truncations.entry(*host_id).or_default().insert(*table, metadata.epoch);
                }
                Ok(())
            }
            Command::FinishTruncations { host_id, epoch } => {
                if let Some(owed) = metadata.owed_truncations.get_mut(host_id) {
                    owed.retain(|_, truncated_at| *truncated_at > *epoch);
                }
                metadata.owed_truncations.retain(|_, owed| !owed.is_empty());
                Ok(())
            }
            Command::Relocate { host_id, data_center, rack } => {
                let member = metadata.members.get_mut(host_id).ok_or(Rejected::UnknownMember(*host_id))?;
                let member = Arc::make_mut(member);
                member.data_center.clone_from(data_center);
                member.rack.clone_from(rack);
                Ok(())
            }
            Command::Begin { kind, receivers, members_epoch, schema_version } => {
                if metadata.members_epoch != *members_epoch {
                    return Err(Rejected::MembersMoved(metadata.members_epoch));
                }
                if metadata.schema_version != *schema_version {
                    let (version, timestamp) = (metadata.schema_version, metadata.schema_timestamp);
                    return Err(Rejected::SchemaMoved { version, timestamp });
                }
                metadata.begin(kind, receivers)
            }
            Command::Replicate { update, class, options, receivers, members_epoch } => {
                if metadata.members_epoch != *members_epoch {
                    return Err(Rejected::MembersMoved(metadata.members_epoch));
                }
                let (keyspace, class, options) = (update.keyspace.clone(), class.clone(), options.clone());
                let kind = OperationKind::Replicate { keyspace, class, options };
                metadata.check_replicate(&kind)?;
                change_schema(metadata, update)?;
                metadata.replicate(kind, receivers);
                Ok(())
            }
            Command::Received { operation, since, host_id } => metadata.received(*operation, *since, *host_id),
            Command::Abort { operation } => metadata.abort(*operation),
            Command::JoinToReplace { host_id, member, address } => {
                join_to_replace(metadata, *host_id, member, *address)
            }
            Command::Settle { operation, since } => metadata.settle(*operation, *since),
            Command::Tablets { with, updates, members_epoch } => {
                if metadata.members_epoch != *members_epoch {
                    return Err(Rejected::MembersMoved(metadata.members_epoch));
                }
                metadata.change_tablets(with.as_deref(), updates)
            }
            Command::Empty { host_id, .. } if !metadata.members.contains_key(host_id) => {
                Err(Rejected::UnknownMember(*host_id))
            }
            Command::Empty { host_id, is_emptied } => {
                match is_emptied {
                    true => metadata.emptied.insert(*host_id),
                    false => metadata.emptied.remove(host_id),
                };
                Ok(())
            }
            Command::SubPartitions { table, change } => {
                let before = metadata.sub_partitions.get(table).map(|map| &**map);
                match SubPartitionMap::changed(before, change, metadata.epoch).map_err(Rejected::SubPartitions)? {
                    Some(map) => _ = metadata.sub_partitions.insert(*table, Arc::new(map)),
                    None => _ = metadata.sub_partitions.remove(table),
                }
                Ok(())
            }
        }
    }

    /// The host ids of the nodes that gain something by an operation that it begins.
    pub fn receivers(&self) -> Option<&BTreeSet<Uuid>> {
        match self {
            Command::Begin { receivers, .. } | Command::Replicate { receivers, .. } => Some(receivers),
            Command::Tablets { with, .. } => with.as_ref()?.receivers(),
            _ => None,
        }
    }

    /// Whether it changes the members, or something else by which requests are planned: who has which data, and in
    /// which partitions.
    pub(super) fn is_about_members(&self) -> bool {
        !matches!(
            self,
            Command::Schema(_)
                | Command::OweTruncation { .. }
                | Command::FinishTruncations { .. }
                | Command::Empty { .. }
                // Only the last report changes something, by switching to the new places of data.
                | Command::Received { .. }
        )
    }
}

/// The number of members that own ranges for good, without one of them.
fn normal_but(metadata: &Metadata, host_id: Uuid) -> usize {
    let others = metadata.members.iter().filter(|(id, _)| **id != host_id);
    others.filter(|(_, member)| member.state == MemberState::Normal).count()
}

fn join(metadata: &mut Metadata, host_id: Uuid, member: &Member) -> Result<(), Rejected> {
    if metadata.left.contains(&host_id) {
        return Err(Rejected::HasLeft(host_id));
    }
    if metadata.members.contains_key(&host_id) {
        return Err(Rejected::KnownMember(host_id));
    }
    if metadata.members.len() >= MEMBERS_MAX {
        return Err(Rejected::TooManyMembers);
    }
    free_address(metadata, host_id, member.address)?;
    for token in &member.tokens {
        if let Some(owner) = metadata.owner_of(token) {
            let owner = metadata.members[&owner].address;
            return Err(Rejected::TokenTaken { token: token.clone(), owner });
        }
    }
    metadata.members.insert(host_id, Arc::new(Member { state: MemberState::Joining, ..member.clone() }));
    Ok(())
}

/// Takes in a node that is going to replace another one. The old node's address is given to the new one if that has the
/// same: nobody can reach the old one any more.
fn join_to_replace(metadata: &mut Metadata, host_id: Uuid, member: &Member, address: IpAddr) -> Result<(), Rejected> {
    let is_old = |(id, old): &(&Uuid, &Arc<Member>)| {
        old.address.ip() == address && **id != host_id && old.state != MemberState::Joining
    };
    let found = metadata.members.iter().find(is_old);
    let replaced = *found.ok_or(Rejected::NothingToReplace(address))?.0;
    let mut joined = metadata.clone();
    // It names the node that takes its place, so that several may be replaced at the same time.
    let given = if metadata.removes_jointly() { address_before(host_id) } else { address_given_up(replaced) };
    if let Some(old) = joined.members.get_mut(&replaced).filter(|old| old.address == member.address) {
        Arc::make_mut(old).address = given;
    }
    join(&mut joined, host_id, &Member { tokens: Vec::new(), ..member.clone() })?;
    *metadata = joined;
    Ok(())
}

impl Metadata {
    /// The member that a node replaces which joined by [`Command::JoinToReplace`] with this address.
    pub fn replaced_at(&self, address: IpAddr, host_id: Uuid) -> Option<Uuid> {
        let others = || self.members.iter().filter(|(id, _)| **id != host_id);
        let named = others().find(|(_, old)| old.address == address_before(host_id));
        // Or in the metadata of earlier versions.
        let is_replaced = |id: Uuid, old: &Member| old.address.ip() == address || old.address == address_given_up(id);
        named.or_else(|| others().find(|(id, old)| is_replaced(**id, old))).map(|(id, _)| *id)
    }
}

/// An address at which there is never a node, of the block that discards everything (RFC 6666): that of a node whose
/// address has passed on to the one that takes its place.
fn address_before(successor: Uuid) -> SocketAddr {
    let (one, other) = successor.as_u64_pair();
    discarding(one ^ other)
}

/// The same as earlier versions gave it, which named the node itself.
fn address_given_up(host_id: Uuid) -> SocketAddr {
    discarding(host_id.as_u64_pair().0)
}

fn discarding(number: u64) -> SocketAddr {
    let address = u128::from(0x0100_u16) << 112 | u128::from(number);
    (Ipv6Addr::from(address), 1).into()
}

/// Refuses an address that a member other than `host_id` has.
fn free_address(metadata: &Metadata, host_id: Uuid, address: SocketAddr) -> Result<(), Rejected> {
    match metadata.member_at(address) {
        Some((owner, _)) if owner != host_id => Err(Rejected::AddressTaken(address)),
        _ => Ok(()),
    }
}

fn restart(metadata: &mut Metadata, host_id: Uuid, now: &Member) -> Result<(), Rejected> {
    if metadata.left.contains(&host_id) {
        return Err(Rejected::HasLeft(host_id));
    }
    free_address(metadata, host_id, now.address)?;
    let member = metadata.members.get_mut(&host_id).ok_or(Rejected::UnknownMember(host_id))?;
    let Member { state, data_center, rack, tokens, .. } = Member::clone(member);
    *member = Arc::new(Member { state, data_center, rack, tokens, ..now.clone() });
    Ok(())
}

fn advance(metadata: &mut Metadata, host_id: Uuid, from: MemberState, to: MemberState) -> Result<(), Rejected> {
    let member = metadata.members.get_mut(&host_id).ok_or(Rejected::UnknownMember(host_id))?;
    if member.state != from {
        return Err(Rejected::WrongState { host_id, state: member.state });
    }
    Arc::make_mut(member).state = to;
    Ok(())
}

fn remove(metadata: &mut Metadata, host_id: Uuid) -> Result<(), Rejected> {
    let member = metadata.members.get(&host_id).ok_or(Rejected::UnknownMember(host_id))?;
    if member.state != MemberState::Joining && normal_but(metadata, host_id) == 0 {
        return Err(Rejected::LastMember);
    }
    metadata.retire(host_id);
    Ok(())
}

fn change_schema(metadata: &mut Metadata, update: &SchemaUpdate) -> Result<(), Rejected> {
    if update.before != metadata.schema_version || update.timestamp <= metadata.schema_timestamp {
        let (version, timestamp) = (metadata.schema_version, metadata.schema_timestamp);
        return Err(Rejected::SchemaMoved { version, timestamp });
    }
    metadata.schema_version = update.after;
    metadata.schema_timestamp = update.timestamp;
    Ok(())
}
