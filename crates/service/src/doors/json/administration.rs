//! What administration does for this door.

use super::mail::{Request, Wanted, encode, refusal};
use crate::admin::values::Declined;
use crate::doors::{Answered, Fault, Objects};

impl Request {
    /// Makes a proxy, or lets one go.
    pub(crate) fn execute(&self, objects: &mut Objects) -> Answered {
        match &self.wanted {
            Wanted::Proxy(guest) => {
                let proxy = objects.welcome(guest.clone(), self.charge.account());
                Answered { bytes: encode(&proxy), fault: proxy.is_err().then_some(Fault::Other) }
            }
            Wanted::Dismissal(key) => {
                objects.dismiss_guest(*key);
                Answered::default()
            }
        }
    }

    /// Says why it is not done.
    pub(crate) fn decline(why: Declined) -> Answered {
        Answered { bytes: refusal(&why), fault: Some(Fault::Other) }
    }
}
