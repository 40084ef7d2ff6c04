//! The newest map and settings of the cluster that a node knows.

use super::contact::Contact;
use super::effects::MetaEffects;
use super::message::MetaMessage;
use crate::map::RoutingMap;
use crate::settings::Setting;
use crate::state::State;
use ids::{Epoch, Incarnation, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the file's header.
#[derive(Default)]
pub(crate) struct ClusterView {
    map: Option<Arc<RoutingMap>>,
    settings: Arc<BTreeMap<String, Setting>>,
    settings_version: u64,
}

impl ClusterView {
    pub(crate) fn map(&self) -> Option<&Arc<RoutingMap>> {
        self.map.as_ref()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    pub(crate) fn settings_version(&self) -> u64 {
        self.settings_version
    }

    /// The node of a replica of the meta group that the map names.
    pub(crate) fn node_of(&self, member: Incarnation) -> Option<NodeId> {
        let mut stops = self.map.iter().flat_map(|map| &map.meta.replicas);
        let stop = stops.find(|stop| stop.incarnation == member)?;
        Some(stop.node)
    }

    /// Whether the map is of this cluster, and was not known yet.
    pub(crate) fn adopt_map(&mut self, map: &Arc<RoutingMap>, out: &mut MetaEffects) -> bool {
        let cluster = self.map.as_ref().map(|map| map.cluster);
        let is_ours = map.cluster.is_some() && cluster.is_none_or(|cluster| cluster == map.cluster);
        if !is_ours || map.epoch <= self.epoch() {
            return false;
        }
        self.map = Some(Arc::clone(map));
        out.map = Some(Arc::clone(map));
        true
    }

    pub(crate) fn adopt_settings(
        &mut self,
        version: u64,
        settings: Arc<BTreeMap<String, Setting>>,
        out: &mut MetaEffects,
    ) {
        if version > self.settings_version {
            (self.settings_version, self.settings) = (version, settings);
            out.settings = Some(Arc::clone(&self.settings));
        }
    }

    /// The state of a seat may be newer: takes its settings over, and makes its map.
    pub(crate) fn read(&mut self, state: &State, out: &mut MetaEffects) -> Option<Arc<RoutingMap>> {
        if state.settings_version() > self.settings_version {
            let settings = Arc::new(state.settings().clone());
            self.adopt_settings(state.settings_version(), settings, out);
        }
        let is_newer = state.cluster().is_some() && state.epoch() > self.epoch();
        is_newer.then(|| Arc::new(RoutingMap::of(state)))
    }

    /// Sends what is newer than what the other one has: settings first. By the map a start is over, and the node serves clients, who
    /// may need a password that is one of the settings.
    pub(crate) fn tell(&self, to: Contact, (epoch, settings_version): (Epoch, u64), out: &mut MetaEffects) {
        if self.settings_version > settings_version {
            let (version, settings) = (self.settings_version, Arc::clone(&self.settings));
            out.send(to, MetaMessage::Settings { version, settings });
        }
        if let Some(map) = self.map.clone().filter(|map| map.epoch > epoch) {
            out.send(to, MetaMessage::Map(map));
        }
    }
}
