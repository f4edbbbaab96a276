//! Typed calls: the operations of an interface, declared as in IDL, and the layout of their arguments and results in CDR.

use crate::{InvokeError, ObjectRef};
use giop::cdr::{ReadError, Reader, Writer};
use giop::ior::Ior;
use giop::typecode::{TypeCode, Work};
use giop::value::{AnyValue, WriteError};

/// Limits of steps and depth for reading one event's Anys: far above what programs send, far below what occupies a thread.
const WORK_STEPS: u32 = 16 * 1024 * 1024;
const WORK_DEPTH: u32 = 128;

pub(crate) fn work() -> Work {
    Work::new(WORK_STEPS, WORK_DEPTH)
}

/// A value of IDL that can be written into a message.
pub trait Marshal {
    /// Writes it.
    ///
    /// # Errors
    /// If a value does not fit the type it is given with.
    fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError>;
}

/// A value of IDL that can be read from a message.
pub trait Unmarshal: Sized {
    /// Octets of the shortest value.
    const BYTES_MIN: usize;

    /// Reads one.
    ///
    /// # Errors
    /// If the bytes are not one, or ask for more work than is granted.
    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError>;

    /// Reads a value with the work limit of one event.
    ///
    /// # Errors
    /// The same as of [`unmarshal`](Self::unmarshal).
    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        Self::unmarshal(reader, &mut work())
    }
}

/// Types with one method each in reader and writer.
macro_rules! primitives {
    ($($type:ty: $bytes_min:literal, $read:ident, $write:ident;)+) => {$(
        impl Marshal for $type {
            fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
                writer.$write(*self);
                Ok(())
            }
        }

        impl Unmarshal for $type {
            const BYTES_MIN: usize = $bytes_min;

            fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
                reader.$read()
            }
        }
    )+};
}

primitives! {
    bool: 1, bool, bool;
    u8: 1, u8, u8;
    i16: 2, i16, i16;
    u16: 2, u16, u16;
    i32: 4, i32, i32;
    u32: 4, u32, u32;
    u64: 8, u64, u64;
    f64: 8, f64, f64;
}

/// Types with methods of their own.
macro_rules! written_by {
    ($($type:ty: |$self:ident, $writer:ident| $write:expr;)+) => {$(
        impl Marshal for $type {
            fn marshal(&self, $writer: &mut Writer<'_>) -> Result<(), WriteError> {
                let $self = self;
                $write
            }
        }
    )+};
}

written_by! {
    str: |text, writer| { writer.string(text); Ok(()) };
    String: |text, writer| { writer.string(text); Ok(()) };
    AnyValue: |value, writer| value.write(writer);
    Ior: |ior, writer| { ior.write(writer); Ok(()) };
    ObjectRef: |object, writer| object.ior().marshal(writer);
    TypeCode: |type_code, writer| { type_code.write(writer); Ok(()) };
}

macro_rules! read_by {
    ($($type:ty: $bytes_min:literal, |$reader:ident, $work:ident| $read:expr;)+) => {$(
        impl Unmarshal for $type {
            const BYTES_MIN: usize = $bytes_min;

            fn unmarshal($reader: &mut Reader<'_>, $work: &mut Work) -> Result<Self, ReadError> {
                $read
            }
        }
    )+};
}

read_by! {
    (): 0, |_reader, _work| Ok(());
    String: 4, |reader, _work| reader.text();
    AnyValue: 4, |reader, work| Self::read(reader, work);
    Ior: 8, |reader, _work| Self::read(reader);
    TypeCode: 4, |reader, work| Self::read(reader, work);
}

impl<T: Marshal + ?Sized> Marshal for &T {
    fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        (**self).marshal(writer)
    }
}

/// A reference that may be nil.
impl<T: Marshal> Marshal for Option<&T> {
    fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        match self {
            Some(object) => object.marshal(writer),
            None => Ior::nil().marshal(writer),
        }
    }
}

impl<T: Marshal> Marshal for [T] {
    fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        writer.length(self.len());
        self.iter().try_for_each(|element| element.marshal(writer))
    }
}

impl<T: Marshal> Marshal for Vec<T> {
    fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.as_slice().marshal(writer)
    }
}

