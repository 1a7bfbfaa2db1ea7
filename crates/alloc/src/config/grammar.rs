//! From text to tokens (R10.5): `, : [ ]` stand alone, all else is words, whitespace vanishes wherever it stands.

use std::ops::Range;

/// A token and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token without the whitespace that stood in it.
    pub text: String,
    /// Its bytes in the text, from the first to the last character kept.
    pub at: Range<usize>,
}

impl Token {
    /// Whether whitespace stood inside the word: PyTorch joins the parts, the strict dialect refuses them.
    pub fn is_joined(&self) -> bool {
        self.text.len() != self.at.len()
    }

    /// Whether it is one of the four signs, so neither a key nor a value.
    pub fn is_sign(&self) -> bool {
        matches!(self.text.as_str(), "," | ":" | "[" | "]")
    }
}

/// What C's `isspace` holds for whitespace; the vertical tab makes the difference to Rust's own notion.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// Splits a settings string. Never fails: whether the tokens make sense is the dialect's business.
pub fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut in_word = false;
    for (start, c) in text.char_indices() {
        let end = start + c.len_utf8();
        match c {
            ',' | ':' | '[' | ']' => {
                tokens.push(Token { text: c.into(), at: start..end });
                in_word = false;
            }
            c if is_space(c) => {}
            c if in_word => {
                let word = tokens.last_mut().expect("a word was begun");
                word.text.push(c);
                word.at.end = end;
            }
            c => {
                tokens.push(Token { text: c.into(), at: start..end });
                in_word = true;
            }
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokenize(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn r10_5_signs_stand_alone() {
        assert_eq!(words("a:[64:8,>:1],b"), ["a", ":", "[", "64", ":", "8", ",", ">", ":", "1", "]", ",", "b"]);
        assert_eq!(words(",,"), [",", ","]);
        assert!(words("").is_empty());
        assert!(words(" \t\n\x0b\x0c\r").is_empty());
    }

    #[test]
    fn r10_5_whitespace_is_dropped_even_inside_a_word() {
        assert_eq!(words("expand able :\tTr\nue "), ["expandable", ":", "True"]);
        let tokens = tokenize("  expand able:1");
        assert_eq!(tokens[0].at, 2..13);
        assert!(tokens[0].is_joined());
        assert!(!tokens[2].is_joined());
    }

    #[test]
    fn r10_5_only_the_whitespace_of_the_c_locale_counts() {
        assert_eq!(words("a\u{a0}b"), ["a\u{a0}b"]);
        assert_eq!(words("ü : ß"), ["ü", ":", "ß"]);
    }
}
