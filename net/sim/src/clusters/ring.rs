//! The operator of a cluster: lets nodes leave, removes those that are lost, and judges what becomes of it (P12): an
//! operation on the ring that was begun ends or is undone, whoever crashes meanwhile.

use super::members::{Cluster, Member, START_MAX};
use super::nodetool::{command, run};
use runtime::NodeId;
use server::Exit;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// The node of the operator's commands that run while other things happen.
const OPERATOR: NodeId = NodeId(2);
/// Pause before a command is repeated.
const PAUSE: Duration = Duration::from_millis(500);

/// The nodes in what `nodetool status` prints: by address the two letters of the state, and the host id.
fn rows(text: &str) -> BTreeMap<IpAddr, (String, String)> {
    let of_node = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [letters, address, .., host_id, _rack] = cells.as_slice() else { return None };
        Some((address.parse().ok()?, ((*letters).to_owned(), (*host_id).to_owned())))
    };
    text.lines().filter_map(of_node).collect()
}

/// What a node says of the ring; `None` if it says nothing.
pub(super) async fn ring_of(address: IpAddr) -> Option<BTreeMap<IpAddr, (String, String)>> {
    Some(rows(&run(address, command("status", &[], &[])).await?))
}

/// Lets a node leave, however often it has to be asked.
async fn leave(address: IpAddr, exit: Rc<Cell<Option<Exit>>>) {
    // A node that has left refuses to start again.
    while exit.get().is_none() && run(address, command("decommission", &["-f"], &[])).await.is_none() {
        runtime::sleep(PAUSE).await;
    }
}

/// Removes the node that was at `lost` from the ring, through another one.
async fn remove(through: IpAddr, lost: IpAddr) {
    loop {
        if let Some(ring) = ring_of(through).await {
            let Some((_, host_id)) = ring.get(&lost) else { return };
            run(through, command("removenode", &[], &[host_id])).await;
        }
        runtime::sleep(PAUSE).await;
    }
}

/// Waits until each of `nodes` says that they are the ring, and all of them up and normal.
async fn is_whole(nodes: Vec<IpAddr>) {
    loop {
        let rings = runtime::sync::join_all(nodes.iter().map(|node| ring_of(*node)).collect()).await;
        let is_right = |ring: &BTreeMap<IpAddr, (String, String)>| {
            ring.len() == nodes.len()
                && nodes.iter().all(|node| ring.get(node).is_some_and(|(letters, _)| letters == "UN"))
        };
        if rings.iter().all(|ring| ring.as_ref().is_some_and(is_right)) {
            return;
        }
        runtime::sleep(PAUSE).await;
    }
}

impl Cluster {
    /// Asks a node to leave while other things happen.
    pub(super) fn begin_leaving(&mut self, at: usize) {
        let address = self.members[at].address();
        self.sim.start_node(OPERATOR, 1, move |_| async move {
            run(address, command("decommission", &["-f"], &[])).await;
        });
    }

    /// Ends the operator's command that is under way.
    pub(super) fn stop_asking(&mut self) {
        self.sim.kill(OPERATOR);
    }

    /// Lets a node leave that was asked to, whatever became of that, and switches it off.
    pub(super) fn finish_leaving(&mut self, id: NodeId) -> Result<(), String> {
        self.stop_asking();
        let Some(at) = self.members.iter().position(|member| member.id == id) else { return Ok(()) };
        let Member { exit, .. } = &self.members[at];
        let (address, exit) = (self.members[at].address(), exit.clone());
        self.outside(START_MAX, move || leave(address, exit.clone()))
            .map_err(|error| format!("node {} does not leave: {error}", id.0))?;
        self.sim.crash(id);
        self.members.remove(at);
        self.report.leaves += 1;
        Ok(())
    }

    /// Removes the nodes whose disks were wiped from the ring, and starts them as new ones.
    pub(super) fn replace_wiped(&mut self) -> Result<(), String> {
        for at in 0..self.members.len() {
            if self.members[at].is_wiped {
                let (through, lost) = (self.members[0].address(), self.members[at].address());
                self.outside(START_MAX, move || remove(through, lost))
                    .map_err(|error| format!("{lost} cannot be removed from the ring: {error}"))?;
                self.members[at].is_wiped = false;
                self.report.removals += 1;
                self.start(at);
            }
        }
        Ok(())
    }

    /// Checks that the ring is whole soon: every node says that the nodes of the run are the members, up and normal.
    pub(super) fn check_ring(&mut self, limit: Duration) -> Result<(), String> {
        let nodes: Vec<IpAddr> = self.servers().iter().map(SocketAddr::ip).collect();
        let asked = nodes.clone();
        if let Err(stop) = self.outside(limit, move || is_whole(asked.clone())) {
            let shown = self.outside(START_MAX, move || {
                let nodes = nodes.clone();
                async move { runtime::sync::join_all(nodes.into_iter().map(ring_of).collect()).await }
            });
            return Err(format!("the ring is not whole ({stop}): {shown:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_status_are_found() {
        let text = "Datacenter: datacenter1\n=======================\nStatus=Up/Down\n\
                    |/ State=Normal/Leaving/Joining/Moving\n\
                    --  Address     Load      Tokens  Owns   Host ID                               Rack \n\
                    UN  127.1.0.10  1.5 KiB   16      50.0%  00000000-0000-0000-0000-000000000001  rack1\n\
                    DL  127.1.0.11  ?         16      50.0%  00000000-0000-0000-0000-000000000002  rack1\n\nNote: x\n";
        let row = |letters: &str, id: u8| (letters.to_owned(), format!("00000000-0000-0000-0000-00000000000{id}"));
        let expected = [([127, 1, 0, 10], row("UN", 1)), ([127, 1, 0, 11], row("DL", 2))];
        assert_eq!(rows(text), expected.map(|(address, row)| (IpAddr::from(address), row)).into());
    }
}
