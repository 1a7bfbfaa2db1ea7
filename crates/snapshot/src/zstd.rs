//! Zstandard (RFC 8878), unpacked: block after block, each no larger than the format allows.
//!
//! Why one of our own: a block of a hostile file can ask for gigabytes, and a header for a window of
//! terabytes. Here memory follows what has been unpacked, and nothing in a file can make this panic.
//! Dictionaries are an error; the checksum is passed over, since what reads the result checks it.

mod bits;
mod block;
mod fse;
mod huffman;
mod sequences;

use std::io::{self, BufRead, Read};

use block::{Blocks, MOST_BLOCK};

const MAGIC: u32 = 0xfd2f_b528;
/// The magic numbers of frames that hold nothing for us differ in their last four bits.
const SKIPPABLE: u32 = 0x184d_2a50;

/// What is wrong with the data, as an error of reading.
fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The frames of a zstd file, one after the other.
pub(crate) struct Frames<R> {
    source: R,
    frame: Option<Frame>,
}

/// A frame that is being unpacked.
struct Frame {
    /// How far back a block may refer, bytes.
    window: usize,
    has_checksum: bool,
    is_over: bool,
    blocks: Blocks,
    /// What has been unpacked, as far back as the window reaches and a little more.
    history: Vec<u8>,
    /// How much of the history has been given away.
    given: usize,
}

impl<R: BufRead> Frames<R> {
    pub fn new(source: R) -> Self {
        Self { source, frame: None }
    }

    /// Begins the next frame, passing over those that hold nothing.
    fn begin(&mut self) -> io::Result<()> {
        let magic = number(&mut self.source, 4)? as u32;
        if magic & !0xf == SKIPPABLE {
            let len = number(&mut self.source, 4)?;
            let skipped = io::copy(&mut self.source.by_ref().take(len), &mut io::sink())?;
            return if skipped == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        if magic != MAGIC {
            return Err(damaged("a zstd frame does not begin with its magic number"));
        }
        self.frame = Some(header(&mut self.source)?);
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let Some(frame) = &mut self.frame else {
                if self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin()?;
                continue;
            };
            let ready = &frame.history[frame.given..];
            if !ready.is_empty() {
                let len = ready.len().min(buffer.len());
                buffer[..len].copy_from_slice(&ready[..len]);
                frame.given += len;
                return Ok(len);
            }
            if !frame.is_over {
                frame.next(&mut self.source)?;
                continue;
            }
            if frame.has_checksum {
                number(&mut self.source, 4)?;
            }
            self.frame = None;
        }
    }
}

impl Frame {
    /// Unpacks the next block behind the history.
    fn next(&mut self, source: &mut impl Read) -> io::Result<()> {
        // Moved when there is as much to forget as to keep, so that moving stays cheap in total.
        if self.history.len() > self.window.saturating_mul(2).saturating_add(MOST_BLOCK) {
            self.history.drain(..self.history.len() - self.window);
            self.given = self.history.len();
        }
        self.is_over = self.blocks.next(source, &mut self.history)?;
        Ok(())
    }
}

/// Reads a frame's header.
fn header(source: &mut impl Read) -> io::Result<Frame> {
    let descriptor = number(source, 1)?;
    let is_single = descriptor & 0x20 != 0;
    if descriptor & 0x08 != 0 {
        return Err(damaged("a zstd frame has its reserved bit set"));
    }
    let mut window = 0;
    if !is_single {
        let byte = number(source, 1)?;
        let base = 1_u64 << (10 + (byte >> 3));
        window = base + (base >> 3) * (byte & 7);
    }
    let dictionary = [0, 1, 2, 4][descriptor as usize & 3];
    if number(source, dictionary)? != 0 {
        return Err(damaged("a zstd frame needs a dictionary"));
    }
    let size_width = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    let mut size = number(source, size_width)?;
    if size_width == 2 {
        size += 256;
    }
    if is_single {
        window = size;
    }
    let window = usize::try_from(window).unwrap_or(usize::MAX);
    Ok(Frame {
        window,
        has_checksum: descriptor & 0x04 != 0,
        is_over: false,
        blocks: Blocks::new(window.min(MOST_BLOCK)),
        history: Vec::new(),
        given: 0,
    })
}

