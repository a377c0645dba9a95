//! The machine that figures were taken on.

use std::{fs, path::Path};

use serde::Serialize;

/// What figures depend on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
}

pub(crate) fn describe() -> Machine {
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    Machine {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        cpu: model(&cpuinfo).unwrap_or("unknown").to_owned(),
        cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
    }
}

fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_named_as_the_kernel_does() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n"), Some("A CPU @ 2 GHz"));
        assert_eq!(model("processor\t: 0\n"), None);
    }
}
