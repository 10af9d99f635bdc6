//! Files as OpenSSL and Java write them.

use super::*;

const NODE: &[u8] = include_bytes!("../../tests/certificates/node.pem");
const ENCRYPTED: &[u8] = include_bytes!("../../tests/certificates/node-encrypted.pem");
const NODE_P12: &[u8] = include_bytes!("../../tests/certificates/node.p12");
const TRUST_P12: &[u8] = include_bytes!("../../tests/certificates/trust.p12");

fn text<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("refused").0
}

#[test]
fn encrypted_keys_of_pem_need_their_password() {
    let plain = Credentials::of_pem(NODE, None).expect("readable");
    let opened = Credentials::of_pem(ENCRYPTED, Some("secret")).expect("readable");
    assert_eq!(opened.key.secret_der(), plain.key.secret_der());
    assert_eq!(opened.certificates, plain.certificates);
    assert!(text(Credentials::of_pem(ENCRYPTED, Some("wrong"))).contains("cannot be decrypted"));
    assert!(text(Credentials::of_pem(ENCRYPTED, None)).contains("no password is given"));
    assert_eq!(text(Credentials::of_pem(b"nothing", None)), "Invalid private key format");
    let only_key = NODE.split(|byte| *byte == b'C').next().expect("a part");
    let _ = Credentials::of_pem(only_key, None).expect_err("a part is not enough");
    for len in 0..ENCRYPTED.len() {
        let _ = Credentials::of_pem(&ENCRYPTED[..len], Some("secret"));
    }
}

#[test]
fn key_stores_of_java_are_read() {
    let read = pkcs12::credentials(NODE_P12, "cassandra").expect("readable");
    assert_eq!(read.certificates.len(), 1);
    assert_eq!(pkcs12::certificates(TRUST_P12, "cassandra"), Ok(read.certificates.clone()));
    assert_eq!(pkcs12::certificates(NODE_P12, "cassandra"), Ok(read.certificates));
    assert!(text(pkcs12::credentials(NODE_P12, "wrong")).contains("or the password is wrong"));
    assert_eq!(text(pkcs12::credentials(TRUST_P12, "cassandra")), "there is no private key");
    assert!(text(pkcs12::credentials(b"\xfe\xed\xfe\xed\0\0\0\x02", "x")).contains("keytool -importkeystore"));
    for len in (0..NODE_P12.len()).step_by(37) {
        assert!(pkcs12::credentials(&NODE_P12[..len], "cassandra").is_err(), "{len} bytes");
    }
    let options = Options { keystore: Some(Source::File("x".into())), ..Options::default() };
    let material = Material { keystore: Some(NODE_P12.to_vec()), ..Material::default() };
    assert_eq!(text(material.credentials(&options)), "'keystore_password' must be specified");
}
