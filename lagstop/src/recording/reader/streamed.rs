//! Reading a compressed recording while it comes, from somebody who may mean no good.
//!
//! Nothing is made of more than has come: what one interval may take is limited, and a multiple of what was sent for it.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use thiserror::Error;
use zstd::stream::read::Decoder;

use super::{
    ReadError,
    error::Problem,
    head::{self, Head},
    outline::Outline,
    room,
};
use crate::{
    display::plain,
    model::{Interval, Session},
    recording::{
        line::Gap,
        packed::{Names, PackedInterval, unpack},
    },
};

/// Log₂ of the largest window: 8 MB is the most that a receiver should have to bear (RFC 8878, 3.1.1.1.2). lagstop takes a
/// sixteenth.
const LARGEST_WINDOW: u32 = 23;
/// The longest line: columns of 100,000 cgroups are 47 MB.
const LONGEST_LINE: u64 = 64 << 20;
/// Bytes of memory for names: those of 100,000 cgroups.
const NAMES: u64 = 64 << 20;
/// Bytes from one interval to the next: a line, the names before it, and a chunk's end.
const MOST_BETWEEN: u64 = 192 << 20;
const BUFFER: usize = 128 << 10;

/// Reads intervals as they come.
pub struct StreamReader<R: Read> {
    /// The name of the source, for errors.
    from: PathBuf,
    lines: BufReader<Decoder<'static, BufReader<Counted<R>>>>,
    line: Vec<u8>,
    number: u64,
    /// Bytes since the last interval.
    between: u64,
    /// What had come when this chunk began, and the one before: what was read ahead may be of the next.
    began: [u64; 2],
    outline: Outline,
    names: Names,
}

/// What came next.
#[derive(Debug)]
pub enum Streamed {
    /// What holds for all intervals: it comes first, and once.
    Session(Box<Session>),
    Interval(Box<Interval>),
    /// A time in which the server only watched.
    Gap(Gap),
    /// Nothing more will come.
    Ended(StreamEnd),
}

/// Why no more comes.
#[derive(Debug, Error)]
pub enum StreamEnd {
    #[error("the server has ended")]
    Footer,
    #[error("the server has closed the connection")]
    Closed,
    #[error("{}", plain(.0))]
    Failed(#[source] io::Error),
}

impl<R: Read> fmt::Debug for StreamReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader").field("from", &self.from).field("number", &self.number).finish_non_exhaustive()
    }
}

impl<R: Read> StreamReader<R> {
    /// To read what comes from `source`, which is called `from` in errors.
    ///
    /// # Errors
    /// When the library that decompresses fails.
    pub fn new(source: R, from: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::new(from, None, Problem::Read(source));
        let source = Counted { source, count: 0, failed: None };
        let mut decoder = Decoder::with_buffer(BufReader::with_capacity(BUFFER, source)).map_err(failed)?;
        decoder.window_log_max(LARGEST_WINDOW).map_err(failed)?;
        Ok(Self {
            from: from.to_owned(),
            lines: BufReader::with_capacity(BUFFER, decoder),
            line: Vec::new(),
            number: 0,
            between: 0,
            began: [0; 2],
            // They are passed on, and not kept.
            outline: Outline::with_room_for_gaps(0),
            names: Names::within(NAMES),
        })
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// When what comes is no recording, or more than any host has to say.
    pub fn read_next(&mut self) -> Result<Streamed, ReadError> {
        loop {
            if let Some(end) = self.read_line()? {
                return Ok(Streamed::Ended(end));
            }
            if self.line.is_empty() {
                continue;
            }
            if let Some(next) = self.take_in().map_err(|problem| self.error(problem))? {
                self.between = 0;
                return Ok(next);
            }
        }
    }

    /// Takes in the line. Gives what it says, if that is for the caller.
    fn take_in(&mut self) -> Result<Option<Streamed>, Problem> {
        let line = &*self.line;
        let head = match head::skim(line) {
            Some(head) => head,
            None => head::parse(line).map_err(|error| match self.number {
                1 => Problem::NoRecording(error),
                _ => Problem::wrong("line", error),
            })?,
        };
        let interval = match head {
            Head::Interval(start) => {
                self.outline.interval(start)?;
                serde_json::from_slice(line).map_err(|error| Problem::wrong("interval", error))?
            }
            Head::Packed(start) => {
                self.outline.interval(start)?;
                let packed: PackedInterval =
                    serde_json::from_slice(line).map_err(|error| Problem::wrong("interval", error))?;
                unpack(&packed, &self.names).map_err(|error| Problem::wrong("interval", error))?
            }
            Head::Names => {
                self.names.learn(super::names(line)?)?;
                return Ok(None);
            }
            // Either ends a chunk. A merged interval only repeats what the chunk's intervals said.
            Head::Merged | Head::ChunkEnd => {
                self.names.clear();
                self.began = [self.began[1], self.count()];
                return Ok(None);
            }
            Head::Gap => {
                self.outline.other()?;
                let gap = serde_json::from_slice(line).map_err(|error| Problem::wrong("gap", error))?;
                return Ok(Some(Streamed::Gap(gap)));
            }
            Head::Other => {
                self.outline.other()?;
                return Ok(None);
            }
            Head::Header => {
                self.outline.line(head, line)?;
                return Ok(self.outline.session.take().map(|session| Streamed::Session(session.into())));
            }
            Head::Footer => return Ok(Some(Streamed::Ended(StreamEnd::Footer))),
        };
        Ok(Some(Streamed::Interval(Box::new(interval))))
    }

    /// Reads the next line. Gives why there is none.
    fn read_line(&mut self) -> Result<Option<StreamEnd>, ReadError> {
        self.line.clear();
        let limit = LONGEST_LINE;
        let read = (&mut self.lines).take(limit + 1).read_until(b'\n', &mut self.line);
        self.number += 1;
        self.between = self.between.saturating_add(self.line.len() as u64);
        match read {
            Err(error) => {
                let failed = self.lines.get_mut().get_mut().get_mut().failed.take();
                match failed {
                    Some(error) => return Ok(Some(StreamEnd::Failed(error))),
                    None if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(StreamEnd::Closed)),
                    None => return Err(self.error(Problem::Damaged(error))),
                }
            }
            Ok(_) if self.line.last() != Some(&b'\n') && self.line.len() as u64 <= limit => {
                return Ok(Some(StreamEnd::Closed));
            }
            Ok(_) => {}
        }
        if self.line.len() as u64 > limit {
            return Err(self.error(Problem::TooLong { limit }));
        }
        let explained = room::line(self.count().saturating_sub(self.began[0]));
        if self.line.len() as u64 > explained || self.between > MOST_BETWEEN {
            return Err(self.error(Problem::Bomb));
        }
        self.line.truncate(self.line.trim_ascii_end().len());
        Ok(None)
    }

