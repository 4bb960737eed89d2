//! `Warning` headers. There are never many, and they are never long: the real server has the same limits.

use std::collections::HashSet;

use http::{HeaderValue, Response, header};

use super::Body;

/// Characters of all warnings together, from which on each of them is cut.
const TOGETHER: usize = 4 * 1024;
/// Characters of a warning that is cut.
const EACH: usize = 256;

/// Adds warnings to those that an answer has, each once.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    if !warnings.is_empty() {
        let told = [told(response), warnings.to_vec()].concat();
        tell(response, &told);
    }
}

/// Puts a warning before those that an answer has.
pub(crate) fn warn_first(response: &mut Response<Body>, warning: &str) {
    let told = [vec![warning.to_owned()], told(response)].concat();
    tell(response, &told);
}

fn told(response: &Response<Body>) -> Vec<String> {
    response.headers().get_all(header::WARNING).iter().filter_map(text_of).collect()
}

fn tell(response: &mut Response<Body>, warnings: &[String]) {
    let headers = response.headers_mut();
    headers.remove(header::WARNING);
    for text in limited(warnings.iter().map(String::as_str)) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

/// What a header says.
fn text_of(header: &HeaderValue) -> Option<String> {
    let quoted = std::str::from_utf8(header.as_bytes()).ok()?.strip_prefix("299 - \"")?.strip_suffix('"')?;
    let mut text = String::with_capacity(quoted.len());
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        text.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    Some(text)
}

/// As many as there may be. From the first that does not fit, all of them are cut, and then they end where they are too
/// many.
fn limited<'a>(warnings: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let mut told: Vec<&str> = Vec::new();
    let (mut written, mut cutting) = (0, false);
    for text in warnings {
        if cutting && written >= TOGETHER {
            break;
        }
        if text.is_empty() || text.contains(char::is_control) || !seen.insert(text) {
            continue;
        }
        told.push(text);
        written += text.chars().count();
        if !cutting && written > TOGETHER {
            cutting = true;
            told.iter_mut().for_each(|text| *text = cut(text));
            written = told.iter().map(|text| text.chars().count()).sum();
        } else if cutting && let Some(last) = told.last_mut() {
            written -= last.chars().count();
            *last = cut(last);
            written += last.chars().count();
        }
    }
    told
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(EACH).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_none_that_cannot_be_written() {
        let warnings = ["a", "", "a", "b\nc", "ä\\\"", "b"];
        assert_eq!(limited(warnings.into_iter()), ["a", "ä\\\"", "b"]);
    }

    #[test]
    fn what_does_not_fit_cuts_all_of_them() {
        let long = ["a", "b", "c", "d"].map(|letter| letter.repeat(2000));
        let two = limited(long[..2].iter().map(String::as_str));
        assert_eq!(two.iter().map(|text| text.len()).collect::<Vec<_>>(), [2000, 2000]);
        let four = limited(long.iter().map(String::as_str));
        assert_eq!(four.iter().map(|text| text.len()).collect::<Vec<_>>(), [EACH; 4]);
    }

    #[test]
    fn a_hundred_thousand_are_as_many_as_fit() {
        let many: Vec<String> = (0..100_000).map(|index| format!("unknown field \"spec.x[{index}]\"")).collect();
        let mut response = Response::new(Body::default());
        warn(&mut response, &many);
        let told = response.headers().get_all(header::WARNING).iter().count();
        assert!((100..300).contains(&told), "{told}");
        warn(&mut response, &["last".to_owned()]);
        assert_eq!(response.headers().get_all(header::WARNING).iter().count(), told);
    }

    #[test]
    fn what_was_told_is_read_again() {
        let mut response = Response::new(Body::default());
        warn(&mut response, &["a \"quoted\" ä\\".to_owned()]);
        warn(&mut response, &["b".to_owned(), "a \"quoted\" ä\\".to_owned()]);
        let headers: Vec<&[u8]> =
            response.headers().get_all(header::WARNING).iter().map(|one| one.as_bytes()).collect();
        assert_eq!(headers, ["299 - \"a \\\"quoted\\\" ä\\\\\"".as_bytes(), b"299 - \"b\""]);
    }
}
