//! The `Statistics` object: administration's answers, for CORBA clients.
//!
//! It is found at `corbaloc::host:port/Statistics`. Its IDL is in `docs/idl/Campanile.idl`. Each of its operations is a [`Query`] or a
//! [`Command`]; this module only reads them and writes the answers.

use core::time::Duration;

use engine::{ChannelId, DiscardReason, ProxyId, ProxyKey};
use giop::cdr::{ReadError, Reader, Writer};
use giop::exception::{Kind, SystemException};

use crate::admin::statistics::reason_name;
use crate::admin::values::{
    Answer, Command, ConsumerStatus, DdsIncompatibility, DdsJoinStatus, DeadLetterAct, Dropped, FederationMember,
    HistoryEvent, HistoryStatus, LinkStatus, Query, TimerStatus,
};
use crate::counters::LaneCounters;
use crate::protocols::Wish;
use crate::store::requests::DeadLetter;
use corba::{Exception, ListedChannel, RestoredClient, SupplierStatus};

/// The object's key.
pub(crate) const KEY: &[u8] = b"Statistics";
/// The object's repository id.
const ID: &str = "IDL:Campanile/Statistics:1.0";

/// The query or command of an operation; `None` if it has no such operation, or the arguments cannot be read.
pub(crate) fn read(operation: &str, args: Reader<'_>) -> Option<Wish> {
    Some(match operation {
        "get_statistics" => Wish::Query(Query::Counters),
        "get_lanes" => Wish::Query(Query::Lanes),
        "get_consumers" => Wish::Query(Query::Consumers),
        "get_drops" => Wish::Query(Query::Drops),
        "get_suppliers" => Wish::Query(Query::Suppliers { behind: None }),
        "get_suppliers_behind" => Wish::Query(Query::Suppliers { behind: Some(read_key(args).ok()?) }),
        "get_restored" => Wish::Query(Query::Restored { behind: None }),
        "get_restored_behind" => Wish::Query(Query::Restored { behind: Some(read_key(args).ok()?) }),
        "get_dds_joins" => Wish::Query(Query::DdsJoins),
        "get_links" => Wish::Query(Query::Links),
        "get_federation" => Wish::Query(Query::Federation),
        "get_history" => Wish::Query(Query::History(read_channel(args).ok()?)),
        "get_dead_letters_behind" => Wish::Query(Query::DeadLetters { behind: read_dead_letter(args).ok()? }),
        "replay_dead_letters" => Wish::Command(read_dead_letters(DeadLetterAct::Replay, args).ok()?),
        "remove_dead_letters" => Wish::Command(read_dead_letters(DeadLetterAct::Remove, args).ok()?),
        "get_channels" => Wish::Query(Query::ChannelList { behind: None }),
        "get_channels_behind" => Wish::Query(Query::ChannelList { behind: Some(read_channel(args).ok()?) }),
        "get_timers" => Wish::Query(Query::Timers { channel: None, behind: None }),
        "get_timers_behind" => Wish::Query(Query::Timers { channel: None, behind: Some(read_timer(args).ok()?) }),
        "get_timers_of" => Wish::Query(Query::Timers { channel: Some(read_channel(args).ok()?), behind: None }),
        "disconnect" => Wish::Command(Command::Disconnect(read_key(args).ok()?)),
        "disconnect_idle" => Wish::Command(Command::DisconnectIdle(read_idle(args).ok()?)),
        "pause_link" => Wish::Command(read_pause(args).ok()?),
        "add_link" => Wish::Command(read_added_link(args)?),
        "remove_link" => Wish::Command(read_removed_link(args).ok()?),
        "get_topology" => Wish::Query(Query::Topology),
        "apply_topology" => Wish::Command(Command::ApplyTopology(read_topology(args)?)),
        _ => return None,
    })
}

/// Reads a text that is sent as `sequence<octet>`.
fn read_topology(mut args: Reader<'_>) -> Option<String> {
    let text = core::str::from_utf8(args.octets().ok()?).ok()?;
    args.finish("the arguments").ok()?;
    Some(text.to_owned())
}

fn read_channel(mut args: Reader<'_>) -> Result<ChannelId, ReadError> {
    let channel = ChannelId(args.u32()?);
    args.finish("the arguments")?;
    Ok(channel)
}

fn read_key(mut args: Reader<'_>) -> Result<ProxyKey, ReadError> {
    let key = ProxyKey { channel: ChannelId(args.u32()?), proxy: ProxyId(args.u32()?) };
    args.finish("the arguments")?;
    Ok(key)
}

