//! Received types, each analysed once.

use crate::declared::{Declared, NATIVE};
use crate::form::{Payload, split, work};
use crate::projection::{Misfit, Plan};
use giop::cdr::{CharSet, Endian, ReadError, Reader, Writer};
use giop::recode;
use giop::typecode::TypeCode;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum octets of types remembered; beyond that all are forgotten, and analysed anew.
const OCTETS_MAX: usize = 8 * 1024 * 1024;

/// A received type.
pub(crate) struct Came {
    octets: Arc<[u8]>,
    pub(crate) type_code: Arc<TypeCode>,
    /// The plan to itself, for undeclared types; made on first use.
    itself: Option<Result<Plan, Misfit>>,
    /// Plans to the declared types, by index.
    declared: Vec<Option<Option<Plan>>>,
}

/// All received types, by their octets: a list for each encoding in which octets may mean something else.
#[derive(Default)]
pub(crate) struct Types {
    known: [HashMap<Arc<[u8]>, usize>; 6],
    came: Vec<Came>,
    octets: usize,
    /// The last type and its index, since it usually comes again.
    last: Option<(usize, usize)>,
    /// Buffer for the type of members sent separately.
    key: Vec<u8>,
}

/// The list in [`Types::known`] of types composed from separate members.
const TOGETHER: usize = 4;
/// The list of types of values received alone.
#[cfg(feature = "dds")]
const ALONE: usize = 5;

/// A value with its type.
pub(crate) struct Understood<'a> {
    /// Index of the received type.
    pub(crate) which: usize,
    pub(crate) reader: Reader<'a>,
}

impl Types {
    /// Determines an event's type and value. Members sent separately are composed into `value`.
    pub(crate) fn understand<'a>(
        &mut self,
        payload: &Payload<'a>,
        name: &str,
        value: &'a mut Vec<u8>,
    ) -> Result<Understood<'a>, ReadError> {
        match payload {
            Payload::Any(any) => {
                let (octets, reader) = split(any)?;
                let encoding = reader.encoding();
                let place =
                    usize::from(encoding.endian == Endian::Little) | usize::from(encoding.chars == CharSet::Utf8) << 1;
                let which = match self.find(place, octets) {
                    Some(which) => which,
                    None => {
                        let type_code = TypeCode::read(&mut any.reader(), &mut work())?;
                        self.add(place, octets, type_code)
                    }
                };
                Ok(Understood { which, reader })
            }
            Payload::Members(members) => self.together(members, name, value),
        }
    }

    /// Index of a declared type.
    #[cfg(feature = "dds")]
    pub(crate) fn of_declared(&mut self, declared: &Declared) -> usize {
        match self.find(ALONE, declared.octets()) {
            Some(which) => which,
            None => self.add(ALONE, declared.octets(), TypeCode::clone(declared.type_code())),
        }
    }

    fn together<'a>(
        &mut self,
        members: &[(Cow<'_, str>, giop::value::AnyRef<'_>)],
        name: &str,
        value: &'a mut Vec<u8>,
    ) -> Result<Understood<'a>, ReadError> {
        let mut key = core::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(name.as_bytes());
        value.clear();
        let mut writer = Writer::new(value, NATIVE);
        for (member, any) in members {
            let (octets, mut reader) = split(any)?;
            let encoding = reader.encoding();
            key.extend([0, encoding.endian.flag(), u8::from(encoding.chars == CharSet::Utf8)]);
            key.extend_from_slice(member.as_bytes());
            key.push(0);
            key.extend_from_slice(octets);
            recode::copy_value(&mut any.reader(), &mut reader, &mut writer, &mut work())?;
        }
        let which = match self.find(TOGETHER, &key) {
            Some(which) => which,
            None => {
                let mut types = Vec::new();
                for (member, any) in members {
                    types.push((member.as_ref(), TypeCode::read(&mut any.reader(), &mut work())?));
                }
                self.add(TOGETHER, &key, TypeCode::structure("", name, &types))
            }
        };
        self.key = key;
        Ok(Understood { which, reader: Reader::new(value, NATIVE) })
    }

    fn find(&mut self, place: usize, octets: &[u8]) -> Option<usize> {
        if let Some((last_place, which)) = self.last
            && last_place == place
            && self.came.get(which).is_some_and(|came| *came.octets == *octets)
        {
            return Some(which);
        }
        let which = self.known.get(place).and_then(|known| known.get(octets)).copied()?;
        self.last = Some((place, which));
        Some(which)
    }

    fn add(&mut self, place: usize, octets: &[u8], type_code: TypeCode) -> usize {
        if self.octets.saturating_add(octets.len()) > OCTETS_MAX {
            self.known.iter_mut().for_each(HashMap::clear);
            self.came.clear();
            self.octets = 0;
            self.last = None;
        }
        self.octets = self.octets.saturating_add(octets.len());
        let which = self.came.len();
        let octets: Arc<[u8]> = octets.into();
        self.came.push(Came {
            octets: octets.clone(),
            type_code: Arc::new(type_code),
            itself: None,
            declared: Vec::new(),
        });
        if let Some(known) = self.known.get_mut(place) {
            known.insert(octets, which);
        }
        which
    }

    pub(crate) fn type_code(&self, which: usize) -> Arc<TypeCode> {
        self.came.get(which).map(|came| came.type_code.clone()).unwrap_or_default()
    }

    /// The plan of the type to itself.
    pub(crate) fn itself(&mut self, which: usize) -> Option<&Result<Plan, Misfit>> {
        let came = self.came.get_mut(which)?;
        Some(came.itself.get_or_insert_with(|| Plan::same(&came.type_code)))
    }

    /// The plan from the type to the declared one at that index, if possible; the first time, `tell` gets the reason why not.
    pub(crate) fn for_declared(
        &mut self,
        which: usize,
        place: usize,
        target: &Declared,
        tell: impl FnOnce(&TypeCode, Misfit),
    ) -> Option<&Plan> {
        let came = self.came.get_mut(which)?;
        if came.declared.len() <= place {
            came.declared.resize_with(place + 1, || None);
        }
        let Came { type_code, declared, .. } = came;
        let slot = declared.get_mut(place)?;
        let plan = slot.get_or_insert_with(|| match target.plan_from(type_code) {
            Ok(plan) => Some(plan),
            Err(misfit) => {
                tell(type_code, misfit);
                None
            }
        });
        plan.as_ref()
    }
}
