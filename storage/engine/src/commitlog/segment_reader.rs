//! Reads the log at a start: the list of segments, and the groups of each.
//!
//! 1. `list` finds the segments. Cassandra's own segments are refused if they hold anything.
//! 2. `SegmentReader` reads a segment group by group through a window of [`WINDOW_BYTES`] (longer only for a single
//!    group that needs it), so that replay needs little memory however long the log is. While the groups of a window
//!    are used, the next window is being read.
//! 3. A segment ends at its first block that does not begin a valid group. If a valid group follows, or another
//!    segment recorded that this one was longer, bytes were damaged: that is [`Error::Corrupt`], never a silent end.
//!
//! Invariants: nothing here changes the disk except `delete`, `delete_temporary` and `make_durable`.

use super::record::{self, Record, records};
use super::segment::{
    BLOCK_BYTES, GROUP_HEADER_BYTES, GroupFrame, HEADER_BYTES, Header, path_of, shard_of, temporary_path_of,
};
use crate::error::Error;
use model::ShardMap;
use runtime::file::{OpenOptions, list_dir, remove, sync_dir};
use runtime::{AlignedBuf, File, JoinHandle};
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Bytes of a segment that are in memory at a time; as many again may be on their way from the disk. Two of the
/// largest groups of small mutations fit.
pub const WINDOW_BYTES: usize = 2 << 20;
/// Most windows kept for the next segment.
const SPARE_WINDOWS_MAX: usize = 2;

/// The files in the log's directory.
#[derive(Debug, Default)]
pub(crate) struct LogFiles {
    /// The segments, by id.
    pub(crate) segments: Vec<Header>,
    /// Ids of files that never became segments.
    pub(crate) temporary: Vec<u64>,
}

impl LogFiles {
    /// The highest counter in a file name, temporary files included; 0 if there are none.
    pub(crate) fn highest_counter(&self) -> u64 {
        let ids = self.segments.iter().map(|header| header.id).chain(self.temporary.iter().copied());
        ids.map(super::segment::counter_of).max().unwrap_or(0)
    }
}

/// Lists the directory, which must exist, and reads every segment's header.
pub(crate) async fn list(directory: &Path) -> Result<LogFiles, Error> {
    let mut found = LogFiles::default();
    for path in list_dir(directory).await.map_err(Error::Io)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.starts_with("CommitLog-") && name.ends_with(".log") {
            refuse_cassandra(&path).await?;
        } else if let Some(id) = id_of_name(name, ".log") {
            found.segments.push(read_header(directory, id).await?);
        } else if let Some(id) = id_of_name(name, ".log.tmp") {
            found.temporary.push(id);
        }
    }
    found.segments.sort_by_key(|header| header.id);
    Ok(found)
}

fn id_of_name(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    let valid = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if valid { u64::from_str_radix(digits, 16).ok() } else { None }
}

async fn read_header(directory: &Path, id: u64) -> Result<Header, Error> {
    let path = path_of(directory, id);
    let file = File::open(&path, OpenOptions::default()).await.map_err(Error::Io)?;
    let (read, block) = file.read_at(AlignedBuf::zeroed(HEADER_BYTES as usize), 0).await;
    let read = read.map_err(Error::Io)?;
    let header = Header::decode(block.get(..read).unwrap_or_default(), id);
    let header = header.map_err(|what| Error::Corrupt { path: path.clone(), offset: 0, what })?;
    let bytes = file.len().await.map_err(Error::Io)?;
    if bytes < u64::from(header.segment_bytes) {
        return Err(Error::Corrupt { path, offset: bytes, what: "segment shorter than its header says" });
    }
    Ok(header)
}

/// Header of Cassandra's segments: version i32, id i64, length of parameters i16, parameters, CRC i32.
const CASSANDRA_HEADER_BYTES: usize = 18;
/// The sync marker behind the header: next position i32, CRC i32.
const CASSANDRA_MARKER_BYTES: usize = 8;

/// Refuses a commit log segment of Cassandra that may hold mutations: one with anything but zeros behind its header
/// and first sync marker.
async fn refuse_cassandra(path: &Path) -> Result<(), Error> {
    let file = File::open(path, OpenOptions::default()).await.map_err(Error::Io)?;
    let mut buffer = AlignedBuf::zeroed(WINDOW_BYTES);
    let mut offset = 0;
    loop {
        let (read, returned) = file.read_at(buffer, offset).await;
        buffer = returned;
        let read = read.map_err(Error::Io)?;
        let mut bytes = buffer.get(..read).unwrap_or_default();
        if offset == 0 {
            let parameters = match bytes.get(12..14) {
                Some(&[a, b]) => u16::from_be_bytes([a, b]) as usize,
                _ => 0,
            };
            bytes = bytes.get(CASSANDRA_HEADER_BYTES + parameters + CASSANDRA_MARKER_BYTES..).unwrap_or_default();
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(Error::ForeignLog { path: path.to_owned() });
        }
        if read < buffer.len() {
            return Ok(());
        }
        offset += read as u64;
    }
}

