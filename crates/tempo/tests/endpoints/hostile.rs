//! Strangers that lie, flood, repeat, or take what is not theirs.

use tempo::endpoint::{Channel, Gone, Name, Notice, Place, To};
use tempo::wire::{Announcement, Data, Fragment, Frame, Header, Payload, Probe, Report, Role};

use crate::hand::{Hand, Stranger, cookie, stranger, written};
use crate::network::{MS, S, address};

#[test]
fn an_address_that_never_proves_itself_is_never_sent_more_octets_than_it_sent() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let role = if random.bool() { Role::Publisher } else { Role::Subscriber };
        let mut hand = Hand::new(role);
        let mut honest = stranger(address(0), 100, role.counterpart());
        hand.meet(&mut honest);
        let (mut came, mut went) = ([0_usize; 20], [0_usize; 20]);
        for _ in 0..300 {
            let from = random.usize(1..20);
            let who = Stranger {
                session: [100, random.u32(1..5)][random.usize(0..2)],
                number: random.u32(0..12),
                role: if random.bool() { Role::Publisher } else { Role::Subscriber },
                returned: [0, honest.returned, random.u64(..)][random.usize(0..3)],
                ..stranger(address(from), 1, Role::Publisher)
            };
            let bytes = anything(&mut random, &who);
            came[from] += bytes.len();
            let mut sent = hand.give(who.place, &bytes);
            let _ = hand.end.publish(hand.now, hand.topic, 0, tempo::wire::Content::Octets, &[1; 3_000]);
            let nanos = random.u64(0..400 * MS);
            sent.append(&mut hand.pass(nanos));
            sent.append(&mut hand.flush());
            for (to, bytes) in sent {
                let at = (0..20).find(|&at| to == To::Place(Place::Datagram(address(at)))).unwrap();
                went[at] += bytes.len();
            }
        }
        for at in 1..20 {
            assert!(went[at] <= came[at], "seed {seed}: {} octets to the sender of {}", went[at], came[at]);
        }
        assert!(went.iter().skip(1).sum::<usize>() > 0, "they are answered");
    }
}

/// A frame of any kind.
fn anything(random: &mut fastrand::Rng, who: &Stranger) -> Vec<u8> {
    let probe = Probe {
        sent: random.u64(..),
        prober: 1,
        topic: 1,
        number: random.u32(0..5),
        to: Some(address(random.usize(1..20))),
        hops: 0,
        echoed_by: who.session,
    };
    let fragment = random.bool().then_some(Fragment { total: 5_000, at: 1_000 });
    let mut header = who.header(random.u32(0..50));
    header.by_broker = random.bool();
    let payload = match random.u32(0..7) {
        0 => Payload::Data(Data { fragment, content: tempo::wire::Content::Octets, octets: &[7; 1_000] }),
        1 => Payload::Probe(probe),
        2 => Payload::Echo(probe),
        3 => Payload::Report(Report::default()),
        4 => Payload::Bye(who.role),
        _ => Payload::Announcement(Announcement { given: random.u64(0..3), ..who.announcement() }),
    };
    written(header, payload)
}

#[test]
fn a_thousand_publishers_that_come_and_go_leave_nothing_behind() {
    let mut hand = Hand::new(Role::Subscriber);
    for round in 0..3 {
        for number in 0..1_000 {
            let session = 10 + round * 1_000 + u32::try_from(number).unwrap();
            let mut who = stranger(address(number), session, Role::Publisher);
            hand.meet(&mut who);
            hand.give(who.place, &who.data(1, Some(Fragment { total: 5_000, at: 0 }), &[1; 1_000]));
            hand.give(who.place, &who.data(2, None, b"here"));
        }
        assert_eq!(hand.peers(), 32);
        assert_eq!(hand.end.counters().peers_refused, u64::from(968 * (round + 1)));
        let report = hand.end.subscribed(hand.topic);
        assert_eq!((report.publishers, report.received), (32, u64::from(32 * (round + 1))));
        hand.pass(4 * S);
        assert_eq!(hand.peers(), 0);
        assert_eq!(hand.end.counters().peers_expired, u64::from(32 * (round + 1)));
        assert_eq!(hand.end.subscribed(hand.topic).received, report.received, "what was counted stays");
    }
    assert_eq!(hand.pass(S).len(), 0, "no end point gets announcements any more");
}

