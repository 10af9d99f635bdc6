//! The measured windows as an interval log of HdrHistogram, format 1.3, which `HistogramLogProcessor` and others read.
//!
//! A line is `Tag=T,start,length,max,histogram`: seconds from the log's start time, the longest time in milliseconds,
//! and a compressed V2 histogram of nanoseconds in base64. Tags are cassandra-stress's: the kind of operation with
//! `-st` for service times and `-rt` for response times; if there are several runs, also the run's number.

use super::Titled;
use crate::recorder::decode;
use crate::workload;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::time::Duration;

/// The divisor of the longest time, which is there for people to read: nanoseconds in a millisecond.
const MAX_UNIT: f64 = 1e6;

/// The whole document.
pub fn document(runs: &[Titled]) -> String {
    let started_micros = runs.iter().map(|(_, outcome)| outcome.started_micros).min().unwrap_or(0);
    let seconds = started_micros as f64 / 1e6;
    let mut out = format!(
        "#[Histogram log format version 1.3]\n\
         #[StartTime: {seconds:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    )
    .into_bytes();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(MAX_UNIT);
    let mut log = builder.begin_log_with(&mut out, &mut serializer).expect("memory takes it");
    for (number, (_, outcome)) in runs.iter().enumerate() {
        let run = if runs.len() > 1 { format!("{}-", number + 1) } else { String::new() };
        let mut start = Duration::from_micros((outcome.started_micros - started_micros) as u64);
        start += outcome.windows[..outcome.measure_from].iter().map(|window| window.length).sum::<Duration>();
        for window in outcome.measured() {
            for (at, kind) in workload::of(&outcome.plan.data).kinds().iter().enumerate() {
                for (suffix, histograms) in [("st", &window.service), ("rt", &window.response)] {
                    let Some(bytes) = histograms.get(at).filter(|bytes| !bytes.is_empty()) else { continue };
                    let tag = format!("{run}{}-{suffix}", kind.name);
                    log.write_histogram(&decode(bytes), start, window.length, Tag::new(&tag)).expect("memory takes it");
                }
            }
            start += window.length;
        }
    }
    drop(log);
    String::from_utf8(out).expect("the log is ASCII")
}
