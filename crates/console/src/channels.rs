//! Channels by number or by name, as in requests.

use engine::ChannelId;
use serde::Deserialize;
use service::near;

use crate::access::{Access, Asking};
use crate::routes::Failure;
use crate::shared::Shared;

/// A channel in a path, an argument or a body.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a channel is its number, or a string with its name")]
pub(crate) enum ChannelRef {
    /// Its number.
    Number(u32),
    /// Its name, even if that is a number.
    Name(String),
}

impl From<&str> for ChannelRef {
    /// Parses text of a path or an argument: a number, or else a name. Quotes, as in JSON, mark a name that looks like a number.
    fn from(text: &str) -> Self {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        match text.parse() {
            Ok(number) if is_plain => Self::Number(number),
            _ => Self::Name(quoted.unwrap_or(text).to_owned()),
        }
    }
}

impl ChannelRef {
    /// Finds the channel, for a client with the right to read channels.
    ///
    /// # Errors
    /// No channel has the name; the client has no right to read.
    pub(crate) async fn find_for(
        self,
        shared: &Shared,
        asking: &Asking,
        is_outside: bool,
    ) -> Result<ChannelId, Failure> {
        if let Self::Name(_) = self {
            Access::check_reading(asking, is_outside)?;
        }
        self.find(shared).await
    }

    /// Finds the channel. Names are half a second old at most.
    ///
    /// # Errors
    /// No channel has the name.
    pub(crate) async fn find(self, shared: &Shared) -> Result<ChannelId, Failure> {
        let name = match self {
            Self::Number(number) => return Ok(ChannelId(number)),
            Self::Name(name) => name,
        };
        let snapshot = shared.snapshot().await?;
        let named = || snapshot.channels.iter().filter_map(|channel| Some((channel, channel.listed.name.as_deref()?)));
        match named().find(|(_, other)| *other == name) {
            Some((channel, _)) => Ok(channel.listed.id),
            None => {
                let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
                let near = near::hint(&name, named().map(|(_, name)| name));
                Err(Failure::NotNamed(format!("there is no channel \"{shown}\"{near}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_number_and_in_quotes_a_name() {
        let name = |name: &str| ChannelRef::Name(name.to_owned());
        for (text, channel) in [
            ("0", ChannelRef::Number(0)),
            ("4294967295", ChannelRef::Number(u32::MAX)),
            ("4294967296", name("4294967296")),
            ("007", name("007")),
            ("+1", name("+1")),
            ("\"7\"", name("7")),
            ("Weather", name("Weather")),
            ("\"", name("\"")),
            ("", name("")),
        ] {
            assert_eq!(ChannelRef::from(text), channel, "{text}");
        }
        let read = |json: &str| serde_json::from_str::<ChannelRef>(json);
        assert_eq!((read("7").unwrap(), read("\"7\"").unwrap()), (ChannelRef::Number(7), name("7")));
        assert!(read("-1").unwrap_err().to_string().contains("its number, or a string with its name"));
    }
}
