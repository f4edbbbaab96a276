//! The scenarios, a row for each: its name, what it shows, the options that it takes, and what runs it.

use crate::experiments::{self, tempo};
use crate::options::{How, Scenario};
use crate::{
    administration, crash, deployment, durable, filters, floor, history, hostile, links, memory, order, overflow,
    performance, pipeline, timers, tls,
};

macro_rules! scenarios {
    ($($name:literal ($takes:literal) => $how:ident($run:path): $about:literal;)*) => {
        pub(crate) const ALL: &[Scenario] = &[$(Scenario { name: $name, about: $about, takes: $takes, how: How::$how($run) }),*];
    };
}

scenarios! {
    "pipeline" ("suppliers=16 payload=13312 rate=2 stagger_ms=5 consumers=1 seconds=10 no_sockets form pull timeout push_window") => Alone(pipeline::run):
        "Run a correlator pipeline: 16 suppliers of 13 KB at 2 Hz, alone and beside the monitor system";
    "order" ("quick suppliers=8 consumers=8 events=100000/5000 payload=128 form pull timeout push_window") => Alone(order::run):
        "Show that order is kept and nothing lost: 8 suppliers × 100,000 events into 8 consumers, at full speed";
    "floor" ("quick rounds=5/3 paced_seconds=10/1.2 saturated_seconds=2/0.3 lockstep_seconds=2/0.3 rate=250 payload=128 no_pin strace only \
              omniorb_dir push_window") => Alone(floor::run):
        "Compare with the floor: a bare TCP relay, and two omniORB programs without a service";
    "filters" ("quick") => Alone(filters::run):
        "What filters cost: the language beside Rust, and 1, 100 and 10,000 consumers with a filter each";
    "administration" ("quick proxies=10000 rate=1000") => Alone(administration::run):
        "What administration takes from the events: proxies, walks, constraints, statistics, channels meanwhile";
    "memory" ("quick connections=1000/200 proxies_each=10") => Alone(memory::run):
        "What the service keeps in memory for consumers that wait: 10,000 proxies from 1,000 connections, and its threads";
    "hostile" ("quick only rounds=5/2 seconds together ordinary rest=60/2 rate=500 config service") => Alone(hostile::run):
        "What clients that mean harm, or die, cost everybody else: one attack after the other, or all at once";
    "crash" ("quick rounds=20/5 seed interop on") => Alone(crash::run):
        "Show that nothing acknowledged is lost: a service with a store is killed under load, round after round";
    "deployment" ("quick nodes=20/4 instances=200/24 tries=50/6 seed on") => Alone(deployment::run):
        "A plan over twenty nodes changes while one of them is killed: all of it runs, or all as before";
    "durable" ("quick on") => Alone(durable::run):
        "What it costs that events outlive the service: beside the store's engine alone, and for a channel that is best-effort";
    "history" ("quick events=1000000/100000 payload=128 on") => Alone(history::run):
        "A consumer that comes late to a channel that keeps its history";
    "timers" ("quick rounds=10/2") => Alone(timers::run):
        "How even the intervals of a channel's timer are at 1 kHz, beside a timerfd alone";
    "links" ("quick only carriers rounds=20/4 seconds=9/4 down_for=300/4 payload=128 seed interop on") => Alone(links::run):
        "A channel at two services: beside one service alone, over a narrow line, over cuts, and while either is killed";
    "federation" ("quick only loads=1,5,10,20/1,5 line_mbit=0,100,10/0,10 rounds=4/2 seconds=9/4 payload=128 on") => Alone(links::federation::run):
        "A channel of services at nodes of their own: subscribers there (Deng et al., figures 17 and 18), and a mesh of ten services";
    "tls" ("quick events=20000/2000 payload=128 rate=1000") => Alone(tls::run):
        "What TLS costs an event, beside a bare relay";
    "json" ("quick rounds=20/6 rate=250") => Alone(performance::json::run):
        "What an event takes by lines of JSON, beside CORBA";
    "overflow" ("quick seconds=60/5 awake=5 writer rate=20000 payload=1000 budget_gib=4 on") => Alone(overflow::run):
        "A consumer that sleeps while events go on coming, and gets them all when it wakes";
    "paths-load" ("") => OnBed(experiments::paths::load):
        "Three paths of 100 events/s under rising load: which of them keep up (Gore et al., figures 9 and 10)";
    "paths-latency" ("") => OnBed(experiments::paths::latency):
        "How latencies are spread where the low path has failed (Gore et al., figures 11 and 12)";
    "paths-jitter" ("only") => OnBed(experiments::paths::jitter):
        "How even the high path's latency stays under load and beside 20 saturating low paths (Gore et al., figure 13)";
    "paths-number" ("") => OnBed(experiments::paths::number):
        "The high path beside 1 to 100 low paths (Gore et al., figure 14)";
    "overhead" ("") => OnBed(experiments::overhead::measure):
        "What priorities cost, and a service beside 2 and 3 hops without one (Gore et al., figure 15)";
    "isolation" ("") => OnBed(experiments::isolation::measure):
        "What a publisher suffers from another one's flood (Bauer et al., Tempo, figures 11 and 12)";
    "tempo-latency" ("") => OnBed(tempo::latency::measure):
        "Tempo at 250 and 4,000 messages/s: peer to peer, through a broker, beside CORBA and bare sockets (Bauer et al., tables I to III)";
    "tempo-rates" ("") => OnBed(tempo::rates::measure):
        "Tempo through a broker as the rate is raised until it is not reached (Bauer et al., figure 10)";
    "tempo-saturation" ("") => OnBed(tempo::saturation::measure):
        "As many messages as Tempo carries over TCP and UDP, beside bare sockets";
    "tempo-isolation" ("") => OnBed(tempo::isolation::measure):
        "What a publisher suffers from another one's flood through the same Tempo broker (Bauer et al., figures 11 and 12)";
    "tempo-fan-out" ("") => OnBed(tempo::fan_out::measure):
        "One Tempo publisher and a hundred subscribers: to each, to a multicast group, through a broker";
    "tempo-churn" ("") => OnBed(tempo::churn::measure):
        "A thousand Tempo publishers appear at a broker and vanish, again and again: what is left of them";
    "tempo-predicted" ("") => OnBed(tempo::predicted::measure):
        "What the analysis says of a Tempo broker that runs by the clock, beside what is measured (Bauer et al., section IV.E)";
    "alma" ("only transports") => OnBed(experiments::alma::measure):
        "8 KB at 10 Hz to 1 to 100 subscribers, through the simple API on a notification service and on DDS, beside Cyclone DDS alone";
    "components" ("rounds=40/4") => OnBed(experiments::components::measure):
        "What a container costs its components: 1 to 50 sinks in one process and in two that a channel joins (Deng et al., figures 13 to 16)";
    "placements" ("rounds=40/4 only") => OnBed(experiments::components::placements::measure):
        "The same components with connections to a service for each server, container or component: latency, throughput, memory (Deng et al., 2.2)";
    "component-crashes" ("rounds=1000/20") => OnBed(experiments::component_crashes::measure):
        "A component crashes again and again: what its neighbours suffer, and whether memory grows";
    "predicted" ("") => OnBed(experiments::predicted::measure):
        "What deploy check computes of a plan's response times, beside what they are";
    "languages" ("") => OnBed(experiments::languages::measure):
        "The simple API in Rust, C, C++, Java and Python: gathered events a second, and how long one takes";
    "soak" ("library sanitize") => OnBed(experiments::soak::measure):
        "A program in C on both transports; its consumers and suppliers come and go for half an hour: what is left of them";
    "event-path" ("") => OnBed(experiments::event_path::measure):
        "What the service does for one event, seen from outside: system calls in order, context switches, allocations";
    "experiments" ("quick lift_throttling seconds") => All(experiments::run_all):
        "The papers' six experiments; with --results for lab/pages.py, which makes charts and a page of them";
    "performance" ("quick rounds=3/1 only") => Alone(performance::whole::run):
        "Latency, throughput and fan-out beside floors and peers; with --results for lab/pages.py, which makes charts and a page of them";
    "endurance" ("minutes=30 rates=250,1000 payload=128 together beside") => Alone(performance::endurance::run):
        "One consumer for half an hour at 250/s and at 1,000/s: every event over 1 ms written down, and looked into";
    "saturate" ("contender window one_way sequence any consumer batch queue payload=64 consumers=1 processes=1 seconds=5 rate=0 service_core \
                 ends_core push_window") => Alone(performance::saturate::run):
        "As many events as get through the service in one configuration, and what each costs";
}
