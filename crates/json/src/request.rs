//! Requests, as parsed from a line.

use crate::{body, read};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use giop::value::AnyValue;
use serde_json::{Map, Value as Json};

/// A client's request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// `{"op":"subscribe", …}`: the service sends events from now on.
    Subscribe(Subscribe),
    /// `{"op":"unsubscribe","id":3,"subscription":1}`: ends the subscription that request 1 made.
    Unsubscribe {
        /// The request's id; it may be left out.
        id: Option<u64>,
        /// The id of the request that subscribed.
        subscription: u64,
    },
    /// `{"op":"publish", …}`: publishes an event.
    Publish(Box<Publish>),
    /// `{"op":"hello","name":"…","token":"…"}`: the client's name, the token that identifies it, or both.
    Hello {
        /// The request's id; it may be left out.
        id: Option<u64>,
        /// Name of the client.
        name: Option<String>,
        /// A secret that the service knows.
        token: Option<String>,
    },
    /// `{"op":"channels","id":5}`: lists the channels.
    Channels {
        /// The request's id, which its answer repeats. Required.
        id: u64,
        /// Lists channels with numbers above this one; all if it was left out.
        behind: Option<u32>,
    },
    /// `{"op":"ping","id":4}`: tests whether the service answers.
    Ping {
        /// The request's id, which its answer repeats. Required.
        id: u64,
    },
}

/// A channel by number or by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChannelRef {
    /// `7`: the channel of that number.
    Number(u32),
    /// `"Weather"`, `"7"`: the channel of that name, even if the name consists of digits.
    Name(String),
}

impl Default for ChannelRef {
    /// The default channel.
    fn default() -> Self {
        Self::Number(0)
    }
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// The request's id, which its answer repeats and which ends the subscription later. Required.
    pub id: u64,
    /// The channel; the default one if it was left out.
    pub channel: ChannelRef,
    /// Whether the channel is made if it does not exist.
    pub create: bool,
    /// Domain and name of each event type, which may have wildcards; all (`*`, `*`) if it was left out.
    pub types: Vec<(String, String)>,
    /// A constraint in the filter language; empty if it was left out.
    pub constraint: String,
    /// Position in the channel's history to begin at, in the words of the property `StartFrom`; if left out, only new events are sent.
    pub from: Option<String>,
    /// A correlation, in the words of the property `When`; empty if it was left out.
    pub when: String,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// The request's id; without one, only a refusal is answered.
    pub id: Option<u64>,
    /// The channel; the default one if it was left out.
    pub channel: ChannelRef,
    /// Whether the channel is made if it does not exist.
    pub create: bool,
    /// Domain of the event's type.
    pub domain: String,
    /// Name of the event's type.
    pub type_name: String,
    /// Name of the event; empty if it was left out.
    pub name: String,
    /// The variable header: `Priority`, `Timeout` and the like.
    pub header: Vec<(String, AnyValue)>,
    /// The filterable data.
    pub fields: Vec<(String, AnyValue)>,
    /// The remainder of the body; an Any without a value if it was left out.
    pub body: AnyValue,
}

/// A request that cannot be carried out, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The request's id, if it could be read.
    pub id: Option<u64>,
    /// The reason, as a sentence for people.
    pub reason: String,
}

/// The largest id: larger numbers are inexact in languages in which every number is a double.
const ID_MAX: u64 = 1 << 53;

/// Parses a request from a line that was checked against the limits.
pub(crate) fn parse(json: Json) -> Result<Request, Refused> {
    let Json::Object(members) = json else {
        return Err(Refused { id: None, reason: "a request is a JSON object".to_owned() });
    };
    let mut members = Members(members);
    let id = members.id("id").map_err(|reason| Refused { id: None, reason })?;
    members.request(id).map_err(|reason| Refused { id, reason })
}

/// The unread members of a request.
struct Members(Map<String, Json>);

