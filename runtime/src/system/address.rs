//! Creating sockets, and addresses in the system's form.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Connections that the system queues until they are accepted; it caps this at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// How long a closed connection may take to send its queued bytes, in milliseconds.
const LINGER_MILLIS: i32 = 10_000;
/// The address of peers and sockets that have none.
pub(crate) const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// Creates a TCP socket that listens on `address`. The connections that it accepts have `TCP_NODELAY` and
/// `SO_KEEPALIVE`.
pub(crate) fn listening(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket_for(address)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    // Accepted connections inherit both.
    set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    bind(&socket, address)?;
    listen(&socket)?;
    Ok(socket)
}

/// Creates a TCP socket for connecting to `address`, bound to `source` if given.
pub(crate) fn connecting(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let socket = socket_for(address)?;
    set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    if let Some(source) = source {
        if source.port() == 0 {
            // The port is chosen once the peer is known, so that more connections fit than there are ports.
            set_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        } else {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        }
        bind(&socket, source)?;
    }
    Ok(socket)
}

/// Shuts both directions of a socket down, which ends what waits on it. Does nothing if the socket is not connected.
#[expect(unsafe_code, reason = "shutdown has no safe wrapper here")]
pub(crate) fn shut_down(socket: RawFd) {
    // SAFETY: the call takes numbers only.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

/// Makes the system reset a connection that cannot send its queued bytes within [`LINGER_MILLIS`].
pub(crate) fn limit_linger(socket: &impl AsRawFd) {
    if let Err(e) = set_option(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, LINGER_MILLIS) {
        tracing::debug!("no limit on closing a connection: {e}");
    }
}

/// A socket address in the system's form.
pub(crate) struct SocketAddress {
    storage: libc::sockaddr_storage,
    pub(crate) len: libc::socklen_t,
}

#[expect(unsafe_code, reason = "addresses of several shapes share one storage")]
impl SocketAddress {
    pub(crate) fn new(address: SocketAddr) -> SocketAddress {
        // SAFETY: a storage is plain bytes, large enough and aligned for either shape.
        unsafe {
            let mut storage: libc::sockaddr_storage = MaybeUninit::zeroed().assume_init();
            let pointer = &raw mut storage;
            let len = match address {
                SocketAddr::V4(v4) => {
                    pointer.cast::<libc::sockaddr_in>().write(libc::sockaddr_in {
                        sin_family: libc::AF_INET as libc::sa_family_t,
                        sin_port: v4.port().to_be(),
                        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                        sin_zero: [0; 8],
                    });
                    size_of::<libc::sockaddr_in>()
                }
                SocketAddr::V6(v6) => {
                    pointer.cast::<libc::sockaddr_in6>().write(libc::sockaddr_in6 {
                        sin6_family: libc::AF_INET6 as libc::sa_family_t,
                        sin6_port: v6.port().to_be(),
                        sin6_flowinfo: v6.flowinfo(),
                        sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                        sin6_scope_id: v6.scope_id(),
                    });
                    size_of::<libc::sockaddr_in6>()
                }
            };
            SocketAddress { storage, len: len as libc::socklen_t }
        }
    }

    pub(crate) fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    fn decode(&self) -> io::Result<SocketAddr> {
        let pointer = &raw const self.storage;
        match self.storage.ss_family as i32 {
            libc::AF_INET if self.len as usize >= size_of::<libc::sockaddr_in>() => {
                // SAFETY: the family says which shape the storage has, and the length covers it.
                let v4 = unsafe { pointer.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 if self.len as usize >= size_of::<libc::sockaddr_in6>() => {
                // SAFETY: as above.
                let v6 = unsafe { pointer.cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not an internet address")),
        }
    }
}

#[expect(unsafe_code, reason = "socket has no safe wrapper here")]
fn socket_for(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: the call takes numbers only; a descriptor it returns is new and ours.
    unsafe {
        let raw = libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if raw < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(raw)) }
    }
}

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "setsockopt has no safe wrapper here")]
fn set_option(socket: &impl AsRawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let pointer = (&raw const value).cast();
    // SAFETY: the pointer is to an int, as the length says.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, size_of::<i32>() as libc::socklen_t) })
}

#[expect(unsafe_code, reason = "bind has no safe wrapper here")]
fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let address = SocketAddress::new(address);
    // SAFETY: the pointer and length are those of an address of its family.
    checked(unsafe { libc::bind(socket.as_raw_fd(), address.pointer(), address.len) })
}

#[expect(unsafe_code, reason = "listen has no safe wrapper here")]
fn listen(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    checked(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })
}

pub(crate) type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

/// The address of `socket` that `call`, getsockname or getpeername, returns.
#[expect(unsafe_code, reason = "getsockname and getpeername have no safe wrapper here")]
pub(crate) fn address_of(socket: &OwnedFd, call: NameCall) -> io::Result<SocketAddr> {
    // SAFETY: a storage is plain bytes; the call writes at most `len` of them.
    let mut address: SocketAddress = SocketAddress {
        storage: unsafe { MaybeUninit::zeroed().assume_init() },
        len: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
    };
    // SAFETY: as above.
    checked(unsafe { call(socket.as_raw_fd(), (&raw mut address.storage).cast(), &mut address.len) })?;
    address.decode()
}
