//! PKCS#12, the form of key stores that Java writes today, also under the name JKS.

use crate::credentials::Credentials;
use crate::error::Error;
use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The first bytes of Java's older key stores.
const JKS_MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

fn open(bytes: &[u8], password: &str) -> Result<KeyStore, Error> {
    if bytes.starts_with(&JKS_MAGIC) {
        return Err(Error::new(
            "the file has Java's older form JKS, which is not read; `keytool -importkeystore -srckeystore OLD \
             -destkeystore NEW -deststoretype PKCS12` converts it, and `store_type` may stay as it is",
        ));
    }
    KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Relaxed)
        .map_err(|error| Error::new(format!("the file is no key store of PKCS#12, or the password is wrong ({error})")))
}

fn certificate(certificate: &p12_keystore::Certificate) -> CertificateDer<'static> {
    CertificateDer::from(certificate.as_der().to_vec())
}

/// The first key with its certificates.
pub(super) fn credentials(bytes: &[u8], password: &str) -> Result<Credentials, Error> {
    let store = open(bytes, password)?;
    let Some((_, chain)) = store.private_key_chain() else { return Err(Error::new("there is no private key")) };
    let certificates: Vec<_> = chain.certs().iter().map(certificate).collect();
    if certificates.is_empty() {
        return Err(Error::new("the private key has no certificate"));
    }
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(chain.key().as_der().to_vec()));
    Ok(Credentials { key, certificates })
}

/// All certificates: those that stand for themselves, and those of keys.
pub(super) fn certificates(bytes: &[u8], password: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let store = open(bytes, password)?;
    let mut found = Vec::new();
    for (_, entry) in store.entries() {
        match entry {
            KeyStoreEntry::Certificate(one) => found.push(certificate(one)),
            KeyStoreEntry::PrivateKeyChain(chain) => found.extend(chain.certs().iter().map(certificate)),
            KeyStoreEntry::Secret(_) => {}
        }
    }
    match found.is_empty() {
        true => Err(Error::new("there is no certificate")),
        false => Ok(found),
    }
}
