//! Ranges of addresses.

use core::net::IpAddr;
use core::str::FromStr;

/// An address, or all addresses with a common prefix (`10.0.0.0/8`). IPv4 addresses written as IPv6
/// (`::ffff:10.0.0.1`) count as the IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    is_v6: bool,
    /// Bits of the address, left-aligned, with zeros after the prefix.
    bits: u128,
    /// Length of the prefix in bits.
    prefix: u32,
}

/// Bits of an address, left-aligned, and whether it is IPv6.
fn bits_of(address: IpAddr) -> (bool, u128) {
    match address.to_canonical() {
        IpAddr::V4(address) => (false, u128::from(address.to_bits()) << 96),
        IpAddr::V6(address) => (true, address.to_bits()),
    }
}

const fn mask(prefix: u32) -> u128 {
    match prefix {
        0 => 0,
        _ => u128::MAX << (128 - prefix),
    }
}

impl AddressRange {
    /// Whether the range includes an address.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let (is_v6, bits) = bits_of(address);
        is_v6 == self.is_v6 && (bits ^ self.bits) & mask(self.prefix) == 0
    }

    /// Whether the range includes the whole of another.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.is_v6 == other.is_v6 && self.prefix <= other.prefix && (other.bits ^ self.bits) & mask(self.prefix) == 0
    }
}

impl FromStr for AddressRange {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().map_err(drop)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(drop)?;
        // Before it is taken for IPv4: a prefix counts bits of what was written.
        let (written, offset) = match address {
            IpAddr::V4(_) => (32, 0),
            IpAddr::V6(six) => (128, if six.to_ipv4_mapped().is_some() { 96 } else { 0 }),
        };
        let prefix = prefix.unwrap_or(written);
        if prefix > written || prefix < offset {
            return Err(());
        }
        let (is_v6, bits) = bits_of(address);
        let prefix = prefix - offset;
        Ok(Self { is_v6, bits: bits & mask(prefix), prefix })
    }
}

impl core::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (address, all): (IpAddr, u32) = if self.is_v6 {
            (IpAddr::V6(self.bits.into()), 128)
        } else {
            (IpAddr::V4(u32::try_from(self.bits >> 96).unwrap_or_default().into()), 32)
        };
        if self.prefix == all { address.fmt(f) } else { write!(f, "{address}/{}", self.prefix) }
    }
}

/// A list of address ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRanges(Vec<AddressRange>);

impl AddressRanges {
    /// Whether one of the ranges includes an address.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.has(address))
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses ranges.
    ///
    /// # Errors
    /// The first text that is not a range.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, &'t str> {
        let ranges = texts.into_iter().map(|text| text.parse().map_err(|()| text));
        Ok(Self(ranges.collect::<Result<_, _>>()?))
    }
}
