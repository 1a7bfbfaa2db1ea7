//! Segments and their blocks, of today and of 2023.

use super::error::ModelError;
use super::keys::Key;
use super::{Converter, Result, read};
use crate::model::{Block, BlockState, Segment, SegmentType};
use crate::pickle::word::Word;

impl Converter<'_> {
    pub(super) fn segments(&mut self, word: Word, name: &str) -> Result<Vec<Segment>> {
        let len = read::list(&self.arena, word).map_err(|error| error.within(name))?.len();
        let mut segments = Vec::new();
        for index in 0..len {
            let word = read::list(&self.arena, word)?[index];
            self.charge(size_of::<Segment>())?;
            let segment = self.segment(word);
            segments.push(segment.map_err(|error| error.within(format_args!("{name}[{index}]")))?);
        }
        Ok(segments)
    }

    fn segment(&mut self, word: Word) -> Result<Segment> {
        let mut segment = Segment::default();
        let mut unknown = Vec::new();
        // What the file does not state follows from the blocks.
        let (mut total, mut allocated, mut active, mut requested) = (None, None, None, None);
        let mut blocks = None;
        let items = self.dict_items(word)?;
        for pair in items.chunks_exact(2) {
            let (arena, value) = (&mut self.arena, pair[1]);
            let key = self.folder.keys.get(arena, pair[0]);
            let at = |error: ModelError| error.within(key.as_str());
            match key {
                Key::Device => segment.device = read::device(arena, value).map_err(at)?,
                Key::Address => segment.address = read::address(arena, value).map_err(at)?,
                Key::TotalSize => total = Some(read::unsigned(arena, value).map_err(at)?),
                Key::AllocatedSize => allocated = Some(read::unsigned(arena, value).map_err(at)?),
                Key::ActiveSize => active = Some(read::unsigned(arena, value).map_err(at)?),
                Key::RequestedSize => requested = Some(read::unsigned(arena, value).map_err(at)?),
                Key::Stream => segment.stream = read::address(arena, value).map_err(at)?,
                Key::SegmentType => {
                    segment.segment_type = read::word(arena, value, SegmentType::from_word).map_err(at)?;
                }
                Key::SegmentPoolId => segment.pool = Some(read::pool(arena, value).map_err(at)?),
                Key::IsExpandable => {
                    segment.is_expandable = read::boolean(arena, value).map_err(at)?;
                }
                Key::Frames => segment.stack = self.folder.stack(arena, value).map_err(at)?,
                Key::Blocks => blocks = Some(value),
                _ => unknown.extend_from_slice(pair),
            }
        }
        segment.extra = self.folder.extra(&mut self.arena, &unknown)?;
        if let Some(blocks) = blocks {
            segment.blocks = self.blocks(blocks, segment.address)?;
        }
        let blocks = &segment.blocks;
        let sum = |size: fn(&Block) -> u64| blocks.iter().map(size).fold(0, u64::saturating_add);
        segment.total_size = total.unwrap_or_else(|| sum(|block| block.size));
        segment.allocated_size = allocated.unwrap_or_else(|| sum(Block::allocated));
        segment.active_size = active.unwrap_or_else(|| sum(Block::active));
        segment.requested_size = requested.unwrap_or_else(|| sum(Block::requested));
        Ok(segment)
    }

    fn blocks(&mut self, word: Word, address: u64) -> Result<Vec<Block>> {
        let len = read::list(&self.arena, word).map_err(|error| error.within("blocks"))?.len();
        let mut blocks = Vec::new();
        let mut next = address;
        for index in 0..len {
            let word = read::list(&self.arena, word)?[index];
            self.charge(size_of::<Block>())?;
            let block = self.block(word, next).map_err(|error| error.within(format_args!("blocks[{index}]")))?;
            next = block.address.wrapping_add(block.size);
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// A block. `next` is where it begins if it does not say so (C75).
    fn block(&mut self, word: Word, next: u64) -> Result<Block> {
        let mut block = Block { address: next, ..Block::default() };
        let (mut requested, mut frames, mut history) = (None, None, None);
        let mut unknown = Vec::new();
        let items = self.dict_items(word)?;
        for pair in items.chunks_exact(2) {
            let (arena, value) = (&self.arena, pair[1]);
            let key = self.folder.keys.get(arena, pair[0]);
            let at = |error: ModelError| error.within(key.as_str());
            match key {
                Key::Address => block.address = read::address(arena, value).map_err(at)?,
                Key::Size => block.size = read::unsigned(arena, value).map_err(at)?,
                Key::RequestedSize => requested = Some(read::unsigned(arena, value).map_err(at)?),
                Key::State => {
                    block.state = read::word(arena, value, BlockState::from_word).map_err(at)?;
                }
                Key::Frames => frames = Some(value),
                Key::History => {
                    history = Some(value);
                    unknown.extend_from_slice(pair);
                }
                _ => unknown.extend_from_slice(pair),
            }
        }
        if let Some(history) = history {
            let (old_frames, real_size) = self.history(history)?;
            frames = frames.or(old_frames);
            requested = requested.or(real_size);
        }
        block.requested_size = requested.unwrap_or(block.size);
        if let Some(frames) = frames {
            let stack = self.folder.stack(&mut self.arena, frames);
            block.stack = stack.map_err(|error| error.within("frames"))?;
        }
        block.extra = self.folder.extra(&mut self.arena, &unknown)?;
        Ok(block)
    }

    /// What the first entry of a block's history of 2023 says: frames and requested bytes.
    fn history(&mut self, word: Word) -> Result<(Option<Word>, Option<u64>)> {
        let list = read::list(&self.arena, word).unwrap_or_default();
        let Some(&first) = list.first() else {
            return Ok((None, None));
        };
        let items = self.dict_items(first).map_err(|error| error.within("history[0]"))?;
        let (mut frames, mut real_size) = (None, None);
        for pair in items.chunks_exact(2) {
            match self.folder.keys.get(&self.arena, pair[0]) {
                Key::Frames => frames = Some(pair[1]),
                Key::RealSize => real_size = read::unsigned(&self.arena, pair[1]).ok(),
                _ => {}
            }
        }
        Ok((frames, real_size))
    }
}
