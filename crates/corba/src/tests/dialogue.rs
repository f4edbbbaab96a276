//! A client's side of a conversation with a protocol.

use crate::exceptions::Exception;
use crate::keys::ObjectKey;
use crate::naming::NamingLimits;
use crate::table;
use crate::{Compatibility, Effect, ObjectRequest, Protocol, ProtocolSettings};
use accounts::{Account, Accounts, Ceilings};
use engine::{ChannelLimits, HierarchyLimits, SettingsPatch};
use giop::cdr::{CharSet, Encoding, Endian, Reader, Version, Writer};
use giop::exception::{Kind, SystemException};
use giop::ior::{IiopProfile, Ior};
use giop::message::{
    Header, Reply, ReplyHead, ReplyStatus, Request, RequestHead, Response, begin_reply, begin_request,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) version: Version,
    pub(crate) endian: Endian,
}

/// Every way in which a client can speak.
pub(crate) const STYLES: [Style; 6] = [
    Style { version: Version::V1_0, endian: Endian::Big },
    Style { version: Version::V1_0, endian: Endian::Little },
    Style { version: Version::V1_1, endian: Endian::Big },
    Style { version: Version::V1_1, endian: Endian::Little },
    Style { version: Version::V1_2, endian: Endian::Big },
    Style { version: Version::V1_2, endian: Endian::Little },
];

/// Lengths at which the arguments of one call are cut, about.
const CUTS_MAX: usize = 2_000;

/// How a proxy for structured events is obtained, and connected, for each kind of client.
pub(crate) const PUSH_CONSUMER: [&str; 2] = ["obtain_notification_push_supplier", "connect_structured_push_consumer"];
pub(crate) const PULL_CONSUMER: [&str; 2] = ["obtain_notification_pull_supplier", "connect_structured_pull_consumer"];
pub(crate) const PUSH_SUPPLIER: [&str; 2] = ["obtain_notification_push_consumer", "connect_structured_push_supplier"];

pub(crate) fn settings(nonce_seed: u64) -> ProtocolSettings {
    ProtocolSettings {
        host: "192.0.2.7".into(),
        port: 2809,
        secure: None,
        delivery: SettingsPatch::default(),
        limits: ChannelLimits::default(),
        hierarchy: HierarchyLimits::default(),
        memory_bytes_max: 1 << 40,
        has_store: false,
        naming: NamingLimits::default(),
        compatibility: Compatibility::default(),
        chars: CharSet::Latin1,
        key_numbers: crate::KeyNumbers::Seeded(nonce_seed),
    }
}

/// A client that may have everything.
pub(crate) fn somebody() -> &'static Arc<Account> {
    static SOMEBODY: LazyLock<Arc<Account>> =
        LazyLock::new(|| Accounts::new(Ceilings::new(100)).account_of(IpAddr::from([127, 0, 0, 1])));
    &SOMEBODY
}

/// Another account, unknown to all others.
pub(crate) fn somebody_else() -> Arc<Account> {
    Accounts::new(Ceilings::new(100)).account_of(IpAddr::from([127, 0, 0, 2]))
}

pub(crate) struct Dialogue {
    pub(crate) protocol: Protocol,
    /// Account of the client that asks.
    pub(crate) principal: Arc<Account>,
    pub(crate) style: Style,
    /// What was called: interface of the object, operation.
    pub(crate) called: BTreeSet<(&'static str, String)>,
    /// Repository ids of the exceptions that came back.
    pub(crate) raised: BTreeSet<String>,
}

/// The body of a reply.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    phase: usize,
    encoding: Encoding,
}

impl Body {
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::with_phase(&self.bytes, self.phase, self.encoding)
    }

    /// Reads the whole body.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let mut reader = self.reader();
        let result = read(&mut reader);
        reader.finish("reply").unwrap();
        result
    }
}

/// An exception as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Thrown {
    pub(crate) id: String,
    pub(crate) members: Body,
}