fn read_timer(mut args: Reader<'_>) -> Result<(ChannelId, u32), ReadError> {
    let timer = (ChannelId(args.u32()?), args.u32()?);
    args.finish("the arguments")?;
    Ok(timer)
}

fn read_dead_letter(mut args: Reader<'_>) -> Result<(u64, ProxyId), ReadError> {
    let letter = (args.u64()?, ProxyId(args.u32()?));
    args.finish("the arguments")?;
    Ok(letter)
}

/// Octets of a `DeadLetter`, without padding for the next.
const DEAD_LETTER_BYTES: usize = 12;

fn read_dead_letters(act: DeadLetterAct, mut args: Reader<'_>) -> Result<Command, ReadError> {
    let channel = ChannelId(args.u32()?);
    let count = args.seq_len(DEAD_LETTER_BYTES)?;
    let dead_letters = (0..count).map(|_| Ok((args.u64()?, ProxyId(args.u32()?)))).collect::<Result<_, ReadError>>()?;
    args.finish("the arguments")?;
    Ok(Command::DeadLetters { act, channel, dead_letters })
}

fn read_pause(mut args: Reader<'_>) -> Result<Command, ReadError> {
    let command = Command::PauseLink { name: args.text()?, paused: args.bool()? };
    args.finish("the arguments")?;
    Ok(command)
}

fn read_added_link(mut args: Reader<'_>) -> Option<Command> {
    let text = args.text().ok()?;
    args.finish("the arguments").ok()?;
    Some(Command::AddLink(Box::new(toml::from_str(&text).ok()?)))
}

fn read_removed_link(mut args: Reader<'_>) -> Result<Command, ReadError> {
    let command = Command::RemoveLink { name: args.text()?, drop_backlog: args.bool()? };
    args.finish("the arguments")?;
    Ok(command)
}

fn read_idle(mut args: Reader<'_>) -> Result<Duration, ReadError> {
    let idle = Duration::from_millis(args.u64()?);
    args.finish("the arguments")?;
    Ok(idle)
}

/// Executes the operations that every object has, which are neither query nor command.
///
/// # Errors
/// `BAD_OPERATION` for an unknown operation, `MARSHAL` for arguments that cannot be read.
pub(crate) fn handle(operation: &str, mut args: Reader<'_>, reply: &mut Writer<'_>) -> Result<(), Exception> {
    let raise = |kind| Exception::System(SystemException::new(kind, 0));
    match operation {
        "_is_a" => {
            let id = args.text().map_err(|_| raise(Kind::Marshal))?;
            reply.bool(id == ID || id == "IDL:omg.org/CORBA/Object:1.0");
        }
        "_non_existent" | "_not_existent" => reply.bool(false),
        "get_suppliers_behind"
        | "get_restored_behind"
        | "get_history"
        | "get_dead_letters_behind"
        | "replay_dead_letters"
        | "remove_dead_letters"
        | "get_channels_behind"
        | "get_timers_behind"
        | "get_timers_of"
        | "disconnect"
        | "disconnect_idle"
        | "pause_link"
        | "add_link"
        | "remove_link"
        | "apply_topology" => return Err(raise(Kind::Marshal)),
        _ => return Err(raise(Kind::BadOperation)),
    }
    Ok(())
}

/// Writes the result of an operation.
pub(crate) fn write(operation: &str, answer: &Answer, reply: &mut Writer<'_>) {
    match answer {
        Answer::Counters(counters) => write_counters(counters, reply),
        Answer::Lanes(lanes) => write_lanes(lanes, reply),
        Answer::Consumers(consumers) => write_consumers(consumers, reply),
        Answer::Drops { drops, beyond } => write_drops(drops, *beyond, reply),
        Answer::Suppliers(suppliers) => write_suppliers(suppliers, reply),
        Answer::History(history) => write_history(history.as_ref(), reply),
        Answer::Restored(restored) => write_restored(restored, reply),
        Answer::DdsJoins(joins) => write_dds_joins(joins, reply),
        Answer::Links(links) => write_links(links, reply),
        Answer::Federation(members) => write_federation(members, reply),
        Answer::DeadLetters(dead_letters) => write_dead_letters(dead_letters, reply),
        Answer::DeadLettersDone { done, missing } => [*done, *missing].into_iter().for_each(|count| reply.u32(count)),
        Answer::ChannelList(channels) => write_channels(channels, reply),
        Answer::Timers(timers) => write_timers(timers, reply),
        // No client asks for that.
        Answer::Progress => {}
        Answer::Disconnected(count) if operation == "disconnect" => reply.bool(*count > 0),
        Answer::Disconnected(count) => reply.u32(*count),
        // No operation of this object requests these, or no client is answered here.
        Answer::Denied(_)
        | Answer::Channels(_)
        | Answer::Figures(_)
        | Answer::Types(_)
        | Answer::Names(_)
        | Answer::Channel(_) => {}
        Answer::Topology(text) => reply.octets(text.as_bytes()),
        Answer::LinkAdded(done) => {
            reply.string(done.as_ref().err().map_or("", String::as_str));
            reply.bool(*done == Ok(true));
        }
        Answer::Applied(done) | Answer::Done(done) => {
            reply.string(done.as_ref().err().map_or("", String::as_str));
        }
    }
}

