//! `millpond conf "STRING"`, `millpond conf --from-env`: what settings do, or what is wrong with them.

use clap::ValueEnum;
use millpond::config::{Dialect, EnvExplanation, Variable, explain, explain_env};
use millpond_report::conf;

use super::Answer;
use crate::codes::Code;
use crate::failure::{Failure, Stop};
use crate::shell::Shell;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A settings string, as PYTORCH_CUDA_ALLOC_CONF holds it
    #[arg(required_unless_present = "from_env", allow_hyphen_values = true)]
    string: Option<String>,

    /// Explain the variables of this environment, and who wins
    #[arg(long, conflicts_with = "string")]
    from_env: bool,

    /// Whose grammar the string is held to
    #[arg(long, value_enum, default_value_t, conflicts_with = "from_env")]
    dialect: Grammar,

    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

/// A dialect as the command line spells it.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Grammar {
    /// PyTorch's, with all its tolerance
    #[default]
    Torch,
    /// MILLPOND_CONF's: the same grammar to the letter, and Millpond's own keys
    Millpond,
}

/// Explains the string or the environment; a fault in it is an error.
pub fn run(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    match &args.string {
        Some(string) => of_string(string, args, shell),
        None => of_environment(args, shell),
    }
}

fn of_string(string: &str, args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    let dialect = match args.dialect {
        Grammar::Torch => Dialect::Torch,
        Grammar::Millpond => Dialect::Millpond,
    };
    let explanation = explain(string, dialect);
    match args.json {
        true => shell.line(&conf::json(&explanation, dialect))?,
        false => shell.print(&conf::text(&explanation, shell.paint))?,
    }
    match explanation.faults.first() {
        None => Ok(Answer::Done),
        Some(fault) => Err(refused(&fault.error.to_string(), explanation.faults.len())),
    }
}

fn of_environment(args: &Args, shell: &mut Shell) -> Result<Answer, Stop> {
    if let Some(variable) = VARIABLES.iter().find(|variable| is_not_text(variable.name())) {
        let name = variable.name();
        return Err(Failure::new(Code::BadSetting, format!("the value of {name} is not valid UTF-8")).into());
    }
    let env = explain_env(&|name: &str| std::env::var(name).ok());
    match args.json {
        true => shell.line(&conf::json_env(&env))?,
        false => shell.print(&conf::text_env(&env, shell.paint))?,
    }
    match &env.outcome {
        Ok(_) => Ok(Answer::Done),
        Err(error) => Err(refused(&error.to_string(), faults(&env))),
    }
}

const VARIABLES: [Variable; 4] = [Variable::Cuda, Variable::Hip, Variable::Alloc, Variable::Millpond];

fn is_not_text(name: &str) -> bool {
    matches!(std::env::var(name), Err(std::env::VarError::NotUnicode(_)))
}

fn faults(env: &EnvExplanation) -> usize {
    env.variables.iter().map(|(_, explanation)| explanation.faults.len()).sum()
}

/// The first fault, and how many there are.
fn refused(first: &str, faults: usize) -> Stop {
    let more = match faults {
        0 | 1 => String::new(),
        faults => format!(" (and {} more)", faults - 1),
    };
    Failure::new(Code::BadSetting, format!("{first}{more}")).into()
}
