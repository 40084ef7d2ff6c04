//! A bucket of S3, or of a server that speaks like it, as a target.
//!
//! A file is one object, put by one request: it is there when the server has said so, and not before. Its length is announced, so that
//! a server that got less makes no object of it. One that does all the same, as there are, has an object of another length: a backup
//! takes that for none and writes it again. Every request is signed in its address; the body is not, since parts and manifests
//! have checksums of their own.
//!
//! Absent: files above 5 GiB, which take several requests; buckets that are not there yet; making a file younger.

use std::io::{self, Read};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, SendBody};
use url::Url;

use crate::BackupError;
use crate::target::{BackupTarget, TargetFile, TargetFolder};

/// Bytes of a file; more takes several requests.
const FILE_BYTES_MAX: u64 = 5 << 30;
/// How long a signature is good: a request begins at once, and a body may take long.
const SIGNED_FOR: Duration = Duration::from_secs(3600);
/// To connect, and without a byte of an answer.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
const STEP_TIME_MAX: Duration = Duration::from_secs(60);
/// How often a request that has no body is tried, and the pause before it is tried again, longer each time.
const TRIES: u32 = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Bytes of an answer that is no file: a list has a thousand names.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Files of a folder: 200 backups of 4,096 partitions, each of which changes every time.
const LISTED_MAX: usize = 1 << 20;

/// Where systems keep the certificates that they trust.
const SYSTEM_CERTIFICATES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A bucket, and what stands in front of all names in it.
#[derive(Debug)]
pub struct S3Target {
    shown: String,
    bucket: Bucket,
    credentials: Credentials,
    /// Empty, or ends with a slash.
    prefix: String,
    agent: Agent,
}

