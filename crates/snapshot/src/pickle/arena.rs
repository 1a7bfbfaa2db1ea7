//! Where the values of a pickle live: bytes, one array of items, one array of containers.

use super::word::{Item, Word};
use crate::stacks::{FrameId, StackId};

/// What a container is, or what it has been folded into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    Tuple,
    /// Items are key, value, key, value, ….
    Dict,
    /// A trace entry: a row of the folder's.
    Row(u32),
    /// A frame dict.
    Frame(FrameId),
    /// A list of frame dicts.
    Stack(StackId),
}

/// A container: a range of the arena's items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    start: u32,
    len: u32,
    cap: u32,
    /// `Kind` without its payload, which stands in `start`.
    tag: Tag,
    /// Another value was made from this one, so it must not change any more.
    used: bool,
    /// Counted among the live ones of a region.
    live: bool,
    /// It looked like something to fold, but was not.
    refused: bool,
}

#[derive(Clone, Copy, Debug)]
enum Tag {
    List,
    Tuple,
    Dict,
    Row,
    Frame,
    Stack,
}

/// What was made since a mark, so that it can be thrown away when nothing of it is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Region {
    /// Length of the items at the mark.
    items: u32,
    /// Number of containers at the mark.
    nodes: u32,
    /// Containers made since then whose items are still needed.
    live: u32,
}

/// All values of one pickle or JSON text.
pub(crate) struct Arena<'a> {
    input: &'a [u8],
    /// Scalars that do not stand in the input as they are: positions from `input.len()` on.
    scrap: Vec<u8>,
    items: Vec<Word>,
    nodes: Vec<Node>,
    region: Region,
    /// Items below this are needed by containers older than the region they stand in.
    pinned: u32,
}

/// The arena has a container or an item more than it can number.
#[derive(Debug)]
pub(crate) struct Full;

/// A container that another value was made from cannot change.
#[derive(Debug)]
pub(crate) enum ExtendError {
    Used,
    Full,
}

