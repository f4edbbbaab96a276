//! Chromium, driven over `WebDriver`'s HTTP by chromedriver.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use testing::{patient, wait_until};

/// A browser with one window.
pub(crate) struct Browser {
    address: SocketAddr,
    session: String,
    driver: Child,
    profile: PathBuf,
}

/// Held while a driver starts.
static STARTING: Mutex<()> = Mutex::new(());

const CHROMEDRIVER: &str = "/usr/bin/chromedriver";
/// How `WebDriver` names what is an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    pub(crate) fn start() -> Self {
        assert!(
            Path::new(CHROMEDRIVER).exists(),
            "{CHROMEDRIVER} is not there; run `make test` (or interop/install.sh)"
        );
        // A group of its own, with all that Chromium starts: one that stayed would ask for events at the ports of services that are gone, where
        // another test is by then.
        let mut driver = Command::new(CHROMEDRIVER);
        let driver = driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        // One at a time: it takes a free port of IPv4, and ends if another has it of IPv6 by then.
        let starting = STARTING.lock();
        let mut driver = driver.spawn().unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let said =
            lines.find_map(|line| Some(line.unwrap().split_once("successfully on port ")?.1.to_owned())).unwrap();
        drop(starting);
        let port: u16 = said.trim_end_matches('.').parse().unwrap();
        // What else it says is nobody's, and it is not to wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = std::env::temp_dir().join(format!("campanile-chromium-{}-{port}", std::process::id()));
        let mut browser = Self { address: ([127, 0, 0, 1], port).into(), session: String::new(), driver, profile };
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ];
        let arguments: Vec<String> = arguments
            .into_iter()
            .map(str::to_owned)
            .chain([format!("--user-data-dir={}", browser.profile.display()), "--window-size=1400,900".to_owned()])
            .collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            // Certificates of a test's own authority.
            "acceptInsecureCerts": true,
            "goog:chromeOptions": { "args": arguments, "binary": "/usr/bin/chromium" },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// Asks chromedriver something; panics if it cannot be done.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.attempt(method, path, body).unwrap_or_else(|why| panic!("{method} {path} {body}: {why}"))
    }

    fn attempt(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        patient(&stream);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let answer = read_answer(&mut BufReader::new(stream));
        let value: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        match value["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", value["value"]["message"])),
            None => Ok(value["value"].clone()),
        }
    }

    fn of_session(&self, what: &str) -> String {
        format!("/session/{}/{what}", self.session)
    }

    pub(crate) fn open(&self, url: &str) {
        self.ask("POST", &self.of_session("url"), &json!({ "url": url }));
    }

    /// What a script returns.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.ask("POST", &self.of_session("execute/sync"), &json!({ "script": script, "args": [] }))
    }

    /// The text that is shown at a selector; nothing if nothing is there.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({})?.innerText ?? ''", json!(selector));
        self.script(&script).as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn await_text(&self, selector: &str, part: &str) -> String {
        let mut last = String::new();
        wait_until(format_args!("{selector} to have {part:?}"), || {
            last = self.text(selector);
            last.contains(part)
        });
        last
    }

    /// The value of an expression, when it is true.
    #[track_caller]
    pub(crate) fn await_true(&self, expression: &str) {
        wait_until(expression, || self.script(&format!("return Boolean({expression})")) == true);
    }

    fn find(&self, selector: &str) -> Option<String> {
        let found =
            self.attempt("POST", &self.of_session("element"), &json!({ "using": "css selector", "value": selector }));
        found.ok()?[ELEMENT].as_str().map(str::to_owned)
    }

    /// Clicks where somebody with a mouse would, when it can be clicked: what is shown may be replaced at any time.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        wait_until(format_args!("{selector} to be clicked"), || {
            let Some(element) = self.find(selector) else { return false };
            self.attempt("POST", &self.of_session(&format!("element/{element}/click")), &json!({})).is_ok()
        });
    }

    /// Types into a field.
    #[track_caller]
    pub(crate) fn write(&self, selector: &str, text: &str) {
        wait_until(format_args!("{selector} to be there"), || self.find(selector).is_some());
        let element = self.find(selector).unwrap();
        self.ask("POST", &self.of_session(&format!("element/{element}/clear")), &json!({}));
        self.ask("POST", &self.of_session(&format!("element/{element}/value")), &json!({ "text": text }));
    }

    /// Presses keys, wherever the focus is.
    pub(crate) fn press(&self, keys: &str) {
        let strokes = keys
            .chars()
            .flat_map(|key| [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]);
        let actions =
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes.collect::<Vec<_>>() }] });
        self.ask("POST", &self.of_session("actions"), &actions);
    }

    /// Gives the window a size.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    fn devtools(&self, command: &str, parameters: &Value) {
        let asked = json!({ "cmd": command, "params": parameters });
        self.ask("POST", &self.of_session("goog/cdp/execute"), &asked);
    }

    /// Keeps what is seen as a picture.
    pub(crate) fn picture(&self, name: &str) {
        let encoded = self.ask("GET", &self.of_session("screenshot"), &Value::Null);
        let folder = screenshots();
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), decoded(encoded.as_str().unwrap())).unwrap();
    }

    /// What the page, or the browser about it, has complained of since this was last asked; but not that the service has no figures yet of
    /// what has only just come.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.ask("POST", &self.of_session("se/log"), &json!({ "type": "browser" }));
        let serious = |entry: &&Value| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING"));
        let messages = entries.as_array().unwrap().iter().filter(serious).map(|entry| entry["message"].to_string());
        messages.filter(|message| !message.contains("/api/v1/figures?")).collect()
    }
}

pub(crate) fn screenshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/screenshots")
}

/// The body of an answer. The other side does not end the connection then, whatever it was asked.
fn read_answer(stream: &mut BufReader<TcpStream>) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        length = line.strip_prefix("content-length:").map_or(length, |length| length.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// Base64, as RFC 4648 has it.
fn decoded(text: &str) -> Vec<u8> {
    let six = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let octets = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(six(*digit))) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    octets.collect()
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.attempt("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        if let Some(group) = i32::try_from(self.driver.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.driver.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
