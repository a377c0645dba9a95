//! Basic authentication, whose passwords are stored as bcrypt hashes.
//!
//! To try a password takes tens of milliseconds of CPU time, on purpose. So it is done once for a password that is right, one at a
//! time, and after each wrong one nothing is tried for many times as long: who floods lagstop with passwords burns a twentieth of
//! a CPU, and those whose password was right before notice nothing. Few of each who connect may wait, so that others can.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hyper::header::HeaderValue;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::{sync::Mutex as Turn, task::spawn_blocking, time::sleep_until};

use super::peer::Peer;

/// After a wrong password nothing is tried for so many times as long as it took.
const RESTRAINT: u32 = 19;
/// Passwords that wait to be tried. More are turned away.
const MOST_WAITING: usize = 8;
/// The same for each peer.
const MOST_WAITING_EACH: usize = 2;
/// Wrong passwords that are remembered, so that who tries one over and over does not make others wait.
const MOST_WRONG: usize = 64;

/// What is said to a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    /// It was not tried: too many others wait to be.
    TooMany,
}

/// Without them nobody's password is kept.
#[derive(Clone, Copy, Debug, Error)]
#[error("the system has no random numbers yet, which lagstop needs to store passwords. Try again")]
pub struct NoRandomNumbers;

/// What stands for a user and password: nobody who does not know the key can make two that begin alike.
type Token = [u8; 32];

/// Users and their hashes.
pub(super) struct Passwords {
    hashes: HashMap<String, String>,
    key: [u8; 32],
    known: Mutex<Known>,
    /// How many passwords of each peer wait.
    waiting: Mutex<HashMap<Peer, usize>>,
    /// From when on the next one may be tried.
    turn: Arc<Turn<Option<Instant>>>,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passwords").field("users", &self.hashes.len()).finish_non_exhaustive()
    }
}

/// What was tried.
#[derive(Default)]
struct Known {
    right: HashMap<String, Token>,
    wrong: VecDeque<Token>,
}

