//! nodetool's commands, each of which appends to `out` what it prints.

mod auth_caches;
mod certificates;
mod cidrs;
mod client_stats;
mod compact;
mod compaction;
mod compaction_history;
mod describe_cluster;
mod flush;
mod gossip;
mod hints;
mod imports;
mod leaving;
mod network;
mod node_info;
mod profile_load;
mod proxy_histograms;
mod query_logs;
mod ranges;
pub(crate) mod repair;
mod restore;
mod ring;
mod roles;
mod shard_stats;
mod snapshots;
mod streams;
mod table_histograms;
mod table_names;
mod table_stats;
mod table_usage;
mod tablets;
mod thread_pools;
mod timeouts;
mod upgrade;

use crate::admin::error::CommandError;
use crate::admin::protocol::{FOLLOW, Request};
use crate::client_admin::PortOrder;
use crate::node_state::NodeState;
use shard::{AbortedOperation, HintChange};

/// Whether the command is of no use any more once its client has gone away, and ends with it.
pub(super) fn ends_with_its_client(command: &str) -> bool {
    matches!(command, "profileload" | "toppartitions" | "emptynode")
}

/// Runs the command that the request names.
pub(super) async fn run(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    match request.command.as_str() {
        "version" => node_info::version(request, out),
        "info" => node_info::info(node, request, out).await,
        "clientstats" => client_stats::statistics(node, request, out).await,
        "enableauditlog" => query_logs::enable_audit(node, request).await,
        "disableauditlog" => query_logs::disable_audit(node).await,
        "getauditlog" => query_logs::show_audit(node, out),
        "enablefullquerylog" => query_logs::enable_full(node, request).await,
        "disablefullquerylog" => query_logs::disable_full(node, false).await,
        "resetfullquerylog" => query_logs::disable_full(node, true).await,
        "getfullquerylog" => query_logs::show_full(node, out),
        "enablebinary" => node_info::change_port(node, PortOrder::Open).await,
        "disablebinary" => node_info::change_port(node, PortOrder::Close { by_force: request.has("-f") }).await,
        "enableoldprotocolversions" => node_info::allow_older_protocols(node, true).await,
        "disableoldprotocolversions" => node_info::allow_older_protocols(node, false).await,
        "statusbinary" => node_info::status_binary(node, out),
        "describecluster" => describe_cluster::describe(node, out).await,
        "join" => leaving::join(node).await,
        "netstats" => network::statistics(node, request, out).await,
        "describering" => ranges::describe_ring(node, request, out),
        "tablets" => tablets::show(node, request, out).await,
        "splittablet" => tablets::split(node, request).await,
        "mergetablets" => tablets::merge(node, request).await,
        "movetablet" => tablets::move_to(node, request).await,
        "emptynode" => tablets::empty_node(node, request, out).await,
        "getendpoints" => ranges::endpoints(node, request, out),
        "gossipinfo" => gossip::info(node, request, out),
        "failuredetector" => gossip::failure_detector(node, out),
        "statusgossip" => gossip::status(node, out),
        "disablegossip" => gossip::disable(node),
        "enablegossip" => gossip::enable(node),
        "statushandoff" => hints::status(node, out),
        "enablehandoff" => hints::change(node, HintChange::Enabled(true)).await,
        "disablehandoff" => hints::change(node, HintChange::Enabled(false)).await,
        "pausehandoff" => hints::change(node, HintChange::Paused(true)).await,
        "resumehandoff" => hints::change(node, HintChange::Paused(false)).await,
        "enablehintsfordc" => hints::set_center(node, request, true).await,
        "disablehintsfordc" => hints::set_center(node, request, false).await,
        "getmaxhintwindow" => hints::window(node, out),
        "setmaxhintwindow" => hints::set_window(node, request).await,
        "sethintedhandoffthrottlekb" => hints::set_throttle(node, request).await,
        "truncatehints" => hints::truncate(node, request).await,
        "listpendinghints" => hints::list(node, out).await,
        "getseeds" => gossip::seeds(node, "Current list of seed node IPs", out),
        "reloadseeds" => gossip::reload_seeds(node, out),
        "status" => ring::status(node, request, out).await,
        "ring" => ring::ring(node, request, out).await,
        "createsuperuser" => roles::create_superuser(node, request, out).await,
        "getauthcacheconfig" => auth_caches::show(node, request, out),
        "setauthcacheconfig" => auth_caches::set(node, request, out).await,
        "invalidatecredentialscache"
        | "invalidatenetworkpermissionscache"
        | "invalidatepermissionscache"
        | "invalidaterolescache" => roles::invalidate(node).await,
        "cidrfilteringstats" => cidrs::statistics(node, out).await,
        "dropcidrgroup" => cidrs::drop(node, request, out).await,
        "getcidrgroupsofip" => cidrs::of_address(node, request, out).await,
        "invalidatecidrpermissionscache" => cidrs::invalidate(node, request, out).await,
        "listcidrgroups" => cidrs::list(node, request, out).await,
        "reloadcidrgroupscache" => cidrs::reload(node, out).await,
        "updatecidrgroup" => cidrs::update(node, request).await,
        "reloadssl" => certificates::reload(node).await,
        "flush" => flush::flush(node, request).await,
        "compact" => compact::compact(node, request).await,
        "refreshsizeestimates" => Ok(node.shard.refresh_size_estimates().await?),
        "drain" => flush::drain(node).await,
        "decommission" => leaving::decommission(node, request, out).await,
        "move" => leaving::move_to(node, request).await,
        "rebuild" => leaving::rebuild(node, request).await,
        "bootstrap" => leaving::bootstrap(node, request, out),
        "removenode" => leaving::remove_node(node, request, out).await,
        "assassinate" => leaving::assassinate(node, request).await,
        "abortbootstrap" => leaving::abort_bootstrap(node, request).await,
        "abortdecommission" => leaving::abort(node, request, AbortedOperation::Leave).await,
        "abortmove" => leaving::abort(node, request, AbortedOperation::Move).await,
        "recoveragreement" => leaving::recover(node, request, out).await,
        "repair" => repair::repair(node, request, out).await,
        "repair_admin" => repair::administer(node, request, out).await,
        FOLLOW => repair::follow(node, request, out).await,
        "profileload" | "toppartitions" => profile_load::profile(node, request, out).await,
        "tablestats" => table_stats::statistics(node, request, out).await,
        "tablehistograms" => table_histograms::histograms(node, request, out).await,
        "gettimeout" => timeouts::get(node, request, out),
        "settimeout" => timeouts::set(node, request).await,
        "proxyhistograms" => proxy_histograms::histograms(node, out).await,
        "shardstats" => shard_stats::statistics(node, request, out).await,
        "tpstats" => thread_pools::statistics(node, request, out).await,
        "snapshot" => snapshots::snapshot(node, request, out).await,
        "listsnapshots" => snapshots::list(node, request, out).await,
        "clearsnapshot" => snapshots::clear(node, request, out).await,
        "restore" => restore::restore(node, request, out).await,
        "getcompactionthroughput" => compaction::throughput(node, request, out),
        "setcompactionthroughput" => compaction::set_throughput(node, request).await,
        "getstreamthroughput" => streams::throughput(node, request, streams::To::All, out),
        "setstreamthroughput" => streams::set_throughput(node, request, streams::To::All).await,
        "getinterdcstreamthroughput" => streams::throughput(node, request, streams::To::OtherCenters, out),
        "setinterdcstreamthroughput" => streams::set_throughput(node, request, streams::To::OtherCenters).await,
        "enableautocompaction" => compaction::set_auto(node, request, true).await,
        "disableautocompaction" => compaction::set_auto(node, request, false).await,
        "compactionstats" => compaction::statistics(node, request, out).await,
        "compactionhistory" => compaction_history::history(node, request, out).await,
        "refresh" => imports::refresh(node, request, out).await,
        "import" => imports::import(node, request, out).await,
        "cleanup" => upgrade::cleanup(node, request, out).await,
        "relocatesstables" => upgrade::relocate(node, request, out).await,
        "upgradesstables" => upgrade::upgrade(node, request, out).await,
        "verify" => imports::verify(node, request).await,
        "getsstables" => imports::get_sstables(node, request, out).await,
        other => Err(CommandError::Failed(format!("{other} is not supported"))),
    }
}
