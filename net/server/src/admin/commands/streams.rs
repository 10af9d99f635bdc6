//! `getstreamthroughput`, `setstreamthroughput`, `getinterdcstreamthroughput`, `setinterdcstreamthroughput`: how fast
//! this node sends SSTables to others. Texts, units and refusals are Cassandra's.

use crate::admin::error::{CommandError, usage};
use crate::admin::number_format::double;
use crate::admin::protocol::Request;
use crate::node_state::NodeState;
use shard::{Throughput, ThroughputChange};
use std::fmt::Write;

const MEGABIT_BYTES: u64 = 125_000;
const MEBIBYTE: u64 = 1 << 20;
/// The highest limit that Cassandra takes.
const MEGABITS_MAX: i32 = i32::MAX - 1;

/// To which nodes a limit applies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// All of them.
    All,
    /// Those of other data centres.
    OtherCenters,
}

impl To {
    fn limit(self, is_whole: bool) -> Throughput {
        match (self, is_whole) {
            (To::All, false) => Throughput::Ranges,
            (To::All, true) => Throughput::Whole,
            (To::OtherCenters, false) => Throughput::RangesBetweenCenters,
            (To::OtherCenters, true) => Throughput::WholeBetweenCenters,
        }
    }

    fn word(self) -> &'static str {
        match self {
            To::All => "",
            To::OtherCenters => "inter-datacenter ",
        }
    }
}

/// `getstreamthroughput` and `getinterdcstreamthroughput`.
pub(crate) fn throughput(node: &NodeState, request: &Request, to: To, out: &mut String) -> Result<(), CommandError> {
    let (is_whole, is_mebibytes, is_precise) = (request.has("-e"), request.has("-m"), request.has("-d"));
    if usize::from(is_whole) + usize::from(is_mebibytes) + usize::from(is_precise) > 1 {
        return usage("You cannot use more than one flag with this command");
    }
    let bytes = node.shard.stream_throughput(to.limit(is_whole));
    out.push_str(&shown(bytes, to, is_whole, is_mebibytes, is_precise)?);
    out.push('\n');
    Ok(())
}

fn shown(bytes: u64, to: To, is_whole: bool, is_mebibytes: bool, is_precise: bool) -> Result<String, CommandError> {
    let mebibytes = bytes as f64 / MEBIBYTE as f64;
    let megabits = bytes as f64 / MEGABIT_BYTES as f64;
    let limit = |text: String| if bytes == 0 { "unlimited".to_owned() } else { text };
    let mut line = "Current ".to_owned();
    let word = to.word();
    let _ = match (is_whole, is_mebibytes, is_precise) {
        (true, ..) => {
            let limit = limit(format!("{} MiB/s", double(mebibytes)));
            write!(line, "entire SSTable {word}stream throughput: {limit}")
        }
        (_, true, _) => write!(line, "{word}stream throughput: {}", limit(format!("{} MiB/s", double(mebibytes)))),
        // Cassandra forgets to say so of other data centres.
        (.., true) => write!(line, "stream throughput: {}", limit(format!("{} Mb/s", double(megabits)))),
        _ if megabits.fract() != 0.0 => {
            let text = "Use the -d flag to quiet this error and get the exact throughput in megabits/s";
            return Err(CommandError::Failed(text.into()));
        }
        _ => write!(line, "{word}stream throughput: {}", limit(format!("{megabits:.0} Mb/s"))),
    };
    Ok(line)
}

/// `setstreamthroughput` and `setinterdcstreamthroughput`. Of several values the last one counts.
pub(crate) async fn set_throughput(node: &NodeState, request: &Request, to: To) -> Result<(), CommandError> {
    let name = match to {
        To::All => "stream_throughput",
        To::OtherCenters => "inter_dc_stream_throughput",
    };
    let Some(text) = request.arguments.last() else {
        return usage(format!("Required parameters are missing: {name}"));
    };
    let Ok(value) = text.parse::<i32>() else {
        return usage(format!("{name}: can not convert \"{text}\" to a int"));
    };
    let (is_whole, is_mebibytes) = (request.has("-e"), request.has("-m"));
    if is_whole && is_mebibytes {
        return usage("You cannot use -e and -m at the same time");
    }
    let bytes_per_second = rate(value, to, is_whole, is_mebibytes).or_else(usage)?;
    node.shard.set_stream_throughput(ThroughputChange { which: to.limit(is_whole), bytes_per_second }).await;
    Ok(())
}

