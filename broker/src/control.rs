//! The control thread: HTTP, signals and the prober, on a runtime of its own that no core ever
//! waits for.

use crate::boot::Event;
use crate::giving_way::giving_way;
use crate::http::{self, Pages};
use crate::reload::Hangup;
use crossbeam_channel::Sender;
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use tokio::net;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// The running control thread.
#[derive(Debug)]
pub(crate) struct Control {
    thread: JoinHandle<()>,
    stop: oneshot::Sender<Infallible>,
}

impl Control {
    /// Starts serving `pages` on `listener`, probing the cores, telling `reload` of SIGHUP, and
    /// telling `events` of the first signal to end. The second one ends the process on the spot.
    ///
    /// # Errors
    /// No thread, no runtime or no signal handler can be had.
    pub(crate) fn start(
        listener: TcpListener,
        pages: Pages,
        events: Sender<Event>,
        reload: Hangup,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let signals = {
            let _in_runtime = runtime.enter();
            Signals {
                term: signal(SignalKind::terminate())?,
                int: signal(SignalKind::interrupt())?,
                hangup: signal(SignalKind::hangup())?,
            }
        };
        listener.set_nonblocking(true)?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("felix-control".into());
        let thread = giving_way(|| {
            thread.spawn(move || {
                let tasks = LocalSet::new();
                let work = async move {
                    tokio::task::spawn_local(signals.listen(events, reload));
                    let listener = net::TcpListener::from_std(listener)
                        .expect("a bound, non-blocking listener joins the runtime it is handed to");
                    let pages = Rc::new(pages);
                    tokio::task::spawn_local(http::serve(listener, Rc::clone(&pages)));
                    tokio::task::spawn_local(async move { pages.collector.prober().run().await });
                    // The other end says nothing; it goes.
                    drop(stopped.await);
                };
                tasks.block_on(&runtime, work);
            })
        })?;
        Ok(Self { thread, stop })
    }

    /// Ends it: the last thing that a shutdown does, so that it can be watched until then.
    pub(crate) fn end(self) {
        drop(self.stop);
        drop(self.thread.join());
    }
}

struct Signals {
    term: Signal,
    int: Signal,
    /// Ends nothing: it asks servers to read their files anew.
    hangup: Signal,
}

impl Signals {
    async fn listen(mut self, events: Sender<Event>, reload: Hangup) {
        let first = self.next(&reload).await;
        // The other end lives as long as the process does anything.
        drop(events.send(Event::Signal(first)));
        let second = self.next(&reload).await;
        drop(writeln!(
            io::stderr(),
            "felix-broker: {second} while shutting down: leaving at once, connections and flushes \
             unfinished"
        ));
        std::process::exit(1);
    }

    async fn next(&mut self, reload: &Hangup) -> &'static str {
        std::future::poll_fn(|cx| {
            if self.term.poll_recv(cx).is_ready() {
                return std::task::Poll::Ready("SIGTERM");
            }
            while let std::task::Poll::Ready(Some(())) = self.hangup.poll_recv(cx) {
                reload.tell();
            }
            self.int.poll_recv(cx).map(|_| "SIGINT")
        })
        .await
    }
}