/// An unsigned number of `width` bytes, little end first.
fn number(source: &mut impl Read, width: usize) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes[..width])?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        Frames::new(packed).read_to_end(&mut unpacked)?;
        Ok(unpacked)
    }

    fn block(is_last: bool, kind: u32, size: usize, content: &[u8]) -> Vec<u8> {
        let header = u32::from(is_last) | kind << 1 | (size as u32) << 3;
        [&header.to_le_bytes()[..3], content].concat()
    }

    /// A frame with a window of 2 MiB.
    fn frame(blocks: &[Vec<u8>]) -> Vec<u8> {
        [&MAGIC.to_le_bytes(), &[0x00, 0x58][..], &blocks.concat()].concat()
    }

    #[test]
    fn raw_and_repeated_blocks() {
        let packed = frame(&[block(false, 0, 3, b"abc"), block(true, 1, 5, b"x")]);
        assert_eq!(unpack(&packed).unwrap(), b"abcxxxxx");
        assert_eq!(unpack(b"").unwrap(), b"");
    }

    #[test]
    fn frames_follow_each_other_and_skippable_ones_are_passed_over() {
        let one = frame(&[block(true, 0, 3, b"abc")]);
        let skipped = [&0x184d_2a57_u32.to_le_bytes()[..], &2_u32.to_le_bytes(), b"??"].concat();
        assert_eq!(unpack(&[&one[..], &skipped, &one].concat()).unwrap(), b"abcabc");
        assert!(unpack(&[&one[..], &skipped[..9]].concat()).is_err());
        assert!(unpack(&[&one[..], b"junk"].concat()).is_err());
    }

    #[test]
    fn what_another_packer_writes_is_unpacked() {
        let text: Vec<u8> = (0..60_000_u32).flat_map(|n| format!("{} ", n * n % 977).into_bytes()).collect();
        let packed = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        assert!(packed.len() < text.len());
        assert_eq!(unpack(&packed).unwrap(), text);
    }

    #[test]
    fn what_the_reference_packer_writes_is_unpacked() {
        // `zstd --ultra -22` of the numbers: Huffman literals with packed weights, tables of its own.
        let packed = include_bytes!("zstd/numbers.zst");
        let text: Vec<u8> = (0..3000_u32).flat_map(|n| format!("{} ", n * n % 977).into_bytes()).collect();
        assert_eq!(unpack(packed).unwrap(), text);
        for len in 0..packed.len() {
            let cut = unpack(&packed[..len]);
            assert!(len == 0 || cut.is_err() || cut.is_ok_and(|cut| cut == text), "cut to {len} bytes");
        }
    }

    #[test]
    fn flipped_bytes_never_panic() {
        let packed = include_bytes!("zstd/numbers.zst");
        for at in 0..packed.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut packed = packed.to_vec();
                packed[at] ^= flip;
                let _ = unpack(&packed);
            }
        }
    }

    #[test]
    fn a_block_that_asks_for_gigabytes_is_refused() {
        // Ten thousand matches of 131074 bytes each, two bytes a match.
        let matches = 10_000_usize;
        let head = [0, 128 + (matches >> 8) as u8, matches as u8, 0x54, 0, 0, 52];
        let content = [&head[..], &[0xff, 0xff].repeat(matches), &[1]].concat();
        let bomb = frame(&[block(false, 0, 8, b"abcdefgh"), block(true, 2, content.len(), &content)]);
        let error = unpack(&bomb).unwrap_err();
        assert_eq!(error.to_string(), "a zstd block unpacks to more than a block may hold");
    }

    #[test]
    fn a_window_of_terabytes_costs_nothing() {
        let mut packed = frame(&[block(true, 0, 3, b"abc")]);
        packed[5] = 0xff;
        assert_eq!(unpack(&packed).unwrap(), b"abc");
    }

    #[test]
    fn dictionaries_and_reserved_bits_are_refused() {
        for descriptor in [0x01, 0x08] {
            let mut packed = frame(&[block(true, 0, 3, b"abc")]);
            packed[4] = descriptor;
            assert!(unpack(&packed).is_err());
        }
    }
}
