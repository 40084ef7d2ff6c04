//! The newest map and settings of the cluster that a node knows, and how the map came to be what it is.
//!
//! Who has a map of before is told what has changed since, as long as that is remembered; who has none, one that was never known here, or one
//! from before all that is remembered, is told the whole.

use super::contact::Contact;
use super::effects::MetaEffects;
use super::message::MetaMessage;
use crate::map::RoutingMap;
use crate::map_difference::{ChangedNames, MapDifference, MapDigest};
use crate::settings::Setting;
use crate::state::State;
use ids::{Epoch, Incarnation, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Versions of the map that it is remembered how others lead on from. Who has an earlier one is told the whole.
const VERSIONS_MAX: usize = 256;

/// Nodes and groups that are named for them, together: as many as there can be. Beyond it the oldest are forgotten.
const NAMES_MAX: usize = 8_192;

/// A map, and its digest.
struct KnownMap {
    map: Arc<RoutingMap>,
    digest: MapDigest,
}

/// What changed in the map when a version was followed by the next that was known here.
struct Step {
    base: Epoch,
    changed: ChangedNames,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct ClusterView {
    known: Option<KnownMap>,
    /// The oldest first. Each begins where the one before ends.
    steps: VecDeque<Step>,
    /// How many they name.
    names: usize,
    /// Those that were sent to others, by what they lead from. They end with the map that they lead to.
    sent: BTreeMap<Epoch, Arc<MapDifference>>,
    settings: Arc<BTreeMap<String, Setting>>,
    settings_version: u64,
}

/// What came of a map, or of a difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Adopted {
    News(Arc<RoutingMap>),
    /// It is of another cluster, or not newer than what is known.
    Old,
    /// It leads on from a later map than is known: something was lost on the way.
    Ahead,
    /// It leads on from another map than is known.
    Unfit,
}

impl ClusterView {
    pub(crate) fn map(&self) -> Option<&Arc<RoutingMap>> {
        self.known.as_ref().map(|known| &known.map)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map().map_or(Epoch(0), |map| map.epoch)
    }

    pub(crate) fn settings_version(&self) -> u64 {
        self.settings_version
    }

    /// The node of a replica of the meta group that the map names.
    pub(crate) fn node_of(&self, member: Incarnation) -> Option<NodeId> {
        let mut stops = self.map().into_iter().flat_map(|map| &map.meta.replicas);
        let stop = stops.find(|stop| stop.incarnation == member)?;
        Some(stop.node)
    }

    /// Whether the map is of this cluster, and was not known yet; or is to take the place of another one of its version.
    pub(crate) fn adopt_map(
        &mut self,
        map: &Arc<RoutingMap>,
        may_replace: bool,
        out: &mut MetaEffects,
    ) -> bool {
        let cluster = self.map().map(|map| map.cluster);
        let is_ours = map.cluster.is_some() && cluster.is_none_or(|cluster| cluster == map.cluster);
        let is_other = || self.map().is_some_and(|known| known != map);
        let is_news = map.epoch > self.epoch() || may_replace && map.epoch == self.epoch() && is_other();
        if !is_ours || !is_news {
            return false;
        }
        let digest = match &self.known {
            Some(known) if known.map.groups.len() == map.groups.len() && !may_replace => {
                let changed = ChangedNames::between(&known.map, map);
                known.digest.after(&known.map, map, &changed)
            }
            _ => MapDigest::of(map),
        };
        self.follow(Arc::clone(map), digest, out);
        true
    }

    /// Takes over what has changed.
    pub(crate) fn adopt_difference(&mut self, difference: &MapDifference, out: &mut MetaEffects) -> Adopted {
        let Some(known) = &self.known else {
            return Adopted::Ahead;
        };
        if known.map.cluster != difference.cluster || difference.epoch <= known.map.epoch {
            return Adopted::Old;
        }
        let Some((map, digest)) = difference.apply(&known.map, known.digest) else {
            return match known.map.epoch < difference.base {
                true => Adopted::Ahead,
                false => Adopted::Unfit,
            };
        };
        let map = Arc::new(map);
        self.follow(Arc::clone(&map), digest, out);
        Adopted::News(map)
    }

    fn follow(&mut self, map: Arc<RoutingMap>, digest: MapDigest, out: &mut MetaEffects) {
        self.sent.clear();
        if let Some(known) = &self.known {
            let changed = ChangedNames::between(&known.map, &map);
            let base = known.map.epoch;
            if base == map.epoch {
                // It takes the place of another one of its version, from which nobody leads on.
                (self.steps, self.names) = (VecDeque::new(), 0);
            } else {
                self.names += changed.len();
                self.steps.push_back(Step { base, changed });
            }
        }
        while (self.steps.len() > VERSIONS_MAX || self.names > NAMES_MAX)
            && let Some(oldest) = self.steps.pop_front()
        {
            self.names -= oldest.changed.len();
        }
        out.map = Some(Arc::clone(&map));
        self.known = Some(KnownMap { map, digest });
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
        let before = self.known.as_ref().map(|known| &*known.map);
        is_newer.then(|| Arc::new(RoutingMap::following(before, state)))
    }

    /// Sends what is newer than what the other one has: settings first. By the map a start is over, and the node serves clients, who
    /// may need a password that is one of the settings. Not every build takes differences.
    pub(crate) fn tell(
        &mut self,
        to: Contact,
        (epoch, settings_version): (Epoch, u64),
        takes_differences: bool,
        out: &mut MetaEffects,
    ) {
        if self.settings_version > settings_version {
            let (version, settings) = (self.settings_version, Arc::clone(&self.settings));
            out.send(to, MetaMessage::Settings { version, settings });
        }
        let Some(map) = self.map().cloned().filter(|map| map.epoch > epoch) else {
            return;
        };
        let difference = takes_differences.then(|| self.difference_from(epoch)).flatten();
        let message = difference.map_or(MetaMessage::Map(map), MetaMessage::Difference);
        out.send(to, message);
    }

    /// What has changed since a version that was known here.
    fn difference_from(&mut self, base: Epoch) -> Option<Arc<MapDifference>> {
        if let Some(sent) = self.sent.get(&base) {
            return Some(Arc::clone(sent));
        }
        let first = self.steps.binary_search_by_key(&base, |step| step.base).ok()?;
        let known = self.known.as_ref()?;
        let mut changed = ChangedNames::default();
        self.steps
            .range(first..)
            .for_each(|step| changed.extend(&step.changed));
        let difference = Arc::new(MapDifference::to(&known.map, known.digest, base, &changed));
        self.sent.insert(base, Arc::clone(&difference));
        Some(difference)
    }
}
