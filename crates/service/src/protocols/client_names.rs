//! Names that clients give themselves, in any protocol.

use accounts::Account;
use giop::client_name::BadClientName;

use crate::counters::Counter;
use crate::lane::context::Context;

impl Context {
    /// Gives a client the configured name that matches what is known of it.
    pub(crate) fn name_by_configuration(&self, account: &Account) {
        account.identity().give_name(self.client_names.load().of(account));
    }

    /// Gives a client its own name, which it may repeat and not change.
    ///
    /// # Errors
    /// The reason for a refusal, which is counted and logged: the client goes on without a name.
    pub(crate) fn name_client(&mut self, account: &Account, name: Result<&str, BadClientName>) -> Result<(), String> {
        // A client may say it with each request.
        if name.is_ok_and(|name| account.identity().name().is_some_and(|has| **has == *name)) {
            return Ok(());
        }
        let why = match name.map(|name| account.set_name(name)) {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => "the client has said another name before".to_owned(),
            Ok(Err(spent)) => {
                self.counters.add(Counter::of_refusal(spent), 1);
                spent.to_string()
            }
            Err(bad) => bad.to_string(),
        };
        self.counters.add(Counter::ClientNamesRefused, 1);
        self.log(log::Level::Warn, || format!("a client at {} is not called as it says: {why}", account.from()));
        Err(why)
    }
}
