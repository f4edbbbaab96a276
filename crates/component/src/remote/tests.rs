//! Ends of sources and sinks, with publishers that tests write.

use super::*;

#[derive(Event, Clone)]
struct Wind {
    speed: f64,
}

type Outlets<T> = (Arc<dyn QueueOf<T>>, Box<dyn Outlet>, Ending, Receiver<()>);

/// Publishes by a closure, and answers what the test says is lost.
struct Scripted<F> {
    publish: F,
    lost: Arc<Mutex<u64>>,
    closed: Sender<Duration>,
}

impl<F: FnMut() -> Result<(), String> + Send> Publisher for Scripted<F> {
    fn publish(&mut self, _: &[u8], _: EventQos) -> Result<(), String> {
        (self.publish)()
    }

    fn lost(&mut self) -> Option<Lost> {
        let events = std::mem::take(&mut *self.lost.lock().unwrap());
        (events > 0).then(|| Lost { events, reason: "the service refused them".to_owned() })
    }

    fn close(&mut self, within: Duration) {
        let _ = self.closed.send(within);
    }
}

fn scripted(publish: impl FnMut() -> Result<(), String> + Send + 'static) -> Box<dyn Publisher> {
    Box::new(Scripted { publish, lost: Arc::default(), closed: channel().0 })
}

fn manual() -> Clock {
    Clock::Manual(Instant::now(), Arc::default())
}

/// The two halves of a source with a publisher.
fn outlet(port: &Remote<Wind>, publisher: Box<dyn Publisher>, waker: Arc<Waker>) -> (Arc<PortCounters>, Outlets<Wind>) {
    let (counters, ending, (done, ended)) = (Arc::<PortCounters>::default(), Ending::default(), channel());
    let source = SourceContext {
        channel: "plan.mast.wind".to_owned(),
        clock: manual(),
        counters: counters.clone(),
        waker,
        ending: ending.clone(),
        _done: done,
    };
    let (queue, outlet) = port.outlet(publisher, source).unwrap();
    let queue = *queue.downcast::<Arc<dyn QueueOf<Wind>>>().unwrap();
    (counters, (queue, outlet, ending, ended))
}

fn port() -> Remote<Wind> {
    Remote::of(Some(Queueing::new()))
}

fn put(queue: &dyn QueueOf<Wind>) {
    let origin = Origin { source: &"mast.wind".into(), sent: Instant::now(), priority: 0, expires: None, set: None };
    queue.put(&Wind { speed: 1.0 }, &origin).unwrap();
}

#[test]
fn an_end_drops_what_waits_when_its_time_is_over() {
    let given = Arc::<PortCounters>::default();
    let to = given.clone();
    let publisher = scripted(move || {
        to.sent.count();
        Err("there is no room".to_owned())
    });
    let (counters, (queue, mut outlet, ending, ended)) = outlet(&port(), publisher, Arc::default());
    (0..3).for_each(|_| put(&*queue));
    assert_eq!(outlet.publish(), Round::Some);
    assert_eq!((given.sent.get(), counters.failed.get()), (3, 3), "each is tried while the source is there");
    assert_eq!(outlet.publish(), Round::Idle);
    (0..3).for_each(|_| put(&*queue));
    ending.set(Instant::now()).unwrap();
    assert!(outlet.has_work());
    assert_eq!(outlet.publish(), Round::Ended);
    assert_eq!((given.sent.get(), counters.failed.get()), (3, 6));
    drop(outlet);
    assert!(ended.recv().is_err(), "the end is heard of");
    put(&*queue);
    assert_eq!(counters.failed.get(), 7, "what is sent behind the end is counted, too");
}

