//! What can be wrong with a workload file.

/// A workload that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}", if *.line == 0 { String::new() } else { format!("line {line}: ") })]
pub struct WorkloadError {
    /// The line, counted from 1; 0 when no line is to blame.
    pub line: u64,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

/// What is wrong with a workload file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read, or is damaged.
    #[error("cannot read the workload: {0}")]
    Io(#[source] std::io::Error),
    /// It unpacks to more than is allowed.
    #[error(
        "the file unpacks to more than {factor} times its packed size; if it is trusted, ask for that to be allowed"
    )]
    Unpacks {
        /// The bound.
        factor: u64,
    },
    /// A line is longer than any request.
    #[error("the line is longer than {limit} bytes, and no request is")]
    LongLine {
        /// The longest that is read, bytes.
        limit: usize,
    },
    /// A line is not JSON.
    #[error("a request is a JSON object such as {{\"op\":\"alloc\",\"id\":0,\"size\":512,\"stream\":0}}: {0}")]
    Json(#[source] serde_json::Error),
    /// An operation that does not exist.
    #[error("unknown op '{op}'{}; known are {}", nearest(.op), super::fields::Kind::names())]
    UnknownOp {
        /// As it was written.
        op: String,
    },
    /// A request without a field that has no default.
    #[error("'{op}' needs the field '{field}'")]
    Missing {
        /// The operation.
        op: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field that no such request has.
    #[error("'{op}' has no field '{field}'; it may have {}", .allowed.join(", "))]
    UnknownField {
        /// The operation.
        op: &'static str,
        /// The field.
        field: String,
        /// What there is.
        allowed: &'static [&'static str],
    },
    /// A field with a value that it cannot have.
    #[error("'{field}' of '{op}' is {wanted}, not {got}")]
    BadValue {
        /// The operation.
        op: &'static str,
        /// The field.
        field: &'static str,
        /// What it may be.
        wanted: &'static str,
        /// As it was written.
        got: String,
    },
}

/// A remark on the operation that was probably meant.
fn nearest(op: &str) -> String {
    match super::fields::Kind::nearest(op) {
        Some(name) => format!(" (did you mean '{name}'?)"),
        None => String::new(),
    }
}
