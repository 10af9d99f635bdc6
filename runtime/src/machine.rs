//! What the machine offers, asked before a node starts.

use std::io::Read;
use std::path::Path;

/// Cores that this process may use, at least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory that can be had without swapping (`MemAvailable`), if the system tells.
pub fn available_memory_bytes() -> Option<u64> {
    let text = read_text(Path::new("/proc/meminfo"), 64 << 10).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(kibibytes << 10)
}

/// Bytes of memory that this process holds, if the system tells.
pub fn resident_memory_bytes() -> Option<u64> {
    let text = read_text(Path::new("/proc/self/status"), 64 << 10).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(kibibytes << 10)
}

/// The text of a file of at most `bytes_max` bytes, for what is read before any shard runs. `InvalidData` if it is
/// longer or not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if read as u64 > bytes_max {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("longer than {bytes_max} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_answers() {
        assert!(cores() >= 1);
        assert!(available_memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
        assert!(resident_memory_bytes().is_none_or(|bytes| bytes > 1 << 16));
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let text = read_text(&manifest, 1 << 20).expect("readable");
        assert!(text.contains("runtime"));
        assert!(read_text(&manifest, text.len() as u64).is_ok());
        assert!(read_text(&manifest, text.len() as u64 - 1).is_err());
    }
}
