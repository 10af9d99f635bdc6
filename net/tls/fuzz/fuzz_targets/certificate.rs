//! Any bytes as the certificate that a client has shown, whose identities are read; and as PEM with keys and
//! certificates. Both as they are, and behind the beginning of a certificate that is one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tls::{CertificateDer, Credentials, Secured, certificates_of_pem, names_address, subject};

fn read(der: &[u8]) {
    let certificate = CertificateDer::from(der.to_vec());
    let _ = (subject(&certificate), names_address(&certificate, std::net::IpAddr::from([127, 0, 0, 1])));
    let secured =
        Secured { protocol: "TLSv1.3", cipher_suite: String::new(), peer_certificates: vec![certificate] };
    for uri in secured.peer_uris().into_iter().flatten() {
        let is_there = uri.is_empty() || der.windows(uri.len()).any(|part| part == uri.as_bytes());
        assert!(is_there, "an identity of its own making: {uri}");
    }
}

fuzz_target!(|data: &[u8]| {
    read(data);
    let _ = Credentials::of_pem(data, None);
    for certificate in certificates_of_pem(data).into_iter().flatten() {
        read(&certificate);
    }
    let client = include_bytes!("../../tests/certificates/client.pem");
    let whole = certificates_of_pem(client).expect("a certificate");
    if let Some((at, rest)) = data.split_first_chunk::<2>() {
        let mut der = whole[0].to_vec();
        let at = usize::from(u16::from_be_bytes(*at)) % der.len();
        let end = (at + rest.len()).min(der.len());
        der[at..end].copy_from_slice(&rest[..end - at]);
        read(&der);
    }
});
