//! Telling that a limit is nearly used up, on the core that keeps its bucket: there the use of all coordinators is
//! known.

use crate::guards::alerts::AlertKind;
use crate::messages::units::LeaseRequest;
use crate::shard_state::Shard;
use cluster::units::HUNDREDTHS;
use cluster::units::limits::{Measure, Scope, rate_of};

/// Notes that so many percent of a limit were used over some seconds.
pub(super) fn alert(shard: &Shard, request: &LeaseRequest, cores: u64, percent: u64) {
    if request.scope.is_of_quota() {
        return alert_of_quota(shard, request, percent);
    }
    let Some(meter) = shard.throughput().of(request.table).table else { return };
    let Some(rate) = rate_of(&meter.capacity, request.measure, request.scope, cores) else { return };
    let schema = shard.schema_ref();
    let Some(table) = schema.table_by_id(request.table) else { return };
    let (kind, subject) = match request.scope {
        Scope::Keyspace | Scope::Role => return,
        Scope::Table => (AlertKind::TableThroughput, "the table".to_owned()),
        Scope::Physical { host_id, core } => {
            (AlertKind::PhysicalPartitionThroughput, format!("the physical partition at core {core} of node {host_id}"))
        }
        Scope::Key(token) => {
            let key = meter.hot_key(shard.partitioner(), token);
            let name = key.map(|key| format!(" {}", table.key_text(&key))).unwrap_or_default();
            (AlertKind::PartitionThroughput, format!("the partition key{name} with token {token}"))
        }
    };
    let unit = match request.measure {
        Measure::Units => "request units",
        Measure::ReadUnits => "read units",
        Measure::WriteUnits => "write units",
        Measure::Reads => "reads",
        Measure::Writes => "writes",
    };
    let limit = format!("{} {unit} a second", rate as f64 / HUNDREDTHS as f64);
    shard.alerts().note(kind, (&table.keyspace, &table.name), &subject, (percent, &limit), true);
}

/// The keeper of a role's quota need not have read the role: then the alert has no name, but the rate.
fn alert_of_quota(shard: &Shard, request: &LeaseRequest, percent: u64) {
    let quota = shard.throughput().quota(request.scope, request.table);
    let name = quota.as_ref().map_or("", |quota| &quota.name);
    let (kind, keyspace, subject) = match request.scope {
        Scope::Keyspace => (AlertKind::KeyspaceQuota, name, "the keyspace".to_owned()),
        _ => (AlertKind::RoleQuota, "", format!("the role {name}").trim_end().to_owned()),
    };
    let rate = request.quota_rate.unwrap_or_default();
    let limit = format!("{} request units a second", rate as f64 / HUNDREDTHS as f64);
    shard.alerts().note(kind, (keyspace, ""), &subject, (percent, &limit), true);
}
