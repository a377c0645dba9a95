//! What a tool answers: never longer than an assistant can read, and it says what was left out.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{names::Names, trouble::Trouble};

/// Bytes of an answer as JSON.
pub(super) const MOST_BYTES: usize = 40_000;
/// Items of a list, unless asked otherwise, and at most.
const ITEMS: u64 = 10;
pub(super) const MOST_ITEMS: u64 = 50;

#[derive(Debug)]
pub(super) struct Answer {
    /// In a few sentences.
    pub(super) text: String,
    /// All of it.
    pub(super) data: Value,
}

/// A part of a list, from its beginning.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct List<T> {
    items: Vec<T>,
    /// Number of items that were left out, to keep the answer short. A larger `limit` may show more.
    left_out: usize,
}

impl<T> List<T> {
    /// The first `most` of these.
    pub(super) fn of(items: impl IntoIterator<Item = T>, most: usize) -> Self {
        let mut items = items.into_iter();
        let shown = items.by_ref().take(most).collect();
        Self { items: shown, left_out: items.count() }
    }

    /// `items`, which are the first of `count`.
    pub(super) fn some_of(items: impl IntoIterator<Item = T>, count: usize) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let left_out = count.saturating_sub(items.len());
        Self { items, left_out }
    }
}

/// How many items a client asked for.
pub(super) fn limit(asked: Option<u64>) -> Result<usize, Trouble> {
    let asked = asked.unwrap_or(ITEMS);
    let is_fine = (1..=MOST_ITEMS).contains(&asked);
    let wrong = Trouble::Range { name: "limit", least: 1, most: MOST_ITEMS };
    usize::try_from(asked).ok().filter(|_| is_fine).ok_or(wrong)
}

/// The answer that `make` makes with `most` items in each list, or with fewer where that is too long; `text` says it in
/// a few sentences.
pub(super) fn bounded<T: Serialize>(
    most: usize,
    names: &Names,
    text: &str,
    make: impl Fn(usize) -> T,
) -> Result<Answer, Trouble> {
    let mut most = most;
    loop {
        let mut data = serde_json::to_value(make(most))?;
        names.mark_all(&mut data);
        if most == 0 || data.to_string().len() <= MOST_BYTES {
            return Ok(Answer { text: names.mark(text), data });
        }
        most /= 2;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_answer_has_fewer_items_and_says_so() {
        let answer = bounded(50, &Names::default(), "a", |most| List::of(vec!["x".repeat(10_000); 60], most)).unwrap();
        // Texts are cut, too.
        assert_eq!(answer.data["left_out"], 10);
        let make = |most| List::of((0..60).map(|n| vec![n; 1_000]), most);
        let answer = bounded(50, &Names::default(), "a", make).unwrap();
        assert!(answer.data.to_string().len() <= MOST_BYTES);
        assert_eq!((answer.data["items"].as_array().unwrap().len(), &answer.data["left_out"]), (12, &json!(48)));
    }

    #[test]
    fn limits_have_limits() {
        assert_eq!((limit(None).unwrap(), limit(Some(50)).unwrap()), (10, 50));
        for wrong in [0, 51, u64::MAX] {
            assert_eq!(limit(Some(wrong)).unwrap_err().to_string(), "`limit` must be from 1 to 50");
        }
    }
}
