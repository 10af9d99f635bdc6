//! Keys and certificates of a node while it runs.
//!
//! 1. Shard 0 has read the files before the others began, and handed the contexts to them (`encryption`).
//! 2. `nodetool reloadssl`, and a look every [`RELOAD_EVERY`] as Cassandra has it, read the files again. If they have
//!    changed, contexts made of them are used by connections from then on, on every core.
//!
//! Invariants: files that cannot be used change nothing, and the log says so.

use crate::config::{Config, file_of};
use crate::control::{Control, ControlPort};
use crate::cql::context::Context;
use crate::encryption::{Files, load};
use crate::internode::NodeLinks;
use runtime::ShardId;
use runtime::sync::{Either, Latch, race};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tls::Source;

/// How often the files are looked at.
pub(crate) const RELOAD_EVERY: Duration = Duration::from_secs(600);

/// The keys of a node, on shard 0.
pub(crate) struct Keys {
    config: Arc<Config>,
    control: Rc<ControlPort>,
    context: Rc<Context>,
    links: NodeLinks,
    files: RefCell<Files>,
}

impl Keys {
    pub(crate) fn new(
        config: Arc<Config>,
        control: Rc<ControlPort>,
        context: Rc<Context>,
        links: NodeLinks,
        files: Files,
    ) -> Rc<Keys> {
        Rc::new(Keys { config, control, context, links, files: RefCell::new(files) })
    }

    /// Reads the files again, and has every core use what is in them if that has changed. Returns whether it has.
    pub(crate) async fn reload(&self) -> Result<bool, String> {
        let (files, contexts) = load(&self.config).await?;
        if files == *self.files.borrow() {
            return Ok(false);
        }
        self.files.replace(files);
        self.control.broadcast(ShardId(0), || Control::Keys(contexts.clone())).await;
        self.context.set_keys(&contexts);
        self.links.set_keys(&contexts);
        tracing::info!("SSL certificates have been updated. Resetting the ssl contexts for new connections.");
        Ok(true)
    }

    /// Looks at the files from time to time, until `closing`.
    pub(crate) async fn watch(self: Rc<Self>, closing: Latch) {
        let files = self.files.borrow().clone();
        if files == Files::default() {
            return;
        }
        while let Either::Right(()) = race(closing.wait(), runtime::sleep(RELOAD_EVERY)).await {
            if let Err(error) = self.reload().await {
                tracing::error!(
                    "Failed to hot reload the SSL Certificates! Please check the certificate files for {}: {error}",
                    self.shown_files()
                );
            }
        }
    }

    fn shown_files(&self) -> String {
        let (clients, peers) = (&self.config.client_encryption.options, &self.config.server_encryption.options);
        let sources = [&clients.keystore, &clients.truststore, &peers.keystore, &peers.truststore];
        let shown = |source: &Option<Source>| Some(file_of(source.as_ref())?.display().to_string());
        sources.into_iter().filter_map(shown).collect::<Vec<_>>().join(", ")
    }
}