/// A component that spins in `send` puts the next event in while one is published.
#[test]
fn a_component_that_sends_on_does_not_delay_the_end() {
    let (given, own) = (Arc::<PortCounters>::default(), Arc::<OnceLock<Arc<dyn QueueOf<Wind>>>>::default());
    let (to, next) = (given.clone(), own.clone());
    let publisher = scripted(move || {
        to.sent.count();
        put(&**next.get().unwrap());
        Ok(())
    });
    let (counters, (queue, mut outlet, ending, _ended)) = outlet(&port(), publisher, Arc::default());
    own.set(queue.clone()).ok().unwrap();
    put(&*queue);
    assert_eq!(outlet.publish(), Round::Some);
    ending.set(Instant::now() + Duration::from_secs(3_600)).unwrap();
    let before = given.sent.get();
    while outlet.publish() != Round::Ended {}
    assert_eq!(given.sent.get() - before, u64::from(PUBLISHED_MAX));
    assert_eq!(counters.failed.get(), 1, "the one behind them");
}

#[test]
fn events_that_are_lost_later_count_as_failed() {
    let (lost, (closed, closing)) = (Arc::<Mutex<u64>>::default(), channel());
    let publisher = Scripted { publish: || Ok(()), lost: lost.clone(), closed };
    let (counters, (queue, mut outlet, ending, _ended)) = outlet(&port(), Box::new(publisher), Arc::default());
    put(&*queue);
    outlet.publish();
    outlet.count_losses();
    assert_eq!(counters.failed.get(), 0);
    *lost.lock().unwrap() = 3;
    outlet.count_losses();
    outlet.count_losses();
    assert_eq!(counters.failed.get(), 3, "each once");
    *lost.lock().unwrap() = 2;
    ending.set(Instant::now() + END_MAX).unwrap();
    drop(outlet);
    assert!(closing.recv().unwrap() <= END_MAX);
    assert_eq!(counters.failed.get(), 5, "and those that the end finds");
}

#[test]
fn a_source_whose_service_hangs_and_refuses_leaves_others_their_end() {
    let publishing = PublishThread::start().unwrap();
    let (open, gate) = channel::<()>();
    let (entered, inside) = channel();
    let refusing = scripted(move || {
        let _ = entered.send(());
        let _ = gate.recv();
        Err("there is no room".to_owned())
    });
    let given = Arc::<PortCounters>::default();
    let to = given.clone();
    let taking = scripted(move || {
        to.sent.count();
        Ok(())
    });
    let mut ends = Vec::new();
    let mut all = Vec::new();
    for publisher in [refusing, taking] {
        let waker = publishing.waker.clone();
        let (counters, (queue, outlet, ending, done)) = outlet(&port(), publisher, waker.clone());
        (0..3).for_each(|_| put(&*queue));
        publishing.add(outlet).unwrap();
        ends.push(SourceEnd { waker, ending, done });
        all.push(counters);
    }
    inside.recv().unwrap();
    // The time of the first is over while it hangs; that of the other is not.
    ends[0].ending.set(Instant::now()).unwrap();
    ends[1].ending.set(Instant::now() + Duration::from_secs(3_600)).unwrap();
    ends.iter().for_each(SourceEnd::stop);
    drop(open);
    drop(ends);
    assert_eq!((all[0].failed.get(), all[1].failed.get(), given.sent.get()), (3, 0, 3));
}

/// Publishes at once where it has room; notes what it published, and whether the lane did.
struct Roomy {
    has_room: Arc<AtomicBool>,
    published: Sender<(f64, bool)>,
    /// Told when the thread publishes, which waits then.
    inside: Option<(Sender<()>, Receiver<()>)>,
}

impl Publisher for Roomy {
    fn publish(&mut self, value: &[u8], _: EventQos) -> Result<(), String> {
        if let Some((entered, gate)) = &self.inside {
            let _ = (entered.send(()), gate.recv());
        }
        self.published.send((f64::from_ne_bytes(value.try_into().unwrap()), false)).map_err(|error| error.to_string())
    }

    fn publish_at_once(&mut self, value: &[u8], _: EventQos) -> Result<bool, String> {
        let has_room = self.has_room.load(Ordering::Relaxed);
        if has_room {
            self.published.send((f64::from_ne_bytes(value.try_into().unwrap()), true)).unwrap();
        }
        Ok(has_room)
    }

