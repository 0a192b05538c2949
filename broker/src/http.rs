//! `/live`, `/ready` and `/metrics` over HTTP/1.1, on the control thread.
//!
//! hyper parses and writes: HTTP is not what Felix is for, and foreign bytes are best parsed by
//! code that has met many. A connection serves one request, has a few seconds for it, and there
//! are few at once, so that slow or many clients cost nobody anything.

use crate::collect::Collector;
use crate::exposition;
use crate::readiness::{Phase, Readiness};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{self, JoinHandle};

/// Connections at once. One more ends the oldest.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);

/// How long accepting rests after it failed, as it does when descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the pages are made from.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Where the broker stands.
    pub(crate) phase: watch::Receiver<Phase>,
    /// Where the numbers are.
    pub(crate) collector: Collector,
}

/// Serves for ever; to be dropped at the end. Runs in a `LocalSet`.
pub(crate) async fn serve(listener: TcpListener, pages: Rc<Pages>) {
    let mut under_way = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                under_way.retain(|connection: &JoinHandle<()>| !connection.is_finished());
                if under_way.len() >= CONNECTIONS_MAX {
                    // The oldest has had the most time. Were the newcomer to wait instead, whoever
                    // holds the places would decide whether we look alive.
                    let oldest = under_way.pop_front().expect("there is at least one");
                    oldest.abort();
                }
                under_way.push_back(task::spawn_local(connection(stream, Rc::clone(&pages))));
            }
            Err(error) => {
                tracing::debug!(%error, "an HTTP connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, pages: Rc<Pages>) {
    let service = service_fn(move |request| {
        let pages = Rc::clone(&pages);
        async move { Ok::<_, Infallible>(answer(&request, &pages).await) }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP connection broke"),
        Err(_) => tracing::debug!("an HTTP connection took too long"),
    }
}

async fn answer(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD are served\n",
        );
        answer
            .headers_mut()
            .insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match request.uri().path() {
        "/live" => text(StatusCode::OK, "ok"),
        "/ready" => {
            let shards = pages.collector.shards().await;
            let readiness = Readiness {
                phase: *pages.phase.borrow(),
                shards,
            };
            let status = if readiness.is_ready() {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            text(status, readiness.to_string())
        }
        "/metrics" => text(
            StatusCode::OK,
            exposition::page(pages.collector.numbers().await),
        ),
        _ => text(
            StatusCode::NOT_FOUND,
            "there are /live, /ready and /metrics\n",
        ),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, kind)
        .body(Full::new(body.into()))
        .expect("the status and the header are valid")
}
