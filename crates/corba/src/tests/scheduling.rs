//! The scheduling analysis as clients see it.

use super::dialogue::{Dialogue, Expect};
use giop::cdr::{Reader, Writer};

/// Milliseconds in `TimeBase::TimeT`.
const MS: u64 = 10_000;

/// Writes activities of channel 0: name, period, execution time and deadline in milliseconds.
fn write_activities(activities: &[(&str, u64, u64, u64)], w: &mut Writer<'_>) {
    w.length(activities.len());
    for (name, period, execution_time, deadline) in activities {
        write_activity(name, 0, [period * MS, execution_time * MS, deadline * MS], w);
    }
}

fn write_activity(name: &str, channel: i32, times: [u64; 3], w: &mut Writer<'_>) {
    w.string(name);
    w.i32(channel);
    w.string("Plant");
    w.string(name);
    for time in times.into_iter().chain([0, 0]) {
        w.u64(time);
    }
    w.i16(3);
}

/// Policy, feasibility, explanation, and of each assignment name, priority, kind, response, lateness.
type Answer = (u32, u32, String, Vec<(String, i16, u32, u64, u64)>);

fn read_answer(r: &mut Reader<'_>) -> Answer {
    let (policy, feasibility) = (r.u32().unwrap(), r.u32().unwrap());
    let explanation = r.text().unwrap();
    let [utilisation, bound, product] = [(); 3].map(|()| r.f64().unwrap());
    assert!(utilisation > 0.0 && bound > 0.69 && product > 1.0);
    let count = r.u32().unwrap();
    let assignments = (0..count).map(|_| {
        let (name, priority) = (r.text().unwrap(), r.i16().unwrap());
        assert_eq!(r.u16().unwrap(), 0);
        (name, priority, r.u32().unwrap(), r.u64().unwrap(), r.u64().unwrap())
    });
    let assignments = assignments.collect();
    assert!(r.text().unwrap().contains("[[channel.lane]]"));
    (policy, feasibility, explanation, assignments)
}

pub(super) fn analyses(d: &mut Dialogue) {
    let service = d.bootstrap("SchedulingService");
    // Burns and Wellings, process sets C and A.
    let mut analyse = |set: &[(&str, u64, u64, u64)], policy: u32| {
        let body = d.call(&service, "analyse", |w| {
            write_activities(set, w);
            w.u32(policy);
            w.u16(1);
        });
        body.unwrap().read(read_answer)
    };
    let (policy, feasibility, explanation, assignments) =
        analyse(&[("a", 80, 40, 0), ("b", 40, 10, 0), ("c", 20, 5, 0)], 0);
    assert_eq!((policy, feasibility, explanation.as_str()), (1, 0, "every deadline is met"));
    let expected = [("c", 32_767, 5), ("b", 16_383, 15), ("a", 0, 80)];
    assert_eq!(assignments, expected.map(|(name, priority, ms)| (name.to_owned(), priority, 0, ms * MS, 0)));

    let (_, feasibility, explanation, assignments) =
        analyse(&[("a", 50, 12, 0), ("b", 40, 10, 0), ("c", 30, 10, 0)], 1);
    assert_eq!((feasibility, explanation.as_str()), (1, "\"a\" misses its deadline of 50ms by 2ms"));
    assert_eq!(assignments[2], ("a".to_owned(), 0, 0, 52 * MS, 2 * MS));

    let (policy, feasibility, explanation, assignments) = analyse(&[("short", 4, 2, 0), ("long", 12, 4, 0)], 3);
    assert_eq!((policy, feasibility, assignments[0].2), (3, 1, 3));
    assert!(explanation.contains("in an interval of 4ms that ends with the deadline of \"short\""), "{explanation}");
    refusals(d);
}

fn refusals(d: &mut Dialogue) {
    let service = d.bootstrap("SchedulingService");
    let body = d.call(&service, "analyse", |w| {
        write_activities(&[("a", 10, 1, 0), ("b", 0, 1, 0)], w);
        w.u32(0);
        w.u16(1);
    });
    let (index, why) = body.raises("InvalidActivity").read(|r| (r.u32().unwrap(), r.text().unwrap()));
    assert!(index == 1 && why.contains("period"), "{index} {why}");
    let body = d.call(&service, "analyse", |w| {
        w.u32(1);
        write_activity("a", -1, [MS, 1, 0], w);
        w.u32(0);
        w.u16(1);
    });
    let (index, why) = body.raises("InvalidActivity").read(|r| (r.u32().unwrap(), r.text().unwrap()));
    assert!(index == 0 && why.contains("channel"), "{index} {why}");
    for (activities, cpus) in [(&[][..], 1), (&[("a", 10, 1, 0)], 0), (&[("a", 10, 1, 0)], 65)] {
        let body = d.call(&service, "analyse", |w| {
            write_activities(activities, w);
            w.u32(0);
            w.u16(cpus);
        });
        assert!(!body.raises("InvalidRequest").read(|r| r.text().unwrap()).is_empty());
    }
    let body = d.call(&service, "analyse", |w| {
        write_activities(&[("a", 10, 1, 0)], w);
        w.u32(6);
        w.u16(1);
    });
    body.raises("MARSHAL");
}
