//! Both sides of a connection in memory.

use super::*;
use crate::options::{ClientAuth, Format, Options, Protocols, Source};
use crate::{Material, Secret};
use runtime::NodeId;
use runtime::sim::Sim;
use std::time::Duration;

macro_rules! pem {
    ($name:literal) => {
        include_str!(concat!("../../tests/certificates/", $name, ".pem"))
    };
}

/// Runs `test` where there is a clock.
fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce() -> F + 'static) -> T {
    Sim::new(1, runtime::sim::Options::default()).run_node(NodeId(1), Duration::from_secs(60), test)
}

fn inline(text: &str) -> Option<Source> {
    Some(Source::Inline(Secret(text.into())))
}

fn options(keystore: &str, truststore: &str) -> Options {
    Options { format: Format::Pem, keystore: inline(keystore), truststore: inline(truststore), ..Options::default() }
}

async fn server(options: &Options) -> Session {
    let material = Material::read(options).await.expect("inline");
    Session::server(&ServerContext::new(options, &material).expect("a context")).expect("a session")
}

async fn client(options: &Options) -> Session {
    let material = Material::read(options).await.expect("inline");
    let to = ServerName::IpAddress(std::net::IpAddr::from([127, 0, 0, 1]).into());
    Session::client(&ClientContext::new(options, &material).expect("a context"), to).expect("a session")
}

/// What a side sends now.
fn sent(side: &Session, says: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::new();
    side.seal(&mut says.to_vec(), &mut sealed);
    sealed
}

/// Lets both sides talk until neither has anything to send, and returns how each has ended.
fn shake_hands(client: &Session, server: &Session) -> [Result<(), rustls::Error>; 2] {
    let (mut plain, mut ends) = (Vec::new(), [Ok(()), Ok(())]);
    for _ in 0..10 {
        let asked = sent(client, &[]);
        ends[1] = std::mem::replace(&mut ends[1], Ok(())).and(server.open(&asked, &mut plain));
        let answered = sent(server, &[]);
        ends[0] = std::mem::replace(&mut ends[0], Ok(())).and(client.open(&answered, &mut plain));
        if asked.is_empty() && answered.is_empty() {
            break;
        }
    }
    assert_eq!(plain, [], "nobody has said anything");
    ends
}

