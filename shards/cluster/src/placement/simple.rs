//! SimpleStrategy: the replicas of a range are the next different nodes on the ring.

use super::ring::{Ranges, around};
use crate::topology::Ring;

/// The ranges of the ring with `factor` replicas, or as many as there are nodes with tokens.
pub(super) fn ranges(ring: &Ring, factor: u32) -> Ranges {
    Ranges::of_ring(ring, |start, chosen| {
        for at in around(start, ring.len()) {
            if chosen.len() >= factor as usize {
                break;
            }
            let node = ring[at].1;
            if !chosen.contains(&node) {
                chosen.push(node);
            }
        }
    })
}
