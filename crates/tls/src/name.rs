//! Names in certificates.

use core::fmt::Write;
use std::net::IpAddr;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name};

/// The names in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CertificateNames {
    /// The subject's distinguished name by RFC 4514, the most specific part first: `CN=plant 7,O=Example`. Empty if it has none.
    pub subject: String,
    /// Its alternative names, each with its kind: `DNS:plant7.example`, `IP:192.0.2.7`, `URI:urn:plant:7`, `email:plant7@example.com`.
    pub sans: Vec<String>,
}

impl CertificateNames {
    /// The names in a certificate, if it can be read.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = distinguished(certificate.subject());
        let names = certificate.subject_alternative_name().ok().flatten();
        let sans = names.iter().flat_map(|names| &names.value.general_names).filter_map(alternative).collect();
        Some(Self { subject, sans })
    }
}

/// Whether a certificate is for a host, a name or an address, as clients check it.
pub(crate) fn is_for(certificate: &CertificateDer<'_>, host: &str) -> bool {
    match (ParsedCertificate::try_from(certificate), ServerName::try_from(host)) {
        (Ok(certificate), Ok(host)) => verify_server_name(&certificate, &host).is_ok(),
        _ => false,
    }
}

/// Formats a name by RFC 4514: parts from the last to the first, special characters escaped, so that no value looks like two.
fn distinguished(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    let parts: Vec<_> = name.iter().collect();
    for part in parts.iter().rev() {
        if !text.is_empty() {
            text.push(',');
        }
        for (number, attribute) in part.iter().enumerate() {
            if number > 0 {
                text.push('+');
            }
            match oid2abbrev(attribute.attr_type(), oid_registry()) {
                Ok(short) => text.push_str(short),
                Err(_) => text.push_str(&attribute.attr_type().to_id_string()),
            }
            text.push('=');
            match attribute.as_str() {
                Ok(value) => escape(value, &mut text),
                // 2.4: what is no text is its octets.
                Err(_) => {
                    text.push('#');
                    attribute.as_slice().iter().for_each(|octet| _ = write!(text, "{octet:02x}"));
                }
            }
        }
    }
    text
}

fn escape(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (at, character) in value.chars().enumerate() {
        match character {
            ' ' if at == 0 || at == last => text.push_str("\\ "),
            '#' if at == 0 => text.push_str("\\#"),
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            control if control.is_control() => {
                let mut octets = [0; 4];
                control.encode_utf8(&mut octets).bytes().for_each(|octet| _ = write!(text, "\\{octet:02x}"));
            }
            other => text.push(other),
        }
    }
}

fn alternative(name: &GeneralName<'_>) -> Option<String> {
    Some(match name {
        GeneralName::DNSName(host) => format!("DNS:{host}"),
        GeneralName::RFC822Name(address) => format!("email:{address}"),
        GeneralName::URI(uri) => format!("URI:{uri}"),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from).ok();
            let v6 = <[u8; 16]>::try_from(*octets).map(IpAddr::from).ok();
            format!("IP:{}", v4.or(v6)?)
        }
        _ => return None,
    })
}
