//! The loads: what this binary does when it is started as one.
//!
//! A load joins its cgroups, says so, waits for a line, works, says what it has to say, and waits to be killed, so that
//! its figures can be read while it does nothing.

use std::{
    fs::{self, File},
    io::{Read, Write, stdin, stdout},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::{fd::AsRawFd, unix::process::CommandExt},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use lagstop::{
    model::GroupBy,
    source::{FilesOptions, files},
};
use rustix::{
    net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with},
    thread::{CpuSet, UnshareFlags, sched_setaffinity, unshare_unsafe},
    time::{ClockId, clock_gettime},
};

use tempfile::NamedTempFile;

use crate::{fixture::Load, sockets::listen_overflows};

/// Makes this binary a load; its kind follows.
pub(crate) const FLAG: &str = "--load";
/// The kind that is no load, but a screen in which something panics.
pub(crate) const PANICS: &str = "panics";
/// Names the directories of the cgroups to join, with colons between.
pub(crate) const CGROUPS: &str = "LAGSTOP_TEST_CGROUPS";

/// How long a load works.
pub(crate) const WORK: Duration = Duration::from_secs(3);

pub(crate) fn run(what: &str) -> ExitCode {
    for directory in std::env::var(CGROUPS).unwrap_or_default().split(':').filter(|directory| !directory.is_empty()) {
        fs::write(format!("{directory}/cgroup.procs"), "0").unwrap();
    }
    say("joined");
    wait();
    match what.split(' ').collect::<Vec<_>>()[..] {
        // Runs without a pause.
        ["spin"] => spin(WORK),
        ["spin", ms] => spin(Duration::from_millis(ms.parse().unwrap())),
        // Runs a little, sleeps a little.
        ["nap"] => nap(WORK),
        ["nap", ms] => nap(Duration::from_millis(ms.parse().unwrap())),
        // The same, on one CPU.
        ["nap-on", cpu, ms] => {
            pin(cpu.parse().unwrap());
            nap(Duration::from_millis(ms.parse().unwrap()));
        }
        // Changes CPUs all the time.
        ["wander"] => wander(WORK),
        ["wander", ms] => wander(Duration::from_millis(ms.parse().unwrap())),
        // Runs for a moment now and then.
        ["sparse", ms] => sparse(Duration::from_millis(ms.parse().unwrap())),
        // Threads that run without a pause.
        ["threads", count] => threads(count.parse().unwrap(), WORK),
        ["threads", count, ms] => threads(count.parse().unwrap(), Duration::from_millis(ms.parse().unwrap())),
        // The same, all on one CPU.
        ["crowd", cpu, count] => {
            pin(cpu.parse().unwrap());
            threads(count.parse().unwrap(), WORK);
        }
        ["crowd", cpu, count, ms] => {
            pin(cpu.parse().unwrap());
            threads(count.parse().unwrap(), Duration::from_millis(ms.parse().unwrap()));
        }
        // Threads that run for some microseconds and let the others run, all on one CPU.
        ["yield-on", cpu, count, us, ms] => {
            pin(cpu.parse().unwrap());
            let [slice, time] =
                [Duration::from_micros(us.parse().unwrap()), Duration::from_millis(ms.parse().unwrap())];
            yields(count.parse().unwrap(), slice, time);
        }
        // Threads that begin and end all the time.
        ["mortal", ms] => mortal(Duration::from_millis(ms.parse().unwrap())),
        // Executes a program from a thread that is not the first.
        ["execute", ms] => execute(Duration::from_millis(ms.parse().unwrap())),
        // Starts one process after the other, each of which executes a program.
        ["processes", ms] => processes(Duration::from_millis(ms.parse().unwrap())),
        // Naps in real time, or by a deadline.
        ["real-time", ms] => {
            real_time();
            nap(Duration::from_millis(ms.parse().unwrap()));
        }
        ["spin-in-real-time", ms] => {
            real_time();
            spin(Duration::from_millis(ms.parse().unwrap()));
        }
        ["deadline", ms] => {
            deadline();
            nap(Duration::from_millis(ms.parse().unwrap()));
        }
        ["ping", pipes] => ping(pipes),
        ["pong", pipes] => pong(pipes),
        // Accepts connections only some time after they were made.
        ["serve", count, ms] => serve(count.parse().unwrap(), Duration::from_millis(ms.parse().unwrap())),
        // Accepts one connection after the other, and is busy with each for a while.
        ["serve-busily", port, work, ms] => serve_busily(
            port.parse().unwrap(),
            Duration::from_millis(work.parse().unwrap()),
            Duration::from_millis(ms.parse().unwrap()),
        ),
        // The same, and it takes CPU time, in microseconds.
        ["serve-hard", port, work, ms] => serve_hard(
            port.parse().unwrap(),
            Duration::from_micros(work.parse().unwrap()),
            Duration::from_millis(ms.parse().unwrap()),
        ),
        // Connections come at random to a thread that is busy with each for a random time, in microseconds on average.
        ["queue", how, work, load, ms] => queue(
            how == "spin",
            Duration::from_micros(work.parse().unwrap()),
            load.parse().unwrap(),
            Duration::from_millis(ms.parse().unwrap()),
        ),
        // Threads that work without a pause, piece by piece.
        ["grind", count, ref window @ ..] => grind(count.parse().unwrap(), &Window::wait_for(window)),
        // Requests that come at random, so many microseconds apart and with so much work each, served one after the other.
        ["requests", seed, gap, work, ref window @ ..] => requests(
            seed.parse().unwrap(),
            Duration::from_micros(gap.parse().unwrap()),
            Duration::from_micros(work.parse().unwrap()),
            &Window::wait_for(window),
        ),
        ["connect", port, ms] => connect_to(port.parse().unwrap(), Duration::from_millis(ms.parse().unwrap())),
        ["abandon", count] => abandon(count.parse().unwrap()),
        // Watches all cgroups through the kernel's files, until a line comes.
        ["watch", group_by] => watch(group_by),
        // Makes connections that find the accept queue full.
        ["overflow", count] => overflow(count.parse().unwrap()),
        // The same in a network namespace of its own.
        ["overflow-apart", count] => {
            leave_network();
            overflow(count.parse().unwrap());
        }
        ["none"] => {}
        _ => panic!("no load is called {what}"),
    }
    say("done");
    wait();
    ExitCode::SUCCESS
}

