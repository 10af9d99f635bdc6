//! `/metrics`: the metrics of all shards as OpenMetrics text, which Prometheus reads. `docs/metrics.md` explains the
//! names.
//!
//! Metrics are collected from all shards first and then encoded, because `prometheus-client` cannot await while it
//! encodes.

use crate::config::RELEASE_VERSION;
use crate::node_state::NodeState;
use crate::operation_names::{coordinator_name, local_name};
use model::Failure;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use runtime::metrics::{ClassMetrics, DiskMetrics};
use shard::metrics::operations::{BOUNDS, QUANTILES};
use shard::metrics::{Charges, Latency, Operation, ShardMetrics};
use shard::{AlertKind, PeerTraffic, TrafficCounts};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// The content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const NANOS_PER_SECOND: f64 = 1e9;

/// Collects the metrics and encodes them.
pub(super) async fn text(node: &NodeState) -> Result<String, Failure> {
    let gathered = Gathered {
        uptime_seconds: runtime::now().since(node.started).as_secs_f64(),
        is_serving: !node.drained.is_set(),
        // In simulation the process's memory must not be read: its value would differ between runs of one seed.
        resident_bytes: if node.simulated { None } else { runtime::machine::resident_memory_bytes() },
        memory_bytes: node.shard.node_config().memory_bytes as u64,
        shards: node.shard.all_metrics().await?,
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(gathered));
    let mut out = String::new();
    match prometheus_client::encoding::text::encode(&mut out, &registry) {
        Ok(()) => Ok(out),
        Err(fmt::Error) => Err(Failure::server("the figures cannot be written")),
    }
}

/// The metrics of the node and of its shards.
#[derive(Debug)]
struct Gathered {
    uptime_seconds: f64,
    is_serving: bool,
    resident_bytes: Option<u64>,
    memory_bytes: u64,
    shards: Vec<ShardMetrics>,
}

fn lower<T: fmt::Debug>(name: T) -> String {
    format!("{name:?}").to_lowercase()
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND
}

/// Maps a class of operations to its label; `None` if the metric does not show the class.
type Name = fn(Operation) -> Option<&'static str>;

/// The value of a sample.
enum Number {
    Whole(u64),
    Fraction(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Fraction(number)
    }
}

/// The description of a metric. The name has no unit and no suffix.
struct Metric {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    is_counter: bool,
}

fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, unit: None, is_counter: false }
}

fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, unit: None, is_counter: true }
}

impl Metric {
    fn of(self, unit: Unit) -> Metric {
        Metric { unit: Some(unit), ..self }
    }

    /// Writes the metric's description, and then the samples that `visit` adds.
    fn write(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        visit: impl FnOnce(&mut Samples<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let kind = if self.is_counter { MetricType::Counter } else { MetricType::Gauge };
        let encoder = encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)?;
        visit(&mut Samples { encoder, is_counter: self.is_counter })
    }
}

/// Writes the samples of a metric.
struct Samples<'e> {
    encoder: MetricEncoder<'e>,
    is_counter: bool,
}

impl Samples<'_> {
    fn put<L: EncodeLabelSet>(&mut self, labels: L, number: impl Into<Number>) -> fmt::Result {
        let mut encoder = self.encoder.encode_family(&labels)?;
        match (number.into(), self.is_counter) {
            (Number::Whole(n), true) => encoder.encode_counter::<NoLabelSet, u64, f64>(&n, None),
            (Number::Fraction(n), true) => encoder.encode_counter::<NoLabelSet, f64, f64>(&n, None),
            (Number::Whole(n), false) => encoder.encode_gauge(&n),
            (Number::Fraction(n), false) => encoder.encode_gauge(&n),
        }
    }
}

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.node(encoder)?;
        for (name, recent, help, named) in LATENCIES {
            self.histograms(encoder, name, help, named)?;
            self.quantiles(encoder, recent, named)?;
        }
        self.tasks(encoder)?;
        self.disk(encoder)?;
        self.cores(encoder)?;
        self.clients(encoder)?;
        self.peers(encoder)?;
        self.memory(encoder)?;
        self.maintenance(encoder)
    }
}

