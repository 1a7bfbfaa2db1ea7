//! The pickle machine: a stack of values, marks and a memo. It builds; it never executes.

use super::arena::{Arena, ExtendError, Full, Kind, Region};
use super::error::PickleError;
use super::word::{Item, Word};

/// Makes something smaller of a dict that has just been filled.
pub(crate) trait Fold {
    /// What the dict with these items becomes, or `None` to keep it as it is.
    fn fold(&mut self, arena: &mut Arena<'_>, items: &[Word]) -> Option<Kind>;

    /// Bytes held by what has been folded.
    fn memory(&self) -> usize;
}

/// Keeps every dict as it is.
pub(crate) struct Keep;

impl Fold for Keep {
    fn fold(&mut self, _: &mut Arena<'_>, _: &[Word]) -> Option<Kind> {
        None
    }

    fn memory(&self) -> usize {
        0
    }
}

/// Where the machine stands in its input, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub offset: usize,
    pub opcode: &'static str,
}

struct Mark {
    stack: usize,
    outer: Region,
}

/// The machine, with what it has built so far.
pub(crate) struct Machine<'a, F> {
    pub arena: Arena<'a>,
    pub fold: F,
    stack: Vec<Word>,
    marks: Vec<Mark>,
    memo: Vec<Word>,
    /// A dict's items while they are folded.
    dict: Vec<Word>,
    /// Bytes that all of this may take.
    limit: usize,
}

/// A dict with more items than this is not looked at by [`Fold`].
const MOST_FOLDED_ITEMS: usize = 128;

/// Bytes that reading `input_len` bytes may take besides them: with the input, less than 16 times
/// its size and 64 MiB.
pub(crate) fn memory_limit(input_len: usize) -> usize {
    input_len.saturating_mul(15).saturating_add(56 << 20)
}

impl<'a, F: Fold> Machine<'a, F> {
    pub fn new(input: &'a [u8], fold: F) -> Self {
        Self {
            arena: Arena::new(input),
            fold,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            dict: Vec::new(),
            limit: memory_limit(input.len()),
        }
    }

    /// The value on top, the arena and the folder; the rest of the machine is gone.
    pub fn finish(mut self, at: At) -> Result<(Word, Arena<'a>, F), PickleError> {
        let top = self.pop(at)?;
        Ok((top, self.arena, self.fold))
    }

    // Memory.

    fn memory(&self) -> usize {
        self.arena.memory()
            + self.fold.memory()
            + self.stack.capacity() * size_of::<Word>()
            + self.marks.capacity() * size_of::<Mark>()
            + self.memo.capacity() * size_of::<Word>()
    }

    /// Whether `more` bytes can be taken.
    fn afford(&self, more: usize) -> Result<(), PickleError> {
        if self.memory().saturating_add(more) > self.limit {
            return Err(PickleError::OutOfBounds);
        }
        Ok(())
    }

    // The stack.

    pub fn push(&mut self, word: Word) -> Result<(), PickleError> {
        if self.stack.len() == self.stack.capacity() {
            self.afford(self.stack.capacity() * size_of::<Word>())?;
        }
        self.stack.push(word);
        Ok(())
    }

    /// Values above the last mark.
    fn above_mark(&self) -> usize {
        self.stack.len() - self.marks.last().map_or(0, |mark| mark.stack)
    }

    fn need(&self, at: At, count: usize) -> Result<(), PickleError> {
        if self.above_mark() < count {
            return Err(PickleError::StackUnderflow { offset: at.offset, opcode: at.opcode });
        }
        Ok(())
    }

    pub fn pop(&mut self, at: At) -> Result<Word, PickleError> {
        self.need(at, 1)?;
        self.stack.pop().ok_or(PickleError::StackUnderflow { offset: at.offset, opcode: at.opcode })
    }

    /// POP: takes the mark when nothing is above it, as Python does.
    pub fn pop_value_or_mark(&mut self, at: At) -> Result<(), PickleError> {
        if self.above_mark() == 0 && !self.marks.is_empty() {
            return self.pop_mark(at);
        }
        self.pop(at).map(drop)
    }

    pub fn duplicate(&mut self, at: At) -> Result<(), PickleError> {
        self.need(at, 1)?;
        let top = self.stack[self.stack.len() - 1];
        self.push(top)
    }

    // Marks.

