//! The analysis of section IV.E: the paper's own example, figures worked out by hand, a simulation of the same queue.

use crate::tempo::{
    Application, Arrivals, ForecastRequest, ForecastRequestError, PollingServer, Queue, Server, TempoFile, Topic,
    TopicRate, forecast, guaranteed_rate, wait_for_service_s,
};
use crate::{AnalysisLimits, Outcome, Response};

fn is_close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1e-3)
}

fn topic(name: &str, rate: f64, deadline_s: Option<f64>) -> Topic {
    Topic { name: name.to_owned(), rate, arrival: rate, deadline_s, arrivals: Arrivals::Poisson }
}

fn request(service_rate: f64, topics: Vec<Topic>) -> ForecastRequest {
    ForecastRequest { service_rate, topics, server: None, applications: Vec::new() }
}

fn carried(queue: Queue, period_s: f64, budget_s: f64) -> f64 {
    let server = PollingServer { period_s, budget_s };
    let found = server.nothing_carried_over(&queue, &mut 1_000_000_000).unwrap();
    assert!(found.error_max < 1e-9, "{found:?}");
    found.value
}

#[test]
fn the_papers_example_has_the_papers_figures() {
    let queue = Queue { arrival_rate: 250.0, service_rate: 10_000.0 };
    assert!(is_close(queue.intensity(), 0.025));
    // 1/10000 / 0.975
    assert!(is_close(queue.mean_response_s().unwrap(), 0.000_102_564_102_564));
    // the same × ln 1000, which is 6.907755
    assert!(is_close(queue.response_percentile_s(99.9).unwrap(), 0.000_708_487_721_442));
    assert_eq!([0.0, 100.0, -1.0, f64::NAN].map(|percent| queue.response_percentile_s(percent)), [None; 4]);
}

#[test]
fn queue_at_which_as_many_arrive_as_can_be_served_is_not_stable() {
    let queue = Queue { arrival_rate: 10.0, service_rate: 10.0 };
    assert_eq!((queue.is_stable(), queue.mean_response_s(), queue.response_percentile_s(50.0)), (false, None, None));
    assert!(Queue { arrival_rate: 9.99, ..queue }.is_stable());
}

#[test]
fn shares_divide_the_service_rate() {
    // 1/10, 3/10 and 6/10 of 2,000
    assert_eq!([10.0, 30.0, 60.0].map(|share| guaranteed_rate(2000.0, share, 100.0)), [200.0, 600.0, 1200.0]);
}

/// Figure 5 (a): rates 2 and 3. Every schedule there begins with T2, T1: one message of T2 before the first of T1, none of T1
/// before the first of T2. In (b) T1's deadline is shorter, and T1 begins.
#[test]
fn figure_5_has_as_many_messages_before_as_the_whole_part_says() {
    let wait = |first: Option<f64>, index| {
        let topics = [TopicRate { rate: 2.0, deadline_s: first }, TopicRate { rate: 3.0, deadline_s: None }];
        wait_for_service_s(&topics, index, 10.0).unwrap()
    };
    assert_eq!((wait(None, 0), wait(None, 1)), (0.1, 0.0));
    assert_eq!((wait(Some(0.25), 0), wait(Some(0.25), 1)), (0.0, 0.1));
    assert_eq!(wait_for_service_s(&[], 0, 10.0), None);
}

#[test]
fn wait_counts_every_turn_of_the_others_and_whole_numbers_as_such() {
    // 0.3/0.1 is a little less than 3 in floats.
    let topics = [
        TopicRate { rate: 0.1, deadline_s: None },
        TopicRate { rate: 0.3, deadline_s: None },
        TopicRate { rate: 0.1, deadline_s: Some(4.0) },
    ];
    // The first: 10/3.33 = 3 of the second, 10/4 = 2.5 of the third.
    assert!(is_close(wait_for_service_s(&topics, 0, 5.0).unwrap(), 5.0 / 5.0));
    // The third: 4/3.33 of the second.
    assert!(is_close(wait_for_service_s(&topics, 2, 5.0).unwrap(), 1.0 / 5.0));
    // Equal intervals wait for each other.
    let equal = [TopicRate { rate: 7.0, deadline_s: None }; 3];
    assert!(is_close(wait_for_service_s(&equal, 1, 100.0).unwrap(), 0.02));
}

