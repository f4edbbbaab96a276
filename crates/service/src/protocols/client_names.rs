//! Names that clients say of themselves, whichever protocol they speak.

use accounts::Account;
use giop::client_name::BadClientName;

use crate::counters::Counter;
use crate::lane::context::Context;

impl Context {
    /// Gives a client the name that it says, which it may repeat and not change.
    ///
    /// # Errors
    /// Says why the client does not get it, which is counted and logged: the client goes on without.
    pub(crate) fn name_client(&mut self, account: &Account, name: Result<&str, BadClientName>) -> Result<(), String> {
        let has = |name: &str| account.identity().name().is_some_and(|has| **has == *name);
        let why = match name.map(|name| (name, account.set_name(name))) {
            Ok((_, Ok(true))) => return Ok(()),
            Ok((name, Ok(false))) if has(name) => return Ok(()),
            Ok((_, Ok(false))) => "the client has said another name before".to_owned(),
            Ok((_, Err(spent))) => {
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
