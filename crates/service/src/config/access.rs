//! Access rules, tokens, addresses that the service may call, and names of clients: `[[access]]`, `[tokens]`, `[outgoing]`, `[[client]]`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use access::{AddressRanges, BadWho, ClientNames, OutgoingPolicy, RuleText, Rules, Tokens};

/// Grants or denies rights on channels and event types to clients. The first rule that applies decides; where there are rules and none
/// applies, access is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// What it is called in log lines, beside its number. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whom it is about: `*`, `anonymous`, an address, a range of addresses, `certificate:NAME` (attributes of the subject, or `dns:`,
    /// `uri:`, `ip:`, `email:` and an alternative name), `token:NAME`, `door:dds`, `door:zenoh`. 1 to 256.
    pub who: Vec<String>,
    /// The rights: `publish`, `subscribe`, `administer`.
    pub may: Vec<String>,
    /// The channels, by number or by name; names may have stars. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// The event types, `DOMAIN/NAME`, which may have stars. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Whether it allows, or denies. Default true.
    #[serde(default = "yes")]
    pub allow: bool,
}

const fn yes() -> bool {
    true
}

/// Whom the service calls: consumers that it pushes to, suppliers that it pulls from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutgoingConfig {
    /// The addresses, and ranges of them, at which clients are called. Default: none is named, and it is all but link-local ones. The
    /// service's own ports for JSON, Tempo and HTTP are never called.
    pub allow: Option<Vec<String>>,
}

/// Names clients that say no name of themselves. The first entry that means a client counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientEntry {
    /// Whom it is about, as in an [`AccessRule`]. 1 at least, if there is no `address`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub who: Vec<String>,
    /// An address, or a range of addresses: one more of `who`, as former versions have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The name: 1 to 64 characters, none of which is a control, invisible or direction character.
    pub name: String,
}

/// Most entries of `client`, and of `who` in all of them: each new connection is held against them.
const CLIENTS_MAX: usize = 1_024;

/// What rules call the token of `http.token_file`: no token of `[tokens]` has that name beside it.
pub const HTTP_TOKEN_NAME: &str = "http";

impl Config {
    /// The rules of access; nothing if there are none, and everything is allowed.
    ///
    /// # Errors
    /// One makes no sense.
    pub fn access_rules(&self) -> Result<Option<Rules>, ConfigError> {
        let text = |rule: &AccessRule| {
            let AccessRule { name, who, may, on, types, allow } = rule.clone();
            RuleText { name, who, may, on, types, allow }
        };
        let texts: Vec<RuleText> = self.access.iter().map(text).collect();
        Rules::parse(&texts).map_err(ConfigError::BadAccess)
    }

    /// What is odd about the rules of access: those that can never decide, and tokens that are spoken of and not there.
    #[must_use]
    pub fn access_warnings(&self) -> Vec<String> {
        let mut warnings = self.access_rules().ok().flatten().map(|rules| rules.warnings()).unwrap_or_default();
        let tokens = self.access.iter().flat_map(|rule| &rule.who).filter_map(|who| who.strip_prefix("token:"));
        let is_there =
            |token: &str| self.tokens.contains_key(token) || token == HTTP_TOKEN_NAME && self.http.token_file.is_some();
        for token in tokens.filter(|token| !token.contains('*') && !is_there(token)) {
            warnings
                .push(format!("access: a rule speaks of the token \"{token}\", and [tokens] has none of that name"));
        }
        warnings
    }

    /// The tokens that clients may show. Reads their files.
    ///
    /// # Errors
    /// One makes no sense, or its file cannot be read.
    pub fn read_tokens(&self) -> Result<Tokens, ConfigError> {
        tokens(&self.tokens, true)
    }

    /// The addresses at which clients are called.
    ///
    /// # Errors
    /// One is none.
    pub fn outgoing_policy(&self) -> Result<OutgoingPolicy, ConfigError> {
        let ranges = self.outgoing.allow.as_ref().map(|allow| AddressRanges::parse(allow.iter().map(String::as_str)));
        let allow = ranges.transpose().map_err(|text| ConfigError::BadOutgoing { value: text.to_owned() })?;
        Ok(OutgoingPolicy::new(allow))
    }

    /// What clients are called that say no name of themselves.
    ///
    /// # Errors
    /// Names the first entry that makes no sense.
    pub fn client_names(&self) -> Result<ClientNames, ConfigError> {
        let bad = |entry, why| ConfigError::BadClient { entry, why };
        if self.client.len() > CLIENTS_MAX {
            return Err(bad(CLIENTS_MAX + 1, format!("there are {CLIENTS_MAX} at most")));
        }
        let mut patterns = 0;
        let named = |(entry, ClientEntry { who, address, name }): (usize, &ClientEntry)| {
            let all =
                who.iter().chain(address).map(|one| one.parse().map_err(|why: BadWho| bad(entry, why.to_string())));
            let all: Vec<_> = all.collect::<Result<_, _>>()?;
            patterns += all.len();
            if all.is_empty() {
                return Err(bad(entry, "it needs clients (`who`)".to_owned()));
            }
            if patterns > CLIENTS_MAX {
                return Err(bad(
                    entry,
                    format!("`who` has {CLIENTS_MAX} entries at most, in all of [[client]] together"),
                ));
            }
            giop::client_name::check(name).map_err(|error| bad(entry, error.to_string()))?;
            Ok((all, name.as_str().into()))
        };
        (1..).zip(&self.client).map(named).collect()
    }

    /// Checks all of it but the files of tokens.
    pub(super) fn check_access(&self) -> Result<(), ConfigError> {
        self.access_rules()?;
        self.outgoing_policy()?;
        self.client_names()?;
        if self.http.token_file.is_some() && self.tokens.contains_key(HTTP_TOKEN_NAME) {
            let why =
                format!("the token \"{HTTP_TOKEN_NAME}\" is that of http.token_file: give the other one another name");
            return Err(ConfigError::BadToken { why });
        }
        tokens(&self.tokens, false).map(drop)
    }
}

fn tokens(given: &BTreeMap<String, String>, read: bool) -> Result<Tokens, ConfigError> {
    let mut tokens = Tokens::default();
    for (name, value) in given {
        let bad = |error: access::BadToken| ConfigError::BadToken { why: error.to_string() };
        if let Some(hash) = value.strip_prefix("sha256:") {
            tokens.add_hash(name, hash).map_err(bad)?;
        } else if let Some(path) = value.strip_prefix("file:") {
            if read {
                let path = Path::new(path);
                let unreadable = |error| ConfigError::BadToken {
                    why: format!("the file {} of the token \"{name}\" cannot be read: {error}", path.display()),
                };
                tokens.add(name, &std::fs::read(path).map_err(unreadable)?).map_err(bad)?;
            }
        } else {
            // What it is may be the token itself, and is not repeated.
            let why = format!("the token \"{name}\" is \"sha256:HASH\" or \"file:PATH\"");
            return Err(ConfigError::BadToken { why });
        }
    }
    Ok(tokens)
}
