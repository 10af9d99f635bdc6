//! `nodetool reloadssl`: reads keys and certificates again.

use crate::admin::error::CommandError;
use crate::node_state::NodeState;

/// Has connections that are made from now on encrypted with what the files hold now. If they cannot be used, nothing
/// changes.
pub(super) async fn reload(node: &NodeState) -> Result<(), CommandError> {
    node.keys.reload().await.map(|_| ()).map_err(|error| {
        CommandError::Failed(format!("Failed to reload SSL certificates. Please check the certificate files: {error}"))
    })
}
