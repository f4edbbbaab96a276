//! Links to notification services that fail over an event.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use client::notify::{EventChannel, StructuredEvent};
use client::{ObjectRef, Orb, OrbOptions, Servant, ServantError};
use giop::cdr::{Reader, Writer};
use giop::exception::Kind;
use giop::value::Value;
use service::{Carrier, Config, Counter, Json, LinkDirections, LinkEntry, Service};

use crate::json::Lines;
use crate::logged;
use crate::peers::{await_count, wait_until};

/// A channel, its admin and its proxy in one, which raises `UNKNOWN` over some events, and `PERSIST_STORE` over another, four times.
#[derive(Default)]
struct Failing {
    /// Last digits of events over which it fails.
    digits: Vec<i32>,
    full: AtomicU32,
    own: OnceLock<ObjectRef>,
    taken: Mutex<Vec<i32>>,
    raised: AtomicU32,
}

impl Servant for Failing {
    fn type_id(&self) -> &str {
        EventChannel::REPOSITORY_ID
    }

    fn invoke(&self, operation: &str, args: &mut Reader<'_>, reply: &mut Writer<'_>) -> Result<(), ServantError> {
        match operation {
            "_get_default_supplier_admin" => self.own.get().unwrap().ior().write(reply),
            "obtain_notification_push_consumer" => {
                self.own.get().unwrap().ior().write(reply);
                reply.i32(7);
            }
            "push_structured_event" => {
                let event = StructuredEvent::read(args)?;
                let Some(Value::Long(number)) = event.field("number") else {
                    return Err(ServantError::bad_operation());
                };
                if *number == 9 && self.full.fetch_add(1, Ordering::Relaxed) < 4 {
                    return Err(ServantError::system(Kind::PersistStore));
                }
                if self.digits.contains(&(number % 10)) {
                    self.raised.fetch_add(1, Ordering::Relaxed);
                    return Err(ServantError::system(Kind::Unknown));
                }
                self.taken.lock().unwrap().push(*number);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The link was ended and made anew over such an event for ever, and nothing behind it crossed.
#[test]
fn an_event_over_which_the_far_service_fails_three_times_is_dropped_and_the_others_go_on() {
    const NAME: &str = "127.0.9.89, failing";
    let (near, failing) = published(NAME, vec![5]);
    assert_eq!(failing.raised.load(Ordering::Relaxed), 6, "three times each of two");
    await_count(&near, Counter::LinkEventsRejected, 2);
    assert_eq!(near.counters().read(Counter::LinksLost), 0, "the link stayed up");
    logged::await_line(&[NAME, "does not take an event", "UNKNOWN", "3 times"]);
}

/// A service that fails over everything, because its database is away, is not to be the end of all that waits for it.
#[test]
fn of_events_over_which_the_far_service_fails_one_after_the_other_one_a_session_is_dropped() {
    let (near, failing) = published("127.0.9.90, failing", vec![5, 6]);
    await_count(&near, Counter::LinkEventsRejected, 4);
    // The second of each two ended the session, and was dropped in the next.
    assert_eq!(failing.raised.load(Ordering::Relaxed), 18);
    assert!(near.counters().read(Counter::LinksLost) >= 2);
}

/// A service with a link to one that fails over events of these last digits, which has taken all others from 3 to 17.
fn published(name: &str, digits: Vec<i32>) -> (Service, Arc<Failing>) {
    logged::begin();
    let (orb, failing) = (Orb::new(OrbOptions::default()), Arc::new(Failing { digits, ..Failing::default() }));
    let active = orb.activate(Arc::clone(&failing) as Arc<dyn Servant>).unwrap();
    assert!(failing.own.set(active.reference().clone()).is_ok());
    let link = LinkEntry {
        name: name.into(),
        to: active.reference().ior().to_string(),
        channels: vec!["Weather".into()],
        direction: LinkDirections::Out,
        carrier: Carrier::Iiop,
        ..LinkEntry::default()
    };
    let json = Json { listen: Some("0".into()), ..Json::default() };
    let near = Service::start(Config { listen: "127.0.0.1:0".into(), link: vec![link], json, ..Config::default() });
    let near = near.unwrap();
    let mut lines = Lines::connect(&near);
    for number in 3..18 {
        let event =
            format!(r#""channel":"Weather","create":true,"type":"Weather/Wind","fields":{{"number":{number}}}"#);
        assert_eq!(lines.ask(&format!(r#"{{"op":"publish","id":7,{event}}}"#)), r#"{"ok":7}"#);
    }
    let others: Vec<i32> = (3..18).filter(|number| !failing.digits.contains(&(number % 10))).collect();
    wait_until("the others", || *failing.taken.lock().unwrap() == others);
    drop(active);
    (near, failing)
}
