//! Cipher suites by their names in Java, which are IANA's.

use crate::error::Error;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring::ALL_CIPHER_SUITES;

/// The name of a suite in Java.
pub(crate) fn name(suite: rustls::CipherSuite) -> String {
    // `rustls` tells those of TLS 1.3 by another prefix.
    format!("{suite:?}").replacen("TLS13_", "TLS_", 1)
}

/// All suites that there are, the strongest first.
pub(crate) fn all() -> Vec<SupportedCipherSuite> {
    ALL_CIPHER_SUITES.to_vec()
}

/// The suites with these names, in their order.
pub(crate) fn named(names: &[String]) -> Result<Vec<SupportedCipherSuite>, Error> {
    let of_name = |wanted: &String| {
        let found = ALL_CIPHER_SUITES.iter().find(|suite| name(suite.suite()) == *wanted);
        found.copied().ok_or_else(|| {
            let known = ALL_CIPHER_SUITES.iter().map(|suite| name(suite.suite())).collect::<Vec<_>>().join(", ");
            Error::new(format!("{wanted} is not a cipher suite that is there, which are {known}"))
        })
    };
    names.iter().map(of_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_names_of_java() {
        let names: Vec<String> = all().iter().map(|suite| name(suite.suite())).collect();
        assert_eq!(
            names,
            [
                "TLS_AES_256_GCM_SHA384",
                "TLS_AES_128_GCM_SHA256",
                "TLS_CHACHA20_POLY1305_SHA256",
                "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            ]
        );
        assert_eq!(named(&names[1..2]).expect("known").len(), 1);
    }
}