#[test]
fn those_that_have_proven_themselves_are_not_displaced_by_others() {
    let mut hand = Hand::new(Role::Publisher);
    let mut subscribers: Vec<_> = (0..32)
        .map(|number| stranger(address(number), 10 + u32::try_from(number).unwrap(), Role::Subscriber))
        .collect();
    for who in &mut subscribers {
        hand.meet(who);
    }
    for number in 0..2_000 {
        hand.announce(&stranger(address(number % 500), 5_000 + u32::try_from(number).unwrap(), Role::Subscriber));
    }
    let sessions: Vec<_> = hand.end.subscribers(hand.topic).map(|peer| peer.session).collect();
    assert_eq!(sessions, (10..42).collect::<Vec<_>>());
    // One goes, and there is room for one.
    hand.give(subscribers[5].place, &written(subscribers[5].header(0), Payload::Bye(Role::Subscriber)));
    let mut late = stranger(address(600), 9_999, Role::Subscriber);
    hand.meet(&mut late);
    assert!(hand.end.subscribers(hand.topic).any(|peer| peer.session == 9_999));
}

#[test]
fn each_announcement_is_answered_once_at_most_and_no_two_end_points_answer_each_other_for_ever() {
    let mut hand = Hand::new(Role::Publisher);
    let mut who = stranger(address(1), 10, Role::Subscriber);
    let answers = hand.announce(&who);
    assert_eq!(answers.len(), 1);
    who.returned = cookie(&answers);
    assert_eq!(hand.announce(&who).len(), 1, "it is met");
    assert_eq!(hand.announce(&who).len(), 0, "it is known");
    who.returned ^= 1;
    assert_eq!(hand.announce(&who).len(), 1, "it has lost its cookie");
}

#[test]
fn a_bye_is_believed_from_the_announcer_of_the_topic_only() {
    let mut hand = Hand::new(Role::Publisher);
    let mut who = stranger(address(1), 10, Role::Subscriber);
    hand.meet(&mut who);
    let bye = |who: &Stranger, role| written(who.header(0), Payload::Bye(role));
    hand.give(Place::Datagram(address(2)), &bye(&who, Role::Subscriber));
    hand.give(Place::Stream(1), &bye(&who, Role::Subscriber));
    hand.give(who.place, &bye(&who, Role::Publisher));
    hand.give(who.place, &bye(&Stranger { session: 11, ..who }, Role::Subscriber));
    hand.give(who.place, &bye(&Stranger { number: 8, ..who }, Role::Subscriber));
    assert_eq!((hand.peers(), hand.end.counters().strangers), (1, 5));
    hand.give(who.place, &bye(&who, Role::Subscriber));
    assert_eq!(hand.peers(), 0);
    assert!(matches!(hand.log.notices.last(), Some(Notice::Gone { why: Gone::Bye, .. })));
}

#[test]
fn only_echoes_of_the_last_probes_count_and_each_once() {
    let mut hand = Hand::new(Role::Publisher);
    let mut who = stranger(address(1), 10, Role::Subscriber);
    hand.meet(&mut who);
    let (_, probe) = hand.probe();
    hand.now += 5 * MS;
    let echo = |probe: Probe| written(who.header(0), Payload::Echo(Probe { echoed_by: 10, ..probe }));
    for lie in [
        Probe { number: probe.number + 1, ..probe },
        Probe { sent: probe.sent - 1, ..probe },
        Probe { prober: 2, ..probe },
        Probe { topic: probe.topic + 1, ..probe },
    ] {
        hand.give(who.place, &echo(lie));
    }
    hand.give(who.place, &written(who.header(0), Payload::Echo(Probe { echoed_by: 55, ..probe })));
    let report = hand.end.published(hand.topic);
    assert_eq!((report.delay, hand.end.counters().echoes_unknown), (None, 5));
    hand.give(who.place, &echo(probe));
    hand.give(who.place, &echo(probe));
    let delay = hand.end.published(hand.topic).delay.unwrap();
    assert_eq!((delay.echoes, hand.end.counters().echoes_unknown), (1, 6));
    assert!(delay.last_ns >= 5 * MS && delay.last_ns <= 255 * MS);
    assert_eq!(hand.end.subscribers(hand.topic).next().unwrap().delay, Some(delay));
    let (_, old) = hand.probe();
    for _ in 0..4 {
        hand.announce(&who);
        hand.probe();
    }
    hand.give(who.place, &echo(old));
    assert_eq!(hand.end.counters().echoes_unknown, 7, "it is too old");
}