    pub fn mark(&mut self) -> Result<(), PickleError> {
        if self.marks.len() == self.marks.capacity() {
            self.afford(self.marks.capacity() * size_of::<Mark>())?;
        }
        self.marks.push(Mark { stack: self.stack.len(), outer: self.arena.enter() });
        Ok(())
    }

    /// Where the values above the last mark begin.
    fn start(&self, at: At) -> Result<usize, PickleError> {
        match self.marks.last() {
            Some(mark) => Ok(mark.stack),
            None => Err(PickleError::NoMark { offset: at.offset, opcode: at.opcode }),
        }
    }

    /// Takes the last mark and leaves the values above it. What grows after this grows in the
    /// region that the mark stood in.
    fn leave_mark(&mut self) {
        if let Some(mark) = self.marks.pop() {
            self.arena.leave(mark.outer);
        }
    }

    /// Takes the last mark and the values above it.
    pub fn pop_mark(&mut self, at: At) -> Result<(), PickleError> {
        let start = self.start(at)?;
        self.stack.truncate(start);
        self.leave_mark();
        Ok(())
    }

    // Containers.

    /// EMPTY_LIST, EMPTY_TUPLE, EMPTY_DICT.
    pub fn push_empty(&mut self, kind: Kind) -> Result<(), PickleError> {
        let id = self.new_node(kind)?;
        self.push(Word::node(id))
    }

    /// LIST, TUPLE: of the values above the mark.
    pub fn gather(&mut self, at: At, kind: Kind) -> Result<(), PickleError> {
        let start = self.start(at)?;
        self.leave_mark();
        self.make(at, kind, start)
    }

    /// TUPLE1, TUPLE2, TUPLE3: of the top `count` values.
    pub fn tuple(&mut self, at: At, count: usize) -> Result<(), PickleError> {
        self.need(at, count)?;
        self.make(at, Kind::Tuple, self.stack.len() - count)
    }

    /// DICT: of the keys and values above the mark.
    pub fn gather_dict(&mut self, at: At) -> Result<(), PickleError> {
        let start = self.start(at)?;
        self.even(at, start)?;
        let folded = self.folded(start);
        self.leave_mark();
        match folded {
            None => self.make(at, Kind::Dict, start),
            Some(kind) => {
                let id = self.new_node(Kind::Dict)?;
                self.arena.fold(id, kind);
                self.stack.truncate(start);
                self.push(Word::node(id))
            }
        }
    }

    /// APPEND: the top value to the list below it.
    pub fn append(&mut self, at: At) -> Result<(), PickleError> {
        self.need(at, 2)?;
        let start = self.stack.len() - 1;
        let id = self.container_below(at, start, Kind::List)?;
        self.fold_dicts(start);
        self.extend(at, id, start)
    }

    /// APPENDS: the values above the mark to the list below it.
    pub fn appends(&mut self, at: At) -> Result<(), PickleError> {
        let start = self.start(at)?;
        let id = self.container_below(at, start, Kind::List)?;
        self.fold_dicts(start);
        self.leave_mark();
        self.extend(at, id, start)
    }

    /// SETITEM: the top two values, key and value, to the dict below them.
    pub fn set_item(&mut self, at: At) -> Result<(), PickleError> {
        self.need(at, 3)?;
        let start = self.stack.len() - 2;
        let id = self.container_below(at, start, Kind::Dict)?;
        self.extend(at, id, start)
    }

    /// SETITEMS: the keys and values above the mark to the dict below it.
    pub fn set_items(&mut self, at: At) -> Result<(), PickleError> {
        let start = self.start(at)?;
        let id = self.container_below(at, start, Kind::Dict)?;
        self.even(at, start)?;
        if self.arena.is_used(id) {
            return Err(PickleError::ChangedAfterUse { offset: at.offset, opcode: at.opcode });
        }
        // A dict of a snapshot is filled at once; one that has items already stays as it is.
        let folded = if self.arena.is_empty(id) { self.folded(start) } else { None };
        if self.arena.is_used(id) {
            return Err(PickleError::SelfReference);
        }
        self.leave_mark();
        match folded {
            None => self.extend(at, id, start),
            Some(kind) => {
                self.arena.fold(id, kind);
                self.stack.truncate(start);
                self.afford(0)
            }
        }
    }

    /// A new container of the values from `start` on.
    fn make(&mut self, at: At, kind: Kind, start: usize) -> Result<(), PickleError> {
        if kind == Kind::Tuple
            && let [first, second] = self.stack[start..]
            && let (Item::Int(first), Item::Int(second)) = (first.item(), second.item())
            && let Some(pair) = Word::pair(first, second)
        {
            self.stack.truncate(start);
            return self.push(pair);
        }
        let id = self.new_node(kind)?;
        self.extend(at, id, start)?;
        self.push(Word::node(id))
    }

