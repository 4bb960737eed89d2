//! Amounts such as `500m` or `1.5Gi`, and how they are written after they have been read.

use serde_json::Value;

const NANO: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// What is counted with; more is written, but not compared.
const MOST: i128 = i64::MAX as i128 * NANO;
const PATTERN: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
/// What multiplies with powers of 1024 and of 1000, the greatest first.
const BINARY: [(&str, u32); 6] = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
const DECIMAL: [(&str, i32); 10] =
    [("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0), ("m", -3), ("u", -6), ("n", -9)];

/// How an amount was written, and is written again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Binary,
    Decimal,
    Exponent,
}

/// A number in billionths, and how it was written.
struct Quantity {
    nanos: i128,
    form: Form,
    /// What has no room in that: its digits, and the power of ten they are multiplied with.
    large: Option<(String, i64)>,
    /// Whether it is written as it was read.
    is_kept: bool,
}

/// Why a value is no amount, in the words of the real server.
pub(crate) fn fault(value: &Value) -> Option<String> {
    read(value)?.err()
}

/// An amount as the real server writes it; `None` if it is none.
pub(crate) fn canonical(value: &Value) -> Option<String> {
    match (read(value)?.ok()?, value) {
        (Quantity { is_kept: true, .. }, Value::String(text)) => Some(text.trim().to_owned()),
        (quantity, _) => Some(quantity.written()),
    }
}

/// An amount of a resource as the real server writes it: there are no finer parts than thousandths.
pub(crate) fn rounded(value: &Value) -> Option<String> {
    let mut quantity = read(value)?.ok()?;
    let rest = quantity.nanos % MILLI;
    if rest == 0 || quantity.large.is_some() {
        return canonical(value);
    }
    quantity.nanos += rest.signum() * MILLI - rest;
    Some(quantity.written())
}

/// Two amounts together, written as the first of them.
pub(crate) fn sum(one: &Value, other: &Value) -> Value {
    match (read(one), read(other)) {
        (Some(Ok(mut one)), Some(Ok(other))) => {
            if one.nanos == 0 {
                one.form = other.form;
            }
            one.nanos = (one.nanos + other.nanos).min(MOST);
            one.written().into()
        }
        _ => one.clone(),
    }
}

/// The amount in thousandths, rounded up.
pub(crate) fn millis(value: &Value) -> Option<i128> {
    read(value)?
        .ok()
        .map(|quantity| quantity.nanos.div_euclid(MILLI) + i128::from(quantity.nanos.rem_euclid(MILLI) > 0))
}

/// Whether one amount is more than another; what is none is nothing.
pub(crate) fn is_more(amount: &Value, other: &Value) -> bool {
    millis(amount) > millis(other)
}

fn read(value: &Value) -> Option<Result<Quantity, String>> {
    match value {
        Value::String(text) => Some(Quantity::parse(text.trim())),
        Value::Number(number) => Some(Quantity::parse(&number.to_string())),
        _ => None,
    }
}

impl Quantity {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || PATTERN.to_owned();
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, suffix) = rest.split_at(length);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(wrong());
        }
        let Some((power, bits, form)) = power_of(suffix) else {
            let known = suffix.chars().all(|letter| "eEinumkKMGTP0123456789+-".contains(letter));
            return Err(if known { "unable to parse quantity's suffix".to_owned() } else { wrong() });
        };
        let nanos = scaled(whole, fraction, power, bits);
        // Only what is written in powers of 1024 is cut off.
        let is_large = form != Form::Binary && nanos == MOST;
        let large = is_large.then(|| digits_of(whole, fraction, power));
        let is_kept = text == "0" || is_kept(whole, fraction, (power, bits, form));
        Ok(Self { nanos: if negative { -nanos } else { nanos }, form, large, is_kept })
    }

    /// A number of any size: with the greatest suffix, or the greatest power of 1000, that leaves a whole number.
    fn written_large(&self, digits: &str, power: i64) -> String {
        let sign = if self.nanos < 0 { "-" } else { "" };
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
        let thousands = power.div_euclid(3) * 3;
        if self.form == Form::Exponent {
            let suffix = if thousands == 0 { String::new() } else { format!("e{thousands}") };
            return format!("{sign}{digits}{}{suffix}", zeros(power - thousands));
        }
        let (suffix, unit) = DECIMAL.into_iter().find(|(_, unit)| i64::from(*unit) <= thousands).unwrap_or(("n", -9));
        format!("{sign}{digits}{}{suffix}", zeros(power - i64::from(unit)))
    }

    /// With the greatest suffix that leaves a whole number.
    fn written(&self) -> String {
        if let Some((digits, power)) = &self.large {
            return self.written_large(digits, *power);
        }
        if self.nanos == 0 {
            return "0".to_owned();
        }
        // What is small or broken has no power of 1024.
        let whole = self.nanos % NANO == 0;
        if self.form == Form::Binary && whole && (self.nanos / NANO).abs() >= 1024 {
            let number = self.nanos / NANO;
            let found = BINARY.into_iter().find(|(_, bits)| number % (1 << bits) == 0);
            return found.map_or_else(|| number.to_string(), |(suffix, bits)| format!("{}{suffix}", number >> bits));
        }
        if self.form == Form::Binary && whole {
            return (self.nanos / NANO).to_string();
        }
        for (suffix, power) in DECIMAL {
            let unit = 10_i128.pow((power + 9).unsigned_abs());
            if self.nanos % unit == 0 {
                let number = self.nanos / unit;
                return match (self.form, power) {
                    (Form::Exponent, 0) => number.to_string(),
                    (Form::Exponent, power) => format!("{number}e{power}"),
                    _ => format!("{number}{suffix}"),
                };
            }
        }
        self.nanos.to_string()
    }
}