impl<T: Unmarshal> Unmarshal for Vec<T> {
    const BYTES_MIN: usize = 4;

    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        // Grows as elements are read: their number is the peer's word.
        let mut elements = Self::new();
        for _ in 0..reader.seq_len(T::BYTES_MIN)? {
            elements.push(T::unmarshal(reader, work)?);
        }
        Ok(elements)
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*);)+) => {$(
        impl<$($name: Marshal),*> Marshal for ($($name,)*) {
            fn marshal(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
                $(self.$index.marshal(writer)?;)*
                Ok(())
            }
        }
    )+};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
}

impl Marshal for () {
    fn marshal(&self, _writer: &mut Writer<'_>) -> Result<(), WriteError> {
        Ok(())
    }
}

impl<A: Unmarshal, B: Unmarshal> Unmarshal for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;

    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        Ok((A::unmarshal(reader, work)?, B::unmarshal(reader, work)?))
    }
}

/// Declares structs of IDL, with their fields in the order of the IDL.
#[macro_export]
macro_rules! idl_struct {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $field_vis:vis $field:ident: $type:ty,)*
    })+) => {$(
        $(#[$meta])*
        $vis struct $name {
            $($(#[$doc])* $field_vis $field: $type,)*
        }

        impl $crate::Marshal for $name {
            fn marshal(&self, writer: &mut ::giop::cdr::Writer<'_>) -> Result<(), ::giop::value::WriteError> {
                $($crate::Marshal::marshal(&self.$field, writer)?;)*
                Ok(())
            }
        }

        impl $crate::Unmarshal for $name {
            const BYTES_MIN: usize = 0 $(+ <$type as $crate::Unmarshal>::BYTES_MIN)*;

            fn unmarshal(
                reader: &mut ::giop::cdr::Reader<'_>,
                work: &mut ::giop::typecode::Work,
            ) -> Result<Self, ::giop::cdr::ReadError> {
                Ok(Self { $($field: $crate::Unmarshal::unmarshal(reader, work)?,)* })
            }
        }
    )+};
}

/// Declares an IDL enum.
macro_rules! idl_enum {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $label:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
        }

        impl $name {
            /// All values in the order of the IDL.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The label in the IDL.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }

            /// The number on the wire.
            #[must_use]
            pub const fn to_cdr(self) -> u32 {
                self as u32
            }
        }

        impl $crate::Marshal for $name {
            fn marshal(&self, writer: &mut ::giop::cdr::Writer<'_>) -> Result<(), ::giop::value::WriteError> {
                writer.u32(self.to_cdr());
                Ok(())
            }
        }

        impl $crate::Unmarshal for $name {
            const BYTES_MIN: usize = 4;

            fn unmarshal(
                reader: &mut ::giop::cdr::Reader<'_>,
                _work: &mut ::giop::typecode::Work,
            ) -> Result<Self, ::giop::cdr::ReadError> {
                let value = reader.u32()?;
                let found = usize::try_from(value).ok().and_then(|index| Self::ALL.get(index).copied());
                let what = stringify!($name);
                found.ok_or_else(|| reader.error(::giop::cdr::ReadErrorKind::BadValue { what, value }))
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.label())
            }
        }
    )+};
}
pub(crate) use idl_enum;