/// The location of a valid group; [`SegmentReader::payload`] gives its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupLocation {
    /// Where the group begins.
    pub(crate) offset: u32,
    frame: GroupFrame,
}

/// Where a segment ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentEnd {
    /// Where the next group would begin.
    pub offset: u32,
    /// Whether an incompletely written group begins there.
    pub torn: bool,
}

/// Windows to be used again: zeroing new ones would take as long as reading them.
#[derive(Clone, Default)]
pub(crate) struct Windows(Rc<RefCell<Vec<AlignedBuf>>>);

impl Windows {
    fn take(&self, bytes: usize) -> AlignedBuf {
        let spare = if bytes <= WINDOW_BYTES { self.0.borrow_mut().pop() } else { None };
        spare.unwrap_or_else(|| AlignedBuf::zeroed(bytes.max(WINDOW_BYTES)))
    }

    fn give(&self, window: AlignedBuf) {
        let mut spare = self.0.borrow_mut();
        if window.capacity() == WINDOW_BYTES && spare.len() < SPARE_WINDOWS_MAX {
            spare.push(window);
        }
    }
}

/// A window that is being read in the background.
struct ReadAhead {
    start: u32,
    reading: JoinHandle<(io::Result<usize>, AlignedBuf)>,
}

/// Reads one segment.
pub(crate) struct SegmentReader {
    path: PathBuf,
    header: Header,
    file: Rc<File>,
    windows: Windows,
    window: Option<AlignedBuf>,
    /// The window's offset in the segment.
    start: u32,
    filled: usize,
    ahead: Option<ReadAhead>,
    next: u32,
}

impl Drop for SegmentReader {
    fn drop(&mut self) {
        self.window.take().into_iter().for_each(|window| self.windows.give(window));
    }
}

impl SegmentReader {
    pub(crate) async fn open(directory: &Path, header: Header, windows: &Windows) -> Result<SegmentReader, Error> {
        let path = path_of(directory, header.id);
        let file = File::open(&path, OpenOptions::default()).await.map_err(Error::Io)?;
        Ok(SegmentReader {
            path,
            header,
            file: Rc::new(file),
            windows: windows.clone(),
            window: None,
            start: 0,
            filled: 0,
            ahead: None,
            next: HEADER_BYTES,
        })
    }

    /// An error that says that this segment is damaged at `offset`.
    pub(crate) fn corrupt(&self, offset: u32, what: &'static str) -> Error {
        Error::Corrupt { path: self.path.clone(), offset: u64::from(offset), what }
    }

    /// The next valid group, or where the segment ends.
    pub(crate) async fn next_group(&mut self) -> Result<Result<GroupLocation, SegmentEnd>, Error> {
        let offset = self.next;
        match self.check(offset).await? {
            GroupCheck::Valid(frame) => {
                self.next = frame.next_offset(offset);
                Ok(Ok(GroupLocation { offset, frame }))
            }
            check => {
                let mut later = offset.saturating_add(BLOCK_BYTES);
                while later < self.header.segment_bytes {
                    if let GroupCheck::Valid(_) = self.check(later).await? {
                        return Err(self.corrupt(offset, "damaged group before a valid one"));
                    }
                    later += BLOCK_BYTES;
                }
                Ok(Err(SegmentEnd { offset, torn: check == GroupCheck::Torn }))
            }
        }
    }

    /// The records of the group that [`SegmentReader::next_group`] gave last.
    pub(crate) fn payload(&self, group: GroupLocation) -> &[u8] {
        let start = group.offset as usize - self.start as usize + GROUP_HEADER_BYTES;
        self.bytes().get(start..start + group.frame.payload_bytes as usize).unwrap_or_default()
    }

    async fn check(&mut self, offset: u32) -> Result<GroupCheck, Error> {
        if offset >= self.header.segment_bytes {
            return Ok(GroupCheck::Absent);
        }
        self.load(offset, BLOCK_BYTES as usize).await?;
        let Some(frame) = GroupFrame::read(&self.header, offset, self.at(offset)) else {
            return Ok(GroupCheck::Absent);
        };
        self.load(offset, frame.bytes()).await?;
        let payload = self.at(offset).get(GROUP_HEADER_BYTES..frame.bytes()).unwrap_or_default();
        Ok(if frame.matches(&self.header, offset, payload) { GroupCheck::Valid(frame) } else { GroupCheck::Torn })
    }

    fn bytes(&self) -> &[u8] {
        self.window.as_ref().and_then(|window| window.get(..self.filled)).unwrap_or_default()
    }

    fn at(&self, offset: u32) -> &[u8] {
        self.bytes().get((offset - self.start) as usize..).unwrap_or_default()
    }

