//! Files that somebody may have damaged, or made up to do harm, beside those that are good.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::{
    Files,
    sources::{Sources, compressed, decompressed, followed, text},
};

/// All of these files.
pub(super) fn files(sources: &Sources) -> Files {
    let mut files = sources.plain_files();
    let packed = compressed(&sources.lines());
    let plain = text(&sources.lines());
    files.extend(plain_faults(&plain).map(|(name, text)| (format!("{name}.jsonl"), text.into_bytes())));
    let short: String = plain.split_inclusive('\n').take(2).collect();
    files.extend(histograms(&short).map(|(name, text)| (format!("histogram-{name}.jsonl"), text.into_bytes())));
    files.extend(packed_faults(&decompressed(&packed)).map(|(name, text)| (format!("{name}.jsonl.zst"), again(&text))));
    files.extend(compressed_files(&packed).map(|(name, bytes)| (format!("{name}.jsonl.zst"), bytes)));
    files.insert("long.jsonl.zst".to_owned(), compressed(&sources.long()));
    files.insert("followed.jsonl.zst".to_owned(), followed(&sources.long()));
    files.insert("gzip".to_owned(), b"\x1f\x8b\x08\0\0\0\0\0".to_vec());
    files
}

fn plain_faults(plain: &str) -> impl Iterator<Item = (&'static str, String)> {
    let lines: Vec<&str> = plain.split_inclusive('\n').collect();
    let (header, gap, interval, last) = (lines[0], lines[2], lines[1], lines[lines.len() - 1]);
    let deep =
        |fill: &str| format!("{header}{}", interval.replacen("\"host\":", &format!("\"x\":{fill},\"host\":"), 1));
    let in_order = |lines: &[&str]| lines.concat();
    [
        ("cut-off", plain[..plain.len() * 2 / 3].to_owned()),
        ("cut-header", header[..header.len() / 2].to_owned()),
        ("zeros-at-the-end", format!("{header}{interval}{}", "\0".repeat(64))),
        ("two-headers", in_order(&[header, interval, header])),
        ("no-header", in_order(&[interval, last])),
        ("after-the-footer", in_order(&[header, last, interval])),
        ("out-of-order", in_order(&[header, lines[3], interval])),
        ("one-line-twice", in_order(&[header, interval, interval])),
        ("newer", header.replacen("\"schema\":2", "\"schema\":3", 1)),
        (
            "wrong-types",
            in_order(&[header, gap, interval]).replacen("\"switches\":", "\"switches\":\"\\u001b\",\"x\":", 1),
        ),
        ("missing-field", format!("{header}{}", interval.replacen("\"duration_ns\":", "\"x\":", 1))),
        ("unknown-lines", format!("{header}{{\"kind\":\"remark\",\"x\":[{{}}]}}\r\n\n  \n{interval}")),
        ("deep", deep(&format!("{}1{}", "[".repeat(500), "]".repeat(500)))),
        ("deep-and-open", deep(&"{\"x\":[".repeat(500))),
    ]
    .into_iter()
}

/// Lines whose columns cannot be taken apart.
fn packed_faults(packed: &str) -> impl Iterator<Item = (&'static str, String)> {
    let replaced = |from: &str, to: &str| packed.replacen(from, to, 1);
    [
        ("column-too-short", replaced("\"cpu_ns\":[", "\"cpu_ns\":[1],\"x\":[")),
        ("column-of-null", replaced("\"cpu_ns\":[", "\"cpu_ns\":null,\"x\":[")),
        ("ids-that-wrap", replaced("\"cgroups\":{\"id\":[", "\"cgroups\":{\"id\":[-1,9223372036854775807],\"x\":[")),
        ("ids-that-stand-still", replaced("\"cgroups\":{\"id\":[", "\"cgroups\":{\"id\":[1,0,0,0],\"x\":[")),
        ("too-many-ids", replaced("\"cgroups\":{\"id\":[", &many("\"cgroups\":{\"id\":[", "1", 110_000))),
        ("all-ids-the-same", replaced("\"cgroups\":{\"id\":[", &many("\"cgroups\":{\"id\":[", "0", 16 << 20))),
        ("too-long-a-column", replaced("\"cpu_ns\":[", &many("\"cpu_ns\":[", "0", 110_000))),
        ("too-many-cpus", replaced("\"cpus\":[", &many("\"cpus\":[", CPU, 8_200))),
        ("too-many-listeners", replaced("\"listeners\":[", &many("\"listeners\":[", LISTENER, 66_000))),
        ("no-names", replaced("{\"kind\":\"names\"", "{\"kind\":\"remark\"")),
        ("no-word", replaced("\"runq_wait\":\"", "\"runq_wait\":\"ZZZZZZZZZZz9 ")),
        ("recompressed", packed.to_owned()),
    ]
    .into_iter()
}

