//! What a node's certificate proves where every node must show one: that it is the node whose host id it claims.
//!
//! 1. With `require_endpoint_verification`, the certificate must name the address at which the cluster's metadata has
//!    the host id, and the address that the node claims. All nodes know the same address, so the proof needs no memory,
//!    and any certificate that names the address will do, a renewed one too.
//! 2. Without, certificates need not name addresses. Each core then remembers the subject of the first certificate
//!    with which a member has proved a host id, and refuses the host id with another subject. A renewed certificate
//!    keeps its subject; one with another needs the operator's word: `nodetool reloadssl`, with changed files, or a
//!    restart.
//!
//! Invariants: only members are remembered, so that the memory is as large as the cluster; certificates that all nodes
//! share prove only that a node belongs to the cluster.

use crate::config::{InternodeEncryption, ServerEncryption};
use internode::{Identity, Refusal, RefusalReason};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tls::{CertificateDer, ClientAuth};
use uuid::Uuid;

/// The rules of one core, and what it remembers.
#[derive(Default)]
pub(crate) struct CertificateBinding {
    is_mutual: Cell<bool>,
    verifies_endpoint: Cell<bool>,
    subjects: RefCell<BTreeMap<Uuid, Vec<u8>>>,
}

fn refusal(text: String) -> Refusal {
    Refusal { reason: RefusalReason::Other, text }
}

impl CertificateBinding {
    /// Holds nodes to what `options` ask for.
    pub(crate) fn require(&self, options: &ServerEncryption) {
        self.is_mutual.set(options.is_mutual());
        self.verifies_endpoint.set(options.options.verifies_endpoint);
        if options.options.client_auth == ClientAuth::Required
            && matches!(options.internode, InternodeEncryption::Rack | InternodeEncryption::DataCenter)
        {
            // The words are Cassandra's.
            tracing::warn!(
                "Setting require_client_auth is incompatible with 'rack' and 'dc' internode_encryption values. It is \
                 possible for an internode connection to pretend to be in the same rack/dc by spoofing its broadcast \
                 address in the handshake and bypass authentication. To ensure that mutual TLS authentication is not \
                 bypassed, please set internode_encryption to 'all'. Continuing with insecure configuration."
            );
        }
    }

    /// Forgets which certificates nodes have shown.
    pub(crate) fn forget(&self) {
        self.subjects.borrow_mut().clear();
    }

    /// Refuses a node whose certificate does not prove its host id. `member_at` is where the cluster has the host id;
    /// `None` if it is no member.
    pub(crate) fn check(
        &self,
        claimed: &Identity,
        certificates: &[CertificateDer<'_>],
        member_at: Option<SocketAddr>,
    ) -> Result<(), Refusal> {
        if !self.is_mutual.get() {
            return Ok(());
        }
        let (host_id, address) = (claimed.host_id, claimed.address);
        let Some(certificate) = certificates.first() else {
            return Err(refusal(format!("/{address} has shown no certificate")));
        };
        if self.verifies_endpoint.get() {
            let known = member_at.unwrap_or(address);
            for address in [address.ip(), known.ip()] {
                if !tls::names_address(certificate, address) {
                    let text = format!("the certificate of host id {host_id} does not name its address /{address}");
                    return Err(refusal(text));
                }
            }
            return Ok(());
        }
        if member_at.is_none() {
            return Ok(());
        }
        let Some(subject) = tls::subject(certificate) else {
            return Err(refusal(format!("the certificate of /{address} cannot be read")));
        };
        let mut subjects = self.subjects.borrow_mut();
        match subjects.get(&host_id) {
            Some(known) if *known != subject => Err(refusal(format!(
                "/{address} proves host id {host_id} by a certificate with another subject than before"
            ))),
            Some(_) => Ok(()),
            None => {
                subjects.insert(host_id, subject);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use internode::Versions;
    use runtime::ShardId;
    use tls::Options;

    const NODE: &[u8] = include_bytes!("../../../tls/tests/certificates/node.pem");
    const RENEWED: &[u8] = include_bytes!("../../../tls/tests/certificates/renewed.pem");
    const ELSEWHERE: &[u8] = include_bytes!("../../../tls/tests/certificates/elsewhere.pem");

    fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
        tls::certificates_of_pem(pem).expect("certificates")
    }

    fn claimed(address: [u8; 4]) -> Identity {
        Identity {
            cluster_name: "Test Cluster".into(),
            cluster_id: None,
            host_id: Uuid::from_u128(1),
            address: (address, 7000).into(),
            data_center: "dc1".into(),
            rack: "r1".into(),
            shard: ShardId(0),
            shards: 1,
            ignore_msb: 12,
            versions: Versions { min: 1, max: 1 },
            features: 0,
        }
    }

    fn binding(verifies_endpoint: bool) -> CertificateBinding {
        let options = Options { client_auth: ClientAuth::Required, verifies_endpoint, ..Options::default() };
        let binding = CertificateBinding::default();
        let internode = InternodeEncryption::All;
        binding.require(&ServerEncryption { internode, options, ..ServerEncryption::default() });
        binding
    }

    #[test]
    fn a_host_id_is_bound_to_the_address_that_the_certificate_names() {
        let binding = binding(true);
        let node = claimed([127, 1, 0, 1]);
        assert!(binding.check(&node, &certificates(NODE), Some(node.address)).is_ok());
        assert!(binding.check(&node, &certificates(NODE), None).is_ok(), "a node that joins");
        assert!(binding.check(&node, &certificates(RENEWED), Some(node.address)).is_ok());
        assert!(binding.check(&node, &certificates(ELSEWHERE), Some(node.address)).is_err());
        let other = claimed([192, 0, 2, 1]);
        assert!(binding.check(&other, &certificates(ELSEWHERE), Some(node.address)).is_err(), "another node's host id");
        assert!(binding.check(&node, &[], None).is_err());
    }

    #[test]
    fn without_addresses_the_first_subject_of_a_member_counts_until_keys_change() {
        let binding = binding(false);
        let (node, member) = (claimed([127, 1, 0, 1]), Some(claimed([127, 1, 0, 1]).address));
        assert!(binding.check(&node, &certificates(ELSEWHERE), None).is_ok(), "no member is not remembered");
        assert!(binding.check(&node, &certificates(NODE), member).is_ok());
        assert!(binding.check(&node, &certificates(NODE), member).is_ok());
        assert!(binding.check(&node, &certificates(ELSEWHERE), member).is_err());
        binding.forget();
        assert!(binding.check(&node, &certificates(ELSEWHERE), member).is_ok());
    }

    #[test]
    fn nothing_is_asked_where_certificates_are_not() {
        let node = claimed([127, 1, 0, 1]);
        assert!(CertificateBinding::default().check(&node, &[], Some(node.address)).is_ok());
    }
}
