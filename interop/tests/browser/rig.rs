//! A service with a console, and clients of it.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use client::notify::{
    ClientType, ConsumerAdmin, EventChannelFactory, Property, StructuredEvent, StructuredProxyPullSupplier,
    StructuredProxyPushSupplier, find_channel,
};
use client::{ConsumerOptions, ObjectRef, Orb, OrbOptions, SimpleConsumer, SimpleSupplier};
use console::Console;
use giop::url::Corbaloc;
use service::{Answer, Config, ConsumerStatus, Delivery, Http, Query, Service, Tls};
use testing::certificates::{Authority, Certified};
use testing::{EndInTime, TempPath};

pub(crate) const TOKEN: &str = "0123456789abcdef-of-this-test";

pub(crate) struct Rig {
    pub(crate) service: Service,
    console: Option<Console>,
    config: Config,
    /// Kept for as long as the console may read it.
    _token: Option<TempPath>,
}

impl Rig {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_by(name, Config { http: Http { listen: Some("0".into()), ..Http::default() }, ..Config::default() })
    }

    /// Over TLS and nothing else.
    pub(crate) fn start_secure(name: &str) -> Self {
        let authority = Authority::new(name);
        let Certified { certificate, key, .. } = authority.certify("console");
        let tls =
            Tls { http_listen: Some("0".into()), certificate: Some(certificate), key: Some(key), ..Tls::default() };
        Self::start_by(name, Config { tls, ..Config::default() })
    }

    /// Without a token's file: nothing can be changed over HTTP.
    pub(crate) fn start_read_only() -> Self {
        let http = Http { listen: Some("0".into()), ..Http::default() };
        let config = Config { listen: "127.0.0.1:0".into(), http, ..Config::default() };
        let service = Service::start(config.clone()).unwrap();
        let console = Console::start(&config, &service).unwrap();
        Self { service, console, config, _token: None }
    }

    fn start_by(name: &str, config: Config) -> Self {
        let token = TempPath::file(name, TOKEN);
        let http = Http { token_file: Some(token.to_path_buf()), ..config.http };
        // A mute consumer is behind, and its connection is not given up, however long the browser takes.
        let delivery = Delivery { connect_timeout_ms: 600_000, reply_timeout_ms: 86_400_000, ..config.delivery };
        let config = Config { listen: "127.0.0.1:0".into(), http, delivery, ..config };
        let service = Service::start(config.clone()).unwrap();
        let console = Console::start(&config, &service).unwrap();
        Self { service, console, config, _token: Some(token) }
    }

    pub(crate) fn url(&self) -> String {
        let console = self.console.as_ref().unwrap();
        let (plain, secure) = (console.address(), console.secure_address());
        let plain = plain.map(|address| format!("http://{address}/"));
        plain.or_else(|| Some(format!("https://{}/", secure?))).unwrap()
    }

    /// Ends the console for so long, and serves it again at its address.
    pub(crate) fn without_console(&mut self, meanwhile: impl FnOnce()) {
        self.config.http.listen = self.console.take().and_then(|console| Some(console.address()?.to_string()));
        meanwhile();
        self.console = Console::start(&self.config, &self.service).unwrap();
    }

    /// Events that somebody takes, until it is dropped.
    pub(crate) fn traffic(&self) -> Traffic {
        let url = self.service.corbaloc("NotificationService");
        let channel = self.named_channel("Weather");
        let consumer = SimpleConsumer::connect(&url, Some(channel), ConsumerOptions::default(), |_| Ok(())).unwrap();
        let supplier = self.supplier(Some(channel));
        let goes_on = Arc::new(AtomicBool::new(true));
        let going = Arc::clone(&goes_on);
        let thread = thread::spawn(move || {
            while going.load(Ordering::Relaxed) {
                supplier.publish(&temperature(20.5, "north")).unwrap();
            }
        });
        Traffic { goes_on, thread: Some(thread), _consumer: consumer }
    }

    /// The service, for consumers and channels: a client of another name than the suppliers.
    fn found(&self) -> ObjectRef {
        let options = OrbOptions { name: Some("rig".to_owned()), ..OrbOptions::default() };
        Orb::new(options).resolve(&self.service.corbaloc("NotificationService")).unwrap()
    }

    pub(crate) fn supplier(&self, channel: Option<i32>) -> SimpleSupplier {
        SimpleSupplier::connect(&self.service.corbaloc("NotificationService"), channel).unwrap()
    }

    pub(crate) fn new_channels(&self, count: usize) {
        let factory = EventChannelFactory::unchecked(self.found());
        (0..count).for_each(|_| drop(factory.create_channel(&[], &[]).unwrap()));
    }

    pub(crate) fn named_channel(&self, name: &str) -> i32 {
        EventChannelFactory::unchecked(self.found()).create_named_channel(&[], &[], name).unwrap().1
    }

    /// A consumer that is pushed to and never answers.
    pub(crate) fn mute_consumer(&self, channel: i32, key: &str) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, key) = (listener.local_addr().unwrap(), key.replace('<', "%3C").replace('>', "%3E"));
        let location: Corbaloc = format!("corbaloc:iiop:1.2@{address}/{key}").parse().unwrap();
        let reference = location.to_ior("IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0");
        let (channel, _) = find_channel(&self.found(), Some(channel)).unwrap();
        let admin = channel.default_consumer_admin().unwrap();
        let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
        let orb = Orb::new(OrbOptions::default());
        StructuredProxyPushSupplier::unchecked(proxy.object().clone())
            .connect_structured_push_consumer(&orb.object(reference))
            .unwrap();
        listener
    }

    /// Consumers that would pull, until this is dropped: those whose connection is closed are given up some time after.
    #[must_use]
    pub(crate) fn idle_consumers(&self, count: usize) -> ConsumerAdmin {
        let (channel, _) = find_channel(&self.found(), None).unwrap();
        let admin = channel.default_consumer_admin().unwrap();
        for _ in 0..count {
            let (proxy, _) = admin.obtain_notification_pull_supplier(ClientType::Structured).unwrap();
            StructuredProxyPullSupplier::unchecked(proxy.object().clone())
                .connect_structured_pull_consumer(None)
                .unwrap();
        }
        admin
    }

    /// How a channel's consumers stand, as administration says.
    pub(crate) fn consumers_of(&self, channel: i32) -> Vec<ConsumerStatus> {
        let Ok(Answer::Consumers(all)) = self.service.ask(Query::Consumers) else { panic!("no answer") };
        all.into_iter().filter(|consumer| i64::from(consumer.outbox.key.channel.0) == i64::from(channel)).collect()
    }
}

/// Somebody who publishes as fast as may be, and somebody who takes it.
pub(crate) struct Traffic {
    goes_on: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _consumer: SimpleConsumer,
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.goes_on.store(false, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(EndInTime::end_in_time);
    }
}

pub(crate) fn temperature(celsius: f64, site: &str) -> StructuredEvent {
    let mut event = StructuredEvent::new("Telescope", "Temperature", "");
    event.filterable_data.push(Property::new("celsius", celsius));
    event.filterable_data.push(Property::new("site", site));
    event
}
