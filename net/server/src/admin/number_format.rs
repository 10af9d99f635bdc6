//! Numbers as Cassandra's tools print them.

/// A size in the largest unit of which there is at least one, with up to two decimals: `0 bytes`, `1.02 KiB`, `51 MiB`.
pub(crate) fn file_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} bytes");
    }
    let unit = ((bytes.ilog2() / 10) as usize).min(UNITS.len());
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    format!("{} {}", short_decimal(value), UNITS.get(unit - 1).copied().unwrap_or_default())
}

/// A number with at most two decimals and without trailing zeros.
fn short_decimal(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A size with three decimals (none for bytes) and its unit, without a space between: `31B`, `4.969KiB`.
pub fn memory_size(bytes: u64) -> String {
    let kib = bytes as f64 / 1024.0;
    match bytes {
        0..=1023 => format!("{bytes}B"),
        1024..=0xf_ffff => format!("{kib:.3}KiB"),
        0x10_0000..=0x3fff_ffff => format!("{:.3}MiB", kib / 1024.0),
        _ => format!("{:.3}GiB", kib / 1024.0 / 1024.0),
    }
}

/// A number as Java prints a double: with at least one decimal.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_look_as_in_cassandra() {
        let sizes =
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (117_125, "114.38 KiB"), (51 << 20, "51 MiB")];
        for (bytes, text) in sizes {
            assert_eq!(file_size(bytes), text);
        }
        assert_eq!(file_size(u64::MAX), "16777216 TiB");
        assert_eq!((memory_size(31), memory_size(5088)), ("31B".into(), "4.969KiB".into()));
        assert_eq!((memory_size(1 << 20), memory_size(1 << 30)), ("1.000MiB".into(), "1.000GiB".into()));
        assert_eq!((double(0.0), double(64.0), double(f64::NAN)), ("0.0".into(), "64.0".into(), "NaN".into()));
    }
}
