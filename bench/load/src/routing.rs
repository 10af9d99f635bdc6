//! Where an operation goes when it does not go to just any connection: to the node that is the first replica of its
//! key, and there to the shard that owns it.
//!
//! Each server tells its tokens. The first replica of a key is the node whose token follows the key's on the ring; the
//! nodes that follow take its place while no connection to it is open. Only the servers that the plan names count, so
//! they should be all nodes of the cluster, or of a data centre that has replicas.

use crate::session::{Address, Session};
use crate::shards::Shards;
use crate::statement::Common;
use model::{Partitioner, Token};
use wire::client::Response;

/// The tokens of several servers.
#[derive(Debug, Default)]
struct Ring {
    /// Each token with the number of its server, in order.
    tokens: Vec<(Token, usize)>,
}

impl Ring {
    fn new(of_hosts: &[Vec<Token>]) -> Ring {
        let tokens = of_hosts.iter().enumerate();
        let mut tokens: Vec<(Token, usize)> =
            tokens.flat_map(|(host, tokens)| tokens.iter().map(move |token| (*token, host))).collect();
        tokens.sort_unstable();
        Ring { tokens }
    }

    /// The servers from the first replica of a token on, in the order of the ring. One may come several times.
    fn from(&self, token: Token) -> impl Iterator<Item = usize> + '_ {
        let first = self.tokens.partition_point(|(end, _)| *end < token);
        let (before, after) = self.tokens.split_at(first);
        after.iter().chain(before).map(|(_, host)| *host)
    }
}

/// Where operations go.
#[derive(Debug)]
pub(crate) struct Routing {
    hosts: usize,
    /// Without tokens there is one server.
    ring: Option<Ring>,
    /// The shards of each server; none if connections go to any shard.
    shards: Vec<Shards>,
}

/// The connections that suit an operation: to a server and, of its shards, to one.
pub(crate) type Owner = (usize, Option<usize>);

impl Routing {
    /// Asks the servers for what `token_aware` and `shard_aware` need.
    pub(crate) async fn find(
        hosts: &[Address],
        token_aware: bool,
        shard_aware: bool,
        common: &Common,
    ) -> Result<Routing, String> {
        let (mut tokens, mut shards) = (Vec::new(), Vec::new());
        for host in hosts {
            if token_aware {
                tokens.push(tokens_of(host, common).await?);
            }
            if shard_aware {
                shards.push(Shards::of(host).await?);
            }
        }
        Ok(Routing { hosts: hosts.len(), ring: token_aware.then(|| Ring::new(&tokens)), shards })
    }

    /// How many connections there must be at least, so that one goes to each server and shard.
    pub(crate) fn connections_min(&self) -> usize {
        self.hosts * self.shards.iter().map(Shards::count).max().unwrap_or(1)
    }

    /// Which server connection `place` goes to, and its shards with the one that it goes to.
    pub(crate) fn target(&self, place: usize) -> (usize, Option<(&Shards, usize)>) {
        let host = place % self.hosts;
        let shards = self.shards.get(host);
        (host, shards.map(|shards| (shards, place / self.hosts % shards.count())))
    }

    /// Which connections a key's operations should use, of servers for which `is_connected` holds. If that holds for
    /// none: those of the first replica.
    pub(crate) fn owner(&self, key: &[u8], is_connected: impl Fn(usize) -> bool) -> Owner {
        let host = self.ring.as_ref().map_or(0, |ring| {
            let token = Partitioner::Murmur3.token(key);
            ring.from(token).find(|host| is_connected(*host)).or_else(|| ring.from(token).next()).unwrap_or_default()
        });
        (host, self.shards.get(host).map(|shards| shards.owner(key)))
    }

    /// Whether connection `place` is one of an owner's.
    pub(crate) fn suits(&self, place: usize, owner: Owner) -> bool {
        let (host, shard) = self.target(place);
        (host, shard.map(|(_, shard)| shard)) == owner
    }
}

/// The tokens of a server. Fails unless its partitioner is Murmur3Partitioner.
async fn tokens_of(host: &Address, common: &Common) -> Result<Vec<Token>, String> {
    let told = |what: &str| format!("{}: {what}", host.host);
    let answer = Session::open(host).await?.query("SELECT partitioner, tokens FROM system.local", common).await?;
    let Response::Rows(rows) = answer else { return Err(told("an unexpected answer about its tokens")) };
    let Some([Some(partitioner), Some(tokens)]) = rows.rows.first().map(Vec::as_slice) else {
        return Err(told("it tells no tokens"));
    };
    if !partitioner.ends_with(b".Murmur3Partitioner") {
        return Err(told("token-aware: its partitioner is not Murmur3Partitioner"));
    }
    tokens_in(tokens).ok_or_else(|| told("its tokens are no set of numbers"))
}

/// The numbers of a serialised `set<text>`.
fn tokens_in(mut bytes: &[u8]) -> Option<Vec<Token>> {
    let mut take = |count: usize| {
        let (taken, rest) = bytes.split_at_checked(count)?;
        bytes = rest;
        Some(taken)
    };
    let mut tokens = Vec::new();
    let count = u32::from_be_bytes(take(4)?.try_into().ok()?);
    for _ in 0..count {
        let length = u32::from_be_bytes(take(4)?.try_into().ok()?);
        tokens.push(Token(std::str::from_utf8(take(length as usize)?).ok()?.parse().ok()?));
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> Vec<u8> {
        let mut bytes = (texts.len() as u32).to_be_bytes().to_vec();
        for text in texts {
            bytes.extend((text.len() as u32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn tokens_are_read() {
        assert_eq!(tokens_in(&set(&["-5", "77"])), Some(vec![Token(-5), Token(77)]));
        assert_eq!(tokens_in(&set(&[])), Some(Vec::new()));
        assert_eq!(tokens_in(&set(&["x"])), None);
        assert_eq!(tokens_in(&set(&["1", "2"])[..12]), None, "cut off");
    }

    #[test]
    fn the_ring_begins_at_the_first_replica() {
        let ring = Ring::new(&[vec![Token(-10), Token(20)], vec![Token(0)], vec![Token(10)]]);
        let from = |token| ring.from(Token(token)).collect::<Vec<_>>();
        assert_eq!(from(-11), [0, 1, 2, 0]);
        assert_eq!(from(-10), [0, 1, 2, 0], "a range has its end");
        assert_eq!(from(1), [2, 0, 0, 1]);
        assert_eq!(from(21), [0, 1, 2, 0], "after the last token comes the first");
    }

    #[test]
    fn keys_go_to_the_next_replica_while_the_first_is_not_connected() {
        let ring = Ring::new(&[vec![Token(i64::MIN + 1)], vec![Token(i64::MAX)]]);
        let routing = Routing { hosts: 2, ring: Some(ring), shards: Vec::new() };
        assert_eq!(routing.owner(b"key", |_| true), (1, None));
        assert_eq!(routing.owner(b"key", |host| host == 0), (0, None));
        assert_eq!(routing.owner(b"key", |_| false), (1, None));
        assert!(routing.suits(3, (1, None)) && !routing.suits(2, (1, None)));
        assert_eq!(routing.connections_min(), 2);
    }
}
