//! Asks a server for everything, in pieces that are small enough for it and for us.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Client, ClientError, NodeMetric, NodeTable, Refused, Selector, Source, Window, Workloads,
    answer::PrometheusSeries,
    queries::{NAMES, Query, Share},
    table::MOST_PLACES,
};

/// Approximate limit of samples per answer: some ten megabytes.
const SAMPLES: usize = 250_000;
/// Steps per query, for nodes and for workloads. The number of workloads is unknown in advance.
const STEPS: usize = 1_000;
const WORKLOAD_STEPS: usize = 24;
/// Times at which the raw series of all pods are queried.
const MOMENTS: usize = 24;
/// How often a query is halved if it is too large for the server, or too slow.
const HALVINGS: u32 = 8;
const SLOW_HALVINGS: u32 = 2;

/// Data of a fleet from a server.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Nodes by steps.
    pub table: NodeTable,
    /// Workloads, over all steps.
    pub workloads: Workloads,
    /// Sources of the available metrics.
    pub sources: Vec<(NodeMetric, Source)>,
    /// Source of the metrics of workloads.
    pub workload_source: Option<Source>,
    /// Missing metrics, and the reasons.
    pub missing: Vec<MissingMetric>,
    /// Queries that the server refused.
    pub refused: Vec<Refused>,
    pub warnings: Vec<String>,
    pub requests: u64,
    /// Bytes of the server's answers.
    pub bytes: u64,
}

/// A missing metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissingMetric {
    /// The metric.
    pub figure: String,
    /// Why it is missing.
    pub why: String,
}

impl MissingMetric {
    fn new(figure: &str, why: &impl ToString) -> Self {
        Self { figure: figure.to_owned(), why: why.to_string() }
    }
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The server does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It has nothing of lagstop's.
    #[error(
        "{url} has no series of lagstop for this window{}. Check that `lagstop serve` runs on the nodes and is scraped, or use a \
         longer --window",
        if *is_narrowed { " and --match" } else { "" }
    )]
    Nothing {
        url: String,
        /// With conditions.
        is_narrowed: bool,
    },
}

