//! Who may read the pages: whoever may ask the ports of clients.
//!
//! This machine always may; others as the options of clients say: with their password, or, without one, only where
//! `protected-mode` is off. A page in a browser must not become "this machine" by a name that it has pointed here (DNS
//! rebinding): names of the public kind count only if they are the node's own.
//!
//! `/healthz` and `/readyz` answer everybody: who probes has no password, and they tell nothing else.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What others than this machine must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// The password of clients.
    Password,
    /// Nothing helps: there is no password, and clients of other machines are turned away too.
    Loopback,
}

/// The password that a request shows; of HTTP's basic authentication, whatever the name of the user.
pub(crate) fn password(headers: &HeaderMap) -> Option<Vec<u8>> {
    let shown = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = shown.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

/// Whether a request asks for a name that no stranger can have given this node. Programs may name none; browsers always do.
pub(crate) fn is_for_us(headers: &HeaderMap, own: &[String]) -> bool {
    let Some(host) = headers.get(HOST) else {
        return true;
    };
    host.to_str().is_ok_and(|host| is_our_name(host, own))
}

fn is_our_name(host: &str, own: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is = |own: &str| name.eq_ignore_ascii_case(own.strip_suffix('.').unwrap_or(own));
    // A name without a dot is one of this network: no public name is.
    !name.contains('.') && !name.contains(':')
        || name.parse::<IpAddr>().is_ok()
        || name.to_ascii_lowercase().ends_with(".localhost")
        || own.iter().any(|own| is(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_of_this_network_are_ours_and_public_names_are_not() {
        let own = ["chorale-0.db.example.org".to_owned()];
        for host in [
            "127.0.0.1",
            "127.0.0.1:9121",
            "10.0.0.7:9121",
            "[::1]:9121",
            "[::1]",
            "localhost",
            "LOCALHOST:9121",
            "localhost.:9121",
            "a.localhost",
            "chorale-0:9121",
            "Chorale-0.db.example.org:9121",
            "chorale-0.db.example.org.",
            "",
        ] {
            assert!(is_our_name(host, &own), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9121",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "db.example.org",
            "a:b:c",
        ] {
            assert!(!is_our_name(host, &own), "{host}");
        }
    }

    #[test]
    fn a_password_is_what_follows_the_first_colon() {
        let shown = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            password(&headers)
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(shown(&basic(":a:b")), Some(b"a:b".to_vec()));
        assert_eq!(shown(&basic("user:secret")), Some(b"secret".to_vec()));
        assert_eq!(shown(&basic("user:")), Some(Vec::new()));
        assert_eq!(shown(&basic("secret")), None);
        assert_eq!(shown("Basic ???"), None);
        assert_eq!(shown("Bearer secret"), None);
        assert_eq!(password(&HeaderMap::new()), None);
    }
}
