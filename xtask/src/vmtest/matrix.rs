//! The kernels, pinned, and which of them a run takes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{error::Error, package::Package};

/// What the guest's processor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// As Debian calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Does this machine have it?
    pub(super) fn is_this_machines(self) -> bool {
        std::env::consts::ARCH
            == match self {
                Self::Amd64 => "x86_64",
                Self::Arm64 => "aarch64",
            }
    }

    /// The guest's shell and tools in one file without libraries.
    pub(super) const fn busybox(self) -> Package {
        match self {
            Self::Amd64 => Package::main(
                "pool/main/b/busybox/busybox-static_1.37.0-6+b9_amd64.deb",
                "598a3fd92bdafc34cd81196b2952ad36e910e47a4ecf162f8ce5e8e262598e53",
            ),
            Self::Arm64 => Package::main(
                "pool/main/b/busybox/busybox-static_1.37.0-6+b9_arm64.deb",
                "c833be48abfa16bc19c4966ec93e289ff1ce5d2f1476cad3a57bd105378cd15c",
            ),
        }
    }
}

/// How cgroups are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layout {
    V2,
    V1,
    /// v1 controllers, with a v2 hierarchy beside that has none.
    Hybrid,
}

impl Layout {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V1 => "v1",
            Self::Hybrid => "hybrid",
        }
    }
}

/// A kernel of Debian.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What it is called on the command line.
    pub(super) id: &'static str,
    pub(super) arch: Arch,
    /// Debian's version of it.
    pub(super) version: &'static str,
    pub(super) package: Package,
    /// Where its modules are, when not in `package`.
    pub(super) modules: Option<Package>,
    /// How the whole matrix mounts cgroups with it. In no way where it is taken only by name.
    pub(super) layouts: &'static [Layout],
    /// Is it one of the few that every change is tried on?
    pub(super) quick: bool,
}