fn write_counters(counters: &[(&str, u64)], reply: &mut Writer<'_>) {
    reply.length(counters.len());
    for (name, value) in counters {
        reply.string(name);
        reply.u64(*value);
    }
}

fn write_lanes(lanes: &[LaneCounters], reply: &mut Writer<'_>) {
    reply.length(lanes.len());
    for lane in lanes {
        reply.u32(lane.id().into());
        reply.string(&lane.name());
        write_counters(&lane.exported(), reply);
    }
}

fn write_consumers(consumers: &[ConsumerStatus], reply: &mut Writer<'_>) {
    reply.length(consumers.len());
    for ConsumerStatus { name, state, outbox } in consumers {
        reply.u32(outbox.key.channel.0);
        reply.u32(outbox.key.proxy.0);
        reply.string(name);
        reply.string(state);
        reply.u64(outbox.backlog_events);
        reply.u64(outbox.backlog_bytes);
        reply.u64(outbox.delivered);
        reply.u64(outbox.discards.total());
        reply.u32(outbox.in_flight);
        reply.u32(outbox.failures);
        let reasons = DiscardReason::ALL.iter().map(|reason| (reason_name(*reason), outbox.discards.of(*reason)));
        let reasons: Vec<_> = reasons.filter(|(_, count)| *count > 0).collect();
        write_counters(&reasons, reply);
        reply.u64(outbox.delayed);
        reply.u32(outbox.pulls_waiting);
    }
}

fn write_drops(drops: &[Dropped], beyond: u64, reply: &mut Writer<'_>) {
    reply.length(drops.len());
    for Dropped { key, name, domain, event_type, reason, events } in drops {
        reply.u32(key.channel.0);
        reply.u32(key.proxy.0);
        [name, domain, event_type].into_iter().for_each(|text| reply.string(text));
        reply.string(reason);
        reply.u64(*events);
    }
    reply.u64(beyond);
}

fn write_restored(restored: &[RestoredClient], reply: &mut Writer<'_>) {
    reply.length(restored.len());
    for RestoredClient { key, heard } in restored {
        reply.u32(key.channel.0);
        reply.u32(key.proxy.0);
        reply.bool(heard.is_some());
        reply.u64(u64::try_from(heard.unwrap_or_default().as_millis()).unwrap_or(u64::MAX));
    }
}

fn write_dds_joins(joins: &[DdsJoinStatus], reply: &mut Writer<'_>) {
    reply.length(joins.len());
    for DdsJoinStatus { channel, name, topics_read, topics_written, incompatible, beyond, totals: _ } in joins {
        reply.u32(channel.0);
        reply.string(name);
        [topics_read, topics_written]
            .into_iter()
            .for_each(|count| reply.u32(u32::try_from(*count).unwrap_or(u32::MAX)));
        reply.length(incompatible.len());
        for DdsIncompatibility { topic, peer, policy, offered, requested, advice } in incompatible {
            [topic, peer, *policy, offered, requested, advice].into_iter().for_each(|text| reply.string(text));
        }
        reply.u64(*beyond);
    }
}

fn write_links(links: &[LinkStatus], reply: &mut Writer<'_>) {
    reply.length(links.len());
    for link in links {
        #[rustfmt::skip]
        let LinkStatus {
            name, channel, direction, peer, peer_name, peer_service, state, reason, since_ms, lag_events, lag_octets, lag_ms,
            in_flight_events, in_flight_octets, window_octets, round_trip_us, sent, acknowledged, received, repeats, lost,
            rejected, loops, forgotten, dropped, subscriptions, carrier, origin,
        } = link;
        [name, channel, direction.name(), peer, peer_name].into_iter().for_each(|text| reply.string(text));
        reply.u64(*peer_service);
        [state.name(), reason, subscriptions, carrier].into_iter().for_each(|text| reply.string(text));
        let now = [since_ms, lag_events, lag_octets, lag_ms, in_flight_events, in_flight_octets, window_octets];
        let counted = [round_trip_us, sent, acknowledged, received, repeats, lost, rejected, loops, forgotten, dropped];
        now.into_iter().chain(counted).for_each(|value| reply.u64(*value));
        reply.string(origin.name());
    }
}

