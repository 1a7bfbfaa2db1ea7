//! Numbers and foreign texts, as words.

use std::borrow::Cow;
use std::fmt::Write;

/// `1 device`, `2 devices`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// `text` with every control character but the end of a line written out, so that a file cannot steer a terminal.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_safe = |c: char| c == '\n' || !(c.is_control() || is_bidirectional(c));
    if text.chars().all(is_safe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_safe(c) {
            safe.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(safe, "{}", c.escape_default());
        }
    }
    Cow::Owned(safe)
}

/// How wide a paragraph may be.
pub(crate) const WIDTH: usize = 100;

/// `text` as a paragraph, every line indented by `indent` and ended by a line feed.
pub fn paragraph(text: &str, indent: usize) -> String {
    let margin = " ".repeat(indent);
    let mut paragraph = String::new();
    for line in text.lines() {
        let mut width = 0;
        for word in line.trim_end().split(' ') {
            let letters = word.chars().count();
            if width == 0 || indent + width + 1 + letters > WIDTH {
                if width > 0 {
                    paragraph.push('\n');
                }
                paragraph.push_str(&margin);
                width = letters;
            } else {
                paragraph.push(' ');
                width += 1 + letters;
            }
            paragraph.push_str(word);
        }
        paragraph.push('\n');
    }
    paragraph
}

/// A time in microseconds.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// Characters that make a terminal show a text in another order than it is written.
fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_lose_their_power() {
        assert_eq!(plain("a\x1b[2Jb\r\u{202e}"), "a\\u{1b}[2Jb\\r\\u{202e}");
        assert!(matches!(plain("two\nlines, größer"), Cow::Borrowed(_)));
    }

    #[test]
    fn paragraphs_keep_within_their_width() {
        let text = "word ".repeat(60);
        let wrapped = paragraph(text.trim_end(), 4);
        assert!(wrapped.lines().all(|line| line.len() <= WIDTH && line.starts_with("    word")));
        assert_eq!(wrapped.split_whitespace().count(), 60);
        assert_eq!(paragraph("", 4), "");
        assert_eq!(paragraph("a\nb", 1), " a\n b\n");
        assert_eq!(paragraph(&"x".repeat(300), 0).len(), 301);
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(count(0, "file", "files"), "0 files");
    }
}
