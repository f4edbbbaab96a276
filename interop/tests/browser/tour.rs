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
    browser.press("8");
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
    browser.await_text("main", "Unanswered");
    browser.await_true("location.hash.startsWith('#consumer/')");
    // Its graphs are there, with what was before this page was opened.
    browser.await_true("document.querySelectorAll('main canvas').length == 2");
    browser.await_true("Number(document.querySelector('main [data-points]').dataset.points) > 1");
    browser.await_text(".qos", "MaxEventsPerConsumer");
    browser.picture("consumer");
    browser.press(ESCAPE);
    browser.await_text("#pages", "1 to 100 of 1,001");

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
    let rows =
        |count: usize| browser.await_true(&format!("document.querySelectorAll('#events tbody tr').length == {count}"));
    rows(2);
    let events = browser.text("#events");
    assert!(events.contains("$celsius") && events.contains("31.5") && events.contains("<script>"), "{events}");
    browser.picture("events");
    // What comes while it is paused is counted, and seen when it goes on.
    browser.click("#pause");
    supplier.publish(&temperature(50.0, "east")).unwrap();
    browser.await_text("#seen", "3 seen");
    rows(2);
    browser.click("#pause");
    rows(3);
    // What is watched is in the address: it goes on when the page is loaded again.
    let hash = browser.script("return location.hash");
    assert!(hash.as_str().unwrap().contains("constraint=%24celsius"), "{hash}");
    browser.script("location.reload()");
    browser.await_text("#watch", "Stop");
    // The consumer of the page before may be there for a moment.
    wait_until("events to be seen again", || {
        supplier.publish(&temperature(60.0, "west")).unwrap();
        browser.text("#seen").contains("seen")
    });
    browser.click("#watch");
    wait_until("the consumer to be gone", || rig.consumers_of(channel).is_empty());

    // The channel's page, and the tree in it, by keys.
    browser.press("4");
    browser.await_text("tbody", "<script>");
    browser.click(&format!("a[href='#channel/{channel}']"));
    browser.await_text("[role=tree]", "suppliers admin 0");
    browser.script("document.querySelector('[role=treeitem]').focus()");
    browser.press(DOWN);
    browser.press(RIGHT);
    browser.await_text("[role=group]", "proxy");
    browser.picture("channel");
    browser.press(RIGHT);
    browser.press(ENTER);
    browser.await_true("location.hash.startsWith('#supplier/')");
    browser.await_text("main", "Heard of");
    browser.picture("supplier");
    // Its event type, from the list of all.
    browser.press("5");
    browser.await_text("tbody", "Telescope/Temperature");
    browser.click("a[href='#type/Telescope%2FTemperature']");
    browser.await_text("main", "Watch its events");
    browser.picture("type");
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
    browser.await_true("document.querySelector('#events tbody tr')");
    browser.click("#events tbody tr");
    let shown = browser.await_text("#events pre", "fields");
    let fields = [
        r#""site": "north""#,
        r#""time": 139830192000000001"#,
        r#""10": -9007199254740993"#,
        r#""2": "a \"quoted\" {text}, [and] more""#,
        r#""alpha": 0.5"#,
    ];
    assert!(shown.contains(&fields.join(",\n  ")), "{shown}");
    assert!(shown.contains("18446744073709551615"), "{shown}");
    assert!(browser.text("#events tbody tr").contains("139830192000000001"));
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
        ("3", "#pages", "1 to 1 of 1"),
        ("4", "#pages", "1 to 100 of 1,001"),
        ("5", "#pages", "1 to 1 of 1"),
        ("6", ".tools", "Watch"),
        ("7", "main", "Nothing was dropped"),
        ("8", "tbody", "lane"),
        ("9", "main", "audit lines"),
        ("0", "main", "Joined to DDS"),
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
    let fits = || browser.await_true("document.documentElement.scrollWidth <= window.innerWidth");
    fits();
    browser.picture("phone-dark");
    browser.prefer("light");
    browser.press("2");
    browser.await_text(FIRST, "Tracker");
    fits();
    // The reason and what can be done are in sight, without scrolling to the side.
    browser.await_text(FIRST, "has not answered");
    browser.await_true(&format!(
        "[...document.querySelectorAll('{FIRST} .acts button')].filter((button) => button.getBoundingClientRect().right <= 390).length == 3"
    ));
    browser.picture("phone");
    browser.click(&format!("{FIRST} a"));
    browser.await_text("main", "Unanswered");
    fits();
    browser.picture("phone-consumer");
    for (key, name) in
        [("3", "suppliers"), ("4", "channels"), ("5", "types"), ("6", "events"), ("7", "drops"), ("9", "log")]
    {
        browser.press(key);
        browser.await_true("document.querySelector('nav [aria-current]')");
        fits();
        browser.picture(&format!("phone-{name}"));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn filters_sorting_and_what_is_open_are_in_the_address_and_the_way_back_leads_there() {
    let rig = Rig::start("address");
    let _idle = rig.idle_consumers(300);
    let channel = rig.named_channel(HOSTILE);
    let _mute = rig.mute_consumer(channel, "Tracker");
    let supplier = rig.supplier(Some(channel));
    (0..20).for_each(|number| supplier.publish(&temperature(f64::from(number), "north")).unwrap());
    let browser = Browser::start();
    browser.open(&format!("{}#consumers?state=keeping_up&offset=200", rig.url()));
    browser.await_text("#pages", "201 to 300 of 300");
    browser.script("const state = document.getElementById('state'); state.value = 'slow'; state.dispatchEvent(new Event('change'))");
    browser.await_text("#pages", "1 to 1 of 1");
    let hash = || browser.script("return location.hash").as_str().unwrap_or_default().to_owned();
    assert_eq!(hash(), "#consumers?state=slow");
    browser.click("[data-id=sort-delivered]");
    browser.await_true("location.hash == '#consumers?state=slow&sort=delivered'");
    browser.click(&format!("{FIRST} a"));
    browser.await_text("main", "Unanswered");
    browser.script("history.back()");
    browser.await_text("#pages", "1 to 1 of 1");
    browser.await_true(
        "document.getElementById('state').value == 'slow' && document.getElementById('sort').value == 'delivered'",
    );
    browser.script("history.back(); setTimeout(() => history.back(), 100)");
    browser.await_text("#pages", "201 to 300 of 300");
    // Search, over everything.
    browser.press("/");
    browser.press(&format!("tracker{ENTER}"));
    browser.await_text(".found", "Consumers: 1");
    browser.picture("search");
    assert_eq!(hash(), "#search?find=tracker");
    browser.click(".found a");
    browser.await_text("main", "Unanswered");
    browser.open(&format!("{}#search?find=onerror", rig.url()));
    browser.await_text(".found", "Channels: 1");
    browser.await_text(".found", "<script>");
    assert_eq!(browser.script("return document.querySelectorAll('img, main script').length"), 0);
    // What is not there, or is gone, is said; addresses that are none lead somewhere.
    browser.script("location.hash = '#consumer/7/77'");
    browser.await_text("main", "There is no such thing, or it is gone");
    browser.script("location.hash = '#constructor/%E0%A4%A'");
    browser.await_text("#verdict", "does not keep up");
    let others = browser.complaints().into_iter().filter(|line| !line.contains("404"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn an_event_is_published_and_what_is_wrong_with_it_is_said_beside_what_was_written() {
    let rig = Rig::start("publish");
    let channel = rig.named_channel("Telescope");
    let browser = Browser::start();
    browser.open(&format!("{}#channel/{channel}", rig.url()));
    let publish = |fields: &str| {
        browser.write("dialog textarea", fields);
        browser.click("dialog button[value=yes]");
    };
    browser.await_text("main", "Quality of service");
    browser.click("[data-act=publish]");
    browser.click("dialog button[value='']");
    browser.await_true("!document.querySelector('dialog')");
    browser.click("[data-act=publish]");
    browser.write("dialog input", "Weather/Wind/Gust");
    publish("speed=3");
    browser.await_text("dialog .wrong", "an object");
    publish("{\"speed\": }");
    browser.await_text("dialog .wrong", "no JSON");
    publish("{\"n\": 139830192000000001}");
    browser.await_text("dialog", "http.token_file");
    browser.write("dialog input", TOKEN);
    browser.click("dialog button[value=yes]");
    browser.await_text("dialog .wrong", "no `/`");
    browser.picture("publish");
    assert_eq!(rig.service.counters().read(Counter::EventsIn), 0);
    browser.write("dialog input", "Weather/Wind");
    browser.click("dialog button[value=yes]");
    browser.await_text("#toasts", "Published: Weather/Wind");
    assert_eq!(rig.service.counters().read(Counter::EventsIn), 1);
    let others = browser.complaints().into_iter().filter(|line| !line.contains("409"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_graph_leads_from_suppliers_over_channels_to_consumers_and_marks_the_slow_one() {
    let rig = Rig::start("graph");
    let channel = rig.named_channel(HOSTILE);
    let _mute = rig.mute_consumer(channel, "Tracker");
    let supplier = rig.supplier(Some(channel));
    (0..20).for_each(|number| supplier.publish(&temperature(f64::from(number), "north")).unwrap());
    let traffic = rig.traffic();
    let browser = Browser::start();
    browser.open(&format!("{}#graph", rig.url()));
    // Of the channel: its supplier, itself, its consumer; of the default channel those of the traffic.
    browser.script(&format!("location.hash = '#graph?channel={channel}'"));
    browser.await_true("[...document.querySelectorAll('.graph .node')].length == 3");
    let columns = "[...document.querySelectorAll('.graph .node')].map((node) => [node.querySelector('rect').x.baseVal.value, node])\
                   .sort((one, other) => one[0] - other[0]).map(([, node]) => node.classList[1]).join()";
    assert_eq!(browser.script(&format!("return {columns}")), "client,channel,client");
    browser.await_true("document.querySelectorAll('.graph .arrow.warn, .graph .arrow.bad').length == 1");
    browser.await_true(
        "document.querySelector('.graph .arrow.warn title, .graph .arrow.bad title').textContent.includes('answered')",
    );
    browser.script("location.hash = '#graph'");
    browser.await_true(
        "[...document.querySelectorAll('.graph .arrow text')].some((text) => parseFloat(text.textContent) > 0)",
    );
    browser.picture("graph");
    drop(traffic);
    browser.script("document.querySelector('.graph .channel').dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }))");
    browser.await_true("location.hash.startsWith('#channel/')");
    assert_eq!(browser.script("return document.querySelectorAll('img, main script').length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn where_nothing_can_be_changed_that_is_said_and_no_button_says_otherwise() {
    let rig = Rig::start_read_only();
    let channel = rig.named_channel("Telescope");
    let _mute = rig.mute_consumer(channel, "Tracker");
    let supplier = rig.supplier(Some(channel));
    (0..20).for_each(|number| supplier.publish(&temperature(f64::from(number), "north")).unwrap());
    let browser = Browser::start();
    browser.open(&rig.url());
    browser.await_text("#verdict", "Tracker");
    browser.await_text("#read-only", "read only");
    for (hash, part) in [
        ("consumers", "Tracker"),
        ("consumer/1/0", "Unanswered"),
        ("channel/1", "Quality of service"),
        ("overview", "Tracker"),
    ] {
        browser.script(&format!("location.hash = '#{hash}'"));
        browser.await_text("main", part);
        let buttons = "return [...document.querySelectorAll('main button')].map((button) => button.textContent).filter((text) => /Suspend|Disconnect|QoS|Publish|Set$/.test(text)).length";
        assert_eq!(browser.script(buttons), 0, "{hash}");
    }
    assert_eq!(browser.script("return document.getElementById('token').hidden"), true);
    // Nor does a key: nothing is asked.
    browser.press("2");
    browser.await_text(FIRST, "Tracker");
    browser.press(DOWN);
    browser.press("d");
    browser.await_text("#pages", "1 to 1 of 1");
    assert_eq!(browser.script("return document.querySelectorAll('dialog').length"), 0);
    browser.picture("read-only");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_console_that_is_left_open_connects_again_and_takes_no_more_for_a_day_than_for_an_hour() {
    let mut rig = Rig::start("day");
    let browser = Browser::start();
    browser.open(&rig.url());
    browser.await_text("#link", "live");
    rig.without_console(|| drop(browser.await_text("#link", "trying again")));
    browser.await_text("#link", "live");
    browser.await_true("Number(document.querySelector('[data-points]').dataset.points) > 1");
    // A day of points, one a second, with and without the service's own; and as many events.
    let points = "const { Plot } = await import('/plots.js'); const plot = new Plot('A day', ['it'], String);
        for (let second = 0; second < 86400; second += 1) plot.add(second, [second]);
        const alone = plot.data[0].length;
        plot.begin([86399, 86400, 86401], [[1, 2, 3]], true);
        plot.end();
        return [alone, plot.data[0].length, plot.data[1].length]";
    let bounded = |script: &str| browser.script(&format!("return (async () => {{ {script} }})()"));
    let lengths = bounded(points);
    assert!(lengths.as_array().unwrap().iter().all(|length| length.as_u64() < Some(3_700)), "{lengths}");
    let events = "const { EventTable } = await import('/events.js'); const table = new EventTable('A day', true);
        for (let number = 0; number < 5000; number += 1) table.add([`{\"at_ms\":1,\"type\":\"A/B\",\"fields\":{\"f${number}\":1}}`]);
        return [table.body.rows.length, table.fields.length]";
    assert_eq!(bounded(events), serde_json::json!([200, 24]));
    let speeds = "const { Speeds } = await import('/lists.js'); const speeds = new Speeds();
        for (let number = 0; number < 50000; number += 1) speeds.of(number, 1, 1);
        return speeds.before.size";
    assert_eq!(bounded(speeds), 2_000);
    // That the service was away is no mistake of the page's.
    let others = browser.complaints().into_iter().filter(|line| !line.contains("ERR_"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new());
}

#[expect(clippy::print_stdout, reason = "for runs with --nocapture")]
fn println_figures(figures: &str) {
    print!("{figures}");
}
