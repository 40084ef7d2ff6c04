//! What the port answers.

use std::sync::Arc;

use axum::Router;
use axum::body::{self, Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::access::{self, Access};
use crate::cluster::ClusterView;
use crate::goals::{GoalError, GoalRequest, GoalsSet};
use crate::proof::{CHALLENGE, CHALLENGE_PAGE, Challenges, DIGEST, PROOF, ProofKey, Unproven, digest};
use crate::rebalance::MovePlan;
use crate::recovery::{RecoverRequest, Recovered};
use crate::transactions::TransactionsView;

/// What the port tells about. Called on the admin thread, one call at a time; a call may wait for the workers,
/// but not for long: the next request waits for it.
pub trait AdminSource: Send + Sync + 'static {
    /// All metrics, as [`metrics::Exposition`](crate::metrics::Exposition) writes them.
    fn metrics(&self) -> String;

    /// Whether the node can serve clients.
    fn health(&self) -> Health;

    /// Why the node is not ready: what it lacks of what it is to have, and whether it is about to stop, in words that tell no secret.
    /// None if it is.
    fn unready(&self) -> Vec<String>;

    /// Why there is nothing to show yet, in a sentence for an operator; none once there is.
    fn starting(&self) -> Option<String> {
        None
    }

    /// What others than this machine must show, now.
    fn access(&self) -> Access;

    /// Whether these bytes are the password of clients; not if there is none.
    fn is_password(&self, given: &[u8]) -> bool;

    /// What others than this machine prove that they know the cluster's secret with; none if there is no secret.
    fn proof_key(&self) -> Option<ProofKey> {
        None
    }

    /// Names that this node goes by.
    fn names(&self) -> Vec<String>;

    /// The cluster as the node sees it.
    fn cluster(&self) -> ClusterView {
        ClusterView::alone()
    }

    /// Transactions over several groups as the node sees them.
    fn transactions(&self) -> TransactionsView {
        TransactionsView::default()
    }

    /// Has groups begin anew. It may wait for long; it is called on a thread of its own.
    ///
    /// # Errors
    /// Why nothing was done, in a sentence for an operator.
    fn recover(&self, _recovery: &RecoverRequest) -> Result<Recovered, String> {
        Err("this node is in no cluster".to_owned())
    }

    /// Sets what is wanted of nodes. It may wait for long; it is called on a thread of its own.
    ///
    /// # Errors
    /// Why nothing was done, or that it is not known whether it was.
    fn set_goals(&self, _request: &GoalRequest) -> Result<GoalsSet, GoalError> {
        Err(GoalError::Refused("this node is in no cluster".to_owned()))
    }

    /// What would move if everything was placed anew; or if each group was to have another number of replicas, as `admin set-rf` takes it. It
    /// may wait a moment; it is called on a thread of its own.
    ///
    /// # Errors
    /// Why that is not known here, in a sentence for an operator.
    fn move_plan(&self, _factor: Option<&str>) -> Result<MovePlan, String> {
        Err("this node is in no cluster".to_owned())
    }

    /// Begins or stops a job on backups, which this crate passes on as it came: the answer.
    ///
    /// # Errors
    /// Why nothing was done, in a sentence for an operator.
    fn order_backup(&self, _order: &[u8]) -> Result<String, String> {
        Err("this node is in no cluster".to_owned())
    }

    /// The last of these jobs, as JSON.
    fn backup_jobs(&self) -> String {
        "{\"jobs\":[]}".to_owned()
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
    "<li><a href=\"/readyz\">/readyz</a>: 200 while every replica of this node votes and has caught up, 503 with what is missing otherwise</li>\n",
    "<li><a href=\"/cluster\">/cluster</a>: nodes, groups and replicas as this node sees them, as JSON; ",
    "<code>chorale admin status</code> prints it for people</li>\n",
    "<li><a href=\"/rebalance\">/rebalance</a>: what would move if everything was placed anew, as JSON; ",
    "<code>chorale admin rebalance</code> prints it for people</li>\n",
    "<li><a href=\"/set-rf/auto\">/set-rf/auto</a>, /set-rf/5: what would move if each group was to have so many replicas, as JSON; ",
    "<code>chorale admin set-rf</code> prints it for people</li>\n",
    "<li><a href=\"/transactions\">/transactions</a>: transactions over several groups and the keys that they wait for, as JSON; ",
    "<code>chorale admin txns</code> prints it for people</li>\n",
    "<li><a href=\"/backup\">/backup</a>: jobs of this node on backups in its directories, as JSON</li>\n",
    "</ul>\n</html>\n",
);

/// Whoever posts must set it: no page of a browser can without being allowed to.
pub const CONFIRMATION: &str = "x-chorale-confirm";

/// What somebody elsewhere is told who wants something of nodes.
const GOALS_ELSEWHERE: &str = "what is wanted of nodes is taken from the machine of the node that is asked, or from whoever proves that he \
    knows the cluster's secret: chorale admin --cluster-secret-file FILE\n";

/// The same of a recovery.
const RECOVERY_ELSEWHERE: &str = "a recovery is taken from the node's own machine alone\n";

/// Bytes of what is posted: a recovery has all groups of a cluster. More is answered with 413.
const BODY_BYTES_MAX: usize = 256 << 10;

type Source = Arc<dyn AdminSource>;

/// Who asks, as far as it matters what he may want.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// Somebody on this machine.
    Local,
    /// Somebody elsewhere, who has proved that he knows the cluster's secret.
    Proven,
    /// Anybody else who may read.
    Other,
}