/// Without a gap it is the M/M/1 queue from an empty start, of which textbooks say for λ = μ: exp(−2λt) (I₀(2λt) + I₁(2λt)).
/// I₀(2) = 2.279585302336067, I₁(2) = 1.590636854637329.
#[test]
fn server_without_a_gap_is_a_queue_that_begins_empty() {
    let expected = (-2.0_f64).exp() * (2.279_585_302_336_067 + 1.590_636_854_637_329);
    assert!(is_close(carried(Queue { arrival_rate: 1.0, service_rate: 1.0 }, 1.0, 1.0), expected));
    // After long it is 1 − ρ.
    let long = carried(Queue { arrival_rate: 30.0, service_rate: 100.0 }, 100.0, 100.0);
    assert!(is_close(long, 0.7), "{long}");
}

/// Nothing arrives while it runs (but for a message in a million periods): as many services as there are messages must fit. With
/// means of 1 and 1: Σ e^(−2)/(j! k!) over k ≤ j, which is 1/2 + e^(−2) I₀(2)/2.
#[test]
fn backlog_of_the_gap_has_to_be_served_in_the_budget() {
    let queue = Queue { arrival_rate: 1.0, service_rate: 1e7 };
    let expected = 0.5 + (-2.0_f64).exp() * 2.279_585_302_336_067 / 2.0;
    let found = carried(queue, 1.0 + 1e-7, 1e-7);
    assert!((found - expected).abs() < 1e-6, "{found} {expected}");
}

/// One period of the queue, played through: whether nothing waits at the end.
fn plays_out(queue: Queue, server: PollingServer, random: &mut fastrand::Rng) -> bool {
    let mut next = |rate: f64| -(1.0 - random.f64()).ln() / rate;
    let mut waiting = 0_u64;
    let mut time = next(queue.arrival_rate);
    while time < server.period_s - server.budget_s {
        waiting += 1;
        time += next(queue.arrival_rate);
    }
    time = 0.0;
    loop {
        let (arrival, service) =
            (next(queue.arrival_rate), if waiting > 0 { next(queue.service_rate) } else { f64::INFINITY });
        time += arrival.min(service);
        if time >= server.budget_s {
            return waiting == 0;
        }
        if arrival < service { waiting += 1 } else { waiting -= 1 }
    }
}

#[test]
fn simulated_periods_carry_over_as_often_as_computed() {
    const PERIODS: u32 = 100_000;
    let mut random = fastrand::Rng::with_seed(11);
    for (arrival_rate, service_rate, period_s, budget_s) in [
        (100.0, 1000.0, 0.01, 0.002),
        (100.0, 400.0, 0.05, 0.02),
        (900.0, 2000.0, 0.02, 0.012),
        (5.0, 300.0, 0.1, 0.004),
    ] {
        let queue = Queue { arrival_rate, service_rate };
        let server = PollingServer { period_s, budget_s };
        let computed = carried(queue, period_s, budget_s);
        let empty: u32 = (0..PERIODS).map(|_| u32::from(plays_out(queue, server, &mut random))).sum();
        let simulated = f64::from(empty) / f64::from(PERIODS);
        let deviation = (computed * (1.0 - computed) / f64::from(PERIODS)).sqrt();
        assert!((simulated - computed).abs() < 4.0 * deviation, "{queue:?} {server:?}: {simulated} {computed}");
        assert!((0.02..0.98).contains(&computed), "it says little: {computed}");
    }
}

