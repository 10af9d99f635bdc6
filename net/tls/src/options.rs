//! What the options of `client_encryption_options` and `server_encryption_options` ask for.

use crate::cipher_suites;
use crate::error::Error;
use rustls::SupportedCipherSuite;
use std::fmt;
use std::path::PathBuf;

/// A text that is never shown: a password or a private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<REDACTED>")
    }
}

/// Where keys or certificates come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A file, which is read again when it has changed.
    File(PathBuf),
    /// Text in the configuration itself.
    Inline(Secret),
}

/// The form of keys and certificates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// PKCS#12; also what Java's `store_type: JKS` reads, unless the file has the older form.
    #[default]
    Pkcs12,
    /// PEM, by `PEMBasedSslContextFactory`.
    Pem,
}

/// Whether connections to a port are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encryption {
    /// None is.
    #[default]
    Off,
    /// Those are that begin with TLS.
    Optional,
    /// All are.
    Required,
}

/// Whether the side that connects must show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientAuth {
    /// It is not asked for one.
    #[default]
    None,
    /// One that it shows must be trusted.
    Optional,
    /// It must show one that is trusted.
    Required,
}

/// The versions of TLS that are spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protocols {
    /// TLS 1.2.
    pub tls12: bool,
    /// TLS 1.3.
    pub tls13: bool,
}

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols { tls12: true, tls13: true }
    }
}

/// What a node wants of TLS on one kind of connection.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// The form of the sources below.
    pub format: Format,
    /// The key and its certificates.
    pub keystore: Option<Source>,
    /// What opens it.
    pub keystore_password: Option<Secret>,
    /// The key and certificates for connections that this node makes, if they are others.
    pub outbound_keystore: Option<Source>,
    /// What opens it.
    pub outbound_keystore_password: Option<Secret>,
    /// The certificates that are trusted.
    pub truststore: Option<Source>,
    /// What opens it.
    pub truststore_password: Option<Secret>,
    /// The versions of TLS.
    pub protocols: Protocols,
    /// The cipher suites, by their names in Java; empty for all.
    pub cipher_suites: Vec<String>,
    /// Whether the side that connects must show a certificate.
    pub client_auth: ClientAuth,
    /// Whether a certificate must name the address of who shows it.
    pub verifies_endpoint: bool,
}

impl Protocols {
    /// The versions with these names in Java: `TLSv1.2` and `TLSv1.3`.
    ///
    /// # Errors
    /// If a name is unknown, or belongs to a version that is too old to be spoken.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Protocols, Error> {
        let mut protocols = Protocols { tls12: false, tls13: false };
        for name in names {
            match name {
                "TLSv1.2" => protocols.tls12 = true,
                "TLSv1.3" => protocols.tls13 = true,
                "TLS" => protocols = Protocols::default(),
                "TLSv1" | "TLSv1.1" | "SSLv2Hello" | "SSLv3" => {
                    return Err(Error::new(format!("{name} is not spoken, only TLSv1.2 and TLSv1.3")));
                }
                _ => return Err(Error::new(format!("{name} is not one of TLSv1.2 and TLSv1.3"))),
            }
        }
        Ok(protocols)
    }
}

impl Options {
    /// The suites to offer.
    ///
    /// # Errors
    /// If one is unknown, or none is of a version that is spoken.
    pub(crate) fn suites(&self) -> Result<Vec<SupportedCipherSuite>, Error> {
        let suites = match self.cipher_suites.is_empty() {
            true => cipher_suites::all(),
            false => cipher_suites::named(&self.cipher_suites)?,
        };
        let Protocols { tls12, tls13 } = self.protocols;
        let is_spoken = |suite: &SupportedCipherSuite| if suite.tls13().is_some() { tls13 } else { tls12 };
        let spoken: Vec<_> = suites.into_iter().filter(is_spoken).collect();
        match spoken.is_empty() {
            true => Err(Error::new("no cipher suite is of a version of TLS that is accepted")),
            false => Ok(spoken),
        }
    }

    /// Checks what can be checked without keys.
    ///
    /// # Errors
    /// As [`ServerContext::new`](crate::ServerContext::new).
    pub fn check(&self) -> Result<(), Error> {
        self.suites().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_and_unknown_suites_are_refused_by_name() {
        let named = |names: &[&str]| Protocols::named(names.iter().copied());
        assert_eq!(named(&["TLSv1.3"]), Ok(Protocols { tls12: false, tls13: true }));
        assert_eq!(named(&["TLS"]), Ok(Protocols::default()));
        assert_eq!(named(&["TLSv1.1"]).expect_err("old").0, "TLSv1.1 is not spoken, only TLSv1.2 and TLSv1.3");
        assert!(named(&["TLSv9"]).is_err());
        let of =
            |suite: &str, protocols| Options { cipher_suites: vec![suite.into()], protocols, ..Options::default() };
        let cbc = of("TLS_RSA_WITH_AES_128_CBC_SHA", Protocols::default()).check().expect_err("not there");
        assert!(cbc.0.starts_with("TLS_RSA_WITH_AES_128_CBC_SHA is not a cipher suite that is there"), "{cbc}");
        assert!(of("TLS_AES_128_GCM_SHA256", Protocols::default()).check().is_ok());
        let old = Protocols { tls12: true, tls13: false };
        assert!(of("TLS_AES_128_GCM_SHA256", old).check().is_err(), "a suite of TLS 1.3 only");
    }

    #[test]
    fn secrets_are_not_shown() {
        let options = Options {
            keystore: Some(Source::Inline(Secret("-----BEGIN PRIVATE KEY-----".into()))),
            keystore_password: Some(Secret("opensesame".into())),
            ..Options::default()
        };
        let shown = format!("{options:?}");
        assert!(!shown.contains("BEGIN") && !shown.contains("opensesame"), "{shown}");
    }
}
