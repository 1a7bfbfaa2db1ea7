//! The rows as a Parquet file: the columns of the other tables under the same names.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::ledger::{Row, each_row};
use crate::page::Page;

/// Figures have no sign, but for a frame's line.
const SCHEMA: &str = "
message ledger {
  required int32 run (INTEGER(32,false));
  required int32 device (INTEGER(32,false));
  required int64 event (INTEGER(64,false));
  required int64 at (INTEGER(64,false));
  required binary action (STRING);
  required int64 address (INTEGER(64,false));
  required int64 size (INTEGER(64,false));
  required int64 stream (INTEGER(64,false));
  required binary size_class (STRING);
  required int64 pool_first (INTEGER(64,false));
  required int64 pool_second (INTEGER(64,false));
  optional int64 time_us (INTEGER(64,false));
  required int64 allocated (INTEGER(64,false));
  required int64 active (INTEGER(64,false));
  required int64 requested (INTEGER(64,false));
  required int64 reserved (INTEGER(64,false));
  optional binary function (STRING);
  optional binary file (STRING);
  optional int64 line;
}";

/// Rows that are kept before they are written.
const GROUP: usize = 1 << 16;

pub fn write(page: &Page<'_>, out: impl Write + Send) -> io::Result<()> {
    let schema = parse_message_type(SCHEMA).map_err(io::Error::other)?;
    let properties = WriterProperties::builder().set_compression(Compression::GZIP(GzipLevel::default())).build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(io::Error::other)?;
    let mut rows = Vec::new();
    each_row(page, |row| {
        rows.push(row);
        if rows.len() == GROUP {
            group(&mut file, &rows).map_err(io::Error::other)?;
            rows.clear();
        }
        Ok(())
    })?;
    if !rows.is_empty() {
        group(&mut file, &rows).map_err(io::Error::other)?;
    }
    file.close().map_err(io::Error::other)?;
    Ok(())
}

fn group<W: Write + Send>(file: &mut SerializedFileWriter<W>, rows: &[Row<'_>]) -> Result<(), ParquetError> {
    let mut columns = Columns { group: file.next_row_group()?, rows };
    columns.add::<Int32Type>(|row| Some(row.run as i32))?;
    columns.add::<Int32Type>(|row| Some(row.device as i32))?;
    columns.figure(|row| row.event as u64)?;
    columns.figure(|row| row.at.into())?;
    columns.add::<ByteArrayType>(|row| Some(row.action.into()))?;
    columns.figure(|row| row.address)?;
    columns.figure(|row| row.size)?;
    columns.figure(|row| row.stream)?;
    columns.add::<ByteArrayType>(|row| Some(row.size_class.into()))?;
    columns.figure(|row| row.pool[0])?;
    columns.figure(|row| row.pool[1])?;
    columns.add::<Int64Type>(|row| Some(row.time_us? as i64))?;
    columns.figure(|row| row.totals.allocated)?;
    columns.figure(|row| row.totals.active)?;
    columns.figure(|row| row.totals.requested)?;
    columns.figure(|row| row.totals.reserved)?;
    columns.add::<ByteArrayType>(|row| Some(row.frame.as_ref()?.name.into()))?;
    columns.add::<ByteArrayType>(|row| Some(row.frame.as_ref()?.filename.into()))?;
    columns.add::<Int64Type>(|row| Some(row.frame.as_ref()?.line))?;
    columns.group.close()?;
    Ok(())
}

/// The columns of a group of rows, in the order of the schema.
struct Columns<'a, 's, W: Write> {
    group: SerializedRowGroupWriter<'a, W>,
    rows: &'a [Row<'s>],
}

impl<W: Write + Send> Columns<'_, '_, W> {
    /// Writes the next column. The schema knows whether a value may be missing.
    fn add<T: DataType>(&mut self, value: impl Fn(&Row<'_>) -> Option<T::T>) -> Result<(), ParquetError> {
        let Some(mut column) = self.group.next_column()? else { return Ok(()) };
        let known: Vec<Option<T::T>> = self.rows.iter().map(value).collect();
        let levels: Vec<i16> = known.iter().map(|value| i16::from(value.is_some())).collect();
        let values: Vec<T::T> = known.into_iter().flatten().collect();
        column.typed::<T>().write_batch(&values, Some(&levels), None)?;
        column.close()
    }

    /// Numbers without a sign have the bits of those with one.
    fn figure(&mut self, value: impl Fn(&Row<'_>) -> u64) -> Result<(), ParquetError> {
        self.add::<Int64Type>(|row| Some(value(row) as i64))
    }
}
