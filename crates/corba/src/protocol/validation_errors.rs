//! Conflicts of otherwise valid properties: with existing objects, and with the channel's profile.
//!
//! Checked before anything is changed, by `set_qos` and `validate_qos`. Each validation error is returned as code and range, and its reason
//! is logged.

use super::{Guard, Objects};
use crate::exceptions::Raised;
use crate::log_lines::log_line;
use crate::qos::{
    ACKNOWLEDGE_AFTER, CONNECTION_RELIABILITY, DEAD_LETTER_CHANNEL, EVENT_RELIABILITY, ErrorCode, HOLD_GRANTED,
    Outside, Pool, Profile, PropertyError, PropertyValue, RequestedProperties, START_FROM, WHEN, outside,
    outside_limits, topic_errors,
};
use crate::table::{AdminKey, Level};
use core::time::Duration;
use engine::{
    AcknowledgeAfter, ChannelId, FilterTarget, FullOutbox, OutboxSettings, ProxyKey, ProxyState, Reliability,
    SettingsPatch, Side, StartFrom, SupplierSettings,
};

/// The requested settings of a level, or of a channel to be made, with the existing objects.
pub(super) struct Validation<'a> {
    pub(super) objects: &'a Objects,
    pub(super) level: Option<Level>,
    pub(super) requested: &'a RequestedProperties,
}

