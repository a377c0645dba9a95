//! Distributions as short words.
//!
//! A word names the buckets that hold something, ascending: how many buckets are left out since the one before, as a letter
//! from `a` for none to `z` for 25, after one `Z` for each further 26; then the count, where it is not 1. `Zc3a` is three
//! durations in bucket 28 and one in bucket 29. The words of several cgroups are separated by spaces; `-` is what was not
//! measured.

use crate::model::{Bucket, Distribution};

const LETTERS: u8 = 26;
const NOT_MEASURED: &str = "-";

/// Adds the word for `distribution`.
pub(super) fn push(words: &mut String, distribution: Option<&Distribution>) {
    let Some(distribution) = distribution else { return words.push_str(NOT_MEASURED) };
    let mut next = 0;
    for (bucket, count) in distribution.buckets() {
        let mut gap = bucket - next;
        while gap >= LETTERS {
            words.push('Z');
            gap -= LETTERS;
        }
        words.push(char::from(b'a' + gap));
        if count != 1 {
            push_number(words, count);
        }
        next = bucket + 1;
    }
}

fn push_number(words: &mut String, mut number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    words.extend(digits[at..].iter().copied().map(char::from));
}

/// Reads a word. The outer `None` means that the word is invalid.
#[expect(clippy::option_option, reason = "no distribution was measured, or the word is none")]
pub(super) fn read(word: &str) -> Option<Option<Distribution>> {
    if word == NOT_MEASURED {
        return Some(None);
    }
    let mut buckets: Vec<(Bucket, u32)> = Vec::with_capacity(word.len() / 2);
    let (mut next, mut gap) = (0u8, 0u8);
    let mut letters = word.as_bytes();
    while let [letter, rest @ ..] = letters {
        letters = rest;
        match letter {
            b'Z' => gap = gap.checked_add(LETTERS)?,
            b'a'..=b'z' => {
                let bucket = next.checked_add(gap)?.checked_add(letter - b'a')?;
                let digits = letters.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (number, rest) = letters.split_at(digits);
                letters = rest;
                let count = if number.is_empty() { 1 } else { parse(number)? };
                buckets.push((bucket, count));
                (next, gap) = (bucket.checked_add(1)?, 0);
            }
            _ => return None,
        }
    }
    if gap > 0 {
        return None;
    }
    Distribution::from_buckets(buckets).map(Some)
}

/// A count: never 0, which is left out.
fn parse(digits: &[u8]) -> Option<u32> {
    let number =
        digits.iter().try_fold(0u32, |number, digit| number.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
    number.filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(buckets: &[(Bucket, u32)]) -> Distribution {
        Distribution::from_buckets(buckets.iter().copied()).unwrap()
    }

    #[test]
    fn words_are_as_documented() {
        let mut words = String::new();
        push(&mut words, Some(&of(&[(28, 3), (29, 1), (143, 120)])));
        assert_eq!(words, "Zc3aZZZZj120");
        assert_eq!(read("Zc3a"), Some(Some(of(&[(28, 3), (29, 1)]))));
        assert_eq!(read("-"), Some(None));
        assert_eq!(read(""), Some(Some(Distribution::default())));
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for word in ["A", "3", "a0", "Z", "aZ", "a99999999999", "ZZZZZZZZZZZZa", "ZZZZZZa", "ä", "a b", "--"] {
            assert_eq!(read(word), None, "{word}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(counts in prop::collection::btree_map(0u8..144, 1u32.., 0..30)) {
            let distribution = Distribution::from_buckets(counts).unwrap();
            let mut word = String::new();
            push(&mut word, Some(&distribution));
            prop_assert_eq!(read(&word), Some(Some(distribution)));
        }

        #[test]
        fn nothing_makes_it_panic(word in "[aZz0-9-]{0,20}") {
            let _ = read(&word);
        }
    }
}