const CPU: &str = r#"{"cpu":0,"busy_ns":0,"idle_ns":0,"crowd":[]}"#;
const LISTENER: &str = r#"{"netns":1,"address":"0.0.0.0:1"}"#;

/// A list that begins with `begin` and has `count` times `item`. After it, the list that was there follows under
/// another name.
fn many(begin: &str, item: &str, count: usize) -> String {
    let all = format!("{item},").repeat(count);
    format!("{begin}{}],\"x\":[", all.trim_end_matches(','))
}

/// Encodings that the library of histograms is not to be given, and one that is good.
fn histograms(plain: &str) -> impl Iterator<Item = (&'static str, String)> {
    // Figures, lowest and highest value, and counts, in zigzag and LEB128.
    let with = |figures: u32, lowest: u64, highest: u64, counts: &[u8]| {
        let length = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let fields = [0x1c84_9313, length, 0, figures].map(u32::to_be_bytes).concat();
        let range = [lowest, highest, 1f64.to_bits()].map(u64::to_be_bytes).concat();
        let word = BASE64.encode([&fields, &range, counts].concat());
        plain.replacen("\"runq_wait\":\"", &format!("\"runq_wait\":\"{word}\",\"x\":\""), 1)
    };
    [
        ("good", with(2, 1, 1 << 38, &[10, 3, 20])),
        ("of-everything", with(5, 1, u64::MAX, &[2])),
        ("of-nothing", with(0, 0, 0, &[])),
        ("many-zeros", with(3, 1, 1 << 38, &[0xff, 0xff, 0xff, 0xff, 0x1f, 2])),
        ("largest-count", with(2, 1, 1 << 38, &[0xff; 9])),
    ]
    .into_iter()
}

/// Frames that are not as they should be.
fn compressed_files(good: &[u8]) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let mut flipped = good.to_vec();
    flipped[good.len() / 2] ^= 0x10;
    [
        ("compressed", good.to_vec()),
        ("cut-off", good[..good.len() / 2].to_vec()),
        ("flipped-bit", flipped),
        (
            "index-of-more",
            with_index(good, r#"{"lines_before":18446744073709551615,"start_ns":[0,1,2,3,4,5,6],"gaps":[]}"#),
        ),
        ("index-of-less", with_index(good, r#"{"lines_before":1,"start_ns":[0],"gaps":[]}"#)),
        ("index-that-is-none", with_index(good, "[]")),
        ("rubbish-at-the-end", [good, b"{\"kind\":\"footer\"}"].concat()),
        ("bomb", again(&format!("{{\"kind\":\"header\",\"x\":\"{}\"}}\n", " ".repeat(4 << 20)))),
    ]
    .into_iter()
}

/// With `json` in the place of the first index.
fn with_index(good: &[u8], json: &str) -> Vec<u8> {
    const MAGIC: [u8; 4] = 0x184d_2a5e_u32.to_le_bytes();
    let Some(at) = good.windows(MAGIC.len()).position(|bytes| bytes == MAGIC) else { return good.to_vec() };
    let (before, frame) = good.split_at(at);
    let length = frame.get(4..8).and_then(<[u8]>::first_chunk).map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let behind = frame.get(8 + length..).unwrap_or_default();
    let length = u32::try_from(json.len()).unwrap_or_default();
    [before, &MAGIC, &length.to_le_bytes(), json.as_bytes(), behind].concat()
}

/// As `zstd` does.
fn again(text: &str) -> Vec<u8> {
    zstd::stream::encode_all(text.as_bytes(), 1).unwrap_or_default()
}
