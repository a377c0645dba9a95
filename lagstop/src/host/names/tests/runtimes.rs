//! The files of each runtime, as it lays them out, and what is made of them.

use super::*;

/// Another container's id.
const OTHER: &str = "ffff456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Names on `host` of cgroups, by path.
#[track_caller]
fn assert_names(host: &Host, expected: &[(&str, &str)]) {
    let mut names = host.names();
    for (path, expected) in expected {
        assert_eq!(name(&mut names, path), *expected, "{path}");
    }
}

fn container(host: &Host, path: &str) -> Option<String> {
    workload(&mut host.names(), path).and_then(|[_, _, container]| container)
}

fn docker(id: &str, name: &str) -> String {
    // What else is in it: secrets, and what images say.
    format!(
        r#"{{"State":{{"Running":true,"Health":{{"Log":[{{"Output":"\"Name\":\"/evil\""}}]}}}},"ID":"{id}","Image":"sha256:1",
        "Config":{{"Env":["PASSWORD=secret"],"Labels":{{"com.docker.compose.project":"evil"}}}},"Name":"/{name}"}}"#
    )
}

#[test]
fn docker_under_systemd_and_without() {
    let host = Host::new();
    host.write(&format!("/var/lib/docker/containers/{ID}/config.v2.json"), &docker(ID, "shop-web-1"));
    assert_names(
        &host,
        &[
            (&format!("/system.slice/docker-{ID}.scope"), "docker:shop-web-1"),
            (&format!("/tenants.slice/docker-{ID}.scope/container"), "docker:shop-web-1/container"),
            (&format!("/docker/{ID}"), "docker:shop-web-1"),
            (&format!("/docker/{ID}/init.scope"), "docker:shop-web-1/init.scope"),
            (&format!("/ecs/4d1f/{ID}"), "docker:shop-web-1"),
            (&format!("/docker/{OTHER}"), "docker:ffff456789ab"),
        ],
    );
    assert_eq!(container(&host, &format!("/docker/{ID}")).as_deref(), Some("shop-web-1"));
    assert_eq!(container(&host, &format!("/docker/{OTHER}")).as_deref(), Some("ffff456789ab"));
}

