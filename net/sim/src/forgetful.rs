//! A disk that forgets what was durable: a bug that tests plant to see that judges find its consequences.

use runtime::NodeId;
use runtime::sim::Sim;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Bytes of the header of a commit log segment; the first group follows it.
const SEGMENT_HEADER_BYTES: usize = 4096;

/// Clears the second half of the newest segment of each shard's commit log.
pub(crate) fn forget_end_of_log(sim: &mut Sim, node: NodeId) {
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut newest: BTreeMap<u64, (u64, PathBuf, usize)> = BTreeMap::new();
    for (path, _) in sim.files(node) {
        let id = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".log"));
        let Some(id) = id.and_then(|id| u64::from_str_radix(id, 16).ok()) else { continue };
        let used = sim.read_file(node, &path).map_or(0, |bytes| used(&bytes));
        let shard = id & u64::from(u16::MAX);
        if used > SEGMENT_HEADER_BYTES && newest.get(&shard).is_none_or(|(other, ..)| *other < id) {
            newest.insert(shard, (id, path, used));
        }
    }
    for (_, path, used) in newest.into_values() {
        let kept = SEGMENT_HEADER_BYTES + (used - SEGMENT_HEADER_BYTES) / 2;
        sim.mutate_file(node, &path, |bytes| bytes.iter_mut().skip(kept).for_each(|byte| *byte = 0));
    }
}