/// Bytes per second, or why Cassandra refuses the number.
fn rate(value: i32, to: To, is_whole: bool, is_mebibytes: bool) -> Result<u64, String> {
    let Ok(number) = u64::try_from(value) else { return Err("Invalid data rate: value must be non-negative".into()) };
    let option = match (to, is_whole) {
        (To::All, false) => "stream_throughput_outbound",
        (To::All, true) => "entire_sstable_stream_throughput_outbound",
        (To::OtherCenters, false) => "inter_dc_stream_throughput_outbound",
        (To::OtherCenters, true) => "entire_sstable_inter_dc_stream_throughput_outbound",
    };
    let too_large =
        |unit| Err(format!("{option}: {value} is too large; it should be less than {} in {unit}", i32::MAX));
    match (is_whole, is_mebibytes) {
        (true, _) if value > MEGABITS_MAX => too_large("MiB/s"),
        (false, true) if number * MEBIBYTE / MEGABIT_BYTES > MEGABITS_MAX as u64 => too_large("megabits/s"),
        (false, false) if value > MEGABITS_MAX => Err(format!(
            "Invalid data rate: {value} megabits per second; stream_throughput_outbound and \
             inter_dc_stream_throughput_outbound should be between 0 and {MEGABITS_MAX} in megabits per second"
        )),
        (false, false) => Ok(number * MEGABIT_BYTES),
        _ => Ok(number * MEBIBYTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_as_cassandra_shows_them() {
        let text = |bytes, to, whole, mebibytes, precise| match shown(bytes, to, whole, mebibytes, precise) {
            Ok(text) => text,
            Err(_) => "refused".into(),
        };
        let near = |bytes, whole, mebibytes, precise| text(bytes, To::All, whole, mebibytes, precise);
        assert_eq!(near(24 << 20, false, false, false), "refused");
        assert_eq!(near(24 << 20, false, true, false), "Current stream throughput: 24.0 MiB/s");
        assert_eq!(near(24 << 20, false, false, true), "Current stream throughput: 201.326592 Mb/s");
        assert_eq!(near(24 << 20, true, false, false), "Current entire SSTable stream throughput: 24.0 MiB/s");
        assert_eq!(near(12_500_000, false, false, false), "Current stream throughput: 100 Mb/s");
        assert_eq!(near(12_500_000, false, true, false), "Current stream throughput: 11.920928955078125 MiB/s");
        assert_eq!(near(12_500_000, false, false, true), "Current stream throughput: 100.0 Mb/s");
        assert_eq!(near(0, false, false, false), "Current stream throughput: unlimited");
        assert_eq!(near(0, true, false, false), "Current entire SSTable stream throughput: unlimited");
        let far = |whole, mebibytes, precise| text(24 << 20, To::OtherCenters, whole, mebibytes, precise);
        assert_eq!(far(false, true, false), "Current inter-datacenter stream throughput: 24.0 MiB/s");
        assert_eq!(far(false, false, true), "Current stream throughput: 201.326592 Mb/s");
        assert_eq!(far(true, false, false), "Current entire SSTable inter-datacenter stream throughput: 24.0 MiB/s");
    }

    #[test]
    fn megabits_and_mebibytes_are_bytes() {
        let rate = |value, is_whole, is_mebibytes| rate(value, To::All, is_whole, is_mebibytes);
        assert_eq!((rate(100, false, false), rate(7, false, true)), (Ok(12_500_000), Ok(7 << 20)));
        assert_eq!(rate(9, true, false), Ok(9 << 20));
        assert_eq!(rate(-1, false, false), Err("Invalid data rate: value must be non-negative".into()));
        assert!(rate(i32::MAX - 1, false, false).is_ok() && rate(i32::MAX, false, false).is_err());
        let text =
            "stream_throughput_outbound: 2147483647 is too large; it should be less than 2147483647 in megabits/s";
        assert_eq!(rate(i32::MAX, false, true), Err(text.into()));
        assert!(rate(255_999_999, false, true).is_ok() && rate(256_000_000, false, true).is_err());
    }
}
