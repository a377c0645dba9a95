use std::{
    fs::File,
    io::Read as _,
    sync::{Arc, Mutex},
};

use ::parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::RowAccessor,
};

use super::*;
use crate::{
    model::{
        Cgroup, Cpu, Crowding, Distribution, Host, Interval, Level, Listener, ListenerTotals, Nanos, Pressure,
        Services, WaitBehind, Workload, fixture,
    },
    recording::{Line, SCHEMA, Writer},
};

/// A recording with everything in it, of three intervals.
fn recorded() -> Reader {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap());
    writer.write(&Line::Header { schema: SCHEMA, session: fixture::session() }).unwrap();
    for mut interval in fixture::overloaded(3) {
        interval.cpus = vec![Cpu { cpu: 1, ..Cpu::default() }];
        interval.listeners = vec![Listener::new(7, "[::1]:80".parse().unwrap())];
        let first = &mut interval.cgroups[0];
        (first.name, first.path) = ("=1+1,\"x\"\n".into(), "/a\u{1b}".into());
        fixture::blame(first, &[(21, 0.5)], 0.5, 0.0);
        first.switch_cost = Some(Distribution::of([(Nanos(100), 90), (Nanos(1_000), 10)]));
        writer.write(&Line::Interval(Box::new(interval))).unwrap();
    }
    Reader::open(file.path()).unwrap()
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn exported(table: TableKind, format: TableFormat) -> Vec<u8> {
    let output = Shared::default();
    export(&mut recorded(), table, format, output.clone(), |_, _| {}).unwrap();
    let bytes = output.0.lock().unwrap();
    bytes.clone()
}

/// The rows of a table by the names of their columns.
fn csv(table: TableKind) -> Vec<std::collections::HashMap<String, String>> {
    let bytes = exported(table, TableFormat::Csv);
    ::csv::Reader::from_reader(&*bytes).deserialize().map(Result::unwrap).collect()
}

#[test]
fn names_do_no_harm_in_a_spreadsheet_or_a_terminal() {
    let rows = csv(TableKind::Cgroups);
    assert_eq!(rows[0]["name"], "'=1+1,\"x\"\u{fffd}");
    assert_eq!(rows[0]["path"], "/a\u{fffd}");
    assert!(!exported(TableKind::Cgroups, TableFormat::Csv).contains(&0x1b));
}

#[test]
fn what_was_not_measured_is_empty_and_times_are_absolute() {
    let rows = csv(TableKind::Cgroups);
    assert_eq!(rows[0]["time"], "2026-08-03T10:00:00.000Z");
    assert_eq!((&*rows[0]["throttled_ns"], &*rows[0]["merged"]), ("", "0"));
    assert_eq!((&*rows[0]["switch_cost_count"], &*rows[0]["accept_wait_count"]), ("100", ""));
    let quantile = |name: &str| rows[0][name].parse::<f64>().unwrap();
    assert!((quantile("switch_cost_p50_ns") / 100.0 - 1.0).abs() < 0.13);
    assert!((quantile("switch_cost_p99_ns") / 1_000.0 - 1.0).abs() < 0.13);
    assert_eq!((&*rows[0]["waits_behind_worst_path"], &*rows[1]["waits_behind_worst_path"]), (&*rows[1]["path"], ""));
    let nanos = |name: &str| rows[0][name].parse::<u64>().unwrap();
    assert_eq!(nanos("waits_behind_worst_ns"), nanos("wait_behind_ns"));
    assert_eq!(csv(TableKind::Host).len(), 3);
    assert_eq!(csv(TableKind::Cpus)[2]["seq"], "2");
    assert_eq!(csv(TableKind::Listeners)[0]["address"], "[::1]:80");
}

