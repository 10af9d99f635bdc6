//! What the log says of the nodes that a start has met, in the words of Cassandra's shadow round.

use std::net::SocketAddr;

/// What is worth a warning, if anything: the node at `own` has met nobody although it is a seed, or none of its seeds
/// but others. `live` are the nodes that are known to live.
pub(super) fn warning(own: SocketAddr, seeds: &[SocketAddr], live: &[SocketAddr]) -> Option<String> {
    let mut others = live.iter().filter(|node| **node != own);
    match others.next() {
        None if seeds.contains(&own) => {
            Some("Unable to gossip with any peers but continuing anyway since node is in its own seed list".to_owned())
        }
        Some(met) if live.iter().all(|node| *node == own || !seeds.contains(node)) && !seeds.contains(&own) => {
            Some(format!(
                "Received an ack from /{met}, who isn't a seed. Ensure your seed list includes a live node. Exiting \
                 shadow round"
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, number], 7000))
    }

    #[test]
    fn a_start_that_meets_no_seed_is_told() {
        let [one, two, three] = [1, 2, 3].map(node);
        let told = |own, seeds: &[SocketAddr], live: &[SocketAddr]| warning(own, seeds, live).unwrap_or_default();
        let by_a_peer = "Received an ack from /127.0.0.2:7000, who isn't a seed. Ensure your seed list includes a live \
                         node. Exiting shadow round";
        assert_eq!(told(three, &[one], &[three, two]), by_a_peer);
        assert_eq!(told(three, &[one], &[two, one]), "");
        assert_eq!(told(three, &[one], &[]), "", "it waits for the others");
        let alone = "Unable to gossip with any peers but continuing anyway since node is in its own seed list";
        assert_eq!(told(one, &[one], &[one]), alone);
        assert_eq!(told(one, &[one], &[two]), "", "it is a seed itself");
    }
}
