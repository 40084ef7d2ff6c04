//! HTTP on a port of clients: a page in a browser can make it send what it likes to any port of this machine.
//!
//! The lines of such a request are inline commands, and so are the lines of its body. Two words stand in every request
//! that has a body or comes from a browser, and no command is called so: `POST` and `Host:`. The connection ends there, as
//! in Redis, without an answer and before anything that follows.

use crate::context::Context;
use crate::session::Session;
use resp::Args;

/// Whether words that name no command are a line of HTTP.
pub(crate) fn is_http(args: Args<'_>) -> bool {
    let word = args.arg(0);
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

impl Context {
    /// Ends the connection: nothing more of it is carried out.
    #[cold]
    pub(crate) fn end_cross_protocol(&mut self, session: &mut Session) {
        session.is_closing = true;
        let now = (self.shared.hooks.monotonic)();
        if let Some(left_out) = self.shared.http_notices.may(now) {
            tracing::warn!(
                client = %session.info.address,
                left_out,
                "closing a client: it sends HTTP to a port for clients, which may be a web page that attacks this node by somebody's browser"
            );
        }
    }
}
