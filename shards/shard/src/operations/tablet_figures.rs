//! How large and how busy the tablets on a node are: what each node reports, and what the leader of the group gathers
//! from all.
//!
//! A node estimates sizes from its SSTables ([`engine::SizeEstimate`]), so a tablet whose rows are all in memtables
//! counts as empty, as in `system.size_estimates`. Of a tablet above half of `physical_partition_size` it also names
//! the token at which half of the bytes lie before: a split there makes two of the same size. What its cores have read
//! and written lately is the load of a tablet ([`cluster::tablets::load`]), with a median of its own.
//!
//! The answer of the verb `TabletFigures`, which has no body, is a list of [`TableFigures`] in postcard's encoding.

use crate::config::Config;
use crate::messages::admin::{TableAnswer, TableVerb};
use crate::peer::control::{decoded, encoded};
use crate::ports::{PeerLane, Unreadable};
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::tablets::load::{self, LoadReport};
use cluster::tablets::planner::{Limits, TabletFigures};
use cluster::tablets::{TABLETS_MAX, TabletMap};
use cluster::topology::{Node, NodeIndex};
use cluster::units::HUNDREDTHS;
use engine::SizeEstimate;
use model::token::RingPosition;
use model::{Failure, RingToken, TableId, TokenRange};
use runtime::sync::join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use uuid::Uuid;

/// How long a node may take to report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// A tablet is split though it is being moved above so many times the size at which it is split else.
const URGENCY: u64 = 3;
/// Into how many parts a tablet is cut to find its middle.
const PARTS: u64 = 64;

/// The tablets of a table at one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct TableFigures {
    table: [u8; 16],
    tablets: Vec<ReportedTablet>,
}

/// A tablet that a node has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ReportedTablet {
    until: Option<i64>,
    bytes: u64,
    /// The token before which half of the bytes are, if it is large.
    middle: Option<i64>,
    load: ReportedLoad,
}

/// The load of a tablet at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct ReportedLoad {
    /// Hundredths of request units a second, of late and over minutes.
    recent: u64,
    lasting: u64,
    /// The token up to which half of the load is, if it is busy.
    middle: Option<i64>,
}

/// What the nodes that answer know of all tablets: for each table, in the order of its tablets.
pub(crate) type AllFigures = BTreeMap<[u8; 16], Vec<TabletFigures>>;

/// Gathers the figures of all live nodes. A tablet is as large as the largest of its replicas says, and has the load of
/// all of them. To be called on shard 0.
pub(crate) async fn gather(shard: &Shard) -> Result<AllFigures, Failure> {
    let metadata = shard.metadata().current();
    let mut reports = vec![own(shard).await?];
    let others: Vec<Node> = {
        let topology = shard.topology();
        let others = (0..topology.nodes().len() as u16).map(NodeIndex);
        let others = others.filter(|at| *at != topology.here() && topology.live().contains(*at));
        others.map(|at| topology.node(at).clone()).collect()
    };
    let deadline = runtime::now().after(REPORT_TIMEOUT);
    let asked = others.iter().map(|node| async move {
        let answer = shard.peers().call(node, PeerLane::Bulk, Verb::TabletFigures, &[], deadline).await;
        answer.ok().and_then(|answer| decoded::<Vec<TableFigures>>(&answer))
    });
    reports.extend(join_all(asked.map(Box::pin).collect()).await.into_iter().flatten());
    let mut all = AllFigures::new();
    for (id, map) in &metadata.tablets {
        let reported = reports.iter().flatten().filter(|report| report.table == *id);
        all.insert(*id, merged(map, reported.flat_map(|report| &report.tablets), limits(shard.config())));
    }
    Ok(all)
}

/// At which sizes and loads the configuration has tablets split.
pub(crate) fn limits(config: &Config) -> Limits {
    let target = config.physical_partition_size;
    Limits {
        bytes_target: target,
        bytes_max: target.saturating_mul(URGENCY),
        units_max: f64::from(config.physical_partition_throughput),
        ..Limits::default()
    }
}

