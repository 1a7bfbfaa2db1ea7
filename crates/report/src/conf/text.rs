//! Settings for people.

use std::fmt::Write;

use millpond::config::{EnvExplanation, Explanation, Fault, Key, Notice, Reaction, Settings};

use super::is_accepted;
use crate::words::paragraph;
use crate::{Paint, plain};

/// Each key and what it does, each fault with its place, and what deserves a word.
pub fn text(explanation: &Explanation, paint: Paint) -> String {
    let mut text = String::new();
    if explanation.text.is_empty() {
        text.push_str("The string is empty: every setting has its default.\n");
    }
    for entry in &explanation.entries {
        let _ = writeln!(text, "{}: {}", paint.strong(entry.key.name()), plain(&entry.value));
        text.push_str(&paragraph(entry.key.about(), 4));
        let default = format!("Default: {}. Allowed: {}.", entry.key.default_text(), entry.key.allowed());
        text.push_str(&paint.faint(paragraph(&default, 4).trim_end()));
        text.push('\n');
    }
    for fault in &explanation.faults {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(&self::fault(fault, paint));
    }
    text.push_str(&notices(&explanation.notices, paint));
    if is_accepted(explanation) {
        let _ = writeln!(text, "\n{}", paint.good("The string is good."));
    }
    text
}

/// Who wins, what each variable says, and the settings that come of it.
pub fn text_env(env: &EnvExplanation, paint: Paint) -> String {
    let mut text = String::new();
    for (variable, explanation) in &env.variables {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{}={}\n", paint.strong(variable.name()), plain(&explanation.text));
        text.push_str(&self::text(explanation, paint));
    }
    for source in &env.sources.ignored {
        let _ = writeln!(text, "\n{}={} is not read.", paint.strong(source.variable.name()), plain(&source.text));
    }
    if env.variables.is_empty() {
        text.push_str("No variable is set: every setting has its default.\n");
    }
    if env.is_caching_disabled {
        text.push_str(
            "\nCaching is turned off: every request goes to the driver, and the settings above do nothing.\n",
        );
    }
    text.push_str(&notices(&env.notices, paint));
    match &env.outcome {
        Ok(settings) => text.push_str(&changed(settings, paint)),
        Err(error) => {
            let _ = writeln!(text, "\n{}", paint.bad(&plain(&error.to_string())));
        }
    }
    text
}

/// The settings that differ from PyTorch's defaults.
fn changed(settings: &Settings, paint: Paint) -> String {
    let default = Settings::default();
    let values = |key| (settings.value_text(key), default.value_text(key));
    let changed = Key::all().map(|key| (key, values(key))).filter(|(_, (value, default))| value != default);
    let lines: Vec<String> = changed
        .map(|(key, (value, default))| format!("  {}: {} (not {default})\n", key.name(), plain(&value)))
        .collect();
    match lines.is_empty() {
        true => "\nIn force: PyTorch's defaults.\n".into(),
        false => format!("\n{}\n{}", paint.strong("In force, where it is not PyTorch's default"), lines.concat()),
    }
}

/// The place in the string, the sentence, the hint, and PyTorch's own reaction.
fn fault(fault: &Fault, paint: Paint) -> String {
    let mut text = place(fault, paint);
    let mut sentence = fault.error.to_string();
    if !text.is_empty() {
        // It ends with what the mark shows.
        let shown = format!(" (at byte {} of \"{}\")", fault.at.start, fault.error.text);
        sentence.truncate(sentence.strip_suffix(&shown).unwrap_or(&sentence).len());
    }
    let sentence = paragraph(&plain(&sentence), 9);
    let _ = write!(text, "{} {}", paint.bad("refused:"), sentence.trim_start());
    if let Some(hint) = &fault.hint {
        text.push_str(&paragraph(&plain(hint), 4));
    }
    let reaction = match &fault.torch {
        Reaction::Raises { exception, text } => format!("PyTorch 2.15 raises {exception}: {text}"),
        Reaction::Aborts { text } => {
            format!("PyTorch 2.15 ends the process (SIGABRT) when torch is imported, and writes: {text}")
        }
        Reaction::Accepts { value: Some(value) } => {
            format!("PyTorch 2.15 accepts this without a word and reads: {value}")
        }
        Reaction::Accepts { value: None } => "PyTorch 2.15 accepts this without a word.".into(),
    };
    text.push_str(&paragraph(&plain(&reaction), 4));
    text
}

/// The string with a mark under what is wrong; nothing when that cannot be shown on one line.
fn place(fault: &Fault, paint: Paint) -> String {
    let string = &fault.error.text;
    let can_be_shown = string.len() <= 96 && string.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if !can_be_shown || fault.at.end > string.len() {
        return String::new();
    }
    let marks = "^".repeat(fault.at.len().max(1));
    format!("  {string}\n  {}{}\n", " ".repeat(fault.at.start), paint.bad(&marks))
}

fn notices(notices: &[Notice], paint: Paint) -> String {
    let say = |notice: &Notice| {
        let message = paragraph(&plain(&notice.message), 6);
        format!("\n{} {}", paint.doubt("note:"), message.trim_start())
    };
    notices.iter().map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::config::{Dialect, explain, explain_env};

    #[test]
    fn the_mark_stands_under_what_is_wrong() {
        let text = text(&explain("expandable_segments:true", Dialect::Torch), Paint::OFF);
        assert!(text.contains("  expandable_segments:true\n                      ^^^^\n"), "{text}");
        assert!(text.contains("did you mean 'True'?"), "{text}");
        assert!(text.contains("PyTorch 2.15 raises ValueError"), "{text}");
        assert!(!text.contains("The string is good."));
    }

    #[test]
    fn a_string_that_no_line_holds_is_not_shown() {
        for string in ["\u{1b}[2Jx", "größe:1", &"x".repeat(10_000)] {
            let text = text(&explain(string, Dialect::Torch), Paint::OFF);
            assert!(!text.contains('^') && !text.contains('\x1b'), "{string}");
        }
    }

    #[test]
    fn an_environment_says_what_is_in_force() {
        let env = |name: &str| (name == "PYTORCH_ALLOC_CONF").then(|| "expandable_segments:True".to_owned());
        let text = text_env(&explain_env(&env), Paint::OFF);
        assert!(text.starts_with("PYTORCH_ALLOC_CONF=expandable_segments:True\n"), "{text}");
        assert!(text.contains("  expandable_segments: True (not False)\n"), "{text}");
        let text = text_env(&explain_env(&|_| None), Paint::OFF);
        assert!(text.contains("No variable is set"), "{text}");
    }
}
