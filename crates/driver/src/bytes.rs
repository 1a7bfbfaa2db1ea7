//! A number of bytes, with the one parser and the one printer of the project.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
///
/// Written as plain bytes (`1048576`) or as a decimal with a unit: `K`, `M`, `G`, `T`, or `KiB` … `TiB`; always powers
/// of two. Printed exactly where at most two decimals suffice, else rounded to two decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// A text that is not a number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a size: write plain bytes (1048576) or a decimal with K, M, G, T or KiB … TiB (18.5G), below 16 EiB"
)]
pub struct ParseBytesError {
    /// The text as it was given.
    pub text: String,
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, ParseBytesError> {
        let fail = || ParseBytesError { text: text.to_owned() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim();
        let shift = match unit {
            "" | "B" => 0,
            _ => UNITS
                .iter()
                .find(|(letter, _)| {
                    let rest = unit.strip_prefix(*letter).or_else(|| unit.strip_prefix(letter.to_ascii_lowercase()));
                    matches!(rest, Some("" | "iB" | "B" | "ib" | "b"))
                })
                .map(|&(_, shift)| shift)
                .ok_or_else(fail)?,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 || (shift == 0 && !fraction.is_empty()) {
            return Err(fail());
        }
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| fail())? };
        let scale = 10u128.pow(fraction.len() as u32);
        let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| fail())? };
        let whole = whole.checked_shl(shift).filter(|shifted| shifted >> shift == whole).ok_or_else(fail)?;
        let total = whole.checked_add((fraction << shift) / scale).ok_or_else(fail)?;
        u64::try_from(total).map(Bytes).map_err(|_| fail())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().rev().find(|&&(_, shift)| self.0 >= 1 << shift);
        let text = match unit {
            None => format!("{}B", self.0),
            Some(&(letter, shift)) => {
                let value = self.0 as f64 / (1u64 << shift) as f64;
                let digits = format!("{value:.2}");
                let digits = digits.trim_end_matches('0').trim_end_matches('.');
                format!("{digits}{letter}iB")
            }
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_whatever_the_spelling() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("18.5G", 37 << 29),
            ("18.5GiB", 37 << 29),
            ("80g", 80 << 30),
            ("2 MiB", 2 << 20),
            ("1.5K", 1536),
            ("0.25T", 1 << 38),
            ("512B", 512),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_text_in_the_error() {
        for text in [
            "",
            "G",
            ".",
            "1.5",
            "-1",
            "1e9",
            "12X",
            "99999999999T",
            "340282366920938463463374607431768211456T",
            "1..2G",
        ] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert_eq!(error.text, text);
        }
    }

    #[test]
    fn printing_keeps_two_decimals() {
        assert_eq!(Bytes(0).to_string(), "0B");
        assert_eq!(Bytes(140 << 20).to_string(), "140MiB");
        assert_eq!(Bytes(37 << 29).to_string(), "18.5GiB");
        assert_eq!(Bytes(1_234_567).to_string(), "1.18MiB");
    }
}