/// Latency metrics: the name of the histogram, the name of the quantiles, a description, and the labels of the
/// operations that both show.
const LATENCIES: [(&str, &str, &str, Name); 2] = [
    (
        "helenus_coordinator_latency",
        "helenus_coordinator_latency_recent",
        "How long operations take, as the coordinating shard sees them",
        coordinator_name,
    ),
    (
        "helenus_local_latency",
        "helenus_local_latency_recent",
        "How long operations take in a shard's own store",
        local_name,
    ),
];

impl Gathered {
    /// The metrics of each shard, with the shard's number as a label.
    fn each(&self) -> impl Iterator<Item = (String, &ShardMetrics)> {
        self.shards.iter().enumerate().map(|(shard, metrics)| (shard.to_string(), metrics))
    }

    /// Writes a metric with one sample per shard.
    fn by_shard<N: Into<Number>>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        metric: Metric,
        number: impl Fn(&ShardMetrics) -> N,
    ) -> fmt::Result {
        metric.write(encoder, |samples| {
            self.each().try_for_each(|(shard, metrics)| samples.put([("shard", shard)], number(metrics)))
        })
    }

    /// Writes a metric with one sample per shard and class of tasks.
    fn by_class<N: Into<Number>>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        metric: Metric,
        number: impl Fn(&ClassMetrics) -> N,
    ) -> fmt::Result {
        metric.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for class in &metrics.classes {
                    samples.put([("class", lower(class.class)), ("shard", shard.clone())], number(class))?;
                }
            }
            Ok(())
        })
    }

    fn node(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("cassandra_version", RELEASE_VERSION)];
        encoder.encode_descriptor("helenus_build", "What runs", None, MetricType::Info)?.encode_info(&labels)?;
        let node = |encoder: &mut _, metric: Metric, number: Number| {
            let none: [(&str, &str); 0] = [];
            metric.write(encoder, |samples| samples.put(none, number))
        };
        node(
            encoder,
            gauge("helenus_uptime", "Time since the node began to serve").of(Unit::Seconds),
            self.uptime_seconds.into(),
        )?;
        node(
            encoder,
            gauge("helenus_serving", "1 while clients are served, 0 once the node is drained"),
            u64::from(self.is_serving).into(),
        )?;
        node(encoder, gauge("helenus_shards", "Shards of the node"), (self.shards.len() as u64).into())?;
        node(
            encoder,
            gauge("helenus_memory_limit", "Memory that the node was given").of(Unit::Bytes),
            self.memory_bytes.into(),
        )?;
        if let Some(bytes) = self.resident_bytes {
            let metric = gauge("helenus_memory_resident", "Memory that the process holds").of(Unit::Bytes);
            node(encoder, metric, bytes.into())?;
        }
        Ok(())
    }

    fn latencies(&self, named: Name) -> impl Iterator<Item = ([(&'static str, String); 2], &Latency)> {
        self.each().flat_map(move |(shard, metrics)| {
            metrics.latencies.iter().filter_map(move |(operation, latency)| {
                let labels = [("operation", named(*operation)?.to_owned()), ("shard", shard.clone())];
                Some((labels, latency))
            })
        })
    }

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, named: Name) -> fmt::Result {
        let mut encoder = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, latency) in self.latencies(named) {
            let within: u64 = latency.buckets.iter().sum();
            let mut buckets: Vec<(f64, u64)> = BOUNDS.map(seconds).into_iter().zip(latency.buckets).collect();
            buckets.push((f64::INFINITY, latency.count.saturating_sub(within)));
            let sum = seconds(latency.total_nanos);
            encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, latency.count, &buckets, None)?;
        }
        Ok(())
    }

    fn quantiles(&self, encoder: &mut DescriptorEncoder<'_>, name: &'static str, named: Name) -> fmt::Result {
        let help = "The same for the last one to two minutes, by quantile; 1 is the longest";
        gauge(name, help).of(Unit::Seconds).write(encoder, |samples| {
            for (labels, latency) in self.latencies(named) {
                for (part, nanos) in QUANTILES.iter().zip(latency.quantiles) {
                    let [operation, shard] = labels.clone();
                    samples.put([operation, ("quantile", part.to_string()), shard], seconds(nanos))?;
                }
            }
            Ok(())
        })
    }

    fn tasks(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let busy = counter("helenus_tasks_busy", "Time that polls of tasks took").of(Unit::Seconds);
        self.by_class(encoder, busy, |class| class.busy.as_secs_f64())?;
        self.by_class(encoder, counter("helenus_tasks_polls", "Polls of tasks"), |class| class.polls)?;
        self.by_class(encoder, counter("helenus_tasks_begun", "Tasks begun"), |class| class.begun)?;
        self.by_class(encoder, counter("helenus_tasks_completed", "Tasks ended"), |class| class.completed)?;
        self.by_class(encoder, gauge("helenus_tasks_ready", "Tasks that wait for the core"), |class| class.ready)?;
        self.by_class(encoder, gauge("helenus_tasks_shares", "Shares of the core's time"), |class| {
            u64::from(class.shares)
        })
    }

    fn disk(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let by_kind = |encoder: &mut _, metric: Metric, number: fn(&DiskMetrics) -> u64| {
            metric.write(encoder, |samples| {
                for (shard, metrics) in self.each() {
                    for kind in &metrics.disk {
                        samples.put([("operation", lower(kind.kind)), ("shard", shard.clone())], number(kind))?;
                    }
                }
                Ok(())
            })
        };
        by_kind(encoder, counter("helenus_disk_operations", "Operations on files"), |kind| kind.completed)?;
        by_kind(encoder, counter("helenus_disk", "Bytes read and written").of(Unit::Bytes), |kind| kind.bytes)?;
        let under_way = gauge("helenus_disk_in_flight", "Operations on files that were begun and have not ended");
        self.by_class(encoder, under_way, |class| class.disk_under_way.saturating_sub(class.disk_waiting))?;
        let waiting = gauge("helenus_disk_waiting", "Operations on files that wait for one of their class to end");
        self.by_class(encoder, waiting, |class| class.disk_waiting)
    }

    fn cores(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let known = |of: fn(&ShardMetrics) -> Option<f64>, metric: Metric, encoder: &mut _| {
            metric.write(encoder, |samples| {
                for (shard, metrics) in self.each() {
                    if let Some(number) = of(metrics) {
                        samples.put([("shard", shard)], number)?;
                    }
                }
                Ok(())
            })
        };
        let cpu = counter("helenus_shard_cpu", "CPU time of the shard's thread").of(Unit::Seconds);
        known(|metrics| Some(metrics.cpu?.0.as_secs_f64()), cpu, encoder)?;
        let wait = counter("helenus_shard_cpu_wait", "Time that the shard's thread was ready but had no CPU");
        known(|metrics| Some(metrics.cpu?.1.as_secs_f64()), wait.of(Unit::Seconds), encoder)?;
        let waiting = gauge("helenus_messages_waiting", "Messages that another shard has not taken yet");
        waiting.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for (to, count) in metrics.messages_waiting.iter().enumerate() {
                    if to.to_string() != shard {
                        samples.put([("shard", shard.clone()), ("to", to.to_string())], *count)?;
                    }
                }
            }
            Ok(())
        })?;
        let repaired = counter("helenus_reads_repaired", "Reads for which replicas were written what they lacked");
        self.by_shard(encoder, repaired, |metrics| metrics.reads_repaired)?;
        let speculated = counter("helenus_repairs_speculated", "Repairs that were sent to further replicas as well");
        self.by_shard(encoder, speculated, |metrics| metrics.repairs_speculated)?;
        self.repairs(encoder)?;
        let damaged = gauge("helenus_sstables_damaged", "SSTables in which damaged bytes were met");
        self.by_shard(encoder, damaged, |metrics| metrics.damaged_sstables.0)?;
        let healed = counter("helenus_sstables_healed", "Damaged SSTables whose rows came again from other replicas");
        self.by_shard(encoder, healed, |metrics| metrics.damaged_sstables.1)?;
        let differed = counter("helenus_digests_differed", "Reads of repaired tables whose replicas differed");
        self.by_shard(encoder, differed, |metrics| metrics.digests_differed)?;
        let speculated = counter("helenus_reads_speculated", "Reads that asked one more replica as answers were late");
        self.by_shard(encoder, speculated, |metrics| metrics.reads_speculated)?;
        let joined = counter("helenus_reads_joined", "Reads of hot partitions that were answered by an equal one");
        self.by_shard(encoder, joined, |metrics| metrics.reads_joined)?;
        let spread = counter("helenus_reads_spread", "Reads of hot partitions that asked others than the nearest");
        self.by_shard(encoder, spread, |metrics| metrics.reads_spread)?;
        let calls = counter("helenus_calls", "Requests to other shards");
        self.by_shard(encoder, calls, |metrics| metrics.calls)?;
        let waiting = gauge("helenus_calls_waiting", "Requests to other shards that are not answered yet");
        self.by_shard(encoder, waiting, |metrics| metrics.calls_waiting)?;
        let missed = counter("helenus_mutations_missed", "Mutations that another replica did not write in time");
        self.by_shard(encoder, missed, |metrics| metrics.mutations_missed)?;
        let replayed = counter("helenus_batches_replayed", "Logged batches that the nodes that keep them applied");
        self.by_shard(encoder, replayed, |metrics| metrics.batches_replayed)?;
        let expired = counter("helenus_batches_expired", "Logged batches that were given up after gc_grace_seconds");
        self.by_shard(encoder, expired, |metrics| metrics.batches_expired)?;
        self.hints(encoder)?;
        self.charges(encoder)?;
        self.alerts(encoder)?;
        let sent = counter("helenus_streamed_bytes_sent", "Bytes of SSTables that were sent to other nodes");
        self.by_shard(encoder, sent, |metrics| metrics.streams.sent_bytes)?;
        let received = counter("helenus_streamed_bytes_received", "Bytes of SSTables that came from other nodes");
        self.by_shard(encoder, received, |metrics| metrics.streams.received_bytes)?;
        let sessions = gauge("helenus_stream_sessions", "Sessions in which SSTables are sent to other nodes");
        self.by_shard(encoder, sessions, |metrics| metrics.streams.sessions)
    }

    fn repairs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let running = gauge("helenus_repairs_running", "Repairs that this node leads");
        self.by_shard(encoder, running, |metrics| metrics.repairs.running)?;
        let ended = counter("helenus_repairs_ended", "Repairs that this node has led to their end");
        ended.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for (how, count) in ["success", "failure"].into_iter().zip(metrics.repairs.ended) {
                    samples.put([("shard", shard.clone()), ("status", how.to_owned())], count)?;
                }
            }
            Ok(())
        })?;
        let partitions = counter("helenus_repair_partitions", "Partitions that repairs have compared");
        self.by_shard(encoder, partitions, |metrics| metrics.repairs.partitions)?;
        let bytes = counter("helenus_repair_bytes", "Bytes of the rows that repairs have compared");
        self.by_shard(encoder, bytes, |metrics| metrics.repairs.bytes)?;
        let differing =
            counter("helenus_repair_partitions_differing", "Partitions in which repairs have found differences");
        self.by_shard(encoder, differing, |metrics| metrics.repairs.differing)?;
        let hashes = counter("helenus_repair_hash_bytes", "Bytes of hashes that repairs have asked other nodes for");
        self.by_shard(encoder, hashes, |metrics| metrics.repairs.hash_bytes)?;
        let read = counter("helenus_repair_read_bytes", "Bytes of rows that repairs have asked other nodes for");
        self.by_shard(encoder, read, |metrics| metrics.repairs.read_bytes)?;
        let written = counter("helenus_repair_written_bytes", "Bytes of rows that repairs have written to replicas");
        self.by_shard(encoder, written, |metrics| metrics.repairs.written_bytes)
    }

    fn alerts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let alerts = counter("helenus_alerts", "How often something was told to be close to its limit");
        alerts.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for (kind, count) in AlertKind::ALL.into_iter().zip(metrics.alerts.1) {
                    samples.put([("kind", kind.name()), ("shard", shard.as_str())], count)?;
                }
            }
            Ok(())
        })
    }

    /// Only tables whose throughput is limited have these.
    fn charges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let write = |metric: Metric, encoder: &mut DescriptorEncoder<'_>, of: fn(&Charges) -> [Number; 2]| {
            metric.write(encoder, |samples| {
                for (shard, metrics) in self.each() {
                    for table in &metrics.charges {
                        let mut sum = Charges::default();
                        table.roles.iter().for_each(|(_, charges)| sum.add(charges));
                        for (kind, number) in ["read", "write"].into_iter().zip(of(&sum)) {
                            let (keyspace, name) = &table.name;
                            let labels = [
                                ("keyspace", &**keyspace),
                                ("kind", kind),
                                ("shard", shard.as_str()),
                                ("table", name.as_str()),
                            ];
                            samples.put(labels, number)?;
                        }
                    }
                }
                Ok(())
            })
        };
        let units = counter("helenus_request_units", "Request units charged for tables whose throughput is limited");
        write(units, encoder, |charges| {
            [charges.read_units, charges.write_units].map(|hundredths| Number::Fraction(hundredths as f64 / 100.0))
        })?;
        let charged = counter("helenus_charged_requests", "Requests to tables whose throughput is limited");
        write(charged, encoder, |charges| [charges.reads, charges.writes].map(Number::Whole))?;
        let refused = counter("helenus_throttled_requests", "Requests that were refused as their table used too much");
        refused.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for table in &metrics.charges {
                    let (keyspace, name) = &table.name;
                    let refused: u64 = table.roles.iter().map(|(_, charges)| charges.refused).sum();
                    samples.put(
                        [("keyspace", &**keyspace), ("shard", shard.as_str()), ("table", name.as_str())],
                        refused,
                    )?;
                }
            }
            Ok(())
        })
    }

    fn hints(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kept = counter("helenus_hints_kept", "Mutations that were kept for replicas that had missed them");
        self.by_shard(encoder, kept, |metrics| metrics.hints.kept)?;
        let refused = counter("helenus_hints_refused", "Mutations that replicas had missed and that were not kept");
        self.by_shard(encoder, refused, |metrics| metrics.hints.refused)?;
        let delivered = counter("helenus_hints_delivered", "Hints that were written by their replicas");
        self.by_shard(encoder, delivered, |metrics| metrics.hints.delivered)?;
        let expired = counter("helenus_hints_expired", "Hints older than the tombstones that they need");
        self.by_shard(encoder, expired, |metrics| metrics.hints.expired)?;
        let void = counter("helenus_hints_void", "Hints of tables that were dropped or truncated");
        self.by_shard(encoder, void, |metrics| metrics.hints.void)?;
        let damaged = counter("helenus_hints_damaged", "Damaged parts of files of hints");
        self.by_shard(encoder, damaged, |metrics| metrics.hints.damaged)?;
        let bytes = gauge("helenus_hint_bytes", "Bytes of hints in memory and in files");
        self.by_shard(encoder, bytes, |metrics| metrics.hints.bytes)
    }

    fn clients(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let requests = counter("helenus_requests", "Requests of clients that were answered");
        self.by_shard(encoder, requests, |metrics| metrics.served.requests.completed)?;
        let errors = counter("helenus_request_errors", "Requests of clients that were answered with an error");
        self.by_shard(encoder, errors, |metrics| metrics.served.errors)?;
        let in_flight = gauge("helenus_requests_in_flight", "Requests of clients under way");
        self.by_shard(encoder, in_flight, |metrics| metrics.served.requests.active)?;
        counter("helenus_statements", "Statements that were run").write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                let (prepared, regular) = metrics.statements;
                samples.put([("kind", "prepared"), ("shard", shard.as_str())], prepared)?;
                samples.put([("kind", "regular"), ("shard", shard.as_str())], regular)?;
            }
            Ok(())
        })?;
        let open = gauge("helenus_connections_open", "Connections of clients");
        self.by_shard(encoder, open, |metrics| metrics.served.connections)?;
        let accepted = counter("helenus_connections_accepted", "Connections of clients that were taken over");
        self.by_shard(encoder, accepted, |metrics| metrics.served.connections_in_all)?;
        let evicted = counter(
            "helenus_connections_evicted",
            "Connections closed for breaking the protocol, a limit or a deadline",
        );
        self.by_shard(encoder, evicted, |metrics| metrics.served.evictions)?;
        counter("helenus_tls_handshakes", "Handshakes of TLS with clients").write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for (result, count) in metrics.served.handshakes.iter().filter(|(result, _)| !result.is_empty()) {
                    samples.put([("result", *result), ("shard", shard.as_str())], *count)?;
                }
            }
            Ok(())
        })?;
        let panics = counter("helenus_caught_panics", "Panics that cost one request alone");
        self.by_shard(encoder, panics, |metrics| metrics.served.panics)
    }

    /// Writes a metric of links with one sample per node and shard: a column of one direction.
    fn by_peer(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        metric: Metric,
        direction: fn(&PeerTraffic) -> &BTreeMap<SocketAddr, TrafficCounts>,
        column: &str,
    ) -> fmt::Result {
        metric.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for (peer, counts) in direction(&metrics.peers) {
                    let count = counts.get(column).copied().unwrap_or_default();
                    samples.put([("peer", peer.to_string()), ("shard", shard.clone())], count)?;
                }
            }
            Ok(())
        })
    }

    fn peers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let open = gauge("helenus_peer_connections", "Connections that this node made to another one");
        self.by_peer(encoder, open, |traffic| &traffic.outbound, "active_connections")?;
        let sent = counter("helenus_peer_messages_sent", "Messages handed to the system for another node");
        self.by_peer(encoder, sent, |traffic| &traffic.outbound, "sent_count")?;
        let bytes = counter("helenus_peer_sent", "Bytes of those messages").of(Unit::Bytes);
        self.by_peer(encoder, bytes, |traffic| &traffic.outbound, "sent_bytes")?;
        let waiting = gauge("helenus_peer_queue", "Bytes that wait to be sent to another node").of(Unit::Bytes);
        self.by_peer(encoder, waiting, |traffic| &traffic.outbound, "using_bytes")?;
        let received = counter("helenus_peer_messages_received", "Messages that came from another node");
        self.by_peer(encoder, received, |traffic| &traffic.inbound, "received_count")?;
        let bytes = counter("helenus_peer_received", "Bytes of those messages").of(Unit::Bytes);
        self.by_peer(encoder, bytes, |traffic| &traffic.inbound, "received_bytes")?;
        let served = gauge("helenus_peer_messages_in_flight", "Messages of another node that are being served");
        self.by_peer(encoder, served, |traffic| &traffic.inbound, "scheduled_count")?;
        let dropped = counter("helenus_messages_dropped", "Messages between nodes that were dropped");
        dropped.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for (verb, count) in &metrics.peers.dropped {
                    samples.put([("shard", shard.clone()), ("verb", verb.name().to_owned())], *count)?;
                }
            }
            Ok(())
        })?;
        let refused = counter("helenus_peer_connections_refused", "Connections that never became a link");
        refused.write(encoder, |samples| {
            for (shard, metrics) in self.each() {
                for (reason, count) in &metrics.peers.refused {
                    samples.put([("reason", (*reason).to_owned()), ("shard", shard.clone())], *count)?;
                }
            }
            Ok(())
        })
    }

    fn memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let hits = counter("helenus_block_cache_hits", "Requests for a block of an SSTable that was in the cache");
        self.by_shard(encoder, hits, |metrics| metrics.cache.hits)?;
        let misses = counter("helenus_block_cache_misses", "Requests for a block of an SSTable that had to be read");
        self.by_shard(encoder, misses, |metrics| metrics.cache.misses)?;
        let took = counter("helenus_block_cache_miss", "Time that misses waited for their block").of(Unit::Seconds);
        self.by_shard(encoder, took, |metrics| seconds(metrics.cache.miss_nanos))?;
        let entries = gauge("helenus_block_cache_entries", "Blocks in the cache");
        self.by_shard(encoder, entries, |metrics| metrics.cache.entries)?;
        let bytes = gauge("helenus_block_cache", "Bytes in the cache").of(Unit::Bytes);
        self.by_shard(encoder, bytes, |metrics| metrics.cache.bytes)?;
        let limit = gauge("helenus_block_cache_limit", "Bytes that the cache may hold").of(Unit::Bytes);
        self.by_shard(encoder, limit, |metrics| metrics.cache.capacity_bytes)?;
        let bytes = gauge("helenus_memtables", "Bytes in memtables of user tables").of(Unit::Bytes);
        self.by_shard(encoder, bytes, |metrics| metrics.memtables.0)?;
        let limit = gauge("helenus_memtables_limit", "Bytes that memtables of user tables may hold").of(Unit::Bytes);
        self.by_shard(encoder, limit, |metrics| metrics.memtables.1)
    }

    fn maintenance(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let running = gauge("helenus_compactions_running", "Compactions under way");
        self.by_shard(encoder, running, |metrics| metrics.compactions.active)?;
        let pending =
            gauge("helenus_compactions_pending", "Compactions that the tables' strategies expect to have yet");
        self.by_shard(encoder, pending, |metrics| metrics.compactions.pending)?;
        let done = counter("helenus_compactions_completed", "Compactions done");
        self.by_shard(encoder, done, |metrics| metrics.compactions.completed)?;
        let running = gauge("helenus_flushes_running", "Memtables that are being written");
        self.by_shard(encoder, running, |metrics| metrics.flushes.active)?;
        let done = counter("helenus_flushes_completed", "Memtables written");
        self.by_shard(encoder, done, |metrics| metrics.flushes.completed)
    }
}