impl Validation<'_> {
    /// All validation errors of the settings.
    pub(super) fn errors(&self) -> Result<Vec<PropertyError>, Raised> {
        let mut validation_errors: Vec<PropertyError> = self.pool_error()?.into_iter().collect();
        validation_errors.extend(topic_errors(self.requested));
        validation_errors.extend(self.reliability_error()?);
        validation_errors.extend(self.acknowledgement_error()?);
        validation_errors.extend(self.start_error()?);
        validation_errors.extend(self.correlation_error()?);
        validation_errors.extend(self.grant_error()?);
        validation_errors.extend(self.dead_letter_error()?);
        if self.requested.profile == Profile::RealTime {
            self.object_for_real_time(&mut validation_errors)?;
        }
        Ok(validation_errors)
    }

    /// The error of a pool: it would move events under way, or there are no threads for it.
    fn pool_error(&self) -> Result<Option<PropertyError>, Raised> {
        let Some(pool) = &self.requested.pool else { return Ok(None) };
        if let Some(level) = self.level {
            if self.objects.requested(level)?.pool.as_ref() == Some(pool) {
                return Ok(None);
            }
            if let Some(why) = self.is_without_pools(level)? {
                return Ok(Some(self.error(pool.kind.property(), ErrorCode::UnavailableProperty, None, why)));
            }
            if let Some(proxy) = self.connected_beneath(level)? {
                let why = format!("threads are assigned only while no client is connected, and {proxy} is");
                return Ok(Some(self.error(pool.kind.property(), ErrorCode::UnavailableProperty, None, &why)));
            }
        }
        let (most, left) = (self.objects.hierarchy.lane_threads_max(), self.objects.hierarchy.lane_threads_left());
        let (code, limit) = match pool.threads() {
            threads if threads > most => (ErrorCode::UnsupportedValue, most),
            threads if threads > left => (ErrorCode::UnavailableValue, left),
            _ => return Ok(None),
        };
        let range = (limit > 0).then(|| Pool::range(pool.kind, limit));
        let why = format!("of {most} threads for all pools {left} are left");
        Ok(Some(self.error(pool.kind.property(), code, range, &why)))
    }

    /// The reason why a level cannot have any pool.
    fn is_without_pools(&self, level: Level) -> Result<Option<&'static str>, Raised> {
        let Level::Proxy(proxy, _) = level else { return Ok(None) };
        Ok(if self.objects.proxy_kind(proxy)?.pull {
            Some("a client that pulls is served by the main lane, outside the real-time subset")
        } else if self.requested.profile == Profile::RealTime {
            Some("the channel's Profile is RealTime: its threads come with it and its admins, not with their clients")
        } else {
            None
        })
    }

    fn connected_beneath(&self, level: Level) -> Result<Option<ProxyKey>, Raised> {
        let channel = self.objects.hierarchy.channel(level.channel())?;
        let mut connected = channel.proxies().filter(|proxy| proxy.state != ProxyState::Unconnected);
        let found = connected.find(|proxy| level.includes(proxy));
        Ok(found.map(|proxy| ProxyKey { channel: channel.id(), proxy: proxy.id }))
    }

    /// Refuses acknowledgement after storing for events that are not persistent.
    fn acknowledgement_error(&self) -> Result<Option<PropertyError>, Raised> {
        let settings = self.requested.patch.over_supplier(self.suppliers_above()?);
        let is_meant = settings.acknowledge_after == AcknowledgeAfter::Stored
            && settings.event_reliability == Reliability::BestEffort;
        let text = |name: &str| PropertyValue::Text(name.to_owned());
        let range = (text("Accepted|Delivered"), text("Accepted|Delivered"));
        let why = "only events with EventReliability Persistent are stored";
        Ok(is_meant.then(|| self.unavailable(ACKNOWLEDGE_AFTER, range, why)))
    }

    /// Refuses a start in the history of a channel without one.
    fn start_error(&self) -> Result<Option<PropertyError>, Raised> {
        let in_history = self.requested.patch.start_from.is_some_and(|start| start != StartFrom::New);
        let history = match self.level {
            None | Some(Level::Channel(_)) => self.requested.limits.history,
            Some(level) => self.objects.hierarchy.channel(level.channel())?.limits().history,
        };
        let only_new = || PropertyValue::Text("new".to_owned());
        let why = "the channel stores no history: set its HistoryEvents, HistoryAge or HistoryBytes";
        let is_meant = in_history && !history.keeps();
        Ok(is_meant.then(|| self.unavailable(START_FROM, (only_new(), only_new()), why)))
    }

    /// Refuses a correlation for objects that get no sets.
    fn correlation_error(&self) -> Result<Option<PropertyError>, Raised> {
        if self.requested.correlation.is_none() {
            return Ok(None);
        }
        let why = self.objects.is_without_sets(self.level)?;
        Ok(why.map(|why| self.error(WHEN, ErrorCode::UnavailableProperty, None, why)))
    }

    /// Refuses costs for others that only the channel's administrators may grant. A value that is set already may be repeated.
    fn grant_error(&self) -> Result<Option<PropertyError>, Raised> {
        let (Some(Level::Proxy(proxy, _)), Some(granted)) = (self.level, self.requested.patch.hold_granted) else {
            return Ok(None);
        };
        let above = self.objects.effective(Level::Admin(self.objects.admin_of(proxy)?))?.settings.hold_granted;
        let only = || PropertyValue::Boolean(above);
        let why = "a proxy cannot grant it to itself: set it on its channel or consumer admin";
        Ok((granted != above).then(|| self.unavailable(HOLD_GRANTED, (only(), only()), why)))
    }

    /// Refuses chains of channels for dead letters: a channel that forwards its dead letters cannot receive those of another.
    fn dead_letter_error(&self) -> Result<Option<PropertyError>, Raised> {
        let this = match self.level {
            None => None,
            Some(Level::Channel(channel)) => Some(channel),
            Some(_) => return Ok(None),
        };
        let Some(to) = self.requested.limits.dead_letters else { return Ok(None) };
        if let Some(this) = this
            && self.objects.hierarchy.channel(this)?.limits().dead_letters == Some(to)
        {
            return Ok(None);
        }
        let names_this = |channel: &&engine::Channel| this.is_some() && channel.limits().dead_letters == this;
        let why = match self.objects.hierarchy.channel(to) {
            _ if this == Some(to) => "a channel is not its own DeadLetterChannel".to_owned(),
            Err(_) => format!("there is no channel {}", to.0),
            Ok(channel) if channel.limits().dead_letters.is_some() => {
                format!("channel {} has a DeadLetterChannel itself, and dead letters are sent on once", to.0)
            }
            Ok(_) => match self.objects.hierarchy.channels().find(names_this) {
                Some(other) => format!("it is the DeadLetterChannel of channel {}", other.id().0),
                None if this.is_some_and(|this| self.objects.reaches(to, this)) => {
                    format!("channel {} supplies this one, and dead letters would come back", to.0)
                }
                None => return Ok(None),
            },
        };
        let none = || PropertyValue::Long(-1);
        Ok(Some(self.unavailable(DEAD_LETTER_CHANNEL, (none(), none()), &why)))
    }

    /// The supplier settings inherited by a level.
    fn suppliers_above(&self) -> Result<SupplierSettings, Raised> {
        Ok(match self.level {
            None | Some(Level::Channel(_)) => SupplierSettings::default(),
            Some(Level::Proxy(proxy, _)) => {
                self.objects.effective(Level::Admin(self.objects.admin_of(proxy)?))?.supplier
            }
            Some(level) => self.objects.effective(Level::Channel(level.channel()))?.supplier,
        })
    }

    /// Refuses events that outlive the process on connections that do not (OMG Notification Service 1.1, 2.5.5.1).
    fn reliability_error(&self) -> Result<Option<PropertyError>, Raised> {
        let settings = self.requested.patch.over_supplier(self.suppliers_above()?);
        let is_meant = settings.event_reliability == Reliability::Persistent
            && settings.connection_reliability == Reliability::BestEffort;
        let only = |value| (PropertyValue::Short(value), PropertyValue::Short(value));
        Ok(is_meant.then(|| {
            // Names what is set here: the events' reliability, or the connection's beneath a level that has the former.
            let (property, value) = match self.requested.patch.event_reliability {
                Some(Reliability::Persistent) => (EVENT_RELIABILITY, 0),
                _ => (CONNECTION_RELIABILITY, 1),
            };
            let why = "events cannot outlive the process where the connections to their consumers do not";
            self.unavailable(property, only(value), why)
        }))
    }

    fn object_for_real_time(&self, validation_errors: &mut Vec<PropertyError>) -> Result<(), Raised> {
        // What suppliers' levels say of outboxes is without effect.
        if matches!(
            self.level,
            Some(Level::Admin(AdminKey { side: Side::Suppliers, .. }) | Level::Proxy(_, Side::Suppliers))
        ) {
            return Ok(());
        }
        let settings = match self.level {
            None | Some(Level::Channel(_)) => self.requested.patch.over(OutboxSettings::default()),
            Some(level) => self.in_effect_at(level)?,
        };
        for Outside { property, range, why } in
            outside(&settings).into_iter().chain(outside_limits(&self.requested.limits))
        {
            validation_errors.push(self.unavailable(property, range, why));
        }
        if let Some(Level::Channel(channel)) = self.level
            && let Some(why) = self.is_not_real_time(channel)?
        {
            let only = || PropertyValue::Text(Profile::Standard.name().to_owned());
            validation_errors.push(self.unavailable("Profile", (only(), only()), &why));
        }
        Ok(())
    }

    /// The settings in effect at an admin or proxy of the consumers' side after the change.
    fn in_effect_at(&self, level: Level) -> Result<OutboxSettings, Raised> {
        let above = match level {
            Level::Proxy(proxy, _) => Level::Admin(self.objects.admin_of(proxy)?),
            _ => Level::Channel(level.channel()),
        };
        Ok(self.requested.patch.over(self.objects.effective(above)?.settings))
    }

    /// The first object in a channel outside the real-time subset, in a sentence.
    fn is_not_real_time(&self, channel: ChannelId) -> Result<Option<String>, Raised> {
        let found = self.objects.hierarchy.channel(channel)?;
        if let Some(pulls) = found.proxies().find(|proxy| proxy.kind.pull) {
            return Ok(Some(format!("proxy {} pulls or is pulled from", pulls.id.0)));
        }
        if let Some(pooled) = found.proxies().find(|proxy| proxy.patch.pool.is_some()) {
            return Ok(Some(format!("proxy {} has threads of its own", pooled.id.0)));
        }
        if let Some(target) = self.objects.filters.with_remote(channel) {
            let whose = match target {
                FilterTarget::Admin { admin, .. } => format!("admin {}", admin.0),
                FilterTarget::Proxy(key) => format!("proxy {}", key.proxy.0),
            };
            return Ok(Some(format!("{whose} has a filter that a client implements")));
        }
        let of_channel = self.requested.patch.over(OutboxSettings::default());
        for admin in self.objects.hierarchy.admins(channel, Side::Consumers)? {
            let of_admin = admin.patch.over(of_channel);
            let said = |patch: &SettingsPatch, above| outside(&patch.over(above)).into_iter().next();
            if let Some(Outside { property, why, .. }) = own_fault(of_channel, said(&admin.patch, of_channel)) {
                return Ok(Some(format!("{property} of admin {}: {why}", admin.id.0)));
            }
            for proxy in self.objects.hierarchy.proxies(channel, Side::Consumers, admin.id)? {
                if let Some(Outside { property, why, .. }) = own_fault(of_admin, said(&proxy.patch, of_admin)) {
                    return Ok(Some(format!("{property} of proxy {}: {why}", proxy.id.0)));
                }
            }
        }
        Ok(None)
    }

    /// The error of an unavailable value; the range has available ones.
    fn unavailable(&self, property: &'static str, range: (PropertyValue, PropertyValue), why: &str) -> PropertyError {
        self.error(property, ErrorCode::UnavailableValue, Some(range), why)
    }

    fn error(
        &self,
        property: &'static str,
        code: ErrorCode,
        range: Option<(PropertyValue, PropertyValue)>,
        why: &str,
    ) -> PropertyError {
        let whose = match self.level {
            None => "a new channel".to_owned(),
            Some(Level::Channel(channel)) => format!("channel {}", channel.0),
            Some(Level::Admin(AdminKey { channel, admin, .. })) => {
                format!("admin {} of channel {}", admin.0, channel.0)
            }
            Some(Level::Proxy(proxy, _)) => proxy.to_string(),
        };
        log_line!(Info, "{whose} cannot have that {property}: {why}");
        PropertyError::new(code, property, range)
    }
}