#[test]
fn a_session_moves_when_it_is_silent_where_it_was_and_not_when_another_end_point_claims_it() {
    let mut hand = Hand::new(Role::Publisher);
    let mut who = stranger(address(1), 10, Role::Subscriber);
    hand.meet(&mut who);
    let mut thief = Stranger { place: Place::Datagram(address(2)), ..who };
    hand.meet(&mut stranger(address(2), 11, Role::Subscriber));
    hand.meet(&mut thief);
    assert_eq!(hand.end.counters().moves_refused, 1);
    assert_eq!(hand.end.subscribers(hand.topic).next().unwrap().place, who.place);
    hand.pass(S + S / 2);
    hand.announce(&thief);
    let peers: Vec<_> = hand.end.subscribers(hand.topic).map(|peer| (peer.session, peer.place)).collect();
    assert_eq!(peers, [(10, thief.place)], "and replaces the session that was there");
    assert!(hand.log.notices.iter().any(|notice| matches!(notice, Notice::Moved { .. })));
    // Data and byes from where it was count no more.
    hand.give(who.place, &written(who.header(0), Payload::Bye(Role::Subscriber)));
    assert_eq!(hand.peers(), 1);
}

#[test]
fn a_process_that_begins_anew_at_its_place_takes_the_place_of_the_one_before_it() {
    let mut hand = Hand::new(Role::Subscriber);
    let mut before = stranger(address(1), 10, Role::Publisher);
    let mut other = stranger(address(2), 11, Role::Publisher);
    hand.meet(&mut before);
    hand.meet(&mut other);
    let mut anew = stranger(address(1), 12, Role::Publisher);
    hand.announce(&anew);
    assert_eq!(hand.peers(), 2, "it has proven nothing yet");
    hand.meet(&mut anew);
    let sessions: Vec<_> = hand.end.publishers(hand.topic).map(|peer| peer.session).collect();
    assert!(sessions.contains(&11) && sessions.contains(&12) && sessions.len() == 2);
    assert!(hand.log.notices.iter().any(|notice| matches!(notice, Notice::Gone { why: Gone::Replaced, .. })));
}

#[test]
fn a_number_that_is_given_to_another_name_is_taken_from_the_one_before() {
    let mut hand = Hand::new(Role::Subscriber);
    let mut who = stranger(address(1), 10, Role::Publisher);
    hand.meet(&mut who);
    let elsewhere = Announcement { name: "Weather/Sun", ..who.announcement() };
    hand.give(Place::Datagram(address(2)), &written(who.header(0), Payload::Announcement(elsewhere)));
    assert_eq!(hand.peers(), 1, "another end point says so");
    hand.give(who.place, &written(who.header(0), Payload::Announcement(elsewhere)));
    assert_eq!((hand.peers(), hand.end.counters().peers_rebound), (0, 1));
    hand.give(who.place, &who.data(1, None, b"sun"));
    assert_eq!((hand.log.got.len(), hand.end.counters().unbound), (0, 1));
    // And a name under another number counts anew.
    hand.announce(&who);
    hand.give(who.place, &who.data(1_000, None, b"wind"));
    let anew = Stranger { number: 12, ..who };
    hand.announce(&anew);
    hand.give(who.place, &who.data(1_001, None, b"under the number before"));
    hand.give(who.place, &anew.data(5, None, b"wind"));
    let report = hand.end.subscribed(hand.topic);
    assert_eq!((report.publishers, report.received, report.lost), (1, 2, 0));
}

