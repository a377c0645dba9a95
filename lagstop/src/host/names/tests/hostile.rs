//! Files that say what they should not, and files that others could have written.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const CONFIG: &str = "/var/lib/docker/containers";

fn docker_named(host: &Host, called: &str) -> String {
    let config = serde_json::json!({ "ID": ID, "Name": called }).to_string();
    host.write(&format!("{CONFIG}/{ID}/config.v2.json"), &config);
    name(&mut host.names(), &format!("/docker/{ID}"))
}

#[test]
fn what_no_runtime_would_call_a_container_is_no_name() {
    let host = Host::new();
    for hostile in ["/\u{1b}[2J", "/a b", "/a/b", "/", "/a\nb", "/\u{202e}gnp", &"a".repeat(200)] {
        assert_eq!(docker_named(&host, hostile), "docker:0123456789ab", "{hostile:?}");
    }
    assert_eq!(docker_named(&host, "/good"), "docker:good");
}

#[test]
fn what_is_no_such_file_is_no_name() {
    let host = Host::new();
    let other = ID.replace("0123", "ffff");
    let deep = "[".repeat(100_000);
    for text in ["", "{", "null", "[]", &format!(r#"{{"ID":"{other}","Name":"/web"}}"#), &deep, "\u{0}"] {
        host.write(&format!("{CONFIG}/{ID}/config.v2.json"), text);
        assert_eq!(name(&mut host.names(), &format!("/docker/{ID}")), "docker:0123456789ab", "{text:.20}");
    }
    // Larger than any.
    let large = format!(r#"{{"ID":"{ID}","Name":"/web","x":"{}"}}"#, "x".repeat(2 << 20));
    host.write(&format!("{CONFIG}/{ID}/config.v2.json"), &large);
    assert_eq!(name(&mut host.names(), &format!("/docker/{ID}")), "docker:0123456789ab");
}

#[test]
fn what_others_can_write_is_not_believed() {
    let file = format!("{CONFIG}/{ID}/config.v2.json");
    for (what, mode) in [(file.as_str(), 0o666), (CONFIG, 0o777), ("/var/lib", 0o775)] {
        let host = Host::new();
        assert_eq!(docker_named(&host, "/web"), "docker:web");
        let place = host.0.path().join(what.trim_start_matches('/'));
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(name(&mut host.names(), &format!("/docker/{ID}")), "docker:0123456789ab", "{what}");
    }
    let host = Host::new();
    let config = serde_json::json!({ "ID": ID, "Name": "/web" }).to_string();
    host.write("/home/eve/config", &config).make(&format!("{CONFIG}/{ID}"));
    symlink("/home/eve/config", host.0.path().join(file.trim_start_matches('/'))).unwrap();
    assert_eq!(name(&mut host.names(), &format!("/docker/{ID}")), "docker:0123456789ab");
}

#[test]
fn an_id_elsewhere_has_nobodys_name() {
    let host = Host::new();
    docker_named(&host, "/web");
    let user = "/user.slice/user-1000.slice/user@1000.service";
    for path in [
        format!("{user}/app.slice/docker-{ID}.scope"),
        format!("/sec-user-1000/docker/{ID}"),
        format!("/system.slice/app.service/docker-{ID}.scope"),
        format!("/user.slice/docker-{ID}.scope"),
        format!("/docker/{}/docker/{ID}", ID.replace("0123", "ffff")),
        format!("…/docker/{ID}"),
    ] {
        let label = host.names().label(path.as_str().into());
        assert!(!label.name.contains("web"), "{path}: {}", label.name);
        assert!(label.workload.is_none_or(|workload| workload.container.as_deref() != Some("web")), "{path}");
    }
}

#[test]
fn foreign_names_cannot_look_like_anothers() {
    let host = Host::new();
    let evil = "../../shop/web\u{1b}]0;x\u{7}";
    host.write("/run/systemd/users/1000", &format!("NAME={evil}\n"))
        .make("/var/lib/pve-cluster")
        .write("/var/lib/lxc/200/config", &format!("lxc.uts.name = {evil}\n"));
    for path in ["/user.slice/user-1000.slice", "/lxc/200"] {
        let shown = name(&mut host.names(), path);
        assert!(!shown.contains(['/', '\u{1b}', '\u{7}']), "{shown:?}");
        assert!(shown.starts_with("user@") || shown.starts_with("proxmox:"), "{shown:?}");
    }
    // A session's fields are plain, or not shown.
    host.write("/run/systemd/users/1000", "NAME=eve\n")
        .write("/run/systemd/sessions/3", "UID=1000\nSERVICE=a\u{1b}b\nTTY=x) (root\n");
    assert_eq!(name(&mut host.names(), "/user.slice/user-1000.slice/session-3.scope"), "user@eve/session-3");
}

#[test]
fn a_guest_is_believed_only_about_its_own_scope() {
    let host = Host::new();
    // Whoever may define guests writes what follows the name.
    let state = "<domain id='3'><name>web</name><metadata><domain id='4'><name>db</name></domain></metadata></domain>";
    host.write("/run/libvirt/qemu/web.xml", state).write("/run/libvirt/qemu/db.xml", state);
    let called = |path: &str| name(&mut host.names(), path);
    assert_eq!(called(r"/machine.slice/machine-qemu\x2d3\x2dweb.scope"), "libvirt:web");
    assert_eq!(called(r"/machine.slice/machine-qemu\x2d4\x2ddb.scope"), "machine:qemu-4-db");
    assert_eq!(called(r"/machine.slice/machine-qemu\x2d3\x2ddb.scope"), "machine:qemu-3-db");
}