impl Guard {
    /// Refuses settings for which the client lacks rights: higher costs of consumers for others than their channel grants, and a channel
    /// for dead letters.
    pub(crate) fn authorize_settings(
        &mut self,
        objects: &Objects,
        level: Option<Level>,
        requested: &RequestedProperties,
    ) -> Result<(), Raised> {
        match level {
            None => self.authorize_dead_letters(objects, objects.settings.limits.dead_letters, requested),
            Some(Level::Channel(channel)) => self.authorize_dead_letters(
                objects,
                objects.hierarchy.channel(channel)?.limits().dead_letters,
                requested,
            ),
            Some(Level::Admin(admin)) if admin.side == Side::Consumers => {
                self.authorize_costs(objects, admin, requested)
            }
            Some(_) => Ok(()),
        }
    }

    /// Refuses a `DeadLetterChannel` that the client does not administer: the service itself puts events there, and checks no right to
    /// publish.
    fn authorize_dead_letters(
        &mut self,
        objects: &Objects,
        before: Option<ChannelId>,
        requested: &RequestedProperties,
    ) -> Result<(), Raised> {
        match requested.limits.dead_letters.filter(|to| Some(*to) != before) {
            Some(to) => self.authorize_administration(objects, to, "to have another channel's dead letters go there"),
            None => Ok(()),
        }
    }