#[test]
fn no_number_in_an_announcement_or_a_report_is_too_large_or_too_small() {
    for number in [0, 1, 1_000_000_000, u32::MAX] {
        let mut hand = Hand::new(Role::Publisher);
        hand.end.set_rate(hand.topic, number);
        hand.end.set_deadline(hand.topic, number);
        for at in 0..5 {
            let mut who = stranger(address(at), 10 + u32::try_from(at).unwrap(), Role::Subscriber);
            hand.meet(&mut who);
            let announcement = Announcement {
                rate: number,
                highest_rate: number,
                deadline_us: number,
                end_points: number,
                period_ms: u16::MAX,
                ..who.announcement()
            };
            hand.give(who.place, &written(who.header(0), Payload::Announcement(announcement)));
            let all = u64::from(number) << 32 | u64::from(number);
            let report = Report { received: all, lost: all, rate: number, end_points: number };
            let header = Header { topic: 1, ..who.header(0) };
            hand.give(who.place, &written(header, Payload::Report(report)));
        }
        for _ in 0..20 {
            hand.end.publish(hand.now, hand.topic, i16::MIN, tempo::wire::Content::Octets, b"x").unwrap();
        }
        assert_eq!(hand.flush().iter().map(|(to, _)| to).collect::<std::collections::HashSet<_>>().len(), 5);
        let report = hand.end.published(hand.topic);
        assert_eq!(report.announced.rates, number.saturating_mul(5));
        assert_eq!((report.subscribers, report.sent), (5, 20));
        hand.pass(S);
        hand.now = u64::MAX - 1;
        hand.end.handle_timeout(hand.now, &mut hand.log);
        assert_eq!(hand.peers(), 0);
    }
}

#[test]
fn floods_of_fragments_take_the_room_there_is_and_give_way_when_they_stop() {
    let mut hand = Hand::new(Role::Subscriber);
    let mut publishers: Vec<_> =
        (0..6).map(|at| stranger(address(at), 10 + u32::try_from(at).unwrap(), Role::Publisher)).collect();
    for who in &mut publishers {
        hand.meet(who);
        for number in 0..50 {
            hand.give(who.place, &who.data(number, Some(Fragment { total: 16_000, at: 1_000 }), &[1; 1_000]));
            hand.give(who.place, &who.data(number, Some(Fragment { total: 16_385, at: 0 }), &[1; 1_000]));
            hand.give(who.place, &who.data(number, Some(Fragment { total: 16_000, at: 2_000 }), &[1; 999]));
        }
    }
    let counters = hand.end.counters();
    assert_eq!((counters.too_large, counters.fragments_refused, counters.fragments_unfit), (300, 200, 200));
    assert_eq!(counters.unfinished, 4 * 49);
    // Four messages are unfinished, and a fifth publisher has no room until they are silent.
    let last = publishers[5];
    let halves = [(0, 1_000), (1_000, 800)].map(|(at, octets)| (Fragment { total: 1_800, at }, vec![2; octets]));
    for (fragment, octets) in &halves {
        hand.give(last.place, &last.data(60, Some(*fragment), octets));
    }
    assert_eq!((hand.log.got.len(), hand.end.counters().fragments_refused), (0, 202));
    hand.pass(100 * MS);
    for (fragment, octets) in &halves {
        hand.give(last.place, &last.data(61, Some(*fragment), octets));
    }
    assert_eq!(hand.log.got.len(), 1);
    assert_eq!(hand.log.got[0].octets, [2; 1_800]);
    // Whole messages were never in need of room.
    hand.give(publishers[0].place, &publishers[0].data(70, None, b"whole"));
    assert_eq!(hand.log.got.len(), 2);
}

