//! Cassandra's units: durations (`10s`, `500ms`) and sizes (`32MiB`).

use std::time::Duration;

/// A duration as `cassandra.yaml` writes it: an integer and one of `d h m s ms us ns`, of at most 584 years. `None` for
/// anything else.
pub fn duration(text: &str) -> Option<Duration> {
    nanoseconds(text)?.try_into().ok().map(Duration::from_nanos)
}

/// Parses a duration in the syntax of [`duration`], without its upper bound. Returns nanoseconds.
pub(super) fn nanoseconds(text: &str) -> Option<u128> {
    let (number, unit) = split(text)?;
    let nanos_per_unit = match unit {
        "d" => 86_400 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" | "µs" => 1_000,
        "ns" => 1,
        _ => return None,
    };
    Some(u128::from(number) * nanos_per_unit)
}

/// A size in bytes as `cassandra.yaml` writes it: an integer and one of `B KiB MiB GiB`. `None` for anything else.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes_per_unit = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(bytes_per_unit)
}

/// A rate in bytes per second as `cassandra.yaml` writes it: an integer and one of `B/s KiB/s MiB/s`. `None` for
/// anything else.
pub(super) fn rate(text: &str) -> Option<u64> {
    text.strip_suffix("/s").filter(|size| !size.ends_with("GiB")).and_then(bytes)
}

/// A size in bytes as the command line writes it: an integer and one of `K M G`, in either case, or a unit of
/// [`bytes`], or no unit for bytes. `None` for anything else.
pub fn memory(text: &str) -> Option<u64> {
    let (number, unit) = split(text.trim())?;
    let bytes_per_unit = match unit {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return bytes(text.trim()),
    };
    number.checked_mul(bytes_per_unit)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_cassandra() {
        assert_eq!(duration("10s"), Some(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("1d"), Some(Duration::from_secs(86_400)));
        assert_eq!(duration("10"), None);
        assert_eq!(duration("-1s"), None);
        assert_eq!(duration("999999999999999999d"), None);
        assert_eq!(bytes("32MiB"), Some(32 << 20));
        assert_eq!(bytes("32MB"), None);
        assert_eq!(bytes("32 MiB"), None);
        assert_eq!(duration(" 10s"), None);
        assert_eq!(rate("64MiB/s"), Some(64 << 20));
        assert_eq!(rate("1GiB/s"), None);
        assert_eq!(memory(" 4G"), Some(4 << 30));
        assert_eq!(memory("512MiB"), Some(512 << 20));
        assert_eq!(memory("99999999999999999999"), None);
    }
}