impl S3Target {
    /// The target `s3://BUCKET/PREFIX`, reached and signed for as these variables say: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_CA_BUNDLE`.
    ///
    /// # Errors
    /// What is missing, or wrong with the address. Nothing was asked yet.
    pub fn from_environment(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<S3Target, BackupError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let wrong = |why: String| BackupError::Failed(format!("{address} cannot be reached: {why}"));
        let path = address
            .strip_prefix("s3://")
            .unwrap_or_default()
            .trim_end_matches('/');
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() {
            return Err(wrong("it must be s3://BUCKET or s3://BUCKET/PREFIX".to_owned()));
        }
        let (Some(key), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        else {
            return Err(wrong(
                "put the credentials into the environment as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                    .to_owned(),
            ));
        };
        let credentials = match variable("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        // Amazon's own addresses have the bucket in front; a dot in it would not fit its certificate.
        let (endpoint, style) = match variable("AWS_ENDPOINT_URL") {
            Some(endpoint) => (endpoint, UrlStyle::Path),
            None if bucket.contains('.') => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::Path),
            None => (
                format!("https://s3.{region}.amazonaws.com"),
                UrlStyle::VirtualHost,
            ),
        };
        let endpoint: Url = endpoint
            .parse()
            .map_err(|error| wrong(format!("AWS_ENDPOINT_URL is {endpoint:?}: {error}")))?;
        let agent = agent(&endpoint, &variable).map_err(wrong)?;
        let bucket = Bucket::new(endpoint, style, bucket.to_owned(), region)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(S3Target {
            shown: address.trim_end_matches('/').to_owned(),
            bucket,
            credentials,
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
            agent,
        })
    }

    fn key(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    fn file(&self, path: &str) -> String {
        format!("{}/{path}", self.shown)
    }

    /// Asks until there is an answer that trying again would not change.
    fn ask(
        &self,
        what: &str,
        path: &str,
        send: impl Fn() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, BackupError> {
        let mut tried = 0;
        loop {
            let answer = self.judge(what, path, send());
            tried += 1;
            match answer {
                Err(BackupError::Passing(_)) if tried < TRIES => thread::sleep(RETRY_PAUSE * tried),
                other => return other,
            }
        }
    }

    fn judge(
        &self,
        what: &str,
        path: &str,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, BackupError> {
        let file = self.file(path);
        let host = self.bucket.base_url().host_str().unwrap_or_default();
        let mut answer = answer.map_err(|error| match error {
            ureq::Error::Io(error) => match BackupError::own(&error) {
                Some(own) => own,
                None => BackupError::Passing(format!("cannot {what} {file} at {host}: {error}")),
            },
            error => BackupError::Passing(format!("cannot {what} {file} at {host}: {error}")),
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let said = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string();
        let said = said.unwrap_or_default();
        let code = element(&said, "Code").unwrap_or_else(|| status.as_str().to_owned());
        let message = element(&said, "Message").unwrap_or_default();
        if status == StatusCode::NOT_FOUND && code != "NoSuchBucket" {
            return Err(BackupError::Missing(file));
        }
        let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let advice = match code.as_str() {
            "NoSuchBucket" => "make the bucket first",
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" => {
                "look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"
            }
            "RequestTimeTooSkewed" => "set this machine's clock",
            "ExpiredToken" | "InvalidToken" => "get a new AWS_SESSION_TOKEN",
            _ if status.is_redirection() => "AWS_REGION must name the bucket's region",
            _ if passes => "try again later",
            _ if status == StatusCode::FORBIDDEN => {
                "the key must be allowed to list, get, put and delete there; look at AWS_REGION too"
            }
            _ => "look whether the address is right",
        };
        let why = format!("cannot {what} {file}: {host} answers {code}: {message} ({advice})");
        match passes {
            true => Err(BackupError::Passing(why)),
            false => Err(BackupError::Failed(why)),
        }
    }
}

fn agent(endpoint: &Url, variable: &dyn Fn(&str) -> Option<String>) -> Result<Agent, String> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("chorale/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_TIME_MAX))
        .timeout_per_read(Some(STEP_TIME_MAX))
        .timeout_per_write(Some(STEP_TIME_MAX));
    if endpoint.scheme() == "https" {
        let tls = TlsConfig::builder()
            .root_certs(certificates(variable)?)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        config = config.tls_config(tls.build());
    }
    Ok(config.build().new_agent())
}

/// The certificates to trust.
fn certificates(variable: &dyn Fn(&str) -> Option<String>) -> Result<RootCerts, String> {
    let named = variable("AWS_CA_BUNDLE").or_else(|| variable("SSL_CERT_FILE"));
    let system = || {
        SYSTEM_CERTIFICATES
            .iter()
            .find(|path| std::path::Path::new(path).is_file())
    };
    let path = named.or_else(|| system().map(|path| (*path).to_owned()));
    let path =
        path.ok_or("this system has no certificates that I know: name a file of them as AWS_CA_BUNDLE")?;
    let pem =
        std::fs::read(&path).map_err(|error| format!("cannot read the certificates in {path}: {error}"))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = certificates.collect();
    if certificates.is_empty() {
        return Err(format!("{path} holds no certificates"));
    }
    Ok(RootCerts::from(certificates))
}

/// The text of the first element of this name in an answer.
fn element(answer: &str, name: &str) -> Option<String> {
    let (_, rest) = answer.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once("</")?;
    Some(text.to_owned())
}

impl BackupTarget for S3Target {
    fn name(&self) -> String {
        self.shown.clone()
    }

    /// A key that may list and not write is known when the first part is written: a probe would be one more request to be allowed.
    fn prepare(&self) -> Result<(), BackupError> {
        Ok(())
    }

    fn list(&self, folder: TargetFolder) -> Result<Vec<TargetFile>, BackupError> {
        let prefix = self.key(folder.prefix());
        let mut files = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut action = self.bucket.list_objects_v2(Some(&self.credentials));
            action.with_prefix(prefix.as_str());
            if let Some(token) = &token {
                action.with_continuation_token(token.as_str());
            }
            let url = action.sign(SIGNED_FOR);
            let mut answer = self.ask("list", folder.prefix(), || self.agent.get(url.as_str()).call())?;
            let text = answer
                .body_mut()
                .with_config()
                .limit(ANSWER_BYTES_MAX)
                .read_to_string();
            let misread = |why: String| {
                BackupError::Failed(format!(
                    "cannot list {}: {why}. Does the server speak S3?",
                    self.file(folder.prefix())
                ))
            };
            let text = text.map_err(|error| misread(error.to_string()))?;
            let page = ListObjectsV2::parse_response(&text).map_err(|error| misread(error.to_string()))?;
            for object in page.contents {
                if let Some(path) = object.key.strip_prefix(&self.prefix) {
                    files.push(TargetFile {
                        path: path.to_owned(),
                        bytes: object.size.unwrap_or_default(),
                        modified: object.last_modified.as_deref().and_then(time),
                    });
                }
            }
            if files.len() > LISTED_MAX {
                return Err(misread(format!("there are more than {LISTED_MAX} files: prune")));
            }
            token = page.next_continuation_token;
            if token.is_none() {
                break;
            }
        }
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    fn read(&self, path: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        let key = self.key(path);
        let url = self
            .bucket
            .get_object(Some(&self.credentials), &key)
            .sign(SIGNED_FOR);
        let answer = self.ask("read", path, || self.agent.get(url.as_str()).call())?;
        Ok(Box::new(answer.into_body().into_reader()))
    }

    fn write(&self, path: &str, bytes: u64, from: &mut dyn Read) -> Result<(), BackupError> {
        if bytes > FILE_BYTES_MAX {
            return Err(BackupError::Failed(format!(
                "{} has {bytes} bytes, and S3 takes at most {FILE_BYTES_MAX} at once: back up into a directory, or spread the keys over \
                 more partitions",
                self.file(path)
            )));
        }
        let key = self.key(path);
        let url = self
            .bucket
            .put_object(Some(&self.credentials), &key)
            .sign(SIGNED_FOR);
        let mut from = Exactly { from, left: bytes };
        let request = self
            .agent
            .put(url.as_str())
            .header("content-length", bytes.to_string());
        // So that a refusal is heard before the body is sent.
        let request = request.header("expect", "100-continue");
        let answer = request.send(SendBody::from_reader(&mut from));
        self.judge("write", path, answer).map(drop)
    }

    fn remove(&self, path: &str) -> Result<(), BackupError> {
        let key = self.key(path);
        let url = self
            .bucket
            .delete_object(Some(&self.credentials), &key)
            .sign(SIGNED_FOR);
        match self.ask("remove", path, || self.agent.delete(url.as_str()).call()) {
            Ok(_) | Err(BackupError::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn refresh(&self, _: &str) -> Result<(), BackupError> {
        Ok(())
    }

    fn exists(&self, path: &str) -> Result<Option<u64>, BackupError> {
        let key = self.key(path);
        let url = self
            .bucket
            .head_object(Some(&self.credentials), &key)
            .sign(SIGNED_FOR);
        match self.ask("look at", path, || self.agent.head(url.as_str()).call()) {
            Ok(answer) => {
                let length = answer
                    .headers()
                    .get("content-length")
                    .and_then(|length| length.to_str().ok());
                Ok(Some(
                    length.and_then(|length| length.parse().ok()).unwrap_or_default(),
                ))
            }
            Err(BackupError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// When an object was written.
fn time(text: &str) -> Option<SystemTime> {
    text.parse::<jiff::Timestamp>().ok().map(SystemTime::from)
}

/// Gives as many bytes as were announced, or fails.
struct Exactly<'a> {
    from: &'a mut dyn Read,
    left: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(to)?;
        let left = self
            .left
            .checked_sub(count as u64)
            .filter(|left| count > 0 || to.is_empty() || *left == 0);
        self.left = left.ok_or_else(|| {
            let why = format!(
                "a file has other than the bytes that were announced: {} are missing",
                self.left
            );
            io::Error::other(BackupError::Failed(why))
        })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: &str, set: &[(&str, &str)]) -> Result<S3Target, BackupError> {
        let base = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
        let set: std::collections::BTreeMap<&str, &str> = base.iter().chain(set).copied().collect();
        S3Target::from_environment(address, |name| set.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_environment_says_where_a_bucket_is() {
        let amazon = target("s3://cellar/chorale/", &[("AWS_REGION", "eu-central-1")]).unwrap();
        assert_eq!(
            amazon.bucket.base_url().as_str(),
            "https://cellar.s3.eu-central-1.amazonaws.com/"
        );
        assert_eq!(amazon.key("parts/x"), "chorale/parts/x");
        assert_eq!(amazon.name(), "s3://cellar/chorale");
        let own = target("s3://cellar", &[("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")]).unwrap();
        assert_eq!(own.bucket.base_url().as_str(), "http://127.0.0.1:9000/cellar/");
        assert_eq!(own.key("parts/x"), "parts/x");
    }

    #[test]
    fn what_is_missing_is_said() {
        let why =
            |address: &str, set: &[(&str, &str)]| target(address, set).map(|_| ()).unwrap_err().to_string();
        assert!(why("s3://", &[]).contains("s3://BUCKET/PREFIX"));
        assert!(why("s3://b", &[("AWS_SECRET_ACCESS_KEY", "")]).contains("AWS_SECRET_ACCESS_KEY"));
        assert!(why("s3://b", &[("AWS_ENDPOINT_URL", "nonsense")]).contains("AWS_ENDPOINT_URL"));
        assert!(
            why("s3://b", &[("AWS_CA_BUNDLE", "/no/such/file")]).contains("certificates in /no/such/file")
        );
    }

    #[test]
    fn an_answer_says_why_in_its_elements() {
        let answer = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>none</Message></Error>";
        assert_eq!(element(answer, "Code").as_deref(), Some("NoSuchBucket"));
        assert_eq!(element(answer, "Resource"), None);
    }
}