impl Thrown {
    /// The name at the end of the repository id.
    pub(crate) fn name(&self) -> &str {
        self.id.rsplit('/').next().unwrap().strip_suffix(":1.0").unwrap()
    }
}

pub(crate) trait Expect {
    /// The exception with that name, or failure of the test.
    fn raises(self, name: &str) -> Body;
}

impl<T: core::fmt::Debug> Expect for Result<T, Thrown> {
    #[track_caller]
    fn raises(self, name: &str) -> Body {
        let thrown = self.expect_err("an exception");
        assert_eq!(thrown.name(), name, "{}", thrown.id);
        thrown.members
    }
}

impl Dialogue {
    pub(crate) fn new(style: Style) -> Self {
        Self::with(style, settings(1))
    }

    pub(crate) fn with(style: Style, settings: ProtocolSettings) -> Self {
        let principal = Arc::clone(somebody());
        Self { protocol: Protocol::new(settings), principal, style, called: BTreeSet::new(), raised: BTreeSet::new() }
    }

    /// The reference that a `corbaloc` URL with this key means.
    pub(crate) fn bootstrap(&self, key: &str) -> Ior {
        let key = key.as_bytes().to_vec();
        let profile = IiopProfile { version: Version::V1_0, host: String::new(), port: 0, key, components: Vec::new() };
        Ior::new("", profile)
    }

