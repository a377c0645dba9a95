//! Users and their sessions: what logind notes of them, and the list of users.

use super::{
    look::{Look, SMALL},
    text::{foreign, variable},
};

/// Largest list of users.
const LARGEST: u64 = 8 << 20;

/// A user's slice, one of his sessions, or his own systemd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Login<'p> {
    pub(super) uid: &'p str,
    session: Option<&'p str>,
}

/// systemd alone makes what is in `user.slice`. What is inside of a user's own systemd or a session is the user's affair.
pub(super) fn place<'p>(components: &[&'p str]) -> Option<(usize, Login<'p>)> {
    let ["user.slice", slice, inside @ ..] = components else { return None };
    let uid = slice.strip_prefix("user-")?.strip_suffix(".slice")?;
    let is_number = !uid.is_empty() && uid.len() <= 10 && uid.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }
    let session = inside.first().and_then(|unit| unit.strip_prefix("session-")?.strip_suffix(".scope"));
    let session = session.filter(|id| id.len() <= 32 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let is_own = inside.first().is_some_and(|unit| *unit == format!("user@{uid}.service"));
    Some((2 + usize::from(session.is_some() || is_own), Login { uid, session }))
}

/// What the user is called, and where he sits: `user@alice/session-3 (sshd, pts/0)`. No namespace of Kubernetes has an `@`: what
/// a user calls his cgroups cannot look like a pod.
pub(super) fn called(login: Login<'_>, look: &mut Look<'_>) -> Option<String> {
    let user = format!("user@{}", name(login.uid, look)?);
    let Some(id) = login.session else { return Some(user) };
    let state = look.text(&format!("/run/systemd/sessions/{id}"), SMALL).unwrap_or_default();
    let is_his = variable(&state, "UID") == Some(login.uid);
    // Other fields come from the user's environment, or from whoever logs in.
    let fields = ["SERVICE", "TTY"].iter().filter_map(|key| variable(&state, key).filter(|_| is_his));
    let fields: Vec<String> = fields.filter(|value| is_plain(value)).map(str::to_owned).collect();
    let how = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
    Some(format!("{user}/session-{id}{how}"))
}

fn name(uid: &str, look: &mut Look<'_>) -> Option<String> {
    let state = look.text(&format!("/run/systemd/users/{uid}"), SMALL);
    if let Some(name) = state.as_deref().and_then(|state| variable(state, "NAME")).and_then(foreign) {
        return Some(name);
    }
    let users = look.text("/etc/passwd", LARGEST)?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| foreign(name))?
    })
}

/// `sshd`, `pts/0`.
fn is_plain(value: &str) -> bool {
    let is_ordinary = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    (1..=32).contains(&value.len()) && value.bytes().all(is_ordinary)
}
