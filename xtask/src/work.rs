//! What the processes of a load do: this program starts itself as one of them.

use std::{
    hint::black_box,
    io::{self, PipeReader, PipeWriter, Read, Write},
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use lagstop::random::Random;
use rustix::time::{ClockId, clock_gettime};

/// The hidden subcommand.
pub(crate) const NAME: &str = "work";

/// A process of a load.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    /// What random times are drawn with
    #[arg(long)]
    pub(crate) seed: u64,
    /// Threads that all do the same
    #[arg(long)]
    pub(crate) threads: u64,
    /// Should nobody end it, it ends after so many seconds
    #[arg(long)]
    pub(crate) seconds: u64,
    #[command(subcommand)]
    pub(crate) kind: Kind,
}

/// What each thread does. Random times are exponentially distributed, work is CPU time, and the given times are means.
#[derive(clap::Subcommand, Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Runs without a pause
    Spin,
    /// Computes so many million steps, and ends
    Steps { millions: u64 },
    /// Closed loop: works, then thinks
    Loop { work_us: u64, think_us: u64 },
    /// Open loop: requests come at random times, and wait until those before are done
    Serve { per_second: f64, work_us: u64 },
    /// Runs without a pause for some time, and then not at all; by the clock, both times random
    Burst { on_ms: u64, off_ms: u64 },
    /// Takes a byte from stdin, thinks, works, and hands the byte on to stdout
    Pipe { work_us: u64, think_us: u64 },
    /// Two threads hand a byte to and fro, and do nothing else
    PingPong,
    /// Sleeps between these times, evenly distributed, then works for 50 µs
    Nap { least_ms: u64, most_ms: u64 },
}

impl Work {
    /// This program as that process.
    pub(crate) fn command(&self) -> io::Result<Command> {
        let Self { seed, threads, seconds, kind } = self;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([NAME, "--seed", &seed.to_string(), "--threads", &threads.to_string()]);
        command.args(["--seconds", &seconds.to_string()]).args(kind.words());
        Ok(command)
    }

    pub(crate) fn run(&self) -> ExitCode {
        let end = Instant::now() + Duration::from_secs(self.seconds);
        if self.kind == Kind::PingPong {
            return ping_pong(end);
        }
        thread::scope(|scope| {
            for thread in 0..self.threads {
                scope.spawn(move || self.kind.run(Random::new(self.seed, thread), end));
            }
        });
        ExitCode::SUCCESS
    }
}

impl Kind {
    /// As on the command line.
    fn words(self) -> Vec<String> {
        let (name, first, second) = match self {
            Self::Spin => return vec!["spin".to_owned()],
            Self::PingPong => return vec!["ping-pong".to_owned()],
            Self::Steps { millions } => return vec!["steps".to_owned(), millions.to_string()],
            Self::Loop { work_us, think_us } => ("loop", work_us.to_string(), think_us),
            Self::Serve { per_second, work_us } => ("serve", per_second.to_string(), work_us),
            Self::Burst { on_ms, off_ms } => ("burst", on_ms.to_string(), off_ms),
            Self::Pipe { work_us, think_us } => ("pipe", work_us.to_string(), think_us),
            Self::Nap { least_ms, most_ms } => ("nap", least_ms.to_string(), most_ms),
        };
        vec![name.to_owned(), first, second.to_string()]
    }

