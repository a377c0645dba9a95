//! `cargo xtask vmtest`: the live tests on other kernels, in virtual machines.

mod cpio;
mod docs;
mod error;
mod facts;
mod guest_binaries;
mod initramfs;
mod install;
mod live_tests;
mod matrix;
mod measured;
mod package;
mod programs;
mod results;
mod store;
mod table;
mod tools;
mod vm;

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use error::Error;
use guest_binaries::GuestBinaries;
use initramfs::GuestSettings;
use matrix::{Arch, Kernel, Run};
use programs::Carried;
use results::{Event, Outcome};
use store::{Stored, directory};
use table::{Tried, Verdict};
use vm::Machine;

use crate::workspace::Workspace;

/// Run the live tests on other kernels, in virtual machines, without KVM.
///
/// Debian's kernel packages are fetched, checked against pinned checksums and kept in ~/.cache/lagstop/vmtest. Logs and
/// results are in target/vmtest/KERNEL/. A kernel that cannot be had, does not boot, or ignores a test has not passed.
/// The whole matrix ends with --docs and --facts.
#[derive(clap::Args)]
#[command(after_help = "Exit codes:
  0  every test passed on every kernel
  1  something did not pass, or could not be tried
  2  wrong usage

Examples:
  cargo xtask vmtest                        The whole matrix
  cargo xtask vmtest --quick --install      Three kernels, with what that takes
  cargo xtask vmtest 6.12 6.12-hybrid       One kernel with cgroup v2, and with v1 and v2 side by side
  cargo xtask vmtest 7.2 --filter accept    Some tests on one kernel
  cargo xtask vmtest 7.0-generic --filter suspend
                                            A kernel that can rehearse suspend, which no other run takes
  cargo xtask vmtest 7.2 --cpus 32 --filter agree --timeout 3600
                                            On many processors
  cargo xtask vmtest 7.0 --with /usr/bin/stress-ng --run 'lagstop run -- stress-ng --cpu 4 --timeout 5'
                                            Any command, as a user there would try it
  cargo xtask vmtest --docs --facts         What the last runs of each kernel showed, without another run")]
pub(crate) struct Arguments {
    /// Kernels to try: names as --list shows them, with `-v1` or `-hybrid` for another layout of cgroups, or an
    /// architecture for all of its kernels. The whole matrix when none is named
    #[arg(value_name = "KERNEL", conflicts_with = "quick")]
    kernels: Vec<String>,
    /// Only the three kernels that every change is tried on, without the longest tests
    #[arg(long)]
    quick: bool,
    /// Make docs/kernels.md from the last results of each kernel, and run nothing
    #[arg(long, conflicts_with_all = ["kernels", "quick", "filter", "run"])]
    docs: bool,
    /// Write what lagstop found out on each kernel to lagstop/src/kernel/plan/facts/, from the last results, and run
    /// nothing
    #[arg(long, conflicts_with_all = ["kernels", "quick", "filter", "run"])]
    facts: bool,
    /// Show what would be tried, and try nothing
    #[arg(long)]
    list: bool,
    /// Only live tests whose names contain this, those of what is the same on every kernel too
    #[arg(long, value_name = "TEST", default_value = "")]
    filter: String,
    /// Run this shell command in the virtual machine instead of the tests. busybox and lagstop are in its PATH. What it prints is
    /// printed at the end; while it runs, read results.log
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["filter", "quick"], value_parser = clap::builder::NonEmptyStringValueParser::new())]
    run: Option<String>,
    /// Copy this program of the host into the virtual machine's /bin, with its shared libraries (repeatable). What a script is run
    /// by must be there too
    #[arg(long, value_name = "PATH", conflicts_with_all = ["docs", "facts", "list"])]
    with: Vec<PathBuf>,
    /// Try this lagstop, as a released one, instead of the one that is built with the tests. It needs no shared libraries
    #[arg(long, value_name = "PATH", conflicts_with_all = ["docs", "facts", "list"])]
    lagstop: Option<PathBuf>,
    /// Virtual machines at a time. Each keeps one of the host's processors busy, but for when it waits: one more than there
    /// are, unless given
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: Option<u8>,
    /// Processors of each virtual machine: two, unless given, and one with --counted. What is kept for the docs is of two
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..))]
    cpus: Option<u8>,
    /// How long a virtual machine may take
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    timeout: u64,
    /// Install what is missing from Debian's mirror
    #[arg(long)]
    install: bool,
    /// Count time in instructions, 2 ns each: what two loads do can then be compared to a percent or two,
    /// whatever else the host does. Not for all tests
    #[arg(long)]
    counted: bool,
}