struct Waiting<'p> {
    passwords: &'p Passwords,
    peer: Peer,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = locked(&self.passwords.waiting);
        if let Some(number) = waiting.get_mut(&self.peer) {
            *number -= 1;
            if *number == 0 {
                waiting.remove(&self.peer);
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Passwords {
    pub(super) fn new(hashes: HashMap<String, String>) -> Result<Self, NoRandomNumbers> {
        let mut key = [0; 32];
        let read = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
        if read != Ok(key.len()) {
            return Err(NoRandomNumbers);
        }
        Ok(Self { hashes, key, known: Mutex::default(), waiting: Mutex::default(), turn: Arc::default() })
    }

    /// Of these users, after they were others. Who was right before is right still where the hash is the same, and a pause that
    /// is due is kept: to have the file read again gets nobody in or out.
    pub(super) fn renewed(self: &Arc<Self>, hashes: HashMap<String, String>) -> Arc<Self> {
        if hashes == self.hashes {
            return Arc::clone(self);
        }
        let right = locked(&self.known).right.iter().map(|(user, token)| (user.clone(), *token)).collect();
        let mut known = Known { right, wrong: VecDeque::new() };
        known.right.retain(|user, _| hashes.contains_key(user) && hashes.get(user) == self.hashes.get(user));
        let turn = Arc::clone(&self.turn);
        Arc::new(Self { hashes, key: self.key, known: Mutex::new(known), waiting: Mutex::default(), turn })
    }

    /// Checks the user and password in a header that `peer` has sent.
    pub(super) async fn check(&self, header: Option<&HeaderValue>, peer: Peer) -> Verdict {
        let Some((user, password)) = header.and_then(credentials) else { return Verdict::Wrong };
        let token = self.token(&user, &password);
        if let Some(verdict) = self.known(&user, &token) {
            return verdict;
        }
        let Some(waiting) = self.wait(peer) else { return Verdict::TooMany };
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some(at) = *turn {
            sleep_until(at.into()).await;
        }
        drop(waiting);
        // Another connection may have sent the same meanwhile.
        if let Some(verdict) = self.known(&user, &token) {
            return verdict;
        }
        let is_right = self.is_right(&user, password, turn).await;
        self.remember(user, token, is_right);
        if is_right { Verdict::Right } else { Verdict::Wrong }
    }

    /// A place among those who wait, if there is one for `peer`.
    fn wait(&self, peer: Peer) -> Option<Waiting<'_>> {
        let mut waiting = locked(&self.waiting);
        if waiting.values().sum::<usize>() >= MOST_WAITING {
            return None;
        }
        let number = waiting.entry(peer).or_default();
        if *number >= MOST_WAITING_EACH {
            return None;
        }
        *number += 1;
        Some(Waiting { passwords: self, peer })
    }

    /// Tries it. That goes on when whoever asked has gone: hanging up does not get another one its turn.
    async fn is_right(
        &self,
        user: &str,
        password: Vec<u8>,
        mut turn: tokio::sync::OwnedMutexGuard<Option<Instant>>,
    ) -> bool {
        // For an unknown user, another user's hash is tried: it takes as long.
        let hash = self.hashes.get(user);
        let is_user = hash.is_some();
        let Some(hash) = hash.or_else(|| self.hashes.values().next()).cloned() else { return false };
        let trial = tokio::spawn(async move {
            let began = Instant::now();
            let trial = spawn_blocking(move || bcrypt::verify(password, &hash));
            let is_right = matches!(trial.await, Ok(Ok(true))) && is_user;
            *turn = (!is_right).then(|| Instant::now() + pause(began.elapsed()));
            is_right
        });
        trial.await.unwrap_or(false)
    }

    fn token(&self, user: &str, password: &[u8]) -> Token {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update((user.len() as u64).to_le_bytes());
        hash.update(user);
        hash.update(password);
        hash.finalize().into()
    }

    fn known(&self, user: &str, token: &Token) -> Option<Verdict> {
        let known = locked(&self.known);
        if known.right.get(user).is_some_and(|right| is_same(right, token)) {
            return Some(Verdict::Right);
        }
        known.wrong.iter().any(|wrong| is_same(wrong, token)).then_some(Verdict::Wrong)
    }

    fn remember(&self, user: String, token: Token, is_right: bool) {
        let mut known = locked(&self.known);
        if is_right {
            known.right.insert(user, token);
            return;
        }
        if known.wrong.len() >= MOST_WRONG {
            known.wrong.pop_front();
        }
        known.wrong.push_back(token);
    }
}

fn pause(took: Duration) -> Duration {
    took.saturating_mul(RESTRAINT)
}

/// Compares in a time that does not depend on where they differ.
fn is_same(one: &Token, other: &Token) -> bool {
    one.iter().zip(other).fold(0, |different, (one, other)| different | (one ^ other)) == 0
}

/// User and password in `Basic …`, RFC 7617.
fn credentials(header: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut user = BASE64.decode(encoded.trim()).ok()?;
    let colon = user.iter().position(|byte| *byte == b':')?;
    let password = user.split_off(colon + 1);
    user.pop();
    Some((String::from_utf8(user).ok()?, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least cost there is.
    fn passwords() -> Passwords {
        let hash = |password| bcrypt::hash(password, 4).unwrap();
        Passwords::new([("prometheus".to_owned(), hash("secret")), ("admin".to_owned(), hash("a:b"))].into()).unwrap()
    }

    fn peer(n: u8) -> Peer {
        std::net::IpAddr::from([10, 0, 0, n]).into()
    }

    fn header(user_and_password: &str) -> HeaderValue {
        HeaderValue::try_from(format!("Basic {}", BASE64.encode(user_and_password))).unwrap()
    }

    #[tokio::test]
    async fn only_a_users_own_password_is_right() {
        let passwords = passwords();
        for (given, verdict) in [
            ("prometheus:secret", Verdict::Right),
            ("prometheus:secret", Verdict::Right),
            ("admin:a:b", Verdict::Right),
            ("admin:secret", Verdict::Wrong),
            ("prometheus:", Verdict::Wrong),
            ("prometheus", Verdict::Wrong),
            ("nobody:secret", Verdict::Wrong),
            (":secret", Verdict::Wrong),
        ] {
            assert_eq!(passwords.check(Some(&header(given)), peer(1)).await, verdict, "{given}");
        }
        assert_eq!(passwords.check(None, peer(1)).await, Verdict::Wrong);
        for strange in ["", "Basic", "Basic !", "Bearer cHJvbWV0aGV1czpzZWNyZXQ="] {
            let header = HeaderValue::from_static(strange);
            assert_eq!(passwords.check(Some(&header), peer(1)).await, Verdict::Wrong, "{strange}");
        }
    }

    #[tokio::test]
    async fn a_flood_of_wrong_passwords_takes_little_time_and_keeps_nobody_out() {
        let passwords = Arc::new(passwords());
        assert_eq!(passwords.check(Some(&header("prometheus:secret")), peer(1)).await, Verdict::Right);
        let began = Instant::now();
        let flood: Vec<_> = (0..200)
            .map(|n| {
                let passwords = Arc::clone(&passwords);
                tokio::spawn(async move { passwords.check(Some(&header(&format!("prometheus:{n}"))), peer(n)).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(passwords.check(Some(&header("prometheus:secret")), peer(1)).await, Verdict::Right);
        assert!(began.elapsed() < Duration::from_secs(1), "at once: it was right before");
        let mut turned_away = 0;
        for one in flood {
            match one.await.unwrap() {
                Verdict::TooMany => turned_away += 1,
                verdict => assert_eq!(verdict, Verdict::Wrong),
            }
        }
        assert!(turned_away >= 180, "{turned_away}");
    }

    #[tokio::test]
    async fn one_who_floods_leaves_places_for_others() {
        let passwords = passwords();
        let places: Vec<_> = (0..20).filter_map(|_| passwords.wait(peer(1))).collect();
        assert_eq!(places.len(), MOST_WAITING_EACH);
        assert_eq!(passwords.check(Some(&header("prometheus:secret")), peer(2)).await, Verdict::Right);
        assert_eq!(passwords.check(Some(&header("admin:a:b")), peer(1)).await, Verdict::TooMany);
        drop(places);
        assert!(locked(&passwords.waiting).is_empty());
        let all: Vec<_> = (0..100).filter_map(|n| passwords.wait(peer(n))).collect();
        assert_eq!(all.len(), MOST_WAITING);
    }

    /// As where a certificate is renewed, or a user comes, goes, or gets another password.
    #[tokio::test]
    async fn who_was_right_before_is_right_after_the_file_was_read_again() {
        let before = Arc::new(passwords());
        for right in ["prometheus:secret", "admin:a:b"] {
            assert_eq!(before.check(Some(&header(right)), peer(1)).await, Verdict::Right);
        }
        assert!(Arc::ptr_eq(&before, &before.renewed(before.hashes.clone())));
        let mut hashes = before.hashes.clone();
        hashes.insert("admin".to_owned(), bcrypt::hash("new", 4).unwrap());
        hashes.insert("second".to_owned(), bcrypt::hash("second", 4).unwrap());
        let after = before.renewed(hashes);
        // A flood has all places.
        let flood: Vec<_> = (0..100).filter_map(|n| after.wait(peer(n))).collect();
        assert_eq!(after.check(Some(&header("prometheus:secret")), peer(200)).await, Verdict::Right, "at once");
        assert_eq!(after.check(Some(&header("admin:a:b")), peer(200)).await, Verdict::TooMany, "it is to be tried");
        drop(flood);
        assert_eq!(after.check(Some(&header("admin:new")), peer(200)).await, Verdict::Right);
        assert_eq!(after.check(Some(&header("admin:a:b")), peer(200)).await, Verdict::Wrong);
        let without = after.renewed([("second".to_owned(), after.hashes["second"].clone())].into());
        assert_eq!(without.check(Some(&header("prometheus:secret")), peer(200)).await, Verdict::Wrong);
    }

    #[tokio::test]
    async fn after_a_wrong_password_the_next_one_waits() {
        let passwords = passwords();
        assert_eq!(passwords.check(Some(&header("prometheus:wrong")), peer(1)).await, Verdict::Wrong);
        let rests = passwords.turn.lock().await.is_some_and(|at| at > Instant::now());
        assert!(rests, "as long as {RESTRAINT} times what it took");
        let again = passwords.check(Some(&header("prometheus:wrong")), peer(1)).await;
        assert_eq!(again, Verdict::Wrong, "it is remembered");
        assert_eq!(passwords.check(Some(&header("prometheus:secret")), peer(1)).await, Verdict::Right);
        assert_eq!(*passwords.turn.lock().await, None);
    }
}
