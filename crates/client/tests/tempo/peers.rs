//! From peer to peer.

use campanile_client::tempo::{Error, MESSAGE_MAX, Node, Publisher, Subscriber};
use testing::{PATIENCE, own_loopback, wait_until};

use crate::support::{Heard, TRANSPORTS, address, meets, open, open_large, wait_somewhere};

#[test]
fn a_message_goes_from_peer_to_peer_whichever_waits_and_whichever_comes_first() {
    for transport in TRANSPORTS {
        // The subscriber waits, and is there first.
        let waiting = wait_somewhere(transport);
        let heard = Heard::of(&waiting, "Weather/Wind");
        let publisher = open(&address(transport, &waiting)).publisher("Weather/Wind").open().unwrap();
        meets(&publisher, 1);
        publisher.publish(b"11.5 m/s").unwrap();
        assert_eq!(heard.next(), b"11.5 m/s");

        // The publisher waits.
        let waiting = wait_somewhere(transport);
        let publisher = waiting.publisher("Weather/Rain").open().unwrap();
        let heard = Heard::of(&open(&address(transport, &waiting)), "Weather/Rain");
        meets(&publisher, 1);
        publisher.publish_with(3, b"wet").unwrap();
        assert_eq!(heard.next(), b"wet");

        // The connecting end point is there before the waiting one.
        let at = format!("{}:2811", own_loopback());
        let heard = Heard::of(&open(&format!("{transport}://{at}")), "Weather/Snow");
        let waiting = open(&format!("{transport}://@{at}"));
        let publisher = waiting.publisher("Weather/Snow").open().unwrap();
        meets(&publisher, 1);
        publisher.publish(b"cold").unwrap();
        assert_eq!(heard.next(), b"cold");
    }
}

#[test]
fn messages_come_in_order_and_with_what_was_said_of_them() {
    for transport in TRANSPORTS {
        let waiting = wait_somewhere(transport);
        let publisher = waiting.publisher("A/B").open().unwrap();
        let subscriber = open(&address(transport, &waiting)).subscriber("A/B").open().unwrap();
        meets(&publisher, 1);
        (0..1_000).for_each(|number: u32| publisher.publish_with(-7, &number.to_le_bytes()).unwrap());
        let mut last = None;
        for number in 0..1_000_u32 {
            let kept = subscriber.next(PATIENCE).unwrap();
            let message = kept.message();
            assert_eq!(message.octets, number.to_le_bytes());
            assert_eq!((message.priority, message.from), (-7, waiting.session()));
            assert!(message.sent_ns <= campanile_client::tempo::now());
            // Probes have numbers, too.
            assert!(last.is_none_or(|last| message.sequence.wrapping_sub(last) < 100), "{last:?}");
            last = Some(message.sequence);
        }
        assert_eq!(subscriber.next(std::time::Duration::ZERO), None);
    }
}

#[test]
fn either_side_may_be_restarted() {
    for transport in TRANSPORTS {
        let at = format!("{}:2811", own_loopback());
        let connecting = open(&format!("{transport}://{at}"));
        let heard = Heard::of(&connecting, "A/B");
        for run in ["first", "second", "third"] {
            let waiting = open(&format!("{transport}://@{at}"));
            let publisher = waiting.publisher("A/B").open().unwrap();
            meets(&publisher, 1);
            publisher.publish(run.as_bytes()).unwrap();
            assert_eq!(heard.texts(1), [run]);
        }
        drop((heard, connecting));
        let waiting = open(&format!("{transport}://@{at}"));
        let publisher = waiting.publisher("A/B").open().unwrap();
        for run in ["fourth", "fifth"] {
            let heard = Heard::of(&open(&format!("{transport}://{at}")), "A/B");
            meets(&publisher, 1);
            publisher.publish(run.as_bytes()).unwrap();
            assert_eq!(heard.texts(1), [run]);
            drop(heard);
            wait_until("the subscriber is gone", || publisher.subscribers().is_empty());
        }
    }
}

#[test]
fn large_messages_go_in_fragments() {
    for transport in TRANSPORTS {
        let waiting = open_large(&format!("{transport}://@127.0.0.1:0"));
        let publisher = waiting.publisher("Camera/Frames").open().unwrap();
        let heard = Heard::of(&open_large(&address(transport, &waiting)), "Camera/Frames");
        meets(&publisher, 1);
        for octets in [0, 1, 1_400, 1_473, 65_507, 1 << 20] {
            let message: Vec<u8> = (0..=250_u8).cycle().take(octets).collect();
            publisher.publish(&message).unwrap();
            let came = heard.next();
            assert!(came == message, "{transport}: {octets} octets became {}", came.len());
        }
        let error = publisher.publish(&vec![0; (4 << 20) + 1]).unwrap_err();
        assert!(error.to_string().contains("too large"), "{error}");
        // A subscriber that takes only smaller messages gets those.
        let small = Heard::of(&open(&address(transport, &waiting)), "Camera/Frames");
        meets(&publisher, 2);
        publisher.publish(&vec![0; 65_537]).unwrap();
        publisher.publish(&vec![1; 65_536]).unwrap();
        assert_eq!((heard.next().len(), heard.next().len(), small.next().len()), (65_537, 65_536, 65_536));
        assert_eq!(waiting.counters().too_large_for_peer, 1);
    }
    let beyond = Node::builder("udp://@:0").unwrap().messages_up_to(MESSAGE_MAX + 1);
    assert!(beyond.open().unwrap_err().to_string().contains("1 MiB"));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let refused = |address: &str| Node::open(address).unwrap_err().to_string();
    assert!(refused("127.0.0.1:2811").contains("udp://HOST:PORT"));
    assert!(refused("udp://nobody.invalid").contains("cannot be found"));
    let node = wait_somewhere("udp");
    let taken = address("udp", &node).replace("udp://", "udp://@");
    assert!(refused(&taken).contains("another end point waits at"), "{}", refused(&taken));
    assert!(refused("udp://@192.0.2.77:2811").contains("no address of this machine"));
    assert!(Node::builder("udp://@:0").unwrap().period(std::time::Duration::from_millis(5)).open().is_err());
    assert!(Node::builder("udp://@:0").unwrap().datagram(100).open().is_err());
    let publisher = node.publisher("A/B").open().unwrap();
    assert!(matches!(node.publisher("A/B").open(), Err(Error::Refused(_))));
    assert!(matches!(node.publisher("A\nB").open(), Err(Error::Refused(_))));
    // In the other role it may be there.
    node.subscriber("A/B").open().unwrap();
    drop(publisher);
    wait_until("the topic can be had again", || node.publisher("A/B").open().is_ok());
    assert!(Publisher::new("", "udp://@:0").is_err() && Subscriber::new("A", "udp://x:y").is_err());
}
