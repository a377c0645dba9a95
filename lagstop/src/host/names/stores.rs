//! What was read of lists of all containers, which are too long to be read for each.

use std::{collections::HashMap, sync::Arc};

use super::trusted::Stamp;

/// What was read of each file, and when: all containers ask for the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores(pub(super) HashMap<String, Store>);

/// A file, and the first name of each container in it, by id.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) stamp: Option<Stamp>,
    pub(super) names: Arc<HashMap<String, String>>,
}