impl Members {
    fn request(mut self, id: Option<u64>) -> Result<Request, String> {
        let op = self
            .text("op")?
            .ok_or("a request has an \"op\": subscribe, unsubscribe, publish, channels, hello or ping")?;
        let request = match op.as_str() {
            "subscribe" => Request::Subscribe(self.subscribe(id)?),
            "unsubscribe" => {
                let subscription = self.id("subscription")?;
                let subscription = subscription.ok_or("unsubscribe has the id of a \"subscription\"")?;
                Request::Unsubscribe { id, subscription }
            }
            "publish" => Request::Publish(Box::new(self.publish(id)?)),
            "hello" => match (self.text("name")?, self.text("token")?) {
                (None, None) => return Err("hello has a \"name\" or a \"token\"".to_owned()),
                (name, token) => Request::Hello { id, name, token },
            },
            "channels" => {
                let id = id.ok_or("channels has an \"id\", with which it is answered")?;
                let behind = self.id("behind")?.map(u32::try_from).transpose();
                Request::Channels { id, behind: behind.map_err(|_| NO_NUMBER)? }
            }
            "ping" => Request::Ping { id: id.ok_or("ping has an \"id\", with which it is answered")? },
            other => {
                return Err(format!(
                    "there is no op `{}`, only subscribe, unsubscribe, publish, channels, hello and ping",
                    shortened(other)
                ));
            }
        };
        match self.0.keys().next() {
            Some(unknown) => Err(format!("{op} has no member `{}`", shortened(unknown))),
            None => Ok(request),
        }
    }

    fn subscribe(&mut self, id: Option<u64>) -> Result<Subscribe, String> {
        let types = match self.0.remove("types") {
            None | Some(Json::Null) => alloc::vec![("*".to_owned(), "*".to_owned())],
            Some(Json::Array(types)) if !types.is_empty() => {
                types.iter().map(|one| event_type(one.as_str())).collect::<Result<_, _>>()?
            }
            Some(_) => return Err("\"types\" is an array of event types such as \"Weather/*\"".to_owned()),
        };
        let (channel, create) = self.channel()?;
        Ok(Subscribe {
            id: id.ok_or("subscribe has an \"id\", by which the subscription can be ended")?,
            channel,
            create,
            types,
            constraint: self.text("where")?.unwrap_or_default(),
            from: self.place("from")?,
            when: self.text("when")?.unwrap_or_default(),
        })
    }

    fn publish(&mut self, id: Option<u64>) -> Result<Publish, String> {
        let (domain, type_name) = self.published_type()?;
        // Members of an event that `campanile sub --json` has printed, or that came over this protocol.
        for of_delivery in ["received", "number", "time", "came"] {
            self.0.remove(of_delivery);
        }
        let (channel, create) = self.channel()?;
        let body = self.body(&type_name);
        Ok(Publish {
            id,
            channel,
            create,
            domain,
            type_name,
            name: self.text("name")?.unwrap_or_default(),
            header: self.properties("header")?,
            fields: self.properties("fields")?,
            body,
        })
    }

    /// The body as written, without its type; members that were left out are filled in from the fields.
    fn body(&mut self, type_name: &str) -> AnyValue {
        let Some(json) = self.0.remove("body") else { return AnyValue::default() };
        let Some((name, value)) = body::typed(&json) else { return read::from_json(&json) };
        let fields = self.0.get("fields").and_then(Json::as_object);
        read::from_json(&body::with_fields(value, name, Some(type_name), fields, |_| true))
    }

