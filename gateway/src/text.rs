//! Bytes of an output stream as text, whatever the pieces they come in.

/// Decodes UTF-8 that arrives in pieces: a character split across two pieces waits for its rest, and what is no UTF-8 becomes U+FFFD,
/// one for each maximal ill-formed part, as Python's `errors="replace"` has it.
#[derive(Debug, Default)]
pub struct TextDecoder {
    /// Beginning of a character whose rest has not come; at most three bytes.
    pending: Vec<u8>,
}

impl TextDecoder {
    /// The text of `bytes`, after what was held back before; empty where all of it is the beginning of one character.
    pub fn decode(&mut self, bytes: &[u8]) -> String {
        if self.pending.is_empty() {
            return self.decode_joined(bytes);
        }
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(bytes);
        self.decode_joined(&joined)
    }

    /// What the end of the stream makes of a character that never became whole.
    pub fn finish(&mut self) -> Option<&'static str> {
        if self.pending.is_empty() {
            return None;
        }
        self.pending.clear();
        Some("\u{fffd}")
    }

    fn decode_joined(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes;
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).expect("just found valid"));
                    let Some(bad) = error.error_len() else {
                        self.pending = after.to_vec();
                        return text;
                    };
                    text.push('\u{fffd}');
                    rest = &after[bad..];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_every_size_give_the_same_text() {
        let text = "aé€𝄞\n".repeat(3);
        for size in 1..=text.len() {
            let mut decoder = TextDecoder::default();
            let text_again: String = text
                .as_bytes()
                .chunks(size)
                .map(|piece| decoder.decode(piece))
                .collect();
            assert_eq!(
                (text_again, decoder.finish()),
                (text.clone(), None),
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn what_is_no_utf8_is_replaced_and_nothing_else() {
        // Python 3.11: b"a\xff\xe2\x82b\xed\xa0\x80".decode("utf-8", "replace")
        let bytes = b"a\xff\xe2\x82b\xed\xa0\x80";
        let expected = "a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}\u{fffd}";
        for size in 1..=bytes.len() {
            let mut decoder = TextDecoder::default();
            let mut replaced: String = bytes.chunks(size).map(|piece| decoder.decode(piece)).collect();
            replaced.push_str(decoder.finish().unwrap_or_default());
            assert_eq!(replaced, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_character_cut_by_the_end_is_shown_as_replaced() {
        let mut decoder = TextDecoder::default();
        assert_eq!(decoder.decode("é".as_bytes().split_at(1).0), "");
        assert_eq!(decoder.finish(), Some("\u{fffd}"));
        assert_eq!(decoder.finish(), None);
    }
}