#[test]
fn a_message_that_is_overtaken_by_fragments_of_a_later_one_does_not_end_that() {
    let mut hand = Hand::new(Role::Subscriber);
    let mut who = stranger(address(1), 10, Role::Publisher);
    hand.meet(&mut who);
    let half = |at| who.data(10, Some(Fragment { total: 2_000, at }), &[1; 1_000]);
    for bytes in [who.data(8, None, b"8"), half(0), who.data(9, None, b"9"), half(1_000), who.data(11, None, b"11")] {
        hand.give(who.place, &bytes);
    }
    let numbers: Vec<_> = hand.log.got.iter().map(|got| got.sequence).collect();
    assert_eq!((numbers, hand.end.subscribed(hand.topic).lost), (vec![8, 9, 10, 11], 0));
}

#[test]
fn a_message_that_is_too_large_takes_no_number_and_is_lost_when_a_later_one_comes() {
    for fragment in [None, Some(Fragment { total: 16_385, at: 0 })] {
        let mut hand = Hand::new(Role::Subscriber);
        let mut who = stranger(address(1), 10, Role::Publisher);
        hand.meet(&mut who);
        for (number, octets) in [(4, 1), (6, 16_385), (5, 2), (7, 3)] {
            let fragment = fragment.filter(|_| number == 6);
            let octets = if fragment.is_some() { 1_000 } else { octets };
            hand.give(who.place, &who.data(number, fragment, &vec![0; octets]));
        }
        let numbers: Vec<_> = hand.log.got.iter().map(|got| got.sequence).collect();
        let (counters, report) = (hand.end.counters(), hand.end.subscribed(hand.topic));
        assert_eq!((numbers, counters.too_large, report.lost, report.late), (vec![4, 5, 7], 1, 1, 0));
    }
}

#[test]
fn a_clock_that_goes_back_does_not_silence_an_end_point() {
    let channel = Channel::Peer(Place::Datagram(address(1)));
    let mut hand = Hand::with(Role::Subscriber, channel);
    let mut who = stranger(address(1), 10, Role::Publisher);
    hand.meet(&mut who);
    hand.pass(1_000 * S);
    hand.meet(&mut who);
    hand.now = 5;
    hand.end.handle_timeout(hand.now, &mut hand.log);
    assert!(!hand.flush().is_empty(), "it announces itself at once");
    hand.give(who.place, &who.data(1, None, b"one"));
    hand.give(who.place, &who.data(3, None, b"three"));
    assert_eq!((hand.log.got.len(), hand.end.subscribed(hand.topic).lost), (2, 1));
    assert!(hand.pass(3 * S).len() >= 3);
}

#[test]
fn what_is_no_frame_ends_a_datagram_and_a_connection() {
    let mut hand = Hand::new(Role::Subscriber);
    let mut who = Stranger { place: Place::Stream(4), ..stranger(address(1), 10, Role::Publisher) };
    hand.announce(&who);
    assert_eq!(hand.peers(), 1, "a connection has proven itself");
    let mut unknown = who.data(1, None, b"of a kind to come");
    unknown[2] = 9;
    let bytes = [&unknown[..], &who.data(2, None, b"good"), b"GARBAGE and more of it"].concat();
    let handled = hand.end.handle(hand.now, who.place, &bytes, &mut hand.log);
    assert_eq!(handled.consumed, bytes.len() - 22);
    assert_eq!(handled.close, Some(tempo::wire::Unreadable::Magic(b'G')));
    who = stranger(address(2), 11, Role::Publisher);
    hand.meet(&mut who);
    let bytes = [&unknown[..], &who.data(2, None, b"good"), b"GARBAGE and more of it"].concat();
    let handled = hand.end.handle(hand.now, who.place, &bytes, &mut hand.log);
    assert_eq!((handled.consumed, handled.close), (bytes.len(), None));
    assert_eq!((hand.log.got.len(), hand.end.counters().unreadable, hand.end.counters().unknown_frames), (2, 2, 2));
    let mut other = who.data(3, None, b"another version");
    other[1] = 2;
    assert!(hand.end.handle(hand.now, Place::Stream(9), &other, &mut hand.log).close.is_some());
    assert_eq!(hand.end.counters().other_versions, 1);
}

