//! What the agent says to the server, over plain HTTP.
//!
//! Every conversation has a time limit from its first step to its last: the
//! command does not start before assignment and patch are there, or given up,
//! and the agent does not end before the record is sent, or given up.

use crate::error::AgentError;
use sketch_model::{Assignment, AssignmentRequest, RunRecord, VariantRef};
use std::{
    thread,
    time::{Duration, Instant},
};
use ureq::{Body, http::Response};

const FOR_THE_ASSIGNMENT: Duration = Duration::from_secs(2);
const FOR_THE_PATCH: Duration = Duration::from_secs(5);
/// For all tries together.
const FOR_THE_RECORD: Duration = Duration::from_secs(10);
const LARGEST_ANSWER: u64 = 1 << 20;
const LARGEST_PATCH: u64 = 1 << 30;
const UPLOAD_TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

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

    /// Sends a record. The server takes the same run only once, so trying again
    /// is safe.
    pub fn upload(&self, record: &RunRecord) -> Result<(), AgentError> {
        const WHAT: &str = "a run record";
        let body = serde_json::to_vec(record).map_err(|e| AgentError::ServerAnswer {
            what: WHAT,
            reason: e.to_string(),
        })?;
        let started = Instant::now();
        let mut tries = 0;
        loop {
            let left = FOR_THE_RECORD.saturating_sub(started.elapsed());
            let outcome = self
                .post("/api/v1/runs", &body, left)
                .and_then(|response| read(response, WHAT, LARGEST_ANSWER));
            tries += 1;
            match outcome {
                Ok(_) => return Ok(()),
                // It has read the record and does not want it.
                Err(AgentError::ServerRefused { status, .. }) if (400..500).contains(&status) => {
                    return outcome.map(|_| ());
                }
                Err(error)
                    if tries >= UPLOAD_TRIES
                        || started.elapsed() + BETWEEN_TRIES >= FOR_THE_RECORD =>
                {
                    return Err(error);
                }
                Err(_) => thread::sleep(BETWEEN_TRIES),
            }
        }
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
