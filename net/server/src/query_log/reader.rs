//! Reads the files of a log: what every core has written of it, in the order of time.
//!
//! 1. A path is a directory with files of the log, or one file. The files of a core in a directory are one stream, in
//!    the order of their names, which is that of time.
//! 2. Each stream reads [`AHEAD`] lines ahead and sorts them, because requests are logged when they have ended; the
//!    earliest line of all streams is the next one.
//!
//! A line that has no end yet is left for later, so that a log that is being written can be followed; at the end of
//! the reading it is a line like any other.
//!
//! Invariants: no stream reads ahead more than [`AHEAD_BYTES`] and one line; a line is at most [`LINE_BYTES_MAX`] long.

use runtime::blocking::{BlockingFile, list};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

/// Lines of a stream among which the earliest is the next one, as in Cassandra's tool.
pub const AHEAD: usize = 200;
/// Bytes of such lines from which on no more are read.
pub const AHEAD_BYTES: usize = 64 << 20;
/// Bytes of a line: twice as many as a request may have, for digits, and what is said about it.
pub const LINE_BYTES_MAX: usize = 768 << 20;
/// Bytes that are read from a file at once.
const READ_BYTES: usize = 256 << 10;

/// The files of one log under some paths.
pub struct LogReader {
    log: &'static str,
    /// The field of a line that says when it was.
    time: &'static str,
    paths: Vec<PathBuf>,
    line_bytes_max: usize,
    streams: BTreeMap<(PathBuf, String), Stream>,
}

/// The files of one core, or one file.
#[derive(Default)]
struct Stream {
    /// The files that were read to their ends.
    ended: Option<PathBuf>,
    pending: VecDeque<PathBuf>,
    open: Option<Open>,
    /// Lines that were read ahead, by their times and in the order in which they stand.
    ahead: BTreeMap<(i64, u64), String>,
    ahead_bytes: usize,
    lines: u64,
    /// The time of the line that was read last.
    last: Option<i64>,
}

/// A file of which a part was read.
struct Open {
    path: PathBuf,
    file: BlockingFile,
    offset: u64,
    /// What was read and has no end of a line yet.
    rest: Vec<u8>,
}

impl LogReader {
    /// The lines of the audit log.
    pub fn audit(paths: Vec<PathBuf>) -> LogReader {
        LogReader::of("audit", "timestamp", paths)
    }

    /// The lines of the log of full queries.
    pub fn full(paths: Vec<PathBuf>) -> LogReader {
        LogReader::of("fql", "query-start-time", paths)
    }

    /// The lines of a file in the order in which they stand, whatever they are.
    pub fn lines(file: PathBuf) -> LogReader {
        LogReader::of("", "", vec![file])
    }

    fn of(log: &'static str, time: &'static str, paths: Vec<PathBuf>) -> LogReader {
        LogReader { log, time, paths, line_bytes_max: LINE_BYTES_MAX, streams: BTreeMap::new() }
    }

    /// The next line; `None` if there is none by now. Once `is_end` is set, a line without an end is one too.
    pub fn next_line(&mut self, is_end: bool) -> io::Result<Option<String>> {
        if self.streams.values().all(|stream| stream.ahead.is_empty()) {
            self.find_files()?;
        }
        for stream in self.streams.values_mut() {
            stream.read_ahead(self.time, self.line_bytes_max, is_end)?;
        }
        let time_of = |stream: &&mut Stream| stream.ahead.keys().next().map(|(time, _)| *time);
        let streams = self.streams.values_mut().filter(|stream| !stream.ahead.is_empty());
        Ok(streams.min_by_key(time_of).and_then(Stream::take_first))
    }

    /// Looks for files that were not there before.
    fn find_files(&mut self) -> io::Result<()> {
        for path in &self.paths {
            let found = match list(path) {
                Ok(found) => {
                    found.into_iter().filter(|(_, is_directory)| !is_directory).map(|(path, _)| path).collect()
                }
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => vec![path.clone()],
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            };
            let is_directory = found.as_slice() != [path.clone()];
            for file in found {
                let stream = match (is_directory, core_of(&file, self.log)) {
                    (true, None) => continue,
                    (true, Some(core)) => (path.clone(), core),
                    (false, _) => (file.clone(), String::new()),
                };
                self.streams.entry(stream).or_default().add(file);
            }
        }
        Ok(())
    }
}

/// The core that has written a file, from its name, `LOG-TIME.CORE.jsonl`.
fn core_of(path: &Path, log: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_prefix(log)?.strip_prefix('-')?.strip_suffix(".jsonl")?;
    name.rsplit_once('.').map(|(_, core)| core.to_owned())
}

impl Stream {
    /// Adds a file, unless it or a later one is known.
    fn add(&mut self, file: PathBuf) {
        let last = self.pending.back().or(self.open.as_ref().map(|open| &open.path)).or(self.ended.as_ref());
        if last.is_none_or(|last| *last < file) {
            self.pending.push_back(file);
        }
    }

    fn take_first(&mut self) -> Option<String> {
        let (_, line) = self.ahead.pop_first()?;
        self.ahead_bytes -= line.len();
        Some(line)
    }

    fn read_ahead(&mut self, time: &str, line_bytes_max: usize, is_end: bool) -> io::Result<()> {
        while self.ahead.len() < AHEAD && self.ahead_bytes < AHEAD_BYTES {
            let Some(open) = &mut self.open else {
                let Some(path) = self.pending.pop_front() else { break };
                let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
                let file = BlockingFile::open(&path).map_err(named)?;
                self.open = Some(Open { path, file, offset: 0, rest: Vec::new() });
                continue;
            };
            if let Some(line) = open.next_line(line_bytes_max)? {
                self.keep(&line, time);
                continue;
            }
            // A file with a later one behind it is done; so is the last one when the reading ends.
            if self.pending.is_empty() && !is_end {
                break;
            }
            let rest = std::mem::take(&mut open.rest);
            self.ended = self.open.take().map(|open| open.path);
            if !rest.is_empty() {
                self.keep(&rest, time);
            }
        }
        Ok(())
    }

