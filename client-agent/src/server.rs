//! What the agent says to the server, over plain HTTP.
//!
//! Every conversation has a time limit from its first step to its last: the
//! command does not start before assignment and patch are there, or given up.

use crate::error::AgentError;
use sketch_model::{Assignment, AssignmentRequest, VariantRef};
use std::time::Duration;
use ureq::{Body, http::Response};

const FOR_THE_ASSIGNMENT: Duration = Duration::from_secs(2);
const FOR_THE_PATCH: Duration = Duration::from_secs(5);
const LARGEST_ANSWER: u64 = 1 << 20;
const LARGEST_PATCH: u64 = 1 << 30;

/// A server, by its address.
#[derive(Debug)]
pub struct Server {
    url: String,
    http: ureq::Agent,
}

impl Server {
    pub fn at(url: &str) -> Server {
        let http = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        Server {
            url: url.trim_end_matches('/').to_string(),
            http,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn unreachable(&self, error: ureq::Error) -> AgentError {
        AgentError::ServerUnreachable {
            url: self.url.clone(),
            reason: error.to_string(),
        }
    }

    fn post(&self, path: &str, body: &[u8], limit: Duration) -> Result<Response<Body>, AgentError> {
        self.http
            .post(format!("{}{path}", self.url))
            .config()
            .timeout_global(Some(limit))
            .build()
            .header("content-type", "application/json")
            .send(body)
            .map_err(|e| self.unreachable(e))
    }

    /// Whether the server is well, and what time it thinks it is.
    pub fn health(&self) -> Result<Option<String>, AgentError> {
        let response = self
            .http
            .get(format!("{}/api/v1/health", self.url))
            .config()
            .timeout_global(Some(FOR_THE_ASSIGNMENT))
            .build()
            .call()
            .map_err(|e| self.unreachable(e))?;
        let date = response.headers().get("date");
        let date = date.and_then(|d| d.to_str().ok()).map(str::to_owned);
        read(response, "its health", LARGEST_ANSWER)?;
        Ok(date)
    }

    /// What to run next.
    pub fn assignment(&self, request: &AssignmentRequest) -> Result<Assignment, AgentError> {
        const WHAT: &str = "an assignment";
        let unreadable = |reason: String| AgentError::ServerAnswer { what: WHAT, reason };
        let body = serde_json::to_vec(request).map_err(|e| unreadable(e.to_string()))?;
        let answer = read(
            self.post("/api/v1/assignment", &body, FOR_THE_ASSIGNMENT)?,
            WHAT,
            LARGEST_ANSWER,
        )?;
        let assignment: Assignment =
            serde_json::from_slice(&answer).map_err(|e| unreadable(e.to_string()))?;
        assignment
            .schema
            .check("assignment")
            .map_err(|e| unreadable(e.to_string()))?;
        Ok(assignment)
    }

    /// The signed patch of a tracked build.
    pub fn patch(&self, variant: VariantRef) -> Result<Vec<u8>, AgentError> {
        let mut url = format!(
            "{}/api/v1/patches/{}/{}",
            self.url, variant.campaign, variant.iteration
        );
        if variant.plan > 0 {
            url.push_str(&format!("?plan={}", variant.plan));
        }
        let response = self
            .http
            .get(url)
            .config()
            .timeout_global(Some(FOR_THE_PATCH))
            .build()
            .call()
            .map_err(|e| self.unreachable(e))?;
        read(response, "a patch", LARGEST_PATCH)
    }

    /// Sends a record, once, within `limit`. The server takes the same run only
    /// once, so trying again is safe.
    pub fn upload(&self, record: &[u8], limit: Duration) -> Result<(), AgentError> {
        self.post("/api/v1/runs", record, limit)
            .and_then(|response| read(response, "a run record", LARGEST_ANSWER))
            .map(|_| ())
    }
}

/// The body of a good answer.
fn read(response: Response<Body>, what: &'static str, largest: u64) -> Result<Vec<u8>, AgentError> {
    let status = response.status();
    let body = response
        .into_body()
        .into_with_config()
        .limit(largest)
        .read_to_vec()
        .map_err(|e| AgentError::ServerAnswer {
            what,
            reason: e.to_string(),
        })?;
    if status.is_success() {
        return Ok(body);
    }
    Err(AgentError::ServerRefused {
        what,
        status: status.as_u16(),
        answer: String::from_utf8_lossy(&body).chars().take(300).collect(),
    })
}
