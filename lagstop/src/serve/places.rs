//! How many may follow at a time. They stay for as long as they like, so there are fewer of them than of others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::peer::Peer;

/// Places for followers.
#[derive(Debug)]
pub(super) struct Places {
    /// In all, and of one peer.
    most: usize,
    most_of_one: usize,
    taken: Mutex<HashMap<Peer, usize>>,
}

/// A place. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    peer: Peer,
}

impl Places {
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        Self { most, most_of_one, taken: Mutex::default() }
    }

    /// One for `peer`. `None` where all are taken, or all that it may have.
    pub(super) fn take(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = taken.values().sum::<usize>() >= self.most;
        let own = taken.entry(peer).or_default();
        if is_full || *own >= self.most_of_one {
            if *own == 0 {
                taken.remove(&peer);
            }
            return None;
        }
        *own += 1;
        Some(Place { places: Arc::clone(self), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.peer) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn nobody_has_all_places() {
        let places = Arc::new(Places::new(3, 2));
        let [one, other] = [1, 2].map(|n| Peer::from(IpAddr::from([10, 0, 0, n])));
        let mut taken = vec![places.take(one).unwrap(), places.take(one).unwrap()];
        assert!(places.take(one).is_none(), "two of one");
        taken.push(places.take(other).unwrap());
        assert!(places.take(other).is_none(), "three in all");
        taken.remove(0);
        assert!(places.take(other).is_some());
        drop(taken);
        assert!(places.taken.lock().unwrap().is_empty(), "no memory of who has gone");
    }
}
