//! What a node's connections are encrypted with, read from the files that the configuration names.
//!
//! Invariants: a node does not start without the encryption that it is configured for. Reading the files again while it
//! runs is in `keys`.

use crate::config::{ClientEncryption, Config, Encryption, InternodeEncryption};
use tls::{ClientAuth, ClientContext, Material, Options, ServerContext, Source};

/// What connections are encrypted with, the same on all cores; `None` where nothing is.
#[derive(Clone, Default, Debug)]
pub(crate) struct Contexts {
    /// Connections of clients.
    pub(crate) clients: Option<ServerContext>,
    /// Connections that other nodes make.
    pub(crate) inbound: Option<ServerContext>,
    /// Connections that this node makes to others.
    pub(crate) outbound: Option<ClientContext>,
}

/// The bytes that contexts are made of.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Files {
    clients: Option<Material>,
    peers: Option<Material>,
}

/// Options without the trust store if nobody is judged by it.
fn without_trust(options: &Options) -> Options {
    match options.client_auth {
        ClientAuth::None => Options { truststore: None, ..options.clone() },
        ClientAuth::Optional | ClientAuth::Required => options.clone(),
    }
}

fn named<T>(group: &str, result: Result<T, tls::Error>) -> Result<T, String> {
    result.map_err(|error| format!("{group}: {error}"))
}

const CLIENTS: &str = "client_encryption_options";
const PEERS: &str = "server_encryption_options";

/// Reads the files that `config` names and makes contexts of them. An error is for the operator.
pub(crate) async fn load(config: &Config) -> Result<(Files, Contexts), String> {
    let (mut files, mut contexts) = (Files::default(), Contexts::default());
    let clients = &config.client_encryption;
    if clients.encryption != Encryption::Off || has_key_store(clients).await {
        let options = without_trust(&clients.options);
        let material = named(CLIENTS, Material::read(&options).await);
        let context = material.and_then(|material| {
            let context = named(CLIENTS, ServerContext::new(&options, &material))?;
            Ok((material, context))
        });
        match context {
            Ok((material, context)) => (files.clients, contexts.clients) = (Some(material), Some(context)),
            Err(error) if clients.encryption == Encryption::Off => {
                tracing::warn!("clients cannot encrypt their connections: {error}");
            }
            Err(error) => return Err(error),
        }
    }
    let peers = &config.server_encryption;
    let makes = peers.internode != InternodeEncryption::None;
    if makes || peers.inbound() != Encryption::Off {
        let options = if makes { peers.options.clone() } else { without_trust(&peers.options) };
        let material = named(PEERS, Material::read(&options).await)?;
        contexts.inbound = Some(named(PEERS, ServerContext::new(&options, &material))?);
        if makes {
            contexts.outbound = Some(named(PEERS, ClientContext::new(&options, &material))?);
        }
        files.peers = Some(material);
    }
    Ok((files, contexts))
}

/// Whether there may be a key store without anybody having asked for encryption.
async fn has_key_store(clients: &ClientEncryption) -> bool {
    match &clients.options.keystore {
        _ if !clients.is_transitional => false,
        // The configuration that Cassandra ships names a file that is not there.
        Some(Source::File(path)) => runtime::file::canonical(path).await.is_ok(),
        Some(Source::Inline(_)) => true,
        None => false,
    }
}

/// How connections to the port for clients are encrypted, once it is known whether there are keys.
pub(crate) fn of_clients(config: &ClientEncryption, contexts: &Contexts) -> Encryption {
    match (config.encryption, &contexts.clients) {
        (Encryption::Off, Some(_)) => Encryption::Optional,
        (encryption, _) => encryption,
    }
}
