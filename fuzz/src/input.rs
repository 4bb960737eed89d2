//! How the bytes of an input are read: the first line chooses, the others are documents.

/// An input. Its first line has one character for each choice, as far as it goes.
pub(crate) struct Input<'a> {
    choices: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn of(data: &'a [u8]) -> Self {
        let (choices, rest) = first_line(data);
        Self { choices, rest }
    }

    /// The next choice: `0` is the first of `all`, and so on, again and again. A choice that is not there is the first.
    pub(crate) fn choose<T>(&mut self, all: &'a [T]) -> &'a T {
        let choice = match self.choices {
            [] => 0,
            [choice, rest @ ..] => {
                self.choices = rest;
                choice.wrapping_sub(b'0')
            }
        };
        &all[usize::from(choice) % all.len()]
    }

    /// The next line.
    pub(crate) fn line(&mut self) -> &'a [u8] {
        let (line, rest) = first_line(self.rest);
        self.rest = rest;
        line
    }

    /// All that is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

fn first_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_chooses_and_the_others_are_documents() {
        let mut input = Input::of(b"21\n{}\na\nb");
        assert_eq!(*input.choose(&["a", "b", "c"]), "c");
        assert_eq!(*input.choose(&[1]), 1);
        assert_eq!(*input.choose(&[5, 6]), 5);
        assert_eq!((input.line(), input.rest()), (&b"{}"[..], &b"a\nb"[..]));
    }

    #[test]
    fn nothing_is_an_input_too() {
        let mut input = Input::of(b"");
        assert_eq!((*input.choose(&[7, 8]), input.line(), input.rest()), (7, &b""[..], &b""[..]));
    }
}