    fn lost(&mut self) -> Option<Lost> {
        None
    }

    fn close(&mut self, _: Duration) {}
}

fn put_speed(queue: &dyn QueueOf<Wind>, speed: f64) {
    let origin = Origin { source: &"mast.wind".into(), sent: Instant::now(), priority: 0, expires: None, set: None };
    queue.put(&Wind { speed }, &origin).unwrap();
}

#[test]
fn a_lane_publishes_by_itself_where_none_waits_before() {
    let (has_room, (published, came)) = (Arc::<AtomicBool>::default(), channel());
    let publisher = Roomy { has_room: has_room.clone(), published, inside: None };
    let (_, (queue, mut outlet, ..)) = outlet(&port(), Box::new(publisher), Arc::default());
    put_speed(&*queue, 1.0);
    has_room.store(true, Ordering::Relaxed);
    put_speed(&*queue, 2.0);
    assert_eq!(came.try_iter().collect::<Vec<_>>(), [], "there is room again, but the first waits");
    outlet.publish();
    put_speed(&*queue, 3.0);
    assert_eq!(came.try_iter().collect::<Vec<_>>(), [(1.0, false), (2.0, false), (3.0, true)]);
}

#[test]
fn a_lane_does_not_wait_for_the_thread_nor_overtakes_it() {
    let (has_room, (published, came)) = (Arc::<AtomicBool>::default(), channel());
    let ((entered, inside), (open, gate)) = (channel(), channel());
    let publisher = Roomy { has_room: has_room.clone(), published, inside: Some((entered, gate)) };
    let (_, (queue, mut outlet, ..)) = outlet(&port(), Box::new(publisher), Arc::default());
    put_speed(&*queue, 1.0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| while outlet.publish() != Round::Idle {});
        inside.recv().unwrap();
        has_room.store(true, Ordering::Relaxed);
        // It returns, though the thread is in the middle of publishing.
        put_speed(&*queue, 2.0);
        drop(open);
        thread.join().unwrap();
    });
    assert_eq!(came.try_iter().collect::<Vec<_>>(), [(1.0, false), (2.0, false)]);
}

#[test]
fn a_panic_in_the_code_of_an_event_is_a_failure() {
    let broken = Remote { write: |_, _| panic!("no text"), read: |_| panic!("no value"), ..port() };
    let (counters, (queue, mut outlet, ..)) = outlet(&broken, scripted(|| Ok(())), Arc::default());
    (0..2).for_each(|_| put(&*queue));
    assert_eq!(counters.failed.get(), 2, "the lane has written them");
    assert_eq!(outlet.publish(), Round::Idle);
    let counters = Arc::<PortCounters>::default();
    let sink = SinkContext { source: "mast.wind".into(), clock: manual(), counters: counters.clone() };
    let queue = (Queueing::<Wind>::new().make)(&QueueSettings::default(), Arc::default(), Arc::default());
    let mut take = broken.taking(Box::new(queue), sink).unwrap();
    take(Ok((&[0; 8], EventQos::default())));
    take(Err(Lost { events: 2, reason: "a gap".to_owned() }));
    assert_eq!(counters.failed.get(), 3);
}

#[test]
fn failures_are_logged_once_a_minute() {
    let (counters, clock) = (Arc::<PortCounters>::default(), manual());
    let mut failures = Failures::new(counters.clone(), clock.clone(), "of plan.mast.wind".to_owned());
    let begin = clock.now();
    let mut count_after = |seconds| {
        clock.set(begin + Duration::from_secs(seconds));
        failures.count(&Lost::one("there is no room".to_owned()));
        failures.logged.map(|logged| logged.duration_since(begin).as_secs())
    };
    assert_eq!([0, 1, 59, 60, 61].map(&mut count_after), [0, 0, 0, 60, 60].map(Some));
    assert_eq!(counters.failed.get(), 5);
}
