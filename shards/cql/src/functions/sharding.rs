//! Functions for applications that spread the rows of one key over several partitions by a column of their own. They
//! are ours; `docs/partitioning.md` shows their use.

use model::{Failure, Partitioner};

/// `shard_of(value, n)`: a number from 0 to `n` - 1 that is always the same for a value. It is the token that the
/// Murmur3 partitioner gives the value's bytes, as an unsigned number, modulo `n`.
pub(super) fn shard_of(value: &[u8], count: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(count) = count_of("shard_of", count)? else { return Ok(None) };
    let hash = Partitioner::Murmur3.token(value).0 as u64;
    Ok(Some(number((hash % u64::from(count)) as u32)))
}

/// `random_shard(n)`: any number from 0 to `n` - 1. `random` is a version 4 uuid, whose last bytes are random.
pub(super) fn random_shard(count: &[u8], random: [u8; 16]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(count) = count_of("random_shard", count)? else { return Ok(None) };
    let [.., a, b, c, d] = random;
    // The upper half of the product is as evenly spread as the random bits are.
    let chosen = (u64::from(u32::from_be_bytes([a, b, c, d])) * u64::from(count)) >> 32;
    Ok(Some(number(chosen as u32)))
}

/// The number of shards; `None` for an empty value.
fn count_of(name: &str, bytes: &[u8]) -> Result<Option<u32>, Failure> {
    let Ok(bytes) = <[u8; 4]>::try_from(bytes) else { return Ok(None) };
    match u32::try_from(i32::from_be_bytes(bytes)) {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(Failure::invalid(format!("The number of shards in {name} has to be positive"))),
    }
}

/// A number below that of shards, as an int.
fn number(shard: u32) -> Vec<u8> {
    (shard as i32).to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(bytes: Result<Option<Vec<u8>>, Failure>) -> i32 {
        i32::from_be_bytes(bytes.expect("valid").expect("a value").try_into().expect("four bytes"))
    }

    #[test]
    fn values_are_spread_evenly_and_stay_where_they_are() {
        let count = 200_i32.to_be_bytes();
        let mut found = vec![0; 200];
        for row in 0..20_000 {
            let title = format!("title {row}");
            let shard = int(shard_of(title.as_bytes(), &count));
            assert_eq!(shard, int(shard_of(title.as_bytes(), &count)));
            found[shard as usize] += 1;
        }
        assert!(found.iter().all(|rows| (50..=160).contains(rows)), "{found:?}");
        // Cassandra's token of 'a' is -8839064797231613815.
        assert_eq!(int(shard_of(b"a", &count)) as u64, (-8_839_064_797_231_613_815_i64) as u64 % 200);
        assert_eq!(int(shard_of(b"", &1_i32.to_be_bytes())), 0);
    }

    #[test]
    fn random_shards_are_all_that_there_are() {
        let with_last = |last: u32| {
            let mut random = [0; 16];
            random[12..].copy_from_slice(&last.to_be_bytes());
            int(random_shard(&3_i32.to_be_bytes(), random))
        };
        assert_eq!([0, u32::MAX / 3, u32::MAX / 3 + 1, u32::MAX].map(with_last), [0, 0, 1, 2]);
        assert_eq!(int(random_shard(&i32::MAX.to_be_bytes(), [255; 16])), i32::MAX - 1);
    }

    #[test]
    fn there_is_one_shard_at_least() {
        for wrong in [0, -1, i32::MIN] {
            let wrong = wrong.to_be_bytes();
            assert!(shard_of(b"a", &wrong).is_err() && random_shard(&wrong, [0; 16]).is_err());
        }
        assert_eq!(shard_of(b"a", b""), Ok(None), "an empty number is null");
    }
}