/// Of the flavour `cloud`, which is small; `*-generic` is of the flavour for PCs, which can rehearse suspend. From 6.19 the kernel is in the packages `linux-binary-*`, its modules in `linux-modules-*`. Replace a pin when the mirror has dropped the package: docs/development.md, "Kernels in VMs".
pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        id: "5.10",
        arch: Arch::Amd64,
        version: "5.10.262-1",
        package: Package::security(
            "pool/updates/main/l/linux-signed-amd64/linux-image-5.10.0-46-cloud-amd64_5.10.262-1_amd64.deb",
            "18d94781d1b3052e21967ac2262239e5f14fbf511d6c3e110629d7aa35340760",
        ),
        modules: None,
        layouts: &[Layout::V2, Layout::V1],
        quick: true,
    },
    Kernel {
        id: "6.1",
        arch: Arch::Amd64,
        version: "6.1.192-2",
        package: Package::security(
            "pool/updates/main/l/linux-signed-amd64/linux-image-6.1.0-56-cloud-amd64_6.1.192-2_amd64.deb",
            "e7d02b943971edcb8790e256c02cfab3bca6c3d37c1bf25392a57c71300615ee",
        ),
        modules: None,
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "6.12",
        arch: Arch::Amd64,
        version: "6.12.107-1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-image-6.12.107+deb13-cloud-amd64_6.12.107-1_amd64.deb",
            "04434ff520f860423eafe4203d986a35682ce73c2f71baa39e988ca0da93ac91",
        ),
        modules: None,
        layouts: &[Layout::V2, Layout::V1, Layout::Hybrid],
        quick: true,
    },
    Kernel {
        id: "6.16",
        arch: Arch::Amd64,
        version: "6.16.12-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-image-6.16.12+deb13-cloud-amd64_6.16.12-1~bpo13+1_amd64.deb",
            "b56d926c1dc9bbdf151794753df57bd427af2398a033999016dcbbd211e8e461",
        ),
        modules: None,
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "6.17",
        arch: Arch::Amd64,
        version: "6.17.13-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-image-6.17.13+deb13-cloud-amd64_6.17.13-1~bpo13+1_amd64.deb",
            "2ac533a36b0c5107527166716414a4d04b00f7108e419df2084ca5aec268d1ff",
        ),
        modules: None,
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "6.18",
        arch: Arch::Amd64,
        version: "6.18.15-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-image-6.18.15+deb13-cloud-amd64_6.18.15-1~bpo13+1_amd64.deb",
            "5a507681ea8c978d02265a7fec2f02c9588fb48b54b7f71edc1059e86007f3ec",
        ),
        modules: None,
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "6.19",
        arch: Arch::Amd64,
        version: "6.19.14-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-binary-6.19.14+deb13-cloud-amd64_6.19.14-1~bpo13+1_amd64.deb",
            "2c7b515d7846cc4ff80943dde6c22e323214b54bfc3e73e02c470034d953193a",
        ),
        modules: Some(Package::main(
            "pool/main/l/linux/linux-modules-6.19.14+deb13-cloud-amd64_6.19.14-1~bpo13+1_amd64.deb",
            "cb0628ef28a9b1769e6e0fa2d65b8e234d968c70a1164ac0be35e86d34e39d1c",
        )),
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "7.0",
        arch: Arch::Amd64,
        version: "7.0.13-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-binary-7.0.13+deb13-cloud-amd64_7.0.13-1~bpo13+1_amd64.deb",
            "7e2f91866f9d857e5b08fcd915491b4cff79fbe51cdcb081b42658612074a552",
        ),
        modules: Some(Package::main(
            "pool/main/l/linux/linux-modules-7.0.13+deb13-cloud-amd64_7.0.13-1~bpo13+1_amd64.deb",
            "cfa17c8f281ed3a001eb82c05cf23e01250872cc9b44f073fff1aa13d645e4c4",
        )),
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "7.0-generic",
        arch: Arch::Amd64,
        version: "7.0.13-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-binary-7.0.13+deb13-amd64_7.0.13-1~bpo13+1_amd64.deb",
            "108e1c0e8e36a5cb13d62fc3f03c05f23448b7801657553c6e9880591c4f97d3",
        ),
        modules: Some(Package::main(
            "pool/main/l/linux/linux-modules-7.0.13+deb13-amd64_7.0.13-1~bpo13+1_amd64.deb",
            "787ac652f5fac4805092ed951a6ae617d448684f5f399659f0e5dcfa544fabf4",
        )),
        layouts: &[],
        quick: false,
    },
    Kernel {
        id: "7.1",
        arch: Arch::Amd64,
        version: "7.1.13-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-binary-7.1.13+deb13-cloud-amd64_7.1.13-1~bpo13+1_amd64.deb",
            "2feb3588cd790e0fd7f4c425b8ede990b34f80f70703aeb3a6b3c21207e59785",
        ),
        modules: Some(Package::main(
            "pool/main/l/linux/linux-modules-7.1.13+deb13-cloud-amd64_7.1.13-1~bpo13+1_amd64.deb",
            "d48c4e3b8422d7ee67cf7b0eeb614f41f91d95385757c7e7155120ce698ca10a",
        )),
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "7.2",
        arch: Arch::Amd64,
        version: "7.2.12-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-binary-7.2.12+deb13-cloud-amd64_7.2.12-1~bpo13+1_amd64.deb",
            "aa6720823145e351d3c817c95fe58d89995a2bcba4978ad2418c36a1c272f795",
        ),
        modules: Some(Package::main(
            "pool/main/l/linux/linux-modules-7.2.12+deb13-cloud-amd64_7.2.12-1~bpo13+1_amd64.deb",
            "2f15b42b88ae56836b5fb3ac74c6cb795047891a5a25e5e69dedf8805b54017d",
        )),
        layouts: &[Layout::V2, Layout::Hybrid],
        quick: true,
    },
    Kernel {
        id: "7.3",
        arch: Arch::Amd64,
        version: "7.3.4-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-amd64/linux-binary-7.3.4+deb13-cloud-amd64_7.3.4-1~bpo13+1_amd64.deb",
            "c4fbc8e404958693b28825474c20742d70594d65ca58aea7be6a279c81eb6fa0",
        ),
        modules: Some(Package::main(
            "pool/main/l/linux/linux-modules-7.3.4+deb13-cloud-amd64_7.3.4-1~bpo13+1_amd64.deb",
            "359f04c363b7d3c5f9ce999ccb7351e00cc8eec0a30d6bc1cda37734987fc43d",
        )),
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "6.12-arm64",
        arch: Arch::Arm64,
        version: "6.12.107-1",
        package: Package::main(
            "pool/main/l/linux-signed-arm64/linux-image-6.12.107+deb13-cloud-arm64_6.12.107-1_arm64.deb",
            "a1bbfc22454e984feba6353f957152ef416728b627ec0cf94d3ac04b18c14d84",
        ),
        modules: None,
        layouts: &[Layout::V2],
        quick: false,
    },
    Kernel {
        id: "7.2-arm64",
        arch: Arch::Arm64,
        version: "7.2.12-1~bpo13+1",
        package: Package::main(
            "pool/main/l/linux-signed-arm64/linux-binary-7.2.12+deb13-cloud-arm64_7.2.12-1~bpo13+1_arm64.deb",
            "366671e9f5ee75dfaa64d08a0f627f2fedd0864c51c08871ac6634d521a22e79",
        ),
        modules: Some(Package::main(
            "pool/main/l/linux/linux-modules-7.2.12+deb13-cloud-arm64_7.2.12-1~bpo13+1_arm64.deb",
            "acb54ef755ae6559e11176ae7a2be405a22ace4399c953a90597236a65f0464a",
        )),
        layouts: &[Layout::V2],
        quick: false,
    },
];

