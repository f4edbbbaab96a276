//! A tour through the console.

use std::fs;

use client::notify::{Property, StructuredEvent};
use engine::OutboxState;
use giop::value::AnyValue;
use service::Counter;
use testing::wait_until;

use crate::driver::{Browser, screenshots};
use crate::rig::{Rig, TOKEN, temperature};

/// As `WebDriver` writes these keys.
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const DOWN: &str = "\u{e015}";
const RIGHT: &str = "\u{e014}";

/// In the first row of a table.
const FIRST: &str = "tbody tr:first-child";

/// Whatever names clients choose, they are text.
const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";

#[test]
fn an_operator_finds_the_slow_consumer_among_a_thousand_and_does_something_about_it() {
    let rig = Rig::start("tour");
    let _idle = rig.idle_consumers(1_000);
    let channel = rig.named_channel("Telescope");
    let _mute = rig.mute_consumer(channel, "<script>");
    let supplier = rig.supplier(Some(channel));
    (0..300).for_each(|number| supplier.publish(&temperature(f64::from(number), "north")).unwrap());

    let traffic = rig.traffic();
    let browser = Browser::start();
    browser.open(&rig.url());
    // At one look: how many, who, and why.
    let verdict = browser.await_text("#verdict", "1 of 1,002 consumers does not keep up");
    assert!(verdict.contains("<script>") && verdict.contains("300 events wait"), "{verdict}");
    browser.await_text("#link", "live");
    wait_until("the plots to be drawn", || browser.script("return document.querySelectorAll('canvas').length") == 4);
    // A rate is over time: some seconds have to have passed in which events came.
    wait_until("events and latencies to be seen", || {
        let (events, latency) =
            (browser.text(".figure"), browser.text("[aria-label='From arrival until taken'] .legend"));
        events.contains("/s") && !events.starts_with('0') && latency.contains('s') && !latency.contains('–')
    });
    browser.await_true("document.querySelector('[data-points]').dataset.points > 6");
    browser.picture("overview");
    browser.press("4");
    browser.await_text("tbody", "lane");
    browser.picture("lanes");
    drop(traffic);

    // By keys: the list of consumers, its first row, all that is known of that one.
    browser.press("2");
    browser.await_text("#pages", "1 to 100 of 1,001");
    browser.await_text(FIRST, "behind");
    browser.picture("consumers");
    browser.press(DOWN);
    browser.await_true("document.activeElement.matches('tbody tr:first-child')");
    browser.press(ENTER);
    browser.await_text("dialog", "Unanswered");
    browser.picture("consumer");
    browser.press(ESCAPE);
    browser.await_true("!document.querySelector('dialog')");

    suspend_and_disconnect(&rig, &browser, channel);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Each is asked about, and needs the token, once.
fn suspend_and_disconnect(rig: &Rig, browser: &Browser, channel: i32) {
    let state = || rig.consumers_of(channel).first().map(|consumer| consumer.outbox.state);
    browser.click(&format!("{FIRST} [data-act=suspend]"));
    browser.await_text("dialog", "Suspend?");
    browser.press(ENTER);
    browser.await_true("!document.querySelector('dialog')");
    assert_eq!(state(), Some(OutboxState::Active), "Enter is the way out that changes nothing");
    browser.click(&format!("{FIRST} [data-act=suspend]"));
    browser.picture("question");
    browser.click("dialog button[value=yes]");
    browser.await_text("dialog", "http.token_file");
    browser.write("dialog input", "not the token, but as long");
    browser.click("dialog button[value=yes]");
    browser.await_text("dialog", "That token was refused");
    assert_eq!(state(), Some(OutboxState::Active));
    browser.write("dialog input", TOKEN);
    browser.click("dialog button[value=yes]");
    browser.await_text("#toasts", "Suspended");
    assert_eq!(state(), Some(OutboxState::Suspended));
    browser.await_text(FIRST, "suspended");

    browser.click(&format!("{FIRST} [data-act=disconnect]"));
    let question = browser.await_text("dialog", "It loses the");
    assert!(question.contains("300 events"), "{question}");
    browser.picture("question-disconnect");
    browser.click("dialog button[value=yes]");
    browser.await_text("#toasts", "Disconnected");
    assert_eq!((state(), rig.service.counters().read(Counter::ClientsDismissed)), (None, 1));
    browser.press("1");
    browser.await_text("#verdict", "All 1,000 consumers keep up");
    // That a token was wrong is no mistake of the page's.
    let others = browser.complaints().into_iter().filter(|line| !line.contains("401"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn events_are_seen_as_they_come_with_a_constraint_that_is_checked_as_it_is_typed() {
    let rig = Rig::start_secure("events");
    let channel = rig.named_channel(HOSTILE);
    let browser = Browser::start();
    browser.open(&rig.url());
    browser.await_text("#link", "live");
    browser.press("6");
    browser.write("#channel", &channel.to_string());
    browser.write("#constraint", "$celsius > > 30");
    let wrong = browser.await_text("#wrong", "column 12");
    assert!(wrong.contains("$celsius > > 30\n"), "{wrong}");
    assert_eq!(browser.script("return document.getElementById('watch').disabled"), true);
    browser.picture("constraint");
    browser.write("#constraint", "$celsius > 30 and $site != 'south'");
    browser.await_text("#wrong", "reads $celsius, $site");
    browser.click("#watch");
    wait_until("the consumer to be connected", || !rig.consumers_of(channel).is_empty());
    let supplier = rig.supplier(Some(channel));
    for (celsius, site) in [(31.5, "north"), (12.0, "north"), (40.0, "south"), (99.0, HOSTILE)] {
        supplier.publish(&temperature(celsius, site)).unwrap();
    }
    browser.await_text("#seen", "2 seen");
    let events = browser.text("#events");
    assert!(events.contains("31.5") && events.contains("<script>") && !events.contains("\"celsius\":40"), "{events}");
    browser.picture("events");
    browser.click("#watch");
    wait_until("the consumer to be gone", || rig.consumers_of(channel).is_empty());

    // The same in the tree, by keys.
    browser.press("3");
    browser.await_text("[role=tree]", "<script>");
    browser.script("document.activeElement.blur()");
    browser.press(DOWN);
    browser.await_true("document.activeElement.matches('[role=treeitem]')");
    browser.press(DOWN);
    browser.press(RIGHT);
    browser.await_text("[role=group]", "consumers admin 0");
    browser.press(DOWN);
    browser.press(DOWN);
    browser.press(RIGHT);
    browser.await_text("[role=group] [role=group]", "proxy");
    browser.press(ENTER);
    browser.picture("channels");
    assert_eq!(browser.script("return document.querySelectorAll('img, main script').length"), 0);
    assert!(browser.script("return document.title").as_str().unwrap().ends_with("Campanile"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// ALMA's time stamps are beyond 2^53: the console showed 139830192000000001 as 139830192000000000, and fields whose names are numbers in
/// front of all others.
#[test]
fn whole_numbers_are_shown_digit_for_digit_and_fields_in_the_order_in_which_they_were_sent() {
    const TIME: u64 = 139_830_192_000_000_001;
    let rig = Rig::start("digits");
    let channel = rig.named_channel("Array");
    let browser = Browser::start();
    browser.open(&rig.url());
    browser.await_text("#link", "live");
    browser.press("6");
    browser.write("#channel", &channel.to_string());
    browser.click("#watch");
    wait_until("the consumer to be connected", || !rig.consumers_of(channel).is_empty());
    let mut event = StructuredEvent::new("Array", "Monitor", "");
    event.filterable_data = vec![
        Property::new("site", "north"),
        Property::new("time", TIME),
        Property::new("10", -9_007_199_254_740_993_i64),
        Property::new("2", "a \"quoted\" {text}, [and] more"),
        Property::new("alpha", 0.5_f64),
    ];
    event.remainder = AnyValue::from(u64::MAX);
    rig.supplier(Some(channel)).publish(&event).unwrap();
    browser.await_text("#seen", "1 seen");
    let shown = browser.text("#events");
    let fields = r#""site":"north","time":139830192000000001,"10":-9007199254740993,"2":"a \"quoted\" {text}, [and] more","alpha":0.5"#;
    assert!(shown.contains(fields), "{shown}");
    assert!(shown.contains("18446744073709551615"), "{shown}");
    browser.picture("digits");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn it_is_usable_on_a_phone_and_in_the_dark_and_with_a_thousand_channels_and_ten_thousand_consumers() {
    let rig = Rig::start("large");
    rig.new_channels(1_000);
    let _idle = rig.idle_consumers(10_000);
    let _mute = rig.mute_consumer(7, "Tracker");
    let supplier = rig.supplier(Some(7));
    (0..20).for_each(|number| supplier.publish(&temperature(f64::from(number), "north")).unwrap());

    let browser = Browser::start();
    browser.open(&rig.url());
    browser.await_text("#verdict", "1 of 10,001 consumers does not keep up");
    let paint = browser.script("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime");
    // What takes so long that a person notices.
    browser.script(
        "window.long = []; new PerformanceObserver((list) => window.long.push(...list.getEntries().map((entry) => Math.round(entry.duration)))) \
         .observe({ type: 'longtask' })",
    );
    for (key, selector, part) in [
        ("2", "#pages", "1 to 100 of 10,001"),
        ("3", ".tools", "1,001 channels"),
        ("4", "tbody", "lane"),
        ("5", "main", "Nothing was dropped"),
        ("1", "#verdict", "Tracker"),
    ] {
        browser.press(key);
        browser.await_text(selector, part);
        browser.picture(&format!("large-{key}"));
    }
    let long = browser.script("return window.long");
    let figures = format!("first contentful paint: {paint} ms; tasks of 50 ms or more: {long} ms\n");
    fs::write(screenshots().join("figures.txt"), &figures).unwrap();
    println_figures(&figures);
    browser.prefer("dark");
    browser.picture("dark");
    browser.resize(390, 844);
    browser.await_true("document.documentElement.scrollWidth <= window.innerWidth");
    browser.picture("phone-dark");
    browser.prefer("light");
    browser.press("2");
    browser.await_text(FIRST, "Tracker");
    browser.picture("phone");
    browser.press("3");
    browser.await_true("document.documentElement.scrollWidth <= window.innerWidth");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[expect(clippy::print_stdout, reason = "for runs with --nocapture")]
fn println_figures(figures: &str) {
    print!("{figures}");
}
