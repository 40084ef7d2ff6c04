//! The value of one option.

use crate::advertise::Advertised;
use crate::bind::BindAddress;
use crate::choices::{
    CodingChoice, DebugCommand, DurabilityChoice, LogFormat, LogLevel, MaxmemoryPolicy, ReplicationFactor,
    TestDisk,
};
use crate::cron::CronSchedule;
use crate::memory::human_bytes;
use crate::output_limit::OutputLimits;
use crate::peer::PeerAddress;

/// A value that has passed its option's bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A whole number, in the option's unit.
    Integer(i64),
    /// A size in bytes.
    Memory(u64),
    /// A share of `maxmemory`, 0 to 100.
    Percent(u8),
    /// `yes` or `no`.
    Bool(bool),
    /// One of the option's words, lower case.
    Word(&'static str),
    /// Any other text, in its normal form.
    Text(String),
    /// `client-output-buffer-limit`.
    OutputLimits(OutputLimits),
}

impl OptionValue {
    /// As `CONFIG GET` shows it: sizes in plain bytes. Reading it back gives this value again.
    pub fn render(&self) -> String {
        match self {
            OptionValue::Integer(number) => number.to_string(),
            OptionValue::Memory(bytes) => bytes.to_string(),
            OptionValue::Percent(percent) => format!("{percent}%"),
            OptionValue::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
            OptionValue::Word(word) => (*word).into(),
            OptionValue::Text(text) => text.clone(),
            OptionValue::OutputLimits(limits) => limits.render(),
        }
    }

    /// As documentation shows it: sizes with a unit.
    pub fn render_for_people(&self) -> String {
        match self {
            OptionValue::Memory(bytes) => human_bytes(*bytes),
            OptionValue::OutputLimits(limits) => limits.render_for_people(),
            OptionValue::Integer(_)
            | OptionValue::Percent(_)
            | OptionValue::Bool(_)
            | OptionValue::Word(_)
            | OptionValue::Text(_) => self.render(),
        }
    }

    /// This value as the type of the field that holds it.
    ///
    /// # Panics
    /// If the row of the table fills a field whose type does not cover the row's kind and bounds. That is a
    /// mistake in the table, and the test that fills every field from its bounds finds it.
    pub(crate) fn typed<T: FromValue>(&self) -> T {
        T::from_value(self).unwrap_or_else(|| panic!("{self:?} is outside the type of its field"))
    }
}

/// Types that fields of [`Fields`](crate::Fields) have.
pub(crate) trait FromValue: Sized {
    fn from_value(value: &OptionValue) -> Option<Self>;
}

macro_rules! from_number {
    ($($number:ty),+) => {$(
        impl FromValue for $number {
            fn from_value(value: &OptionValue) -> Option<Self> {
                match value {
                    OptionValue::Integer(number) => (*number).try_into().ok(),
                    OptionValue::Memory(bytes) => (*bytes).try_into().ok(),
                    _ => None,
                }
            }
        }
    )+};
}
from_number!(u16, u32, u64, i32, i64);

macro_rules! from_word {
    ($($choice:ty),+) => {$(
        impl FromValue for $choice {
            fn from_value(value: &OptionValue) -> Option<Self> {
                match value {
                    OptionValue::Word(word) => <$choice>::of_word(word),
                    _ => None,
                }
            }
        }
    )+};
}
from_word!(
    CodingChoice,
    MaxmemoryPolicy,
    LogFormat,
    LogLevel,
    DebugCommand,
    DurabilityChoice,
    ReplicationFactor,
    TestDisk
);

impl FromValue for bool {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Bool(yes) => Some(*yes),
            _ => None,
        }
    }
}

impl FromValue for String {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for CronSchedule {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Text(text) => CronSchedule::parse(text).ok(),
            _ => None,
        }
    }
}

impl FromValue for Vec<f64> {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Text(text) => text.split_whitespace().map(|word| word.parse().ok()).collect(),
            _ => None,
        }
    }
}

impl FromValue for Vec<BindAddress> {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Text(text) => BindAddress::parse_list(text),
            _ => None,
        }
    }
}

impl FromValue for Vec<PeerAddress> {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Text(text) => PeerAddress::parse_list(text),
            _ => None,
        }
    }
}

impl FromValue for Advertised {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Text(text) => Advertised::parse(text),
            _ => None,
        }
    }
}

impl FromValue for OutputLimits {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::OutputLimits(limits) => Some(*limits),
            _ => None,
        }
    }
}

/// Empty text and 0 stand for "none" where the field is optional.
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &OptionValue) -> Option<Self> {
        match value {
            OptionValue::Integer(0) => Some(None),
            OptionValue::Text(text) if text.is_empty() => Some(None),
            _ => T::from_value(value).map(Some),
        }
    }
}