    /// `"type":"Weather/Wind"`, `"type":"Wind"` without a domain, or, as former versions of `campanile sub --json` wrote it, the domain in a
    /// member of its own.
    fn published_type(&mut self) -> Result<(String, String), String> {
        let of = self.text("type")?.ok_or(NO_TYPE)?;
        let (domain, name) = match (self.text("domain")?, of.split_once('/')) {
            (Some(domain), _) => (domain, of),
            (None, Some((domain, name))) => (domain.to_owned(), name.to_owned()),
            (None, None) => (String::new(), of),
        };
        if name.contains('/') {
            return Err(format!("the name of an event type has no `/`, but `{}` has", shortened(&name)));
        }
        Ok((domain, name))
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.0.remove(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("\"{key}\" is a string")),
        }
    }

    /// Reads a position in the history. A JSON number is an event's number.
    fn place(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.0.remove(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(json) => match json.as_u64() {
                Some(number) => Ok(Some(format!("number:{number}"))),
                None => Err(format!("\"{key}\" is a place such as \"last:100\", or an event's number")),
            },
        }
    }

    fn id(&mut self, key: &str) -> Result<Option<u64>, String> {
        match self.0.remove(key) {
            None | Some(Json::Null) => Ok(None),
            Some(json) => match json.as_u64().filter(|id| *id <= ID_MAX) {
                Some(id) => Ok(Some(id)),
                None => Err(format!("\"{key}\" is a whole number from 0 to {ID_MAX}")),
            },
        }
    }

    /// Reads a channel. A JSON number is a channel's number; a string is a channel's name, even if it consists of digits.
    fn channel(&mut self) -> Result<(ChannelRef, bool), String> {
        let create = match self.0.remove("create") {
            None | Some(Json::Null) => false,
            Some(Json::Bool(create)) => create,
            Some(_) => return Err("\"create\" is true or false".to_owned()),
        };
        match self.0.remove("channel") {
            Some(Json::String(name)) => Ok((ChannelRef::Name(name), create)),
            _ if create => Err("\"create\" makes the channel that \"channel\" names, and there is no name".to_owned()),
            None | Some(Json::Null) => Ok((ChannelRef::default(), false)),
            Some(json) => {
                let number = json.as_u64().and_then(|number| u32::try_from(number).ok());
                number.map(|number| (ChannelRef::Number(number), false)).ok_or_else(|| NO_NUMBER.to_owned())
            }
        }
    }

    fn properties(&mut self, key: &str) -> Result<Vec<(String, AnyValue)>, String> {
        match self.0.remove(key) {
            None | Some(Json::Null) => Ok(Vec::new()),
            Some(Json::Object(members)) => members.iter().map(|(name, json)| read::member(name, json)).collect(),
            Some(_) => Err(format!("\"{key}\" is an object")),
        }
    }
}

const NO_NUMBER: &str = "a channel is its name, or its number as `campanile ls` shows it";
const NO_TYPE: &str = "an event type is \"DOMAIN/NAME\", for example \"Weather/Wind\"";

/// Parses domain and name. `*` alone stands for all types, another name alone for a type without a domain.
fn event_type(text: Option<&str>) -> Result<(String, String), String> {
    let (domain, name) = match text {
        Some("*") => ("*", "*"),
        Some("") | None => return Err(NO_TYPE.to_owned()),
        Some(text) => text.split_once('/').unwrap_or(("", text)),
    };
    Ok((domain.to_owned(), name.to_owned()))
}

