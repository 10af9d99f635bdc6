//! The connections of a client, one after the other, until the run ends.

use super::requests::StepError;
use super::world::SharedWorld;
use runtime::rng;
use server::client::Client;
use std::net::SocketAddr;
use std::time::Duration;

/// How often a client looks whether it may go on: on a single node, and in a cluster, which pauses for longer.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_OF_CLUSTER: Duration = Duration::from_millis(20);

/// Takes one step after another until the world stops or a rule is broken. Every connection goes to a random one of
/// `servers` and begins with `opened`, which says whether the connection can be used; it ends with a step that calls it
/// disconnected. `rest` is how long the client does nothing after a step.
pub(crate) async fn run(
    servers: &[SocketAddr],
    world: &SharedWorld,
    opened: impl AsyncFn(&mut Client) -> bool,
    mut step: impl AsyncFnMut(&mut Client) -> Result<(), StepError>,
    rest: impl Fn() -> Duration,
) {
    let look = if world.borrow().replicas.factor > 1 { LOOK_OF_CLUSTER } else { LOOK };
    while !world.borrow().stop {
        let address = servers[rng::below(servers.len() as u64) as usize];
        let version = if rng::below(2) == 0 { 4 } else { 5 };
        let connected = runtime::timeout(Duration::from_secs(5), Client::connect(address, None, version)).await;
        let Some(Ok(mut client)) = connected else {
            runtime::sleep(Duration::from_millis(20 + rng::below(50))).await;
            continue;
        };
        if !opened(&mut client).await {
            continue;
        }
        while !world.borrow().stop {
            if world.borrow().paused {
                runtime::sleep(look).await;
                continue;
            }
            world.borrow_mut().busy += 1;
            let result = step(&mut client).await;
            world.borrow_mut().busy -= 1;
            match result {
                Ok(()) => {}
                Err(StepError::Violation(violation)) => {
                    world.borrow_mut().violation.get_or_insert(violation.0);
                    return;
                }
                Err(StepError::Disconnected) => break,
            }
            let rest = rest();
            if !rest.is_zero() {
                runtime::sleep(rest).await;
            }
        }
    }
    world.borrow_mut().left += 1;
}

/// As [`run`], on connections of `steps` steps on average, with rests of less than `rest_micros_max`.
pub(crate) async fn run_briefly(
    servers: &[SocketAddr],
    world: &SharedWorld,
    (steps, rest_micros_max): (u64, u64),
    mut step: impl AsyncFnMut(&mut Client) -> Result<(), StepError>,
) {
    let rest = || Duration::from_micros(rng::below(rest_micros_max));
    let step = async |client: &mut Client| match rng::below(steps) {
        0 => Err(StepError::Disconnected),
        _ => step(client).await,
    };
    run(servers, world, async |_| true, step, rest).await;
}