impl<'a> Arena<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self { input, scrap: Vec::new(), items: Vec::new(), nodes: Vec::new(), region: Region::default(), pinned: 0 }
    }

    /// Bytes held besides the input.
    pub fn memory(&self) -> usize {
        self.scrap.capacity() + self.items.capacity() * size_of::<Word>() + self.nodes.capacity() * size_of::<Node>()
    }

    // Containers.

    pub fn new_node(&mut self, kind: Kind) -> Result<u32, Full> {
        let id = u32::try_from(self.nodes.len()).map_err(|_| Full)?;
        self.nodes.push(Node { start: 0, len: 0, cap: 0, tag: Tag::List, used: false, live: false, refused: false });
        self.set_kind(id, kind);
        Ok(id)
    }

    pub fn kind(&self, id: u32) -> Kind {
        let node = self.nodes[id as usize];
        match node.tag {
            Tag::List => Kind::List,
            Tag::Tuple => Kind::Tuple,
            Tag::Dict => Kind::Dict,
            Tag::Row => Kind::Row(node.start),
            Tag::Frame => Kind::Frame(FrameId(node.start)),
            Tag::Stack => Kind::Stack(StackId::from_row(node.start)),
        }
    }

    fn set_kind(&mut self, id: u32, kind: Kind) {
        let node = &mut self.nodes[id as usize];
        (node.tag, node.start) = match kind {
            Kind::List => (Tag::List, node.start),
            Kind::Tuple => (Tag::Tuple, node.start),
            Kind::Dict => (Tag::Dict, node.start),
            Kind::Row(row) => (Tag::Row, row),
            Kind::Frame(frame) => (Tag::Frame, frame.0),
            Kind::Stack(stack) => (Tag::Stack, stack.index() as u32),
        };
    }

    /// The items of a list, tuple or dict; none of what has been folded.
    pub fn items(&self, id: u32) -> &[Word] {
        let node = self.nodes[id as usize];
        match node.tag {
            Tag::List | Tag::Tuple | Tag::Dict => &self.items[node.start as usize..(node.start + node.len) as usize],
            Tag::Row | Tag::Frame | Tag::Stack => &[],
        }
    }

    pub fn is_empty(&self, id: u32) -> bool {
        self.nodes[id as usize].len == 0
    }

    /// Says that another value was made from this container.
    pub fn mark_used(&mut self, id: u32) {
        self.nodes[id as usize].used = true;
    }

    pub fn is_used(&self, id: u32) -> bool {
        self.nodes[id as usize].used
    }

    /// Remembers that this container cannot be folded, so that it is not tried for each of the
    /// places that share it.
    pub fn refuse(&mut self, id: u32) {
        self.nodes[id as usize].refused = true;
    }

    pub fn is_refused(&self, id: u32) -> bool {
        self.nodes[id as usize].refused
    }

    /// Replaces a container's items by what was made from them.
    pub fn fold(&mut self, id: u32, kind: Kind) {
        let node = &mut self.nodes[id as usize];
        // One that is older than the region was counted in a region further out: there it stays.
        if node.live && id >= self.region.nodes {
            self.region.live -= 1;
        }
        node.live = false;
        node.len = 0;
        self.set_kind(id, kind);
        self.mark_used(id);
    }

    /// Adds items at the end of a container.
    pub fn extend(&mut self, id: u32, words: &[Word]) -> Result<(), ExtendError> {
        let node = self.nodes[id as usize];
        if node.used {
            return Err(ExtendError::Used);
        }
        if words.is_empty() {
            return Ok(());
        }
        let len = node.len as usize + words.len();
        let tail = self.items.len();
        let end = (node.start + node.len) as usize;
        // The room that the worst case below takes must be numbered in 32 bits.
        if u32::try_from(tail + 2 * len).is_err() {
            return Err(ExtendError::Full);
        }
        let mut grown = node;
        grown.len = len as u32;
        if node.len == 0 {
            grown.start = tail as u32;
            grown.cap = grown.len;
            self.items.extend_from_slice(words);
        } else if end == tail {
            grown.cap = grown.len;
            self.items.extend_from_slice(words);
        } else if len <= node.cap as usize {
            self.items[end..end + words.len()].copy_from_slice(words);
        } else {
            // Moved to the end with as much room again, so that moving stays cheap in total.
            grown.start = tail as u32;
            grown.cap = 2 * grown.len;
            self.items.extend_from_within(node.start as usize..end);
            self.items.extend_from_slice(words);
            self.items.resize(tail + 2 * len, Word::NONE);
        }
        if id < self.region.nodes {
            self.pinned = self.pinned.max(grown.start + grown.cap);
        } else if node.len == 0 {
            self.region.live += 1;
            grown.live = true;
        }
        self.nodes[id as usize] = grown;
        Ok(())
    }

    // Regions.

    /// Begins a region; returns the one around it.
    pub fn enter(&mut self) -> Region {
        let inner = Region { items: self.items.len() as u32, nodes: self.nodes.len() as u32, live: 0 };
        std::mem::replace(&mut self.region, inner)
    }

    /// Ends the region and throws its items away when all of its containers have been folded.
    pub fn leave(&mut self, outer: Region) {
        let inner = std::mem::replace(&mut self.region, outer);
        if inner.live == 0 {
            self.items.truncate(inner.items.max(self.pinned) as usize);
        }
        self.region.live += inner.live;
    }

    // Scalars.

    fn at(&self, position: usize) -> &[u8] {
        match position.checked_sub(self.input.len()) {
            None => &self.input[position..],
            Some(position) => self.scrap.get(position..).unwrap_or_default(),
        }
    }

    /// Keeps a text that does not stand in the input as it is.
    pub fn keep_text(&mut self, text: &[u8]) -> Word {
        let position = self.input.len() + self.scrap.len();
        self.scrap.push(0x8d);
        self.scrap.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.scrap.extend_from_slice(text);
        Word::text(position)
    }

    /// Keeps a float that does not stand in the input as it is.
    pub fn keep_float(&mut self, value: f64) -> Word {
        let position = self.input.len() + self.scrap.len();
        self.scrap.push(b'G');
        self.scrap.extend_from_slice(&value.to_be_bytes());
        Word::float(position)
    }

    /// Keeps an integer, in the word or beside the input.
    pub fn keep_int(&mut self, value: i128) -> Option<Word> {
        if let Some(word) = i64::try_from(value).ok().and_then(Word::int) {
            return Some(word);
        }
        if value < i64::MIN.into() || value > u64::MAX.into() {
            return None;
        }
        let position = self.input.len() + self.scrap.len();
        self.scrap.extend_from_slice(&[0x8a, 9]);
        self.scrap.extend_from_slice(&value.to_le_bytes()[..9]);
        Some(Word::big_int(position))
    }

    /// The bytes of a text, which were valid UTF-8 when it was read.
    pub fn text_bytes(&self, position: usize) -> &[u8] {
        counted(self.at(position))
    }

    pub fn text(&self, position: usize) -> &str {
        std::str::from_utf8(self.text_bytes(position)).unwrap_or_default()
    }

    pub fn bytes(&self, position: usize) -> &[u8] {
        counted(self.at(position))
    }

    pub fn float(&self, position: usize) -> f64 {
        let bytes = self.at(position).get(1..9);
        f64::from_be_bytes(bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default())
    }

    pub fn big_int(&self, position: usize) -> i128 {
        let bytes = self.at(position);
        let len = bytes.get(1).copied().unwrap_or_default() as usize;
        long(bytes.get(2..2 + len).unwrap_or_default()).unwrap_or_default()
    }

    /// The integer that a word holds, if it is one.
    pub fn int(&self, word: Word) -> Option<i128> {
        match word.item() {
            Item::Int(value) => Some(value.into()),
            Item::BigInt(position) => Some(self.big_int(position)),
            _ => None,
        }
    }
}