    fn keep(&mut self, line: &[u8], time: &str) {
        let line = String::from_utf8_lossy(line).into_owned();
        self.ahead_bytes += line.len();
        // What has no time stays where it stands.
        self.last = time_of(&line, time).or(self.last);
        self.ahead.insert((self.last.unwrap_or(i64::MIN), self.lines), line);
        self.lines += 1;
    }
}

impl Open {
    /// The next line that has an end.
    fn next_line(&mut self, line_bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=searched + end).collect();
                line.pop();
                return Ok(Some(line));
            }
            searched = self.rest.len();
            if searched > line_bytes_max {
                let text = format!("{}: a line of more than {line_bytes_max} bytes", self.path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            let left = self.file.len()?.saturating_sub(self.offset);
            let bytes = self.file.read_at(self.offset, usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            self.offset += bytes.len() as u64;
            self.rest.extend_from_slice(&bytes);
        }
    }
}

/// The time of a line, without understanding the rest of it.
fn time_of(line: &str, field: &str) -> Option<i64> {
    if field.is_empty() {
        return None;
    }
    let time = &line[line.find(&format!("\"{field}\":"))? + field.len() + 3..];
    time.split(|c: char| c != '-' && !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::blocking::append;

    /// A directory that is removed at the end of its test.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            Directory(std::env::temp_dir().join(format!("helenus-reader-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Directory {
        #[allow(clippy::disallowed_methods, reason = "a test that writes files")]
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn line(time: i64) -> String {
        format!("{{\"type\":\"x\",\"timestamp\":{time}}}")
    }

    fn times(reader: &mut LogReader, is_end: bool) -> Vec<i64> {
        std::iter::from_fn(|| reader.next_line(is_end).expect("readable"))
            .map(|line| time_of(&line, "timestamp").unwrap_or(-1))
            .collect()
    }

    #[test]
    fn lines_of_all_cores_come_in_the_order_of_time() {
        let directory = Directory::new("times");
        let put = |name: &str, lines: &[i64]| {
            let text: String = lines.iter().map(|time| line(*time) + "\n").collect();
            append(&directory.0.join(name), text.as_bytes()).expect("written");
        };
        put("audit-20261126-11.0.jsonl", &[3, 1, 8]);
        put("audit-20261126-12.0.jsonl", &[12]);
        put("audit-20261126-11.1.jsonl", &[2, 9]);
        put("fql-20261126-11.1.jsonl", &[4]);
        put("audit.txt", &[5]);
        let paths = || vec![directory.0.clone()];
        assert_eq!(times(&mut LogReader::audit(paths()), true), [1, 2, 3, 8, 9, 12]);
        let one = vec![directory.0.join("audit-20261126-11.1.jsonl")];
        assert_eq!(times(&mut LogReader::audit(one), true), [2, 9]);
        let mut lines = LogReader::lines(directory.0.join("audit-20261126-11.0.jsonl"));
        let text: Vec<String> = std::iter::from_fn(|| lines.next_line(true).expect("readable")).collect();
        assert_eq!(text, [line(3), line(1), line(8)], "as they stand");
        assert!(LogReader::audit(vec!["/dev/null/x".into()]).next_line(true).is_err());
        // What is written later is found later, and a line only once it is whole.
        let mut reader = LogReader::audit(paths());
        assert_eq!(times(&mut reader, false).len(), 6);
        append(&directory.0.join("audit-20261126-12.0.jsonl"), &line(13).as_bytes()[..9]).expect("written");
        put("audit-20261126-12.1.jsonl", &[14]);
        assert_eq!(times(&mut reader, false), [14]);
        append(&directory.0.join("audit-20261126-12.0.jsonl"), &line(13).as_bytes()[9..]).expect("written");
        assert!(times(&mut reader, false).is_empty());
        put("audit-20261126-13.0.jsonl", &[15]);
        assert_eq!(times(&mut reader, false), [13, 15], "the file before is done");
    }

    #[test]
    fn more_lines_than_are_sorted_at_once_and_lines_that_are_too_long() {
        let directory = Directory::new("long");
        let file = directory.0.join("fql-20261126-11.0.jsonl");
        let many = AHEAD as i64 + 1;
        let text: String = (0..many).map(|time| line(time) + "\n").collect();
        append(&file, text.as_bytes()).expect("written");
        let mut reader = LogReader::of("fql", "timestamp", vec![directory.0.clone()]);
        assert_eq!(times(&mut reader, true), (0..many).collect::<Vec<_>>());
        let longest = READ_BYTES * 2;
        let mut reader = LogReader { line_bytes_max: longest, ..LogReader::full(vec![file.clone()]) };
        append(&file, &[&vec![b'x'; longest][..], b"\n"].concat()).expect("written");
        let lines = std::iter::from_fn(|| reader.next_line(true).expect("readable")).count();
        assert_eq!(lines, AHEAD + 2);
        append(&file, &vec![b'x'; longest + READ_BYTES]).expect("written");
        let mut reader = LogReader { line_bytes_max: longest, ..LogReader::full(vec![file]) };
        let refused = std::iter::from_fn(|| reader.next_line(true).transpose()).find_map(Result::err).expect("refused");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