    fn new_node(&mut self, kind: Kind) -> Result<u32, PickleError> {
        self.afford(0)?;
        match self.arena.new_node(kind) {
            Ok(id) => Ok(id),
            Err(Full) => Err(PickleError::OutOfBounds),
        }
    }

    /// Moves the values from `start` on into a container.
    fn extend(&mut self, at: At, id: u32, start: usize) -> Result<(), PickleError> {
        self.afford((self.stack.len() - start) * size_of::<Word>())?;
        match self.arena.extend(id, &self.stack[start..]) {
            Ok(()) => {
                self.stack.truncate(start);
                Ok(())
            }
            Err(ExtendError::Full) => Err(PickleError::OutOfBounds),
            Err(ExtendError::Used) => Err(PickleError::ChangedAfterUse { offset: at.offset, opcode: at.opcode }),
        }
    }

    fn even(&self, at: At, start: usize) -> Result<(), PickleError> {
        if !(self.stack.len() - start).is_multiple_of(2) {
            return Err(PickleError::KeyWithoutValue { offset: at.offset, opcode: at.opcode });
        }
        Ok(())
    }

    fn container_below(&self, at: At, start: usize, wanted: Kind) -> Result<u32, PickleError> {
        let Some(below) = start.checked_sub(1).map(|below| self.stack[below]) else {
            return Err(PickleError::StackUnderflow { offset: at.offset, opcode: at.opcode });
        };
        let kind = match below.item() {
            Item::Node(id) => Some((id, self.arena.kind(id))),
            _ => None,
        };
        match (kind, wanted) {
            (Some((id, kind)), _) if kind == wanted => Ok(id),
            (Some((_, Kind::Stack(_))), Kind::List) | (Some((_, Kind::Row(_) | Kind::Frame(_))), Kind::Dict) => {
                Err(PickleError::ChangedAfterUse { offset: at.offset, opcode: at.opcode })
            }
            _ => Err(PickleError::WrongContainer {
                offset: at.offset,
                opcode: at.opcode,
                wanted: if wanted == Kind::List { "list" } else { "dict" },
            }),
        }
    }

    // Folding.

    /// What a dict of the keys and values from `start` on becomes.
    fn folded(&mut self, start: usize) -> Option<Kind> {
        let items = &self.stack[start..];
        if items.is_empty() || items.len() > MOST_FOLDED_ITEMS {
            return None;
        }
        self.fold.fold(&mut self.arena, items)
    }

    /// Folds those dicts from `start` on that were filled one item at a time.
    fn fold_dicts(&mut self, start: usize) {
        for index in start..self.stack.len() {
            let Item::Node(id) = self.stack[index].item() else {
                continue;
            };
            let len = self.arena.items(id).len();
            if self.arena.kind(id) != Kind::Dict || len > MOST_FOLDED_ITEMS || self.arena.is_refused(id) {
                continue;
            }
            self.dict.clear();
            self.dict.extend_from_slice(self.arena.items(id));
            match self.fold.fold(&mut self.arena, &self.dict) {
                Some(kind) => self.arena.fold(id, kind),
                None => self.arena.refuse(id),
            }
        }
    }

    // The memo.

    /// MEMOIZE: the top value under the next number.
    pub fn memoize(&mut self, at: At) -> Result<(), PickleError> {
        self.put(at, self.memo.len() as u64)
    }

    /// PUT: the top value under a number.
    pub fn put(&mut self, at: At, index: u64) -> Result<(), PickleError> {
        self.need(at, 1)?;
        let top = self.stack[self.stack.len() - 1];
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index >= self.memo.len() {
            if index >= self.memo.capacity() {
                let wanted = index.saturating_mul(size_of::<Word>());
                self.afford(wanted)?;
            }
            self.memo.resize(index + 1, Word::EMPTY);
        }
        self.memo[index] = top;
        Ok(())
    }

    /// GET: pushes what stands under a number.
    pub fn get(&mut self, at: At, index: u64) -> Result<(), PickleError> {
        let known = usize::try_from(index).ok().and_then(|at| self.memo.get(at));
        match known {
            Some(&word) if word != Word::EMPTY => self.push(word),
            _ => Err(PickleError::NoMemo { offset: at.offset, index }),
        }
    }
}
