//! A Parquet file holds the rows of the other tables, value by value.
#![cfg(feature = "parquet")]

use std::path::Path;

use millpond_replay::snapshot::Recording;
use millpond_snapshot::Snapshot;
use millpond_viewer::timeline::recorded;
use millpond_viewer::{Counted, Kind, Page, Panel, export};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};

/// A cell as JSON has it.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::UInt(number) => json!(number),
        Field::ULong(number) => json!(number),
        Field::Long(number) => json!(number),
        Field::Str(text) => json!(text),
        other => panic!("no such type in the schema: {other}"),
    }
}

/// Where a column stands in a row of JSON.
fn expected(row: &Value, column: &str) -> Value {
    match column {
        "pool_first" => row["pool"][0].clone(),
        "pool_second" => row["pool"][1].clone(),
        "function" => row["frame"]["name"].clone(),
        "file" => row["frame"]["filename"].clone(),
        "line" => row["frame"]["line"].clone(),
        _ => row[column].clone(),
    }
}

#[test]
fn a_parquet_file_has_the_rows_of_json_lines() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/oom.pickle");
    let snapshot = Snapshot::open(&path).expect("a snapshot");
    let recording = Recording::new(&snapshot, 0).expect("its device");
    let panel = Panel {
        kind: Kind::Recording,
        device: 0,
        conf: String::new(),
        capacity: None,
        others: Default::default(),
        timeline: recorded(&recording),
        verdict: None,
    };
    // Twice three hundred times: more rows than a group of them has.
    let panels = vec![panel; 600];
    let page = Page { source: "oom", counted: Counted::Entries, panels, stacks: &snapshot.stacks };
    let (mut lines, file) = (Vec::new(), tempfile::tempfile().expect("a file"));
    export::json_lines(&page, &mut lines).expect("rows");
    export::parquet(&page, &file).expect("a file");

    let file = SerializedFileReader::new(file).expect("a Parquet file");
    assert!(file.metadata().num_row_groups() > 1);
    let lines = String::from_utf8(lines).expect("UTF-8");
    let mut rows = file.get_row_iter(None).expect("rows");
    let mut count = 0;
    for line in lines.lines() {
        let row = rows.next().expect("as many rows").expect("a row");
        let json: Value = serde_json::from_str(line).expect("JSON");
        for (column, field) in row.get_column_iter() {
            assert_eq!(value(field), expected(&json, column), "row {count}: {column}");
        }
        assert_eq!(row.len(), 19);
        count += 1;
    }
    assert!(rows.next().is_none());
    assert_eq!(count, 273 * 600);
}
