//! References to this service's objects, and information from clients' references.

use super::keys::ObjectKey;
use super::table;
use giop::cdr::{CharSet, Version};
use giop::codeset::CodeSetInfo;
use giop::ior::{IiopProfile, Ior, SecureTransport};
use giop::realtime::PriorityModelPolicy;

/// Makes references that lead to this service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct References {
    host: String,
    port: u16,
    chars: CharSet,
    secure: Option<SecureTransport>,
}

impl References {
    /// References with this host, as clients connect to it, this port, and this native narrow code set.
    #[must_use]
    pub fn new(host: &str, port: u16, chars: CharSet) -> Self {
        Self { host: host.into(), port, chars, secure: None }
    }

    /// Adds a second port, for TLS. If the first is 0, the service speaks TLS only.
    #[must_use]
    pub fn with_tls(self, secure: Option<SecureTransport>) -> Self {
        Self { secure, ..self }
    }

    /// A reference to an object of a type. The same object has the same reference, octet for octet, in every run of the service.
    #[must_use]
    pub fn ior(&self, type_id: &str, key: &ObjectKey) -> Ior {
        self.ior_with(type_id, key, None)
    }

    /// A reference to the factory.
    pub(super) fn factory(&self) -> Ior {
        self.ior(table::type_id(table::FACTORY), &ObjectKey::Factory)
    }

    /// A reference as from [`References::ior`], with a policy on the priority of requests.
    pub(super) fn ior_with(&self, type_id: &str, key: &ObjectKey, policy: Option<PriorityModelPolicy>) -> Ior {
        let code_sets = CodeSetInfo::preferring(self.chars).to_component();
        let profile = IiopProfile {
            version: Version::V1_2,
            host: self.host.clone(),
            port: self.port,
            key: key.to_bytes(),
            components: std::iter::once(code_sets)
                .chain(policy.map(PriorityModelPolicy::to_component))
                .chain(self.secure.map(SecureTransport::to_component))
                .collect(),
        };
        Ior::new(type_id, profile)
    }

    /// The key in a reference that leads to this service; `None` for any other reference.
    #[must_use]
    pub fn own_key(&self, reference: &Ior) -> Option<ObjectKey> {
        let profile = reference.iiop()?;
        self.is_here(profile).then(|| ObjectKey::parse(&profile.key)).flatten()
    }

    /// Whether a profile leads to this service, whatever its key.
    #[must_use]
    pub fn is_here(&self, profile: &IiopProfile) -> bool {
        // A service that speaks TLS alone has the port 0, as all such services have.
        let is_at_port = match profile.port {
            0 => {
                self.secure.is_some_and(|here| profile.secure_transport().is_some_and(|there| there.port == here.port))
            }
            port => port == self.port,
        };
        is_at_port && profile.host.eq_ignore_ascii_case(&self.host)
    }
}

/// A client's name in logs and in `Statistics`: host, port and a part of its object's key, all of it printable ASCII. The part is the key's
/// beginning if that is a name, as most ORBs let programs give one; else the key is binary, as with omniORB and others, and its last octets
/// distinguish objects.
pub(super) fn log_name(profile: &IiopProfile) -> String {
    const NAME_BYTES: usize = 12;
    const BINARY_BYTES: usize = 4;
    let key = &profile.key;
    let (first, last) = (key.get(..NAME_BYTES).unwrap_or(key), key.len().saturating_sub(BINARY_BYTES));
    let is_cut = |shown: usize| if key.len() > shown { ".." } else { "" };
    let mut name = format!("{}:{} ", profile.host.escape_default(), profile.port);
    if first.iter().all(|octet| matches!(octet, b' '..=b'~')) {
        name.push_str(&String::from_utf8_lossy(first));
        name.push_str(is_cut(NAME_BYTES));
    } else {
        name.push_str(is_cut(BINARY_BYTES));
        name.extend(key.iter().skip(last).map(|octet| format!("{octet:02x}")));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::ChannelId;

    #[test]
    fn a_reference_carries_the_advertised_address_and_code_sets() {
        let references = References::new("192.0.2.1", 2809, CharSet::Latin1);
        let reference = references.ior("IDL:x:1.0", &ObjectKey::Factory);
        let profile = reference.iiop().unwrap();
        assert_eq!((profile.version, profile.host.as_str(), profile.port), (Version::V1_2, "192.0.2.1", 2809));
        assert_eq!(profile.key, b"NotificationService");
        assert_eq!(profile.code_sets(), Some(CodeSetInfo::campanile()));
        assert_eq!(reference.type_id, "IDL:x:1.0");
    }

    #[test]
    fn only_references_with_the_same_address_are_its_own() {
        let here = References::new("Host.example", 2809, CharSet::Latin1);
        let key = ObjectKey::Channel { channel: ChannelId(3), nonce: 4 };
        assert_eq!(here.own_key(&References::new("host.EXAMPLE", 2809, CharSet::Latin1).ior("", &key)), Some(key));
        assert_eq!(here.own_key(&References::new("host.example", 2810, CharSet::Latin1).ior("", &key)), None);
        assert_eq!(here.own_key(&References::new("other", 2809, CharSet::Latin1).ior("", &key)), None);
        assert_eq!(here.own_key(&Ior::nil()), None);
    }

    #[test]
    fn a_service_that_speaks_tls_alone_knows_its_own_references_by_that_port() {
        let secure = |port| Some(SecureTransport { supports: 0x7e, requires: 0x3e, port });
        let at = |port, tls| References::new("h", port, CharSet::Latin1).with_tls(secure(tls));
        let key = ObjectKey::Factory;
        let here = at(0, 2810);
        assert_eq!(here.own_key(&at(0, 2810).ior("", &key)), Some(ObjectKey::Factory));
        assert_eq!(here.own_key(&at(0, 2811).ior("", &key)), None);
        assert_eq!(here.own_key(&References::new("h", 0, CharSet::Latin1).ior("", &key)), None);
        assert_eq!(at(2809, 2810).own_key(&at(2809, 2811).ior("", &key)), Some(ObjectKey::Factory));
        assert_eq!(here.ior("", &key).iiop().unwrap().secure_transport(), secure(2810));
    }

    /// `campanile info` showed clients of omniORB as `\\xfe\\xd2\\x8a\\x15…`, of which the last character was three of Latin-1's.
    #[test]
    fn log_names_are_short_and_printable_ascii() {
        let mut profile =
            References::new("h\nü", 1, CharSet::Latin1).ior("", &ObjectKey::Factory).iiop().unwrap().clone();
        let mut named = |key: &[u8]| {
            profile.key = key.to_vec();
            log_name(&profile)
        };
        assert_eq!(named(b"NotificationService"), "h\\n\\u{fc}:1 Notification..");
        assert_eq!(named(b"Consumer 1"), "h\\n\\u{fc}:1 Consumer 1");
        assert_eq!(named(b"\xfe\xd2\x8a\x15i\0\0\x30\xd4\0\0\0\0\x07"), "h\\n\\u{fc}:1 ..00000007");
        assert_eq!(named(b"\0a\xff"), "h\\n\\u{fc}:1 0061ff");
        assert_eq!(named(b""), "h\\n\\u{fc}:1 ");
    }
}
