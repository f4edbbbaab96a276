//! All ways from outside to administration, for tests of how its time is divided.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use accounts::{Account, Principal, Resource};
use corba::{LocalChannel, LocalProxy, Part};
use engine::{ChannelId, DisconnectReason, Notice, Peer, ProxyId, ProxyKey};
use giop::cdr::CharSet;

use crate::admin::operators::VisitPurpose;
use crate::admin::values::{Command, Query};
use crate::lane::io::entrance::Visitor;
use crate::lane::io::slots::Token;
use crate::lane::links::messages::{LaneThread, SupplierNews, ToAdministration, Visit};
use crate::protocols::{Request, giop as corbas, local_proxies};

pub(crate) const KEY: ProxyKey = ProxyKey { channel: ChannelId(0), proxy: ProxyId(1) };

/// A message by each way to administration, as from a client with this account on its connection of that number.
pub(crate) fn by_each_way(account: &Arc<Account>, number: u64) -> Vec<(&'static str, ToAdministration)> {
    let charge = || account.charge_anyway(Resource::RequestBytes, 0);
    let of_giop = corbas::admin_messages::Request {
        lane: LaneThread::MAIN,
        connection: Token::from_bits(number),
        line: Arc::new(corba::Line::default()),
        offer: None,
        message: Vec::new(),
        chars: CharSet::Latin1,
        charge: charge(),
        may_be_large: false,
    };
    let channel = LocalChannel::from(KEY.channel);
    let local_proxy =
        |part| Box::new(LocalProxy { channel: channel.clone(), peer: Peer(1), name: String::new(), part, about: None });
    let of_local_proxy = |action| local_proxies::Request { client: number, action, charge: charge() }.into();
    let constraint = "$n == 1 and ".repeat(5_000) + "$n == 2";
    let subscribes = Part::Consumer {
        types: Vec::new(),
        constraint,
        output_form: engine::OutputForm(0),
        start: None,
        correlation: None,
        looks_on: false,
        durable: None,
        confirms: false,
        refuses: false,
        backlog_bytes_max: None,
    };
    let (to, by) = (|| sync_channel(1).0, || Principal::Operator(Arc::clone(account)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let visitor =
        Visitor { tcp, address: listener.local_addr().unwrap(), account: Arc::clone(account), looks_on: true };
    let (reason, gone) = (
        DisconnectReason::Gone,
        Notice::ConsumerDisconnected { key: KEY, peer: None, reason: DisconnectReason::Gone, discarded: 0 },
    );
    vec![
        ("a request over GIOP", ToAdministration::Request(Request::Giop(of_giop))),
        (
            "a subscription over JSON, Tempo or DDS",
            of_local_proxy(local_proxies::Action::Proxy(local_proxy(subscribes))),
        ),
        (
            "a publisher over JSON, Tempo or DDS",
            of_local_proxy(local_proxies::Action::Proxy(local_proxy(Part::Supplier))),
        ),
        ("a proxy of a connection that has ended", of_local_proxy(local_proxies::Action::Dismissal(KEY))),
        (
            "a consumer of a connection that has ended",
            of_local_proxy(local_proxies::Action::Disconnection(KEY, LocalProxy::FIRST_PEER)),
        ),
        ("a look at the topology over HTTP", ToAdministration::Query(Query::Topology, to(), by())),
        ("names over HTTP", ToAdministration::Query(Query::Names(vec![KEY]), to(), by())),
        ("drops over HTTP", ToAdministration::Query(Query::Drops, to(), by())),
        ("a command over HTTP", ToAdministration::Command(Command::Disconnect(KEY), to(), by())),
        ("a refusal of HTTP", ToAdministration::RefusedAct { by: by(), what: String::new(), why: "" }),
        ("a look at events over HTTP", {
            let visit = Visit { visitor, purpose: VisitPurpose::Look(KEY.channel), to: to() };
            ToAdministration::Visit(Box::new(visit))
        }),
        ("a consumer that is gone", ToAdministration::Notice(gone, None)),
        ("a supplier that is gone", ToAdministration::Supplier { key: KEY, news: SupplierNews::Disconnected(reason) }),
    ]
}