/// One VM: a kernel with cgroups mounted in one way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) kernel: &'static Kernel,
    pub(super) layout: Layout,
}

impl fmt::Display for Run {
    /// What it is called on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = match self.layout {
            Layout::V2 => self.kernel.id.to_owned(),
            layout => format!("{}-{}", self.kernel.id, layout.name()),
        };
        f.pad(&id)
    }
}

/// All that a run without names takes.
pub(super) fn whole() -> Vec<Run> {
    let runs = |kernel: &'static Kernel| kernel.layouts.iter().map(move |&layout| Run { kernel, layout });
    KERNELS.iter().flat_map(runs).collect()
}

/// Those that are taken only by name.
pub(super) fn by_name() -> Vec<Run> {
    let run = |kernel: &'static Kernel| Run { kernel, layout: Layout::V2 };
    KERNELS.iter().filter(|kernel| kernel.layouts.is_empty()).map(run).collect()
}

/// The few for every change.
pub(super) fn quick() -> Vec<Run> {
    KERNELS.iter().filter(|kernel| kernel.quick).map(|kernel| Run { kernel, layout: Layout::V2 }).collect()
}

/// Those that are named, each `KERNEL` or `KERNEL-LAYOUT`, or by an architecture, all of it.
pub(super) fn named(ids: &[String]) -> Result<Vec<Run>, Error> {
    let runs = ids.iter().map(|id| {
        let of_arch: Vec<Run> = whole().into_iter().filter(|run| run.kernel.arch.name() == id).collect();
        if of_arch.is_empty() { one(id).map(|run| vec![run]) } else { Ok(of_arch) }
    });
    Ok(runs.collect::<Result<Vec<_>, _>>()?.concat())
}

fn one(id: &str) -> Result<Run, Error> {
    let layouts = [("-v1", Layout::V1), ("-hybrid", Layout::Hybrid), ("-v2", Layout::V2), ("", Layout::V2)];
    layouts
        .into_iter()
        .find_map(|(suffix, layout)| {
            let name = id.strip_suffix(suffix)?;
            let kernel = KERNELS.iter().find(|kernel| kernel.id == name)?;
            Some(Run { kernel, layout })
        })
        .ok_or_else(|| {
            let known: Vec<String> = whole().iter().chain(&by_name()).map(Run::to_string).collect();
            Error::UnknownKernel { id: id.to_owned(), known: known.join(", ") }
        })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names(runs: &[Run]) -> Vec<String> {
        runs.iter().map(Run::to_string).collect()
    }

    #[test]
    fn kernels_are_chosen_by_name() {
        let ids = ["6.12", "6.12-v1", "7.0-hybrid", "6.1-v2"].map(str::to_owned);
        assert_eq!(names(&named(&ids).unwrap()), ["6.12", "6.12-v1", "7.0-hybrid", "6.1"]);
        let error = named(&["4.19".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`4.19`") && error.contains("6.12-hybrid"), "{error}");
        assert!(named(&["6.12-v3".to_owned()]).is_err());
        let generic = names(&by_name());
        assert_eq!(names(&named(&generic).unwrap()), generic);
        assert!(generic.iter().all(|id| error.contains(id) && !names(&whole()).contains(id)), "{error}");
    }

    #[test]
    fn an_architecture_stands_for_all_of_its_kernels() {
        let amd64 = named(&["amd64".to_owned()]).unwrap();
        assert!(amd64.len() >= 10 && amd64.iter().all(|run| run.kernel.arch == Arch::Amd64));
    }

    #[test]
    fn the_matrix_covers_what_was_promised() {
        let whole = names(&whole());
        for id in ["5.10", "6.1", "6.12", "6.12-v1", "6.12-hybrid", "6.18", "7.0", "7.2"] {
            assert!(whole.iter().any(|name| name == id), "{id}");
        }
        assert_eq!(whole.iter().collect::<HashSet<_>>().len(), whole.len());
        assert_eq!(quick().len(), 3);
    }
}