/// What who asks is judged by.
#[derive(Clone)]
struct Door {
    source: Source,
    challenges: Arc<Challenges>,
    is_local: bool,
}

/// The pages, for a client of this machine or another one.
pub(crate) fn router(source: Source, challenges: Arc<Challenges>, is_local: bool) -> Router {
    let door = Door {
        source: source.clone(),
        challenges,
        is_local,
    };
    Router::new()
        .route("/recover", post(recover))
        .route("/goals", post(set_goals))
        .route("/backup", get(backup_jobs).post(order_backup))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .route("/", get(index))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/cluster", get(cluster))
        .route("/rebalance", get(rebalance_plan))
        .route("/set-rf/{factor}", get(resize_plan))
        .route("/transactions", get(transactions))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(door, guard))
        .with_state(source)
}

/// Turns away who may not read, or not want what he wants: nothing of what he posts is read then. See `access.rs`.
async fn guard(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let Door {
        source,
        challenges,
        is_local,
    } = door;
    match request.uri().path() {
        "/healthz" | "/readyz" => return next.run(request).await,
        CHALLENGE_PAGE => return challenge(&source, &challenges, request.method()),
        _ => {}
    }
    let mut asker = if is_local { Asker::Local } else { Asker::Other };
    if !is_local && request.headers().contains_key(PROOF) {
        request = match proven(&source, &challenges, request).await {
            Ok(request) => request,
            Err(refusal) => return refusal,
        };
        asker = Asker::Proven;
    }
    let refusal = match (request.method(), request.uri().path(), asker) {
        (&Method::POST, "/goals", Asker::Other) => Some(GOALS_ELSEWHERE),
        (&Method::POST, "/recover", Asker::Other | Asker::Proven) => Some(RECOVERY_ELSEWHERE),
        _ => None,
    };
    if let Some(text) = refusal {
        return answer(StatusCode::FORBIDDEN, TEXT_TYPE, text);
    }
    let headers = request.headers();
    let is_known =
        asker == Asker::Proven || access::password(headers).is_some_and(|given| source.is_password(&given));
    let starting = source.starting();
    let shown = async |request| match starting {
        Some(reason) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT_TYPE, format!("{reason}\n")),
        None => next.run(request).await,
    };
    if is_known {
        return shown(request).await;
    }
    if !access::is_for_us(headers, &source.names()) {
        let text = "this node does not go by the name in Host; ask for its address, or set advertise\n";
        return answer(StatusCode::MISDIRECTED_REQUEST, TEXT_TYPE, text);
    }
    match source.access() {
        _ if is_local => shown(request).await,
        Access::Open => shown(request).await,
        Access::Password => {
            let text = "from another machine this takes the password of clients, with any user\n";
            let mut refusal = answer(StatusCode::UNAUTHORIZED, TEXT_TYPE, text);
            let realm = HeaderValue::from_static("Basic realm=\"Chorale\", charset=\"UTF-8\"");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, realm);
            refusal
        }
        Access::Loopback => {
            let text = "no password is set, so this is for the node's own machine alone: set requirepass, or protected-mode no\n";
            answer(StatusCode::FORBIDDEN, TEXT_TYPE, text)
        }
    }
}

/// What is to be answered by whoever shows that he knows the cluster's secret. It is told to everybody.
fn challenge(source: &Source, challenges: &Challenges, method: &Method) -> Response {
    if method != Method::GET {
        return answer(StatusCode::METHOD_NOT_ALLOWED, TEXT_TYPE, "GET is allowed here\n");
    }
    match source.proof_key() {
        Some(_) => answer(StatusCode::OK, TEXT_TYPE, format!("{}\n", challenges.give())),
        None => answer(
            StatusCode::NOT_FOUND,
            TEXT_TYPE,
            "this node has no cluster-secret\n",
        ),
    }
}

