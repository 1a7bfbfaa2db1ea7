//! The page: one HTML file that needs nothing else, or the columns alone for a page that is open already.

mod columns;
mod header;
mod stacks;

use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use millpond_driver::Bytes;
use millpond_snapshot::Stacks;
use serde::Serialize;

use crate::timeline::Timeline;
use columns::Columns;
use header::Header;
use stacks::StackTable;

/// The page as `web/` builds it: markup, style and script in one, with [`MARK`] where the columns go.
const TEMPLATE: &str = include_str!("../../assets/page.html");
const MARK: &str = "MILLPOND-COLUMNS";

/// What a file of columns begins with; the last but one is the version of the form.
pub const MAGIC: &[u8; 8] = b"MPVIEW1\n";

/// What requests are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Counted {
    /// Requests of a workload.
    Requests,
    /// Entries of a trace.
    Entries,
}

/// What a page shows.
#[derive(Clone, Debug)]
pub struct Page<'s> {
    /// The file, or the scenario.
    pub source: &'s str,
    /// What [`Event::at`](crate::timeline::Event::at) counts.
    pub counted: Counted,
    /// The devices, or the same device under several settings.
    pub panels: Vec<Panel>,
    /// The stacks that the timelines name.
    pub stacks: &'s Stacks,
}

/// Where a timeline comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A trace, as it was recorded.
    Recording,
    /// Our allocator on a simulated device.
    Replay,
}

/// One timeline, and what it is the timeline of.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Where it comes from.
    pub kind: Kind,
    /// The device, as the source counts them.
    pub device: u32,
    /// The settings string.
    pub conf: String,
    /// The device's memory, where it is known.
    pub capacity: Option<Bytes>,
    /// Of that, what others use.
    pub others: Bytes,
    /// What happened.
    pub timeline: Timeline,
    /// Why it ran out, where somebody has found that out.
    pub verdict: Option<Verdict>,
}

/// What was found out about a device, and where on the page that is.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The request to look at.
    pub at: u64,
    /// One sentence.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// What to look at then.
    pub marks: Vec<Mark>,
}

/// A range of memory that a verdict speaks of.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// First byte, as the source counts.
    #[serde(serialize_with = "header::hexadecimal")]
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub label: String,
}

/// Why a page cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The system's.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A browser counts in doubles.
    #[error("the figure {0} is beyond 2^53, which is the most that a page's numbers hold")]
    Beyond(u64),
}

impl Page<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// Those of `out`; [`PageError::Beyond`].
    pub fn write_html(&self, out: impl Write) -> Result<(), PageError> {
        let mut out = io::BufWriter::new(out);
        let (before, after) = TEMPLATE.split_once(MARK).unwrap_or((TEMPLATE, ""));
        out.write_all(before.as_bytes())?;
        let mut text = EncoderWriter::new(&mut out, &STANDARD);
        self.write_columns(&mut text)?;
        text.finish()?;
        drop(text);
        out.write_all(after.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Writes the columns alone: eight bytes that name the form, then as zlib the length of a JSON header in four bytes, the
    /// header, and the columns that it describes.
    ///
    /// # Errors
    /// Those of `out`; [`PageError::Beyond`].
    pub fn write_columns(&self, mut out: impl Write) -> Result<(), PageError> {
        let mut columns = Columns::default();
        let mut stacks = StackTable::new(self.stacks);
        let panels = self.panels.iter().map(|panel| header::panel(panel, &mut columns, &mut stacks)).collect();
        let header = Header::new(self, panels, stacks.write(&mut columns));
        if let Some(figure) = columns.beyond {
            return Err(PageError::Beyond(figure));
        }
        let header = serde_json::to_vec(&header).map_err(io::Error::other)?;
        out.write_all(MAGIC)?;
        let mut packed = ZlibEncoder::new(out, Compression::default());
        packed.write_all(&(header.len() as u32).to_le_bytes())?;
        packed.write_all(&header)?;
        packed.write_all(&columns.bytes)?;
        packed.finish()?;
        Ok(())
    }
}
