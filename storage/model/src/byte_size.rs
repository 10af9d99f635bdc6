//! Sizes in bytes as options have them: a whole number, of bytes or with a unit, such as `128MiB`.

/// Units of bytes, as Cassandra's configuration names them; the largest comes first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// The bytes of a size; `None` if the text is no size, or one of more bytes than a `u64` can have.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => 1,
        name => UNITS.iter().find(|(unit, _)| *unit == name)?.1,
    };
    // What Rust takes beside digits, a plus sign, Cassandra's numbers do not have.
    let number: u64 = digits.parse().ok().filter(|_| !digits.starts_with('+'))?;
    number.checked_mul(unit)
}

/// A size in the largest unit of which it is a whole number.
pub fn text(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    let (name, unit) = unit.copied().unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (size, bytes) in [("1B", 1), ("1023B", 1023), ("3KiB", 3 << 10), ("128MiB", 128 << 20), ("5GiB", 5 << 30)] {
            assert_eq!((parse(size), text(bytes)), (Some(bytes), size.to_owned()));
        }
        assert_eq!(parse("134217728"), Some(128 << 20));
        for wrong in ["", "MiB", "1TiB", "1 MiB", "-1", "+1", "1.5GiB", "18446744073709551615KiB", "1\u{660}"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
