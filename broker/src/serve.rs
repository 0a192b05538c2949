//! Accepting Kafka connections on one core, and serving them until they end or must.

use crate::core_task::Message;
use crate::door::{Door, Full};
use crate::handshakes::{Handshakes, Unshaken};
use crate::mailbox::Outside;
use crate::sweep::{Cause, Sweep, Timeouts};
use bytes::BytesMut;
use felix_core::{ByteStream, Monotonic, Shards};
use felix_kafka::{Context, Peer, Pulse, Refused, Signal};
use felix_net::{TcpListener, TcpStream};
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a closed connection is kept for its peer to close as well. Closing it earlier, with
/// something received and not read, would send a reset, and a reset takes away from the peer what
/// it has not read yet.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// Bytes read, and thrown away, at a time meanwhile.
const LINGER_BYTES: usize = 16 << 10;

/// Which Kafka node a connection came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    /// The shared port.
    Shared,
    /// The core's own port.
    Own,
}

/// The doors as one core sees them. Lives on that core.
#[derive(Debug)]
pub(crate) struct Doors {
    own: RefCell<Door>,
    shared: SharedDoor,
}

/// The door of the shared port.
#[derive(Debug)]
pub(crate) enum SharedDoor {
    /// Kept here.
    Here(RefCell<Door>),
    /// Kept by that core.
    There(Outside<Message>),
}

impl Doors {
    /// This core's door, and the shared one.
    #[must_use]
    pub(crate) fn new(own: Door, shared: SharedDoor) -> Self {
        Self {
            own: RefCell::new(own),
            shared,
        }
    }

    /// Lets a connection in, asking the core that keeps the door.
    async fn enter(&self, node: Node, ip: IpAddr) -> Result<(), Full> {
        match (node, &self.shared) {
            (Node::Own, _) => self.own.borrow_mut().enter(ip),
            (Node::Shared, SharedDoor::Here(door)) => door.borrow_mut().enter(ip),
            (Node::Shared, SharedDoor::There(keeper)) => {
                let (reply, answer) = oneshot::channel();
                keeper.send(Message::Enter { ip, reply });
                // No answer: that core has ended, and this one is about to.
                answer.await.unwrap_or(Err(Full::Total))
            }
        }
    }

    fn leave(&self, node: Node, ip: IpAddr) {
        match (node, &self.shared) {
            (Node::Own, _) => self.own.borrow_mut().leave(ip),
            (Node::Shared, SharedDoor::Here(door)) => door.borrow_mut().leave(ip),
            (Node::Shared, SharedDoor::There(keeper)) => {
                keeper.send(Message::Leave { ip });
            }
        }
    }

    /// Another core's connection wants in.
    pub(crate) fn enter_for_peer(&self, ip: IpAddr) -> Result<(), Full> {
        self.kept_here().borrow_mut().enter(ip)
    }

    /// Another core's connection has closed.
    pub(crate) fn leave_for_peer(&self, ip: IpAddr) {
        self.kept_here().borrow_mut().leave(ip);
    }

    fn kept_here(&self) -> &RefCell<Door> {
        match &self.shared {
            SharedDoor::Here(door) => door,
            SharedDoor::There(_) => unreachable!("cores ask the one that keeps the door"),
        }
    }
}

/// A place behind a door, given back when dropped.
struct Pass {
    doors: Rc<Doors>,
    node: Node,
    ip: IpAddr,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.doors.leave(self.node, self.ip);
    }
}

/// The Kafka connections of one core.
pub(crate) struct Connections<S> {
    context: Rc<Context<S>>,
    doors: Rc<Doors>,
    /// How connections are encrypted; `None`: they are not.
    handshakes: Option<Rc<Handshakes>>,
    sweep: Sweep,
    /// Whether the task of the sweep runs.
    sweeping: Cell<bool>,
    /// Raised when no more are to be accepted.
    closed: Signal,
    /// Raised when those that still run are to end at once.
    cut: Signal,
    running: Cell<usize>,
    idle: RefCell<Signal>,
}

impl<S: Shards> Connections<S> {
    /// None yet. A connection that takes longer than `timeouts` say is closed.
    pub(crate) fn new(
        context: Rc<Context<S>>,
        doors: Rc<Doors>,
        handshakes: Option<Rc<Handshakes>>,
        timeouts: Timeouts,
    ) -> Self {
        Self {
            sweep: Sweep::new(timeouts, context.memory.clone()),
            sweeping: Cell::new(false),
            context,
            doors,
            handshakes,
            closed: Signal::default(),
            cut: Signal::default(),
            running: Cell::new(0),
            idle: RefCell::default(),
        }
    }

    /// Starts accepting on a listener.
    pub(crate) fn accept_on(self: &Rc<Self>, listener: TcpListener, node: Node) {
        let this = Rc::clone(self);
        self.spawn(async move { this.accept(listener, node).await });
    }

    async fn accept(self: Rc<Self>, mut listener: TcpListener, node: Node) {
        loop {
            match self.next(&mut listener).await {
                Some(Ok(stream)) => self.admit(stream, node).await,
                Some(Err(error)) => {
                    let address = listener.local_addr();
                    tracing::error!(%address, %error, "a Kafka listener broke; it accepts no more");
                    return;
                }
                None => return,
            }
        }
    }

    /// The next connection; `None`: no more are to be accepted.
    async fn next(&self, listener: &mut TcpListener) -> Option<io::Result<TcpStream>> {
        match select(pin!(listener.accept()), self.closed.raised()).await {
            Either::Left((accepted, _)) => Some(accepted),
            Either::Right(_) => None,
        }
    }

