//! What the server counts about itself, in the text format that Prometheus reads.
//!
//! Counters live in memory and start at zero with the server. Labels come from
//! fixed sets (route templates, statuses, reasons), never from what a request
//! says, so their number is bounded whatever is sent.

use super::refusal::{Reason, Refusal};
use super::routes::{Service, Shared};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use sketch_model::RunRecord;
use std::sync::Arc;
use std::time::Instant;

/// Seconds; from a read in memory to an upload over a slow line.
const BUCKETS: [f64; 8] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRoute {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Because {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Run {
    outcome: &'static str,
    build: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: String,
}

/// All counters of a server.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<OfRoute, Histogram>,
    refusals: Family<Because, Counter>,
    runs: Family<Run, Counter>,
    /// Records of runs that were known already.
    pub repeated: Counter,
    pub connections: Gauge,
    /// Connections beyond what one address may have.
    pub turned_away: Counter,
    pub handshakes_failed: Counter,
    /// Connections closed because no whole head of a request came in time: idle
    /// ones, and those that meant to stay.
    pub silent: Counter,
    upload_bytes: Gauge,
    streams: Gauge,
    agents: Gauge,
    campaigns: Family<InState, Gauge>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut shown = Shown(Registry::with_prefix("failsketch"));
        Metrics {
            requests: shown.count("requests", "Requests answered"),
            seconds: shown.metric(
                "request_seconds",
                "Time to answer a request",
                Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            ),
            refusals: shown.count("refusals", "Requests refused, by reason"),
            runs: shown.count("runs_accepted", "Runs accepted"),
            repeated: shown.count("runs_repeated", "Records of runs that were known already"),
            connections: shown.count("connections", "Open connections"),
            turned_away: shown.count(
                "connections_turned_away",
                "Connections beyond what one address may have",
            ),
            handshakes_failed: shown.count("handshakes_failed", "TLS handshakes that failed"),
            silent: shown.count(
                "connections_silent",
                "Connections closed because no request came in time",
            ),
            upload_bytes: shown.count("upload_bytes", "Memory held by uploads in progress"),
            streams: shown.count("streams", "Pages followed live"),
            agents: shown.count("agents", "Agents heard of since the start"),
            campaigns: shown.count("campaigns", "Diagnoses, by state"),
            registry: shown.0,
        }
    }
}

/// What has been registered so far.
struct Shown(Registry);

impl Shown {
    fn count<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.metric(name, help, M::default())
    }

    fn metric<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }
}

impl Metrics {
    pub fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Because { reason }).inc();
    }

    pub fn accepted(&self, record: &RunRecord) {
        let run = Run {
            outcome: if record.failed() {
                "failure"
            } else {
                "success"
            },
            build: if record.execution.is_original() {
                "original"
            } else {
                "tracked"
            },
        };
        self.runs.get_or_create(&run).inc();
    }
}

/// Counts every answer.
pub async fn counted(State(service): Shared, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let route = path.map_or_else(|| "none".to_owned(), |p| p.as_str().to_owned());
    let method = match request.method().as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        _ => "other",
    };
    let begun = Instant::now();
    let response = next.run(request).await;
    let metrics = &service.metrics;
    let seconds = begun.elapsed().as_secs_f64();
    let of_route = OfRoute {
        route: route.clone(),
    };
    metrics.seconds.get_or_create(&of_route).observe(seconds);
    let answered = Answered {
        route,
        method,
        status: response.status().as_u16(),
    };
    metrics.requests.get_or_create(&answered).inc();
    if let Some(reason) = response.extensions().get::<Reason>() {
        metrics.refused(reason.into());
    }
    response
}

/// All counters, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, description = "OpenMetrics text", content_type = "application/openmetrics-text")))]
pub async fn metrics(State(service): Shared) -> Result<Response, Refusal> {
    let metrics = &service.metrics;
    let allowed = service.limits.bodies;
    let free = crate::http::upload::free(&service.uploads);
    metrics
        .upload_bytes
        .set(allowed.saturating_sub(free) as i64);
    let streams = crate::http::events::MOST_STREAMS - service.streams.available_permits();
    metrics.streams.set(streams as i64);
    let (agents, forgotten) = service.fleet.counted();
    metrics
        .agents
        .set((agents as u64).saturating_add(forgotten) as i64);
    count_campaigns(&service).await?;
    let mut text = String::new();
    encode(&mut text, &metrics.registry).map_err(|_| {
        Refusal::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            "the counters could not be written as text",
        )
    })?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

async fn count_campaigns(service: &Arc<Service>) -> Result<(), Refusal> {
    use sketch_model::CampaignState::{Failed, Preparing, Settled, Stopped, Tracking};
    let campaigns = service.storage.campaigns().await?;
    for state in [Preparing, Tracking, Settled, Stopped, Failed] {
        let count = campaigns.iter().filter(|c| c.state.name() == state).count();
        let in_state = InState {
            state: state.to_string(),
        };
        service
            .metrics
            .campaigns
            .get_or_create(&in_state)
            .set(count as i64);
    }
    Ok(())
}