/// What replicas report of the tablets of a table. Reports of tablets that are no more are left out. The middle is that
/// of the load, if a tablet is to be split for that; else that of the bytes.
fn merged<'r>(
    map: &TabletMap,
    reported: impl Iterator<Item = &'r ReportedTablet>,
    limits: Limits,
) -> Vec<TabletFigures> {
    let mut figures = vec![TabletFigures::default(); map.tablets.len()];
    let mut loads = vec![ReportedLoad::default(); map.tablets.len()];
    for tablet in reported {
        let at = tablet.until.map_or(map.tablets.len() - 1, |until| map.at(until));
        if map.tablets[at].until != tablet.until {
            continue;
        }
        let (figures, load) = (&mut figures[at], &mut loads[at]);
        if tablet.bytes >= figures.bytes {
            (figures.bytes, figures.middle) = (tablet.bytes, tablet.middle);
        }
        if tablet.load.middle.is_some() && (load.middle.is_none() || tablet.load.recent >= load.recent) {
            *load = tablet.load;
        }
        figures.units += tablet.load.recent as f64 / HUNDREDTHS as f64;
        figures.units_lasting += tablet.load.lasting as f64 / HUNDREDTHS as f64;
    }
    for (figures, load) in figures.iter_mut().zip(loads) {
        if figures.units > limits.units_max && figures.bytes <= limits.bytes_target {
            figures.middle = load.middle;
        }
    }
    figures
}

/// Answers the verb `TabletFigures`.
pub(crate) async fn serve(shard: &Shard) -> Result<Vec<u8>, Unreadable> {
    own(shard).await.map(|figures| encoded(&figures)).map_err(|_| Unreadable)
}

/// The tablets that this node has.
async fn own(shard: &Shard) -> Result<Vec<TableFigures>, Failure> {
    let metadata = shard.metadata().current();
    let own = shard.host_id();
    let large = shard.config().physical_partition_size / 2;
    let loads = loads(shard).await?;
    let mut tables = Vec::new();
    for (id, map) in &metadata.tablets {
        let places: Vec<usize> = (0..map.tablets.len()).filter(|at| map.tablets[*at].replicas.contains(&own)).collect();
        let ranges: Vec<TokenRange> = places.iter().map(|at| map.range(*at)).collect();
        let sizes = bytes_of(shard, TableId(*id), ranges).await?;
        let mut tablets = Vec::with_capacity(places.len().min(TABLETS_MAX));
        for (at, bytes) in places.into_iter().zip(sizes) {
            let middle = match bytes > large {
                true => middle_of(shard, TableId(*id), map, at).await?,
                false => None,
            };
            let until = map.tablets[at].until;
            let load = loads.get(&(TableId(*id), until)).map(|reports| load_of(reports)).unwrap_or_default();
            tablets.push(ReportedTablet { until, bytes, middle, load });
        }
        tables.push(TableFigures { table: *id, tablets });
    }
    Ok(tables)
}

/// What all cores report of the loads of tablets, by table and last token.
async fn loads(shard: &Shard) -> Result<BTreeMap<(TableId, Option<i64>), Vec<LoadReport>>, Failure> {
    let mut loads: BTreeMap<_, Vec<LoadReport>> = BTreeMap::new();
    for answer in shard.on_every_shard(TableVerb::TabletLoads).await? {
        let TableAnswer::TabletLoads(tables) = answer else { continue };
        for (id, reports) in tables {
            reports.into_iter().for_each(|report| loads.entry((id, report.until)).or_default().push(report));
        }
    }
    Ok(loads)
}

