//! What is said about tablets: the table option `tablets`, with ScyllaDB's names, a hint for whoever splits and merges
//! them; and where a tablet is, as drivers are told it ([`TabletRoute`]).

use std::collections::BTreeMap;

/// Most tablets of a table.
pub const TABLETS_MAX: u32 = 1 << 16;
/// Most gigabytes that a table can be expected to have.
pub const EXPECTED_GB_MAX: u32 = 1 << 20;

const MIN: &str = "min_tablet_count";
const MAX: &str = "max_tablet_count";
const EXPECTED_GB: &str = "expected_data_size_in_gb";

/// The table option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableTablets {
    /// The fewest tablets that it should have.
    pub min: Option<u32>,
    /// The most tablets that it should have, not fewer than `min`.
    pub max: Option<u32>,
    /// The size that it is expected to get, before replication, in gigabytes.
    pub expected_gb: Option<u32>,
}

/// A tablet, as drivers are told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TabletRoute {
    /// The token after which it begins.
    pub after: i64,
    /// Its last token.
    pub until: i64,
    /// The host ids of the nodes that have it, each with the core to ask.
    pub replicas: Vec<([u8; 16], u16)>,
}

impl TableTablets {
    /// The option as it is written in CQL. What is 0 is not set, as in ScyllaDB.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_map<'m>(pairs: impl IntoIterator<Item = (&'m str, &'m str)>) -> Result<TableTablets, String> {
        let mut option = TableTablets::default();
        for (name, value) in pairs {
            let (into, range) = match name {
                MIN => (&mut option.min, 0..=TABLETS_MAX),
                MAX => (&mut option.max, 1..=TABLETS_MAX),
                EXPECTED_GB => (&mut option.expected_gb, 0..=EXPECTED_GB_MAX),
                other => return Err(format!("Unknown option '{other}' of tablets")),
            };
            let number = value.parse::<u32>().ok().filter(|number| range.contains(number)).ok_or_else(|| {
                let (least, most) = range.clone().into_inner();
                format!("Invalid value '{value}' for {name}: must be a number from {least} to {most}")
            })?;
            *into = Some(number).filter(|number| *number > 0);
        }
        match (option.min, option.max) {
            (Some(min), Some(max)) if min > max => Err(format!("{MIN} ({min}) must not be greater than {MAX} ({max})")),
            _ => Ok(option),
        }
    }

    /// The option as a map of CQL.
    pub fn to_map(self) -> BTreeMap<String, String> {
        let named = [(MIN, self.min), (MAX, self.max), (EXPECTED_GB, self.expected_gb)];
        named.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?.to_string()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_read_and_written() {
        let all = TableTablets { min: Some(4), max: Some(TABLETS_MAX), expected_gb: Some(EXPECTED_GB_MAX) };
        for option in [all, TableTablets { min: Some(1), ..TableTablets::default() }, TableTablets::default()] {
            let map = option.to_map();
            let pairs = map.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(TableTablets::of_map(pairs), Ok(option));
        }
        let nothing = TableTablets::of_map([(MIN, "0"), (EXPECTED_GB, "0")]);
        assert_eq!(nothing, Ok(TableTablets::default()));
        assert!(TableTablets::of_map([(MIN, "5"), (MAX, "5")]).is_ok());
    }

    #[test]
    fn what_is_out_of_its_range_is_refused() {
        let refused = |pairs: &[(&'static str, &'static str)]| {
            TableTablets::of_map(pairs.iter().copied()).expect_err("out of range")
        };
        let tablets = |name: &str, value: &str, least: u32| {
            format!("Invalid value '{value}' for {name}: must be a number from {least} to 65536")
        };
        assert_eq!(refused(&[(MIN, "65537")]), tablets(MIN, "65537", 0));
        assert_eq!(refused(&[(MIN, "-1")]), tablets(MIN, "-1", 0));
        assert_eq!(refused(&[(MAX, "0")]), tablets(MAX, "0", 1));
        assert_eq!(refused(&[(MAX, "65537")]), tablets(MAX, "65537", 1));
        let expected = "Invalid value '1048577' for expected_data_size_in_gb: must be a number from 0 to 1048576";
        assert_eq!(refused(&[(EXPECTED_GB, "1048577")]), expected);
        let crossed = "min_tablet_count (9) must not be greater than max_tablet_count (8)";
        assert_eq!(refused(&[(MAX, "8"), (MIN, "9")]), crossed);
        assert_eq!(refused(&[("pow2_count", "1")]), "Unknown option 'pow2_count' of tablets");
    }
}