#[test]
fn both_formats_say_the_same_and_parquet_has_names_as_they_are() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&exported(TableKind::Cgroups, TableFormat::Parquet)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let metadata = reader.metadata().file_metadata();
    assert_eq!(metadata.created_by(), Some(concat!("lagstop ", env!("CARGO_PKG_VERSION"))));
    assert!(metadata.key_value_metadata().unwrap()[0].value.as_ref().unwrap().contains("node-7"));
    let names: Vec<String> = metadata.schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    let rows = csv(TableKind::Cgroups);
    let mut count = 0;
    for (row, expected) in reader.get_row_iter(None).unwrap().map(Result::unwrap).zip(&rows) {
        assert_eq!(row.get_ulong(place("pick_ns")).unwrap().to_string(), expected["pick_ns"]);
        assert_eq!(row.get_string(place("path")).unwrap().starts_with("/a\u{1b}"), expected["path"] == "/a\u{fffd}");
        assert!(row.get_ulong(place("throttled_ns")).is_err(), "null");
        count += 1;
    }
    assert_eq!(count, rows.len());
    assert_eq!(names.len(), rows[0].len());
}

#[test]
fn no_interval_makes_an_empty_table() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::to_file(file.reopen().unwrap());
    writer.write(&Line::Header { schema: SCHEMA, session: fixture::session() }).unwrap();
    for (format, begins) in [(TableFormat::Csv, &b"time,seq"[..]), (TableFormat::Parquet, b"PAR1")] {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut reader = Reader::open(file.path()).unwrap();
        export(&mut reader, TableKind::Host, format, path.reopen().unwrap(), |_, _| {}).unwrap();
        let mut written = Vec::new();
        File::open(path.path()).unwrap().read_to_end(&mut written).unwrap();
        assert!(written.starts_with(begins));
    }
}

/// The names of what is in `value`, each behind those of what it is in.
fn leaves(name: &str, value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::Object(of) => {
            of.iter().flat_map(|(part, value)| leaves(&format!("{name}_{part}"), value)).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// What a recording has is in the table: by its own name, or by the names of its parts.
#[test]
fn nothing_is_left_out() {
    let whole = Host { pressure: Some(Pressure::default()), ..Host::default() };
    let listener = Listener {
        totals: Some(ListenerTotals::default()),
        services: Some(Services::NONE),
        ..Listener::new(0, ([0; 4], 0).into())
    };
    let workload = Some(Arc::new(Workload { pod: Some("p".into()), ..Workload::default() }));
    let (levels, cpus) = (Some([Level::DEFAULT].into()), Some("0".into()));
    let waits_behind = vec![WaitBehind::default()];
    let cgroup = Cgroup { workload, levels, cpus, waits_behind, ..Cgroup::default() };
    let cpu = Cpu { crowd: vec![Crowding::default()], ..Cpu::default() };
    let json = |value: serde_json::Result<serde_json::Value>| value.unwrap().as_object().unwrap().clone();
    for (table, of) in [
        (TableKind::Cgroups, json(serde_json::to_value(cgroup))),
        (TableKind::Host, json(serde_json::to_value(whole))),
        (TableKind::Cpus, json(serde_json::to_value(cpu))),
        (TableKind::Listeners, json(serde_json::to_value(listener))),
    ] {
        let columns: Vec<String> = table.columns().cells().iter().map(Cell::column).collect();
        for (name, value) in of.iter().chain(&json(serde_json::to_value(<Interval>::default()))) {
            let parts = match (name.as_str(), value) {
                ("host" | "cgroups" | "cpus" | "listeners" | "network_namespaces", _) => continue,
                ("workload", _) => vec!["namespace".to_owned(), "pod".to_owned(), "container".to_owned()],
                ("switch_cost" | "runq_wait" | "accept_wait", _) => {
                    vec![format!("{name}_count"), format!("{name}_p999_ns")]
                }
                ("waits_behind", _) => vec!["waits_behind_worst_path".to_owned(), "waits_behind_worst_ns".to_owned()],
                ("crowd", _) => vec!["crowd_1_id".to_owned(), "crowd_3_runq_wait_ns".to_owned()],
                _ => leaves(name, value),
            };
            for part in parts {
                assert!(columns.contains(&part), "{part} is missing in {table:?}");
            }
        }
        let mut once = columns.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), columns.len(), "{columns:?}");
    }
}
