//! Names by paths, as runtimes make them and as others would have them.

mod hostile;
mod runtimes;

use std::{fs, path::Path};

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "11111111-2222-3333-4444-555555555555";

/// A host's files, in a directory.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let place = self.0.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
        self
    }

    fn make(&self, directory: &str) -> &Self {
        fs::create_dir_all(self.0.path().join(directory.trim_start_matches('/'))).unwrap();
        self
    }

    fn names(&self) -> Names {
        Names::at(self.0.path())
    }
}

/// With nothing but paths.
fn nothing() -> Names {
    Host::new().names()
}

fn kubernetes() -> Names {
    let mut names = nothing();
    names.kubelet.learn(
        &format!("web-7d9_shop_nginx-{ID}.log"),
        Path::new(&format!("/var/log/pods/shop_web-7d9_{UID}/nginx/0.log")),
    );
    names
}

/// The name of the cgroup at `path`.
fn name(names: &mut Names, path: &str) -> String {
    names.label(path.into()).name.to_string()
}

#[test]
fn units_containers_and_pods_are_named_as_people_know_them() {
    let mut plain = nothing();
    for (path, called) in [
        ("/", "/"),
        ("/func-3", "/func-3"),
        ("/faas/func-3", "/faas/func-3"),
        ("/system.slice/nginx.service", "nginx.service"),
        ("/system.slice/app.service/payload", "app.service/payload"),
        ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
        (&format!("/system.slice/docker-{ID}.scope"), "docker:0123456789ab"),
        (&format!("/docker/{ID}"), "docker:0123456789ab"),
        (&format!("/machine.slice/libpod-{ID}.scope"), "podman:0123456789ab"),
        (&format!("/kubepods/burstable/pod{UID}/{ID}"), "container:0123456789ab"),
        (&format!("/kubepods/burstable/pod{UID}"), &format!("pod:{UID}")),
    ] {
        assert_eq!(name(&mut plain, path), called, "{path}");
    }
}