#[test]
fn docker_elsewhere() {
    let host = Host::new();
    host.write("/etc/docker/daemon.json", r#"{"data-root": "/data/docker", "debug": true}"#)
        .write(&format!("/data/docker/containers/{ID}/config.v2.json"), &docker(ID, "moved"))
        .write(&format!("/var/lib/docker/165536.165536/containers/{OTHER}/config.v2.json"), &docker(OTHER, "mapped"));
    assert_names(&host, &[(&format!("/docker/{ID}"), "docker:moved"), (&format!("/docker/{OTHER}"), "docker:mapped")]);
}

#[test]
fn podman_of_root_and_its_monitor() {
    let host = Host::new();
    host.write(
        "/var/lib/containers/storage/overlay-containers/containers.json",
        &format!(r#"[{{"id":"{ID}","names":["db"],"metadata":"{{\"name\":\"evil\"}}"}},{{"id":"{UID}"}}]"#),
    )
    .write(
        "/run/containers/storage/overlay-containers/volatile-containers.json",
        &format!(r#"[{{"id":"{OTHER}","names":["job"],"image":"x"}}]"#),
    );
    assert_names(
        &host,
        &[
            (&format!("/machine.slice/libpod-{ID}.scope"), "podman:db"),
            (&format!("/machine.slice/libpod-{ID}.scope/container"), "podman:db/container"),
            (&format!("/machine.slice/libpod-conmon-{ID}.scope"), "podman:db (monitor)"),
            (&format!("/libpod_parent/libpod-{OTHER}"), "podman:job"),
            ("/libpod_parent/conmon", "podman (monitors)"),
            ("/system.slice/web.service/libpod-payload-1", "web.service/libpod-payload-1"),
        ],
    );
    assert_eq!(container(&host, &format!("/machine.slice/libpod-{ID}.scope")).as_deref(), Some("db"));
    assert_eq!(container(&host, &format!("/machine.slice/libpod-conmon-{ID}.scope")), None, "it is not the container");
}

#[test]
fn podman_storage_elsewhere() {
    let host = Host::new();
    host.write("/etc/containers/storage.conf", "[storage]\ndriver = \"btrfs\"\ngraphroot = \"/data/podman\"\n")
        .write("/data/podman/btrfs-containers/containers.json", &format!(r#"[{{"id":"{ID}","names":["db"]}}]"#));
    assert_names(&host, &[(&format!("/machine.slice/libpod-{ID}.scope"), "podman:db")]);
}

#[test]
fn a_pod_of_podman_is_no_container() {
    let host = Host::new();
    host.write(
        "/var/lib/containers/storage/overlay-containers/containers.json",
        &format!(r#"[{{"id":"{OTHER}","names":["shop-web"]}}]"#),
    );
    let slice = format!("/machine.slice/machine-libpod_pod_{ID}.slice");
    assert_names(
        &host,
        &[
            (&slice, "podman-pod:0123456789ab"),
            (&format!("{slice}/libpod-{OTHER}.scope"), "podman:shop-web"),
            // Without systemd the pod's id looks like a container's.
            (&format!("/libpod_parent/{ID}"), "podman-pod:0123456789ab"),
            (&format!("/libpod_parent/{ID}/libpod-{OTHER}"), "podman:shop-web"),
            (&format!("/libpod_parent/{ID}/conmon"), "podman-pod:0123456789ab/conmon"),
        ],
    );
    assert_eq!(container(&host, &format!("/libpod_parent/{ID}")), None);
    assert_eq!(container(&host, &format!("/libpod_parent/{ID}/libpod-{OTHER}")).as_deref(), Some("shop-web"));
}

#[test]
fn users_own_podman_and_docker_are_theirs() {
    let host = Host::new();
    host.write("/run/systemd/users/1000", "# This is private data. Do not parse.\nNAME=alice\nSTATE=active\n").write(
        "/home/alice/.local/share/containers/storage/overlay-containers/containers.json",
        &format!(r#"[{{"id":"{ID}","names":["forged"]}}]"#),
    );
    let user = "/user.slice/user-1000.slice/user@1000.service";
    assert_names(
        &host,
        &[
            (&format!("{user}/user.slice/libpod-{ID}.scope"), "user@alice/user.slice/libpod-0123456789ab.scope"),
            (&format!("{user}/user.slice/docker-{ID}.scope"), "user@alice/user.slice/docker-0123456789ab.scope"),
        ],
    );
    assert_eq!(container(&host, &format!("{user}/user.slice/libpod-{ID}.scope")), None);
}

const TASKS: &str = "/run/containerd/io.containerd.runtime.v2.task";

#[test]
fn nerdctl_under_systemd_and_without() {
    let host = Host::new();
    let spec = r#"{"ociVersion":"1","process":{"env":["SECRET=1"]},"annotations":{"nerdctl/name":"web","x":"y"}}"#;
    host.write(&format!("{TASKS}/default/{ID}/config.json"), spec);
    let paths = [format!("/system.slice/nerdctl-{ID}.scope"), format!("/default/{ID}")];
    assert_names(&host, &[(&paths[0], "nerdctl:web"), (&paths[1], "nerdctl:web")]);
    // Renamed: the annotation stays.
    host.write("/var/lib/nerdctl/1935db59/names/default/api", ID)
        .write("/var/lib/nerdctl/1935db59/names/default/other", OTHER);
    assert_names(&host, &[(&paths[0], "nerdctl:api"), (&paths[1], "nerdctl:api")]);
}

#[test]
fn ctr_calls_cgroups_by_namespace_and_name() {
    let host = Host::new();
    host.make(&format!("{TASKS}/default/web")).make(&format!("{TASKS}/batch/job-1"));
    assert_names(
        &host,
        &[
            ("/default/web", "containerd:web"),
            ("/batch/job-1/x", "containerd:batch/job-1/x"),
            ("/default/none", "/default/none"),
            ("/faas/web", "/faas/web"),
        ],
    );
}

fn kubepods(runtime: &str) -> String {
    let pod = UID.replace('-', "_");
    format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod}.slice/{runtime}-{ID}.scope")
}

#[test]
fn containerd_tells_of_a_pod_what_the_kubelets_links_cut_off() {
    let host = Host::new();
    let spec = format!(
        r#"{{"annotations":{{"io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-name":"web-7d9",
        "io.kubernetes.cri.sandbox-uid":"{UID}","io.kubernetes.cri.container-name":"nginx"}}}}"#
    );
    host.write(&format!("{TASKS}/k8s.io/{ID}/config.json"), &spec);
    assert_names(
        &host,
        &[
            (&kubepods("cri-containerd"), "shop/web-7d9/nginx"),
            (&format!("/kubepods/besteffort/pod{UID}/{ID}"), "shop/web-7d9/nginx"),
            (&format!("/kubepods/pod{}/{ID}", UID.replace("1111", "9999")), "container:0123456789ab"),
            // It is not the kubelet's cgroup.
            (&format!("/k8s.io/{ID}"), "container:0123456789ab"),
        ],
    );
    let mut names = host.names();
    let whole = Some(["shop", "web-7d9", "nginx"].map(|part| Some(part.to_owned())));
    assert_eq!(workload(&mut names, &kubepods("cri-containerd")), whole);
}

#[test]
fn a_link_that_was_cut_still_tells_the_pod() {
    let host = Host::new();
    let mut names = host.names();
    let container = "c".repeat(200);
    let link: String = format!("web-7d9_shop_{container}-{ID}").chars().take(251).collect();
    names
        .kubelet
        .learn(&format!("{link}.log"), Path::new(&format!("/var/log/pods/shop_web-7d9_{UID}/{container}/0.log")));
    assert_eq!(name(&mut names, &format!("/kubepods/burstable/pod{UID}")), "shop/web-7d9");
    let path = format!("/kubepods/burstable/pod{UID}/{ID}");
    assert_eq!(name(&mut names, &path), "container:0123456789ab");
    let pod = ["shop", "web-7d9", "0123456789ab"].map(|part| Some(part.to_owned()));
    assert_eq!(workload(&mut names, &path), Some(pod));
}

#[test]
fn crio_and_its_monitor() {
    let host = Host::new();
    let spec = format!(
        r#"{{"annotations":{{"io.kubernetes.cri-o.ContainerName":"forged","io.kubernetes.cri-o.Namespace":"kube-system",
        "io.kubernetes.cri.sandbox-name":"forged","io.kubernetes.pod.namespace":"shop","io.kubernetes.pod.name":"web-7d9",
        "io.kubernetes.pod.uid":"{UID}","io.kubernetes.container.name":"nginx"}}}}"#
    );
    host.write(&format!("/run/containers/storage/overlay-containers/{ID}/userdata/config.json"), &spec);
    assert_names(
        &host,
        &[
            (&kubepods("crio"), "shop/web-7d9/nginx"),
            (&format!("{}/container", kubepods("crio")), "shop/web-7d9/nginx/container"),
        ],
    );
    // Its monitor is in the pod, and not the container.
    let mut names = host.names();
    let monitor = kubepods("crio-conmon");
    assert!(name(&mut names, &monitor).ends_with(" (monitor)"));
    assert_eq!(workload(&mut names, &monitor), Some([Some("shop".to_owned()), Some("web-7d9".to_owned()), None]));
}

