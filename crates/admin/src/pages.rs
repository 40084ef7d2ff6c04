//! What the port answers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::cluster::ClusterView;

/// What the port tells about. Called on the admin thread, one call at a time; a call may wait for the workers,
/// but not for long: the next request waits for it.
pub trait AdminSource: Send + Sync + 'static {
    /// All metrics, as [`metrics::Exposition`](crate::metrics::Exposition) writes them.
    fn metrics(&self) -> String;

    /// Whether the node can serve clients.
    fn health(&self) -> Health;

    /// The cluster as the node sees it.
    fn cluster(&self) -> ClusterView {
        ClusterView::alone()
    }
}

/// Whether a node can serve clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can: status 200.
    Ok,
    /// It cannot, and why, in a sentence for an operator: status 503.
    Unhealthy(String),
}

/// The version of the text format; Prometheus chooses its parser by it.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON_TYPE: &str = "application/json";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";
const HTML_TYPE: &str = "text/html; charset=utf-8";

const INDEX: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Chorale</title>\n",
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}</style>\n",
    "<h1>Chorale ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n",
    "<p>This is the port for operators of one node. Clients speak the Redis protocol, on another port.</p>\n",
    "<ul>\n",
    "<li><a href=\"/metrics\">/metrics</a>: counters and gauges, for Prometheus</li>\n",
    "<li><a href=\"/healthz\">/healthz</a>: 200 while this node can serve clients, 503 with the reason otherwise</li>\n",
    "<li><a href=\"/cluster\">/cluster</a>: nodes, groups and replicas as this node sees them, as JSON; ",
    "<code>chorale admin status</code> prints it for people</li>\n",
    "</ul>\n</html>\n",
);

type Source = Arc<dyn AdminSource>;

pub(crate) fn router(source: Source) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/cluster", get(cluster))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(source)
}

/// Answers describe this instant and nothing else: no cache may keep them, no browser reinterpret them.
fn answer(status: StatusCode, content_type: &'static str, body: impl IntoResponse) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ];
    (status, headers, body).into_response()
}

async fn index() -> Response {
    answer(StatusCode::OK, HTML_TYPE, INDEX)
}

async fn metrics(State(source): State<Source>) -> Response {
    answer(StatusCode::OK, METRICS_TYPE, source.metrics())
}

async fn healthz(State(source): State<Source>) -> Response {
    match source.health() {
        Health::Ok => answer(StatusCode::OK, TEXT_TYPE, "ok\n"),
        Health::Unhealthy(reason) => answer(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT_TYPE,
            format!("unhealthy: {reason}\n"),
        ),
    }
}

async fn cluster(State(source): State<Source>) -> Response {
    answer(StatusCode::OK, JSON_TYPE, source.cluster().to_json())
}

async fn not_found(uri: Uri) -> Response {
    answer(
        StatusCode::NOT_FOUND,
        TEXT_TYPE,
        format!("no page {}; / lists the pages\n", uri.path()),
    )
}

async fn method_not_allowed(method: Method) -> Response {
    answer(
        StatusCode::METHOD_NOT_ALLOWED,
        TEXT_TYPE,
        format!("{method} is not allowed here; GET and HEAD are\n"),
    )
}
