//! SIGTERM and SIGINT as a future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) struct Terminated {}
impl Future for Terminated {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        todo!()
    }
}