/// The load of a tablet at this node, from what its cores report.
fn load_of(reports: &[LoadReport]) -> ReportedLoad {
    let hundredths = |rate: fn(&LoadReport) -> f64| (reports.iter().map(rate).sum::<f64>() * HUNDREDTHS as f64) as u64;
    ReportedLoad {
        recent: hundredths(|report| report.recent),
        lasting: hundredths(|report| report.lasting),
        middle: load::middle(reports),
    }
}

/// What ranges of a table take on this node's disk.
pub(crate) async fn bytes_of(shard: &Shard, table: TableId, ranges: Vec<TokenRange>) -> Result<Vec<u64>, Failure> {
    let ranges: std::sync::Arc<[TokenRange]> = ranges.into();
    let mut sums = vec![SizeEstimate::default(); ranges.len()];
    for answer in shard.on_every_shard(TableVerb::SizeEstimates { table, ranges: ranges.clone() }).await? {
        let TableAnswer::SizeEstimates(estimates) = answer else { continue };
        sums.iter_mut().zip(&estimates).for_each(|(sum, estimate)| sum.add(estimate));
    }
    Ok(sums.iter().map(SizeEstimate::disk_bytes).collect())
}

/// The token before which about half of the bytes of a tablet are.
async fn middle_of(shard: &Shard, table: TableId, map: &TabletMap, at: usize) -> Result<Option<i64>, Failure> {
    let first = at.checked_sub(1).and_then(|before| map.tablets[before].until).unwrap_or(i64::MIN);
    let ends = ends(first, map.tablets[at].until.unwrap_or(i64::MAX));
    let position = |token: i64| Some(RingPosition { token: RingToken::Murmur3(token), is_after: true });
    let starts = std::iter::once(first).chain(ends.iter().copied());
    let parts = starts.zip(&ends).map(|(start, end)| TokenRange { start: position(start), end: position(*end) });
    let sizes = bytes_of(shard, table, parts.collect()).await?;
    Ok(half(&ends, &sizes))
}

/// The ends of [`PARTS`] parts of the tokens in `(first, last]`, or of fewer if there are not so many tokens.
fn ends(first: i64, last: i64) -> Vec<i64> {
    let width = first.abs_diff(last);
    let end = |part: u64| (i128::from(first) + (i128::from(width) * i128::from(part) / i128::from(PARTS))) as i64;
    let mut ends: Vec<i64> = (1..=PARTS).map(end).filter(|end| *end > first).collect();
    ends.dedup();
    ends
}

/// The end at which the sizes up to it come nearest to half of all, but for the last end.
fn half(ends: &[i64], sizes: &[u64]) -> Option<i64> {
    let all: u64 = sizes.iter().sum();
    let mut sum = 0;
    let distances = ends.iter().zip(sizes).map(|(end, size)| {
        sum += size;
        ((2 * sum).abs_diff(all), *end)
    });
    let distances: Vec<(u64, i64)> = distances.collect();
    let (_, candidates) = distances.split_last()?;
    candidates.iter().min().map(|(_, end)| *end)
}

/// A tablet as operators see it.
#[derive(Clone, PartialEq, Debug)]
pub struct ShownTablet {
    /// The token before its first.
    pub after: i64,
    /// Its last token.
    pub until: i64,
    /// The addresses of its replicas.
    pub replicas: Vec<IpAddr>,
    /// The addresses of its replicas to be, while it moves.
    pub goal: Option<Vec<IpAddr>>,
    /// What it takes on the disk of the largest of its replicas.
    pub bytes: u64,
    /// Request units a second that its replicas have served lately, all together.
    pub units: f64,
}

