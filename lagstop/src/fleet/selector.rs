//! Which series are asked for.

use std::fmt;

use thiserror::Error;

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    label: String,
    is_regex: bool,
    value: String,
}

/// What is no condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a condition: write LABEL=VALUE or LABEL=~REGEX, e.g. cluster=prod")]
pub struct MatcherError(String);

impl Matcher {
    /// `NAME=VALUE`, or `NAME=~REGEX`.
    ///
    /// # Errors
    /// When that is not what it is; says how to write it.
    pub fn parse(text: &str) -> Result<Self, MatcherError> {
        let wrong = || MatcherError(text.to_owned());
        let (label, value) = text.split_once('=').ok_or_else(wrong)?;
        let is_name = label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(wrong());
        }
        let (is_regex, value) = value.strip_prefix('~').map_or((false, value), |regex| (true, regex));
        Ok(Self { label: label.to_owned(), is_regex, value: value.to_owned() })
    }
}

/// In the syntax of PromQL, escaped so that the value cannot end the string.
impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_regex { "=~" } else { "=" };
        write!(f, "{}{sign}\"", self.label)?;
        for c in self.value.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Conditions that every series that is asked for fulfils.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(pub Vec<Matcher>);

impl Selector {
    /// The series called `name` that fulfil these conditions and `more`.
    pub(super) fn of(&self, name: &str, more: &[&str]) -> String {
        let all: Vec<String> =
            more.iter().map(|&it| it.to_owned()).chain(self.0.iter().map(Matcher::to_string)).collect();
        if all.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", all.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_written_as_promql_reads_them() {
        let written = |text: &str| Matcher::parse(text).unwrap().to_string();
        assert_eq!(written("cluster=prod"), r#"cluster="prod""#);
        assert_eq!(written("instance=~node-.+"), r#"instance=~"node-.+""#);
        assert_eq!(written("a=\"} or up{b=\"\\"), r#"a="\"} or up{b=\"\\""#);
        assert_eq!(written("_a1="), r#"_a1="""#);
        for text in ["cluster", "=prod", "1a=b", "a b=c", "a{}=b", ""] {
            assert!(Matcher::parse(text).unwrap_err().to_string().contains("LABEL=VALUE"), "{text}");
        }
    }

    #[test]
    fn conditions_go_into_every_selector() {
        let some = Selector(vec![Matcher::parse("cluster=prod").unwrap()]);
        assert_eq!(some.of("up", &["pod!=\"\""]), r#"up{pod!="",cluster="prod"}"#);
        assert_eq!(Selector::default().of("up", &[]), "up");
    }
}