/// The beginning of a client's text, as errors quote it.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn parsed(line: &str) -> Result<Request, Refused> {
        parse(serde_json::from_str(line).expect(line))
    }

    #[test]
    fn a_subscription_has_types_and_a_constraint() {
        let request =
            r#"{"op":"subscribe","id":1,"channel":7,"types":["Weather/*","*","Wind","/Rain"],"where":"$speed > 10"}"#;
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let expected = Subscribe {
            id: 1,
            channel: ChannelRef::Number(7),
            create: false,
            types: vec![pair("Weather", "*"), pair("*", "*"), pair("", "Wind"), pair("", "Rain")],
            constraint: "$speed > 10".to_owned(),
            from: None,
            when: String::new(),
        };
        assert_eq!(parsed(request), Ok(Request::Subscribe(expected)));
        let (channel, types) = (ChannelRef::default(), vec![pair("*", "*")]);
        let (constraint, when) = (String::new(), String::new());
        let expected = Subscribe { id: 2, channel, create: false, types, constraint, from: None, when };
        assert_eq!(parsed(r#"{"op":"subscribe","id":2}"#), Ok(Request::Subscribe(expected)));
        for (from, place) in [(r#""last:100""#, Some("last:100")), ("7", Some("number:7")), ("null", None)] {
            let line = format!(r#"{{"op":"subscribe","id":2,"from":{from}}}"#);
            let Ok(Request::Subscribe(subscribe)) = parsed(&line) else { panic!("{line}") };
            assert_eq!(subscribe.from.as_deref(), place, "{line}");
        }
    }

    #[test]
    fn an_event_has_what_campanile_pub_gives_it() {
        let line = r#"{"op":"publish","id":2,"channel":0,"type":"Weather/Wind","name":"n",
            "header":{"Priority:short":3},"fields":{"speed":12.5,"gusts":[1,2.5]},"body":{"x":"y"}}"#;
        let Ok(Request::Publish(publish)) = parsed(line) else { panic!() };
        assert_eq!(
            (publish.domain.as_str(), publish.type_name.as_str(), publish.name.as_str()),
            ("Weather", "Wind", "n")
        );
        assert_eq!(publish.header, [("Priority".to_owned(), 3_i16.into())]);
        let as_typed = |text: &str| read::field(text).unwrap();
        assert_eq!(publish.fields, [as_typed("gusts=[1,2.5]"), as_typed("speed=12.5")]);
        assert_eq!(publish.body, read::inferred("{\"x\":\"y\"}").unwrap());
        let Ok(Request::Publish(least)) = parsed(r#"{"op":"publish","type":"/"}"#) else { panic!() };
        assert_eq!((least.id, least.channel, least.body), (None, ChannelRef::Number(0), AnyValue::default()));
    }

    #[test]
    fn a_channel_is_a_number_or_a_name_and_digits_in_quotes_are_a_name() {
        let named = |name: &str| ChannelRef::Name(name.to_owned());
        for (members, channel) in [
            ("", ChannelRef::Number(0)),
            (r#","channel":null"#, ChannelRef::Number(0)),
            (r#","channel":7"#, ChannelRef::Number(7)),
            (r#","channel":7,"create":false"#, ChannelRef::Number(7)),
            (r#","channel":"7""#, named("7")),
            (r#","channel":"Weather","create":true"#, named("Weather")),
        ] {
            let line = format!(r#"{{"op":"publish","type":"A/B"{members}}}"#);
            let Ok(Request::Publish(publish)) = parsed(&line) else { panic!("{line}") };
            assert_eq!((publish.channel, publish.create), (channel, line.contains("true")), "{line}");
        }
        let list = r#"{"op":"channels","id":5,"behind":255}"#;
        assert_eq!(parsed(list), Ok(Request::Channels { id: 5, behind: Some(255) }));
    }

    #[test]
    fn an_event_that_was_printed_is_published_under_its_own_type() {
        for (line, domain, name) in [
            (r#"{"op":"publish","received":"x","type":"Weather/Wind","fields":{}}"#, "Weather", "Wind"),
            (r#"{"op":"publish","received":"x","domain":"Weather","type":"Wind","fields":{}}"#, "Weather", "Wind"),
            (
                r#"{"op":"publish","channel":0,"number":17,"time":1,"came":"x","type":"Weather/Wind"}"#,
                "Weather",
                "Wind",
            ),
            (r#"{"op":"publish","type":"Wind"}"#, "", "Wind"),
            (r#"{"op":"publish","type":"/Wind"}"#, "", "Wind"),
        ] {
            let Ok(Request::Publish(publish)) = parsed(line) else { panic!("{line}") };
            assert_eq!((publish.domain.as_str(), publish.type_name.as_str()), (domain, name), "{line}");
        }
    }

    #[test]
    fn a_body_is_what_was_printed_with_the_members_that_are_fields() {
        for (body, expected) in [
            (r#"{"type":"long","value":7}"#, "7"),
            (r#"{"type":"Wind","value":{}}"#, r#"{"speed":1,"y:short":2}"#),
            (r#"{"type":"Wind","value":{"speed":3}}"#, r#"{"speed":3,"y:short":2}"#),
            (r#"{"type":"Gale","value":{"x":3}}"#, r#"{"x":3}"#),
            (r#"{"x":1}"#, r#"{"x":1}"#),
        ] {
            let line =
                format!(r#"{{"op":"publish","type":"A/Wind","fields":{{"speed":1,"y:short":2}},"body":{body}}}"#);
            let Ok(Request::Publish(publish)) = parsed(&line) else { panic!("{line}") };
            let expected: Json = serde_json::from_str(expected).unwrap();
            assert_eq!(publish.body, read::from_json(&expected), "{line}");
        }
    }

    #[test]
    fn the_other_requests_are_small() {
        assert_eq!(parsed(r#"{"id":9007199254740992,"op":"ping"}"#), Ok(Request::Ping { id: 1 << 53 }));
        let request = Request::Unsubscribe { id: Some(3), subscription: 1 };
        assert_eq!(parsed(r#"{"op":"unsubscribe","id":3,"subscription":1}"#), Ok(request));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_id_and_the_reason() {
        for (line, id, reason) in [
            ("5", None, "a JSON object"),
            ("[]", None, "a JSON object"),
            ("{}", None, "has an \"op\""),
            (r#"{"id":1}"#, Some(1), "has an \"op\""),
            (r#"{"op":5,"id":1}"#, Some(1), "\"op\" is a string"),
            (r#"{"op":"PUBLISH","id":1}"#, Some(1), "there is no op `PUBLISH`"),
            (r#"{"op":"ping","id":-1}"#, None, "\"id\" is a whole number"),
            (r#"{"op":"ping","id":1.5}"#, None, "\"id\" is a whole number"),
            (r#"{"op":"ping","id":"1"}"#, None, "\"id\" is a whole number"),
            (r#"{"op":"ping","id":9007199254740993}"#, None, "\"id\" is a whole number"),
            (r#"{"op":"ping","id":1,"fields":{}}"#, Some(1), "ping has no member `fields`"),
            (r#"{"op":"publish","id":1,"type":"A/B","fileds":{}}"#, Some(1), "publish has no member `fileds`"),
            (r#"{"op":"publish","id":1}"#, Some(1), "an event type is"),
            (r#"{"op":"publish","id":1,"type":"A/B/C"}"#, Some(1), "has no `/`, but `B/C` has"),
            (r#"{"op":"publish","id":1,"domain":"A","type":"A/B"}"#, Some(1), "has no `/`, but `A/B` has"),
            (r#"{"op":"subscribe","id":1,"types":[""]}"#, Some(1), "an event type is"),
            (r#"{"op":"subscribe","id":1,"create":true}"#, Some(1), "there is no name"),
            (r#"{"op":"subscribe","id":1,"channel":7,"create":true}"#, Some(1), "there is no name"),
            (r#"{"op":"subscribe","id":1,"channel":"A","create":1}"#, Some(1), "\"create\" is true or false"),
            (r#"{"op":"channels"}"#, None, "channels has an \"id\""),
            (r#"{"op":"channels","id":1,"behind":4294967296}"#, Some(1), "a channel is its name, or its number"),
            (r#"{"op":"channels","id":1,"channel":1}"#, Some(1), "channels has no member `channel`"),
            (r#"{"op":"publish","id":1,"type":"A/B","channel":-1}"#, Some(1), "a channel is its name"),
            (r#"{"op":"publish","id":1,"type":"A/B","channel":4294967296}"#, Some(1), "a channel is its name"),
            (r#"{"op":"publish","id":1,"type":"A/B","fields":[]}"#, Some(1), "\"fields\" is an object"),
            (r#"{"op":"publish","id":1,"type":"A/B","fields":{"a:color":1}}"#, Some(1), "there is no type `color`"),
            (r#"{"op":"ping"}"#, None, "ping has an \"id\""),
            (r#"{"op":"subscribe"}"#, None, "subscribe has an \"id\""),
            (r#"{"op":"subscribe","id":1,"types":[]}"#, Some(1), "\"types\" is an array"),
            (r#"{"op":"subscribe","id":1,"types":"A/B"}"#, Some(1), "\"types\" is an array"),
            (r#"{"op":"subscribe","id":1,"types":[5]}"#, Some(1), "an event type is"),
            (r#"{"op":"subscribe","id":1,"where":5}"#, Some(1), "\"where\" is a string"),
            (r#"{"op":"subscribe","id":1,"from":-5}"#, Some(1), "\"from\" is a place"),
            (r#"{"op":"unsubscribe","id":1}"#, Some(1), "the id of a \"subscription\""),
        ] {
            let refused = parsed(line).expect_err(line);
            assert_eq!(refused.id, id, "{line}");
            assert!(refused.reason.contains(reason), "{line}: {}", refused.reason);
        }
    }
}
