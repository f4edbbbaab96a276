//! Links to other services that operators have added.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An added link, with the settings of a configuration's `[[link]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Name, unique among the links of the service.
    pub name: String,
    /// Other settings, by their names in the configuration.
    #[serde(flatten)]
    settings: Map<String, Value>,
}

impl Link {
    /// The link of an entry in the configuration; `None` if that has no name.
    #[must_use]
    pub fn of_entry<T: Serialize>(entry: &T) -> Option<Self> {
        serde_json::from_value(serde_json::to_value(entry).ok()?).ok()
    }

    /// The link as an entry in the configuration.
    ///
    /// # Errors
    /// Why it cannot be parsed, as text.
    pub fn entry<T: DeserializeOwned>(&self) -> Result<T, String> {
        let mut all = self.settings.clone();
        all.insert("name".to_owned(), self.name.clone().into());
        serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())
    }
}