/// The argument of an opcode that begins with its length.
fn counted(at: &[u8]) -> &[u8] {
    let Some((&opcode, rest)) = at.split_first() else {
        return &[];
    };
    let width = match opcode {
        0x8c | b'U' | b'C' => 1,
        b'X' | b'T' | b'B' => 4,
        _ => 8,
    };
    let mut len = [0; 8];
    let Some(prefix) = rest.get(..width) else {
        return &[];
    };
    len[..width].copy_from_slice(prefix);
    rest[width..].get(..u64::from_le_bytes(len) as usize).unwrap_or_default()
}

/// The two's complement of LONG1 and LONG4, little end first; `None` when it needs more than
/// `i64::MIN..=u64::MAX`.
pub(crate) fn long(bytes: &[u8]) -> Option<i128> {
    let sign = match bytes.last() {
        Some(high) if high & 0x80 != 0 => 0xff,
        _ => 0,
    };
    let mut wide = [sign; 16];
    let (low, high) = bytes.split_at(bytes.len().min(16));
    wide[..low.len()].copy_from_slice(low);
    let value = i128::from_le_bytes(wide);
    let fits = high.iter().all(|&byte| byte == sign) && (i64::MIN.into()..=u64::MAX.into()).contains(&value);
    // Above sixteen bytes the sign must be that of the sixteenth.
    (fits && (high.is_empty() || (value < 0) == (sign == 0xff))).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c73_integers_of_nine_bytes_and_negative_ones_are_exact() {
        assert_eq!(long(&[0, 0, 0, 0, 0, 0x80, 0xff, 0xff, 0]), Some(0xffff_8000_0000_0000));
        assert_eq!(long(&[0xff]), Some(-1));
        assert_eq!(long(&[]), Some(0));
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80]), Some(i64::MIN.into()));
        assert_eq!(long(&[0xff; 40]), Some(-1));
        assert_eq!(long(&[0; 40]), Some(0));
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0, 1]), None);
        assert_eq!(long(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff]), None);
        let mut far = [0; 40];
        far[39] = 1;
        assert_eq!(long(&far), None);
    }

    #[test]
    fn a_list_that_grows_between_others_keeps_its_items() {
        let mut arena = Arena::new(&[]);
        let grows = arena.new_node(Kind::List).unwrap();
        let mut expected = Vec::new();
        for value in 0..100 {
            let word = Word::int(value).unwrap();
            arena.extend(grows, &[word]).unwrap();
            expected.push(word);
            let other = arena.new_node(Kind::List).unwrap();
            arena.extend(other, &[word]).unwrap();
            assert_eq!(arena.items(other), [word]);
        }
        assert_eq!(arena.items(grows), expected);
        assert!(arena.items.len() < 600, "moving must stay cheap in total");
    }

    #[test]
    fn a_region_of_folded_containers_gives_its_items_back() {
        let mut arena = Arena::new(&[]);
        let outer = arena.enter();
        let list = arena.new_node(Kind::List).unwrap();
        arena.extend(list, &[Word::NONE; 8]).unwrap();
        arena.fold(list, Kind::Row(3));
        arena.leave(outer);
        assert_eq!(arena.items.len(), 0);
        assert_eq!(arena.kind(list), Kind::Row(3));
    }

    #[test]
    fn a_region_keeps_what_an_older_container_put_there() {
        let mut arena = Arena::new(&[]);
        let old = arena.new_node(Kind::List).unwrap();
        let outer = arena.enter();
        arena.extend(old, &[Word::bool(true)]).unwrap();
        arena.leave(outer);
        assert_eq!(arena.items(old), [Word::bool(true)]);
    }

    #[test]
    fn a_container_filled_in_an_inner_region_can_be_folded_further_out() {
        let mut arena = Arena::new(&[]);
        let first = arena.enter();
        let list = arena.new_node(Kind::List).unwrap();
        let second = arena.enter();
        arena.extend(list, &[Word::NONE]).unwrap();
        arena.leave(second);
        arena.fold(list, Kind::Row(0));
        arena.leave(first);
        assert_eq!(arena.kind(list), Kind::Row(0));
    }

    #[test]
    fn a_region_keeps_a_container_that_is_needed() {
        let mut arena = Arena::new(&[]);
        let outer = arena.enter();
        let folded = arena.new_node(Kind::List).unwrap();
        arena.extend(folded, &[Word::NONE]).unwrap();
        let kept = arena.new_node(Kind::List).unwrap();
        arena.extend(kept, &[Word::bool(true)]).unwrap();
        arena.fold(folded, Kind::Row(0));
        arena.leave(outer);
        assert_eq!(arena.items(kept), [Word::bool(true)]);
    }
}
