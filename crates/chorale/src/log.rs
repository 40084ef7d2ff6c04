//! The log: to standard error, as text or JSON.

use std::io::{self, IsTerminal};

use options::{LogFormat, LogLevel, Settings};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Sets `log-level` while the server runs.
#[derive(Clone)]
pub(crate) struct LevelHandle(reload::Handle<LevelFilter, tracing_subscriber::Registry>);

impl LevelHandle {
    pub(crate) fn set(&self, level: LogLevel) {
        // Fails only once there is no subscriber any more, when nothing is logged anyway.
        let _ = self.0.reload(filter(level));
    }
}

/// Starts logging for the whole process.
pub(crate) fn start(settings: &Settings) -> Result<LevelHandle, TryInitError> {
    let (level, handle) = reload::Layer::new(filter(settings.log_level));
    let registry = tracing_subscriber::registry().with(level);
    let layer = fmt::layer().with_writer(io::stderr);
    match settings.log_format {
        LogFormat::Text => registry
            .with(layer.with_ansi(io::stderr().is_terminal()))
            .try_init()?,
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init()?,
    }
    Ok(LevelHandle(handle))
}

/// Redis has five levels in other words; each one here shows at least what its name promises there.
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Nothing => LevelFilter::OFF,
    }
}
