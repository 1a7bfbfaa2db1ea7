//! Numbers as C++'s `stoull` and `stod` read them (R10.8): the longest prefix that is a number counts, the rest is ignored.

/// Why a token is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRead {
    /// No digit where one must stand (`std::invalid_argument`).
    NoDigits,
    /// Digits, but beyond the type (`std::out_of_range`).
    OutOfRange,
}

/// A number and how many bytes of the token it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read<T> {
    /// The number.
    pub value: T,
    /// The bytes it was read from; less than the token's length when something trails.
    pub len: usize,
}

/// An unsigned number in decimal, as `stoull`. A minus wraps around: "-1" is 2⁶⁴ − 1.
pub fn stoull(token: &str) -> Result<Read<u64>, NotRead> {
    let sign = sign_len(token);
    let digits = count(&token[sign..], |b| b.is_ascii_digit());
    if digits == 0 {
        return Err(NotRead::NoDigits);
    }
    let len = sign + digits;
    let magnitude: u64 = token[sign..len].parse().map_err(|_| NotRead::OutOfRange)?;
    let value = if token.starts_with('-') { magnitude.wrapping_neg() } else { magnitude };
    Ok(Read { value, len })
}

/// A floating point number as `stod` in the C locale: decimal, hexadecimal, infinity or not-a-number.
pub fn stod(token: &str) -> Result<Read<f64>, NotRead> {
    let sign = sign_len(token);
    let read = magnitude(&token[sign..])?;
    let value = if token.starts_with('-') { -read.value } else { read.value };
    Ok(Read { value, len: sign + read.len })
}

fn magnitude(text: &str) -> Result<Read<f64>, NotRead> {
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("inf") {
        let len = if lower.starts_with("infinity") { 8 } else { 3 };
        return Ok(Read { value: f64::INFINITY, len });
    }
    if lower.starts_with("nan") {
        return Ok(Read { value: f64::NAN, len: 3 + nan_tag_len(&text[3..]) });
    }
    match lower.strip_prefix("0x").and_then(hexadecimal) {
        Some(read) => in_range(read.value, read.len + 2, read.is_exact),
        None => decimal(text),
    }
}

fn decimal(text: &str) -> Result<Read<f64>, NotRead> {
    let (whole, fraction) = point(text, |b| b.is_ascii_digit());
    if whole + fraction == 0 {
        return Err(NotRead::NoDigits);
    }
    let mantissa = if fraction == 0 && !text[whole..].starts_with('.') { whole } else { whole + 1 + fraction };
    let len = mantissa + exponent_len(&text[mantissa..], b'e');
    let value: f64 = text[..len].parse().expect("digits, a point and an exponent");
    // Below the normal numbers no decimal of sane length is exact but zero.
    let is_zero = !text[..mantissa].bytes().any(|b| matches!(b, b'1'..=b'9'));
    in_range(value, len, is_zero)
}

/// C reports the two ends of the range: infinity, and what was rounded below the smallest normal number.
fn in_range(value: f64, len: usize, is_exact: bool) -> Result<Read<f64>, NotRead> {
    if value.is_infinite() || !(value.is_normal() || is_exact) {
        return Err(NotRead::OutOfRange);
    }
    Ok(Read { value, len })
}

struct Hexadecimal {
    value: f64,
    len: usize,
    is_exact: bool,
}

/// What follows "0x"; none when no digit does, and then the number is the 0 before the x.
fn hexadecimal(text: &str) -> Option<Hexadecimal> {
    let (whole, fraction) = point(text, |b| b.is_ascii_hexdigit());
    if whole + fraction == 0 {
        return None;
    }
    let mantissa = if fraction == 0 && !text[whole..].starts_with('.') { whole } else { whole + 1 + fraction };
    let exponent = exponent_len(&text[mantissa..], b'p');

    // 60 bits are kept and the lowest remembers whether anything was lost, so that the one rounding below is right.
    let mut bits: u64 = 0;
    let mut scale: i64 = -4 * fraction as i64;
    for digit in text[..mantissa].chars().filter_map(|c| c.to_digit(16)) {
        if bits >> 56 == 0 {
            bits = bits << 4 | u64::from(digit);
        } else {
            bits |= u64::from(digit != 0);
            scale += 4;
        }
    }
    if exponent > 0 {
        let written = &text[mantissa + 1..mantissa + exponent];
        let beyond = if written.starts_with('-') { -BEYOND } else { BEYOND };
        scale = scale.saturating_add(written.parse().unwrap_or(beyond));
    }
    let value = scaled(bits, scale);
    let is_exact = scaled_back(value, scale) == bits;
    Some(Hexadecimal { value, len: mantissa + exponent, is_exact })
}

/// An exponent of two beyond every number, small enough to be added to.
const BEYOND: i64 = 1 << 40;

/// `bits` × 2^`scale`. Results below the normal numbers may be rounded twice; those are refused anyway.
fn scaled(bits: u64, scale: i64) -> f64 {
    times_power_of_two(bits as f64, scale)
}

/// `value` ÷ 2^`scale`, which is the bits it came from if nothing was lost.
fn scaled_back(value: f64, scale: i64) -> u64 {
    times_power_of_two(value, -scale) as u64
}

