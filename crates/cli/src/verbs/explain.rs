//! `millpond explain MP0007`: what an error code means.

use millpond_report::{Document, Paint};
use serde_json::{Value, json};

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The code, such as MP0007; all are listed without one
    code: Option<String>,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// Explains one code, or lists all.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    match &args.code {
        Some(text) => {
            let code = Code::find(text).ok_or_else(|| {
                let last = Code::ALL.last().map_or_else(String::new, Code::to_string);
                Failure::new(Code::Unexplained, format!("there is no error code '{text}'; there are MP0001 to {last}"))
            })?;
            match args.json {
                true => shell.line(&Document::new(value(code)).line())?,
                false => shell.print(&text_of(code, shell.paint))?,
            }
        }
        None if args.json => {
            let codes: Vec<Value> = Code::ALL.iter().map(|&code| value(code)).collect();
            shell.line(&Document::new(json!({ "codes": codes })).line())?;
        }
        None => {
            for code in Code::ALL {
                shell.line(&format!("{code}  {}", code.title()))?;
            }
        }
    }
    Ok(Answer::Done)
}

fn value(code: Code) -> Value {
    json!({ "code": code.to_string(), "title": code.title(), "means": code.meaning(), "do": code.remedy() })
}

fn text_of(code: Code, paint: Paint) -> String {
    let heading = paint.strong(&format!("{code}: {}", code.title()));
    let body = |text| millpond_report::paragraph(text, 2);
    format!("{heading}\n\n{}\n{}\n{}", body(code.meaning()), paint.strong("What to do"), body(code.remedy()))
}
