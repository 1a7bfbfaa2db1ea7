//! Comparisons with recordings.

use millpond_replay::parity::{Difference, FileReport, Summary};

use crate::{Paint, plain};

/// `{"schema", "files", "identical", "decisions", "different"}`.
pub fn json(summary: &Summary) -> String {
    // The shape is the library's own and carries its schema. Texts and numbers alone: this does not fail.
    serde_json::to_string(summary).unwrap_or_default()
}

/// What became of one file: a line, and at a difference both sides with the rule that decides.
pub fn file(report: &FileReport, paint: Paint) -> String {
    let FileReport { file, decisions, unordered_frees, outcome } = report;
    let file = plain(file);
    match outcome {
        Ok(None) => {
            let how = if *unordered_frees { ", unordered frees" } else { "" };
            format!("{}  {file}  {decisions} decisions{how}\n", paint.good("identical"))
        }
        Ok(Some(Difference { request, what, expected, got, rule, .. })) => format!(
            "{}  {file}  request {request}: {what}, decided by {rule}\n  recorded  {}\n  here      {}\n",
            paint.bad("different"),
            plain(expected),
            plain(got)
        ),
        Err(error) => format!("{}  {file}  {}\n", paint.bad("unreadable"), plain(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_both_sides_and_the_rule() {
        let difference = Difference {
            file: "a__off.out.jsonl".into(),
            request: 7,
            what: "address",
            expected: "0x200000".into(),
            got: "0x0".into(),
            rule: "R1.17",
        };
        let outcome = Ok(Some(difference));
        let report = FileReport { file: "a__off.out.jsonl".into(), decisions: 6, unordered_frees: false, outcome };
        assert_eq!(
            file(&report, Paint::OFF),
            "different  a__off.out.jsonl  request 7: address, decided by R1.17\n  recorded  0x200000\n  here      0x0\n"
        );
        let json: serde_json::Value = serde_json::from_str(&json(&Summary::new(&[report]))).unwrap();
        assert_eq!((&json["schema"], &json["different"][0]["request"]), (&1.into(), &7.into()));
    }
}
