//! A service that runs: where it is found, what it tells, how it ends.

use core::time::Duration;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use giop::ior::SecureTransport;

use super::{Service, StartError, Stopper, TlsServer, not_written};
use crate::admin::drain::Undone;
use crate::counters::Counters;
use crate::lane::links::messages::ToAdministration;

impl Service {
    /// The address it listens on, with the real port; where nothing is in the clear (`tls.required`), that for TLS.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which it takes lines of JSON, with the real port, if it does.
    #[must_use]
    pub const fn json_address(&self) -> Option<SocketAddr> {
        self.json_address
    }

    /// The address at which it takes clients of Tempo, with the real port, if it does: datagrams and connections.
    #[must_use]
    pub const fn tempo_address(&self) -> Option<SocketAddr> {
        self.tempo_address
    }

    /// The address at which it takes links of other services, with the real port, if it does.
    #[must_use]
    pub const fn links_address(&self) -> Option<SocketAddr> {
        self.links_address
    }

    /// The addresses at which it speaks TLS, with the real ports: to CORBA clients, for lines of JSON, to clients of Tempo, and for links.
    #[must_use]
    pub const fn tls_addresses(&self) -> [Option<SocketAddr>; 4] {
        self.tls_addresses
    }

    /// What handshakes are made with that are not the lanes' affair: those of HTTP. Nothing without `[tls]`.
    #[must_use]
    pub fn tls_server(&self) -> Option<TlsServer> {
        self.tls.as_ref().map(|(_, ends)| TlsServer(Arc::clone(ends)))
    }

    /// Reads the files of `[tls]` again: handshakes from now on are made with what they say, and connections that are there stay. Says
    /// whether there are any such files.
    ///
    /// # Errors
    /// When one cannot be used; then it stays as it was.
    pub fn reload_tls(&self) -> Result<bool, StartError> {
        let Some((config, ends)) = &self.tls else { return Ok(false) };
        ends.store(Arc::new(config.read()?));
        log::info!("certificates were read again: they are used for connections from now on");
        Ok(true)
    }

    /// The folder that has what outlives the process, if anything does.
    #[must_use]
    pub fn store_directory(&self) -> Option<&Path> {
        self.store_directory.as_deref()
    }

    /// The stringified reference of the event channel factory.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// A `corbaloc` URL for one of the bootstrap keys, such as `NotificationService` or `NameService`.
    #[must_use]
    pub fn corbaloc(&self, key: &str) -> String {
        let (host, port) = &self.advertised;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        match (port, self.secure) {
            (0, Some(SecureTransport { port, .. })) => format!("corbaloc:ssliop:1.2@{host}:{port}/{key}"),
            _ => format!("corbaloc::1.2@{host}:{port}/{key}"),
        }
    }

    /// The service's counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What of `[lanes]` and `[store]` is not as it was asked for, and what leaves the system unreachable or open to every host: a line for
    /// each, for the program that starts the service.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Calls `tell`, on any thread, when clients may look for the service: when the outside naming service has its name, and the reference
    /// file is written. At once where there is no such naming service, or it has it already.
    pub fn when_announced(&self, tell: impl FnOnce() + Send + 'static) {
        self.announcement.when_made(tell);
    }

    /// Whether that moment has come.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.announcement.is_made()
    }

    /// Announces the service, unless that is for an outside naming service to occasion.
    pub(super) fn announce(&self, is_outside: bool) -> Result<(), StartError> {
        let done = if is_outside { Ok(()) } else { self.announcement.make(&self.reference) };
        done.map_err(|error| not_written(&self.announcement, error))
    }

    /// Calls `tell`, on any thread, when a client asks for the end of the service (`shutdown` of TAO's monitor and control object), which
    /// it may where `compatibility.monitor_control` is set. The callback has to see to it that the service ends.
    pub fn on_shutdown_request(&self, tell: impl FnOnce() + Send + 'static) {
        self.shutdown_request.on_request(tell);
    }

    /// Whether another leader has taken over (`[standby]`): the service acknowledges nothing persistent any more, asks for its end
    /// ([`on_shutdown_request`](Self::on_shutdown_request)), and starts as a follower the next time.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.standby.as_ref().is_some_and(|standby| standby.shipping.is_superseded())
    }

    /// Stops the service at once: requests that it has taken are answered, clients are notified that their connections close, and its
    /// threads end. Events that consumers have yet to get are lost.
    pub fn shutdown(mut self) {
        self.stop(None);
    }

    /// Stops the service when it has delivered what it has taken, or `limit` is over, and says what was not delivered. From now
    /// on it accepts no connections, and answers what suppliers push with `TRANSIENT`.
    ///
    /// Does not wait for what consumers do not take: events of suspended ones, events with a `StartTime` to come, and events for a pull
    /// consumer that has not fetched anything for a second. What is not delivered is counted
    /// ([`Counter::Undelivered`](crate::Counter::Undelivered)) and logged by consumer.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Undone {
        self.stop(Some(limit))
    }

    /// What ends [`drain`](Self::drain) at once.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    fn stop(&mut self, limit: Option<Duration>) -> Undone {
        let Some(thread) = self.administration_thread.take() else { return Undone::default() };
        // There is room: no other thread asks at the same time. Administration ends the lanes when it has answered.
        let mut administration = self.administration.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = administration.send(ToAdministration::Stop(limit));
        drop(administration);
        // A thread that panicked has said so on standard error already.
        thread.join().unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop(None);
    }
}