fn times_power_of_two(mut value: f64, scale: i64) -> f64 {
    let mut left = scale.clamp(-4400, 4400);
    while left != 0 && value != 0.0 && value.is_finite() {
        let step = left.clamp(-1000, 1000);
        value *= 2f64.powi(step as i32);
        left -= step;
    }
    value
}

fn sign_len(text: &str) -> usize {
    usize::from(text.starts_with(['+', '-']))
}

fn count(text: &str, is_digit: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|&b| is_digit(b)).count()
}

/// The number of digits before and after the point.
fn point(text: &str, is_digit: impl Fn(u8) -> bool) -> (usize, usize) {
    let whole = count(text, &is_digit);
    let fraction = text[whole..].strip_prefix('.').map_or(0, |rest| count(rest, &is_digit));
    (whole, fraction)
}

/// The length of an exponent such as `e-12`; 0 when no digit follows, for then the letter is not the number's.
fn exponent_len(text: &str, letter: u8) -> usize {
    if text.bytes().next().is_none_or(|b| b.to_ascii_lowercase() != letter) {
        return 0;
    }
    let sign = sign_len(&text[1..]);
    match count(&text[1 + sign..], |b| b.is_ascii_digit()) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

/// The `(tag)` that may follow nan.
fn nan_tag_len(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('(') else {
        return 0;
    };
    let tag = count(rest, |b| b.is_ascii_alphanumeric() || b == b'_');
    if rest[tag..].starts_with(')') { tag + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(token: &str) -> Result<u64, NotRead> {
        stoull(token).map(|read| read.value)
    }

    fn real(token: &str) -> Result<f64, NotRead> {
        stod(token).map(|read| read.value)
    }

    #[test]
    fn r10_8_integers_ignore_what_trails() {
        assert_eq!(stoull("12abc"), Ok(Read { value: 12, len: 2 }));
        assert_eq!(stoull("512M"), Ok(Read { value: 512, len: 3 }));
        assert_eq!(whole("0x10"), Ok(0));
        assert_eq!(whole("1.9"), Ok(1));
        assert_eq!(whole("+7"), Ok(7));
        assert_eq!(whole("007"), Ok(7));
    }

    #[test]
    fn r10_8_a_minus_wraps() {
        assert_eq!(whole("-1"), Ok(u64::MAX));
        assert_eq!(whole("-18446744073709551615"), Ok(1));
        assert_eq!(whole("-18446744073709551616"), Err(NotRead::OutOfRange));
    }

    #[test]
    fn r10_8_integers_without_digits_or_beyond_64_bits() {
        for token in ["abc", "", "-", "+", "+-1", "True", "٣"] {
            assert_eq!(whole(token), Err(NotRead::NoDigits), "{token}");
        }
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(whole("18446744073709551616"), Err(NotRead::OutOfRange));
    }

    #[test]
    fn r10_8_doubles_ignore_what_trails() {
        assert_eq!(stod("0.8x"), Ok(Read { value: 0.8, len: 3 }));
        assert_eq!(stod("5e"), Ok(Read { value: 5.0, len: 1 }));
        assert_eq!(stod("5e+"), Ok(Read { value: 5.0, len: 1 }));
        assert_eq!(stod("-.5e1"), Ok(Read { value: -5.0, len: 5 }));
        assert_eq!(stod("5."), Ok(Read { value: 5.0, len: 2 }));
        assert_eq!(stod("1.2.3"), Ok(Read { value: 1.2, len: 3 }));
        assert_eq!(stod("40G"), Ok(Read { value: 40.0, len: 2 }));
    }

    #[test]
    fn r10_8_doubles_have_names_and_sixteen_digits() {
        assert_eq!(stod("Infinity"), Ok(Read { value: f64::INFINITY, len: 8 }));
        assert_eq!(real("-infx"), Ok(f64::NEG_INFINITY));
        assert!(real("nan").unwrap().is_nan());
        assert_eq!(stod("NaN(7)x").unwrap().len, 6);
        assert_eq!(stod("nan(7").unwrap().len, 3);
        assert_eq!(stod("0x1.8p-1"), Ok(Read { value: 0.75, len: 8 }));
        assert_eq!(stod("0x"), Ok(Read { value: 0.0, len: 1 }));
        assert_eq!(real("0x10"), Ok(16.0));
        assert_eq!(real("0x.8"), Ok(0.5));
        assert_eq!(real("0x1.00000000000008"), Ok(1.0));
        assert_eq!(real("0x1.000000000000080000000001"), Ok(1.0 + f64::EPSILON));
    }

    #[test]
    fn r10_8_doubles_without_digits_or_out_of_range() {
        for token in ["", ".", "-", "abc", "e5", "-x1"] {
            assert_eq!(real(token), Err(NotRead::NoDigits), "{token}");
        }
        for token in ["1e999", "-1e999", "1e-999", "1e-310", "0x1p99999999999999999999", "0x1p-99999999999999999999"] {
            assert_eq!(real(token), Err(NotRead::OutOfRange), "{token}");
        }
        assert_eq!(real("0x1p-1074"), Ok(f64::from_bits(1)));
        assert_eq!(real("0x1p-1075"), Err(NotRead::OutOfRange));
        assert_eq!(real("0e999"), Ok(0.0));
        assert_eq!(real("0x0p99999999999999999999"), Ok(0.0));
    }
}