    /// Refuses settings of an admin with higher costs of consumers for others than their channel grants, unless the client administers the
    /// channel: any client that may subscribe may make an admin. A value that is set already may be repeated.
    fn authorize_costs(
        &mut self,
        objects: &Objects,
        admin: AdminKey,
        requested: &RequestedProperties,
    ) -> Result<(), Raised> {
        let channel = admin.channel;
        let (now, then) = (objects.requested(Level::Admin(admin))?.patch, requested.patch);
        let above = objects.effective(Level::Channel(channel))?.settings;
        let at_most = above.max_blocked_time();
        let is_longer = |time: Duration| !at_most.is_zero() && (time.is_zero() || time > at_most);
        let rejects = Some(FullOutbox::Reject);
        let costs = if then.hold_granted == Some(true) && now.hold_granted != Some(true) && !above.hold_granted {
            "HoldGranted"
        } else if then.hold_timeout != now.hold_timeout && then.hold_timeout.is_some_and(is_longer) {
            "a HoldTimeout beyond the channel's"
        } else if then.full_outbox == rejects && now.full_outbox != rejects && above.full_outbox != rejects {
            "FullOutbox Reject"
        } else {
            return Ok(());
        };
        self.authorize_administration(objects, channel, &format!("set_qos of a consumer admin: {costs}"))
    }
}

/// A level's own deviation from the subset; one inherited from the level above is reported there.
fn own_fault(above: OutboxSettings, found: Option<Outside>) -> Option<Outside> {
    found.filter(|found| outside(&above).iter().all(|already| already.property != found.property))
}
