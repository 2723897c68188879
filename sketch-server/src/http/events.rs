//! Live progress: a campaign's summary, sent whenever it has changed.
//!
//! The stream looks at the storage a few times a second instead of listening to
//! the engine: the storage is the truth, one look is one indexed row, and what
//! works by looking still works when several servers share one storage. The
//! number of streams is bounded; a page that gets none shows what was so when it
//! was made.

use super::extract::Named;
use super::refusal::Refusal;
use super::routes::{Service, Shared, find_summary};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use sketch_model::CampaignId;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Streams at the same time.
pub const MOST_STREAMS: usize = 64;
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

struct Following {
    service: Arc<Service>,
    id: CampaignId,
    sent: String,
    over: bool,
    closing: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
}

/// A diagnosis at a glance, sent again whenever it has changed, until it is over.
#[utoipa::path(get, path = "/api/v1/campaigns/{id}/events", tag = "failures", params(("id" = u64, Path, description = "The campaign's number")),
    responses((status = 200, description = "Server-sent events; each one's data is a campaign's summary", body = sketch_model::CampaignSummary, content_type = "text/event-stream")))]
pub async fn events(
    State(service): Shared,
    Named(id): Named<CampaignId>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    find_summary(&service, id).await?;
    let slot = Arc::clone(&service.streams).try_acquire_owned();
    let slot = slot.map_err(|_| {
        Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "{MOST_STREAMS} pages are followed live already; reload this one to see \
                     changes"
            ),
        )
    })?;
    let following = Following {
        closing: service.closing.clone(),
        service,
        id,
        sent: String::new(),
        over: false,
        _slot: slot,
    };
    let news = stream::unfold(following, next);
    Ok(Sse::new(news).keep_alive(KeepAlive::default()))
}

/// The next change; `None` ends the stream: the campaign is over, the server
/// shuts down, or the storage does not answer.
async fn next(mut at: Following) -> Option<(Result<Event, Infallible>, Following)> {
    loop {
        if at.over || *at.closing.borrow() {
            return None;
        }
        let summary = find_summary(&at.service, at.id).await.ok()?;
        at.over = summary.state.is_over();
        let text = serde_json::to_string(&summary).ok()?;
        if text != at.sent {
            at.sent.clone_from(&text);
            return Some((Ok(Event::default().data(text)), at));
        }
        tokio::select! {
            () = tokio::time::sleep(BETWEEN_LOOKS) => {}
            // An error means that the server is gone: the next look ends it.
            _ = at.closing.changed() => {}
        }
    }
}
