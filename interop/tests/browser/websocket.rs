//! Chromium's own WebSocket, in a page of the console and in one of another site.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::json;
use service::Counter;
use testing::wait_until;

use crate::driver::Browser;
use crate::rig::{Rig, TOKEN};

/// Opens a WebSocket at a host: what it hears is in `heard`, the code with which it is closed in `ended`.
fn open(browser: &Browser, host: &str) {
    let script = format!(
        "window.heard = []; window.ended = 0;
         const token = btoa({}).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
         window.socket = new WebSocket({}, ['campanile.json', `campanile.bearer.${{token}}`]);
         socket.onmessage = ({{ data }}) => heard.push(JSON.parse(data));
         socket.onclose = ({{ code }}) => {{ window.ended = code; }};",
        json!(TOKEN),
        json!(format!("{host}/api/v1/events").replacen("http", "ws", 1)),
    );
    browser.script(&script);
}

/// The address of a site with an empty page, which forbids its scripts nothing.
fn another_site() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A browser connects in advance, and asks for nothing.
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                );
            });
        }
    });
    url
}

#[test]
fn a_page_of_the_console_subscribes_and_publishes_over_a_websocket_and_no_other_sites_page_does() {
    let (rig, browser) = (Rig::start("websocket"), Browser::start());
    let url = rig.url();
    browser.open(&url);
    open(&browser, url.trim_end_matches('/'));
    browser.await_true("socket.readyState === 1");
    assert_eq!(browser.script("return socket.protocol"), "campanile.json");
    browser.script("socket.send(JSON.stringify({ op: 'subscribe', id: 1 }))");
    browser.await_true("heard.length === 1");
    let text = "return 'grün '.repeat(20000)";
    let publish = json!({ "op": "publish", "id": 2, "type": "Weather/Wind" });
    browser.script(&format!(
        "const text = (() => {{ {text} }})();
         socket.send(JSON.stringify({{ ...{publish}, fields: {{ text }} }}, null, 2))"
    ));
    browser.await_true("heard.length === 3");
    browser.await_true("heard.some(({ ok }) => ok === 2)");
    browser.await_true(&format!("heard.some(({{ event }}) => event?.fields.text === (() => {{ {text} }})())"));
    browser.script("socket.close(1000, 'done')");
    browser.await_true("ended === 1000");
    wait_until("it to be gone", || rig.service.counters().read(Counter::HttpWebSocketsOpen) == 0);
    browser.script("socket = null");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.open(&another_site());
    open(&browser, url.trim_end_matches('/'));
    browser.await_true("ended === 1006");
    assert_eq!(rig.service.counters().read(Counter::HttpCrossSiteRefused), 1);
}
