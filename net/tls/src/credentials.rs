//! Keys and certificates, read from PEM or PKCS#12.
//!
//! Older stores of Java (JKS) are refused by name, with the command that converts them: their keys are encrypted by a
//! method that only Java knows.

mod pem;
mod pkcs12;

use crate::error::Error;
use crate::options::{Format, Options, Secret, Source};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

/// The longest file of keys or certificates, bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A private key and the certificates that prove it, its own first.
#[derive(Debug)]
pub struct Credentials {
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

impl Clone for Credentials {
    fn clone(&self) -> Credentials {
        Credentials { key: self.key.clone_key(), certificates: self.certificates.clone() }
    }
}

impl Credentials {
    /// A key and its certificates in one text of PEM, or in two that were put together.
    ///
    /// # Errors
    /// If one of both is missing or cannot be read.
    pub fn of_pem(text: &[u8], password: Option<&str>) -> Result<Credentials, Error> {
        Ok(Credentials { key: pem::private_key(text, password)?, certificates: pem::certificates(text)? })
    }
}

/// The certificates in a text of PEM, of which there must be one.
///
/// # Errors
/// If there is none, or one cannot be read.
pub fn certificates_of_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    pem::certificates(text)
}

/// The bytes that [`Options`] name, before they are understood. Equal material makes equal contexts, so that a look at
/// the files tells whether anything has changed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Material {
    keystore: Option<Vec<u8>>,
    outbound_keystore: Option<Vec<u8>>,
    truststore: Option<Vec<u8>>,
}

impl Material {
    /// Reads the files that `options` name, on the current shard.
    ///
    /// # Errors
    /// If a file cannot be read; the text has its name.
    pub async fn read(options: &Options) -> Result<Material, Error> {
        Ok(Material {
            keystore: read(options.keystore.as_ref()).await?,
            outbound_keystore: read(options.outbound_keystore.as_ref()).await?,
            truststore: read(options.truststore.as_ref()).await?,
        })
    }

    /// The key and certificates that this node shows to those who connect.
    pub(crate) fn credentials(&self, options: &Options) -> Result<Option<Credentials>, Error> {
        credentials("keystore", options.format, self.keystore.as_deref(), options.keystore_password.as_ref())
    }

    /// The key and certificates that this node shows when it connects: its own for that, or else the same.
    pub(crate) fn outbound_credentials(&self, options: &Options) -> Result<Option<Credentials>, Error> {
        match &self.outbound_keystore {
            None => self.credentials(options),
            Some(bytes) => {
                let password = options.outbound_keystore_password.as_ref();
                credentials("outbound_keystore", options.format, Some(bytes), password)
            }
        }
    }

    /// The certificates that are trusted.
    pub(crate) fn trusted(&self, options: &Options) -> Result<Option<Vec<CertificateDer<'static>>>, Error> {
        let Some(bytes) = &self.truststore else { return Ok(None) };
        let trusted = match options.format {
            Format::Pem => pem::certificates(bytes),
            Format::Pkcs12 => {
                let password = options.truststore_password.as_ref().map_or("", |password| &password.0);
                pkcs12::certificates(bytes, password)
            }
        };
        trusted.map(Some).map_err(|error| Error::new(format!("truststore: {error}")))
    }
}

async fn read(source: Option<&Source>) -> Result<Option<Vec<u8>>, Error> {
    Ok(match source {
        None => None,
        Some(Source::Inline(text)) => Some(text.0.clone().into_bytes()),
        Some(Source::File(path)) => Some(read_file(path).await?),
    })
}

async fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let read = runtime::file::read_small(path, FILE_BYTES_MAX).await;
    read.map_err(|error| Error::new(format!("{} cannot be read: {error}", path.display())))
}

fn credentials(
    name: &str,
    format: Format,
    bytes: Option<&[u8]>,
    password: Option<&Secret>,
) -> Result<Option<Credentials>, Error> {
    let Some(bytes) = bytes else { return Ok(None) };
    let password = password.map(|password| password.0.as_str());
    let read = match (format, password) {
        (Format::Pem, password) => Credentials::of_pem(bytes, password),
        // The words are Cassandra's.
        (Format::Pkcs12, None) => return Err(Error::new(format!("'{name}_password' must be specified"))),
        (Format::Pkcs12, Some(password)) => pkcs12::credentials(bytes, password),
    };
    read.map(Some).map_err(|error| Error::new(format!("{name}: {error}")))
}

#[cfg(test)]
mod tests;