#[test]
fn both_sides_agree_and_talk() {
    run(|| async {
        for (protocols, name, suite) in [
            (Protocols::default(), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
            (Protocols { tls12: true, tls13: false }, "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        ] {
            let options = Options { protocols, ..options(pem!("node"), pem!("ca")) };
            let asked = Options { client_auth: ClientAuth::Required, ..options.clone() };
            let (client, server) = (client(&options).await, server(&asked).await);
            let early = sent(&server, b"early");
            assert_eq!(early, [], "nothing is said before the handshake has ended");
            assert_eq!(shake_hands(&client, &server), [Ok(()), Ok(())]);
            assert!(client.is_established() && server.is_established());
            for side in [&client, &server] {
                let secured = side.secured();
                assert_eq!((secured.protocol, secured.cipher_suite.as_str()), (name, suite));
                let node = crate::certificates_of_pem(pem!("node").as_bytes()).expect("certificates");
                assert_eq!(secured.peer_certificates, node);
            }
            let said: Vec<u8> = (0..100_000_u32).map(|n| (n / 7) as u8).collect();
            let mut plain = Vec::new();
            for piece in sent(&client, &said).chunks(999) {
                server.open(piece, &mut plain).expect("genuine");
            }
            assert!(plain == said, "in pieces of any size");
            plain.clear();
            client.open(&sent(&server, b"answer"), &mut plain).expect("genuine");
            assert_eq!(plain, b"answer");
            client.close();
            let last = sent(&client, b"last");
            plain.clear();
            server.open(&last, &mut plain).expect("genuine");
            assert!(plain == b"last" && server.is_peer_done());
        }
    });
}

#[test]
fn only_certificates_that_are_trusted_pass() {
    run(|| async {
        let (node, ca) = (pem!("node"), pem!("ca"));
        let demanding = |trust: &str| Options { client_auth: ClientAuth::Required, ..options(node, trust) };
        // Who shows it, what the other side trusts, and whether that passes.
        for (shown, trusted, passes) in [
            (node, ca, true),
            (pem!("client"), ca, true),
            (pem!("elsewhere"), ca, true),
            (pem!("stranger"), ca, false),
            (pem!("expired"), ca, false),
            (pem!("authority-as-node"), pem!("other"), true),
            (pem!("authority-as-node"), ca, false),
            (node, node, true),
        ] {
            let ends = shake_hands(&client(&options(shown, ca)).await, &server(&demanding(trusted)).await);
            assert_eq!(ends[1].is_ok(), passes, "shown by a client: {ends:?}");
            let served = server(&options(shown, ca)).await;
            let ends = shake_hands(&client(&options(node, trusted)).await, &served);
            // A certificate for clients only is none of a server.
            assert_eq!(ends[0].is_ok(), passes && shown != pem!("client"), "shown by a server: {ends:?}");
        }
        let shy = Options { keystore: None, ..options("", ca) };
        let refused = shake_hands(&client(&shy).await, &server(&demanding(ca)).await);
        assert!(refused[1].is_err(), "a certificate is needed");
        let optional = Options { client_auth: ClientAuth::Optional, ..options(node, ca) };
        let server = server(&optional).await;
        assert_eq!(shake_hands(&client(&shy).await, &server), [Ok(()), Ok(())]);
        assert_eq!(server.secured().peer_certificates, []);
    });
}

#[test]
fn an_address_is_looked_for_if_that_is_asked() {
    run(|| async {
        let strict = Options { verifies_endpoint: true, ..options(pem!("node"), pem!("ca")) };
        let ends = shake_hands(&client(&strict).await, &server(&options(pem!("node"), pem!("ca"))).await);
        assert_eq!(ends, [Ok(()), Ok(())]);
        let ends = shake_hands(&client(&strict).await, &server(&options(pem!("elsewhere"), pem!("ca"))).await);
        assert!(ends[0].is_err());
    });
}

#[test]
fn damage_is_noticed_at_every_byte_and_told_to_the_peer() {
    run(|| async {
        let options = options(pem!("node"), pem!("ca"));
        let (client, server) = (client(&options).await, server(&options).await);
        assert_eq!(shake_hands(&client, &server), [Ok(()), Ok(())]);
        let hello = sent(&self::client(&options).await, &[]);
        for at in 0..hello.len() {
            let victim = self::server(&options).await;
            let (mut damaged, mut plain) = (hello.clone(), Vec::new());
            damaged[at] ^= 0x55;
            // Random numbers and lists of what is offered may change; nothing comes of that but a failure later.
            let _ = victim.open(&damaged, &mut plain);
            assert!(!victim.is_established() && plain.is_empty());
        }
        for len in 0..hello.len() {
            let victim = self::server(&options).await;
            assert_eq!(victim.open(&hello[..len], &mut Vec::new()), Ok(()), "{len} bytes of a hello");
            assert!(!victim.has_outgoing());
        }
        let said = sent(&client, b"SELECT");
        let mut damaged = said.clone();
        *damaged.last_mut().expect("a record") ^= 1;
        let mut plain = Vec::new();
        assert!(server.open(&damaged, &mut plain).is_err());
        assert_eq!(plain, [], "nothing of a damaged record is believed");
        assert!(server.open(&said, &mut plain).is_err(), "nothing more is taken");
        let alert = sent(&server, b"not sent any more");
        assert!(!alert.is_empty() && client.open(&alert, &mut plain).is_err(), "the peer is told");
        let noise = self::server(&options).await;
        assert!(noise.open(b"GET / HTTP/1.1\r\n\r\n", &mut plain).is_err());
    });
}

/// An identity of no bytes is one; what looks for identities does not look for it.
#[test]
fn an_identity_may_be_empty() {
    let mut der = crate::certificates_of_pem(pem!("client").as_bytes()).expect("a certificate").remove(0).to_vec();
    let at = der.windows(9).position(|part| part == b"spiffe://").expect("an identity");
    // Its length; what follows is the beginning of a value of another kind.
    der[at - 1..=at].copy_from_slice(&[0, 0x24]);
    let peer_certificates = vec![CertificateDer::from(der)];
    let secured = Secured { protocol: "TLSv1.3", cipher_suite: String::new(), peer_certificates };
    assert_eq!(secured.peer_uris(), Some(vec![String::new()]));
}

/// Bytes of a certificate are changed, one or a few at a time: its identities are read, or there are none.
#[test]
fn identities_of_mutated_certificates_do_no_harm() {
    let whole = crate::certificates_of_pem(pem!("client").as_bytes()).expect("a certificate").remove(0);
    let uris = |der: Vec<u8>| {
        let peer_certificates = vec![CertificateDer::from(der)];
        Secured { protocol: "TLSv1.3", cipher_suite: String::new(), peer_certificates }.peer_uris()
    };
    assert_eq!(uris(whole.to_vec()), Some(vec!["spiffe://helenus.test/client".to_owned()]));
    let mut state = 1u64;
    let mut roll = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides
    };
    let mut seen = [0; 3];
    for round in 0..60_000 {
        let mut der = whole.to_vec();
        match round % 3 {
            0 => der[roll(whole.len())] = roll(256) as u8,
            1 => (0..1 + roll(4)).for_each(|_| der[roll(whole.len())] ^= 1 << roll(8)),
            _ => der.truncate(roll(whole.len())),
        }
        match uris(der.clone()) {
            None => seen[0] += 1,
            Some(uris) => {
                seen[1 + usize::from(uris.is_empty())] += 1;
                let is_there =
                    |uri: &String| uri.is_empty() || der.windows(uri.len()).any(|part| part == uri.as_bytes());
                assert!(uris.iter().all(is_there), "{uris:?}");
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    for length in 0..pem!("client").len() {
        let text = &pem!("client").as_bytes()[..length];
        let _ = (crate::certificates_of_pem(text), crate::Credentials::of_pem(text, None));
    }
}