    fn run(self, mut random: Random, end: Instant) {
        let mut due = Instant::now();
        while Instant::now() < end {
            match self {
                Self::Spin | Self::PingPong => spin_until(end),
                Self::Steps { millions } => {
                    for step in 0..millions * 1_000_000 {
                        let _ = black_box(step);
                    }
                    return;
                }
                Self::Loop { work_us, think_us } => {
                    work(micros(work_us, &mut random));
                    thread::sleep(micros(think_us, &mut random));
                }
                Self::Serve { per_second, work_us } => {
                    due += Duration::from_secs_f64(random.exponential() / per_second);
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    work(micros(work_us, &mut random));
                }
                Self::Burst { on_ms, off_ms } => {
                    due += millis(on_ms, &mut random);
                    spin_until(due);
                    due += millis(off_ms, &mut random);
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                Self::Pipe { work_us, think_us } => {
                    let mut token = [0];
                    if io::stdin().lock().read_exact(&mut token).is_err() {
                        return;
                    }
                    thread::sleep(micros(think_us, &mut random));
                    work(micros(work_us, &mut random));
                    let mut stdout = io::stdout().lock();
                    if stdout.write_all(&token).and_then(|()| stdout.flush()).is_err() {
                        return;
                    }
                }
                Self::Nap { least_ms, most_ms } => {
                    let span = most_ms.saturating_sub(least_ms) as f64;
                    thread::sleep(Duration::from_secs_f64((least_ms as f64 + span * random.unit()) / 1e3));
                    work(Duration::from_micros(50));
                }
            }
        }
    }
}

/// Hands a byte to and fro until `end`, or until a pipe breaks.
fn ping_pong(end: Instant) -> ExitCode {
    let (Ok((to_one, from_other)), Ok((to_other, from_one))) = (io::pipe(), io::pipe()) else {
        return ExitCode::FAILURE;
    };
    let play = move |mut reads: PipeReader, mut writes: PipeWriter| {
        let mut token = [0];
        // The clock is read seldom, so that nearly all that happens is switches.
        while Instant::now() < end {
            for _ in 0..1_000 {
                if reads.read_exact(&mut token).and_then(|()| writes.write_all(&token)).is_err() {
                    return;
                }
            }
        }
    };
    let mut serve = match from_other.try_clone() {
        Ok(serve) => serve,
        Err(_) => return ExitCode::FAILURE,
    };
    thread::scope(|scope| {
        scope.spawn(move || play(to_one, from_one));
        scope.spawn(move || play(to_other, from_other));
        let _ = serve.write_all(&[0]);
        drop(serve);
    });
    ExitCode::SUCCESS
}

fn micros(mean: u64, random: &mut Random) -> Duration {
    Duration::from_micros(mean).mul_f64(random.exponential())
}

fn millis(mean: u64, random: &mut Random) -> Duration {
    Duration::from_millis(mean).mul_f64(random.exponential())
}

/// Spins for some microseconds.
fn a_little() {
    for step in 0..4_000u64 {
        black_box(step);
    }
}

fn spin_until(end: Instant) {
    while Instant::now() < end {
        a_little();
    }
}

/// Takes this much CPU time.
fn work(time: Duration) {
    let end = cpu_time() + time;
    while cpu_time() < end {
        a_little();
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        work: Work,
    }

    #[test]
    fn what_is_started_is_what_was_meant() {
        let kinds = [
            Kind::Spin,
            Kind::PingPong,
            Kind::Loop { work_us: 1, think_us: 2 },
            Kind::Serve { per_second: 3.5, work_us: 4 },
            Kind::Burst { on_ms: 5, off_ms: 6 },
            Kind::Pipe { work_us: 7, think_us: 8 },
            Kind::Nap { least_ms: 9, most_ms: 10 },
        ];
        for kind in kinds {
            let work = Work { seed: 11, threads: 12, seconds: 13, kind };
            // The program's own name is in the subcommand's place.
            let command = work.command().unwrap();
            assert_eq!(Cli::parse_from(command.get_args()).work, work);
        }
    }

    #[test]
    fn two_that_play_end_together() {
        assert_eq!(
            format!("{:?}", ping_pong(Instant::now() + Duration::from_millis(20))),
            format!("{:?}", ExitCode::SUCCESS)
        );
    }

    #[test]
    fn work_takes_its_cpu_time() {
        let before = cpu_time();
        work(Duration::from_millis(20));
        let took = cpu_time() - before;
        assert!((20..30).contains(&took.as_millis()), "{took:?}");
    }

    #[test]
    fn loops_take_the_share_that_they_are_to() {
        // 100 requests of 2 ms each second are 20 % of a CPU, and a loop of 2 ms of work and 8 of thinking as much.
        for kind in [Kind::Serve { per_second: 100.0, work_us: 2_000 }, Kind::Loop { work_us: 2_000, think_us: 8_000 }]
        {
            let (before, began) = (cpu_time(), Instant::now());
            kind.run(Random::new(1, 0), began + Duration::from_secs(1));
            let share = (cpu_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
            assert!((0.02..0.4).contains(&share), "{kind:?} took {share}");
        }
    }
}
