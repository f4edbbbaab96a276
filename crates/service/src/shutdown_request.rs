//! Notification that a client has requested the end of the service, if clients may do so.

use std::sync::{Mutex, PoisonError};

/// Callback for the request.
type Tell = Box<dyn FnOnce() + Send>;

/// Callbacks, and whether a client has requested the end.
pub(crate) struct ShutdownRequest {
    /// `None` once a client has requested the end. Locked by the thread that starts the service and by administration, for a moment.
    waiting: Mutex<Option<Vec<Tell>>>,
}

impl Default for ShutdownRequest {
    fn default() -> Self {
        Self { waiting: Mutex::new(Some(Vec::new())) }
    }
}

impl ShutdownRequest {
    /// Notifies every waiting caller of a client's request.
    pub(crate) fn tell(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.into_iter().flatten().for_each(|tell| tell());
    }

    /// Calls `tell` when a client requests the end; at once if one has.
    pub(crate) fn on_request(&self, tell: impl FnOnce() + Send + 'static) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = &mut *waiting {
            return waiting.push(Box::new(tell));
        }
        drop(waiting);
        tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn all_are_notified_once_whenever_they_came() {
        let request = ShutdownRequest::default();
        let (sender, notified) = channel();
        let early = sender.clone();
        request.on_request(move || early.send("early").unwrap());
        assert!(notified.try_recv().is_err(), "no request came");
        request.tell();
        request.tell();
        request.on_request(move || sender.send("late").unwrap());
        assert_eq!(notified.iter().collect::<Vec<_>>(), ["early", "late"]);
    }
}
