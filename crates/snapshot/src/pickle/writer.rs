//! Pickles, opcode by opcode: only those that PyTorch's viewer accepts (R9.26).

use std::io::{self, Write};

use crate::values::{Plain, ValueId, Values};

/// Writes the parts of a pickle in order.
pub(crate) struct Writer<W> {
    out: W,
    memo: u32,
}

/// Where a value stands in the memo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoId(u32);

impl<W: Write> Writer<W> {
    /// Begins a pickle. Bytes need protocol 5.
    pub fn new(mut out: W, with_bytes: bool) -> io::Result<Self> {
        out.write_all(&[0x80, if with_bytes { 5 } else { 4 }])?;
        Ok(Self { out, memo: 0 })
    }

    /// Ends the pickle.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b".")?;
        self.out.flush()
    }

    fn op(&mut self, opcode: u8) -> io::Result<()> {
        self.out.write_all(&[opcode])
    }

    fn with(&mut self, opcode: u8, argument: &[u8]) -> io::Result<()> {
        self.op(opcode)?;
        self.out.write_all(argument)
    }

    /// Puts the value just written into the memo.
    pub fn memoize(&mut self) -> io::Result<MemoId> {
        let id = MemoId(self.memo);
        self.memo += 1;
        self.op(0x94)?;
        Ok(id)
    }

    /// Writes a value of the memo again.
    pub fn get(&mut self, id: MemoId) -> io::Result<()> {
        match u8::try_from(id.0) {
            Ok(short) => self.with(b'h', &[short]),
            Err(_) => self.with(b'j', &id.0.to_le_bytes()),
        }
    }

    pub fn none(&mut self) -> io::Result<()> {
        self.op(b'N')
    }

    pub fn bool(&mut self, value: bool) -> io::Result<()> {
        self.op(if value { 0x88 } else { 0x89 })
    }

    /// An integer as short as Python writes it.
    pub fn int(&mut self, value: i128) -> io::Result<()> {
        if let Ok(value) = u8::try_from(value) {
            return self.with(b'K', &[value]);
        }
        if let Ok(value) = u16::try_from(value) {
            return self.with(b'M', &value.to_le_bytes());
        }
        if let Ok(value) = i32::try_from(value) {
            return self.with(b'J', &value.to_le_bytes());
        }
        let bytes = value.to_le_bytes();
        // As many bytes as leave room for the sign bit.
        let magnitude = if value < 0 { !value } else { value };
        let len = (128 - magnitude.leading_zeros()) as usize / 8 + 1;
        self.op(0x8a)?;
        self.op(len as u8)?;
        self.out.write_all(&bytes[..len.min(bytes.len())])
    }

    pub fn float(&mut self, value: f64) -> io::Result<()> {
        self.with(b'G', &value.to_be_bytes())
    }

    /// A text; one of 4 GiB or more, which the viewer cannot take, is an error.
    pub fn str(&mut self, text: &str) -> io::Result<()> {
        match u8::try_from(text.len()) {
            Ok(len) => self.with(0x8c, &[len])?,
            Err(_) => {
                let len = u32::try_from(text.len())
                    .map_err(|_| io::Error::other("a text of 4 GiB or more cannot be written"))?;
                self.with(b'X', &len.to_le_bytes())?;
            }
        }
        self.out.write_all(text.as_bytes())
    }

    /// A bytearray: the only form of bytes that the viewer takes.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.with(0x96, &(bytes.len() as u64).to_le_bytes())?;
        self.out.write_all(bytes)
    }

    pub fn empty_list(&mut self) -> io::Result<()> {
        self.op(b']')
    }

    pub fn empty_dict(&mut self) -> io::Result<()> {
        self.op(b'}')
    }

    /// Begins the items of the container just written, or of a tuple.
    pub fn mark(&mut self) -> io::Result<()> {
        self.op(b'(')
    }

    /// Ends the items of a list.
    pub fn appends(&mut self) -> io::Result<()> {
        self.op(b'e')
    }

    /// Ends the keys and values of a dict.
    pub fn set_items(&mut self) -> io::Result<()> {
        self.op(b'u')
    }

    /// Makes a tuple of the last `len` values; one of more than three was begun by a mark.
    pub fn tuple(&mut self, len: usize) -> io::Result<()> {
        self.op(match len {
            0 => b')',
            1 => 0x85,
            2 => 0x86,
            3 => 0x87,
            _ => b't',
        })
    }
}

