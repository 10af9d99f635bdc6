//! The first superuser of a cluster whose clients must log in.
//!
//! Where all addresses of the node are loopback ones, or the operator says so by an option, it is Cassandra's role
//! `cassandra` with that password. Elsewhere a password that everybody knows must not be there for a moment: the log
//! says how the operator of the machine makes a superuser.

use crate::config::Config;
use model::Failure;
use runtime::Class;
use runtime::sync::{Either, Latch, race};
use shard::Shard;
use std::time::Duration;

/// How long a start waits for the roles to be read.
const START_WAIT: Duration = Duration::from_secs(5);
/// Pause before it is tried again, because too few nodes are alive to read roles.
const RETRY: Duration = Duration::from_secs(1);

/// Makes the default superuser if there are no roles, or says how to make one. What cannot be done at once is tried
/// again until `stopping` is set.
pub(crate) async fn provide(shard: &Shard, config: &Config, stopping: &Latch) {
    if !config.node.access.requires_login() {
        return;
    }
    let node = &config.node;
    let is_local = [node.rpc_address, node.listen_address].iter().all(|address| address.is_loopback());
    let is_default = is_local || node.access.default_superuser;
    if let Some(Ok(())) = runtime::timeout(START_WAIT, once(shard, is_default)).await {
        return;
    }
    let (shard, stopping) = (shard.clone(), stopping.clone());
    runtime::spawn_in(Class::Background, async move {
        loop {
            if let Either::Left(()) = race(stopping.wait(), runtime::sleep(RETRY)).await {
                return;
            }
            match once(&shard, is_default).await {
                Ok(()) => return,
                Err(failure) => tracing::debug!(%failure, "roles cannot be read yet"),
            }
        }
    });
}

async fn once(shard: &Shard, is_default: bool) -> Result<(), Failure> {
    if is_default {
        return shard.make_default_superuser().await;
    }
    if !shard.has_roles().await? {
        tracing::warn!(
            "there are no roles, so nobody can log in: `helenus nodetool createsuperuser NAME`, on this machine, makes one"
        );
    }
    Ok(())
}
