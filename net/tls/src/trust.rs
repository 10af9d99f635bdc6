//! Which certificates are trusted: those that a certificate of the trust store has signed, in any number of steps, and
//! those of the trust store themselves.
//!
//! A certificate of the trust store may be shown as it is even if it is that of an authority, as Java has it: many
//! clusters have one such certificate for all nodes. Dates are checked in any case.
//!
//! Names are checked only if `require_endpoint_verification` asks for it: nodes know each other by addresses, which few
//! certificates have.

use crate::error::Error;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use std::net::IpAddr;
use std::sync::Arc;

/// Certificates that are trusted.
#[derive(Debug)]
pub(crate) struct Trust {
    roots: Arc<RootCertStore>,
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    pub(crate) fn new(trusted: Vec<CertificateDer<'static>>, provider: &CryptoProvider) -> Result<Trust, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in &trusted {
            let added = roots.add(certificate.clone());
            added.map_err(|error| Error::new(format!("a trusted certificate cannot be read: {error}")))?;
        }
        Ok(Trust { roots: Arc::new(roots), trusted, algorithms: provider.signature_verification_algorithms })
    }

    /// Takes a certificate of the trust store itself that is refused only for being that of an authority, or because
    /// the authority that signed it is unknown. Dates and purposes are checked before both.
    fn or_itself(&self, shown: &CertificateDer<'_>, judged: Result<(), rustls::Error>) -> Result<(), rustls::Error> {
        let is_forgivable = match &judged {
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => true,
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(other))) => {
                matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
            }
            _ => false,
        };
        if is_forgivable && self.trusted.contains(shown) { Ok(()) } else { judged }
    }
}

/// Judges nodes that this one connects to.
#[derive(Debug)]
pub(crate) struct ServerTrust {
    /// `None` trusts everybody.
    pub(crate) trust: Option<Trust>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) verifies_endpoint: bool,
}

impl ServerCertVerifier for ServerTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if let Some(trust) = &self.trust {
            let all = trust.algorithms.all;
            let judged = verify_server_cert_signed_by_trust_anchor(&certificate, &trust.roots, intermediates, now, all);
            trust.or_itself(end_entity, judged)?;
        }
        if self.verifies_endpoint {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Judges who connects.
#[derive(Debug)]
pub(crate) struct ClientTrust {
    trust: Trust,
    chains: Arc<dyn ClientCertVerifier>,
    is_mandatory: bool,
}

impl ClientTrust {
    pub(crate) fn new(trust: Trust, provider: &Arc<CryptoProvider>, is_mandatory: bool) -> Result<ClientTrust, Error> {
        let chains = WebPkiClientVerifier::builder_with_provider(trust.roots.clone(), provider.clone())
            .build()
            .map_err(|error| Error::new(format!("truststore: {error}")))?;
        Ok(ClientTrust { trust, chains, is_mandatory })
    }
}

impl ClientCertVerifier for ClientTrust {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let judged = self.chains.verify_client_cert(end_entity, intermediates, now);
        self.trust.or_itself(end_entity, judged.map(|_| ()))?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.trust.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.trust.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trust.algorithms.supported_schemes()
    }
}

/// The subject of a certificate, as its bytes have it; `None` if it cannot be read. It stays the same when a
/// certificate is renewed.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    Some(webpki::EndEntityCert::try_from(certificate).ok()?.subject().to_vec())
}

/// Whether a certificate names an address, by which its owner is known.
pub fn names_address(certificate: &CertificateDer<'_>, address: IpAddr) -> bool {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return false };
    verify_server_name(&parsed, &ServerName::IpAddress(address.into())).is_ok()
}
