//! Links to other services that operators have added.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An added link, as a configuration's `[[link]]` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its name, unique among the links of the service.
    pub name: String,
    /// Its other settings, by their names in the configuration.
    #[serde(flatten)]
    settings: Map<String, Value>,
}

impl Link {
    /// The link of a configuration's entry; `None` if that has no name.
    #[must_use]
    pub fn of_entry<T: Serialize>(entry: &T) -> Option<Self> {
        serde_json::from_value(serde_json::to_value(entry).ok()?).ok()
    }

    /// The configuration's entry of which it is.
    ///
    /// # Errors
    /// Why it cannot be read, for people.
    pub fn entry<T: DeserializeOwned>(&self) -> Result<T, String> {
        let mut all = self.settings.clone();
        all.insert("name".to_owned(), self.name.clone().into());
        serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())
    }
}
