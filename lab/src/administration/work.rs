//! Clients that administer.

use client::ObjectRef;
use client::notify::{
    ClientType, ConstraintExp, ConstraintInfo, EventChannel, EventChannelFactory, EventType, Filter,
    StructuredProxyPushSupplier,
};

use crate::campanile::{Campanile, consumer_reference, setup};
use crate::{BenchError, Form};

crate::report::kinds! {
    pub(super) enum Work {
        /// Making proxies for consumers of events that never come, and connecting them.
        Proxies = "proxies",
        /// Asking for every channel, admin and proxy.
        Walk = "walk",
        /// Replacing the constraints of filters that proxies have.
        Constraints = "constraints",
        /// Reading counters, and how each consumer stands.
        Statistics = "statistics",
        /// Making channels and destroying them.
        Channels = "channels",
    }
}

/// How many proxies get a filter.
const FILTERS: usize = 100;

/// What administers one service, over one connection.
pub(super) struct Clients {
    factory: EventChannelFactory,
    channel: EventChannel,
    statistics: ObjectRef,
    /// Proxies that were connected.
    proxies: Vec<StructuredProxyPushSupplier>,
    filters: Vec<(Filter, Vec<ConstraintInfo>)>,
    turns: u64,
}

impl Clients {
    /// Administers the channel of a service that was made last.
    pub(super) fn of(service: &Campanile) -> Result<Self, BenchError> {
        let doing = "finding the channel that is to be administered";
        let factory = service.factory()?;
        let id = factory.get_all_channels().map_err(setup(doing))?.into_iter().max();
        let id = id.ok_or("there is none").map_err(setup(doing))?;
        let channel = factory.get_event_channel(id).map_err(setup(doing))?;
        let statistics = service.statistics()?;
        Ok(Self { factory, channel, statistics, proxies: Vec::new(), filters: Vec::new(), turns: 0 })
    }

    /// Does one kind of work for as long as `goes_on` says, but until so many proxies are made at most. Says how many calls that were.
    pub(super) fn work(&mut self, work: Work, proxies: u32, goes_on: impl Fn() -> bool) -> Result<u64, BenchError> {
        match work {
            Work::Proxies => self.make_proxies(proxies, goes_on),
            Work::Walk => self.walk(goes_on),
            Work::Constraints => self.replace_constraints(goes_on),
            Work::Statistics => self.read_statistics(goes_on),
            Work::Channels => self.make_channels(goes_on),
        }
    }

    fn make_proxies(&mut self, count: u32, goes_on: impl Fn() -> bool) -> Result<u64, BenchError> {
        let doing = "connecting very many consumers";
        let admin = self.channel.default_consumer_admin().map_err(setup(doing))?;
        let mut calls = 0;
        for number in 0..count {
            if !goes_on() {
                break;
            }
            let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).map_err(setup(doing))?;
            let proxy = StructuredProxyPushSupplier::unchecked(proxy.object().clone());
            let never = [EventType::new("Bench", "Never")];
            proxy.subscription_change(&never, &[EventType::new("*", "*")]).map_err(setup(doing))?;
            // At a port without a listener; no event is ever sent to it.
            let nowhere = ([127, 0, 0, 1], 9).into();
            let nowhere = consumer_reference(Form::Structured.consumer_type(), nowhere, &number.to_be_bytes(), &[]);
            let consumer = self.channel.object().orb().object(nowhere);
            proxy.connect_structured_push_consumer(&consumer).map_err(setup(doing))?;
            self.proxies.push(proxy);
            calls += 3;
        }
        Ok(calls)
    }

    fn walk(&mut self, goes_on: impl Fn() -> bool) -> Result<u64, BenchError> {
        let doing = "walking the hierarchy";
        let mut calls = 0;
        while goes_on() {
            for channel in self.factory.get_all_channels().map_err(setup(doing))? {
                let channel = self.factory.get_event_channel(channel).map_err(setup(doing))?;
                channel.get_all_supplieradmins().map_err(setup(doing))?;
                calls += 3;
                for admin in channel.get_all_consumeradmins().map_err(setup(doing))? {
                    let admin = channel.get_consumeradmin(admin).map_err(setup(doing))?;
                    calls += 2;
                    for proxy in admin.push_suppliers().map_err(setup(doing))? {
                        if !goes_on() {
                            break;
                        }
                        let proxy = admin.get_proxy_supplier(proxy).map_err(setup(doing))?;
                        proxy.get_qos().map_err(setup(doing))?;
                        calls += 2;
                    }
                }
            }
        }
        Ok(calls)
    }

    fn replace_constraints(&mut self, goes_on: impl Fn() -> bool) -> Result<u64, BenchError> {
        let doing = "replacing the constraints of filters";
        if self.filters.is_empty() {
            let factory = self.channel.default_filter_factory().map_err(setup(doing))?;
            let factory = factory.ok_or("the channel makes no filters").map_err(setup(doing))?;
            for proxy in self.proxies.iter().take(FILTERS) {
                let filter = factory.create_filter("EXTENDED_TCL").map_err(setup(doing))?;
                let constraints = filter.add_constraints(&[ConstraintExp::new("$n == 0")]).map_err(setup(doing))?;
                proxy.add_filter(&filter).map_err(setup(doing))?;
                self.filters.push((filter, constraints));
            }
        }
        let mut calls = 0;
        while goes_on() && !self.filters.is_empty() {
            for (filter, constraints) in &self.filters {
                self.turns += 1;
                let changed: Vec<ConstraintInfo> = constraints
                    .iter()
                    .map(|constraint| ConstraintInfo {
                        constraint_expression: ConstraintExp::new(&format!("$n == {}", self.turns)),
                        constraint_id: constraint.constraint_id,
                    })
                    .collect();
                filter.modify_constraints(&[], &changed).map_err(setup(doing))?;
                calls += 1;
            }
        }
        Ok(calls)
    }

    fn read_statistics(&self, goes_on: impl Fn() -> bool) -> Result<u64, BenchError> {
        let mut calls = 0;
        while goes_on() {
            for operation in ["get_statistics", "get_consumers"] {
                self.statistics.invoke(operation, |_| ()).map_err(setup("reading statistics"))?;
                calls += 1;
            }
        }
        Ok(calls)
    }

    fn make_channels(&self, goes_on: impl Fn() -> bool) -> Result<u64, BenchError> {
        let doing = "making channels and destroying them";
        let mut calls = 0;
        while goes_on() {
            let (channel, _) = self.factory.create_channel(&[], &[]).map_err(setup(doing))?;
            channel.destroy().map_err(setup(doing))?;
            calls += 2;
        }
        Ok(calls)
    }
}
