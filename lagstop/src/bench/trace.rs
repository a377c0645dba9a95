//! Real traces: how many requests came in each second.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Requests of each second, from the first row's on; those without a row have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTrace(pub Vec<u32>);

/// What is wrong with a file of one.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        path: String,
        /// What is wrong with it.
        source: csv::Error,
    },
    /// A row says something else.
    #[error("{path}, row {row}: {source}. Rows are second,concurrency, such as 17,3; the seconds ascend")]
    Row {
        path: String,
        /// Which row, from 1 on.
        row: usize,
        source: TraceRowError,
    },
}

/// What is wrong with a row.
#[derive(Debug, Error)]
pub enum TraceRowError {
    #[error("the file has no rows")]
    Missing,
    #[error("two numbers are required")]
    Short,
    #[error("{0:?} and {1:?} are not both whole numbers")]
    NoNumbers(String, String),
    #[error("more than {} requests in a second", RequestTrace::MOST_REQUESTS)]
    TooMany,
    #[error("the second is not later than in the previous row")]
    NotLater,
    #[error("the trace is longer than a day")]
    TooLong,
}

impl RequestTrace {
    /// A day; and no host gets more in a second.
    const MOST_SECONDS: u64 = 86_400;
    pub(super) const MOST_REQUESTS: u32 = 100_000;

    /// Reads rows of second,concurrency. A first row of words is a heading.
    ///
    /// # Errors
    /// When it cannot be read, or when a row is invalid.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file =
            std::fs::File::open(path).map_err(|error| TraceError::Read { path: name.clone(), source: error.into() })?;
        Self::parse(&name, file)
    }

    fn parse(name: &str, from: impl io::Read) -> Result<Self, TraceError> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(from);
        let mut counts: Vec<u32> = Vec::new();
        let mut first = None;
        for (row, record) in (1..).zip(reader.records()) {
            let record = record.map_err(|source| TraceError::Read { path: name.to_owned(), source })?;
            let wrong = |source| TraceError::Row { path: name.to_owned(), row, source };
            let (Some(second), Some(count)) = (record.get(0), record.get(1)) else {
                return Err(wrong(TraceRowError::Short));
            };
            let (Ok(second), Ok(count)) = (second.parse::<u64>(), count.parse::<u32>()) else {
                if row == 1 {
                    continue;
                }
                return Err(wrong(TraceRowError::NoNumbers(second.to_owned(), count.to_owned())));
            };
            if count > Self::MOST_REQUESTS {
                return Err(wrong(TraceRowError::TooMany));
            }
            let at = second.checked_sub(*first.get_or_insert(second)).filter(|&at| at >= counts.len() as u64);
            let at = at.ok_or_else(|| wrong(TraceRowError::NotLater))?;
            if at >= Self::MOST_SECONDS {
                return Err(wrong(TraceRowError::TooLong));
            }
            counts.resize(at as usize, 0);
            counts.push(count);
        }
        if counts.is_empty() {
            return Err(TraceError::Row { path: name.to_owned(), row: 1, source: TraceRowError::Missing });
        }
        Ok(Self(counts))
    }

    /// Requests of a second. The trace repeats.
    pub(super) fn at(&self, second: u64) -> u32 {
        let seconds = self.0.len() as u64;
        seconds.checked_sub(1).and_then(|_| self.0.get((second % seconds) as usize)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RequestTrace, String> {
        RequestTrace::parse("t.csv", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_seconds_and_requests() {
        let trace = parse("second,concurrency\n10,3\n 11 , 0\n14,2\n").unwrap();
        assert_eq!(trace, RequestTrace(vec![3, 0, 0, 0, 2]));
        assert_eq!((trace.at(4), trace.at(5), trace.at(9)), (2, 3, 2), "over and over");
        assert_eq!(RequestTrace(vec![]).at(7), 0);
    }

    #[test]
    fn what_is_no_trace_is_said_with_its_row() {
        for (text, why) in [
            ("", "row 1: the file has no rows"),
            ("second,concurrency\n", "the file has no rows"),
            ("1\n", "two numbers are required"),
            ("1,2\n3,many\n", "row 2: \"3\" and \"many\" are not both whole numbers"),
            ("5,1\n5,1\n", "row 2: the second is not later"),
            ("5,1\n4,1\n", "row 2: the second is not later"),
            ("1,-1\n2,-1\n", "row 2"),
            ("0,1\n99999999,1\n", "longer than a day"),
            ("0,4000000\n", "more than 100000"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why), "{text:?}: {said}");
        }
    }
}
