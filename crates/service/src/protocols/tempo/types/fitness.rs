//! Types that Tempo messages may have: structures with parts of bounded size that devices can write.

use core::fmt;

use giop::typecode::{Kind, TypeCode, TypeRef};

/// Maximum depth of nested structures, sequences and arrays.
const DEPTH_MAX: u32 = 16;
/// Maximum octets of the shortest value.
const OCTETS_MAX: u64 = ::tempo::wire::MESSAGE_MAX as u64;

/// Why no message can have a value of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// The type is no structure.
    NoStruct {
        /// Kind of the type.
        keyword: &'static str,
    },
    /// A member has a kind that messages do not support.
    Kind {
        /// The path of the member.
        path: String,
        /// The kind.
        keyword: &'static str,
    },
    /// Types are nested too deeply, or one contains itself.
    TooDeep,
    /// The shortest value is larger than a message.
    TooLarge,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStruct { keyword } => write!(f, "the last definition has to be a struct, and is of `{keyword}`"),
            Self::Kind { path, keyword } => write!(f, "`{path}` is of `{keyword}`, which messages do not have"),
            Self::TooDeep => write!(f, "types lie within each other {DEPTH_MAX} deep at most"),
            Self::TooLarge => write!(f, "no message has room for a value: it has {OCTETS_MAX} octets at most"),
        }
    }
}

/// Checks a type.
///
/// # Errors
/// No message can have a value of it.
pub(super) fn check(code: &TypeCode) -> Result<(), Unfit> {
    if code.kind() != Kind::Struct {
        return Err(Unfit::NoStruct { keyword: code.kind().keyword() });
    }
    match shortest(code.root(), DEPTH_MAX, code.name())? {
        octets if octets > OCTETS_MAX => Err(Unfit::TooLarge),
        _ => Ok(()),
    }
}

/// Octets of the shortest value, without padding. The work is bounded by the number of parts of the type, and by the maximum depth if it
/// contains itself.
fn shortest(of: TypeRef<'_>, depth: u32, path: &str) -> Result<u64, Unfit> {
    let of = of.resolved();
    if let Some((size, _)) = of.kind().number_layout().filter(|_| of.kind() != Kind::LongDouble) {
        return Ok(u64::try_from(size).unwrap_or(u64::MAX));
    }
    let inner = || depth.checked_sub(1).ok_or(Unfit::TooDeep);
    match (of.kind(), of.content()) {
        (Kind::Boolean | Kind::Octet | Kind::Char, _) => Ok(1),
        (Kind::String, _) => Ok(5),
        (Kind::Struct, _) => {
            let depth = inner()?;
            of.members().try_fold(0_u64, |sum, member| {
                let octets = shortest(member.type_ref(), depth, &format!("{path}.{}", member.name()))?;
                Ok(sum.saturating_add(octets))
            })
        }
        (Kind::Sequence, Some(element)) => shortest(element, inner()?, path).map(|_| 4),
        (Kind::Array, Some(element)) => Ok(shortest(element, inner()?, path)?.saturating_mul(of.length().into())),
        (kind, _) => Err(Unfit::Kind { path: path.to_owned(), keyword: kind.keyword() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(text: &str) -> Result<(), Unfit> {
        check(idl::read(text).expect(text).last().expect(text).code())
    }

    #[test]
    fn a_message_has_what_a_device_can_write() {
        fit("module m { typedef double Speed; enum E { A }; struct S { Speed x[3]; E e; sequence<sequence<string<3>>> s; }; };")
            .unwrap();
        for (text, says) in [
            ("enum E { A };", "the last definition has to be a struct, and is of `enum`"),
            ("struct B { any x; }; struct A { B b; };", "`A.b.x` is of `any`, which messages do not have"),
            ("struct A { sequence<wstring> w; };", "`A.w` is of `wstring`"),
            ("struct A { long double x; };", "`A.x` is of `long double`"),
            ("union U switch (long) { case 1: long x; }; struct A { U u; };", "`A.u` is of `union`"),
            ("struct A { sequence<A> more; };", "16 deep at most"),
            ("struct A { octet x[16777217]; };", "no message has room"),
            ("struct A { double x[4000][4000]; };", "no message has room"),
        ] {
            let error = fit(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let nested =
            |levels: usize| format!("struct A {{ {}float{} x; }};", "sequence<".repeat(levels), ">".repeat(levels));
        fit(&nested(15)).unwrap();
        assert_eq!(fit(&nested(16)), Err(Unfit::TooDeep));
    }
}
