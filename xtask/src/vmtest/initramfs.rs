//! The guest's only file system.

use super::{Guest, cpio::Cpio, matrix::Layout};

const INIT: &str = include_str!("init.sh");

/// What differs between guests.
pub(super) struct GuestSettings<'a> {
    pub(super) layout: Layout,
    /// The results' port.
    pub(super) port: &'a str,
    /// What names of tests are to contain.
    pub(super) filter: &'a str,
    /// A command to run instead of tests, or none.
    pub(super) run: &'a str,
    /// Names of tests that are not to run.
    pub(super) left_out: &'a [&'a str],
    pub(super) test_timeout_seconds: u64,
    /// Is its time counted in instructions?
    pub(super) counted: bool,
}

/// Kernel modules that lagstop needs and that are not in the kernel's image, in the order in which they are to be
/// loaded. They list listening TCP sockets. On a host the kernel has modprobe load them when it is first asked for
/// sockets.
const LOADED: [&str; 2] = ["inet_diag", "tcp_diag"];
/// Those that a live test loads: the packet generator is a kernel thread that computes.
const CARRIED: [&str; 1] = ["pktgen"];

/// All modules that [`pack`] takes, in this order.
pub(super) fn modules() -> impl Iterator<Item = &'static str> {
    LOADED.into_iter().chain(CARRIED)
}

/// Packs the file system, with [`modules`] in their order. It is not compressed: that would take longer than loading
/// it.
pub(super) fn pack(guest: &Guest, modules: &[Vec<u8>], settings: &GuestSettings<'_>) -> Vec<u8> {
    let Guest { busybox, binaries, programs, .. } = guest;
    let mut cpio = Cpio::default();
    for directory in ["bin", "dev", "etc", "lib"] {
        cpio.directory(directory);
    }
    // Where init's own first words go.
    cpio.device("dev/console", 5, 1);
    cpio.file("init", INIT.as_bytes());
    cpio.file("bin/busybox", busybox);
    cpio.file("bin/lagstop", &binaries.lagstop);
    cpio.file("bin/live", &binaries.live);
    for (name, module) in self::modules().zip(modules) {
        cpio.file(&format!("lib/{name}.ko"), module);
    }
    for carried in programs {
        carried.directories().for_each(|directory| cpio.directory(directory));
        cpio.file(&carried.path, &carried.content);
    }
    cpio.file("etc/vmtest", variables(settings).as_bytes());
    cpio.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n");
    cpio.finish()
}

/// For the shell, in quotes.
fn variables(settings: &GuestSettings<'_>) -> String {
    let GuestSettings { layout, port, filter, run, left_out, test_timeout_seconds, counted } = settings;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    [
        ("CGROUP", layout.name().to_owned()),
        ("PORT", (*port).to_owned()),
        ("FILTER", (*filter).to_owned()),
        ("RUN", (*run).to_owned()),
        ("LEFT_OUT", left_out.join(" ")),
        ("MODULES", LOADED.join(" ")),
        ("TEST_TIMEOUT", test_timeout_seconds.to_string()),
        ("COUNTED", if *counted { "1" } else { "" }.to_owned()),
    ]
    .iter()
    .map(|(name, value)| format!("{name}={}\n", quoted(value)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_variables_of_the_shell() {
        let settings = GuestSettings {
            layout: Layout::Hybrid,
            port: "/dev/ttyS1",
            filter: "it's $HOME",
            run: "a 'b c'",
            left_out: &["one", "two"],
            test_timeout_seconds: 60,
            counted: true,
        };
        let script =
            format!("{}echo \"$CGROUP $PORT $FILTER $RUN $LEFT_OUT $TEST_TIMEOUT $COUNTED\"", variables(&settings));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hybrid /dev/ttyS1 it's $HOME a 'b c' one two 60 1\n");
    }
}