#[test]
fn only_a_broker_says_where_echoes_go() {
    let mut hand = Hand::new(Role::Subscriber);
    let mut who = stranger(address(1), 10, Role::Publisher);
    hand.meet(&mut who);
    let sent_to = |hand: &mut Hand, by_broker: bool, sequence: u32, to: Option<std::net::SocketAddr>| {
        let header = Header { by_broker, ..who.header(sequence) };
        let probe = Probe { sent: 5, prober: 10, topic: 9, number: sequence, to, hops: 1, echoed_by: 0 };
        let sent = hand.give(who.place, &written(header, Payload::Probe(probe)));
        assert_eq!(sent.len(), 1);
        let Ok((Frame { payload: Payload::Echo(echo), .. }, _)) = Frame::read(&sent[0].1) else { panic!("no echo") };
        assert_eq!(echo, Probe { echoed_by: 1, ..probe });
        sent[0].0
    };
    let there = Some(address(3));
    assert_eq!(sent_to(&mut hand, false, 1, there), To::Place(who.place));
    assert_eq!(sent_to(&mut hand, true, 2, there), To::Place(Place::Datagram(address(3))));
    for (sequence, nowhere) in [(3, "224.0.0.1:5"), (4, "0.0.0.0:5"), (5, "10.0.0.1:0"), (6, "[::1]:5")] {
        assert_eq!(sent_to(&mut hand, true, sequence, nowhere.parse().ok()), To::Place(who.place), "{nowhere}");
    }
    let probe = Probe { sent: 5, prober: 10, topic: 9, number: 6, to: None, hops: 1, echoed_by: 0 };
    assert!(hand.give(who.place, &written(who.header(6), Payload::Probe(probe))).is_empty(), "it came before");
}

// ---- names ----

/// The names that are sent, and to where.
fn names(sent: &[(To, Vec<u8>)]) -> Vec<(To, String)> {
    let mut names = Vec::new();
    for (to, bytes) in sent {
        let mut rest = &bytes[..];
        while let Ok((frame, octets)) = Frame::read(rest) {
            if let Payload::Name(name) = frame.payload {
                names.push((*to, name.to_owned()));
            }
            rest = &rest[octets..];
        }
    }
    names
}

#[test]
fn a_broker_that_has_proven_itself_is_told_the_name_three_times_and_nobody_else_ever() {
    let name = Name::new("mast").unwrap();
    for (by_broker, has_name) in [(true, true), (false, true), (true, false)] {
        let name = if has_name { name } else { Name::NONE };
        let mut hand = Hand::called(Role::Publisher, Channel::None, name);
        let mut who = stranger(address(1), 10, Role::Subscriber);
        let announce = |hand: &mut Hand, who: &Stranger| {
            let header = Header { by_broker, ..who.header(0) };
            hand.give(who.place, &written(header, Payload::Announcement(who.announcement())))
        };
        let answers = announce(&mut hand, &who);
        assert_eq!(names(&answers), [], "it is a stranger");
        who.returned = cookie(&answers);
        let told: Vec<_> = (0..6)
            .flat_map(|_| {
                let sent = announce(&mut hand, &who);
                [sent, hand.pass(S)].concat()
            })
            .collect();
        let times = if by_broker && has_name { 3 } else { 0 };
        assert_eq!(names(&told), vec![(To::Place(who.place), "mast".to_owned()); times]);
        // One that comes here changes nothing.
        let before = hand.end.counters().unknown_frames;
        assert_eq!(hand.give(who.place, &written(who.header(0), Payload::Name("other"))), []);
        assert_eq!(hand.end.counters().unknown_frames, before);
    }
}

#[test]
fn names_of_end_points_are_short_and_have_no_control_characters() {
    let (longest, long) = ("é".repeat(32), "x".repeat(65));
    for (name, is_one) in
        [("mast", true), ("", true), ("4711", true), ("אבג", true), (&longest, true), (&long, false), ("a\nb", false)]
    {
        assert_eq!(Name::new(name).map(|name| name.as_str().to_owned()), is_one.then(|| name.to_owned()), "{name:?}");
    }
    assert_eq!(Name::new(""), Some(Name::NONE));
}
