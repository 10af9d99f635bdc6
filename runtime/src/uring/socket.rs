//! Multishot accept and receive, provided buffers, gathered sends.

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;

pub(crate) struct Listener {}
impl Listener {
    pub(crate) async fn bind(_address: SocketAddr) -> io::Result<Listener> {
        todo!()
    }
    pub(crate) fn local_address(&self) -> SocketAddr {
        todo!()
    }
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        todo!()
    }
}
pub(crate) struct Accepted {}
impl Accepted {
    pub(crate) fn peer(&self) -> SocketAddr {
        todo!()
    }
    pub(crate) fn attach(self) -> io::Result<Stream> {
        todo!()
    }
}
pub(crate) struct Stream {}
impl Stream {
    pub(crate) async fn connect(_address: SocketAddr, _source: Option<SocketAddr>) -> io::Result<Stream> {
        todo!()
    }
    pub(crate) fn peer(&self) -> SocketAddr {
        todo!()
    }
    pub(crate) async fn recv(&self) -> io::Result<Option<RecvBuf>> {
        todo!()
    }
    pub(crate) fn write<R>(&self, _f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        todo!()
    }
    pub(crate) fn queued(&self) -> usize {
        todo!()
    }
    pub(crate) async fn drained_to(&self, _bytes: usize) -> io::Result<()> {
        todo!()
    }
    pub(crate) fn pause(&self) {
        todo!()
    }
    pub(crate) fn resume(&self) {
        todo!()
    }
    pub(crate) fn shutdown(&self) {
        todo!()
    }
}

pub(crate) struct RecvBuf {}
impl Deref for RecvBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        todo!()
    }
}
