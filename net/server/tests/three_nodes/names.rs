//! Names for what differs from cluster to cluster: addresses, host ids, the version of the schema.

use crate::layout::NODES;
use server::client::{Client, QueryOptions};
use std::net::{IpAddr, SocketAddr};
use uuid::Uuid;

/// Each text with the name that stands for it in the cases.
pub(crate) struct Names(Vec<(String, String)>);

impl Names {
    /// The names of nodes and their addresses, and of the host ids that they know.
    pub(crate) fn new(addresses: [IpAddr; NODES], hosts: &[(IpAddr, Uuid)]) -> Names {
        let place = |address: &IpAddr| addresses.iter().position(|own| own == address).expect("a node") + 1;
        let named = addresses.iter().map(|address| (address.to_string(), format!("node{}", place(address))));
        let hosts = hosts.iter().map(|(address, id)| (id.to_string(), format!("host{}", place(address))));
        Names(named.chain(hosts).collect())
    }

    /// A statement with the addresses of the nodes for their names.
    pub(crate) fn expanded(&self, statement: &str) -> String {
        self.0.iter().fold(statement.to_owned(), |statement, (text, name)| statement.replace(name, text))
    }

    /// The line with names for what they stand for.
    pub(crate) fn applied_to(&self, line: &str, schema_version: Uuid) -> String {
        let line = line.replace(&schema_version.to_string(), "schema");
        self.0.iter().fold(line, |line, (text, name)| line.replace(text, name))
    }
}

/// The address, the host id and the version of the schema of a node, as it tells them.
pub(crate) async fn identity(node: SocketAddr, version: u8) -> (IpAddr, Uuid, Uuid) {
    let mut client = Client::connect(node, None, version).await.expect("a connection");
    let text = "SELECT rpc_address, host_id, schema_version FROM system.local";
    let row = client.query(text, &QueryOptions::default()).await.expect("an answer").rows.remove(0);
    let bytes = |at: usize| row[at].as_deref().expect("a value");
    let uuid = |at: usize| Uuid::from_slice(bytes(at)).expect("a UUID");
    let address: [u8; 4] = bytes(0).try_into().expect("an IPv4 address");
    (address.into(), uuid(1), uuid(2))
}
