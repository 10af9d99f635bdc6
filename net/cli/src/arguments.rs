//! The command line of a node, and its settings: the configuration file with the command line's options over it.

use crate::metadata_service;
use clap::{Parser, ValueEnum};
use server::Config;
use server::config::archiving::{ARCHIVING_FILE, refuse_archiving};
use server::config::{ConfigError, DataDirectories, FILE_BYTES_MAX, seeds_of, units};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Starts a Helenus node: CQL on port 9042, shard-aware CQL on port 19042, metrics over HTTP on port 7199.
#[derive(Parser, Debug)]
#[command(name = "helenus", version)]
pub(crate) struct Arguments {
    /// A cassandra.yaml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where data lives; may be repeated [default: ./data]
    #[arg(long, value_name = "DIR")]
    data_dir: Vec<PathBuf>,
    /// The node's address [default: 127.0.0.1]
    #[arg(long, value_name = "IP")]
    listen: Option<IpAddr>,
    /// Nodes of the cluster to join: 127.0.0.1,127.0.0.2 [default: a cluster of its own]
    #[arg(long, value_name = "LIST")]
    seeds: Option<String>,
    /// The CQL port [default: 9042]
    #[arg(long)]
    port: Option<u16>,
    /// Shards to run, one per core [default: all cores]
    #[arg(long, value_name = "N", conflicts_with = "cpu_set")]
    cores: Option<usize>,
    /// CPUs to run on, one shard pinned to each: 0-3,7
    #[arg(long, value_name = "LIST", value_parser = cpu_set)]
    cpu_set: Option<CpuSet>,
    /// Memory to use: 4G, 512M [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    /// What runs the shards
    #[arg(long, value_enum, default_value_t = Backend::Uring)]
    runtime: Backend,
    /// How logs look on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Also log to this file, in the format of Cassandra's system.log
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Sets an option of the configuration file; may be repeated
    #[arg(short = 'D', value_name = "OPTION=VALUE")]
    define: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Backend {
    /// Our own loop on io_uring
    Uring,
    /// The crate glommio, to compare with
    Glommio,
}

impl From<Backend> for runtime::Backend {
    fn from(backend: Backend) -> runtime::Backend {
        match backend {
            Backend::Uring => runtime::Backend::Uring,
            Backend::Glommio => runtime::Backend::Glommio,
        }
    }
}

#[derive(Clone, Copy, ValueEnum, Debug)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Most shards of a node.
const SHARDS_MAX: usize = 1024;
/// Highest CPU number.
const CPU_MAX: usize = 4095;

#[derive(Clone, PartialEq, Debug)]
struct CpuSet(Vec<usize>);

/// The settings of a node.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) shards: usize,
    pub(crate) cpus: Vec<usize>,
    pub(crate) backend: runtime::Backend,
}

impl Arguments {
    /// Reads the configuration file and puts the arguments over it. The error says what is wrong in which of them.
    pub(crate) fn settings(self) -> Result<Settings, ConfigError> {
        let backend = runtime::Backend::from(self.runtime);
        if !backend.is_built() {
            return Err(ConfigError(
                "--runtime glommio: this build has no glommio (feature `glommio` of `cli`)".into(),
            ));
        }
        let file = match &self.config {
            None => String::new(),
            Some(path) => runtime::machine::read_text(path, FILE_BYTES_MAX as u64)
                .map_err(|e| ConfigError(format!("--config {}: {e}", path.display())))?,
        };
        let beside = |name: &str| match &self.config {
            Some(path) => text_of(&path.with_file_name(name)),
            None => Ok(None),
        };
        if let Some(text) = beside(ARCHIVING_FILE)? {
            refuse_archiving(&text)?;
        }
        let mut config = Config::read(&file, &self.define)?;
        config.file.clone_from(&self.config);
        if let Some(directories) = DataDirectories::new(self.data_dir) {
            config.node.directories = directories;
        }
        if let Some(address) = self.listen {
            config.node.listen_address = address;
            config.node.rpc_address = address;
            (config.listen_interface, config.rpc_interface) = (None, None);
        }
        config.resolve_interfaces(&runtime::machine::interface_addresses)?;
        if let Some(port) = self.port {
            config.node.native_port = port;
        }
        if let Some(seeds) = &self.seeds {
            config.seed_names = seeds_of(seeds)?;
        }
        config.discover(&beside, &runtime::machine::resolve, &metadata_service::ask)?;
        config.node.memory_bytes = match self.memory.or(runtime::machine::available_memory_bytes().map(|free| free / 2))
        {
            Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
            None => config.node.memory_bytes,
        };
        config.check()?;
        let cpus = self.cpu_set.map(|set| set.0).unwrap_or_default();
        let shards = match self.cores {
            Some(cores) => cores,
            None if cpus.is_empty() => runtime::machine::cores(),
            None => cpus.len(),
        };
        if shards == 0 || shards > SHARDS_MAX {
            return Err(ConfigError(format!("--cores {shards}: a number from 1 to {SHARDS_MAX} is needed")));
        }
        Ok(Settings { config, shards, cpus, backend })
    }
}