impl Shard {
    /// The tablets of all tables that have some, in the order of their tokens.
    ///
    /// # Errors
    /// The node stops.
    pub async fn shown_tablets(&self) -> Result<BTreeMap<TableId, Vec<ShownTablet>>, Failure> {
        let metadata = self.metadata().current();
        let figures = gather(self).await?;
        let addresses = |nodes: &[Uuid]| {
            let members = nodes.iter().filter_map(|node| metadata.members.get(node));
            members.map(|member| member.address.ip()).collect()
        };
        let mut all = BTreeMap::new();
        for (id, map) in &metadata.tablets {
            let known = |at: usize| figures.get(id).and_then(|known| known.get(at)).copied().unwrap_or_default();
            let mut after = i64::MIN;
            let mut shown = Vec::with_capacity(map.tablets.len());
            for (at, tablet) in map.tablets.iter().enumerate() {
                let until = tablet.until.unwrap_or(i64::MAX);
                let (replicas, goal) = (addresses(&tablet.replicas), tablet.goal.as_deref().map(addresses));
                let TabletFigures { bytes, units, .. } = known(at);
                shown.push(ShownTablet { after, until, replicas, goal, bytes, units });
                after = until;
            }
            all.insert(TableId(*id), shown);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_reports_stay() {
        let load = ReportedLoad { recent: 3, lasting: 4, middle: None };
        let tablet = ReportedTablet { until: Some(-1), bytes: 300, middle: Some(-5), load };
        let report = vec![TableFigures { table: [7; 16], tablets: vec![tablet] }];
        let expected = [&[1][..], &[7; 16], &[1, 1, 1, 0xac, 2, 1, 9, 3, 4, 0]].concat();
        assert_eq!(encoded(&report), expected);
        assert_eq!(decoded::<Vec<TableFigures>>(&expected), Some(report));
    }

    #[test]
    fn a_tablet_is_as_large_as_the_largest_of_its_replicas() {
        let map = TabletMap::even(2, |_| vec![Uuid::nil()]);
        let of = |until, bytes, middle| ReportedTablet { until, bytes, middle, load: ReportedLoad::default() };
        let reports = [of(Some(-1), 5, None), of(None, 4, Some(9)), of(None, 7, Some(8)), of(Some(3), 99, None)];
        let known = |bytes, middle| TabletFigures { bytes, middle, ..TabletFigures::default() };
        assert_eq!(merged(&map, reports.iter(), Limits::default()), [known(5, None), known(7, Some(8))]);
    }

    #[test]
    fn a_tablet_has_the_load_of_all_replicas_and_is_cut_at_its_median() {
        let map = TabletMap::even(1, |_| vec![Uuid::nil()]);
        let of = |recent, middle| {
            let load = ReportedLoad { recent, lasting: recent / 2, middle };
            ReportedTablet { until: None, bytes: 100, middle: Some(1), load }
        };
        let figures = |reports: &[ReportedTablet], bytes_target| {
            merged(&map, reports.iter(), Limits { bytes_target, units_max: 70.0, ..Limits::default() }).remove(0)
        };
        let reports = [of(3_000, Some(5)), of(4_000, Some(6)), of(100, Some(7))];
        let all = figures(&reports, 1_000);
        assert_eq!((all.units, all.units_lasting, all.middle), (71.0, 35.5, Some(6)));
        assert_eq!(figures(&reports[..2], 1_000).middle, Some(1), "it is not busy");
        assert_eq!(figures(&[of(8_000, None)], 1_000).middle, None, "nobody knows the median of its load");
        assert_eq!(figures(&reports, 99).middle, Some(1), "it is too large");
    }

    #[test]
    fn the_middle_is_where_half_of_the_bytes_are() {
        let ring = ends(i64::MIN, i64::MAX);
        assert_eq!((ring.len() as u64, ring[31], ring[63]), (PARTS, -1, i64::MAX));
        assert_eq!(ends(4, 7), [5, 6, 7]);
        assert_eq!(half(&[5, 6, 7], &[1, 1, 1]), Some(5));
        assert_eq!(half(&[5, 6, 7], &[0, 9, 1]), Some(6));
        assert_eq!(half(&[5, 6, 7], &[0, 0, 9]), Some(5), "the last end is that of the tablet");
        assert_eq!(half(&[7], &[9]), None);
    }
}
