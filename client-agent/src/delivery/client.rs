//! What the agent says to the server, over HTTP, encrypted where the address says so.
//!
//! Every conversation has a time limit from its first step to its last: the
//! command does not start before assignment and patch are there, or given up.

use crate::delivery::connection::Access;
use crate::error::AgentError;
use serde::Deserialize;
use sketch_model::{
    Assignment, AssignmentRequest, Assignments, AssignmentsRequest, Schema, VariantRef,
};
use std::time::Duration;
use ureq::{Body, RequestBuilder, http::Response};

const FOR_THE_ASSIGNMENT: Duration = Duration::from_secs(2);
const FOR_THE_PATCH: Duration = Duration::from_secs(5);
const LARGEST_ANSWER: u64 = 1 << 20;
const LARGEST_PATCH: u64 = 1 << 30;
/// Of ten thousand agents.
const LARGEST_LIST: u64 = 16 << 20;

/// An agent as the server has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ServerAgent {
    pub agent: String,
    /// Which secret disguises its values, if one does.
    #[serde(default)]
    pub privacy_key: Option<String>,
}

/// A server, by the way to it.
#[derive(Clone, Debug)]
pub struct Server {
    url: String,
    access: Access,
    http: ureq::Agent,
}

impl Server {
    pub fn new(access: &Access) -> Result<Server, AgentError> {
        Ok(Server {
            url: access.url.trim_end_matches('/').to_string(),
            http: access.client()?,
            access: access.clone(),
        })
    }

    /// A question that says who asks and how long it may take.
    fn signed<B>(
        &self,
        question: RequestBuilder<B>,
        limit: Duration,
    ) -> Result<RequestBuilder<B>, AgentError> {
        let question = question.config().timeout_global(Some(limit)).build();
        Ok(match self.access.authorization()? {
            Some(proof) => question.header("authorization", proof),
            None => question,
        })
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
        self.signed(self.http.post(format!("{}{path}", self.url)), limit)?
            .header("content-type", "application/json")
            .send(body)
            .map_err(|e| self.unreachable(e))
    }

    /// Whether the server is well, and what time it thinks it is.
    pub fn health(&self) -> Result<Option<String>, AgentError> {
        let question = self.http.get(format!("{}/api/v1/health", self.url));
        let response = self
            .signed(question, FOR_THE_ASSIGNMENT)?
            .call()
            .map_err(|e| self.unreachable(e))?;
        let date = response.headers().get("date");
        let date = date.and_then(|d| d.to_str().ok()).map(str::to_owned);
        read(response, "its health", LARGEST_ANSWER)?;
        Ok(date)
    }

    /// The agents that the server has heard of, if it tells us: a server that asks for
    /// tokens tells developers only.
    pub fn agents(&self) -> Result<Vec<ServerAgent>, AgentError> {
        const WHAT: &str = "its agents";
        let question = self.http.get(format!("{}/api/v1/agents", self.url));
        let response = self
            .signed(question, FOR_THE_ASSIGNMENT)?
            .call()
            .map_err(|e| self.unreachable(e))?;
        let answer = read(response, WHAT, LARGEST_LIST)?;
        serde_json::from_slice(&answer).map_err(|e| AgentError::ServerAnswer {
            what: WHAT,
            reason: e.to_string(),
        })
    }

    /// A question and its answer, both JSON.
    fn ask<Q: serde::Serialize, A: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        question: &Q,
        what: &'static str,
        limit: Duration,
    ) -> Result<A, AgentError> {
        let unreadable = |reason: String| AgentError::ServerAnswer { what, reason };
        let body = serde_json::to_vec(question).map_err(|e| unreadable(e.to_string()))?;
        let answer = read(self.post(path, &body, limit)?, what, LARGEST_ANSWER)?;
        serde_json::from_slice(&answer).map_err(|e| unreadable(e.to_string()))
    }

    /// What to run next.
    pub fn assignment(&self, request: &AssignmentRequest) -> Result<Assignment, AgentError> {
        const WHAT: &str = "an assignment";
        let assignment: Assignment =
            self.ask("/api/v1/assignment", request, WHAT, FOR_THE_ASSIGNMENT)?;
        checked(assignment.schema, WHAT)?;
        Ok(assignment)
    }

    /// What to run until that changes; the answer may be held back until it does,
    /// for as long as the question says.
    pub fn assignments(&self, request: &AssignmentsRequest) -> Result<Assignments, AgentError> {
        const WHAT: &str = "assignments";
        let limit = FOR_THE_ASSIGNMENT + Duration::from_secs(request.wait_s.into());
        let assignments: Assignments = self.ask("/api/v1/assignments", request, WHAT, limit)?;
        checked(assignments.schema, WHAT)?;
        Ok(assignments)
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
            .signed(self.http.get(url), FOR_THE_PATCH)?
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

fn checked(schema: Schema, what: &'static str) -> Result<(), AgentError> {
    let unreadable = |reason: String| AgentError::ServerAnswer { what, reason };
    schema.check(what).map_err(|e| unreadable(e.to_string()))
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
