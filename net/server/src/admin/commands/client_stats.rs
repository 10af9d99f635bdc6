//! `clientstats`: the connections of clients on all cores, and when clients were last seen.

use crate::admin::error::CommandError;
use crate::admin::protocol::Request;
use crate::admin::text_table::TextTable;
use crate::node_state::NodeState;
use model::text::instant;
use shard::{Client, RecentClient};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

/// What is not known of a client.
const UNDEFINED: &str = "undefined";
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Runs the command. As in Cassandra, `--clear-history` and `--by-protocol` go before the others.
pub(crate) async fn statistics(node: &NodeState, request: &Request, out: &mut String) -> Result<(), CommandError> {
    if request.has("--clear-history") {
        out.push_str("Clearing connection history\n");
        node.clients.clear_history().await;
        return Ok(());
    }
    let observed = node.shard.observed().await?;
    if request.has("--by-protocol") {
        by_protocol(observed.into_iter().flat_map(|observation| observation.recent), out);
        return Ok(());
    }
    let mut clients: Vec<Client> = observed.into_iter().flat_map(|observation| observation.clients).collect();
    clients.sort_by_key(|client| (client.address, client.port));
    for (wanted, with_options) in [("--all", false), ("--client-options", true)] {
        if request.has(wanted) && !clients.is_empty() {
            table_of(&clients, with_options).print(out);
            out.push('\n');
        }
    }
    let _ = writeln!(out, "Total connected clients: {}\n", clients.len());
    let mut by_user: BTreeMap<&str, usize> = BTreeMap::new();
    for client in &clients {
        *by_user.entry(client.user.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let mut users = TextTable::new(1);
    users.row(["User", "Connections"]);
    for (user, connections) in by_user {
        users.row([user, &connections.to_string()]);
    }
    users.print(out);
    Ok(())
}

fn table_of(clients: &[Client], with_options: bool) -> TextTable {
    let mut table = TextTable::new(1);
    let mut head = vec!["Address", "SSL", "Cipher", "Protocol", "Version", "User", "Keyspace", "Requests"];
    head.extend(["Driver-Name", "Driver-Version"]);
    head.extend(with_options.then_some("Client-Options"));
    table.row(head);
    for client in clients {
        let option = |name: &str| {
            let found = client.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map_or(UNDEFINED, |(_, value)| value.as_str()).to_owned()
        };
        let encryption = client.encryption.as_ref();
        let mut row = vec![
            format!("/{}", SocketAddr::new(client.address, client.port)),
            encryption.is_some().to_string(),
            encryption.map_or(UNDEFINED, |(_, suite)| suite).to_owned(),
            encryption.map_or(UNDEFINED, |(protocol, _)| protocol).to_owned(),
            client.protocol_version.to_string(),
            client.user.clone().unwrap_or_else(|| UNDEFINED.to_owned()),
            client.keyspace.clone().unwrap_or_default(),
            client.requests.to_string(),
            option("DRIVER_NAME"),
            option("DRIVER_VERSION"),
        ];
        if with_options {
            let options: Vec<String> = client.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
            row.push(options.join(", "));
        }
        table.row(row);
    }
    table
}

fn by_protocol(recent: impl Iterator<Item = RecentClient>, out: &mut String) {
    // A client may have spoken to several cores.
    let mut last: BTreeMap<_, i64> = BTreeMap::new();
    for client in recent {
        let seen = last.entry((client.protocol, client.address)).or_insert(client.seen_millis);
        *seen = client.seen_millis.max(*seen);
    }
    out.push_str("Clients by protocol version\n\n");
    if last.is_empty() {
        return;
    }
    let mut table = TextTable::new(1);
    table.row(["Protocol-Version", "IP-Address", "Last-Seen"]);
    for ((protocol, address), seen) in last {
        table.row([protocol, format!("/{address}"), date(seen)]);
    }
    table.print(out);
    out.push('\n');
}

/// A time in milliseconds since 1970 in UTC: `Nov 26, 2026 11:56:34`.
fn date(millis: i64) -> String {
    let text = instant::format(millis.div_euclid(1000) * 1000);
    let mut parts = text.trim_end_matches('Z').splitn(2, 'T');
    let (day, time) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match day.split('-').collect::<Vec<_>>().as_slice() {
        [year, month, day] => {
            let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
            format!("{} {day}, {year} {time}", month.unwrap_or(&UNDEFINED))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn client(port: u16, options: &[(&str, &str)]) -> Client {
        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Client {
            address: LOCAL,
            port,
            user: Some("anonymous".into()),
            options: options.collect(),
            ready: true,
            protocol_version: 4,
            keyspace: None,
            requests: 1,
            encryption: None,
        }
    }

    /// The lines are Cassandra's.
    #[test]
    fn clients_are_shown_as_cassandra_shows_them() {
        let second = Client {
            user: None,
            keyspace: Some("system".into()),
            requests: 30,
            protocol_version: 5,
            encryption: Some(("TLSv1.3", "TLS_AES_256_GCM_SHA384".into())),
            ..client(35666, &[("CQL_VERSION", "3.0.0")])
        };
        let named = [("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "raw"), ("DRIVER_VERSION", "1.2")];
        let mut out = String::new();
        table_of(&[client(35662, &named), second], true).print(&mut out);
        assert_eq!(
            out,
            "\
Address          SSL   Cipher                 Protocol  Version User      Keyspace Requests Driver-Name Driver-Version Client-Options                                        
/127.0.0.1:35662 false undefined              undefined 4       anonymous          1        raw         1.2            CQL_VERSION=3.0.0, DRIVER_NAME=raw, DRIVER_VERSION=1.2
/127.0.0.1:35666 true  TLS_AES_256_GCM_SHA384 TLSv1.3   5       undefined system   30       undefined   undefined      CQL_VERSION=3.0.0                                     
"
        );
    }

    #[test]
    fn a_client_of_several_cores_is_shown_once() {
        let seen =
            |protocol: &str, seen_millis| RecentClient { protocol: protocol.into(), address: LOCAL, seen_millis };
        let mut out = String::new();
        by_protocol([seen("5/v5", 1_795_694_194_999), seen("4/v4", 0), seen("5/v5", 7)].into_iter(), &mut out);
        assert_eq!(
            out,
            "\
Clients by protocol version

Protocol-Version IP-Address Last-Seen            
4/v4             /127.0.0.1 Jan 01, 1970 00:00:00
5/v5             /127.0.0.1 Nov 26, 2026 11:56:34

"
        );
        let mut out = String::new();
        by_protocol(std::iter::empty(), &mut out);
        assert_eq!(out, "Clients by protocol version\n\n");
    }
}
