//! What all connections of one kind share: keys, trust and the rules of TLS.

use crate::clock::RuntimeClock;
use crate::credentials::{Credentials, Material};
use crate::error::Error;
use crate::options::{ClientAuth, Options, Protocols};
use crate::trust::{ClientTrust, ServerTrust, Trust};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion, version};
use std::fmt;
use std::sync::Arc;

/// For connections that others make to this node. Cloning shares it.
#[derive(Clone)]
pub struct ServerContext {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) verifies_endpoint: bool,
}

/// For connections that this node makes to others. Cloning shares it.
#[derive(Clone)]
pub struct ClientContext {
    pub(crate) config: Arc<ClientConfig>,
}

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerContext")
    }
}

impl fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientContext")
    }
}

fn provider(options: &Options) -> Result<Arc<CryptoProvider>, Error> {
    Ok(Arc::new(CryptoProvider { cipher_suites: options.suites()?, ..ring::default_provider() }))
}

fn versions(protocols: Protocols) -> Vec<&'static SupportedProtocolVersion> {
    let all = [(protocols.tls13, &version::TLS13), (protocols.tls12, &version::TLS12)];
    all.into_iter().filter(|(spoken, _)| *spoken).map(|(_, version)| version).collect()
}

/// A text for errors of `rustls` about configurations.
fn unusable(error: rustls::Error) -> Error {
    Error::new(match error {
        rustls::Error::InconsistentKeys(_) => "the private key and its certificate do not belong together".into(),
        error => error.to_string(),
    })
}

impl ServerContext {
    /// The context for these options and what they name.
    ///
    /// # Errors
    /// If there is no key, if certificates are asked of clients and there is no trust store, or if one of both cannot
    /// be understood. The text is for the operator.
    pub fn new(options: &Options, material: &Material) -> Result<ServerContext, Error> {
        let Some(credentials) = material.credentials(options)? else {
            return Err(Error::new("there is no keystore"));
        };
        let trusted = match options.client_auth {
            ClientAuth::None => None,
            ClientAuth::Optional | ClientAuth::Required => {
                let trusted = material.trusted(options)?;
                Some(trusted.ok_or_else(|| Error::new("certificates are asked for, and there is no truststore"))?)
            }
        };
        ServerContext::of(options, credentials, trusted)
    }

    fn of(
        options: &Options,
        credentials: Credentials,
        trusted: Option<Vec<CertificateDer<'static>>>,
    ) -> Result<ServerContext, Error> {
        let provider = provider(options)?;
        let builder = ServerConfig::builder_with_details(provider.clone(), Arc::new(RuntimeClock))
            .with_protocol_versions(&versions(options.protocols))
            .map_err(unusable)?;
        let builder = match trusted {
            None => builder.with_no_client_auth(),
            Some(trusted) => {
                let trust = Trust::new(trusted, &provider)?;
                let is_mandatory = options.client_auth == ClientAuth::Required;
                builder.with_client_cert_verifier(Arc::new(ClientTrust::new(trust, &provider, is_mandatory)?))
            }
        };
        let mut config = builder.with_single_cert(credentials.certificates, credentials.key).map_err(unusable)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(ServerContext { config: Arc::new(config), verifies_endpoint: options.verifies_endpoint })
    }
}

impl ClientContext {
    /// The context for these options and what they name.
    ///
    /// # Errors
    /// If there is no trust store, or if it or the key cannot be understood.
    pub fn new(options: &Options, material: &Material) -> Result<ClientContext, Error> {
        let Some(trusted) = material.trusted(options)? else { return Err(Error::new("there is no truststore")) };
        ClientContext::of(options, material.outbound_credentials(options)?, Some(trusted))
    }

    /// The context of a client that trusts `trusted`, or everybody if there is none.
    ///
    /// # Errors
    /// As [`ClientContext::new`].
    pub fn trusting(
        credentials: Option<Credentials>,
        trusted: Option<Vec<CertificateDer<'static>>>,
    ) -> Result<ClientContext, Error> {
        ClientContext::of(&Options::default(), credentials, trusted)
    }

    fn of(
        options: &Options,
        credentials: Option<Credentials>,
        trusted: Option<Vec<CertificateDer<'static>>>,
    ) -> Result<ClientContext, Error> {
        let provider = provider(options)?;
        let trust = trusted.map(|trusted| Trust::new(trusted, &provider)).transpose()?;
        let algorithms = provider.signature_verification_algorithms;
        let verifier = ServerTrust { trust, algorithms, verifies_endpoint: options.verifies_endpoint };
        let builder = ClientConfig::builder_with_details(provider, Arc::new(RuntimeClock))
            .with_protocol_versions(&versions(options.protocols))
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match credentials {
            None => builder.with_no_client_auth(),
            Some(own) => builder.with_client_auth_cert(own.certificates, own.key).map_err(unusable)?,
        };
        config.resumption = Resumption::disabled();
        Ok(ClientContext { config: Arc::new(config) })
    }
}