#[test]
fn the_kubelets_links_give_namespace_pod_and_container() {
    let mut names = kubernetes();
    let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    for (path, called) in [
        (format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope"), "shop/web-7d9/nginx"),
        (format!("/kubepods/pod{UID}/{ID}"), "shop/web-7d9/nginx"),
        (format!("/kubepods.slice/kubepods-burstable.slice/{slice}"), "shop/web-7d9"),
        ("/kubepods.slice".to_owned(), "kubepods.slice"),
    ] {
        assert_eq!(name(&mut names, &path), called, "{path}");
    }
}

fn workload(names: &mut Names, path: &str) -> Option<[Option<String>; 3]> {
    let Workload { namespace, pod, container } = Workload::clone(names.label(path.into()).workload.as_deref()?);
    Some([namespace, pod, container].map(|part| part.map(|part| part.to_string())))
}

#[test]
fn what_is_inside_of_a_container_belongs_to_it() {
    let mut names = kubernetes();
    let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    let whole = Some(["shop", "web-7d9", "nginx"].map(|part| Some(part.to_owned())));
    for path in [
        format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope"),
        format!("/kubepods.slice/{slice}/cri-containerd-{ID}.scope/system.slice/app.service"),
        format!("/kubepods/pod{UID}/{ID}"),
        format!("/kubepods/pod{UID}/{ID}/payload"),
    ] {
        assert_eq!(workload(&mut names, &path), whole, "{path}");
    }
    let pod = Some([Some("shop".to_owned()), Some("web-7d9".to_owned()), None]);
    assert_eq!(workload(&mut names, &format!("/kubepods.slice/{slice}")), pod);
    for path in ["/", "/kubepods.slice", "/system.slice/nginx.service"] {
        assert_eq!(workload(&mut names, path), None, "{path}");
    }
}

#[test]
fn a_container_without_a_name_has_its_id() {
    let mut plain = nothing();
    let id = Some("0123456789ab".to_owned());
    let alone = Some([None, None, id.clone()]);
    for path in [
        format!("/system.slice/docker-{ID}.scope"),
        format!("/docker/{ID}/nested"),
        format!("/machine.slice/libpod-{ID}.scope/container"),
    ] {
        assert_eq!(workload(&mut plain, &path), alone, "{path}");
    }
    let uid = Some(UID.to_owned());
    let path = format!("/kubepods/burstable/pod{UID}/{ID}");
    assert_eq!(workload(&mut plain, &path), Some([None, uid.clone(), id.clone()]));
    assert_eq!(workload(&mut plain, &format!("/kubepods/burstable/pod{UID}")), Some([None, uid, None]));
    // A pod's name is known from its other containers.
    let other = ID.replace("0123", "ffff");
    let named = Some([Some("shop".to_owned()), Some("web-7d9".to_owned()), Some("ffff456789ab".to_owned())]);
    assert_eq!(workload(&mut kubernetes(), &format!("/kubepods/pod{UID}/{other}")), named);
}

#[test]
fn containers_without_names_are_counted_and_why_is_told() {
    let [named, other, third] = ["0123", "ffff", "eeee"].map(|digits| ID.replace("0123", digits));
    let host = Host::new();
    let config = format!(r#"{{"ID":"{named}","Name":"/web"}}"#);
    host.write(&format!("/var/lib/docker/containers/{named}/config.v2.json"), &config);
    let paths = [
        format!("/system.slice/docker-{named}.scope"),
        format!("/docker/{other}"),
        format!("/docker/{other}/inside"),
        format!("/docker/{third}"),
        format!("/machine.slice/libpod-{other}.scope"),
        format!("/machine.slice/libpod-conmon-{other}.scope"),
        // Whose files nobody knows, or are his user's.
        format!("/system.slice/crio-{other}.scope"),
        format!("/user.slice/user-1000.slice/user@1000.service/libpod-{other}.scope"),
    ];
    let all = host.names().nameless(paths.iter().map(String::as_str));
    let why = |one: &Nameless| one.why.as_ref().map(io::Error::kind);
    let seen: Vec<_> = all.iter().map(|one| (one.runtime, one.containers, why(one))).collect();
    assert_eq!(seen, [("docker", 2, None), ("podman", 1, Some(io::ErrorKind::NotFound))]);
}

#[test]
fn the_outermost_container_is_the_one() {
    let inner = ID.replace("0123", "ffff");
    let mut names = kubernetes();
    let whole = Some(["shop", "web-7d9", "nginx"].map(|part| Some(part.to_owned())));
    // What runs in a container calls cgroups in it as it likes: another's id, another's pod, a unit of the host's.
    for (path, called) in [
        (format!("/kubepods/pod{UID}/{ID}/docker/{inner}/x"), "shop/web-7d9/nginx/docker/ffff456789ab/x"),
        (format!("/kubepods/pod{UID}/{ID}/system.slice/sshd.service"), "shop/web-7d9/nginx/system.slice/sshd.service"),
        (format!("/kubepods/pod{UID}/{ID}/kubepods"), "shop/web-7d9/nginx/kubepods"),
    ] {
        assert_eq!(
            (name(&mut names, &path), workload(&mut names, &path)),
            (called.to_owned(), whole.clone()),
            "{path}"
        );
    }
    let outer = Some([None, None, Some("ffff456789ab".to_owned())]);
    for path in [
        format!("/docker/{inner}/kubepods/pod{UID}/{ID}"),
        format!("/system.slice/docker-{inner}.scope/kubepods.slice/kubepods-pod{UID}.slice/cri-containerd-{ID}.scope"),
        format!("/machine.slice/libpod-{inner}.scope/container/cri-containerd-{ID}.scope"),
    ] {
        assert_eq!(workload(&mut names, &path), outer, "{path}");
        assert!(!name(&mut names, &path).contains("shop"), "{path}: {}", name(&mut names, &path));
    }
}

#[test]
fn a_cgroup_that_merely_calls_itself_a_container_keeps_its_path() {
    let mut names = kubernetes();
    let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    let user = "/user.slice/user-1000.slice/user@1000.service";
    for path in [
        format!("/sec-user-1000/cri-containerd-{ID}.scope"),
        format!("/sec-user-1000/{ID}"),
        format!("/sec-user-1000/kubepods.slice/{slice}/cri-containerd-{ID}.scope"),
        format!("/sec-user-1000/kubepods/pod{UID}"),
        format!("/sec-user-1000/docker/{ID}"),
        format!("{user}/app.slice/cri-containerd-{ID}.scope"),
        format!("{user}/kubepods.slice/{slice}/cri-containerd-{ID}.scope"),
        format!("{user}/kubepods.slice/{slice}/libpod-{ID}.scope"),
        format!("/user.slice/user-1000.slice/cri-containerd-{ID}.scope"),
        format!("/system.slice/app.service/cri-containerd-{ID}.scope"),
        format!("/system.slice/app.service/kubepods.slice/{slice}"),
        format!("/cri-containerd-{ID}.scope"),
        format!("/{ID}"),
        // Its beginning is not known.
        format!("…/kubepods.slice/{slice}/cri-containerd-{ID}.scope"),
        format!("…/docker/{ID}"),
    ] {
        assert_eq!((name(&mut names, &path), workload(&mut names, &path)), (path.clone(), None), "{path}");
    }
}

#[test]
fn an_id_is_its_own_pods_alone() {
    let mut names = kubernetes();
    let other = UID.replace("1111", "9999");
    let path = format!("/kubepods/burstable/pod{other}/{ID}");
    assert_eq!(name(&mut names, &path), "container:0123456789ab");
    assert_eq!(workload(&mut names, &path), Some([None, Some(other), Some("0123456789ab".to_owned())]));
    // The kubelet names what is below its own cgroup.
    for path in [format!("/docker/{ID}"), format!("/system.slice/cri-containerd-{ID}.scope")] {
        assert_eq!(workload(&mut names, &path), Some([None, None, Some("0123456789ab".to_owned())]), "{path}");
    }
}

#[test]
fn runtimes_have_their_own_places() {
    let mut plain = nothing();
    let slice = format!("kubelet-kubepods-besteffort-pod{}.slice", UID.replace('-', "_"));
    for (path, called) in [
        (format!("/tenants.slice/tenants-1.slice/docker-{ID}.scope"), "docker:0123456789ab"),
        (format!("/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope"), "podman:0123456789ab"),
        (format!("/libpod_parent/libpod-{ID}"), "podman:0123456789ab"),
        (format!("/system.slice/nerdctl-{ID}.scope"), "nerdctl:0123456789ab"),
        (format!("/default/{ID}"), "container:0123456789ab"),
        (format!("/ecs/4d1f/{ID}"), "container:0123456789ab"),
        (format!("/kubelet.slice/kubelet-kubepods.slice/{slice}/cri-containerd-{ID}.scope"), "containerd:0123456789ab"),
        (format!("/kubelet/kubepods/pod{UID}/crio-{ID}"), "crio:0123456789ab"),
        ("/lxc.payload.web/system.slice/nginx.service".to_owned(), "lxc:web/system.slice/nginx.service"),
    ] {
        assert_eq!(name(&mut plain, &path), called, "{path}");
    }
}

#[test]
fn what_a_user_runs_for_himself_says_so() {
    let mut names = kubernetes();
    let user = "/user.slice/user-1000.slice/user@1000.service";
    for (path, called) in [
        (format!("{user}/user.slice/libpod-{ID}.scope/container"), "user.slice/libpod-0123456789ab.scope/container"),
        (format!("{user}/app.slice/docker-{ID}.scope"), "app.slice/docker-0123456789ab.scope"),
        (format!("{user}/app.slice/sshd.service"), "app.slice/sshd.service"),
    ] {
        assert_eq!(
            (name(&mut names, &path), workload(&mut names, &path)),
            (format!("user@1000.service/{called}"), None),
            "{path}"
        );
    }
}

#[test]
fn the_innermost_unit_is_found() {
    for (path, unit) in [
        ("/", None),
        ("/func-3", None),
        ("/system.slice/app.service/payload/x", Some("app.service")),
        ("/user.slice/user-1000.slice/session-3.scope", Some("session-3.scope")),
    ] {
        assert_eq!(last_unit(path), unit, "{path}");
    }
}

#[test]
fn links_that_mean_nothing_teach_nothing() {
    let mut kubelet = Kubelet::default();
    for link in ["", "x.log", "a_b_c-123.log", "no-underscores.log", &format!("{ID}.log")] {
        kubelet.learn(link, Path::new("/"));
        kubelet.learn(link, Path::new("/var/log/pods/shop_web_1234/nginx/0.log"));
    }
    assert_eq!(kubelet, Kubelet::default());
}
