//! PEM: text with sections of base64. Cassandra takes private keys in PKCS#8, plain or encrypted; keys in the older
//! forms of OpenSSL are read too if they are not encrypted.

use crate::error::Error;
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::SecretDocument;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// How OpenSSL marks keys that it has encrypted in its older forms.
const LEGACY_ENCRYPTION: &str = "Proc-Type: 4,ENCRYPTED";

/// All certificates, in their order.
pub(super) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(Error::new("Could not read any certificates from the given PEM")),
        Ok(found) => Ok(found),
        Err(_) => Err(Error::new("Invalid certificate format")),
    }
}

/// The first private key.
pub(super) fn private_key(text: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, Error> {
    let shown = String::from_utf8_lossy(text);
    if let Some(at) = shown.find(ENCRYPTED_BEGIN) {
        let rest = &shown[at..];
        let end = rest.find(ENCRYPTED_END).ok_or_else(|| Error::new("Invalid private key format"))?;
        let Some(password) = password else {
            return Err(Error::new("the private key is encrypted, and no password is given"));
        };
        return decrypted(&rest[..end + ENCRYPTED_END.len()], password);
    }
    if shown.contains(LEGACY_ENCRYPTION) {
        return Err(Error::new(
            "the private key is encrypted in an old form; `openssl pkcs8 -topk8 -in OLD -out NEW` converts it",
        ));
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|_| Error::new("Invalid private key format"))
}

/// Decrypts one section of PEM.
fn decrypted(section: &str, password: &str) -> Result<PrivateKeyDer<'static>, Error> {
    let invalid = |_| Error::new("Invalid private key format");
    // Some programs break lines at other lengths than the decoder takes.
    let body: String = section[ENCRYPTED_BEGIN.len()..section.len() - ENCRYPTED_END.len()]
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect();
    let mut normal = format!("{ENCRYPTED_BEGIN}\n");
    for line in body.as_bytes().chunks(64) {
        normal.push_str(&String::from_utf8_lossy(line));
        normal.push('\n');
    }
    normal.push_str(ENCRYPTED_END);
    let (_, encrypted) = SecretDocument::from_pem(&normal).map_err(invalid)?;
    let info = EncryptedPrivateKeyInfoRef::try_from(encrypted.as_bytes())
        .map_err(|_| Error::new("Invalid private key format"))?;
    let plain = info
        .decrypt(password)
        .map_err(|_| Error::new("the private key cannot be decrypted: the password or the algorithm is wrong"))?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec())))
}