fn say(line: &str) {
    println!("{line}");
    stdout().flush().unwrap();
}

/// Waits for a line, or for the end of the one who would send it.
fn wait() {
    let mut byte = [0];
    if stdin().lock().read(&mut byte).unwrap_or(0) == 0 {
        std::process::exit(0);
    }
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn nap(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin(Duration::from_micros(200));
        thread::sleep(Duration::from_micros(200));
    }
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

fn sparse(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin(Duration::from_millis(5));
        // Each at a pace of its own, or they would keep step: with each other, or with readings every 400 ms.
        thread::sleep(Duration::from_millis(450 + u64::from(std::process::id() % 200)));
    }
}

fn wander(time: Duration) {
    let start = Instant::now();
    for turn in 0.. {
        if start.elapsed() > time {
            break;
        }
        pin(turn % 2);
        spin(Duration::from_micros(500));
    }
}

fn threads(count: usize, time: Duration) {
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| spin(time));
        }
    });
}

fn yields(count: usize, slice: Duration, time: Duration) {
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let start = Instant::now();
                while start.elapsed() < time {
                    spin(slice);
                    thread::yield_now();
                }
            });
        }
    });
}

fn mortal(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        thread::spawn(|| spin(Duration::from_micros(200))).join().unwrap();
    }
}

/// Spins in a second thread, which then begins anew as a load that does nothing.
fn execute(time: Duration) {
    let end = thread::spawn(move || {
        spin(time);
        Command::new(std::env::current_exe().unwrap()).args([FLAG, "none"]).env_remove(CGROUPS).exec()
    });
    panic!("{}", end.join().unwrap());
}

fn processes(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args([FLAG, "none"]).env_remove(CGROUPS).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(program.status().unwrap().success());
    }
}

fn real_time() {
    let priority = 1_i32;
    // SAFETY: `struct sched_param` of the kernel is one integer, which is only read.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// 2 ms of each 20.
fn deadline() {
    const POLICY: u64 = 6;
    const MS: u64 = 1_000_000;
    // `struct sched_attr`: size and policy; flags; niceness and priority; runtime, deadline, period.
    let attributes: [u64; 6] = [48 | POLICY << 32, 0, 0, 2 * MS, 20 * MS, 20 * MS];
    // SAFETY: as large as it says, and only read.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Sends a byte and waits for one, on CPU 0, through two named pipes.
fn ping(pipes: &str) {
    pin(0);
    let mut to = File::options().write(true).open(format!("{pipes}/ping")).unwrap();
    let mut from = File::open(format!("{pipes}/pong")).unwrap();
    let start = Instant::now();
    let mut byte = [0];
    while start.elapsed() < WORK {
        to.write_all(&byte).unwrap();
        from.read_exact(&mut byte).unwrap();
    }
}

/// Sends each byte back.
fn pong(pipes: &str) {
    pin(0);
    let mut from = File::open(format!("{pipes}/ping")).unwrap();
    let mut to = File::options().write(true).open(format!("{pipes}/pong")).unwrap();
    let mut byte = [0];
    while from.read(&mut byte).unwrap_or(0) == 1 && to.write_all(&byte).is_ok() {}
}

/// Makes connections to itself and accepts each only after `wait`. Says the time from connected to accepted of each.
fn serve(count: usize, wait: Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    say(&listener.local_addr().unwrap().port().to_string());
    let mut waits = Vec::new();
    for _ in 0..count {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let connected = Instant::now();
        thread::sleep(wait);
        let server = listener.accept().unwrap();
        waits.push(connected.elapsed().as_nanos().to_string());
        drop((client, server));
    }
    say(&waits.join(" "));
}

/// Makes 100 connections a second, as long as they are let in.
fn connect_to(port: u16, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        thread::sleep(Duration::from_millis(10));
        drop(connected);
    }
}

/// Accepts one connection after the other, and sleeps for `work` with each.
fn serve_busily(port: u16, work: Duration, time: Duration) {
    accept_all(port, time, || thread::sleep(work));
}

/// Accepts one connection after the other, and runs for `work` of CPU time with each, waits for it not included.
fn serve_hard(port: u16, work: Duration, time: Duration) {
    accept_all(port, time, || {
        let had = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
        };
        let before = had();
        while had() - before < work {}
    });
}

