//! What others than lagstop write, as it should be and as it should not.

use crate::fuzz::target::Target;

/// Each with the target that takes it, and its name.
#[rustfmt::skip]
pub(super) const ALL: &[(Target, &str, &str)] = &[
    (
        Target::WebConfig,
        "whole.yml",
        "tls_server_config:\n\
         \x20 cert_file: server.crt\n\
         \x20 key_file: /keys/server.key\n\
         \x20 client_auth_type: RequireAndVerifyClientCert\n\
         \x20 client_ca_file: ca.crt\n\
         \x20 min_version: TLS13\n\
         basic_auth_users:\n\
         \x20 alice: $2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG\n",
    ),
    (
        Target::WebConfig,
        "cut-off.yml",
        "tls_server_config:\n\
         \x20 cert_file: server.crt\n\
         \x20 key_file: server.key\n\
         basic_auth_users:\n",
    ),
    (
        Target::WebConfig,
        "not-done.yml",
        "tls_server_config: {cert_file: a, key_file: b, cipher_suites: [TLS_AES_128_GCM_SHA256]}\n\
         rate_limit: {burst: 1}\n",
    ),
    (
        Target::WebConfig,
        "aliases.yml",
        "basic_auth_users: &a\n\
         \x20 x: &b [*a, *b]\n\
         \x20 y: !!binary aGk=\n\
         \x20 ? z\n\
         \x20 : |\n\
         \x20   text\n",
    ),
    (
        Target::Config,
        "whole.toml",
        "[measure]\n\
         interval = \"1s\"\n\
         group-by = \"leaf\"\n\
         max-cgroups = 2500\n\
         load-credit-time = \"2s\"\n\
         \n\
         [top]\n\
         \n\
         [thresholds]\n\
         overhead_warn = 0.05\n\
         mean_switch_cost_warn = \"10us\"\n",
    ),
    (
        Target::Config,
        "wrong.toml",
        "[measure]\n\
         max-cgroups = 0\n\
         interval = 1e400\n\
         [thresholds]\n\
         x = nan\n\
         \"\\u0000\" = [1]\n",
    ),
    (Target::Mountinfo, "v2", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"),
    (
        Target::Mountinfo,
        "hybrid",
        "24 22 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
         25 24 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         27 24 0:24 /../.. /sys/fs/cgroup/unified\\040x rw - cgroup2 cgroup2 rw\n",
    ),
    (Target::Mountinfo, "escapes", "40 39 0:26 /docker/a\\134\\777\\04 /sys\\ä\\ rw - cgroup2 - - rw\n1 2 -\n - \n"),
    (
        Target::KernelFiles,
        "cpu-stat",
        "usage_usec 99\n\
         user_usec 1\n\
         nr_periods 5\n\
         nr_throttled 3\n\
         throttled_usec 18446744073709551615\n\
         nr_bursts 0\n",
    ),
    (
        Target::KernelFiles,
        "stat",
        "cpu  10 20 30 40 50 60 70 80 90 100\n\
         cpu0 1 2 3 4 5 6 7 8 9 10\n\
         cpu4294967295 18446744073709551615 1 1 1 1 1 1\n\
         intr 5 6 7\n",
    ),
    (
        Target::KernelFiles,
        "pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=18446744073709551615\n\
         full avg10=0.00 total=1\n",
    ),
    (
        Target::KernelFiles,
        "netstat",
        "TcpExt: SyncookiesSent ListenOverflows ListenDrops\n\
         TcpExt: 1 22 3\n\
         IpExt: InOctets\n\
         IpExt: 9\n",
    ),
    (Target::KernelFiles, "cpu-max", "max 100000\n"),
    (Target::KernelFiles, "cpus", "0-3,8,10-4294967295\n"),
    (Target::KernelFiles, "thread", "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 12345 20\n"),
    (Target::KernelFiles, "schedstat", "12 34 5\n"),
    (
        Target::Prometheus,
        "matrix.json",
        "{\"status\":\"success\",\"warnings\":[\"part is missing\"],\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"instance\":\"a\"},\"values\":[[1.5,\"2\"],[2,\"NaN\"],[3,\"+Inf\"],[5,\"two\"],[6]]},{\"metric\":{}}]}}",
    ),
    (Target::Prometheus, "names.json", "{\"status\":\"success\",\"data\":[\"lagstop_cpus_online\",\"up\"]}"),
    (
        Target::Prometheus,
        "error.json",
        "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\\u001b[31m\"}",
    ),
    (Target::Prometheus, "deep.json", "{\"data\":{\"result\":[{\"values\":[[1,\"2\",[[[[[[[[{\"x\":[]}]]]]]]]]]}]}}"),
    (
        Target::Journal,
        "whole.jsonl",
        "{\"policy\":\"weight\",\"pid\":7,\"started\":8,\"boot\":null}\n\
         {\"kind\":\"file\",\"directory\":\"/sys/fs/cgroup\",\"inode\":1,\"file\":\"cpu.weight\",\"before\":\"100\",\"after\":\"250\"}\n\
         {\"kind\":\"file\",\"directory\":\"/proc/self/cwd\",\"inode\":1,\"file\":\"cpu.idle\",\"before\":\"0\",\"after\":\"1\"}\n\
         {\"undone\":[0]}\n",
    ),
    (
        Target::Journal,
        "thread.jsonl",
        "{\"pid\":7}\n\
         {\"kind\":\"thread\",\"tid\":1,\"started\":2,\"before\":{\"size\":48,\"policy\":0,\"flags\":0,\"nice\":0,\"priority\":0,\"runtime\":0,\"deadline\":0,\"period\":0},\"after\":{\"size\":48,\"policy\":2,\"flags\":0,\"nice\":0,\"priority\":1,\"runtime\":0,\"deadline\":0,\"period\":0}}\n\
         {\"undone\":[18446744073709551615]}\n\
         no line",
    ),
];
