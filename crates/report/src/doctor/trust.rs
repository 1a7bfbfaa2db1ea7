//! How far the recording can be trusted, and what to record next time.

use millpond_doctor::Diagnosis;
use millpond_doctor::diagnosis::Evidence;
use millpond_driver::Bytes;

use crate::count;
use crate::words::paragraph;

/// What to put into a program before it runs out again.
const RECORD: &str = r#"    import torch
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    torch._C._cuda_attach_out_of_memory_observer(
        lambda device, *_: torch.cuda.memory._dump_snapshot(f"oom-{device}.pickle"))
"#;

/// What is needed instead of the text of an error alone.
pub const COLLECT: &str = "the doctor reads memory snapshots. Call torch.cuda.memory._record_memory_history() at the start of the \
                           program, and torch.cuda.memory._dump_snapshot(\"oom.pickle\") when it fails; keep the text of the \
                           error as well: how much was asked for, how much PyTorch had reserved, how much was free on the device";

pub fn text(diagnosis: &Diagnosis) -> String {
    if diagnosis.treatment.is_none() {
        return nothing(diagnosis);
    }
    let evidence = &diagnosis.trust;
    let Evidence { decisions, reproduced, .. } = *evidence;
    let order = match evidence.order {
        millpond::TieOrder::Registration => "registration, as PyTorch 2.15 has it",
        millpond::TieOrder::Address => "address, as older PyTorch has it",
    };
    let mut said = match decisions {
        0 => "The trace holds no allocation to compare with.".to_owned(),
        _ => format!(
            "A replay of the recorded settings makes {reproduced} of {decisions} recorded decisions just so, ties among free \
             blocks by {order}."
        ),
    };
    if evidence.overflowed {
        said += " Entries of the trace were overwritten: its beginning is lost.";
    }
    if evidence.older_blocks > 0 {
        let blocks = count(evidence.older_blocks, "block was", "blocks were");
        let held = Bytes(evidence.older_reserved);
        said += &format!(" When it began, {blocks} in use and {held} reserved.");
    } else {
        said += " It begins with no block in use.";
    }
    if evidence.after_unwind {
        said += " The file was written after the error had unwound the stack and freed memory: the account above is the final \
                 state taken back to the error.";
    }
    if evidence.contradictions > 0 {
        let entries = count(evidence.contradictions, "entry does", "entries do");
        said += &format!(" {entries} not fit the state they should lead to: the figures above may be off by those.");
    }
    let mut text = paragraph(&said, 2);
    if evidence.overflowed || evidence.after_unwind || diagnosis.moment.stack.is_empty() {
        text += "  For a recording that says more, from the start and written at the error:\n";
        text += RECORD;
    }
    text
}

fn nothing(diagnosis: &Diagnosis) -> String {
    let said = match &diagnosis.not_replayed {
        Some(_) => {
            "The trace could not be replayed, so nothing is known of how well it is understood. Record it like this:"
        }
        None => {
            "The state is what the file says. To learn why it came about and what helps, record a trace, from the start:"
        }
    };
    format!("{}{RECORD}", paragraph(said, 2))
}
