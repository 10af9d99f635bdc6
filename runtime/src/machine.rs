//! Cores and memory of the machine, and what processes have used of them.

use std::io::{Read, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Cores that this process may use, at least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory that can be allocated without swapping (`MemAvailable`); `None` if the system does not tell.
pub fn available_memory_bytes() -> Option<u64> {
    let text = read_text(Path::new("/proc/meminfo"), 64 << 10).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(kibibytes << 10)
}

/// Bytes of memory that this process holds; `None` if the system does not tell.
pub fn resident_memory_bytes() -> Option<u64> {
    let text = read_text(Path::new("/proc/self/status"), 64 << 10).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(kibibytes << 10)
}

/// Clock ticks per second in `/proc/PID/stat`, the same on every architecture that Linux supports.
const TICKS_PER_SECOND: u64 = 100;

/// User and system CPU time of all threads of process `pid`, in steps of 10 ms; `None` if there is no such process.
/// From `/proc/PID/stat`, fields 14 and 15 (proc(5)).
pub fn process_cpu(pid: u32) -> Option<Duration> {
    let text = read_text(Path::new(&format!("/proc/{pid}/stat")), 64 << 10).ok()?;
    // The command's name may contain spaces and brackets: fields are counted from the last bracket.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// What the calling thread has had of the CPUs, in nanoseconds since it began: time it ran, and time it was ready but
/// another thread ran. `None` where the system keeps no such statistics. From `/proc/thread-self/schedstat`.
pub fn thread_cpu() -> Option<(Duration, Duration)> {
    let text = read_text(Path::new("/proc/thread-self/schedstat"), 4 << 10).ok()?;
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<u64>().ok().map(Duration::from_nanos));
    Some((fields.next()??, fields.next()??))
}

/// Reads a text file with a blocking call, for use before any shard runs. `InvalidData` if it is longer than
/// `bytes_max` bytes or not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if read as u64 > bytes_max {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("longer than {bytes_max} bytes")));
    }
    Ok(text)
}

/// A file that lines of a log are appended to with blocking calls, from any thread. Clones share it.
#[derive(Clone, Debug)]
pub struct LogFile(Arc<std::fs::File>);

impl LogFile {
    /// Opens the file at its end, or makes it.
    pub fn open(path: &Path) -> std::io::Result<LogFile> {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        Ok(LogFile(Arc::new(file)))
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        (&*self.0).flush()
    }
}

/// The name of the current thread.
pub fn thread_name() -> String {
    std::thread::current().name().unwrap_or("unnamed").to_owned()
}

/// The system's clock in milliseconds since 1970, for log lines of threads that run no shard.
#[expect(clippy::disallowed_methods, reason = "this is what the rest of the program uses")]
pub fn wall_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The first address of a host name, by a blocking call, for use before any shard runs.
pub fn resolve(name: &str) -> Option<IpAddr> {
    (name, 0).to_socket_addrs().ok()?.map(|address| address.ip()).next()
}

/// The addresses of a network interface, in the system's order; `None` if there is no interface of this name. By
/// blocking calls, for use before any shard runs.
///
/// # Errors
/// Those of the system.
pub fn interface_addresses(name: &str) -> std::io::Result<Option<Vec<IpAddr>>> {
    let of_all = if_addrs::get_if_addrs()?;
    let found: Vec<IpAddr> = of_all.into_iter().filter(|of| of.name == name).map(|of| of.ip()).collect();
    // Interfaces without an address are not in the list of addresses.
    let exists = || std::fs::read_dir("/sys/class/net").is_ok_and(|all| all.flatten().any(|of| of.file_name() == name));
    Ok((!found.is_empty() || exists()).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_answers() {
        assert!(cores() >= 1);
        assert!(resolve("localhost").is_some_and(|ip| ip.is_loopback()));
        assert_eq!(resolve("nohost.invalid"), None);
        let loopback = interface_addresses("lo").expect("told").expect("there is a loopback interface");
        assert!(loopback.contains(&IpAddr::from([127, 0, 0, 1])));
        assert!(interface_addresses("nosuch0").expect("told").is_none());
        assert!(interface_addresses("../net").expect("told").is_none());
        assert!(available_memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
        assert!(resident_memory_bytes().is_none_or(|bytes| bytes > 1 << 16));
        assert!(process_cpu(std::process::id()).is_some());
        assert!(process_cpu(u32::MAX).is_none());
        assert!(thread_cpu().is_none_or(|(ran, _)| ran > Duration::ZERO));
        assert!(wall_millis() > 1_700_000_000_000);
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let text = read_text(&manifest, 1 << 20).expect("readable");
        assert!(text.contains("runtime"));
        assert!(read_text(&manifest, text.len() as u64).is_ok());
        assert!(read_text(&manifest, text.len() as u64 - 1).is_err());
    }
}
