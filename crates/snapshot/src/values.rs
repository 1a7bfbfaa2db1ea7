//! Plain values: what unknown keys hold.

use std::sync::Arc;

use crate::index::Index;

/// A value of a [`Values`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// Position in the table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One plain value; the members of a container are ids of the same table.
#[derive(Clone, Copy, Debug)]
pub enum Plain<'a> {
    /// Python's None, JSON's null.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer, from `i64::MIN` to `u64::MAX`.
    Int(i128),
    /// A float.
    Float(f64),
    /// A text.
    Str(&'a str),
    /// Python's bytes and bytearray.
    Bytes(&'a [u8]),
    /// A list.
    List(&'a [ValueId]),
    /// A tuple.
    Tuple(&'a [ValueId]),
    /// A dict: key, value, key, value, …; each key once.
    Dict(&'a [ValueId]),
}

const MOST_JSON_MEMBERS: usize = 1000;
const MOST_JSON_LEVELS: usize = 16;

/// Plain values, each held once (dicts are equal in any order, as in Python): containers are ranges of one array, equal values have equal ids.
///
/// A value's members come before it, so a table never holds a cycle, and a value that would unfold
/// to 2⁴⁰ members takes as much room as it has distinct ones.
///
/// ```
/// use millpond_snapshot::{Plain, Values};
///
/// let mut values = Values::default();
/// let one = values.int(1);
/// let list = values.list(&[one, one]);
/// assert_eq!(values.list(&[one, one]), list);
/// assert!(matches!(values.get(list), Plain::List([a, b]) if a == b));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Values {
    nodes: Vec<Node>,
    items: Vec<ValueId>,
    texts: Vec<Arc<str>>,
    bytes: Vec<Arc<[u8]>>,
    index: Index,
    /// Lengths of all texts and bytes.
    text_bytes: usize,
}

#[derive(Clone, Debug)]
enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    BigInt(u64),
    /// As bits, so that NaN equals itself.
    Float(u64),
    Str(u32),
    Bytes(u32),
    List(Range),
    Tuple(Range),
    /// A tuple that cannot be a dict's key, since one of its members cannot.
    OpenTuple(Range),
    Dict(Range),
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u32,
    len: u32,
}

impl Values {
    /// None.
    pub fn none(&mut self) -> ValueId {
        self.scalar(Plain::None)
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) -> ValueId {
        self.scalar(Plain::Bool(value))
    }

    /// An integer; one outside `i64::MIN..=u64::MAX` is held to that range.
    pub fn int(&mut self, value: impl Into<i128>) -> ValueId {
        let value = value.into().clamp(i64::MIN.into(), u64::MAX.into());
        self.scalar(Plain::Int(value))
    }

    /// A float.
    pub fn float(&mut self, value: f64) -> ValueId {
        self.scalar(Plain::Float(value))
    }

    /// A text.
    pub fn str(&mut self, value: &str) -> ValueId {
        self.scalar(Plain::Str(value))
    }

    /// Bytes.
    pub fn bytes(&mut self, value: &[u8]) -> ValueId {
        self.scalar(Plain::Bytes(value))
    }

    /// A list of values of this table.
    pub fn list(&mut self, items: &[ValueId]) -> ValueId {
        self.container(Plain::List(items), items)
    }

    /// A tuple of values of this table.
    pub fn tuple(&mut self, items: &[ValueId]) -> ValueId {
        self.container(Plain::Tuple(items), items)
    }

    /// A dict of values of this table: key, value, key, value, …. A key that comes twice keeps its
    /// first place and its last value, as in Python.
    pub fn dict(&mut self, pairs: &[ValueId]) -> ValueId {
        let pairs = last_value_wins(pairs);
        self.container(Plain::Dict(&pairs), &pairs)
    }

    /// The value with this id; None for an id of another table.
    pub fn get(&self, id: ValueId) -> Plain<'_> {
        match self.nodes.get(id.index()) {
            None | Some(Node::None) => Plain::None,
            Some(Node::Bool(value)) => Plain::Bool(*value),
            Some(Node::Int(value)) => Plain::Int((*value).into()),
            Some(Node::BigInt(value)) => Plain::Int((*value).into()),
            Some(Node::Float(bits)) => Plain::Float(f64::from_bits(*bits)),
            Some(Node::Str(row)) => Plain::Str(&self.texts[*row as usize]),
            Some(Node::Bytes(row)) => Plain::Bytes(&self.bytes[*row as usize]),
            Some(Node::List(range)) => Plain::List(self.members(*range)),
            Some(Node::Tuple(range) | Node::OpenTuple(range)) => Plain::Tuple(self.members(*range)),
            Some(Node::Dict(range)) => Plain::Dict(self.members(*range)),
        }
    }

    /// The text with this id, if it is one.
    pub fn text(&self, id: ValueId) -> Option<&str> {
        match self.get(id) {
            Plain::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The value as JSON: bytes are lists of numbers, floats that JSON cannot say are null. Shared
    /// parts are written out, so what goes past a thousand members, sixteen levels or a thousand
    /// characters is `…`.
    pub fn to_json(&self, id: ValueId) -> serde_json::Value {
        let mut left = MOST_JSON_MEMBERS;
        self.json(id, MOST_JSON_LEVELS, &mut left)
    }

    /// Recursion goes no deeper than `levels`.
    fn json(&self, id: ValueId, levels: usize, left: &mut usize) -> serde_json::Value {
        let mut member = |id: &ValueId| match (levels.checked_sub(1), left.checked_sub(1)) {
            (Some(levels), Some(rest)) => {
                *left = rest;
                self.json(*id, levels, left)
            }
            _ => "…".into(),
        };
        match self.get(id) {
            Plain::None => serde_json::Value::Null,
            Plain::Bool(value) => value.into(),
            Plain::Int(value) => match u64::try_from(value) {
                Ok(value) => value.into(),
                Err(_) => (value as i64).into(),
            },
            Plain::Float(value) => value.into(),
            Plain::Str(text) => shortened(text).into(),
            Plain::Bytes(bytes) => bytes.iter().take(MOST_JSON_MEMBERS).copied().collect(),
            Plain::List(items) | Plain::Tuple(items) => items.iter().take(MOST_JSON_MEMBERS).map(member).collect(),
            Plain::Dict(items) => {
                let pairs = items.chunks_exact(2).take(MOST_JSON_MEMBERS);
                let pairs = pairs.map(|pair| (self.key_text(pair[0]), member(&pair[1])));
                serde_json::Value::Object(pairs.collect())
            }
        }
    }

    /// A dict's key as a text, since JSON has no others.
    pub(crate) fn key_text(&self, id: ValueId) -> String {
        match self.get(id) {
            Plain::None => "None".into(),
            Plain::Bool(value) => value.to_string(),
            Plain::Int(value) => value.to_string(),
            Plain::Float(value) => value.to_string(),
            Plain::Str(text) => shortened(text),
            Plain::Tuple(_) => "(a tuple)".into(),
            Plain::Bytes(_) | Plain::List(_) | Plain::Dict(_) => "…".into(),
        }
    }

    /// How many distinct values there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All values, members before the containers that hold them.
    pub fn iter(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.nodes.len() as u32).map(ValueId)
    }

    /// Whether any value is bytes, which only protocol 5 can say to PyTorch's viewer.
    pub(crate) fn has_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether Python takes this value as a dict's key: texts, numbers, None, and tuples of them.
    pub(crate) fn is_hashable(&self, id: ValueId) -> bool {
        let node = self.nodes.get(id.index());
        !matches!(node, Some(Node::List(_) | Node::OpenTuple(_) | Node::Dict(_) | Node::Bytes(_)))
    }

    /// The id of a value, if the table has it.
    pub(crate) fn find(&self, value: Plain<'_>) -> Option<ValueId> {
        let hash = self.index.hash(Content(value));
        let found = self.index.find(hash, |row| self.is(row, value));
        found.ok().map(ValueId)
    }

    fn scalar(&mut self, value: Plain<'_>) -> ValueId {
        self.intern(value, |values| match value {
            Plain::None => Node::None,
            Plain::Bool(value) => Node::Bool(value),
            Plain::Int(value) => match i64::try_from(value) {
                Ok(value) => Node::Int(value),
                Err(_) => Node::BigInt(value as u64),
            },
            Plain::Float(value) => Node::Float(value.to_bits()),
            Plain::Str(text) => {
                values.text_bytes += text.len() + 24;
                values.texts.push(text.into());
                Node::Str(values.texts.len() as u32 - 1)
            }
            Plain::Bytes(bytes) => {
                values.text_bytes += bytes.len() + 24;
                values.bytes.push(bytes.into());
                Node::Bytes(values.bytes.len() as u32 - 1)
            }
            Plain::List(_) | Plain::Tuple(_) | Plain::Dict(_) => Node::None,
        })
    }

    fn container(&mut self, value: Plain<'_>, items: &[ValueId]) -> ValueId {
        self.intern(value, |values| {
            let range = Range { start: values.items.len() as u32, len: items.len() as u32 };
            values.items.extend_from_slice(items);
            match value {
                Plain::Tuple(_) if items.iter().all(|&item| values.is_hashable(item)) => Node::Tuple(range),
                Plain::Tuple(_) => Node::OpenTuple(range),
                Plain::Dict(_) => Node::Dict(range),
                _ => Node::List(range),
            }
        })
    }

    fn intern(&mut self, value: Plain<'_>, node: impl FnOnce(&mut Self) -> Node) -> ValueId {
        let hash = self.index.hash(Content(value));
        match self.index.find(hash, |row| self.is(row, value)) {
            Ok(row) => ValueId(row),
            Err(slot) => {
                let row = self.nodes.len() as u32;
                let node = node(self);
                self.nodes.push(node);
                self.index.insert(slot, row);
                ValueId(row)
            }
        }
    }

    fn is(&self, row: u32, value: Plain<'_>) -> bool {
        Content(self.get(ValueId(row))) == Content(value)
    }

    fn members(&self, range: Range) -> &[ValueId] {
        &self.items[range.start as usize..(range.start + range.len) as usize]
    }

    /// Bytes this table holds, about.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.items.capacity() * size_of::<ValueId>()
            + (self.texts.capacity() + self.bytes.capacity()) * size_of::<Arc<str>>()
            + self.text_bytes
            + self.index.memory()
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_JSON_MEMBERS) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A value by its content: floats by their bits, containers by the ids of their members, dicts
/// without regard to their order.
struct Content<'a>(Plain<'a>);

impl PartialEq for Content<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Plain::None, Plain::None) => true,
            (Plain::Bool(a), Plain::Bool(b)) => a == b,
            (Plain::Int(a), Plain::Int(b)) => a == b,
            (Plain::Float(a), Plain::Float(b)) => a.to_bits() == b.to_bits(),
            (Plain::Str(a), Plain::Str(b)) => a == b,
            (Plain::Bytes(a), Plain::Bytes(b)) => a == b,
            (Plain::List(a), Plain::List(b)) | (Plain::Tuple(a), Plain::Tuple(b)) => a == b,
            (Plain::Dict(a), Plain::Dict(b)) => a == b || (a.len() == b.len() && by_key(a) == by_key(b)),
            _ => false,
        }
    }
}

