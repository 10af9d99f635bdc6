//! Servers with a shard per core and their shard-aware port, as ScyllaDB's drivers use it.
//!
//! SUPPORTED tells the number of shards, how many of a token's highest bits are ignored, and the port. A connection to
//! that port goes to shard `source port % shards`, and SUPPORTED on that connection tells which shard it is.

use crate::session::{Address, Session};
use model::Partitioner;
use model::key::ShardMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The shards of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shards {
    map: ShardMap,
    port: u16,
}

/// The range of source ports to try: from this one up to `LAST_PORT`.
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = 65_000;
/// How many source ports are tried for one connection.
const TRIES_MAX: usize = 200;

fn option<'a>(options: &'a [(String, Vec<String>)], name: &str) -> Option<&'a str> {
    options.iter().find(|(known, _)| known == name).and_then(|(_, values)| values.first()).map(String::as_str)
}

impl Shards {
    /// Asks the server for its shards. Fails if it names none.
    pub async fn of(address: &Address) -> Result<Shards, String> {
        let options = Session::open(address).await?.options().await?;
        Shards::read(&options, address.ssl.is_some())
            .ok_or_else(|| format!("{}: the server tells of no shards", address.host))
    }

    fn read(options: &[(String, Vec<String>)], encrypted: bool) -> Option<Shards> {
        let algorithm = option(options, "SCYLLA_SHARDING_ALGORITHM")?;
        let shards = option(options, "SCYLLA_NR_SHARDS")?.parse().ok().filter(|count| *count > 0)?;
        let ignore_msb = option(options, "SCYLLA_SHARDING_IGNORE_MSB")?.parse().ok().filter(|bits| *bits < 64)?;
        let port = if encrypted { "SCYLLA_SHARD_AWARE_PORT_SSL" } else { "SCYLLA_SHARD_AWARE_PORT" };
        let port = option(options, port)?.parse().ok()?;
        (algorithm == "biased-token-round-robin")
            .then_some(Shards { map: ShardMap { ignore_msb, ..ShardMap::new(Partitioner::Murmur3, shards) }, port })
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.map.shards as usize
    }

    /// The shard that owns a serialised partition key.
    pub fn owner(&self, key: &[u8]) -> usize {
        self.map.owner(Partitioner::Murmur3.token(key)) as usize
    }

    /// Connects to `shard` from the first free source port that leads there. `salt` varies where the search begins.
    pub async fn open(&self, address: &Address, shard: usize, salt: u64) -> Result<Session, String> {
        let host = SocketAddr::new(address.host.ip(), self.port);
        let any = match host.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        for port in ports(self.count(), shard, salt).take(TRIES_MAX) {
            let source = Some(SocketAddr::new(any, port));
            let address = Address { host, source, ..address.clone() };
            let stream = match Session::connect(&address).await {
                Ok(stream) => stream,
                Err(taken) if matches!(taken.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => continue,
                Err(error) => return Err(format!("{host}: {error}")),
            };
            let mut session = Session::begin(stream, &address).await?;
            let options = session.options().await?;
            let reached = option(&options, "SCYLLA_SHARD").and_then(|shard| shard.parse::<usize>().ok());
            return match reached == Some(shard) {
                true => Ok(session),
                false => Err(format!("{host}: source port {port} leads to shard {reached:?} in place of {shard}")),
            };
        }
        Err(format!("{host}: no free source port for shard {shard}"))
    }
}

/// The source ports that lead to a shard, beginning at a place in the range that `salt` determines; after the end of
/// the range come those from its start.
fn ports(shards: usize, shard: usize, salt: u64) -> impl Iterator<Item = u16> {
    let rounds = (LAST_PORT - FIRST_PORT) as usize / shards.max(1);
    let start = salt as usize % rounds.max(1);
    let first = (FIRST_PORT as usize).next_multiple_of(shards.max(1)) + shard;
    (0..rounds).map(move |round| (first + (start + round) % rounds * shards) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lead_to_their_shard() {
        for shards in [1, 2, 3, 7, 64] {
            for shard in 0..shards {
                let found: Vec<u16> = ports(shards, shard, 12_345).collect();
                assert!(found.iter().all(|port| *port as usize % shards == shard && *port >= FIRST_PORT));
                assert!(found.len() > 500);
            }
        }
    }

    #[test]
    fn options_are_read() {
        let mut options: Vec<(String, Vec<String>)> = [
            ("SCYLLA_NR_SHARDS", "8"),
            ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
            ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
            ("SCYLLA_SHARD_AWARE_PORT", "19042"),
        ]
        .map(|(name, value)| (name.to_string(), vec![value.to_string()]))
        .into();
        let shards = Shards::read(&options, false).expect("all is there");
        assert_eq!((shards, shards.count()), (Shards { map: ShardMap::new(Partitioner::Murmur3, 8), port: 19042 }, 8));
        assert_eq!(
            shards.owner(b"key"),
            ShardMap::new(Partitioner::Murmur3, 8).owner(Partitioner::Murmur3.token(b"key")) as usize
        );
        options.pop();
        assert_eq!(Shards::read(&options, false), None);
    }
}