fn write_federation(members: &[FederationMember], reply: &mut Writer<'_>) {
    reply.length(members.len());
    for FederationMember { service, name, is_self, address, state, reason, heard_ms, channels, linked } in members {
        reply.u64(*service);
        reply.string(name);
        reply.bool(*is_self);
        [address, state.name(), reason].into_iter().for_each(|text| reply.string(text));
        reply.u64(*heard_ms);
        for names in [channels, linked] {
            reply.length(names.len());
            names.iter().for_each(|name| reply.string(name));
        }
    }
}

fn write_dead_letters(dead_letters: &[(String, DeadLetter)], reply: &mut Writer<'_>) {
    reply.length(dead_letters.len());
    for (name, letter) in dead_letters {
        let DeadLetter { number, consumer, domain, event_type, bytes, arrived, since, reason } = letter;
        reply.u64(*number);
        reply.u32(consumer.channel.0);
        reply.u32(consumer.proxy.0);
        [name, domain, event_type].into_iter().for_each(|text| reply.string(text));
        reply.string(reason);
        [bytes, arrived, since].into_iter().for_each(|value| reply.u64(*value));
    }
}

fn write_channels(channels: &[ListedChannel], reply: &mut Writer<'_>) {
    reply.length(channels.len());
    for ListedChannel { id, name, .. } in channels {
        reply.u32(id.0);
        reply.string(name.as_deref().unwrap_or_default());
    }
}

fn write_timers(timers: &[TimerStatus], reply: &mut Writer<'_>) {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    reply.length(timers.len());
    for TimerStatus { channel, place, name, kind, time, next, fired, missed, dropped } in timers {
        reply.u32(channel.0);
        reply.u32(*place);
        [name, *kind].into_iter().for_each(|text| reply.string(text));
        reply.bool(next.is_some());
        [nanos(*time), nanos(next.unwrap_or_default()), *fired, *missed, *dropped]
            .into_iter()
            .for_each(|value| reply.u64(value));
    }
}

fn write_history(history: Option<&HistoryStatus>, reply: &mut Writer<'_>) {
    reply.length(history.iter().count());
    let Some(HistoryStatus { channel, first, last, events, bytes }) = history else { return };
    reply.u32(channel.0);
    for event in [first, last] {
        let HistoryEvent { number, came } = event.unwrap_or(HistoryEvent { number: 0, came: 0 });
        [number, came].into_iter().for_each(|value| reply.u64(value));
    }
    [events, bytes].into_iter().for_each(|value| reply.u64(*value));
}