fn accept_all(port: u16, time: Duration, serve: impl Fn()) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let start = Instant::now();
    while start.elapsed() < time {
        let connection = listener.accept().unwrap();
        serve();
        drop(connection);
    }
}

/// Accepts one connection after the other and sleeps, or runs, for an exponentially distributed time with each, `work`
/// on average. Connections come at random, so often that `load` is the share of its time in which it is busy. Says
/// where it listens. At the end says how many connections it had, and of how many nanoseconds it was busy for how many,
/// from having a connection to asking for the next.
fn queue(spins: bool, work: Duration, load: f64, time: Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    say(&address.port().to_string());
    let mut exponential = exponential(0x9e37_79b9_7f4a_7c15);
    // All random numbers are drawn beforehand: the two threads of a run have nothing to do with each other.
    let between = work.div_f64(load);
    let mut at = Duration::ZERO;
    let mut arrivals = Vec::new();
    while at < time {
        at += between.mul_f64(exponential());
        arrivals.push((at, work.mul_f64(exponential())));
    }
    let start = Instant::now();
    let came: Vec<Duration> = arrivals.iter().map(|(at, _)| *at).collect();
    let client = thread::spawn(move || {
        let mut clients = Vec::new();
        for at in came {
            thread::sleep((start + at).saturating_duration_since(Instant::now()));
            clients.push(TcpStream::connect(address).unwrap());
        }
        clients
    });
    let mut busy = Duration::ZERO;
    for (_, work) in &arrivals {
        let connection = listener.accept().unwrap();
        let accepted = Instant::now();
        if spins {
            spin(*work);
        } else {
            thread::sleep(*work);
        }
        drop(connection);
        busy += accepted.elapsed();
    }
    say(&format!("{} {} {}", arrivals.len(), busy.as_nanos(), start.elapsed().as_nanos()));
    drop(client.join().unwrap());
}

/// Numbers with an exponential distribution around 1.
fn exponential(mut seed: u64) -> impl FnMut() -> f64 {
    move || {
        // xorshift64 (Marsaglia, 2003)
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        -(((seed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64).ln()
    }
}

/// A piece of work: some ten microseconds.
fn piece() {
    let mut x = 1_u64;
    for n in 0..10_000_u64 {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n));
    }
}

/// When loads that run side by side begin and end, and which part of that time they report.
struct Window {
    /// By CLOCK_MONOTONIC: the same moment for all, however late one of them gets a CPU.
    start: Duration,
    told_from: Duration,
    time: Duration,
}

impl Window {
    /// Waits until all begin. The words are a file that holds the start in nanoseconds of CLOCK_MONOTONIC, the number
    /// of milliseconds that are not reported, and the number of milliseconds in all.
    fn wait_for(words: &[&str]) -> Self {
        let ms = |word: &str| Duration::from_millis(word.parse().unwrap());
        let start = Duration::from_nanos(fs::read_to_string(words[0]).unwrap().trim().parse().unwrap());
        sleep_until(start);
        Self { start, told_from: ms(words[1]), time: ms(words[2]) }
    }

    /// The time since the start.
    fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.start)
    }
}

/// What loads are told that begin together and report the same time.
pub(crate) struct Together {
    start_file: NamedTempFile,
    /// From the start.
    told_from: Duration,
    end: Duration,
}

impl Together {
    /// They report `time`, `before` after the start.
    pub(crate) fn new(before: Duration, time: Duration) -> Self {
        Self { start_file: NamedTempFile::new().unwrap(), told_from: before, end: before + time }
    }

    /// The words of [`Window::wait_for`].
    pub(crate) fn words(&self) -> String {
        format!("{} {} {}", self.start_file.path().display(), self.told_from.as_millis(), self.end.as_millis())
    }

