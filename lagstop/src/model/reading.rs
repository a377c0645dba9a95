//! What lagstop reads and does not count, each declared once: recordings, metrics, formulas and docs have their words from here.

/// A value that comes from the kernel's own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// In recordings; stable.
    pub name: &'static str,
    /// In Prometheus; stable.
    pub metric: &'static str,
    /// What it says, without a full stop.
    pub meaning: &'static str,
    /// What else readers of recordings have to know, in sentences.
    pub note: &'static str,
    pub source: &'static str,
}

/// Declares them: name in code, name in recordings, metric, meaning, note, and source.
macro_rules! readings {
    ($($constant:ident = $name:literal, $metric:literal: $meaning:literal, $note:literal, $source:literal;)*) => {
        impl Reading {
            $(pub const $constant: Self = Self {
                name: $name,
                metric: $metric,
                meaning: $meaning,
                note: $note,
                source: $source,
            };)*
        }
    };
}

readings! {
    CPUS_ONLINE = "cpus_online", "lagstop_host_cpus_online": "CPUs online",
        "Read at the end of the interval.",
        "`/sys/devices/system/cpu/online`";
    QUOTA = "quota_ns", "lagstop_cgroup_quota_cores": "CPU time per second that its quota allows, if it has one",
        "Quota / period, read at the end of the interval. Left out if it has no quota of its own, if that is unknown, and in \
         recordings of older versions.",
        "`cpu.max`, or `cpu.cfs_quota_us` / `cpu.cfs_period_us`";
    BACKLOG = "backlog", "lagstop_listener_backlog": "Connections in its accept queues",
        "Read at the end of the interval. `null` if the sockets could not be listed, and if more than 64 network namespaces had \
         traffic and others were read in this interval: its counts (`drops`, `listen_overflows`) are in the interval that next reads it.",
        "`sk_ack_backlog` of its sockets";
    BACKLOG_CAPACITY = "backlog_capacity", "lagstop_listener_backlog_capacity":
        "Capacity of its accept queues, in connections",
        "The kernel refuses only above a socket's limit: hence one more for each. `null` if the sockets could not be listed.",
        "Σ (`sk_max_ack_backlog` + 1) of its sockets";
    DROPS = "drops", "lagstop_listener_drops_total":
        "Connections and connection requests that it dropped, for any reason",
        "For example because an accept queue was full. Drops of a socket that was closed since the last reading are missing. \
         `null` if the sockets could not be listed, and in the first interval after its network namespace was found.",
        "`sk_drops` of its sockets";
    LISTEN_OVERFLOWS = "listen_overflows", "lagstop_netns_listen_overflows_total":
        "Connections that found the accept queue of any listener in the network namespace full",
        "`null` in the first interval after the namespace was found, and if it cannot be read.",
        "`ListenOverflows` of `/proc/net/netstat`";
}

impl Reading {
    /// All that there is to say of its field.
    pub fn description(&self) -> String {
        format!("{}. {}", self.meaning, self.note)
    }
}
