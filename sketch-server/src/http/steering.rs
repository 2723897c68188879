//! Routes by which a developer steers a diagnosis; what each verb does is
//! `diagnosis::campaign::steering`.
//!
//! From the web they are plain forms, so that they work without a script; a
//! form of another site must not be able to send them (see [`same_site`]).

use super::extract::Named;
use super::refusal::{Reason, Refusal};
use super::routes::{Shared, no_such_campaign, summary};
use crate::campaigns::engine::Steered;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use diagnosis::campaign::Steering;
use sketch_model::{CampaignId, CampaignSummary};

async fn done(
    service: &crate::http::routes::Service,
    id: CampaignId,
    verb: &str,
) -> Result<CampaignSummary, Refusal> {
    let steering = Steering::of_verb(verb).ok_or_else(|| {
        Refusal::not_found(
            "the actions of a campaign are stop, resume, widen, pin, unpin and \
                            declare",
        )
    });
    match service.engine.steer(id, steering?).await? {
        Steered::NoSuchCampaign => Err(no_such_campaign(id)),
        Steered::Refused(why) => Err(Refusal::new(StatusCode::CONFLICT, why.to_string())),
        Steered::Done(campaign) => summary(service, &campaign).await,
    }
}

/// Steers a diagnosis: stop, resume, widen, pin, unpin or declare.
#[utoipa::path(post, path = "/api/v1/campaigns/{id}/{verb}", tag = "failures",
    params(("id" = u64, Path, description = "The campaign's number"), ("verb" = String, Path, description = "stop, resume, widen, pin, unpin or declare")),
    responses((status = 200, description = "The diagnosis as it is now", body = CampaignSummary), (status = 409, description = "The \
                                                                                                                                campaign's \
                                                                                                                                state \
                                                                                                                                does \
                                                                                                                                not \
                                                                                                                                allow \
                                                                                                                                it", body = crate::http::refusal::Problem)))]
pub async fn by_command(
    State(service): Shared,
    Named((id, verb)): Named<(CampaignId, String)>,
) -> Result<Json<CampaignSummary>, Refusal> {
    Ok(Json(done(&service, id, &verb).await?))
}

/// Steers a diagnosis, from a form of our own pages.
#[utoipa::path(post, path = "/campaigns/{id}/{verb}", tag = "pages",
    params(("id" = u64, Path, description = "The campaign's number"), ("verb" = String, Path, description = "stop, resume, widen, pin, unpin or declare")),
    responses((status = 303, description = "Done; redirects to the campaign's progress")))]
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
