//! The iteration order of Java's hash maps and sets, where Cassandra shows it.
//!
//! A table of 16 buckets doubles when it holds more keys than three quarters of its buckets. A key's bucket is the low
//! bits of its hash, with the upper half folded in. Keys in one bucket stay in the order in which they were added.

/// `items` in that order; `hash` gives the hash of an item's key.
pub fn in_hash_order<T>(items: impl IntoIterator<Item = T>, hash: impl Fn(&T) -> u32) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    let mut buckets: u32 = 16;
    while items.len() as u32 > buckets / 4 * 3 {
        buckets *= 2;
    }
    items.sort_by_key(|item| bucket(hash(item), buckets));
    items
}

/// The bucket of a hash; `buckets` is a power of two.
pub fn bucket(hash: u32, buckets: u32) -> u32 {
    (hash ^ (hash >> 16)) & (buckets - 1)
}

/// The hash of a Java `String`.
pub fn string_hash(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

/// The hash of a Java `ByteBuffer`, and of Cassandra's column names.
pub fn bytes_hash(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(1, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(*byte as i8 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_by_buckets() {
        let ordered = |names: &[&'static str]| in_hash_order(names.to_vec(), |name| string_hash(name));
        assert_eq!(ordered(&["k.u", "k.t"]), ["k.t", "k.u"]);
        // Twelve names fit in sixteen buckets; thirteen need twice as many.
        let many =
            ["k.t0", "k.t1", "k.t2", "k.t3", "k.t4", "k.t5", "k.t6", "k.t7", "k.t8", "k.t9", "k.t10", "k.t11", "k.t12"];
        assert_eq!(ordered(&many[..12])[..4], ["k.t2", "k.t1", "k.t4", "k.t3"]);
        assert_eq!(ordered(&many)[..4], ["k.t12", "k.t10", "k.t11", "k.t0"]);
    }

    #[test]
    fn bytes_are_hashed_from_their_end() {
        assert_eq!(bytes_hash(b"c1"), 2579);
        assert_eq!(bytes_hash(&[0x80]), (31i32 - 128) as u32);
    }
}
