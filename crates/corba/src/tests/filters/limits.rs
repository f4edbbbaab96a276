//! What the largest requests to a filter cost: looking through event types has its steps, translating constraints its octets.

use super::*;

/// A client asked its filter about an event: evaluating the constraints had its steps, but looking through their event types had
/// none, and both they and the event's type may be as long as a message. 1,024 constraints with wildcards and a type of 2 MB
/// kept administration for seconds.
#[test]
fn looking_through_the_event_types_of_a_filter_costs_steps() {
    let mut scene = Dialogue::new(STYLES[5]);
    let d = &mut scene;
    let factory = factory(d);
    let filter = made_filter(d, &factory);
    let names: Vec<String> = (0..1_000).map(|number| format!("*a*b*{number}*")).collect();
    let types: Vec<(&str, &str)> = names.iter().map(|name| ("*", name.as_str())).chain([("*", "*last*")]).collect();
    add(d, &filter, &[(&types, "TRUE")]).unwrap();
    let mut ask = |name: &str| {
        let answer = matched(d.quick(&filter, "match_structured", |w| write_event("", name, w)));
        (answer, d.protocol.objects.take_filter_cuts())
    };
    assert_eq!(ask("the last one"), (true, 0));
    assert_eq!(ask("ab"), (false, 0));
    assert_eq!(ask(&format!("{} the last one", "a".repeat(4_080))), (false, 1), "not decided within its steps");
    // Beyond that it is no type at all, for channels either.
    d.quick(&filter, "match_structured", |w| write_event("", &"a".repeat(4_097), w)).raises("MARSHAL");
    d.quick(&filter, "match_structured", |w| write_event(&"a".repeat(4_097), "", w)).raises("MARSHAL");
}

/// 1,024 constraints of 10 KB each in one request are what the limits of a filter allow, and kept administration for 0.7 s.
#[test]
fn constraints_are_translated_so_many_octets_in_one_go() {
    let mut scene = Dialogue::new(STYLES[5]);
    let d = &mut scene;
    let factory = factory(d);
    let filter = made_filter(d, &factory);
    let text = format!("TRUE{}", " or TRUE".repeat(1_200));
    let mut add = |count: usize| {
        let all: Vec<Expression<'_>> = vec![(&[], text.as_str()); count];
        d.quick(&filter, "add_constraints", |w| write_expressions(&all, w)).map(drop)
    };
    assert!(add(1).is_ok() && add(20).is_ok() && add(20).is_ok());
    assert_eq!(add(40).unwrap_err().name(), "IMP_LIMIT");
    let both = |w: &mut Writer<'_>| {
        w.u32(0);
        w.length(40);
        for id in 0..40 {
            write_expression((&[], text.as_str()), w);
            w.i32(id);
        }
    };
    d.quick(&filter, "modify_constraints", both).raises("IMP_LIMIT");
}
