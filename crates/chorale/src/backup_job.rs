//! A job on backups, as a command line asks for it: done here, or by the node whose directory it is about.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use backup::{
    BackupError, BackupJob, JobAnswer, JobContext, JobEnd, JobOrder, JobReport, JobView, JobsPage,
    RunProgress, TargetPlace,
};
use clap::{Arg, ArgMatches};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::admin_client::{self, full};
use crate::progress_bar::ProgressBar;
use crate::status::columns;
use crate::{http, print};

/// How S3 is reached, for help texts.
pub(crate) const S3_HELP: &str = "\
S3 takes its credentials from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, and for
servers other than Amazon's AWS_ENDPOINT_URL. AWS_CA_BUNDLE names certificates to trust instead of the system's.";

const TARGET: &str = "target";

/// Where a node is asked about its jobs.
const JOBS_PAGE: &str = "/backup";
/// Between two questions how far it is.
const ASKED_EVERY: Duration = Duration::from_millis(200);
/// Without an answer, after which the node is given up: its job may go on.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The first argument of every command that is about backups.
pub(crate) fn target_argument() -> Arg {
    Arg::new(TARGET)
        .value_name("TARGET")
        .required(true)
        .help("A directory of this machine; node:/DIRECTORY of the node that is asked; or s3://BUCKET/PREFIX")
}

/// An argument that names a node's admin port.
pub(crate) fn node_argument(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("HOST:PORT").help(help)
}

/// Does it, with the target that stands on the command line and the node whose admin port this argument names.
pub(crate) fn main(matches: &ArgMatches, node: &str, job: &BackupJob) -> ExitCode {
    let address = matches
        .get_one::<String>(node)
        .expect("it is required, or has a default");
    finish(carry_out(target_of(matches), &full(address), job))
}

/// The target on the command line.
pub(crate) fn target_of(matches: &ArgMatches) -> &str {
    matches.get_one::<String>(TARGET).expect("it is required")
}

/// Shows what came of it. Damage is no success.
pub(crate) fn finish(done: Result<JobReport, String>) -> ExitCode {
    match done {
        Ok(report) => {
            let damages = &report.damages;
            damages.iter().for_each(|damage| eprintln!("chorale: {damage}"));
            let printed = print(&format!("{}{}", columns(&report.rows), report.text));
            if damages.is_empty() {
                printed
            } else {
                ExitCode::FAILURE
            }
        }
        Err(reason) => {
            eprintln!("chorale: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(target: &str, address: &str, job: &BackupJob) -> Result<JobReport, String> {
    let place = TargetPlace::parse(target).map_err(|error| error.to_string())?;
    let (stop, bar) = (stop_flag()?, ProgressBar::new());
    let done = match &place {
        TargetPlace::OfNode(directory) => of_node(address, directory, job, &stop, &bar),
        place => here(place, address, job, &stop, &bar).map_err(|error| error.to_string()),
    };
    bar.finish();
    done
}

/// Does it in this process.
fn here(
    place: &TargetPlace,
    address: &str,
    job: &BackupJob,
    stop: &AtomicBool,
    bar: &ProgressBar,
) -> Result<JobReport, BackupError> {
    let environment = |name: &str| std::env::var(name).ok();
    if let (TargetPlace::Directory(path), false) = (place, job.only_reads()) {
        node::refuse_data_directory(path)?;
    }
    let target = match job.only_reads() {
        true => place.open_existing(environment)?,
        false => place.open(environment)?,
    };
    let members = || {
        let view = admin_client::cluster(address).map_err(BackupError::Failed)?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        Ok(node::backup_members(&view, host))
    };
    let password = std::env::var(http::PASSWORD_VARIABLE).ok();
    job.run(&JobContext {
        target: &*target,
        members: &members,
        password: password.as_deref().filter(|password| !password.is_empty()),
        progress: bar,
        stop,
    })
}

/// Has the node do it, and waits for its end.
fn of_node(
    address: &str,
    directory: &str,
    job: &BackupJob,
    stop: &AtomicBool,
    bar: &ProgressBar,
) -> Result<JobReport, String> {
    let begin = JobOrder::Begin {
        directory: directory.to_owned(),
        job: job.clone(),
    };
    let number = order(address, &begin)?;
    let (mut heard, mut said, mut is_stopping) = (Instant::now(), 0, false);
    loop {
        if stop.load(Ordering::Relaxed) && !is_stopping {
            is_stopping = true;
            order(address, &JobOrder::Stop { number })?;
            bar.say("the node is told to stop; again to wait no longer");
        }
        match look(address, number) {
            Ok(view) => {
                heard = Instant::now();
                tell(&view, &mut said, bar);
                match view.end {
                    Some(JobEnd::Done(report)) => return Ok(report),
                    Some(JobEnd::Failed(reason)) => return Err(format!("{address} says: {reason}")),
                    None => {}
                }
            }
            Err(Lost::Silent(why)) if heard.elapsed() > SILENCE_MAX => {
                return Err(format!(
                    "{why}. What becomes of the {} is not known: its log says it, and chorale admin status if it is up",
                    job.in_words(&format!("node:{directory}"))
                ));
            }
            Err(Lost::Silent(_)) => {}
            Err(Lost::Gone) => {
                return Err(format!(
                    "{address} knows nothing of the {} any more: it was started again. Nothing is half done in the directory: begin anew",
                    job.in_words(&format!("node:{directory}"))
                ));
            }
        }
        thread::sleep(ASKED_EVERY);
    }
}

/// Why a job is not seen.
enum Lost {
    /// The node does not answer, for this reason.
    Silent(String),
    /// It has no such job.
    Gone,
}

fn look(address: &str, number: u64) -> Result<JobView, Lost> {
    let page = admin_client::page(address, JOBS_PAGE).map_err(Lost::Silent)?;
    let page = JobsPage::from_json(&page)
        .map_err(|error| Lost::Silent(admin_client::is_other_version(address, &error)))?;
    let mut jobs = page.jobs.into_iter();
    jobs.find(|job| job.number == number).ok_or(Lost::Gone)
}

/// Shows what is new.
fn tell(view: &JobView, said: &mut u64, bar: &ProgressBar) {
    for (number, sentence) in (view.said_before..).zip(&view.said) {
        if number >= *said {
            bar.say(sentence);
            *said = number + 1;
        }
    }
    if !view.step.is_empty() && view.end.is_none() {
        bar.at(&view.step, view.done, view.all);
    }
}

fn order(address: &str, order: &JobOrder) -> Result<u64, String> {
    let answer = http::post(
        address,
        JOBS_PAGE,
        (admin::CONFIRMATION, "backup"),
        &order.to_json(),
    );
    let answer = answer.map_err(|error| format!("no answer from {address}: {error}"))?;
    match answer.status {
        200 => JobAnswer::from_json(&answer.body)
            .map(|answer| answer.number)
            .map_err(|error| admin_client::is_other_version(address, &error)),
        404 | 405 => Err(format!(
            "{address} knows nothing of jobs on backups: it is of an older version of Chorale"
        )),
        _ => Err(format!("{address} answers: {}", answer.body.trim_end())),
    }
}

/// A flag that is set when somebody wants the command to stop; the second time the process ends at once.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| format!("cannot be told of signals: {error}"))?;
    }
    Ok(stop)
}