    /// Bytes that have come.
    fn count(&self) -> u64 {
        self.lines.get_ref().get_ref().get_ref().count
    }

    fn error(&self, problem: Problem) -> ReadError {
        ReadError::new(&self.from, Some(self.number), problem)
    }
}

/// Counts what has come, and keeps why there is no more.
#[derive(Debug)]
struct Counted<R> {
    source: R,
    count: u64,
    failed: Option<io::Error>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.source.read(buffer) {
            Ok(read) => {
                self.count += read as u64;
                Ok(read)
            }
            Err(error) => {
                let kind = error.kind();
                if kind != io::ErrorKind::Interrupted {
                    self.failed = Some(error);
                }
                Err(kind.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        model::{Cgroup, CgroupId, Nanos, fixture},
        recording::{Chunks, Line, SCHEMA},
    };

    fn header() -> Line {
        Line::Header { schema: SCHEMA, session: fixture::session() }
    }

    fn intervals(count: u64) -> Vec<Interval> {
        let one = &fixture::full_of_problems()[0];
        (0..count).map(|seq| Interval { seq, start_ns: Nanos(seq * 1_000), ..one.clone() }).collect()
    }

    /// As a server sends it.
    fn sent(intervals: &[Interval]) -> Vec<Vec<u8>> {
        sent_in(Chunks::to_follow(), intervals)
    }

    fn sent_in(mut chunks: Chunks, intervals: &[Interval]) -> Vec<Vec<u8>> {
        let header = chunks.compress(&header()).unwrap();
        let rest = intervals.iter().map(|interval| chunks.compress_interval(interval).unwrap());
        std::iter::once(header).chain(rest).collect()
    }

    /// Gives each thing that is read of it, and how it ends.
    fn read_each(bytes: &[u8], mut each: impl FnMut(Streamed)) -> Result<StreamEnd, ReadError> {
        let mut reader = StreamReader::new(bytes, Path::new("https://node:9185"))?;
        loop {
            match reader.read_next()? {
                Streamed::Ended(end) => return Ok(end),
                other => each(other),
            }
        }
    }

    /// All that is read of it, and how it ends.
    fn read(bytes: &[u8]) -> Result<(Vec<Interval>, StreamEnd), ReadError> {
        let mut all = Vec::new();
        let end = read_each(bytes, |read| match read {
            Streamed::Session(session) => assert_eq!((*session, all.len()), (fixture::session(), 0)),
            Streamed::Interval(interval) => all.push(*interval),
            Streamed::Gap(gap) => assert_eq!(gap.reason, Gap::calm(Nanos::ZERO, Nanos::ZERO).reason),
            Streamed::Ended(end) => unreachable!("{end}"),
        })?;
        Ok((all, end))
    }

    fn said(bytes: &[u8]) -> String {
        read(bytes).unwrap_err().to_string()
    }

    #[test]
    fn what_was_sent_is_read_over_the_ends_of_chunks() {
        let intervals = intervals(130);
        // A file may be sent as well.
        for chunks in [Chunks::to_follow(), Chunks::new()] {
            let (back, end) = read(&sent_in(chunks, &intervals).concat()).unwrap();
            assert_eq!(back, intervals);
            assert!(matches!(end, StreamEnd::Closed), "{end}");
        }
    }

    #[test]
    fn names_take_no_more_memory_the_longer_it_goes_on() {
        // Cgroups come and go.
        let cgroup = |seq: u64| Cgroup { id: CgroupId(seq + 1), path: format!("/{seq}").into(), ..Cgroup::default() };
        let of = |one: Interval| Interval { cgroups: vec![cgroup(one.seq)], ..one };
        let bytes = sent(&intervals(130).into_iter().map(of).collect::<Vec<_>>()).concat();
        let mut reader = StreamReader::new(&*bytes, Path::new("node")).unwrap();
        let mut most = 0;
        while !matches!(reader.read_next().unwrap(), Streamed::Ended(_)) {
            most = most.max(reader.names.len());
        }
        assert_eq!(most, 60, "those of a chunk");
    }

    /// A pipe: what is not there yet does not come.
    #[test]
    fn each_interval_can_be_read_before_the_next_is_sent() {
        struct Pieces(std::collections::VecDeque<Vec<u8>>);
        impl Read for Pieces {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some(piece) = self.0.pop_front() else { return Err(io::ErrorKind::WouldBlock.into()) };
                buffer[..piece.len()].copy_from_slice(&piece);
                Ok(piece.len())
            }
        }
        let intervals = intervals(70);
        let mut sent = sent(&intervals).into_iter();
        let first = Pieces(sent.by_ref().take(1).collect());
        let mut reader = StreamReader::new(first, Path::new("node")).unwrap();
        assert!(matches!(reader.read_next(), Ok(Streamed::Session(_))));
        for (piece, interval) in sent.zip(intervals) {
            reader.lines.get_mut().get_mut().get_mut().source.0.push_back(piece);
            let Streamed::Interval(back) = reader.read_next().unwrap() else { panic!("it ended") };
            assert_eq!(*back, interval);
        }
        let Streamed::Ended(StreamEnd::Failed(error)) = reader.read_next().unwrap() else { panic!("it goes on") };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn what_is_cut_off_is_good_up_to_the_last_interval() {
        let intervals = intervals(3);
        let sent = sent(&intervals);
        let bytes = sent.concat();
        for cut in (sent[0].len()..bytes.len()).step_by(11) {
            let (back, _) = read(&bytes[..cut]).unwrap();
            assert_eq!(back, intervals[..back.len()]);
        }
    }

    fn zstd(text: &str) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn nothing_is_made_of_more_than_was_sent() {
        let header = serde_json::to_string(&header()).unwrap() + "\n";
        let blank = |mebibytes: usize| " ".repeat(mebibytes << 20);
        let long = zstd(&format!("{header}{}\n", blank(20)));
        assert!(long.len() < 100_000 && said(&long).contains("decompression bomb"), "{}", said(&long));
        let endless = zstd(&(header.clone() + &format!("{}\n", " ".repeat(500_000)).repeat(500)));
        assert!(said(&endless).contains("decompression bomb"), "{}", said(&endless));
        let named = |ids: std::ops::Range<u64>| {
            let named: Vec<String> = ids.map(|id| format!("{{\"id\":{id},\"path\":\"/\",\"name\":\"\"}}")).collect();
            format!("{{\"kind\":\"names\",\"cgroups\":[{}]}}\n", named.join(","))
        };
        let names: String = (0..40).map(|n| named(n * 20_000..(n + 1) * 20_000)).collect();
        assert!(said(&zstd(&(header.clone() + &names))).contains("decompression bomb"));
        assert!(said(&zstd(&(header.clone() + &header))).contains("second header"));
    }

    #[test]
    fn a_window_that_takes_much_memory_is_refused() {
        let header = serde_json::to_string(&header()).unwrap() + "\n";
        let of = |log: u32| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(log).unwrap();
            encoder.write_all(header.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        assert!(read(&of(23)).is_ok());
        assert!(said(&of(24)).contains("damaged"), "{}", said(&of(24)));
    }

    #[test]
    fn what_is_no_recording_is_said() {
        for bytes in [&b"<html>hello</html>"[..], &zstd("hello\n"), &zstd("{\"kind\":\"gap\",\"start_ns\":1}\n")] {
            let said = said(bytes);
            assert!(said.starts_with("https://node:9185, line 1: "), "{said}");
        }
        for bytes in [&b""[..], &zstd("")] {
            let (intervals, end) = read(bytes).unwrap();
            assert!(intervals.is_empty() && matches!(end, StreamEnd::Closed), "{end}");
        }
    }

    proptest! {
        #[test]
        fn damage_never_makes_it_panic(at in any::<prop::sample::Index>(), bit in 0..8_u8, cut in any::<prop::sample::Index>()) {
            let mut bytes = sent(&intervals(2)).concat();
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            // What is damaged may be valid, and say something else.
            let _ = read_each(&bytes, drop);
            let _ = read_each(&bytes[..cut.index(bytes.len())], drop);
        }
    }
}