#[test]
fn lxc_and_its_monitor() {
    let host = Host::new();
    host.make("/var/lib/lxc/web").make("/var/lib/lxc/db-1");
    assert_names(
        &host,
        &[
            ("/lxc.payload.web", "lxc:web"),
            ("/lxc.payload.web-1/system.slice", "lxc:web/system.slice"),
            ("/lxc.payload.db-1", "lxc:db-1"),
            ("/lxc.payload.gone", "lxc:gone"),
            ("/lxc.monitor.web", "lxc:web (monitor)"),
            ("/lxc/web/payload/init.scope", "lxc:web/init.scope"),
            ("/lxc/web/monitor", "lxc:web (monitor)"),
            ("/lxc/gone", "/lxc/gone"),
            ("/x/lxc.payload.web", "/x/lxc.payload.web"),
        ],
    );
    assert_eq!(container(&host, "/lxc.payload.web/x").as_deref(), Some("web"));
    assert_eq!(container(&host, "/lxc.monitor.web"), None);
}

#[test]
fn incus_and_lxd_have_projects() {
    let host = Host::new();
    host.make("/run/incus/web")
        .make("/run/incus/shop_web")
        .make("/var/log/lxd/api")
        .make("/var/snap/lxd/common/lxd/logs/x_y");
    assert_names(
        &host,
        &[
            ("/lxc.payload.web", "incus:web"),
            ("/lxc.payload.shop_web", "incus:shop/web"),
            ("/lxc.monitor.shop_web", "incus:shop/web (monitor)"),
            ("/lxc.payload.api", "lxd:api"),
            ("/lxc.payload.x_y", "lxd:x/y"),
            ("/lxc.payload.a_b", "lxc:a_b"),
        ],
    );
}

