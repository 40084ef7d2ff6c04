//! The thread behind the port, and what one connection may take.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::pages::{AdminSource, router};
use crate::proof::Challenges;

/// Connections served at the same time, if there are descriptors for them. At the limit a new one takes the place of the
/// oldest that no answer is being made for: however many are slow, a probe of the node's health is answered at once.
pub const CONNECTIONS_MAX: usize = 64;

/// From the start of a request, or of waiting for it, to the end of its head. Then the connection is closed, so
/// that silent clients cannot hold all connections.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);

/// A connection that is older finishes the request it is in and is closed.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(60);

/// How long that last request may take: a client that does not read its answer is cut off.
const LAST_REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// Request line and headers together; more is answered with 431. Requests for these pages need a fraction.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Headers of one request; more is answered with 431.
const HEADERS_MAX: usize = 64;

/// Failed `accept`s are told once in this time.
const NOTICE_PAUSE: Duration = Duration::from_secs(60);

/// Pause after a failed `accept`: what causes it (no free descriptors) does not pass at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The running port. Dropping it stops the port too, but does not wait for the thread.
#[derive(Debug)]
pub struct Handle {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Handle {
    /// Closes the listener and all connections, and waits until the thread has ended.
    pub fn shutdown(self) {
        // The receiver is gone only if the thread has ended by itself, which is what was asked for.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the admin thread panicked");
        }
    }
}

/// Serves the port on a thread of its own, until the handle is shut down or dropped: so many connections at a time, which
/// are [`CONNECTIONS_MAX`] where there are descriptors enough. `challenge_key` is random, and of this start alone.
///
/// # Errors
/// If the system refuses the thread or what the runtime needs of it.
pub fn spawn(
    listener: TcpListener,
    source: Arc<dyn AdminSource>,
    connections_max: usize,
    challenge_key: [u8; 32],
) -> io::Result<Handle> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = {
        let _context = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("admin".into()).spawn(move || {
        runtime.block_on(async {
            let challenges = Arc::new(Challenges::new(challenge_key));
            tokio::spawn(accept(listener, source, challenges, connections_max));
            // An error means that the handle was dropped: also a reason to stop.
            let _ = stopped.await;
        });
        // Dropping the runtime drops the listener and every connection.
    })?;
    Ok(Handle { stop, thread })
}

/// Connections, the oldest first.
type Places = Arc<Mutex<VecDeque<Place>>>;

/// One connection.
struct Place {
    number: u64,
    /// An answer is being made for it.
    is_working: Arc<AtomicBool>,
    /// Dropped: the connection is to be closed.
    _open: oneshot::Sender<()>,
}

async fn accept(
    listener: tokio::net::TcpListener,
    source: Arc<dyn AdminSource>,
    challenges: Arc<Challenges>,
    connections_max: usize,
) {
    let here = router(source.clone(), challenges.clone(), true);
    let elsewhere = router(source, challenges, false);
    let places = Places::default();
    let mut told_at: Option<Instant> = None;
    for number in 0.. {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if told_at.is_none_or(|told| told.elapsed() >= NOTICE_PAUSE) {
                    told_at = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept a connection on the admin port");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if held(&places).len() >= connections_max {
            let mut held = held(&places);
            let idle = held
                .iter()
                .position(|place| !place.is_working.load(Ordering::Relaxed));
            let Some(idle) = idle else { continue };
            held.remove(idle);
        }
        let is_local = is_of_this_machine(client, stream.local_addr());
        let router = if is_local { here.clone() } else { elsewhere.clone() };
        let is_working = Arc::<AtomicBool>::default();
        let (open, closed) = oneshot::channel();
        held(&places).push_back(Place {
            number,
            is_working: is_working.clone(),
            _open: open,
        });
        let places = places.clone();
        tokio::spawn(async move {
            // Whichever ends first: the place is only given up by those who take it.
            tokio::select! {
                () = serve(stream, watched(router, is_working)) => {
                    held(&places).retain(|place| place.number != number);
                }
                _ = closed => {}
            }
        });
        // Whose place was taken closes its socket now, before the next one is opened.
        tokio::task::yield_now().await;
    }
}

/// Whether a client is on the node's own machine: it comes by the loopback, or from the very address that it asks. Where only one address is
/// listened at, there is no other way; and nobody else gets an answer that is sent to it.
fn is_of_this_machine(client: SocketAddr, here: io::Result<SocketAddr>) -> bool {
    let ip = client.ip().to_canonical();
    ip.is_loopback() || here.is_ok_and(|here| here.ip().to_canonical() == ip)
}

/// The places, whoever panicked while holding them.
fn held(places: &Places) -> MutexGuard<'_, VecDeque<Place>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pages for one connection, which tells while an answer is being made.
fn watched(router: Router, is_working: Arc<AtomicBool>) -> Router {
    let note = move |request: Request, next: Next| {
        let is_working = is_working.clone();
        async move {
            is_working.store(true, Ordering::Relaxed);
            let answer = next.run(request).await;
            is_working.store(false, Ordering::Relaxed);
            answer
        }
    };
    router.layer(middleware::from_fn(note))
}

/// Serves one connection to its end. Errors are the client's: it is gone, slow, or does not speak HTTP.
async fn serve(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    if timeout(CONNECTION_AGE_MAX, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_REQUEST_TIME_MAX, connection).await;
    }
}