/// Asks for everything, in `raw` for nothing that rules have written. `progress` hears how many questions of how many are done.
///
/// # Errors
/// When the server cannot be reached, or has nothing. What it refuses, once it has answered at all, is in the result.
pub fn gather(
    client: &mut Client,
    window: Window,
    selector: &Selector,
    raw: bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Gathered, GatherError> {
    let all = selector.of("", &[&format!("__name__=~\"{NAMES}\"")]);
    let names = client.names(&all, window.start(), window.end)?.into_iter();
    // Series of recording rules have colons by convention. Other series must not have them.
    let names: HashSet<String> = names.filter(|name| !raw || !name.contains(':')).collect();
    let nothing =
        |client: &Client| GatherError::Nothing { url: client.url().to_owned(), is_narrowed: !selector.0.is_empty() };
    let Ok(cpus) = NodeMetric::Cpus.query(&names, selector, window.step) else { return Err(nothing(client)) };
    let nodes = most_at_once(client, &cpus, window)?;
    if nodes == 0 {
        return Err(nothing(client));
    }
    let window = window.coarser(MOST_PLACES / nodes);
    let mut gathered = Gathered {
        table: NodeTable::new(window),
        workloads: Workloads::default(),
        sources: Vec::new(),
        workload_source: None,
        missing: Vec::new(),
        refused: Vec::new(),
        warnings: Vec::new(),
        requests: 0,
        bytes: 0,
    };
    let questions = NodeMetric::ALL.len() + Share::ALL.len();
    for (n, figure) in NodeMetric::ALL.into_iter().enumerate() {
        progress(n, questions);
        match figure.query(&names, selector, window.step) {
            Ok(query) => {
                let table = &mut gathered.table;
                let got = each(client, &query, window, 1, SAMPLES / nodes, &mut |series| {
                    let node = node_of(series);
                    for sample in &series.values {
                        if let Some(step) = window.step_at(sample.0) {
                            table.set(&node, step, figure, sample.1);
                        }
                    }
                });
                if gathered.take(got, figure.label())? {
                    gathered.sources.push((figure, query.source));
                }
            }
            Err(why) => gathered.missing.push(MissingMetric::new(figure.label(), &why)),
        }
    }
    let mut moments = BTreeSet::new();
    for (n, share) in Share::ALL.into_iter().enumerate() {
        progress(NodeMetric::ALL.len() + n, questions);
        match share.query(&names, selector, window.step) {
            Ok(query) => {
                let stride = if query.source == Source::Raw { window.steps.div_ceil(MOMENTS) } else { 1 };
                let workloads = &mut gathered.workloads;
                let got = each(client, &query, window, stride, WORKLOAD_STEPS, &mut |series| {
                    for sample in &series.values {
                        let key = ["cluster", "namespace", "workload"].map(|label| series.label(label));
                        workloads.add(key, share, sample.1);
                        moments.extend(window.step_at(sample.0));
                    }
                });
                if gathered.take(got, share.label())? && share == Share::SwitchCost {
                    gathered.workload_source = Some(query.source);
                }
            }
            Err(why) => gathered.missing.push(MissingMetric::new(share.label(), &why)),
        }
    }
    gathered.workloads.over(moments.len());
    gathered.warnings = client.warnings().to_vec();
    (gathered.requests, gathered.bytes) = client.traffic();
    Ok(gathered)
}

impl Gathered {
    /// Whether there is an answer. One that was refused is kept for the report; without a server there is none.
    fn take(&mut self, got: Result<(), ClientError>, figure: &str) -> Result<bool, ClientError> {
        let missing = match got {
            Ok(()) => return Ok(true),
            Err(ClientError::Refused(refused)) => {
                self.refused.push(*refused);
                MissingMetric::new(figure, &"the server refused the query")
            }
            Err(error @ ClientError::TooLong { .. }) => MissingMetric::new(figure, &error),
            Err(error) => return Err(error),
        };
        self.missing.push(missing);
        Ok(false)
    }
}

/// Name of a node: nodes of different clusters may have the same address.
fn node_of(series: &PrometheusSeries) -> String {
    match (series.label("cluster"), series.label("instance")) {
        ("", instance) => instance.to_owned(),
        (cluster, instance) => format!("{cluster}/{instance}"),
    }
}

/// How many nodes there are at a time, at most.
fn most_at_once(client: &mut Client, cpus: &Query, window: Window) -> Result<usize, ClientError> {
    let query = Query { text: format!("count({})", cpus.text), ..cpus.clone() };
    let mut most = 0.0;
    each(client, &query, window, 1, STEPS, &mut |series| {
        most = series.values.iter().map(|sample| sample.1).fold(most, f64::max);
    })?;
    Ok(most as usize)
}

/// Queries every `stride`th step, `most` of them at once, and passes each series of each answer to `take`.
fn each(
    client: &mut Client,
    query: &Query,
    window: Window,
    stride: usize,
    most: usize,
    take: &mut dyn FnMut(&PrometheusSeries),
) -> Result<(), ClientError> {
    let moments = Window { step: window.step * stride as u64, steps: window.steps / stride.max(1), ..window };
    for piece in moments.pieces(most.clamp(1, STEPS)) {
        one(client, query, moments, piece, 0, take)?;
    }
    Ok(())
}

/// Queries a piece of the steps: in halves, if it is too much for the server.
fn one(
    client: &mut Client,
    query: &Query,
    window: Window,
    piece: Range<usize>,
    halvings: u32,
    take: &mut dyn FnMut(&PrometheusSeries),
) -> Result<(), ClientError> {
    let Some(last) = piece.end.checked_sub(1) else { return Ok(()) };
    let error = match client.range(&query.text, window.time(piece.start), window.time(last), window.step) {
        Ok(matrix) => {
            matrix.result.iter().for_each(take);
            return Ok(());
        }
        Err(error) => error,
    };
    let most = if matches!(error, ClientError::Slow { .. }) { SLOW_HALVINGS } else { HALVINGS };
    if !error.is_too_much() || piece.len() < 2 || halvings >= most {
        return Err(error);
    }
    let middle = piece.start + piece.len() / 2;
    one(client, query, window, piece.start..middle, halvings + 1, take)?;
    one(client, query, window, middle..piece.end, halvings + 1, take)
}

#[cfg(test)]
impl Gathered {
    /// A table, and workloads in a namespace `shop`, the first one of which costs most.
    pub(crate) fn example(table: NodeTable, names: &[&str]) -> Self {
        let mut workloads = Workloads::default();
        for (n, name) in names.iter().enumerate() {
            for (share, value) in Share::ALL.into_iter().zip([1.0, 8.0, 2.0, 12.0]) {
                workloads.add(["", "shop", name], share, value / (n + 1) as f64);
            }
        }
        workloads.over(1);
        Self {
            table,
            workloads,
            sources: vec![(NodeMetric::Cpus, Source::Recorded), (NodeMetric::WaitP99, Source::Raw)],
            workload_source: Some(Source::Recorded),
            missing: vec![MissingMetric {
                figure: "steal".to_owned(),
                why: "the server has no such series".to_owned(),
            }],
            refused: Vec::new(),
            warnings: Vec::new(),
            requests: 18,
            bytes: 100_000,
        }
    }
}