#[test]
fn nspawn_and_other_machines() {
    let host = Host::new();
    assert_names(
        &host,
        &[
            ("/machine.slice/systemd-nspawn@web-1.service/payload", "nspawn:web-1/payload"),
            ("/machine.slice/systemd-nspawn@web-1.service/supervisor", "nspawn:web-1/supervisor"),
            (r"/machine.slice/machine-build\x2dbox.scope/payload", "machine:build-box/payload"),
            ("/system.slice/machine-x.scope", "machine-x.scope"),
            (
                "/user.slice/user-1.slice/user@1.service/app.slice/systemd-nspawn@x.service",
                "user@1.service/app.slice/systemd-nspawn@x.service",
            ),
        ],
    );
    assert_eq!(container(&host, "/machine.slice/systemd-nspawn@web-1.service/payload").as_deref(), Some("web-1"));
}

fn libvirt(id: u32, name: &str) -> String {
    format!(
        "<domstatus state='running' pid='7'><vcpus><vcpu id='0' pid='8'/></vcpus>\n<domain type='kvm' id='{id}'>\n  <name>{name}</name>\n\
         <metadata><name>forged</name></metadata><devices><graphics passwd='secret'/></devices></domain></domstatus>\n"
    )
}

#[test]
fn libvirts_guests_and_each_of_their_vcpus() {
    let host = Host::new();
    host.write("/run/libvirt/qemu/web_1.xml", &libvirt(3, "web_1"))
        .write("/run/libvirt/qemu/web1.xml", &libvirt(4, "web1"))
        .write("/run/libvirt/qemu/R&D box.xml", &libvirt(5, "R&amp;D box"));
    let scope = r"/machine.slice/machine-qemu\x2d3\x2dweb1.scope";
    assert_names(
        &host,
        &[
            (&format!("{scope}/libvirt/vcpu0"), "libvirt:web_1/vcpu0"),
            (&format!("{scope}/libvirt/vcpu11"), "libvirt:web_1/vcpu11"),
            (&format!("{scope}/libvirt/emulator"), "libvirt:web_1/emulator"),
            (&format!("{scope}/vcpu0"), "libvirt:web_1/vcpu0"),
            (scope, "libvirt:web_1"),
            ("/machine/qemu-4-web1.libvirt-qemu/vcpu1", "libvirt:web1/vcpu1"),
            (r"/machine.slice/machine-qemu\x2d5\x2dRDbox.scope", "libvirt:R&D box"),
            // Nobody tells.
            (r"/machine.slice/machine-qemu\x2d9\x2dweb1.scope/libvirt/vcpu0", "machine:qemu-9-web1/vcpu0"),
        ],
    );
    let mut names = host.names();
    let mut vcpus = |path: &str| names.label(path.into()).vcpus;
    assert_eq!(vcpus(&format!("{scope}/libvirt/vcpu0")), Some(Vcpus::Own));
    assert_eq!(vcpus(scope), Some(Vcpus::Inside), "those that have no cgroup of their own");
    for path in
        [format!("{scope}/libvirt/emulator"), format!("{scope}/libvirt/vcpu0/x"), "/system.slice/vcpu0".to_owned()]
    {
        assert_eq!(vcpus(&path), None, "{path}");
    }
}

