//! What kind of figure a counter is: a sum, a maximum or a level.

use super::Counter;

impl Counter {
    /// Whether it is a maximum: that of the service is the greatest of all threads, and not the sum.
    #[must_use]
    pub const fn is_maximum(self) -> bool {
        matches!(self, Self::CycleMax | Self::EventsQueuedMax)
    }

    /// Whether it is a level, which is 0 again when the thread that had it has ended.
    #[must_use]
    pub const fn is_level(self) -> bool {
        matches!(
            self,
            Self::ConnectionsOpen
                | Self::BidirectionalConnections
                | Self::JsonConnectionsOpen
                | Self::TempoConnectionsOpen
                | Self::LinksUp
                | Self::FederationServices
                | Self::FederatedNames
                | Self::TlsHandshakesUnderWay
                | Self::TempoSessions
                | Self::TempoAnnounced
                | Self::TempoTopics
                | Self::ClientsUnreachable
                | Self::EventsStored
                | Self::EventBytesStored
                | Self::DeadLettersStored
                | Self::OriginsStored
                | Self::OverflowEvents
                | Self::OverflowBytes
                | Self::HistoryEvents
                | Self::HistoryBytes
                | Self::StoreDiskBytes
                | Self::StoreFull
                | Self::StandbyEpoch
                | Self::StandbyInStep
                | Self::StandbyLagBatches
                | Self::StandbyLagBytes
                | Self::StandbyLagTime
                | Self::StandbyRecordAge
                | Self::HttpConnectionsOpen
                | Self::HttpStreamsOpen
                | Self::HttpWebSocketsOpen
                | Self::HttpFiguresBytes
                | Self::HttpFiguresLeftOut
        )
    }

    pub(super) fn join(self, values: impl Iterator<Item = u64>) -> u64 {
        if self.is_maximum() { values.max().unwrap_or(0) } else { values.sum() }
    }
}
