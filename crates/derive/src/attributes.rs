//! `#[event(…)]`.

use syn::{Attribute, Error, Expr, LitStr, Token, parse_quote};

/// The attributes of a type, a member or a label.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) name: Option<String>,
    pub(crate) domain: Option<String>,
    module: Option<String>,
    id: Option<String>,
    /// The value of a member that the supplier's type lacks.
    pub(crate) default: Option<Expr>,
}

impl Attributes {
    /// Parses the attributes of a struct or enum.
    pub(crate) fn of_type(attributes: &[Attribute]) -> Result<Self, Error> {
        Self::read(attributes, &["name", "domain", "module", "id"])
    }

    /// Parses the attributes of a label.
    pub(crate) fn of_label(attributes: &[Attribute]) -> Result<Self, Error> {
        Self::read(attributes, &["name"])
    }

    /// Parses the attributes of a member.
    pub(crate) fn of_member(attributes: &[Attribute]) -> Result<Self, Error> {
        Self::read(attributes, &["name", "default"])
    }

    fn read(attributes: &[Attribute], known: &[&str]) -> Result<Self, Error> {
        let mut read = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("event")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("default") && known.contains(&"default") {
                    let is_said = meta.input.peek(Token![=]);
                    let default = if is_said {
                        meta.value()?.parse()?
                    } else {
                        parse_quote!(::core::default::Default::default())
                    };
                    return match read.default.replace(default) {
                        None => Ok(()),
                        Some(_) => Err(meta.error("it is said twice")),
                    };
                }
                let slot = match meta.path.get_ident().map(ToString::to_string).as_deref() {
                    Some("name") if known.contains(&"name") => &mut read.name,
                    Some("domain") if known.contains(&"domain") => &mut read.domain,
                    Some("module") if known.contains(&"module") => &mut read.module,
                    Some("id") if known.contains(&"id") => &mut read.id,
                    _ => {
                        return Err(
                            meta.error(format!("there is no such attribute here; there are: {}", known.join(", ")))
                        );
                    }
                };
                let value: LitStr = meta.value()?.parse()?;
                if value.value().is_empty() {
                    return Err(Error::new(value.span(), "it is empty"));
                }
                if slot.replace(value.value()).is_some() {
                    return Err(meta.error("it is said twice"));
                }
                Ok(())
            })?;
        }
        Ok(read)
    }

    /// The default repository id of a type of this name.
    pub(crate) fn id(&self, name: &str) -> String {
        match (&self.id, &self.module) {
            (Some(id), _) => id.clone(),
            (None, Some(module)) => format!("IDL:{}/{name}:1.0", module.replace("::", "/")),
            (None, None) => format!("IDL:{name}:1.0"),
        }
    }
}