#[test]
fn proxmox_guests_and_containers() {
    let host = Host::new();
    host.make("/var/lib/pve-cluster")
        .write("/run/qemu-server/100.pid", "4711\n")
        .write("/proc/4711/cgroup", "0::/qemu.slice/100.scope\n")
        .write("/proc/4711/cmdline", "kvm\0-id\0vm\0-name\0mail,debug-threads=on\0-smp\0x\0")
        // Another's process by now.
        .write("/run/qemu-server/101.pid", "4712\n")
        .write("/proc/4712/cgroup", "0::/system.slice/cron.service\n")
        .write("/proc/4712/cmdline", "kvm\0-name\0forged\0")
        .write("/var/lib/lxc/200/config", "lxc.arch = amd64\nlxc.uts.name = wiki\n");
    assert_names(
        &host,
        &[
            ("/qemu.slice/100.scope", "proxmox:mail (100)"),
            ("/qemu.slice/101.scope", "proxmox:101"),
            ("/lxc/200", "proxmox:wiki (200)"),
            ("/lxc/200/ns/system.slice/nginx.service", "proxmox:wiki (200)/system.slice/nginx.service"),
            ("/lxc.monitor/200", "proxmox:wiki (200) (monitor)"),
            ("/lxc/201/ns", "proxmox:201"),
        ],
    );
    assert_eq!(host.names().label("/qemu.slice/100.scope".into()).vcpus, Some(Vcpus::Inside));
    assert_eq!(container(&host, "/lxc/200/ns/x").as_deref(), Some("wiki (200)"));
    // Where there is no Proxmox, such cgroups are somebody else's.
    assert_names(&Host::new(), &[("/qemu.slice/100.scope", "100.scope"), ("/lxc/200", "/lxc/200")]);
}

#[test]
fn firecracker_has_ids_alone() {
    let host = Host::new();
    assert_names(
        &host,
        &[
            ("/firecracker/vm-551e7604", "firecracker:vm-551e7604"),
            ("/firecracker/no_id", "/firecracker/no_id"),
            ("/x/firecracker/vm", "/x/firecracker/vm"),
        ],
    );
    assert_eq!(host.names().label("/firecracker/vm-1".into()).vcpus, Some(Vcpus::Inside));
}

#[test]
fn users_and_their_sessions() {
    let host = Host::new();
    host.write("/run/systemd/users/1000", "NAME=alice\n")
        .write("/run/systemd/sessions/3", "UID=1000\nUSER=alice\nSERVICE=sshd\nTTY=pts/0\nREMOTE_HOST=forged.example\n")
        .write("/run/systemd/sessions/4", "UID=1001\nUSER=bob\nSERVICE=sshd\n")
        .write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n");
    let alice = "/user.slice/user-1000.slice";
    assert_names(
        &host,
        &[
            (alice, "user@alice"),
            (&format!("{alice}/session-3.scope"), "user@alice/session-3 (sshd, pts/0)"),
            (&format!("{alice}/session-4.scope"), "user@alice/session-4"),
            (&format!("{alice}/user@1000.service/app.slice/firefox.service"), "user@alice/app.slice/firefox.service"),
            (&format!("{alice}/user@1001.service/x"), "user@alice/user@1001.service/x"),
            ("/user.slice/user-1001.slice/session-4.scope", "user@bob/session-4 (sshd)"),
            ("/user.slice/user-1002.slice/session-9.scope", "session-9.scope"),
            ("/user.slice/user-x.slice", "user-x.slice"),
        ],
    );
}

#[test]
fn a_name_comes_when_the_file_does_and_changes_with_it() {
    let host = Host::new();
    let path = format!("/docker/{ID}");
    let mut names = host.names();
    assert_eq!(name(&mut names, &path), "docker:0123456789ab");
    assert!(!names.look(), "nothing has changed");
    let file = format!("/var/lib/docker/containers/{ID}/config.v2.json");
    for called in ["web", "renamed"] {
        host.write(&file, &docker(ID, called));
        assert!(names.look());
        assert_eq!(name(&mut names, &path), format!("docker:{called}"));
        assert!(!names.look());
    }
    fs::remove_file(host.0.path().join(file.trim_start_matches('/'))).unwrap();
    assert!(names.look());
    assert_eq!(name(&mut names, &path), "docker:0123456789ab");
}

#[test]
fn what_is_kept_is_bounded() {
    let mut names = nothing();
    for n in 0..=MOST_KNOWN {
        names.label(format!("/lxc.payload.{n}").into());
    }
    assert!(names.known.len() > MOST_KNOWN && names.look());
    assert_eq!(names.known.len(), 0, "those that are there are looked up again");
}
