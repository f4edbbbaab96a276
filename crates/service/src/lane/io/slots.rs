//! A table of connections addressed by tokens that never reach a successor in the same place.

use core::ops::Range;

/// Identifies an entry of a [`Slots`]. The token of a removed entry finds nothing, even when its place is in use again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token {
    index: u32,
    generation: u32,
}

impl Token {
    /// Bits of a token as a number, 54: ten of an epoll datum are left for kind and protocol. It has 26 for the place, since the limits
    /// allow far fewer entries of anything, and 28 for the generation.
    pub(crate) const BITS: u32 = 54;
    const INDEX_BITS: u32 = 26;
    const INDEX_MASK: u32 = (1 << Self::INDEX_BITS) - 1;
    const GENERATION_MASK: u32 = (1 << (Self::BITS - Self::INDEX_BITS)) - 1;
    /// The token that comes first in order.
    pub(crate) const FIRST: Self = Self { index: 0, generation: 0 };

    /// Place of the entry, which is reused after it.
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }

    pub(crate) const fn to_bits(self) -> u64 {
        ((self.generation as u64) << Self::INDEX_BITS) | self.index as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves are taken apart on purpose")]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        let generation = (bits >> Self::INDEX_BITS) as u32 & Self::GENERATION_MASK;
        Self { index: bits as u32 & Self::INDEX_MASK, generation }
    }
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Table of entries by token.
pub(crate) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Adds an entry made from its own token.
    pub(crate) fn insert(&mut self, value: T) -> Token {
        if let Some(index) = self.free.pop()
            && let Some(place) = self.places.get_mut(index as usize)
        {
            place.value = Some(value);
            return Token { index, generation: place.generation };
        }
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        debug_assert!(index <= Token::INDEX_MASK, "limits bound every table far below this");
        self.places.push(Place { generation: 0, value: Some(value) });
        Token { index, generation: 0 }
    }

    pub(crate) fn get(&self, token: Token) -> Option<&T> {
        self.places.get(token.index as usize).filter(|p| p.generation == token.generation)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.places.get_mut(token.index as usize).filter(|p| p.generation == token.generation)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let place = self.places.get_mut(token.index as usize).filter(|p| p.generation == token.generation)?;
        let value = place.value.take()?;
        place.generation = (place.generation + 1) & Token::GENERATION_MASK;
        self.free.push(token.index);
        Some(value)
    }

    /// Whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// The entries in `places` places from `first` on; `None` if there are no places from there on.
    pub(crate) fn range(&self, first: u32, places: u32) -> Option<impl Iterator<Item = &T>> {
        let places_left = self.places.get(first as usize..).filter(|left| !left.is_empty())?;
        Some(places_left.iter().take(places as usize).filter_map(|place| place.value.as_ref()))
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// The entries in some of the places.
    pub(crate) fn range_mut(&mut self, places: Range<usize>) -> impl Iterator<Item = (Token, &mut T)> {
        let first = u32::try_from(places.start).unwrap_or(u32::MAX);
        let end = places.end.min(self.places.len());
        let range = self.places.get_mut(places.start.min(end)..end).unwrap_or_default();
        let numbered = range.iter_mut().zip(first..);
        numbered
            .filter_map(|(place, index)| Some((Token { index, generation: place.generation }, place.value.as_mut()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        self.places
            .iter()
            .zip(0u32..)
            .filter_map(|(place, index)| Some((Token { index, generation: place.generation }, place.value.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        self.places
            .iter_mut()
            .zip(0u32..)
            .filter_map(|(place, index)| Some((Token { index, generation: place.generation }, place.value.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_reaches_the_successor_in_its_place() {
        let mut slots = Slots::new();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_ne!(first, second);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get(second), Some(&'b'));
        assert_eq!(slots.iter().count(), 1);
    }

    #[test]
    fn a_chunk_has_the_entries_of_its_places() {
        let mut slots = Slots::new();
        let tokens: Vec<Token> = (0..6).map(|number| slots.insert(number)).collect();
        slots.remove(tokens[3]);
        let range =
            |slots: &mut Slots<i32>, places| slots.range_mut(places).map(|(token, _)| token).collect::<Vec<_>>();
        assert_eq!(range(&mut slots, 2..5), [tokens[2], tokens[4]]);
        assert_eq!(range(&mut slots, 4..100), [tokens[4], tokens[5]]);
        assert!(range(&mut slots, 50..100).is_empty() && slots.places() == 6);
    }

    #[test]
    fn tokens_survive_being_packed_into_an_epoll_datum() {
        let token = Token { index: Token::INDEX_MASK, generation: Token::GENERATION_MASK };
        assert_eq!(Token::from_bits(token.to_bits() | u64::MAX << Token::BITS), token);
    }
}