/// Processors of a virtual machine, unless asked otherwise.
const CPUS: u8 = 2;
/// How long one test may take, but for those that are asked for by name.
const TEST_TIMEOUT_SECONDS: u64 = 240;

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Error> {
    let runs = if arguments.quick {
        matrix::quick()
    } else if arguments.kernels.is_empty() {
        matrix::whole()
    } else {
        matrix::named(&arguments.kernels)?
    };
    if arguments.list {
        for run in &runs {
            let Run { kernel, layout } = run;
            println!("{run:<14} {} {}, cgroup {}", kernel.arch.name(), kernel.version, layout.name());
        }
        if arguments.kernels.is_empty() && !arguments.quick {
            for run in matrix::by_name() {
                println!("{run:<14} {} {}, only by name", run.kernel.arch.name(), run.kernel.version);
            }
        }
        return Ok(());
    }
    if arguments.docs || arguments.facts {
        return keep(workspace, arguments.docs, arguments.facts);
    }
    let mut archs: Vec<Arch> = Vec::new();
    for run in &runs {
        if !archs.contains(&run.kernel.arch) {
            archs.push(run.kernel.arch);
        }
    }
    tools::require(&archs, arguments.install)?;
    let guests =
        archs.into_iter().map(|arch| Guest::prepare(workspace, arch, arguments)).collect::<Result<Vec<_>, _>>()?;

    let next = AtomicUsize::new(0);
    let work = || {
        let mut tried = Vec::new();
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(guest) = guests.iter().find(|guest| guest.arch == run.kernel.arch) {
                tried.push(try_one(workspace, arguments, *run, guest));
            }
        }
        tried
    };
    let mut tried: Vec<Tried> = thread::scope(|scope| {
        let one_more = || thread::available_parallelism().map_or(1, NonZero::get) + 1;
        let jobs = arguments.jobs.map_or_else(one_more, usize::from).min(runs.len());
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    tried.sort_by_key(|one| runs.iter().position(|run| run.to_string() == one.id));
    print!("{}", table::table(&tried));
    if arguments.is_whole_matrix() {
        keep(workspace, true, true)?;
    }
    let passed = tried.iter().filter(|one| one.passed()).count();
    if passed == runs.len() { Ok(()) } else { Err(Error::NotPassed { missing: runs.len() - passed, all: runs.len() }) }
}

impl Arguments {
    /// Is something asked for by name, which may take as long as the machine?
    fn runs_named(&self) -> bool {
        self.run.is_some() || !self.filter.is_empty()
    }

    fn cpus(&self) -> u8 {
        self.cpus.unwrap_or(if self.counted { 1 } else { CPUS })
    }

    fn is_whole_matrix(&self) -> bool {
        self.kernels.is_empty() && !self.quick && self.runs_every_test()
    }

    fn runs_every_test(&self) -> bool {
        !self.quick
            && self.run.is_none()
            && self.filter.is_empty()
            && self.lagstop.is_none()
            && self.cpus() == CPUS
            && !self.counted
    }
}

/// Makes what is committed of the results that are there: the page, and the facts.
fn keep(workspace: &Workspace, docs: bool, facts: bool) -> Result<(), Error> {
    let stored = |run| Stored::read(workspace, run).map(|stored| (run, stored));
    let results = matrix::whole().into_iter().map(stored).collect::<Result<Vec<_>, _>>()?;
    let mut builds: Vec<&str> = results.iter().filter_map(|(_, stored)| Some(&*stored.as_ref()?.build)).collect();
    builds.sort_unstable();
    builds.dedup();
    if docs && builds.len() > 1 {
        println!(
            "These results are of {} builds of lagstop: run all kernels anew before you commit them",
            builds.len()
        );
    }
    if docs {
        let page = workspace.root().join("docs/kernels.md");
        vm::write(&page, docs::page(&results).as_bytes())?;
        let missing: Vec<String> =
            results.iter().filter(|(_, stored)| stored.is_none()).map(|(run, _)| run.to_string()).collect();
        println!("{} made from {} results", page.display(), results.len() - missing.len());
        if !missing.is_empty() {
            println!("not run with all tests yet: {}", missing.join(", "));
        }
    }
    if facts {
        println!("facts written of {}", facts::record(workspace)?.join(", "));
    }
    Ok(())
}

/// What all guests of an architecture have in common.
struct Guest {
    arch: Arch,
    busybox: Vec<u8>,
    binaries: GuestBinaries,
    /// What else it gets.
    programs: Vec<Carried>,
}

impl Guest {
    fn prepare(workspace: &Workspace, arch: Arch, arguments: &Arguments) -> Result<Self, Error> {
        let programs = programs::carried(&arguments.with, arch)?;
        let dir = directory(workspace, arch.name())?;
        let unpacked = dir.join("busybox");
        package::unpack(&arch.busybox().fetch(&package::cache())?, "*/bin/busybox", &unpacked)?;
        let busybox = fs::read(&unpacked).map_err(Error::file("read", &unpacked))?;
        let binaries = GuestBinaries::build(workspace, arch, arguments.lagstop.as_deref())?;
        Ok(Self { arch, busybox, binaries, programs })
    }
}

/// What goes wrong with one kernel is no reason not to try the next.
fn try_one(workspace: &Workspace, arguments: &Arguments, run: Run, guest: &Guest) -> Tried {
    let start = Instant::now();
    let verdict = boot(workspace, arguments, run, guest).unwrap_or_else(|error| {
        println!("{run:<12} NOT TRIED: {error}");
        Verdict::NotTried(error.to_string())
    });
    let Run { kernel, layout } = run;
    Tried {
        id: run.to_string(),
        version: kernel.version.to_owned(),
        layout,
        seconds: start.elapsed().as_secs(),
        verdict,
    }
}

fn boot(workspace: &Workspace, arguments: &Arguments, run: Run, guest: &Guest) -> Result<Verdict, Error> {
    let dir = directory(workspace, &run.to_string())?;
    let kernel = dir.join("vmlinuz");
    package::unpack(&run.kernel.package.fetch(&package::cache())?, "*/vmlinuz*", &kernel)?;
    let modules = modules(run.kernel, &dir)?;
    let settings = GuestSettings {
        layout: run.layout,
        port: guest.arch.results_port(),
        filter: &arguments.filter,
        run: arguments.run.as_deref().unwrap_or_default(),
        left_out: &live_tests::left_out(arguments.quick, !arguments.filter.is_empty()),
        test_timeout_seconds: if arguments.runs_named() { arguments.timeout } else { TEST_TIMEOUT_SECONDS },
        counted: arguments.counted,
    };
    let initramfs = dir.join("initramfs");
    vm::write(&initramfs, &initramfs::pack(guest, &modules, &settings))?;
    let (cpus, counted) = (arguments.cpus(), arguments.counted);
    let machine = Machine { arch: guest.arch, kernel: &kernel, initramfs: &initramfs, dir: &dir, cpus, counted };
    println!("{run:<12} booting {}, cgroup {}", run.kernel.version, run.layout.name());
    let report = machine.run(Duration::from_secs(arguments.timeout), |event| tell(run, event))?;
    let last_words = machine.last_words();
    let stored = Stored { version: run.kernel.version.to_owned(), build: guest.binaries.build.clone(), report };
    stored.write(workspace, run, arguments.runs_every_test())?;
    Ok(Verdict::Ran { report: stored.report, last_words })
}

/// The modules that the guest has, as they are in Debian's package: compressed or not.
fn modules(kernel: &Kernel, dir: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let package = kernel.modules.as_ref().unwrap_or(&kernel.package).fetch(&package::cache())?;
    let unpack = |name: &str| {
        let unpacked = dir.join(format!("{name}.ko"));
        package::unpack(&package, &format!("*/{name}.ko*"), &unpacked)?;
        fs::read(&unpacked).map_err(Error::file("read", &unpacked))
    };
    initramfs::modules().map(unpack).collect()
}

fn tell(run: Run, event: &Event) {
    match event {
        Event::Booted(release) => println!("{run:<12} booted {release}"),
        Event::Tested(test) => {
            let outcome = match test.outcome {
                Outcome::Passed => "ok",
                Outcome::Failed => "FAILED",
                Outcome::Ignored => "IGNORED",
            };
            println!("{run:<12} {outcome:<8} {} ({:.1} s)", test.name, test.seconds);
            if test.outcome != Outcome::Passed || test.name == results::COMMAND {
                test.output.lines().for_each(|line| println!("{run:<12}   | {line}"));
            }
        }
        Event::Ended => println!("{run:<12} done"),
    }
}
