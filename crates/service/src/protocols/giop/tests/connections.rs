//! Connections on a lane without its thread: in what order they are written to, to which account they are charged, and that they end.

use super::*;

/// Octets that have come by now.
fn come(stream: &mut TcpStream) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(stream.read_to_end(&mut bytes).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    bytes.len()
}

/// Of an address that had had its quota of a round, the connection with much to be written came first again in the next one, and the
/// next: a small answer was overtaken by each piece of a large one.
#[test]
fn a_connection_that_was_passed_over_in_a_round_is_written_to_before_those_that_were_not() {
    const MUCH: usize = 2 << 20;
    let mut bench = Bench::with(256 << 20, Budget::of_connection(64, Duration::ZERO));
    let _other = bench.connect();
    let mut large = bench.connect_from([127, 0, 0, 2]);
    let mut small = bench.connect_from([127, 0, 0, 2]);
    large.write_all(&asking(1, "_is_a")).unwrap();
    let of_large = bench.request();
    small.write_all(&asking(2, "_is_a")).unwrap();
    let of_small = bench.request();
    // Both answers come with one look at the mailbox.
    bench.from_administration.send(of_large.answered(vec![0; MUCH]).1).unwrap();
    bench.from_administration.send(of_small.answered(vec![0; 100]).1).unwrap();
    let mut written = 0;
    testing::wait_until("the small answer", || {
        bench.lane.round_within(Duration::from_millis(1));
        written += come(&mut large);
        come(&mut small) == 100
    });
    assert!(written <= 256 << 10, "{written} octets of the large one came before it");
    testing::wait_until("the large answer", || {
        bench.lane.round_within(Duration::from_millis(1));
        written += come(&mut large);
        written == MUCH
    });
}

/// What was done for a connection to a client was charged to the account that had named its end point first: a busy client could so
/// have another client's consumer wait for its own quotas.
#[test]
fn what_is_done_for_a_connection_to_a_client_is_charged_to_the_host_that_it_leads_to() {
    let mut bench = Bench::new();
    let client = TcpListener::bind("127.0.0.3:0").unwrap();
    let location: Corbaloc = format!("corbaloc::1.2@{}/object", client.local_addr().unwrap()).parse().unwrap();
    let named_by = bench.accounts.account_of([127, 0, 0, 2].into());
    let to: Ior = location.to_ior("IDL:x:1.0");
    bench.begin_call(7, call(to, Some(named_by), Vec::new()));
    let charged = |bench: &mut Bench| {
        let connections = &mut bench.lane.core.protocols.giop.outgoing.connections;
        let quotas: Vec<_> = connections.iter_mut().map(|(_, connection)| connection.rounds.quota).collect();
        quotas[0]
    };
    assert_eq!(charged(&mut bench), bench.lane.core.cx.io.quotas.arrive([127, 0, 0, 2].into()));
    let mut accepted = client.accept_in_time();
    bench.answer_probe(&mut accepted);
    testing::wait_until("the lane to know that it is connected", || {
        bench.lane.round_within(Duration::from_millis(1));
        bench.lane.core.protocols.giop.outgoing.connections.iter().all(|(_, connection)| connection.is_open())
    });
    assert_eq!(charged(&mut bench), bench.lane.core.cx.io.quotas.arrive([127, 0, 0, 3].into()));
}

/// A client that sent nonsense and did not read its last answers stayed for ever: whether connections that are being closed had had
/// their time was looked at once, and after that only where some were read.
#[test]
fn a_connection_that_is_closed_and_does_not_take_its_last_octets_is_gone_in_time_and_once() {
    let mut bench = Bench::new();
    let mut client = bench.connect_with_little_room();
    let has_unread =
        |bench: &Bench| bench.lane.clients.giop.incoming.iter().any(|(_, entry)| !entry.caller.output.is_empty());
    for id in 0.. {
        assert!(id < 1_000, "its socket takes everything");
        client.write_all(&asking(id, "_is_a")).unwrap();
        let request = bench.request();
        bench.from_administration.send(request.answered(vec![0; 256 << 10]).1).unwrap();
        (0..20).for_each(|_| bench.lane.round_within(Duration::ZERO));
        if has_unread(&bench) {
            break;
        }
    }
    client.write_all(b"This is not GIOP at all, not even a little.").unwrap();
    testing::wait_until("it to be distrusted", || {
        bench.lane.round_within(Duration::from_millis(1));
        bench.counters.read(Counter::ProtocolErrors) == 1
    });
    assert!(has_unread(&bench));
    // It is looked at, has time, and is not read any more.
    bench.lane.core.cx.clock.set_forward(Duration::from_secs(1));
    (0..3).for_each(|_| bench.lane.round_within(Duration::ZERO));
    assert_eq!(bench.counters.read(Counter::ConnectionsOpen), 1);
    bench.lane.core.cx.clock.set_forward(Duration::from_secs(61));
    (0..3).for_each(|_| bench.lane.round_within(Duration::ZERO));
    assert_eq!(bench.counters.read(Counter::ConnectionsOpen), 0);
    // It was sent what was wrong with it, once, and expected no message.
    assert_eq!(
        (bench.counters.read(Counter::ProtocolErrors), bench.counters.read(Counter::IncompleteMessages)),
        (1, 0)
    );
}
