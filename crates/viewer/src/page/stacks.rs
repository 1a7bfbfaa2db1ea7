//! The stacks that a page names, frames and texts once each.

use millpond_snapshot::{Frame, StackId, Stacks};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::columns::{Column, Columns};

/// The stacks that were named, renumbered in the order in which they were; 0 is the empty one.
pub struct StackTable<'s> {
    stacks: &'s Stacks,
    rows: FxHashMap<StackId, u32>,
    order: Vec<StackId>,
}

/// The table as the header has it.
#[derive(Debug, Serialize)]
pub struct Written<'s> {
    /// Functions and files.
    texts: Vec<&'s str>,
    /// Of each frame: index of the function, index of the file, line.
    names: Column,
    files: Column,
    lines: Column,
    /// The frames of all stacks, innermost first, and how many each has.
    items: Column,
    depths: Column,
}

impl<'s> StackTable<'s> {
    pub fn new(stacks: &'s Stacks) -> Self {
        StackTable { stacks, rows: FxHashMap::from_iter([(StackId::EMPTY, 0)]), order: vec![StackId::EMPTY] }
    }

    /// The number of a stack on this page.
    pub fn row(&mut self, stack: StackId) -> u64 {
        let order = &mut self.order;
        let row = *self.rows.entry(stack).or_insert_with(|| {
            order.push(stack);
            order.len() as u32 - 1
        });
        u64::from(row)
    }

    /// Writes what was named.
    pub fn write(self, columns: &mut Columns) -> Written<'s> {
        let stacks = self.stacks;
        let mut frames: FxHashMap<usize, u64> = FxHashMap::default();
        let mut used: Vec<&Frame> = Vec::new();
        let (mut items, mut depths) = (Vec::new(), Vec::new());
        for &stack in &self.order {
            let before = items.len();
            for (id, frame) in stacks.ids(stack).iter().zip(stacks.frames(stack)) {
                items.push(*frames.entry(id.index()).or_insert_with(|| {
                    used.push(frame);
                    used.len() as u64 - 1
                }));
            }
            depths.push((items.len() - before) as u64);
        }
        let mut rows: FxHashMap<&str, u64> = FxHashMap::default();
        let mut texts: Vec<&str> = Vec::new();
        let mut text = |text: &'s str| {
            *rows.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() as u64 - 1
            })
        };
        let names: Vec<u64> = used.iter().map(|frame| text(&frame.name)).collect();
        let files: Vec<u64> = used.iter().map(|frame| text(&frame.filename)).collect();
        // Lines are numbers of 64 bits with a sign in the file; what is no line is none.
        let lines = used.iter().map(|frame| u64::try_from(frame.line).unwrap_or(0).min(super::columns::LIMIT - 1));
        Written {
            names: columns.add(names),
            files: columns.add(files),
            lines: columns.add(lines),
            items: columns.add(items),
            depths: columns.add(depths),
            texts,
        }
    }
}