/// The same by another way: the queue's states stepped forward (uniformization).
#[test]
fn stepping_through_the_queues_states_gives_the_same() {
    let queue = Queue { arrival_rate: 300.0, service_rate: 500.0 };
    let (period_s, budget_s) = (0.1, 0.07);
    let poisson = |mean: f64, up_to: usize| {
        let mut weight = (-mean).exp();
        (0..up_to).map(move |number| {
            let own = weight;
            weight *= mean / (number as f64 + 1.0);
            own
        })
    };
    let mut states: Vec<f64> = poisson(queue.arrival_rate * (period_s - budget_s), 300).collect();
    let both = queue.arrival_rate + queue.service_rate;
    let (up, down) = (queue.arrival_rate / both, queue.service_rate / both);
    let mut empty = 0.0;
    for steps in poisson(both * budget_s, 400) {
        empty += steps * states[0];
        let at = |index: usize| states.get(index).copied().unwrap_or(0.0);
        states = (0..states.len())
            .map(|index| down * at(index + 1) + if index == 0 { down * at(0) } else { up * at(index - 1) })
            .collect();
    }
    let computed = carried(queue, period_s, budget_s);
    assert!(is_close(computed, empty), "{computed} {empty}");
}

#[test]
fn a_million_messages_in_a_budget_are_computed_and_too_many_are_not() {
    let queue = Queue { arrival_rate: 0.4e6, service_rate: 1e6 };
    assert!(carried(queue, 1.5, 1.0) > 0.5, "0.6 million are to be served, a million can be");
    let mut steps = 10_000;
    let server = PollingServer { period_s: 1.5, budget_s: 1.0 };
    assert_eq!(server.nothing_carried_over(&queue, &mut steps), None);
    assert!(steps <= 10_000);
    let endless = Queue { arrival_rate: 1e9, service_rate: 1e9 };
    let years = PollingServer { period_s: 1e8, budget_s: 1e8 };
    assert_eq!(years.nothing_carried_over(&endless, &mut steps), None);
}

#[test]
fn time_driven_system_has_its_budgets_part_of_every_rate() {
    let mut asked = request(10_000.0, vec![topic("a", 100.0, None), topic("b", 300.0, None)]);
    asked.topics[1].arrivals = Arrivals::Periodic;
    asked.server = Some(Server { period: 10_000_000, budget: 2_000_000 });
    let found = forecast(&asked, &[50.0], &AnalysisLimits::COMMAND).unwrap();
    let [first, second] = &found.topics[..] else { panic!() };
    assert!(is_close(first.guaranteed_while_running, 2500.0) && is_close(first.guaranteed, 500.0));
    // 1/500 / (1 − 100/500)
    assert!(is_close(first.mean_response_s.unwrap(), 0.0025) && is_close(first.intensity, 0.2));
    assert!(first.nothing_carried_over.unwrap().value > 0.9);
    assert_eq!((second.mean_response_s, second.longest_response_s), (Some(0.005), Some(0.01)));
    assert_eq!((second.nothing_carried_over, second.percentiles_s.len()), (None, 0));
    // One message of the first and three of the second in 10 ms, at 2,000 messages a second.
    assert!(is_close(first.wait_for_service_s, 3.0 / 2000.0) && is_close(found.intensity, 0.2));
    assert_eq!(found.outcome(), Outcome::Feasible);
}

#[test]
fn load_driven_periodic_messages_take_one_service() {
    let mut asked = request(1000.0, vec![topic("a", 10.0, None)]);
    asked.topics[0].arrivals = Arrivals::Periodic;
    let found = forecast(&asked, &[50.0], &AnalysisLimits::COMMAND).unwrap();
    assert_eq!((found.topics[0].mean_response_s, found.topics[0].longest_response_s), (Some(0.001), Some(0.001)));
    assert_eq!(found.threads, None);
}