/// Whether the real server takes a number for well written, whatever its sign and its suffix look like.
fn is_kept(whole: &str, fraction: &str, (power, bits, form): (i32, u32, Form)) -> bool {
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    if form == Form::Binary {
        let digits = bits * 3 / 10 + 1;
        let fits = fraction.is_empty() && u32::try_from(whole.len()).is_ok_and(|length| length + digits <= 15);
        return fits && whole.parse::<i64>().is_ok_and(|number| number & 7 != 0);
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let (digits, scale) = (format!("{whole}{fraction}"), power.saturating_sub(places));
    digits.len() <= 18 && scale >= -9 && scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
}

/// What a suffix multiplies with: a power of ten and one of two.
fn power_of(suffix: &str) -> Option<(i32, u32, Form)> {
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((0, *bits, Form::Binary));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((*power, 0, Form::Decimal));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((power, 0, Form::Exponent))
}

/// The digits of a number without zeros at either end, and the power of ten they are multiplied with.
fn digits_of(whole: &str, fraction: &str, power: i32) -> (String, i64) {
    let places = fraction.len().min(usize::try_from(power.saturating_add(9)).unwrap_or_default());
    let all = format!("{whole}{}", &fraction[..places]);
    let digits = all.trim_end_matches('0');
    let size = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let power = i64::from(power) - size(places) + size(all.len() - digits.len());
    (digits.trim_start_matches('0').to_owned(), power)
}

/// The number in billionths, rounded up; too large is the largest.
fn scaled(whole: &str, fraction: &str, power: i32, bits: u32) -> i128 {
    let fraction: String = fraction.trim_end_matches('0').chars().take(18).collect();
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let Ok(number) = digits.parse::<i128>() else { return MOST };
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let power = power.saturating_add(9).saturating_sub(places);
    let number = number.checked_mul(1_i128 << bits);
    let scaled = match u32::try_from(power) {
        Ok(power) => number.and_then(|number| number.checked_mul(10_i128.checked_pow(power)?)),
        Err(_) => {
            let divisor = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
            number.map(|number| number / divisor + i128::from(number % divisor != 0))
        }
    };
    scaled.unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_are_written_as_the_real_server_writes_them() {
        for (read, written) in [
            (json!("1000m"), "1"),
            (json!("1.5"), "1500m"),
            (json!("1.5Gi"), "1536Mi"),
            (json!("1024Mi"), "1Gi"),
            (json!("100Mi"), "100Mi"),
            (json!("1000Ki"), "1000Ki"),
            (json!("0.5Ki"), "512"),
            (json!("1000k"), "1M"),
            (json!("1e3"), "1e3"),
            (json!(2), "2"),
            (json!(0.1), "100m"),
            (json!("0"), "0"),
            (json!("-500m"), "-500m"),
            (json!("128974848"), "128974848"),
            (json!("0.1n"), "1n"),
            (json!("9223372036854775807"), "9223372036854775807"),
            (json!("-9223372036854775808"), "-9223372036854775808"),
            (json!("99999999999999999999999"), "99999999999999999999999"),
            (json!("12300000000000000000000000000.50"), "12300000000000000000000000000500m"),
            (json!("1000000000000000000000000000000000000000000"), "1000000000000000000000000E"),
            (json!("1e400"), "10e399"),
            (json!("1.5E400"), "1.5E400"),
            (json!("99Ei"), "9223372036854775807"),
            (json!("1E3"), "1E3"),
            (json!("1.5E3"), "1500"),
            (json!("1.5e4"), "1.5e4"),
            (json!("+1"), "+1"),
            (json!("1."), "1."),
            (json!("1.005"), "1.005"),
            (json!(".5"), "500m"),
            (json!("+0.5"), "500m"),
            (json!(" 1 "), "1"),
        ] {
            assert_eq!(canonical(&read).as_deref(), Some(written), "{read}");
        }
        for (read, written) in
            [("1.0001", "1001m"), ("1n", "1m"), ("-1500u", "-2m"), ("1E3", "1E3"), ("1.5Gi", "1536Mi")]
        {
            assert_eq!(rounded(&json!(read)).as_deref(), Some(written), "{read}");
        }
        assert_eq!(sum(&json!("1Gi"), &json!("512Mi")), json!("1536Mi"));
        assert_eq!(fault(&json!("x")).as_deref(), Some(PATTERN));
        assert_eq!(fault(&json!("1x")).as_deref(), Some(PATTERN));
        assert_eq!(fault(&json!("1mm")).as_deref(), Some("unable to parse quantity's suffix"));
        assert_eq!(millis(&json!("1500u")), Some(2));
    }
}
