//! Administration's operations: each is applied to the hierarchy and to its model, and both results must be equal.

use engine::{EventType, Form, Operator, OutputForm, Peer, ProxyKey, Removal, Side, SubscriptionTarget};

use super::{PATTERNS, Run, same};

impl Run {
    pub(super) fn administer(&mut self) -> Result<String, String> {
        let side = if self.random.u32(..6) > 0 { Side::Consumers } else { Side::Suppliers };
        let key = self.key(side);
        match self.random.u32(..100) {
            0..20 => self.create_proxy(side),
            20..38 => self.connect(key),
            38..41 => {
                let engine = self.hierarchy.disconnect(key);
                same("disconnect", &engine, &self.model.world.disconnect(key))?;
                Ok(format!("disconnect {key}: {engine:?}"))
            }
            41..44 => {
                let engine = self.hierarchy.destroy_proxy(key).map(|_| ());
                same("destroy proxy", &engine, &self.model.world.destroy_proxy(key))?;
                Ok(format!("destroy {key}: {engine:?}"))
            }
            44..50 => {
                let engine = self.hierarchy.suspend(key);
                same("suspend", &engine, &self.model.world.suspend(key))?;
                Ok(format!("suspend {key}: {engine:?}"))
            }
            50..58 => {
                let engine = self.hierarchy.resume(key);
                same("resume", &engine, &self.model.world.resume(key))?;
                Ok(format!("resume {key}: {engine:?}"))
            }
            58..72 => self.change_settings(key),
            72..82 => self.change_limits(),
            82..94 => self.subscribe(key),
            _ => self.change_structure(side),
        }
    }

    pub(super) fn create_proxy(&mut self, side: Side) -> Result<String, String> {
        let channel = self.channel();
        let admin = self.admin(channel, side);
        let kind = self.kind(side);
        let engine = self.hierarchy.create_proxy(channel, side, admin, Form(1), kind);
        let model = self.model.world.create_proxy(channel, side, admin, kind);
        same("create proxy", &engine, &model)?;
        if let Ok(proxy) = engine
            && self.random.bool()
        {
            self.connect(ProxyKey { channel, proxy })?;
        }
        Ok(format!("create proxy in {channel:?} {side:?} {admin:?} {kind:?}: {engine:?}"))
    }

    pub(super) fn connect(&mut self, key: ProxyKey) -> Result<String, String> {
        self.next_peer += 1;
        let peer = (self.random.u32(..12) > 0).then_some(Peer(self.next_peer));
        let output_form = OutputForm(self.random.u32(..3));
        let engine = self.hierarchy.connect(key, peer, output_form);
        same("connect", &engine, &self.model.world.connect(key, peer, output_form))?;
        let in_order = self.random.bool();
        if in_order {
            same("in order", &self.hierarchy.note_in_order(key), &self.model.world.note_in_order(key))?;
        }
        Ok(format!("connect {key} to {peer:?}, in order {in_order}: {engine:?}"))
    }

    pub(super) fn change_settings(&mut self, key: ProxyKey) -> Result<String, String> {
        let patch = self.patch();
        let (engine, model) = match self.random.u32(..4) {
            0 => (
                self.hierarchy.set_channel_settings(key.channel, patch),
                self.model.world.set_channel_settings(key.channel, patch),
            ),
            1 => {
                let side = if self.random.u32(..4) == 0 { Side::Suppliers } else { Side::Consumers };
                let admin = self.admin(key.channel, side);
                (
                    self.hierarchy.set_admin_settings(key.channel, side, admin, patch),
                    self.model.world.set_admin_settings(key.channel, side, admin, patch),
                )
            }
            _ => (self.hierarchy.set_proxy_settings(key, patch), self.model.world.set_proxy_settings(key, patch)),
        };
        same("set settings", &engine, &model)?;
        same("effective settings", &self.hierarchy.effective(key), &self.model.world.effective(key))?;
        Ok(format!("settings at or above {key}: {patch:?}"))
    }

    pub(super) fn change_limits(&mut self) -> Result<String, String> {
        let (channel, limits) = (self.channel(), self.limits());
        let engine = self.hierarchy.set_limits(channel, limits);
        same("set limits", &engine, &self.model.world.set_limits(channel, limits))?;
        Ok(format!("limits of {channel:?}: {limits:?}"))
    }

    pub(super) fn subscribe(&mut self, key: ProxyKey) -> Result<String, String> {
        let mut types = || -> Vec<EventType> {
            let count = self.random.usize(..3);
            let patterns = (0..count).filter_map(|_| PATTERNS.get(self.random.usize(..PATTERNS.len())));
            patterns.map(|(domain, name)| EventType::new(*domain, *name)).collect()
        };
        let (added, removed) = (types(), types());
        let (engine, model) = if self.random.u32(..4) == 0 {
            let (channel, side) = (key.channel, Side::Consumers);
            let admin = self.admin(channel, side);
            let target = SubscriptionTarget::Admin { channel, side, admin };
            let model = self.model.world.subscribe_admin(channel, side, admin, &added, &removed);
            (self.hierarchy.subscribe(target, &added, &removed), model)
        } else {
            let model = self.model.world.subscribe_proxy(key, &added, &removed);
            (self.hierarchy.subscribe(SubscriptionTarget::Proxy(key), &added, &removed), model)
        };
        same("subscribe", &engine, &model)?;
        Ok(format!("subscribe at or above {key}: + {added:?} - {removed:?}: {engine:?}"))
    }

    pub(super) fn change_structure(&mut self, side: Side) -> Result<String, String> {
        let channel = self.channel();
        match self.random.u32(..12) {
            0..5 => {
                let operator = if self.random.bool() { Operator::And } else { Operator::Or };
                let engine = self.hierarchy.create_admin(channel, side, operator);
                same("create admin", &engine, &self.model.world.create_admin(channel, side, operator))?;
                Ok(format!("create admin in {channel:?} {side:?} {operator:?}: {engine:?}"))
            }
            5..7 => {
                let admin = self.admin(channel, side);
                let engine = self.hierarchy.destroy_admin(channel, side, admin).map(|()| self.removed());
                same("destroy admin", &engine, &self.model.world.destroy_admin(channel, side, admin))?;
                Ok(format!("destroy admin {admin:?} of {channel:?} {side:?}: {engine:?}"))
            }
            7 => {
                let engine = self.hierarchy.destroy_channel(channel).map(|()| self.removed());
                same("destroy channel", &engine, &self.model.world.destroy_channel(channel))?;
                Ok(format!("destroy {channel:?}: {engine:?}"))
            }
            _ => {
                let (patch, limits) = (self.patch(), self.limits());
                let engine = self.hierarchy.create_channel(patch, limits);
                same("create channel", &engine, &Ok(self.model.world.create_channel(patch, limits)))?;
                if let Ok(channel) = engine {
                    self.populate(channel);
                }
                Ok(format!("create channel {engine:?}: {patch:?} {limits:?}"))
            }
        }
    }

    /// Removes destroyed objects, and returns the proxies among them.
    fn removed(&mut self) -> Vec<ProxyKey> {
        let removed = core::iter::from_fn(|| self.hierarchy.poll_removed());
        let proxies = removed.filter_map(|removal| match removal {
            Removal::Proxy(removed) => Some(removed.key),
            _ => None,
        });
        proxies.collect()
    }
}
