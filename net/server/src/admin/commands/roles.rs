//! Commands about roles: `createsuperuser`, and those that have caches of roles forget what they hold.

use crate::admin::error::{CommandError, usage};
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use std::fmt::Write;

/// The option with the password. It is no argument, because the log shows those.
const PASSWORD: &str = "--role-password";

/// `createsuperuser`: makes a role a superuser that may log in with a password. Without one it makes one up.
pub(crate) async fn create_superuser(
    node: &NodeState,
    request: &Request,
    out: &mut String,
) -> Result<(), CommandError> {
    let [name] = request.arguments.as_slice() else {
        return usage("createsuperuser requires exactly one name");
    };
    if name.is_empty() {
        return usage("Role name can't be an empty string");
    }
    if !node.config.node.access.requires_login() {
        let text = "clients of this node need not log in: authenticator is AllowAllAuthenticator";
        return Err(CommandError::Failed(text.into()));
    }
    match request.option(PASSWORD).filter(|password| !password.is_empty()) {
        Some(password) => node.shard.make_superuser(name, password).await?,
        None => {
            let password: String = runtime::rng::bytes16().iter().map(|byte| format!("{byte:02x}")).collect();
            node.shard.make_superuser(name, &password).await?;
            let _ = writeln!(out, "The password of {name} is {password}");
        }
    }
    Ok(())
}

/// `invalidatecredentialscache`, `invalidatepermissionscache`, `invalidaterolescache` and
/// `invalidatenetworkpermissionscache`: what is known of roles is one, and all of it is forgotten, also if one role is
/// named.
pub(crate) async fn invalidate(node: &NodeState) -> Result<(), CommandError> {
    node.shard.forget_roles().await;
    Ok(())
}