/// The request, if it comes from somebody who knows the cluster's secret; else why it is not taken.
async fn proven(source: &Source, challenges: &Challenges, request: Request) -> Result<Request, Response> {
    let refused = |text: &'static str| answer(StatusCode::FORBIDDEN, TEXT_TYPE, text);
    let Some(key) = source.proof_key() else {
        return Err(refused(
            "this node has no cluster-secret, so nothing is proved to it\n",
        ));
    };
    let (head, body) = request.into_parts();
    let word = |name| {
        head.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let said = word(DIGEST);
    match challenges.take(
        &key,
        word(CHALLENGE),
        word(PROOF),
        (head.method.as_str(), path, said),
    ) {
        Ok(()) => {}
        Err(Unproven::Challenge) => {
            return Err(refused(
                "the challenge is too old, was used, or is not of this start: ask for another one\n",
            ));
        }
        Err(Unproven::Proof) => return Err(refused("this is not proved with the cluster's secret\n")),
    }
    let body = body::to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| {
        answer(
            StatusCode::PAYLOAD_TOO_LARGE,
            TEXT_TYPE,
            "the body is too long, or did not come\n",
        )
    })?;
    match digest(&body) == said {
        true => Ok(Request::from_parts(head, Body::from(body))),
        false => Err(refused("the body is not the one that was proved\n")),
    }
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

async fn readyz(State(source): State<Source>) -> Response {
    let unready = source.unready();
    if unready.is_empty() {
        return answer(StatusCode::OK, TEXT_TYPE, "ready\n");
    }
    let text = format!("not ready: {}\n", unready.join("; "));
    answer(StatusCode::SERVICE_UNAVAILABLE, TEXT_TYPE, text)
}

async fn cluster(State(source): State<Source>) -> Response {
    answer(StatusCode::OK, JSON_TYPE, source.cluster().to_json())
}

async fn transactions(State(source): State<Source>) -> Response {
    answer(StatusCode::OK, JSON_TYPE, source.transactions().to_json())
}

async fn backup_jobs(State(source): State<Source>) -> Response {
    answer(StatusCode::OK, JSON_TYPE, source.backup_jobs())
}

/// Whoever may take a backup as a client may have the node take it.
async fn order_backup(State(source): State<Source>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get(CONFIRMATION).is_none_or(|value| value != "backup") {
        let text = format!("a job on backups is confirmed by the header {CONFIRMATION}: backup\n");
        return answer(StatusCode::FORBIDDEN, TEXT_TYPE, text);
    }
    match source.order_backup(&body) {
        Ok(page) => answer(StatusCode::OK, JSON_TYPE, page),
        Err(reason) => answer(StatusCode::CONFLICT, TEXT_TYPE, format!("{reason}\n")),
    }
}

async fn recover(State(source): State<Source>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get(CONFIRMATION).is_none_or(|value| value != "recover") {
        let text = format!("a recovery is confirmed by the header {CONFIRMATION}: recover\n");
        return answer(StatusCode::FORBIDDEN, TEXT_TYPE, text);
    }
    let recovery: RecoverRequest = match serde_json::from_slice(&body) {
        Ok(recovery) => recovery,
        Err(error) => {
            let text = format!("this is no recovery: {error}\n");
            return answer(StatusCode::BAD_REQUEST, TEXT_TYPE, text);
        }
    };
    let recovered = tokio::task::spawn_blocking(move || source.recover(&recovery)).await;
    match recovered {
        Ok(Ok(recovered)) => {
            let page = serde_json::to_string(&recovered).expect("texts and numbers have a form in JSON");
            answer(StatusCode::OK, JSON_TYPE, page)
        }
        Ok(Err(reason)) => answer(StatusCode::CONFLICT, TEXT_TYPE, format!("{reason}\n")),
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT_TYPE, "see the log\n"),
    }
}

async fn set_goals(State(source): State<Source>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get(CONFIRMATION).is_none_or(|value| value != "goals") {
        let text = format!("what is wanted of nodes is confirmed by the header {CONFIRMATION}: goals\n");
        return answer(StatusCode::FORBIDDEN, TEXT_TYPE, text);
    }
    let request: GoalRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let text = format!("nothing is wanted by this: {error}\n");
            return answer(StatusCode::BAD_REQUEST, TEXT_TYPE, text);
        }
    };
    let done = tokio::task::spawn_blocking(move || source.set_goals(&request)).await;
    match done {
        Ok(Ok(set)) => answer(StatusCode::OK, JSON_TYPE, set.to_json()),
        Ok(Err(error)) => {
            let status = match error {
                GoalError::Refused(_) => StatusCode::CONFLICT,
                // A conflict would say that nothing was done.
                GoalError::NotKnown(_) => StatusCode::GATEWAY_TIMEOUT,
            };
            answer(status, TEXT_TYPE, format!("{error}\n"))
        }
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT_TYPE, "see the log\n"),
    }
}

async fn rebalance_plan(State(source): State<Source>) -> Response {
    move_plan(source, None).await
}

async fn resize_plan(State(source): State<Source>, Path(factor): Path<String>) -> Response {
    move_plan(source, Some(factor)).await
}

async fn move_plan(source: Source, factor: Option<String>) -> Response {
    match tokio::task::spawn_blocking(move || source.move_plan(factor.as_deref())).await {
        Ok(Ok(plan)) => answer(StatusCode::OK, JSON_TYPE, plan.to_json()),
        Ok(Err(reason)) => answer(StatusCode::CONFLICT, TEXT_TYPE, format!("{reason}\n")),
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT_TYPE, "see the log\n"),
    }
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