impl std::hash::Hash for Content<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(&self.0).hash(state);
        match self.0 {
            Plain::None => {}
            Plain::Bool(value) => value.hash(state),
            Plain::Int(value) => value.hash(state),
            Plain::Float(value) => value.to_bits().hash(state),
            Plain::Str(text) => text.hash(state),
            Plain::Bytes(bytes) => bytes.hash(state),
            Plain::List(items) | Plain::Tuple(items) => items.hash(state),
            Plain::Dict(items) => by_key(items).hash(state),
        }
    }
}

fn by_key(items: &[ValueId]) -> Vec<&[ValueId]> {
    let mut pairs: Vec<&[ValueId]> = items.chunks_exact(2).collect();
    pairs.sort_unstable();
    pairs
}

/// Python's rule for a key that comes twice: its first place, its last value.
pub(crate) fn last_value_wins(pairs: &[ValueId]) -> Vec<ValueId> {
    let mut places = rustc_hash::FxHashMap::default();
    let mut kept = Vec::with_capacity(pairs.len());
    for pair in pairs.chunks_exact(2) {
        match places.entry(pair[0]) {
            std::collections::hash_map::Entry::Occupied(place) => kept[*place.get()] = pair[1],
            std::collections::hash_map::Entry::Vacant(place) => {
                kept.extend_from_slice(pair);
                place.insert(kept.len() - 1);
            }
        }
    }
    kept
}
