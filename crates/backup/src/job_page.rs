//! What a node is asked of backups through its admin port, and what it shows of them there, as JSON.

use serde::{Deserialize, Serialize};

use crate::{BackupJob, JobReport};

/// What a node is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobOrder {
    /// To begin a job.
    Begin {
        /// An absolute path of a directory of the node.
        directory: String,
        /// What is to be done.
        job: BackupJob,
    },
    /// To stop one.
    Stop {
        /// Its number.
        number: u64,
    },
}

/// That a job has begun, or is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobAnswer {
    /// The job's number.
    pub number: u64,
}

/// The page: the last jobs of a node, the newest last.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct JobsPage {
    /// See there.
    pub jobs: Vec<JobView>,
}

/// A job of a node.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct JobView {
    /// Unlike that of any other job of this node, also of earlier starts.
    pub number: u64,
    /// What it does.
    pub what: String,
    /// What of it is being done, how many bytes of that are, and of how many.
    pub step: String,
    /// See there.
    pub done: u64,
    /// See there.
    pub all: u64,
    /// Sentences that were said, the newest last; older ones are dropped.
    pub said: Vec<String>,
    /// How many were dropped.
    pub said_before: u64,
    /// What came of it, once it is over.
    pub end: Option<JobEnd>,
}

/// What came of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// This.
    Done(JobReport),
    /// Nothing, for this reason.
    Failed(String),
}

impl JobOrder {
    /// As JSON.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Reads what a node was sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &[u8]) -> Result<JobOrder, String> {
        serde_json::from_slice(text).map_err(|error| format!("this asks for no job: {error}"))
    }
}

impl JobAnswer {
    /// As JSON.
    pub fn to_json(self) -> String {
        to_json(&self)
    }

    /// Reads what a node has answered.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<JobAnswer, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

impl JobsPage {
    /// As JSON.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Reads the page of a node.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<JobsPage, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts, numbers and lists have a form in JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_and_shown_is_read_as_it_was_written() {
        let jobs = [
            BackupJob::Take {
                name: Some("monday".to_owned()),
                keep: Some(3),
            },
            BackupJob::List {},
            BackupJob::Verify {
                backup: None,
                is_deep: true,
            },
        ];
        for job in jobs {
            let order = JobOrder::Begin {
                directory: "/mnt/b".to_owned(),
                job,
            };
            assert_eq!(JobOrder::from_json(order.to_json().as_bytes()), Ok(order));
        }
        let why = JobOrder::from_json(br#"{"begin":{"directory":"/","job":{"erase":{}}}}"#);
        assert!(why.is_err_and(|why| why.starts_with("this asks for no job: unknown variant `erase`")));
        let page = JobsPage {
            jobs: vec![JobView {
                number: 7,
                said: vec!["a".to_owned()],
                end: Some(JobEnd::Failed("full".to_owned())),
                ..JobView::default()
            }],
        };
        assert_eq!(JobsPage::from_json(&page.to_json()), Ok(page));
    }
}