    /// Brings `len` bytes from `offset`, fewer at the end of the segment, into the window.
    async fn load(&mut self, offset: u32, len: usize) -> Result<(), Error> {
        let end = (offset as usize + len).min(self.header.segment_bytes as usize);
        if offset >= self.start && end <= self.start as usize + self.filled {
            return Ok(());
        }
        self.filled = 0;
        self.window.take().into_iter().for_each(|window| self.windows.give(window));
        if let Some(ReadAhead { start, reading }) = self.ahead.take() {
            let (read, window) = reading.await;
            if let Ok(read) = read
                && offset >= start
                && end <= start as usize + read
            {
                (self.window, self.start, self.filled) = (Some(window), start, read);
                self.read_ahead(offset);
                return Ok(());
            }
            self.windows.give(window);
        }
        let needed = (end - offset as usize).next_multiple_of(BLOCK_BYTES as usize);
        let (read, window) = self.read(offset, needed).await;
        self.window = Some(window);
        self.filled = read.map_err(Error::Io)?;
        self.start = offset;
        self.read_ahead(offset);
        Ok(())
    }

    /// Reads a window that begins at `offset` and has at least `bytes` bytes, unless the segment ends before.
    fn read(&self, offset: u32, bytes: usize) -> impl Future<Output = (io::Result<usize>, AlignedBuf)> + 'static {
        let mut window = self.windows.take(bytes);
        let left = self.header.segment_bytes as usize - offset as usize;
        window.set_len(window.capacity().min(left));
        let file = self.file.clone();
        async move { file.read_at(window, u64::from(offset)).await }
    }

    /// Begins to read the next window, from the first group that is not whole in this one. Does nothing if no group
    /// is there.
    fn read_ahead(&mut self, from: u32) {
        let mut offset = from;
        loop {
            let bytes = self.at(offset);
            if bytes.len() < BLOCK_BYTES as usize {
                break;
            }
            let Some(frame) = GroupFrame::read(&self.header, offset, bytes) else { return };
            if frame.bytes() > bytes.len() {
                break;
            }
            offset = frame.next_offset(offset);
        }
        if offset > self.start && offset < self.header.segment_bytes {
            self.ahead = Some(ReadAhead { start: offset, reading: runtime::spawn(self.read(offset, WINDOW_BYTES)) });
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GroupCheck {
    Valid(GroupFrame),
    /// A group of this segment begins here, but its payload is not complete.
    Torn,
    Absent,
}

/// Reads the bytes of a whole segment by the rules of replay, for tests and fuzzing. Gives every record to `visit`
/// with the offset of its group. An error is an offset and what is wrong there.
pub fn scan_bytes(
    segment: &[u8],
    id: u64,
    mut visit: impl FnMut(u32, Record<'_>),
) -> Result<SegmentEnd, (u32, &'static str)> {
    let header = Header::decode(segment, id).map_err(|what| (0, what))?;
    let segment = segment.get(..header.segment_bytes as usize).ok_or((0, "segment shorter than its header says"))?;
    let check = |offset: u32| {
        let bytes = segment.get(offset as usize..).unwrap_or_default();
        let Some(frame) = GroupFrame::read(&header, offset, bytes) else { return (GroupCheck::Absent, &[][..]) };
        let payload = bytes.get(GROUP_HEADER_BYTES..frame.bytes()).unwrap_or_default();
        (if frame.matches(&header, offset, payload) { GroupCheck::Valid(frame) } else { GroupCheck::Torn }, payload)
    };
    let mut offset = HEADER_BYTES;
    loop {
        let (found, payload) = check(offset);
        let GroupCheck::Valid(frame) = found else {
            let later = (offset..header.segment_bytes).step_by(BLOCK_BYTES as usize).skip(1);
            if later.into_iter().any(|later| matches!(check(later).0, GroupCheck::Valid(_))) {
                return Err((offset, "damaged group before a valid one"));
            }
            return Ok(SegmentEnd { offset, torn: found == GroupCheck::Torn });
        };
        for record in records(payload) {
            let record = record.map_err(|what| (offset, what))?;
            if let Record::Ends(body) = record {
                let _ = record::ends(body).map_err(|what| (offset, what))?.count();
            }
            visit(offset, record);
        }
        offset = frame.next_offset(offset);
    }
}

/// Whether a segment may hold records of `shard`: under an unchanged map only its own segments do.
pub(crate) fn may_concern(header: &Header, shard: u16, map: ShardMap) -> bool {
    header.shard_map != map || shard_of(header.id) == shard
}

/// Makes the bytes that were read from a segment durable: after a crash of the process alone, a later power failure
/// could still take them.
pub(crate) async fn make_durable(directory: &Path, id: u64) -> io::Result<()> {
    File::open(&path_of(directory, id), OpenOptions { write: true, create: false, exclusive: false })
        .await?
        .sync()
        .await
}

/// Durably deletes a segment. It is no error if there is none.
pub(crate) async fn delete(directory: &Path, id: u64) -> io::Result<()> {
    delete_path(directory, &path_of(directory, id)).await
}

/// Durably deletes a file that never became a segment.
pub(crate) async fn delete_temporary(directory: &Path, id: u64) -> io::Result<()> {
    delete_path(directory, &temporary_path_of(directory, id)).await
}

async fn delete_path(directory: &Path, path: &Path) -> io::Result<()> {
    match remove(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    }
    sync_dir(directory).await
}
