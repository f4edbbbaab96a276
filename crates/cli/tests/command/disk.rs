//! A disk that takes nothing for a while: the limit on the size of files, set from outside.

use crate::restart::{Folder, exported, own_address};
use crate::support::{PROGRAM, Serve, TempPath};
use client::notify::{ClientType, EventChannelFactory, FilterGroupOperator, Property, find_channel};
use client::{InvokeError, Orb, OrbOptions};
use giop::exception::{Completed, Kind, SystemException};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::process::Command;
use testing::wait_until;

/// A service that is not killed for writing to a file that may not be larger.
fn serve(folder: &Folder, listen: &str, config: &TempPath) -> Serve {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", PROGRAM, "serve", "--listen", listen, "--log", "error"]);
    Serve::spawn(command.args(["--data", folder.path(), "--config", config.path()]))
}

fn let_write(serve: &Serve, may_write: bool) {
    let pid = Pid::from_raw(i32::try_from(serve.id()).unwrap()).unwrap();
    let current = if may_write { None } else { Some(0) };
    prlimit(Some(pid), Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
}

/// Clients that had made something while the disk was full waited for ever.
#[test]
fn a_client_that_changes_something_while_the_disk_takes_nothing_gets_an_answer_and_it_is_written_later() {
    let folder = Folder::new("full");
    let config = TempPath::file("within.toml", "[store]\nanswer_within_ms = 1000\n");
    let listen = own_address();
    let running = serve(&folder, &listen, &config);
    let address = running.address.clone();
    let orb = Orb::new(OrbOptions::default());
    let (channel, _) = find_channel(&orb.resolve_service(&address).unwrap(), None).unwrap();
    let make = || channel.new_for_consumers(FilterGroupOperator::Or).map(|(_, id)| id);
    let first = make().unwrap();
    let_write(&running, false);
    let not_kept = |completed| SystemException { kind: Kind::PersistStore, minor: 0, completed };
    // What was made is undone, whatever it is: its maker has no reference to it.
    let factory = EventChannelFactory::narrow(orb.resolve_service(&address).unwrap()).unwrap();
    let filters = channel.default_filter_factory().unwrap().unwrap();
    let consumers = channel.default_consumer_admin().unwrap();
    let told = [
        make().map(drop).unwrap_err(),
        factory.create_channel(&[], &[]).map(drop).unwrap_err(),
        filters.create_filter("EXTENDED_TCL").map(drop).unwrap_err(),
        consumers.obtain_notification_push_supplier(ClientType::Structured).map(drop).unwrap_err(),
    ];
    for error in told {
        let InvokeError::System { exception, .. } = error else { panic!("{error:?}") };
        assert_eq!(exception, not_kept(Completed::No));
    }
    assert_eq!(running.print("stats", &["changes_not_stored"]), "changes_not_stored 4\n");
    assert_eq!(channel.get_all_consumeradmins().unwrap().len(), 2);
    assert_eq!(factory.get_all_channels().unwrap().len(), 1);
    assert!(consumers.push_suppliers().unwrap().is_empty());
    // What was changed is changed, and a client that only asks sees that.
    let Err(InvokeError::System { exception, .. }) = channel.set_qos(&[Property::new("Priority", 5_i16)]) else {
        panic!("it was kept")
    };
    assert_eq!(exception, not_kept(Completed::Yes));
    assert!(channel.get_qos().unwrap().contains(&Property::new("Priority", 5_i16)));
    assert_eq!(running.print("stats", &["changes_not_stored"]), "changes_not_stored 5\n");
    let there = channel.get_all_consumeradmins().unwrap();
    let_write(&running, true);
    let mut last = None;
    wait_until("the disk to take something", || {
        last = make().ok();
        last.is_some()
    });
    let before = exported(&running);
    drop(running);
    let running = serve(&folder, &address, &config);
    assert_eq!(exported(&running), before);
    let orb = Orb::new(OrbOptions::default());
    let restored = find_channel(&orb.resolve_service(&address).unwrap(), None).unwrap().0;
    let now = restored.get_all_consumeradmins().unwrap();
    assert!([first, last.unwrap()].iter().chain(&there).all(|admin| now.contains(admin)), "{now:?} of {there:?}");
}