/// Priorities by period: control 5 ms/1 ms, the server 10 ms/3 ms, logging 20 ms/9 ms. Logging: 9 + 2·3 + 4·1 = 19 ms.
#[test]
fn server_is_judged_beside_other_applications() {
    let mut asked = request(10_000.0, vec![topic("a", 100.0, None)]);
    asked.server = Some(Server { period: 10_000_000, budget: 3_000_000 });
    let other = |name: &str, period, execution_time| Application { name: name.to_owned(), period, execution_time };
    asked.applications = vec![other("logging", 20_000_000, 9_000_000), other("control", 5_000_000, 1_000_000)];
    let found = forecast(&asked, &[], &AnalysisLimits::COMMAND).unwrap();
    let (threads, analysis) = found.threads.as_ref().unwrap();
    assert_eq!(
        threads.iter().map(|thread| thread.name.as_str()).collect::<Vec<_>>(),
        ["polling server", "logging", "control"]
    );
    let responses: Vec<Response> = analysis.findings.iter().map(|finding| finding.response).collect();
    assert_eq!(responses, [4_000_000, 19_000_000, 5_000_000 / 5].map(Response::Worst));
    assert_eq!(analysis.by_urgency(), [2, 0, 1]);
    assert_eq!(found.outcome(), Outcome::Feasible);
    asked.applications[0].execution_time = 11_000_000;
    assert_eq!(forecast(&asked, &[], &AnalysisLimits::COMMAND).unwrap().outcome(), Outcome::Infeasible);
}

#[test]
fn topic_that_gets_more_than_its_share_serves_or_waits_too_long_makes_it_infeasible() {
    let outcome = |asked: &ForecastRequest| forecast(asked, &[], &AnalysisLimits::COMMAND).unwrap().outcome();
    let mut asked = request(1000.0, vec![topic("a", 100.0, None), topic("b", 300.0, None)]);
    assert_eq!(outcome(&asked), Outcome::Feasible);
    asked.topics[0].arrival = 250.0;
    assert_eq!(outcome(&asked), Outcome::Infeasible, "1,000 × 100/400 is 250");
    asked.topics[0].arrival = 100.0;
    // TopicRate of b come every 10 us: 1,000 of them before one of a, at a thousand messages a second.
    asked.topics[1].deadline_s = Some(1e-5);
    assert_eq!(outcome(&asked), Outcome::Infeasible);
}

#[test]
fn requests_that_make_no_sense_are_answered_with_what_to_do() {
    let good = request(1000.0, vec![topic("a", 100.0, None), topic("b", 100.0, None)]);
    let said = |change: &dyn Fn(&mut ForecastRequest)| {
        let mut asked = good.clone();
        change(&mut asked);
        forecast(&asked, &[50.0], &AnalysisLimits::COMMAND).unwrap_err()
    };
    let of_topic = |change: &dyn Fn(&mut Topic)| match said(&|asked| change(&mut asked.topics[1])) {
        ForecastRequestError::Topic { index: 1, why } => why,
        other => panic!("{other:?}"),
    };
    for rate in [0.0, -5.0, f64::NAN, f64::INFINITY, 1e10, 1e-10] {
        assert!(of_topic(&|topic| topic.rate = rate).contains("the rate of \"b\" is"));
        assert!(of_topic(&|topic| topic.arrival = rate).contains("from 0.000000001 to 1000000000"));
        assert!(said(&|asked| asked.service_rate = rate).to_string().contains("mu, the service rate, is"));
    }
    for deadline in [0.0, -1.0, 0.0101, f64::NAN, f64::INFINITY] {
        assert!(
            of_topic(&|topic| topic.deadline_s = Some(deadline)).contains("at most 1/rate, 10000.000 us: shorten it")
        );
    }
    assert!(of_topic(&|topic| topic.name = "a".to_owned()).contains("names have to differ"));
    assert!(of_topic(&|topic| topic.name.clear()).contains("no name"));
    assert!(said(&|asked| asked.topics.clear()).to_string().contains("there are no topics; write at least one"));
    let many = said(&|asked| asked.topics = vec![topic("a", 1.0, None); 4097]).to_string();
    assert!(
        many.contains("4097 topics, and 4096 may be analysed together: put those that are alike into one"),
        "{many}"
    );
    let other = Application { name: "x".to_owned(), period: 1000, execution_time: 0 };
    assert!(said(&|asked| asked.applications = vec![other.clone()]).to_string().contains("add [server]"));
    for budget in [0, 1001] {
        let server = said(&|asked| asked.server = Some(Server { period: 1000, budget }));
        assert!(
            matches!(&server, ForecastRequestError::Server(why) if why.contains("at most its period, which is 1 us")),
            "{server}"
        );
    }
    let served = |applications: &[&Application]| {
        said(&|asked| {
            asked.server = Some(Server { period: 1000, budget: 10 });
            asked.applications = applications.iter().map(|each| (*each).clone()).collect();
        })
        .to_string()
    };
    assert!(served(&[&other]).contains("execution time of \"x\" is 0"));
    let named = |name: &str| Application { name: name.to_owned(), execution_time: 1, ..other.clone() };
    for name in ["", "y", "polling server"] {
        assert!(served(&[&named("y"), &named(name)]).starts_with("application 1: its name is"));
    }
    assert!(served(&[&other; 64]).contains("64 applications, and 63 may be analysed"));
    for percentage in [0.0, 100.0, f64::NAN] {
        let error = forecast(&good, &[percentage], &AnalysisLimits::COMMAND).unwrap_err().to_string();
        assert!(error.contains("no percentage of messages"), "{error}");
    }
}

