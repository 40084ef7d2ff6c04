//! The thread behind the port, and what one connection may take.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::pages::{AdminSource, router};

/// Connections served at the same time. Further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 64;

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

/// Serves the port on a thread of its own, until the handle is shut down or dropped.
///
/// # Errors
/// If the system refuses the thread or what the runtime needs of it.
pub fn spawn(listener: TcpListener, source: Arc<dyn AdminSource>) -> io::Result<Handle> {
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
            tokio::spawn(accept(listener, source));
            // An error means that the handle was dropped: also a reason to stop.
            let _ = stopped.await;
        });
        // Dropping the runtime drops the listener and every connection.
    })?;
    Ok(Handle { stop, thread })
}

async fn accept(listener: tokio::net::TcpListener, source: Arc<dyn AdminSource>) {
    let (here, elsewhere) = (router(source.clone(), true), router(source, false));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, client)) => {
                let is_local = client.ip().to_canonical().is_loopback();
                let router = if is_local { here.clone() } else { elsewhere.clone() };
                tokio::spawn(async move {
                    serve(stream, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the admin port");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
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