    /// Lets all begin `after` from now. Gives when they report from, by CLOCK_MONOTONIC.
    pub(crate) fn begin<'a>(&self, after: Duration, loads: impl IntoIterator<Item = &'a mut Load>) -> Duration {
        let start = monotonic() + after;
        fs::write(self.start_file.path(), start.as_nanos().to_string()).unwrap();
        loads.into_iter().for_each(Load::go);
        start + self.told_from
    }
}

/// Sleeps until this moment of CLOCK_MONOTONIC.
pub(crate) fn sleep_until(at: Duration) {
    thread::sleep(at.saturating_sub(monotonic()));
}

/// CLOCK_MONOTONIC.
fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Says how many pieces all threads did, and the longest time in microseconds in which one of them did not get on.
fn grind(count: usize, window: &Window) {
    let one = || {
        let (mut pieces, mut longest, mut last) = (0_u64, Duration::ZERO, window.elapsed());
        while last < window.time {
            piece();
            let now = window.elapsed();
            if now > window.told_from {
                pieces += u64::from(now <= window.time);
                longest = longest.max(now - last);
            }
            last = now;
        }
        (pieces, longest)
    };
    let all: Vec<(u64, Duration)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let pieces: u64 = all.iter().map(|(pieces, _)| pieces).sum();
    say(&format!("{pieces} {}", all.iter().map(|(_, longest)| longest.as_micros()).max().unwrap()));
}

/// Says of each request after how many microseconds it was done.
fn requests(seed: u64, gap: Duration, work: Duration, window: &Window) {
    let mut exponential = exponential(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let had = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let (mut due, mut latencies) = (Duration::ZERO, Vec::new());
    loop {
        due += gap.mul_f64(exponential());
        if due > window.time {
            break;
        }
        thread::sleep(due.saturating_sub(window.elapsed()));
        let before = had();
        while had() - before < work {
            piece();
        }
        if due > window.told_from {
            latencies.push((window.elapsed() - due).as_micros().to_string());
        }
    }
    say(&latencies.join(" "));
}

/// Makes connections that nobody accepts, and ends them.
fn abandon(count: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    say(&listener.local_addr().unwrap().port().to_string());
    let clients: Vec<TcpStream> =
        (0..count).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
    thread::sleep(Duration::from_millis(20));
    drop(listener);
    drop(clients);
}

/// Enters a network namespace of its own, in which there is the loopback alone, and brings that up: netdevice(7).
fn leave_network() {
    // SAFETY: there is no other thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    // SAFETY: plain bytes and integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the kernel reads a whole request.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Listens with a queue for two, says where, waits, and connects `count` times.
fn overflow(count: usize) {
    const QUEUE: i32 = 1;
    const FIRST_RETRY: Duration = Duration::from_millis(900);
    let tcp = |flags| {
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC | flags, Some(ipproto::TCP)).unwrap()
    };
    let listener = tcp(SocketFlags::empty());
    bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&listener, QUEUE).unwrap();
    let address = TcpListener::from(listener.try_clone().unwrap()).local_addr().unwrap();
    say(&address.port().to_string());
    wait();
    let before = listen_overflows(std::process::id());
    let clients: Vec<_> = (0..count).map(|_| tcp(SocketFlags::NONBLOCK)).collect();
    for client in &clients {
        // That it is not connected at once is no error here.
        let _ = connect(client, &address);
    }
    // Their requests may still be on their way: to one that has hung up nobody answers, and the queue would not fill.
    let start = Instant::now();
    while listen_overflows(std::process::id()) < before + (count as u64).saturating_sub(QUEUE as u64 + 1)
        && start.elapsed() < FIRST_RETRY
    {
        thread::sleep(Duration::from_millis(5));
    }
    // Those that were refused must not try again. Those in the queue stay there.
    drop(clients);
    say("overflowed");
    wait();
    drop(listener);
}

/// Says what the session is, and at the end each interval, in JSON.
fn watch(group_by: &str) {
    let group_by = match group_by {
        "scheduler" => GroupBy::Scheduler,
        "leaf" => GroupBy::Leaf,
        other => panic!("{other}"),
    };
    let (interval, load_credit_time) = (Duration::from_millis(200), Duration::from_secs(2));
    let options = FilesOptions { interval, duration: None, group_by, load_credit_time };
    let mut stream = files(options, "told to".to_owned()).unwrap_or_else(|error| panic!("{error}"));
    say(&serde_json::to_string(&stream.session).unwrap());
    let stop = stream.stop.clone();
    thread::spawn(move || {
        wait();
        stop.stop();
    });
    let mut intervals = Vec::new();
    while let Some(interval) = stream.intervals.blocking_recv() {
        intervals.push(interval.unwrap_or_else(|error| panic!("{error}")));
    }
    intervals.iter().for_each(|interval| say(&serde_json::to_string(interval).unwrap()));
}
