//! Connections with and without TLS, which are different types to the driver.

use super::{Session, Settings, Strategy};
use cdrs_tokio::authenticators::{
    NoneAuthenticatorProvider, SaslAuthenticatorProvider, StaticPasswordAuthenticatorProvider,
};
use cdrs_tokio::cluster::session::{RustlsSessionBuilder, SessionBuilder, TcpSessionBuilder};
use cdrs_tokio::cluster::{
    ConnectionManager, KeyspaceHolder, NodeAddress, NodeRustlsConfigBuilder, NodeTcpConfigBuilder,
    RustlsConnectionManager, TcpConnectionManager,
};
use cdrs_tokio::frame_encoding::ProtocolFrameEncodingFactory;
use cdrs_tokio::retry::ConstantReconnectionPolicy;
use cdrs_tokio::transport::{CdrsTransport, TransportRustls, TransportTcp};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;

/// The one name that the driver has for all nodes of a cluster; their certificates have it.
const NODE_NAME: &str = "localhost";
const BUFFER_BYTES: usize = 1024;

pub(super) trait Kind: Sized + 'static {
    type Transport: CdrsTransport + 'static;
    type Manager: ConnectionManager<Self::Transport> + Send + Sync + 'static;

    /// A session; in a keyspace if one is named. The driver tries until it has one.
    async fn session(settings: &Settings, keyspace: Option<&str>) -> Session<Self>;

    /// What opens the connections of a session. Unlike a session it tries once and says what went wrong.
    fn manager(settings: &Settings, name: &'static str) -> Self::Manager;
}

pub(super) struct Plain;

pub(super) struct Encrypted;

impl Settings {
    fn authenticator(&self) -> Arc<dyn SaslAuthenticatorProvider + Send + Sync> {
        match &self.options.login {
            Some(login) => Arc::new(StaticPasswordAuthenticatorProvider::new(&login.user, &login.password)),
            None => Arc::new(NoneAuthenticatorProvider),
        }
    }

    fn contact_points(&self) -> Vec<NodeAddress> {
        self.options.nodes.iter().map(|node| (*node).into()).collect()
    }

    fn tls(&self) -> Arc<ClientConfig> {
        self.options.trust.as_ref().expect("an authority").config(true)
    }
}

fn strategy<K: Kind>() -> Strategy<K> {
    Strategy::<K>::new(None, false)
}

async fn built<K: Kind, B>(builder: B, settings: &Settings, keyspace: Option<&str>) -> Session<K>
where
    B: SessionBuilder<K::Transport, K::Manager, Strategy<K>>,
{
    let reconnection = ConstantReconnectionPolicy::new(Duration::from_millis(100));
    let mut builder = builder.with_compression(settings.compression).with_reconnection_policy(Arc::new(reconnection));
    if let Some(keyspace) = keyspace {
        builder = builder.with_keyspace(keyspace.to_owned());
    }
    builder.build().await.expect("a session")
}

fn keyspace_holder() -> Arc<KeyspaceHolder> {
    Arc::new(KeyspaceHolder::new(tokio::sync::watch::channel(None).0))
}

fn server_name(name: &'static str) -> ServerName<'static> {
    ServerName::try_from(name).expect("a name")
}

impl Kind for Plain {
    type Transport = TransportTcp;
    type Manager = TcpConnectionManager;

    async fn session(settings: &Settings, keyspace: Option<&str>) -> Session<Plain> {
        let config = NodeTcpConfigBuilder::new()
            .with_contact_points(settings.contact_points())
            .with_version(settings.version)
            .with_authenticator_provider(settings.authenticator())
            .build()
            .await
            .expect("a configuration");
        built::<Plain, _>(TcpSessionBuilder::new(strategy::<Plain>(), config), settings, keyspace).await
    }

    fn manager(settings: &Settings, _: &'static str) -> TcpConnectionManager {
        TcpConnectionManager::new(
            settings.authenticator(),
            keyspace_holder(),
            Box::new(ProtocolFrameEncodingFactory),
            settings.compression,
            BUFFER_BYTES,
            true,
            settings.version,
        )
    }
}

impl Kind for Encrypted {
    type Transport = TransportRustls;
    type Manager = RustlsConnectionManager;

    async fn session(settings: &Settings, keyspace: Option<&str>) -> Session<Encrypted> {
        let config = NodeRustlsConfigBuilder::new(server_name(NODE_NAME), settings.tls())
            .with_contact_points(settings.contact_points())
            .with_version(settings.version)
            .with_authenticator_provider(settings.authenticator())
            .build()
            .await
            .expect("a configuration");
        built::<Encrypted, _>(RustlsSessionBuilder::new(strategy::<Encrypted>(), config), settings, keyspace).await
    }

    fn manager(settings: &Settings, name: &'static str) -> RustlsConnectionManager {
        RustlsConnectionManager::new(
            server_name(name),
            settings.authenticator(),
            settings.tls(),
            keyspace_holder(),
            Box::new(ProtocolFrameEncodingFactory),
            settings.compression,
            BUFFER_BYTES,
            true,
            settings.version,
        )
    }
}

impl Settings {
    /// What keeps a connection from being made to the first node, which is asked for by a name.
    pub(super) async fn refused<K: Kind>(&self, name: Option<&'static str>) -> String {
        let manager = K::manager(self, name.unwrap_or(NODE_NAME));
        manager.connection(None, None, self.options.nodes[0]).await.err().expect("refused").to_string()
    }
}