const FILE: &str = r#"
mu = 10000

[[topic]]
name = "alarm"
rate = 100
arrival = 5.5
deadline_us = 500

[[topic]]
name = "readings"
rate = 900
arrivals = "periodic"

[server]
period_us = 5000
budget_us = 2000.5

[[application]]
name = "control"
period_us = 1000
execution_us = 200
"#;

#[test]
fn file_of_topics_is_read() {
    let file = TempoFile::parse(FILE).unwrap();
    let mut expected = request(10_000.0, vec![topic("alarm", 100.0, Some(0.0005)), topic("readings", 900.0, None)]);
    expected.topics[0].arrival = 5.5;
    expected.topics[1].arrivals = Arrivals::Periodic;
    expected.server = Some(Server { period: 5_000_000, budget: 2_000_500 });
    expected.applications =
        vec![Application { name: "control".to_owned(), period: 1_000_000, execution_time: 200_000 }];
    assert_eq!(file.request, expected);
    let by_time = TempoFile::parse(&FILE.replace("mu = 10000", "service_time_us = 100")).unwrap();
    assert!(is_close(by_time.request.service_rate, 10_000.0));
}

#[test]
fn mistakes_in_a_file_are_reported_with_their_line() {
    for (from, to, said) in [
        ("mu = 10000", "", "write mu, the messages per second"),
        ("mu = 10000", "mu = 1\nservice_time_us = 1", "leave one of them out"),
        ("mu = 10000", "service_time_us = 0", "line 2: service_time_us is 0"),
        ("mu = 10000", "mu = -1", "mu, the service rate, is -1"),
        ("mu = 10000", "mu = \"fast\"", "line 2: invalid type"),
        ("rate = 100", "rate = 0", "line 4: the rate of \"alarm\" is 0"),
        ("rate = 900", "rate = nan", "line 10: the rate of \"readings\" is NaN"),
        ("\"periodic\"", "\"bursty\"", "line 13: unknown variant `bursty`"),
        ("deadline_us = 500", "deadline_us = 10001", "line 4: the deadline of \"alarm\" is 10001 us"),
        ("budget_us = 2000.5", "budget_us = 5001", "line 15: the server's budget is 5001 us"),
        ("budget_us = 2000.5", "budget_us = -1", "line 15: budget_us is -1, and has to be from 0.001"),
        ("execution_us = 200", "execution_us = 0", "line 19: execution_us is 0"),
        ("execution_us", "execution", "line 22: unknown field `execution`"),
    ] {
        let text = FILE.replacen(from, to, 1);
        let error = TempoFile::parse(&text)
            .and_then(|file| {
                let error = file.request.check().err();
                error.map_or(Ok(()), |error| Err(file.locate(error)))
            })
            .unwrap_err();
        assert!(
            error.to_string().starts_with(said) || error.to_string().contains(said) && !said.starts_with("line"),
            "{error}"
        );
    }
}

#[test]
fn file_of_a_million_topics_is_refused_unread() {
    let text = "[[topic]]\nname = \"a\"\nrate = 1\n".repeat(1_000_000);
    let error = TempoFile::parse(&text).unwrap_err().to_string();
    assert!(error.contains("the file has 30000000 octets, and may have 4194304"), "{error}");
}
