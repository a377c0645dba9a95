//! What a keeper and who has started it say to each other: lines of JSON on a socket.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    host::{CgroupMoment, HostMoment, SeenWork},
    model::{CgroupId, Nanos},
};

/// What the keeper is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// Run the command.
    Go {
        /// Look at its threads meanwhile, because nothing else does.
        sample: bool,
    },
    /// Send it this signal.
    Signal(i32),
    /// Get ready to run it once more.
    Again,
}

/// What the keeper says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    Ready(Place),
    Ended(Ended),
}

/// Where the command will run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct Place {
    /// Its cgroup; or why it has none of its own.
    pub(in crate::cli) cgroup: Result<CommandGroup, String>,
}

/// The cgroup of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct CommandGroup {
    pub(in crate::cli) id: CgroupId,
    /// Its path in the hierarchy.
    pub(in crate::cli) path: String,
    /// Has the scheduler a group for it?
    pub(in crate::cli) has_group: bool,
}

/// How the command ended, and what files tell of the time until then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct Ended {
    /// As wait(2) has it.
    pub(in crate::cli) status: i32,
    /// On `CLOCK_MONOTONIC`.
    pub(in crate::cli) began_ns: Nanos,
    pub(in crate::cli) ended_ns: Nanos,
    /// CPU time of the command and of all that it has waited for, as wait4(2) has it.
    pub(in crate::cli) cpu_ns: Nanos,
    /// What the host did meanwhile.
    pub(in crate::cli) host: HostMoment,
    /// What the kernel booked to its cgroup. `None` where it had none of its own.
    pub(in crate::cli) cgroup: Option<CgroupMoment>,
    /// What its threads did, where they were looked at.
    pub(in crate::cli) seen: Option<SeenWork>,
}

/// Writes a line.
pub(super) fn send(mut socket: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    socket.write_all(&line)
}

/// Reads one line after the other.
#[derive(Debug)]
pub(super) struct Lines(BufReader<UnixStream>);

impl Lines {
    /// No message is longer.
    const LONGEST: u64 = 1 << 16;

    pub(super) fn of(socket: &UnixStream) -> io::Result<Self> {
        Ok(Self(BufReader::new(socket.try_clone()?)))
    }

    /// The next message. `None` when the other end is closed, or does not speak this language.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Option<M> {
        let mut line = Vec::new();
        self.0.by_ref().take(Self::LONGEST).read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_arrives() {
        let (one, other) = UnixStream::pair().unwrap();
        let group = CommandGroup { id: CgroupId(7), path: "/lagstop-command-1".to_owned(), has_group: true };
        let said = [
            Said::Ready(Place { cgroup: Ok(group) }),
            Said::Ready(Place { cgroup: Err("not permitted\n".to_owned()) }),
            Said::Ended(Ended { status: 9, cpu_ns: Nanos(5), ..Ended::default() }),
        ];
        said.iter().for_each(|said| send(&one, said).unwrap());
        send(&one, &Told::Signal(15)).unwrap();
        drop(one);
        let mut lines = Lines::of(&other).unwrap();
        for expected in said {
            assert_eq!(lines.next(), Some(expected));
        }
        assert_eq!((lines.next(), lines.next::<Told>()), (Some(Told::Signal(15)), None));
    }
}