fn write_suppliers(suppliers: &[(SupplierStatus, String)], reply: &mut Writer<'_>) {
    reply.length(suppliers.len());
    for (SupplierStatus { key, address, is_pulled, is_probed, is_open, events, idle, .. }, name) in suppliers {
        reply.u32(key.channel.0);
        reply.u32(key.proxy.0);
        reply.string(name);
        reply.string(&address.map_or_else(String::new, |address| address.to_string()));
        [*is_pulled, *is_probed, *is_open].into_iter().for_each(|flag| reply.bool(flag));
        reply.u64(*events);
        reply.u64(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::values::{LinkDirection, LinkOrigin, LinkState};
    use giop::cdr::{Encoding, Endian};

    const ENCODING: Encoding = Encoding::new(Endian::NATIVE);

    #[test]
    fn a_link_is_written_as_the_idl_has_it() {
        let link = LinkStatus {
            name: "lab".into(),
            channel: "Weather".into(),
            direction: LinkDirection::In,
            peer: "lab.obs:2813".into(),
            peer_name: "lab".into(),
            peer_service: 1,
            state: LinkState::Refused,
            reason: "no right to publish".into(),
            subscriptions: "3 types".into(),
            carrier: "udp".into(),
            since_ms: 2,
            lag_events: 3,
            lag_octets: 4,
            lag_ms: 5,
            in_flight_events: 6,
            in_flight_octets: 7,
            window_octets: 8,
            round_trip_us: 9,
            sent: 10,
            acknowledged: 11,
            received: 12,
            repeats: 13,
            lost: 14,
            rejected: 15,
            loops: 16,
            forgotten: 17,
            dropped: 18,
            origin: LinkOrigin::Added,
        };
        let mut bytes = Vec::new();
        write("get_links", &Answer::Links(vec![link]), &mut Writer::new(&mut bytes, ENCODING));
        let mut reader = Reader::new(&bytes, ENCODING);
        assert_eq!(reader.u32().unwrap(), 1);
        let texts: Vec<String> = (0..5).map(|_| reader.text().unwrap()).collect();
        assert_eq!((texts.join(" "), reader.u64().unwrap()), ("lab Weather in lab.obs:2813 lab".to_owned(), 1));
        let texts: Vec<String> = (0..4).map(|_| reader.text().unwrap()).collect();
        assert_eq!(texts, ["refused", "no right to publish", "3 types", "udp"]);
        assert_eq!((2..=18).map(|_| reader.u64().unwrap()).collect::<Vec<_>>(), (2..=18).collect::<Vec<u64>>());
        assert_eq!(reader.text().unwrap(), "added");
        reader.finish("a link").unwrap();
    }

    #[test]
    fn timers_are_written_as_the_idl_has_them_and_requested_behind_one() {
        let timer = |next| TimerStatus {
            channel: ChannelId(1),
            place: 2,
            name: "tick".into(),
            kind: "every",
            time: Duration::from_nanos(3),
            next,
            fired: 5,
            missed: 6,
            dropped: 7,
        };
        let timers = vec![timer(Some(Duration::from_nanos(4))), timer(None)];
        let mut bytes = Vec::new();
        write("get_timers", &Answer::Timers(timers), &mut Writer::new(&mut bytes, ENCODING));
        let mut reader = Reader::new(&bytes, ENCODING);
        assert_eq!(reader.u32().unwrap(), 2);
        for next in [4, 0] {
            assert_eq!([reader.u32().unwrap(), reader.u32().unwrap()], [1, 2]);
            assert_eq!([reader.text().unwrap(), reader.text().unwrap()], ["tick", "every"]);
            assert_eq!(reader.bool().unwrap(), next > 0);
            assert_eq!([(); 5].map(|()| reader.u64().unwrap()), [3, next, 5, 6, 7]);
        }
        reader.finish("timers").unwrap();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, ENCODING);
        [1, 2].into_iter().for_each(|number| writer.u32(number));
        let read = |bytes: &[u8]| read("get_timers_behind", Reader::new(bytes, ENCODING));
        let behind = Some((ChannelId(1), 2));
        assert!(
            matches!(read(&bytes), Some(Wish::Query(Query::Timers { channel: None, behind: found })) if found == behind)
        );
        assert!((0..bytes.len()).all(|cut| read(&bytes[..cut]).is_none()));
    }

    #[test]
    fn a_link_to_add_is_read_as_the_configuration_has_it_or_not_at_all() {
        let of = |text: &str| {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, ENCODING).string(text);
            bytes
        };
        let read = |bytes: &[u8]| read("add_link", Reader::new(bytes, ENCODING));
        let good = of("name = \"lab\"\nto = \"lab.obs:2816\"\nchannels = [\"Weather\"]\nwhere = \"$speed > 3\"\n");
        let Some(Wish::Command(Command::AddLink(entry))) = read(&good) else { panic!("a link to add") };
        assert_eq!((&*entry.name, &*entry.to, &*entry.constraint), ("lab", "lab.obs:2816", "$speed > 3"));
        assert!((0..good.len()).all(|cut| read(&good[..cut]).is_none()));
        for wrong in ["", "name = 7", "name = \"lab\"\nto = \"a:1\"\nchannels = []\nunknown = 1\n"] {
            assert!(read(&of(wrong)).is_none(), "{wrong}");
        }
    }

    #[test]
    fn an_order_for_a_link_is_read_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, ENCODING);
        writer.string("lab");
        writer.bool(true);
        let read = |bytes: &[u8]| match read("pause_link", Reader::new(bytes, ENCODING)) {
            Some(Wish::Command(Command::PauseLink { name, paused })) => Some((name, paused)),
            other => other.map(|other| panic!("{other:?}")),
        };
        assert_eq!(read(&bytes), Some(("lab".to_owned(), true)));
        assert!((0..bytes.len()).all(|cut| read(&bytes[..cut]).is_none()));
        bytes.push(0);
        assert_eq!(read(&bytes), None, "an octet too many");
    }
}
