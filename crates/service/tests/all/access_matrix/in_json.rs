//! Lines of JSON, in the clear with tokens, and over TLS.

use testing::rulebook::{SECRET, TYPES, rulebooks};

use super::{Client, Rig, Tried, numbered};
use crate::json::Lines;
use crate::tls::{self, Line};

/// Lines of JSON, whichever way they go.
enum Talk {
    Plain(Lines),
    Tls(Box<Line>),
}

impl Talk {
    fn line(&mut self) -> String {
        match self {
            Self::Plain(lines) => lines.line(),
            Self::Tls(line) => line.line(),
        }
        .expect("a line")
    }

    /// Asks for something, and says whether it was done. If not, the reason is that it is not permitted.
    #[track_caller]
    fn is_done(&mut self, line: &str) -> bool {
        let answer = match self {
            Self::Plain(lines) => lines.ask(line),
            Self::Tls(end) => end.ask(line),
        };
        assert!(answer.starts_with("{\"ok\"") || answer.contains("not permitted"), "{line}: {answer}");
        answer.starts_with("{\"ok\"")
    }
}

impl Rig {
    /// A client's connection for lines of JSON, with what it shows.
    fn lines(&self, client: &Client) -> Talk {
        if client.who.certificate.is_some() {
            let end = tls::end(&self.authority, Some(&self.certified));
            return Talk::Tls(Box::new(Line::connect(self.service.tls_addresses()[1].unwrap(), &end).unwrap()));
        }
        let mut lines = Lines::connect_from(&self.service, &client.who.address.unwrap().to_string());
        if client.who.token.is_some() {
            assert_eq!(lines.ask(&format!(r#"{{"op":"hello","id":1,"token":"{SECRET}"}}"#)), r#"{"ok":1}"#);
        }
        Talk::Plain(lines)
    }
}

#[test]
fn what_each_client_may_by_lines_of_json_is_what_the_rules_say() {
    let mut tried = Tried::default();
    for (title, book) in rulebooks() {
        let rig = Rig::start("json", title, book);
        publish_by_json(&rig, &mut tried);
        subscribe_by_json(&rig, &mut tried);
    }
    tried.is_telling();
}

fn publish_by_json(rig: &Rig, tried: &mut Tried) {
    let mut cells = Vec::new();
    for client in rig.clients(true, true) {
        let mut talk = rig.lines(&client);
        for (channel, of) in numbered().flat_map(|channel| TYPES.map(|of| (channel, of))) {
            let mark = format!("{} in JSON: {channel} {}/{}", client.title, of.0, of.1);
            let line =
                format!(r#"{{"op":"publish","id":2,"channel":{channel},"type":"{}/{}","name":"{mark}"}}"#, of.0, of.1);
            let said = rig.may(&client.who, "publish", channel, of);
            tried.note(rig, &format!("the answer to {mark}"), talk.is_done(&line), said);
            cells.push((mark, channel, said));
        }
    }
    rig.compare(tried, &cells);
}

fn subscribe_by_json(rig: &Rig, tried: &mut Tried) {
    let mut all = Vec::new();
    for client in rig.clients(true, true) {
        for channel in numbered() {
            let mut talk = rig.lines(&client);
            let came = talk.is_done(&format!(r#"{{"op":"subscribe","id":2,"channel":{channel}}}"#));
            let cell = format!("{} subscribes to {channel} in JSON", client.title);
            tried.note(rig, &cell, came, rig.lets_in(&client.who, "subscribe", channel));
            let client = Client { who: client.who.clone(), title: format!("{} in JSON", client.title) };
            all.push((client, channel, came.then_some(talk)));
        }
    }
    rig.publish_twice();
    for (client, channel, talk) in &mut all {
        let name_of = |line: &str| {
            let (_, rest) = line.split_once(r#""name":""#).unwrap_or_else(|| panic!("{line}"));
            rest.split_once('"').unwrap().0.to_owned()
        };
        let came = talk.as_mut().map(|talk| rig.received(client, &[*channel], || name_of(&talk.line())));
        rig.compare_received(tried, client, *channel, came.unwrap_or_default());
    }
}