    /// Calls an operation in whole messages. On the way it tries the same call with its arguments cut at every length (at
    /// [`CUTS_MAX`] of them if they are longer) and with an octet too many, each of which has to be refused without any effect.
    #[track_caller]
    pub(crate) fn call(
        &mut self,
        object: &Ior,
        operation: &str,
        arguments: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Body, Thrown> {
        self.do_call(object, operation, true, arguments)
    }

    /// Calls an operation, as it is: for what takes long, or is to be asked for once only.
    #[track_caller]
    pub(crate) fn quick(
        &mut self,
        object: &Ior,
        operation: &str,
        arguments: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Body, Thrown> {
        self.do_call(object, operation, false, arguments)
    }

    #[track_caller]
    fn do_call(
        &mut self,
        object: &Ior,
        operation: &str,
        with_damaged: bool,
        arguments: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Body, Thrown> {
        let key = &object.iiop().expect("a reference").key;
        let request = self.request(key, operation, arguments);
        let header = Header::parse(&request).unwrap();
        let parsed = Request::parse(&request, &header).unwrap();
        let args = parsed.body(&request, &header, CharSet::Latin1);
        self.note(key, operation);
        if with_damaged {
            self.try_damaged(key, operation, &args);
        }
        let principal = Arc::clone(&self.principal);
        let reply = self.answer(&ObjectRequest { key, operation, args, principal: &principal });
        let header = Header::parse(&reply).unwrap();
        let parsed = Reply::parse(&reply, &header).unwrap();
        let mut reader = parsed.body(&reply, &header, CharSet::Latin1);
        if parsed.status == ReplyStatus::NoException {
            return Ok(body(&reader));
        }
        let id = reader.clone().text().unwrap();
        self.raised.insert(id.clone());
        if parsed.status == ReplyStatus::SystemException {
            let exception = SystemException::read(&mut reader).unwrap();
            let is_meant = operation == "get_filter" && self.protocol.objects.compatibility().unknown_filter_internal;
            assert!(is_meant || exception.kind != Kind::Internal, "{operation}");
            assert_ne!(exception.kind, Kind::Unknown, "{operation}");
            reader.clone().finish("system exception").unwrap();
        } else {
            reader.text().unwrap();
        }
        Err(Thrown { id, members: body(&reader) })
    }

    /// Calls an operation that takes no arguments and has to succeed.
    #[track_caller]
    pub(crate) fn get(&mut self, object: &Ior, operation: &str) -> Body {
        match self.call(object, operation, |_| {}) {
            Ok(body) => body,
            Err(thrown) => panic!("{operation}: {}", thrown.id),
        }
    }

    /// Calls an operation that takes no arguments and returns an object.
    #[track_caller]
    pub(crate) fn object(&mut self, object: &Ior, operation: &str) -> Ior {
        self.get(object, operation).read(|r| Ior::read(r).unwrap())
    }

    /// Calls an operation that takes no arguments and returns a `long` or `unsigned long`.
    #[track_caller]
    pub(crate) fn number(&mut self, object: &Ior, operation: &str) -> u32 {
        self.get(object, operation).read(|r| r.u32().unwrap())
    }

    /// Calls an operation that takes no arguments and returns a sequence of ids.
    #[track_caller]
    pub(crate) fn ids(&mut self, object: &Ior, operation: &str) -> Vec<i32> {
        self.get(object, operation).read(|r| (0..r.u32().unwrap()).map(|_| r.i32().unwrap()).collect())
    }

    /// Calls an operation that takes a number and returns an object and an id.
    #[track_caller]
    pub(crate) fn made(&mut self, object: &Ior, operation: &str, argument: u32) -> (Ior, i32) {
        let body = self.call(object, operation, |w| w.u32(argument)).unwrap();
        body.read(|r| (Ior::read(r).unwrap(), r.i32().unwrap()))
    }

    /// Calls an operation that looks up an object by its id.
    #[track_caller]
    pub(crate) fn look_up(&mut self, object: &Ior, operation: &str, id: i32) -> Result<Ior, Thrown> {
        Ok(self.call(object, operation, |w| w.i32(id))?.read(|r| Ior::read(r).unwrap()))
    }

    /// Calls an operation that takes a reference and returns nothing.
    #[track_caller]
    pub(crate) fn give(&mut self, object: &Ior, operation: &str, argument: &Ior) -> Result<Body, Thrown> {
        self.call(object, operation, |w| argument.write(w))
    }

    /// A new proxy of an admin, connected by a client.
    #[track_caller]
    pub(crate) fn connected(&mut self, admin: &Ior, [obtain, connect]: [&str; 2], client: &Ior) -> Ior {
        let proxy = self.made(admin, obtain, 1).0;
        self.give(&proxy, connect, client).unwrap();
        proxy
    }

    /// Sets a property with an `unsigned long long` as its value, such as a time in units of 100 ns.
    #[track_caller]
    pub(crate) fn set_qos(&mut self, object: &Ior, name: &str, value: u64) {
        let write = |w: &mut Writer<'_>| {
            w.u32(1);
            w.string(name);
            w.u32(24); // tk_ulonglong
            w.u64(value);
        };
        self.quick(object, "set_qos", write).unwrap();
    }

    /// Makes a filter without constraints at a channel's factory.
    #[track_caller]
    pub(crate) fn filter_of(&mut self, channel: &Ior) -> Ior {
        let factory = self.object(channel, "_get_default_filter_factory");
        let made = self.call(&factory, "create_filter", |w| w.string("EXTENDED_TCL")).unwrap();
        made.read(|r| Ior::read(r).unwrap())
    }

    /// All that follows from what was called so far.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.protocol.poll_effect()).collect()
    }

    /// Calls that notified clients so far: object key, operation.
    pub(crate) fn notified(&mut self) -> Vec<(String, &'static str)> {
        let calls = self.effects().into_iter().filter_map(|effect| match effect {
            Effect::Call { to, operation, body, .. } => {
                assert!(body.is_empty());
                Some((String::from_utf8(to.iiop().unwrap().key.clone()).unwrap(), operation))
            }
            _ => None,
        });
        calls.collect()
    }

    /// Executes a call and gives the reply as a message.
    pub(crate) fn answer(&mut self, call: &ObjectRequest<'_>) -> Vec<u8> {
        let Style { version, endian } = self.style;
        let head = ReplyHead { version, endian, request_id: 5, status: ReplyStatus::NoException, contexts: &[] };
        let mut reply = Vec::new();
        let mut open = begin_reply(&mut reply, &head);
        let outcome = self.protocol.handle(call, &mut open.body(&mut reply, CharSet::Latin1));
        if let Err(exception) = outcome {
            let status = match exception {
                Exception::System(_) => ReplyStatus::SystemException,
                Exception::User { .. } => ReplyStatus::UserException,
                Exception::Forward(_) => ReplyStatus::LocationForward,
            };
            reply.clear();
            open = begin_reply(&mut reply, &ReplyHead { status, ..head });
            exception.write(&mut open.body(&mut reply, CharSet::Latin1));
        }
        open.finish(&mut reply);
        reply
    }

    fn request(&self, key: &[u8], operation: &str, arguments: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let Style { version, endian } = self.style;
        let mut request = Vec::new();
        let head = RequestHead {
            version,
            endian,
            request_id: 5,
            response: Response::Expected,
            key,
            operation: operation.as_bytes(),
            contexts: &[],
            body_phase: None,
        };
        let open = begin_request(&mut request, &head);
        arguments(&mut open.body(&mut request, CharSet::Latin1));
        open.finish(&mut request);
        request
    }

    fn note(&mut self, key: &[u8], operation: &str) {
        if let Some(servant) = servant_of(&self.protocol, key) {
            self.called.insert((table::type_id(servant), operation.to_owned()));
        }
    }

    fn try_damaged(&mut self, key: &[u8], operation: &str, args: &Reader<'_>) {
        let Some(servant) = servant_of(&self.protocol, key) else { return };
        if table::find(servant, operation).is_none() {
            return;
        }
        if operation.starts_with("push") {
            return; // events are not read here
        }
        let bytes = args.rest();
        let longer = [bytes, &[0]].concat();
        let cut = (0..bytes.len()).step_by(bytes.len() / CUTS_MAX + 1).map(|length| &bytes[..length]);
        for damaged in cut.chain([longer.as_slice()]) {
            let args = Reader::with_phase(damaged, args.phase(), args.encoding());
            let mut out = Vec::new();
            let mut reply = Writer::new(&mut out, args.encoding());
            let principal = &self.principal;
            let outcome = self.protocol.handle(&ObjectRequest { key, operation, args, principal }, &mut reply);
            let Err(Exception::System(exception)) = outcome else {
                panic!("{operation} took {} of {} octets: {outcome:?}", damaged.len(), bytes.len());
            };
            assert_eq!(exception.kind, Kind::Marshal, "{operation} with {} of {} octets", damaged.len(), bytes.len());
        }
    }
}

fn body(reader: &Reader<'_>) -> Body {
    Body { bytes: reader.rest().to_vec(), phase: reader.phase(), encoding: reader.encoding() }
}

/// The servant behind a key.
pub(crate) fn servant_of(protocol: &Protocol, key: &[u8]) -> Option<table::Servant> {
    protocol.objects.servant(protocol.objects.target(key)?).ok()
}

/// A client's own object.
pub(crate) fn client(key: &str) -> Ior {
    let profile = IiopProfile {
        version: Version::V1_2,
        host: "client.example".into(),
        port: 4711,
        key: key.as_bytes().to_vec(),
        components: vec![giop::codeset::CodeSetInfo::campanile().to_component()],
    };
    Ior::new("IDL:demo/Client:1.0", profile)
}

pub(crate) fn key_of(object: &Ior) -> ObjectKey {
    ObjectKey::parse(&object.iiop().unwrap().key).unwrap()
}

/// Writes event types.
pub(crate) fn write_types(types: &[(&str, &str)], w: &mut Writer<'_>) {
    w.length(types.len());
    for (domain, name) in types {
        w.string(domain);
        w.string(name);
    }
}

/// Writes a structured event with nothing in it.
pub(crate) fn write_empty_event(w: &mut Writer<'_>) {
    for text in ["", "", ""] {
        w.string(text);
    }
    w.u32(0);
    w.u32(0);
    w.u32(0);
}
