//! Whom an encrypted connection trusts.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone)]
pub struct Trust {
    /// PEM with the certificate of an authority.
    pub authority: PathBuf,
    /// Whether the nodes' certificates are for their addresses.
    pub names_match: bool,
}

impl Trust {
    /// The authority beside this one, which has signed no certificate of a node.
    pub fn stranger(&self) -> Trust {
        Trust { authority: self.authority.with_file_name("other.pem"), ..self.clone() }
    }

    /// The same authority, and the nodes' names are checked although their certificates have others.
    pub fn insisting_on_names(&self) -> Trust {
        Trust { names_match: true, ..self.clone() }
    }

    /// TLS 1.3 alone, and certificates that the authority has signed: for the name that is asked for, or for any.
    pub fn config(&self, checks_names: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.authority).expect("PEM")).expect("a certificate");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
        let verifier = verifier.build().expect("a verifier");
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("ciphers of TLS 1.3");
        let verifier: Arc<dyn ServerCertVerifier> = match checks_names {
            true => verifier,
            false => Arc::new(AnyName(verifier)),
        };
        Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
    }
}

/// As the verifier that it has, but for names.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
