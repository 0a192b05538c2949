//! The system calls that no safe interface offers, and nothing else: the epoll set, and receiving
//! into memory that was never written.

use bytes::{BufMut, BytesMut};
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An epoll set.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

/// What epoll says of one member of the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    /// The number given when the member was added.
    pub(crate) token: u64,
    /// There may be something to read, or an end or an error to learn of.
    pub(crate) readable: bool,
    /// There may be room to write, or an error to learn of.
    pub(crate) writable: bool,
    /// The peer has sent its last, or the connection is broken.
    pub(crate) hung_up: bool,
}

/// Room for the events of one call.
pub(crate) struct Events {
    raw: Vec<libc::epoll_event>,
    filled: usize,
}

impl Epoll {
    #[expect(
        unsafe_code,
        reason = "epoll has no safe interface in our dependencies"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a member, edge-triggered and for both directions. If it is ready already, that is an
    /// edge too.
    pub(crate) fn add(&self, member: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: flags.cast_unsigned(),
            u64: token,
        };
        self.control(libc::EPOLL_CTL_ADD, member, &mut event)
    }

    pub(crate) fn delete(&self, member: BorrowedFd<'_>) -> io::Result<()> {
        // Linux ignores the event of a deletion since 2.6.9.
        self.control(
            libc::EPOLL_CTL_DEL,
            member,
            &mut libc::epoll_event { events: 0, u64: 0 },
        )
    }

    #[expect(
        unsafe_code,
        reason = "epoll has no safe interface in our dependencies"
    )]
    fn control(
        &self,
        operation: libc::c_int,
        member: BorrowedFd<'_>,
        event: &mut libc::epoll_event,
    ) -> io::Result<()> {
        // SAFETY: both descriptors are open while they are borrowed, and `event` is a valid
        // pointer for the time of the call, which is all that the kernel uses it for.
        let result =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, member.as_raw_fd(), event) };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Fills `events` with what is ready now and returns how many there are, none if it fails.
    /// Never waits.
    #[expect(
        unsafe_code,
        reason = "epoll has no safe interface in our dependencies"
    )]
    pub(crate) fn poll(&self, events: &mut Events) -> io::Result<usize> {
        let room = i32::try_from(events.raw.len()).expect("a round has far fewer than 2^31 events");
        events.filled = 0;
        // SAFETY: `raw` is valid for writes of `room` events, all of them initialised.
        let count =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.raw.as_mut_ptr(), room, 0) };
        events.filled = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        Ok(events.filled)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Events {
    pub(crate) fn with_room(count: usize) -> Self {
        Self {
            raw: vec![libc::epoll_event { events: 0, u64: 0 }; count],
            filled: 0,
        }
    }

    /// The events of the last call.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.raw.iter().take(self.filled).map(|raw| {
            let flags = raw.events.cast_signed();
            let has = |mask: libc::c_int| flags & mask != 0;
            let broken = has(libc::EPOLLERR | libc::EPOLLHUP);
            Event {
                token: raw.u64,
                readable: broken || has(libc::EPOLLIN | libc::EPOLLRDHUP),
                writable: broken || has(libc::EPOLLOUT),
                hung_up: broken || has(libc::EPOLLRDHUP),
            }
        })
    }
}

/// Receives up to `bytes_max` into the spare capacity of `into`, without zeroing it first, and
/// lengthens it by what came. Never waits.
#[expect(
    unsafe_code,
    reason = "only the kernel knows how much of the spare capacity it wrote"
)]
pub(crate) fn recv(socket: &Socket, into: &mut BytesMut, bytes_max: usize) -> io::Result<usize> {
    let spare = into.spare_capacity_mut();
    let room = spare.len().min(bytes_max);
    let count = socket.recv_with_flags(&mut spare[..room], libc::MSG_DONTWAIT)?;
    assert!(
        count <= room,
        "the kernel writes no more than there is room for"
    );
    // SAFETY: the kernel has initialised the first `count` bytes of the spare capacity, and
    // `count` lies within it.
    unsafe { into.advance_mut(count) };
    Ok(count)
}
