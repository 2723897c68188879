//! What a developer can do about a diagnosis beyond stopping it: go on, track
//! more, or declare it answered.
//!
//! From the web these are plain forms, so that they work without a script; a
//! form of another site must not be able to send them (see [`same_site`]).

use super::extract::Named;
use super::refusal::{Reason, Refusal};
use super::routes::{Shared, find_summary};
use crate::campaigns::campaign::Campaign;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use sketch_model::{CampaignId, CampaignState, CampaignSummary};

/// What a developer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// Track on, with the build of the current iteration.
    Resume,
    /// The next σ now, without waiting for the stop rule.
    Widen,
    /// The last sketch is the answer.
    Declare,
    /// Stay with this σ: no wider build is made until it is unpinned or widened.
    Pin,
    Unpin,
}

impl Campaign {
    /// Does what is asked, or says why it cannot be done. `built` says whether
    /// the tracked build of the current iteration is there.
    pub fn steer(&mut self, steering: Steering, built: bool) -> Result<(), &'static str> {
        if self.state == CampaignState::Failed {
            return Err("this campaign cannot go on; its page says why");
        }
        match steering {
            Steering::Resume if !self.is_over() => Err("this campaign is under way already"),
            Steering::Resume => {
                self.declared = false;
                self.state = match built {
                    true => CampaignState::Tracking,
                    false => CampaignState::Preparing,
                };
                Ok(())
            }
            Steering::Widen if self.state == CampaignState::Preparing => {
                Err("a tracked build is being made; widen once it runs")
            }
            Steering::Widen => {
                let wider = self
                    .wider()
                    .ok_or("the whole slice is tracked already; there is nothing to widen it to")?;
                self.sigma = wider;
                self.declared = false;
                self.pinned = false;
                self.next_iteration();
                Ok(())
            }
            Steering::Pin if self.pinned => Err("this campaign is pinned already"),
            Steering::Pin => {
                self.pinned = true;
                Ok(())
            }
            Steering::Unpin if !self.pinned => Err("this campaign is not pinned"),
            Steering::Unpin => {
                self.pinned = false;
                Ok(())
            }
            Steering::Declare if self.sketch_version == 0 => {
                Err("there is no sketch yet that could be the answer")
            }
            Steering::Declare if self.state == CampaignState::Settled => {
                Err("this campaign is settled already")
            }
            Steering::Declare => {
                self.declared = true;
                self.state = CampaignState::Settled;
                Ok(())
            }
        }
    }
}

async fn done(
    service: &crate::http::routes::Service,
    id: CampaignId,
    verb: &str,
) -> Result<CampaignSummary, Refusal> {
    let steering = match verb {
        "stop" => None,
        "resume" => Some(Steering::Resume),
        "widen" => Some(Steering::Widen),
        "declare" => Some(Steering::Declare),
        "pin" => Some(Steering::Pin),
        "unpin" => Some(Steering::Unpin),
        _ => {
            return Err(Refusal::not_found(
                "a campaign can be told to stop, resume, widen, pin, unpin or declare",
            ));
        }
    };
    // Who asks about a campaign that is not there is told so first.
    find_summary(service, id).await?;
    match steering {
        None => {
            service.engine.stop(id).await??;
        }
        Some(steering) => {
            if let Some(Err(why)) = service.engine.steer(id, steering).await?? {
                return Err(Refusal::new(StatusCode::CONFLICT, why));
            }
        }
    }
    find_summary(service, id).await
}

/// Steers a diagnosis: stop, resume, widen, pin, unpin or declare.
#[utoipa::path(post, path = "/api/v1/campaigns/{id}/{verb}", tag = "failures",
    params(("id" = u64, Path, description = "The campaign's number"), ("verb" = String, Path, description = "stop, resume, widen, pin, unpin or declare")),
    responses((status = 200, description = "The diagnosis as it is now", body = CampaignSummary), (status = 409, description = "It cannot be done now", body = crate::http::refusal::Problem)))]
pub async fn by_command(
    State(service): Shared,
    Named((id, verb)): Named<(CampaignId, String)>,
) -> Result<Json<CampaignSummary>, Refusal> {
    Ok(Json(done(&service, id, &verb).await?))
}

/// Steers a diagnosis, from a form of our own pages.
#[utoipa::path(post, path = "/campaigns/{id}/{verb}", tag = "pages",
    params(("id" = u64, Path, description = "The campaign's number"), ("verb" = String, Path, description = "stop, resume, widen, pin, unpin or declare")),
    responses((status = 303, description = "Done; goes on to the campaign's progress")))]
pub async fn by_form(
    State(service): Shared,
    Named((id, verb)): Named<(CampaignId, String)>,
) -> Result<Redirect, Refusal> {
    done(&service, id, &verb).await?;
    Ok(Redirect::to(&format!("/campaigns/{id}/progress")))
}

/// Refuses what a page of another site makes a browser send. Browsers say where
/// a request comes from; agents and commands are not browsers and say nothing.
pub async fn same_site(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads || is_same_site(request.headers()) {
        return next.run(request).await;
    }
    Refusal::because(
        Reason::CrossSite,
        StatusCode::FORBIDDEN,
        "this request was made by a page of another site; open this server's own page and use its buttons",
    )
    .into_response()
}

fn is_same_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    match (text("origin"), text(header::HOST.as_str())) {
        (None, _) => true,
        (Some(origin), Some(host)) => origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))
            .is_some_and(|theirs| theirs == host),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn only_our_own_pages_and_those_who_are_no_browser_may_change_anything() {
        let host = ("host", "127.0.0.1:7420");
        for (pairs, allowed) in [
            (vec![host], true),
            (vec![host, ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("sec-fetch-site", "cross-site")], false),
            (vec![host, ("sec-fetch-site", "same-site")], false),
            (vec![host, ("origin", "http://127.0.0.1:7420")], true),
            (vec![host, ("origin", "http://127.0.0.1:7421")], false),
            (vec![host, ("origin", "null")], false),
            (vec![("origin", "http://127.0.0.1:7420")], false),
        ] {
            assert_eq!(is_same_site(&headers(&pairs)), allowed, "{pairs:?}");
        }
    }
}
