//! What a lane and administration have to do with each other, from the lane's side.

use engine::ProxyKey;
use hashbrown::HashMap;

use crate::lane::draining::Draining;
use crate::lane::links::mail::ToAdministration;
use crate::lane::links::post::Post;
use crate::lane::reports::Reports;
use crate::lane::survey::Surveying;

/// What administration is told by a lane, at once or when there is room.
pub(crate) struct Office {
    /// For what need not be told if there is no room.
    pub(crate) administration: Post<ToAdministration>,
    /// What waits to be told.
    pub(crate) reports: Reports,
    /// What it is being told of the outboxes, piece by piece.
    pub(crate) surveying: Option<Surveying>,
    /// Whether the service is about to end.
    pub(crate) draining: Draining,
    /// Why consumers have begun to fail, until the notices of that go out.
    pub(crate) failures: HashMap<ProxyKey, String>,
}

impl Office {
    pub(crate) fn new(administration: Post<ToAdministration>) -> Self {
        Self {
            administration,
            reports: Reports::new(),
            surveying: None,
            draining: Draining::default(),
            failures: HashMap::new(),
        }
    }
}
