//! A value in eight bytes: a tag and sixty bits.

/// What a [`Word`] says.
///
/// A scalar that does not fit into the word is the position of its own opcode in the arena's
/// bytes: it is decoded again where it is needed and costs nothing until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    None,
    Bool(bool),
    /// An integer of at most sixty bits.
    Int(i64),
    /// A tuple of two integers of thirty bits, such as a pool id.
    Pair(u32, u32),
    /// Where a longer integer stands.
    BigInt(usize),
    /// Where a float stands.
    Float(usize),
    /// Where a text stands.
    Text(usize),
    /// Where bytes stand.
    Bytes(usize),
    /// A container.
    Node(u32),
}

/// An [`Item`], packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word(u64);

const TAG_BITS: u32 = 4;
const HALF_BITS: u32 = 30;

const NONE: u64 = 0;
const BOOL: u64 = 1;
const INT: u64 = 2;
const PAIR: u64 = 3;
const BIG_INT: u64 = 4;
const FLOAT: u64 = 5;
const TEXT: u64 = 6;
const BYTES: u64 = 7;
const NODE: u64 = 8;

impl Word {
    /// No item packs to this: an empty place of the memo.
    pub const EMPTY: Self = Self(u64::MAX);

    pub const NONE: Self = Self(NONE);

    pub fn bool(value: bool) -> Self {
        Self::tagged(BOOL, value.into())
    }

    /// `None` when the integer needs more than sixty bits.
    pub fn int(value: i64) -> Option<Self> {
        let word = Self((value << TAG_BITS) as u64 | INT);
        (word.0 as i64 >> TAG_BITS == value).then_some(word)
    }

    /// `None` when a half is negative or needs more than thirty bits.
    pub fn pair(first: i64, second: i64) -> Option<Self> {
        let halves = 0..1 << HALF_BITS;
        (halves.contains(&first) && halves.contains(&second))
            .then(|| Self::tagged(PAIR, (first as u64) << HALF_BITS | second as u64))
    }

    pub fn big_int(position: usize) -> Self {
        Self::tagged(BIG_INT, position as u64)
    }

    pub fn float(position: usize) -> Self {
        Self::tagged(FLOAT, position as u64)
    }

    pub fn text(position: usize) -> Self {
        Self::tagged(TEXT, position as u64)
    }

    pub fn bytes(position: usize) -> Self {
        Self::tagged(BYTES, position as u64)
    }

    pub fn node(id: u32) -> Self {
        Self::tagged(NODE, id.into())
    }

    fn tagged(tag: u64, payload: u64) -> Self {
        Self(payload << TAG_BITS | tag)
    }

    pub fn item(self) -> Item {
        let payload = self.0 >> TAG_BITS;
        match self.0 & ((1 << TAG_BITS) - 1) {
            BOOL => Item::Bool(payload != 0),
            INT => Item::Int(self.0 as i64 >> TAG_BITS),
            PAIR => Item::Pair((payload >> HALF_BITS) as u32, (payload & ((1 << HALF_BITS) - 1)) as u32),
            BIG_INT => Item::BigInt(payload as usize),
            FLOAT => Item::Float(payload as usize),
            TEXT => Item::Text(payload as usize),
            BYTES => Item::Bytes(payload as usize),
            NODE => Item::Node(payload as u32),
            _ => Item::None,
        }
    }

    /// A number by which words of one arena differ, for hashing.
    pub fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_survives_its_word() {
        let far = (1 << 40) + 7;
        assert_eq!(Word::NONE.item(), Item::None);
        assert_eq!(Word::bool(true).item(), Item::Bool(true));
        assert_eq!(Word::bool(false).item(), Item::Bool(false));
        assert_eq!(Word::big_int(far).item(), Item::BigInt(far));
        assert_eq!(Word::float(far).item(), Item::Float(far));
        assert_eq!(Word::text(far).item(), Item::Text(far));
        assert_eq!(Word::bytes(far).item(), Item::Bytes(far));
        assert_eq!(Word::node(u32::MAX).item(), Item::Node(u32::MAX));
    }

    #[test]
    fn integers_of_sixty_bits_stand_in_the_word() {
        for value in [0, 1, -1, (1 << 59) - 1, -(1 << 59)] {
            assert_eq!(Word::int(value).map(Word::item), Some(Item::Int(value)));
        }
        for value in [1 << 59, -(1 << 59) - 1, i64::MAX, i64::MIN] {
            assert_eq!(Word::int(value), None);
        }
    }

    #[test]
    fn pairs_of_thirty_bits_stand_in_the_word() {
        let most = (1 << 30) - 1;
        assert_eq!(Word::pair(most, 3).map(Word::item), Some(Item::Pair(most as u32, 3)));
        assert_eq!(Word::pair(most + 1, 0), None);
        assert_eq!(Word::pair(0, -1), None);
    }
}
