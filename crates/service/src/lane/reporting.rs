//! What a lane and administration have to do with each other, from the lane's side.

use engine::ProxyKey;
use hashbrown::HashMap;

use crate::lane::draining::Draining;
use crate::lane::links::mailbox::Mailbox;
use crate::lane::links::messages::ToAdministration;
use crate::lane::reports::Reports;
use crate::lane::survey::Surveying;

/// A lane's reports to administration, sent at once or when there is room.
pub(crate) struct Reporting {
    /// For reports that may be left out if there is no room.
    pub(crate) administration: Mailbox<ToAdministration>,
    /// Reports that wait for room.
    pub(crate) reports: Reports,
    /// The survey of the outboxes under way, which is reported piece by piece.
    pub(crate) surveying: Option<Surveying>,
    /// Whether the service is about to end.
    pub(crate) draining: Draining,
    /// Why consumers have begun to fail, until the notices of that go out.
    pub(crate) failures: HashMap<ProxyKey, String>,
}

impl Reporting {
    pub(crate) fn new(administration: Mailbox<ToAdministration>) -> Self {
        Self {
            administration,
            reports: Reports::new(),
            surveying: None,
            draining: Draining::default(),
            failures: HashMap::new(),
        }
    }
}
