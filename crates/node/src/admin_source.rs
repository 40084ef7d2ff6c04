//! What the admin port shows of a node, from before it is ready for clients.

use crate::backup_jobs::BackupJobs;
use crate::goals;
use crate::meta::Input;
use crate::metrics::metrics;
use crate::readiness;
use crate::recovery;
use crate::start_progress::StartProgress;
use crate::status;
use crate::transactions;
use crate::view::View;
use admin::{
    Access, AdminSource, ClusterView, GoalError, GoalRequest, GoalsSet, Health, MovePlan, ProofKey,
    RecoverRequest, Recovered, TransactionsView,
};
use backup::{JobAnswer, JobOrder};
use gateway::{Shared, is_same_secret};
use ids::NodeId;
use options::Settings;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, mpsc};

/// What a node without a peer port says to whoever wants a backup.
const NO_BACKUPS: &str = "this node is in no cluster, and backups are of clusters: give it a peer-port";

/// What it says to whoever wants something of the cluster.
const NO_CLUSTER: &str = "this node is in no cluster";

/// See the file's header.
pub(crate) struct Source {
    /// As the operator wrote them: who may read before the cluster's own settings are known.
    settings: Settings,
    /// What is said of the node until it is ready.
    progress: Arc<StartProgress>,
    /// Empty until the node is ready for clients.
    node: OnceLock<Shown>,
}

/// What there is to be shown of a node that serves clients.
pub(crate) struct Shown {
    pub(crate) shared: Arc<Shared>,
    /// What is seen of the cluster, who the node is in it, and the thread that can change it.
    pub(crate) cluster: Option<(Arc<View>, NodeId, mpsc::Sender<Input>)>,
    /// Jobs on backups.
    pub(crate) backup_jobs: Arc<BackupJobs>,
}

impl Source {
    pub(crate) fn new(settings: &Settings, progress: Arc<StartProgress>) -> Source {
        Source {
            settings: settings.clone(),
            progress,
            node: OnceLock::new(),
        }
    }

    /// The node is ready for clients.
    pub(crate) fn show(&self, shown: Shown) {
        let is_first = self.node.set(shown).is_ok();
        assert!(is_first, "a node becomes ready once");
    }

    fn settings(&self) -> Arc<Settings> {
        match self.node.get() {
            Some(node) => node.shared.settings(),
            None => Arc::new(self.settings.clone()),
        }
    }
}

impl AdminSource for Source {
    fn access(&self) -> Access {
        let settings = self.settings();
        match settings.requirepass {
            Some(_) => Access::Password,
            None if settings.protected_mode => Access::Loopback,
            None => Access::Open,
        }
    }

    fn is_password(&self, given: &[u8]) -> bool {
        let settings = self.settings();
        let expected = settings.requirepass.as_ref();
        expected.is_some_and(|expected| is_same_secret(given, expected.as_bytes()))
    }

    fn proof_key(&self) -> Option<ProofKey> {
        let words = self.settings.cluster_secret.as_deref();
        words.map(ProofKey::of_words)
    }

    fn names(&self) -> Vec<String> {
        let settings = self.settings();
        let advertised = settings.advertise.iter();
        advertised.map(|advertised| advertised.host.clone()).collect()
    }

    fn starting(&self) -> Option<String> {
        self.node.get().is_none().then(|| self.progress.sentence())
    }

    fn metrics(&self) -> String {
        let shown = self.node.get().map(|Shown { shared, cluster, .. }| {
            let cluster = cluster.as_ref();
            metrics(shared, cluster.map(|(view, me, _)| (&**view, *me)))
        });
        shown.unwrap_or_default()
    }

    fn cluster(&self) -> ClusterView {
        match self.node.get() {
            Some(Shown {
                shared,
                cluster: Some((view, me, _)),
                ..
            }) => status::cluster_view(shared, view, *me),
            Some(Shown {
                shared,
                cluster: None,
                ..
            }) => status::alone_view(shared),
            None => ClusterView::alone(),
        }
    }

    fn transactions(&self) -> TransactionsView {
        let shown = self.node.get().map(|Shown { shared, cluster, .. }| {
            let me = cluster.as_ref().map_or(1, |(_, me, _)| me.0);
            transactions::view(shared, me)
        });
        shown.unwrap_or_default()
    }

    fn recover(&self, recovery: &RecoverRequest) -> Result<Recovered, String> {
        match self.node.get() {
            Some(Shown {
                shared,
                cluster: Some((view, me, inputs)),
                ..
            }) => recovery::recover(shared, view, *me, inputs, recovery),
            _ => Err(NO_CLUSTER.to_owned()),
        }
    }

    fn set_goals(&self, request: &GoalRequest) -> Result<GoalsSet, GoalError> {
        match self.node.get() {
            Some(Shown {
                shared,
                cluster: Some((view, me, inputs)),
                ..
            }) => goals::set(shared, view, *me, inputs, request),
            _ => Err(GoalError::Refused(NO_CLUSTER.to_owned())),
        }
    }

    fn move_plan(&self, factor: Option<&str>) -> Result<MovePlan, String> {
        match self.node.get() {
            Some(Shown {
                cluster: Some((view, _, inputs)),
                ..
            }) => goals::move_plan(view, inputs, factor),
            _ => Err(NO_CLUSTER.to_owned()),
        }
    }

    fn order_backup(&self, order: &[u8]) -> Result<String, String> {
        let node = self.node.get().ok_or("this node is not ready yet")?;
        if node.cluster.is_none() {
            return Err(NO_BACKUPS.to_owned());
        }
        let number = node.backup_jobs.on_order(JobOrder::from_json(order)?)?;
        Ok(JobAnswer { number }.to_json())
    }

    fn backup_jobs(&self) -> String {
        let page = self.node.get().map(|node| node.backup_jobs.page());
        page.unwrap_or_default().to_json()
    }

    fn unready(&self) -> Vec<String> {
        if let Health::Unhealthy(reason) = self.health() {
            return vec![reason];
        }
        match self.node.get() {
            Some(Shown {
                shared,
                cluster: Some((view, me, _)),
                ..
            }) => readiness::unready(shared, view, *me),
            _ => Vec::new(),
        }
    }

    fn health(&self) -> Health {
        match self.node.get() {
            None => Health::Unhealthy(self.progress.sentence()),
            Some(node) if node.shared.is_stopping.load(Ordering::Relaxed) => {
                Health::Unhealthy("stopping".to_owned())
            }
            Some(node) if node.shared.loading.has_absent() => {
                Health::Unhealthy("what was kept of groups that no other node leads is being read".to_owned())
            }
            Some(_) => Health::Ok,
        }
    }
}