/// The text of a file, if it is there.
fn text_of(path: &Path) -> Result<Option<String>, ConfigError> {
    match runtime::machine::read_text(path, FILE_BYTES_MAX as u64) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError(format!("{}: {error}", path.display()))),
    }
}

fn memory(text: &str) -> Result<u64, String> {
    units::memory(text).ok_or_else(|| format!("{text} is not a size such as 4G or 512M"))
}

/// Parses `0-3,7` into numbers, each of them once.
fn cpu_set(text: &str) -> Result<CpuSet, String> {
    let wrong = || format!("{text} is not a list of CPUs such as 0-3,7");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = first.parse::<usize>().map_err(|_| wrong())?;
        let last = last.parse::<usize>().map_err(|_| wrong())?;
        if first > last || last > CPU_MAX {
            return Err(wrong());
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return Err(format!("CPU {cpu} is named twice"));
            }
            cpus.push(cpu);
        }
    }
    Ok(CpuSet(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> Result<Settings, ConfigError> {
        let arguments = std::iter::once("helenus").chain(arguments.iter().copied());
        Arguments::try_parse_from(arguments).expect("parses").settings()
    }

    #[test]
    fn arguments_beat_the_file() {
        let given = [
            "--listen",
            "127.0.0.9",
            "--port",
            "9999",
            "--cores",
            "3",
            "--memory",
            "1G",
            "-D",
            "num_tokens=4",
            "--seeds",
            "127.0.0.3",
        ];
        let settings = settings(&given).expect("valid");
        assert_eq!(settings.shards, 3);
        assert_eq!(settings.config.node.native_port, 9999);
        assert_eq!(settings.config.node.rpc_address.to_string(), "127.0.0.9");
        assert_eq!((settings.config.node.memory_bytes, settings.config.node.num_tokens), (1 << 30, 4));
        assert_eq!(settings.backend, runtime::Backend::Uring);
        assert_eq!(settings.config.node.seeds, ["127.0.0.3:7000".parse().expect("an address")]);
    }

    #[test]
    fn an_interface_gives_addresses_unless_there_is_an_argument() {
        let addresses = |given: &[&str]| {
            let node = settings(given).expect("valid").config.node;
            (node.listen_address.to_string(), node.rpc_address.to_string())
        };
        let both = ["-D", "listen_interface=lo", "-D", "rpc_interface=lo"];
        assert_eq!(addresses(&both), ("127.0.0.1".into(), "127.0.0.1".into()));
        let listen = [&both[..], &["--listen", "127.0.0.9"]].concat();
        assert_eq!(addresses(&listen), ("127.0.0.9".into(), "127.0.0.9".into()));
        let error = settings(&["-D", "rpc_interface=nosuch0"]).err().expect("refused").to_string();
        assert_eq!(error, "Configured rpc_interface \"nosuch0\" could not be found");
    }

    #[test]
    fn a_backend_is_chosen_if_it_is_built() {
        match settings(&["--runtime", "glommio"]) {
            Ok(settings) => assert_eq!(settings.backend, runtime::Backend::Glommio),
            Err(error) => assert!(!cfg!(feature = "glommio") && error.to_string().contains("no glommio"), "{error}"),
        }
        assert_eq!(settings(&["--runtime", "uring"]).expect("built").backend, runtime::Backend::Uring);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for wrong in [&["--memory", "lots"][..], &["--cpu-set", "3-1"], &["--runtime", "tokio"], &["nodetool"]] {
            let arguments = std::iter::once("helenus").chain(wrong.iter().copied());
            assert!(Arguments::try_parse_from(arguments).is_err(), "{wrong:?}");
        }
        assert!(settings(&["--cores", "0"]).is_err());
        assert!(settings(&["--cores", "1025"]).is_err());
        assert!(settings(&["--cores", "1024"]).is_ok());
        assert!(settings(&["--listen", "0.0.0.0"]).is_err());
        assert!(settings(&["-D", "nonsense=1"]).is_err());
        assert!(settings(&["--seeds", ","]).is_err());
        assert!(settings(&["-D", "endpoint_snitch=GossipingPropertyFileSnitch"]).is_err(), "its file is not there");
        assert!(settings(&["--config", "/nonexistent.yaml"]).is_err());
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_set("0-3,7"), Ok(CpuSet(vec![0, 1, 2, 3, 7])));
        assert_eq!(cpu_set("4095"), Ok(CpuSet(vec![4095])));
        for wrong in ["", "a", "1,1", "0-2,1", "4096", "-1"] {
            assert!(cpu_set(wrong).is_err(), "{wrong}");
        }
    }
}