/// Makes typed stubs: newtypes around [`ObjectRef`].
macro_rules! stubs {
    ($($(#[$doc:meta])* $name:ident = $id:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name($crate::ObjectRef);

        impl $name {
            /// The interface's repository id.
            pub const REPOSITORY_ID: &'static str = $id;

            /// Wraps an object without asking it.
            #[must_use]
            pub fn unchecked(object: $crate::ObjectRef) -> Self {
                Self(object)
            }

            /// Wraps an object after asking it whether it supports the interface, unless its reference already says
            /// so.
            ///
            /// # Errors
            /// [`InvokeError::WrongType`]($crate::InvokeError::WrongType) if it does not; otherwise what the call met.
            pub fn narrow(object: $crate::ObjectRef) -> Result<Self, $crate::InvokeError> {
                if object.is_a(Self::REPOSITORY_ID)? {
                    Ok(Self(object))
                } else {
                    let found = object.type_id().to_owned();
                    Err($crate::InvokeError::WrongType { wanted: Self::REPOSITORY_ID, found })
                }
            }

            /// The object beneath.
            #[must_use]
            pub fn object(&self) -> &$crate::ObjectRef {
                &self.0
            }
        }

        impl $crate::Marshal for $name {
            fn marshal(&self, writer: &mut ::giop::cdr::Writer<'_>) -> Result<(), ::giop::value::WriteError> {
                $crate::Marshal::marshal(&self.0, writer)
            }
        }
    )+};
}
pub(crate) use stubs;

/// Adds operations to stubs, each as in IDL: `fn operation(arguments) -> [result] raises "exceptions"`.
///
/// A result is a value's type, `reference`, `object Stub`, `optional Stub` for a reference that may be nil, `made Stub` for a new object
/// with its id, or `polled Type` for a value with a flag whether it is valid. `= "name"` is the operation's name if the function has
/// another.
macro_rules! operations {
    ($($name:ident),+: $body:tt) => {
        $($crate::typed::operations!(@interface $name $body);)+
    };
    (@interface $name:ident { $(
        $(#[$doc:meta])*
        fn $operation:ident $(= $wire:literal)? ($($argument:ident: $type:ty),*) $(-> $result:tt)? $(raises $raises:literal)?;
    )* }) => {
        impl $name {$(
            $(#[$doc])*
            ///
            /// # Errors
            #[doc = $crate::typed::operations!(@raises $($raises)?)]
            pub fn $operation(
                &self $(, $argument: $type)*
            ) -> Result<$crate::typed::operations!(@type $($result)?), $crate::InvokeError> {
                let operation = $crate::typed::operations!(@wire $operation $($wire)?);
                $crate::typed::operations!(@call self, operation, &($($argument,)*), $($result)?)
            }
        )*}
    };
    (@raises) => { "See [`InvokeError`](crate::InvokeError)." };
    (@raises $raises:literal) => { $raises };
    (@wire $operation:ident) => { stringify!($operation) };
    (@wire $operation:ident $wire:literal) => { $wire };
    (@type) => { () };
    (@type [reference]) => { $crate::ObjectRef };
    (@type [object $stub:ty]) => { $stub };
    (@type [optional $stub:ty]) => { Option<$stub> };
    (@type [made $stub:ty]) => { ($stub, i32) };
    (@type [polled $value:ty]) => { Option<$value> };
    (@type [$value:ty]) => { $value };
    (@call $self:ident, $operation:ident, $arguments:expr, ) => { $self.object().request::<()>($operation, $arguments) };
    (@call $self:ident, $operation:ident, $arguments:expr, [reference]) => {
        $self.object().request($operation, $arguments).map(|ior| $self.object().orb().object(ior))
    };
    (@call $self:ident, $operation:ident, $arguments:expr, [object $stub:ty]) => {{
        let ior = $self.object().request($operation, $arguments)?;
        Ok(<$stub>::unchecked($self.object().orb().object(ior)))
    }};
    (@call $self:ident, $operation:ident, $arguments:expr, [optional $stub:ty]) => {{
        let ior: ::giop::ior::Ior = $self.object().request($operation, $arguments)?;
        Ok((!ior.is_nil()).then(|| <$stub>::unchecked($self.object().orb().object(ior))))
    }};
    (@call $self:ident, $operation:ident, $arguments:expr, [made $stub:ty]) => {{
        let (ior, id) = $self.object().request($operation, $arguments)?;
        Ok((<$stub>::unchecked($self.object().orb().object(ior)), id))
    }};
    (@call $self:ident, $operation:ident, $arguments:expr, [polled $value:ty]) => {{
        let (value, is_one): ($value, bool) = $self.object().request($operation, $arguments)?;
        Ok(is_one.then_some(value))
    }};
    (@call $self:ident, $operation:ident, $arguments:expr, [$value:ty]) => { $self.object().request($operation, $arguments) };
}
pub(crate) use operations;

impl ObjectRef {
    /// Calls an operation with a tuple of arguments, and reads its result: the return value, or a tuple of that and the out parameters.
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn request<T: Unmarshal>(&self, operation: &str, arguments: &impl Marshal) -> Result<T, InvokeError> {
        self.invoke(operation, |w| arguments.marshal(w))?.read(operation, T::read)
    }
}