/// Which values of a table are written more than once, and where they stand in the memo.
pub(crate) struct SharedValues {
    /// How often each value is referred to, up to two.
    uses: Vec<u8>,
    memo: Vec<Option<MemoId>>,
}

/// A container whose members are being written.
struct Open {
    id: ValueId,
    next: usize,
}

impl SharedValues {
    pub fn new(values: &Values) -> Self {
        Self { uses: vec![0; values.len()], memo: vec![None; values.len()] }
    }

    /// Counts a value that will be written, and what it holds.
    pub fn count(&mut self, values: &Values, root: ValueId) {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let Some(uses) = self.uses.get_mut(id.index()) else {
                continue;
            };
            *uses += 1;
            if *uses == 1 {
                open.extend_from_slice(members(values.get(id)));
            }
            *uses = (*uses).min(2);
        }
    }

    /// Writes a value that has been counted.
    pub fn write<W: Write>(&mut self, values: &Values, root: ValueId, writer: &mut Writer<W>) -> io::Result<()> {
        let mut open = Vec::new();
        self.begin(values, root, writer, &mut open)?;
        while let Some(top) = open.last_mut() {
            let value = values.get(top.id);
            if let Some(&member) = members(value).get(top.next) {
                top.next += 1;
                self.begin(values, member, writer, &mut open)?;
                continue;
            }
            let id = top.id;
            match value {
                Plain::Dict(_) => writer.set_items()?,
                Plain::Tuple(items) => {
                    writer.tuple(items.len())?;
                    self.memoize(id, writer)?;
                }
                _ => writer.appends()?,
            }
            open.pop();
        }
        Ok(())
    }

    fn begin<W: Write>(
        &mut self,
        values: &Values,
        id: ValueId,
        writer: &mut Writer<W>,
        open: &mut Vec<Open>,
    ) -> io::Result<()> {
        if let Some(memo) = self.memo.get(id.index()).copied().flatten() {
            return writer.get(memo);
        }
        match values.get(id) {
            Plain::None => return writer.none(),
            Plain::Bool(value) => return writer.bool(value),
            Plain::Int(value) => return writer.int(value),
            Plain::Float(value) => return writer.float(value),
            Plain::Str(text) => writer.str(text)?,
            Plain::Bytes(bytes) => return writer.bytes(bytes),
            Plain::List(items) => {
                writer.empty_list()?;
                if !items.is_empty() {
                    self.memoize(id, writer)?;
                    writer.mark()?;
                    open.push(Open { id, next: 0 });
                }
                return Ok(());
            }
            Plain::Dict(items) => {
                writer.empty_dict()?;
                if !items.is_empty() {
                    self.memoize(id, writer)?;
                    writer.mark()?;
                    open.push(Open { id, next: 0 });
                }
                return Ok(());
            }
            Plain::Tuple(items) => {
                match items.len() {
                    0 => return writer.tuple(0),
                    1..=3 => {}
                    _ => writer.mark()?,
                }
                open.push(Open { id, next: 0 });
                return Ok(());
            }
        }
        self.memoize(id, writer)
    }

    /// Puts the value just written into the memo if it will be needed again.
    fn memoize<W: Write>(&mut self, id: ValueId, writer: &mut Writer<W>) -> io::Result<()> {
        if self.uses.get(id.index()).is_some_and(|&uses| uses > 1) {
            self.memo[id.index()] = Some(writer.memoize()?);
        }
        Ok(())
    }
}

fn members(value: Plain<'_>) -> &[ValueId] {
    match value {
        Plain::List(items) | Plain::Tuple(items) | Plain::Dict(items) => items,
        _ => &[],
    }
}
