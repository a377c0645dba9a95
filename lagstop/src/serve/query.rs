//! What stands behind the question mark.

use hyper::Request;

/// What stands behind the question mark of an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'r>(&'r str);

impl<'r> Query<'r> {
    pub(super) fn of<B>(request: &'r Request<B>) -> Self {
        Self(request.uri().query().unwrap_or_default())
    }

    /// The number with this name. `Some(None)` if it is not there, `None` if it is no number.
    pub(super) fn number(self, name: &str) -> Option<Option<u64>> {
        let mut given = self.0.split('&').filter_map(|part| part.split_once('='));
        match given.find(|(key, _)| *key == name) {
            None => Some(None),
            Some((_, value)) => value.parse().ok().map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let query = Query("a=1&b=x&c=18446744073709551616&d");
        assert_eq!(query.number("a"), Some(Some(1)));
        assert_eq!(["b", "c"].map(|name| query.number(name)), [None; 2]);
        assert_eq!(["d", "e", ""].map(|name| query.number(name)), [Some(None); 3]);
    }
}