    /// Asked before the next is accepted, so that a core has one such question under way.
    async fn admit(self: &Rc<Self>, stream: TcpStream, node: Node) {
        let peer = stream.peer_addr();
        let accepted = self.context.clock.monotonic();
        match self.doors.enter(node, peer.ip()).await {
            Ok(()) => {
                let pass = Pass {
                    doors: Rc::clone(&self.doors),
                    node,
                    ip: peer.ip(),
                };
                let this = Rc::clone(self);
                self.spawn(async move {
                    // Dropped when the connection has closed, lingering included.
                    let _pass = pass;
                    this.secure(stream, peer, accepted).await;
                });
            }
            Err(full) => {
                let reason = match full {
                    Full::PerIp => Refused::PerIpLimit,
                    Full::Total => Refused::ConnectionLimit,
                };
                self.context.metrics.refuse(reason);
                self.context.log.closed_on_arrival(&peer, reason);
            }
        }
    }

    /// Serves a connection, once it is encrypted if it is to be.
    async fn secure(self: &Rc<Self>, stream: TcpStream, peer: SocketAddr, accepted: Monotonic) {
        let Some(handshakes) = &self.handshakes else {
            return Box::pin(self.serve(stream, peer.into(), accepted)).await;
        };
        let shaken = Box::pin(handshakes.shake_hands(stream, peer, accepted));
        // Nothing was asked yet, so at the end nothing is owed either.
        match select(shaken, self.closed.raised()).await {
            Either::Left((Ok((stream, peer)), _)) => {
                Box::pin(self.serve(stream, peer, accepted)).await;
            }
            Either::Left((Err(Unshaken::Refused(mut stream)), _)) => {
                stream.close_write();
                Box::pin(self.linger(stream)).await;
            }
            Either::Left((Err(Unshaken::Late), _)) => {
                self.context.metrics.refuse(Refused::AuthTimeout);
            }
            Either::Right(_) => {}
        }
    }

    async fn serve<B: ByteStream>(self: &Rc<Self>, stream: B, peer: Peer, accepted: Monotonic) {
        let pulse = Rc::new(Pulse::accepted_at(accepted));
        let number = self.sweep.add(&pulse, self.context.clock.monotonic());
        self.start_sweeping();
        let served = felix_kafka::serve_watched(Rc::clone(&self.context), stream, peer, pulse);
        let served = Box::pin(served);
        // Either way the connection is dropped here, and with it all it waits for.
        let closed = match select(served, self.cut.raised()).await {
            Either::Left((closed, _)) => closed,
            Either::Right(_) => None,
        };
        self.sweep.remove(number);
        if let Some(stream) = closed {
            Box::pin(self.linger(stream)).await;
        }
    }

    /// Reads to the end of a peer that has been told that we send no more, for a while: during a
    /// shutdown, too, since its acknowledgements are still on their way to it.
    async fn linger(&self, mut stream: impl ByteStream) {
        let mut dropped = BytesMut::new();
        let read = async {
            // A broken connection has ended, too.
            while matches!(
                poll_fn(|cx| stream.poll_recv(cx, &mut dropped, LINGER_BYTES)).await,
                Ok(1..)
            ) {
                dropped.clear();
            }
        };
        let patience = pin!(glommio::timer::sleep(LINGER_MAX));
        let given_up = select(patience, self.cut.raised());
        drop(select(pin!(read), given_up).await);
    }

    /// Runs the sweep for as long as there are connections.
    fn start_sweeping(self: &Rc<Self>) {
        if self.sweeping.replace(true) {
            return;
        }
        let this = Rc::clone(self);
        self.spawn(async move {
            while !this.sweep.is_empty() {
                let pause = glommio::timer::sleep(this.sweep.pause());
                if let Either::Right(_) = select(pin!(pause), this.closed.raised()).await {
                    break;
                }
                let now = this.context.clock.monotonic();
                this.sweep.look(now, |cause| this.swept(cause));
            }
            this.sweeping.set(false);
        });
    }

    fn swept(&self, cause: Cause) {
        let metrics = &self.context.metrics;
        match cause {
            Cause::Idle => metrics.idle_closed.increment(),
            Cause::Stalled => metrics.stalled_closed.increment(),
            Cause::Unauthenticated => metrics.refuse(Refused::AuthTimeout),
        }
    }

    fn spawn(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) {
        self.running.set(self.running.get() + 1);
        let this = Rc::clone(self);
        glommio::spawn_local(async move {
            work.await;
            this.running.set(this.running.get() - 1);
            if this.running.get() == 0 {
                this.idle.replace(Signal::default()).raise();
            }
        })
        .detach();
    }

    /// Accepts no more and asks those that run to finish.
    pub(crate) fn drain(&self) {
        self.closed.raise();
        self.context.drain.raise();
    }

    /// Ends those that still run; how many.
    pub(crate) fn cut(&self) -> usize {
        self.cut.raise();
        self.running.get()
    }

    /// Resolves when none runs and none is accepted. An executor must not end before.
    pub(crate) async fn ended(&self) {
        while self.running.get() > 0 {
            let idle = self.idle.borrow().raised();
            idle.await;
        }
    }
}

impl<S> std::fmt::Debug for Connections<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections")
            .field("running", &self.running.get())
            .finish_non_exhaustive()
    }
}
