//! What the agent says to the server, over HTTP, encrypted where the address says so.
//!
//! The machine's daemon answers the same questions over its socket, and two more of its own.
//! Every conversation has a time limit from its first step to its last: the
//! command does not start before assignment and patch are there, or given up.

use crate::delivery::connection::Access;
use crate::delivery::local_http;
use crate::delivery::spool::Worth;
use crate::error::AgentError;
use crate::policy::Policy;
use serde::{Deserialize, de::DeserializeOwned};
use sketch_model::{Assignments, AssignmentsRequest, CampaignId, ProgramAssignment, VariantRef};
use std::{
    os::unix::{ffi::OsStrExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};
use ureq::RequestBuilder;

const FOR_THE_ASSIGNMENT: Duration = Duration::from_secs(2);
const FOR_THE_PATCH: Duration = Duration::from_secs(5);
/// For what the daemon knows by itself, and beyond what it waits for the server.
const FOR_THE_DAEMON: Duration = Duration::from_secs(1);
const LARGEST_ANSWER: u64 = 1 << 20;
const LARGEST_PATCH: u64 = 1 << 30;
/// Of ten thousand agents.
const LARGEST_LIST: u64 = 16 << 20;

/// What only a daemon is asked: the policy of a program, by its path.
pub const POLICY: &str = "/local/policy";
/// And the secret that values are disguised by.
pub const SECRET: &str = "/local/secret";
pub const ASSIGNMENTS: &str = "/api/v1/assignments";
const PATCHES: &str = "/api/v1/patches/";
const RUNS: &str = "/api/v1/runs";
/// Said to a daemon of the record of a successful run, for when room is short in its spool.
const SUCCESS: &str = "?worth=success";

/// An agent as the server has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ServerAgent {
    pub agent: String,
    /// Which secret disguises its values, if one does.
    #[serde(default)]
    pub privacy_key: Option<String>,
}

/// A server, or the machine's daemon in its place.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its address, or the daemon's socket.
    name: String,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Network { access: Access, http: ureq::Agent },
    Daemon(PathBuf),
}

/// A good answer.
struct Answer {
    body: Vec<u8>,
    date: Option<String>,
}

impl Server {
    pub fn new(access: &Access) -> Result<Server, AgentError> {
        Ok(Server {
            name: access.url.trim_end_matches('/').to_string(),
            way: Way::Network {
                http: access.client()?,
                access: access.clone(),
            },
        })
    }

    /// The daemon at a socket, if one answers there.
    pub fn daemon(socket: &Path) -> Result<Server, AgentError> {
        let server = Server {
            name: socket.display().to_string(),
            way: Way::Daemon(socket.to_owned()),
        };
        UnixStream::connect(socket).map_err(|e| server.unreachable(&e))?;
        Ok(server)
    }

    pub fn is_daemon(&self) -> bool {
        matches!(self.way, Way::Daemon(_))
    }

    /// Tells patches of different origins apart in the cache.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> AgentError {
        let reason = error.to_string();
        match &self.way {
            Way::Network { .. } => AgentError::ServerUnreachable {
                url: self.name.clone(),
                reason,
            },
            Way::Daemon(socket) => AgentError::DaemonUnreachable {
                socket: socket.clone(),
                reason,
            },
        }
    }

    /// A question and its answer. One with a body is posted.
    fn ask(
        &self,
        what: &'static str,
        path: &str,
        body: Option<&[u8]>,
        limit: Duration,
        longest: u64,
    ) -> Result<Answer, AgentError> {
        let (status, answer) = match &self.way {
            Way::Daemon(socket) => {
                let method = if body.is_some() { "POST" } else { "GET" };
                let question = format!("{method} {path}");
                let body = body.unwrap_or_default();
                let (status, body) = local_http::ask(socket, &question, body, limit, longest)
                    .map_err(|e| self.unreachable(&e))?;
                (status, Answer { body, date: None })
            }
            Way::Network { access, http } => {
                let url = format!("{}{path}", self.name);
                let response = match body {
                    Some(body) => signed(access, http.post(url), limit)?
                        .header("content-type", "application/json")
                        .send(body),
                    None => signed(access, http.get(url), limit)?.call(),
                };
                let response = response.map_err(|e| self.unreachable(&e))?;
                let status = response.status().as_u16();
                let date = response.headers().get("date");
                let date = date.and_then(|d| d.to_str().ok()).map(str::to_owned);
                let body = response.into_body().into_with_config().limit(longest);
                let body = body.read_to_vec().map_err(|e| unreadable(what, e))?;
                (status, Answer { body, date })
            }
        };
        let words = || String::from_utf8_lossy(&answer.body);
        match status {
            200..300 => Ok(answer),
            // About the daemon, or about the server as it sees it.
            500.. if self.is_daemon() => Err(AgentError::DaemonRefused(words().into_owned())),
            _ => Err(AgentError::ServerRefused {
                what,
                status,
                answer: words().chars().take(300).collect(),
            }),
        }
    }

    /// Whether the server is well, and what time it thinks it is.
    pub fn health(&self) -> Result<Option<String>, AgentError> {
        let path = "/api/v1/health";
        let answer = self.ask("its health", path, None, FOR_THE_ASSIGNMENT, LARGEST_ANSWER)?;
        Ok(answer.date)
    }

    /// The agents that the server has heard of, if it tells us: a server that asks for
    /// tokens tells developers only.
    pub fn agents(&self) -> Result<Vec<ServerAgent>, AgentError> {
        const WHAT: &str = "its agents";
        let path = "/api/v1/agents";
        let answer = self.ask(WHAT, path, None, FOR_THE_ASSIGNMENT, LARGEST_LIST)?;
        parsed(WHAT, &answer.body)
    }

    /// What to run until that changes; the answer may be held back until it does,
    /// for as long as the question says.
    pub fn assignments(&self, request: &AssignmentsRequest) -> Result<Assignments, AgentError> {
        const WHAT: &str = "assignments";
        let wait = Duration::from_secs(request.wait_s.into());
        let limit = FOR_THE_ASSIGNMENT + wait + self.beyond();
        let question = serde_json::to_vec(request).map_err(|e| unreadable(WHAT, e))?;
        let answer = self.ask(WHAT, ASSIGNMENTS, Some(&question), limit, LARGEST_ANSWER)?;
        let assignments: Assignments = parsed(WHAT, &answer.body)?;
        let schema = assignments.schema;
        schema.check(WHAT).map_err(|e| unreadable(WHAT, e))?;
        Ok(assignments)
    }

    /// The same for one program.
    pub fn assignment(
        &self,
        request: &AssignmentsRequest,
    ) -> Result<ProgramAssignment, AgentError> {
        const WHAT: &str = "assignments";
        let program = self.assignments(request)?.programs.into_iter().next();
        let program = program.ok_or_else(|| unreadable(WHAT, "it does not mention the build"))?;
        match program.problem {
            None => Ok(program),
            Some(answer) => Err(AgentError::ServerRefused {
                what: WHAT,
                status: 404,
                answer,
            }),
        }
    }

    /// The signed patch of a tracked build.
    pub fn patch(&self, variant: VariantRef) -> Result<Vec<u8>, AgentError> {
        let limit = FOR_THE_PATCH + self.beyond();
        let answer = self.ask("a patch", &patch_path(variant), None, limit, LARGEST_PATCH)?;
        Ok(answer.body)
    }

    /// Sends a record, once, within `limit`. The server takes the same run only
    /// once, so trying again is safe. What a daemon has taken is safe on disk.
    pub fn upload(&self, record: &[u8], worth: Worth, limit: Duration) -> Result<(), AgentError> {
        let said = match worth {
            Worth::Success if self.is_daemon() => SUCCESS,
            Worth::Success | Worth::Failure => "",
        };
        let path = format!("{RUNS}{said}");
        self.ask("a run record", &path, Some(record), limit, LARGEST_ANSWER)
            .map(|_| ())
    }

    /// What a daemon says is the policy for a program.
    pub fn policy(&self, program: &Path) -> Result<Policy, AgentError> {
        const WHAT: &str = "a policy";
        let path = Some(program.as_os_str().as_bytes());
        let answer = self.ask(WHAT, POLICY, path, FOR_THE_DAEMON, LARGEST_ANSWER)?;
        parsed(WHAT, &answer.body)
    }

    /// A daemon's secret for disguised values.
    pub fn secret(&self) -> Result<Vec<u8>, AgentError> {
        let answer = self.ask("the secret", SECRET, None, FOR_THE_DAEMON, LARGEST_ANSWER)?;
        Ok(answer.body)
    }

    /// A daemon may have to ask the server first.
    fn beyond(&self) -> Duration {
        match self.is_daemon() {
            true => FOR_THE_DAEMON,
            false => Duration::ZERO,
        }
    }
}

/// A question that says who asks and how long it may take.
fn signed<B>(
    access: &Access,
    question: RequestBuilder<B>,
    limit: Duration,
) -> Result<RequestBuilder<B>, AgentError> {
    let question = question.config().timeout_global(Some(limit)).build();
    Ok(match access.authorization()? {
        Some(proof) => question.header("authorization", proof),
        None => question,
    })
}

fn unreadable(what: &'static str, reason: impl ToString) -> AgentError {
    AgentError::ServerAnswer {
        what,
        reason: reason.to_string(),
    }
}

fn parsed<A: DeserializeOwned>(what: &'static str, answer: &[u8]) -> Result<A, AgentError> {
    serde_json::from_slice(answer).map_err(|e| unreadable(what, e))
}

fn patch_path(variant: VariantRef) -> String {
    let VariantRef {
        campaign,
        iteration,
        plan,
    } = variant;
    let plan = match plan {
        0 => String::new(),
        plan => format!("?plan={plan}"),
    };
    format!("{PATCHES}{campaign}/{iteration}{plan}")
}

/// The tracked build whose patch is at a path.
pub fn patch_at(path: &str) -> Option<VariantRef> {
    let rest = path.strip_prefix(PATCHES)?;
    let (rest, plan) = rest.split_once("?plan=").unwrap_or((rest, "0"));
    let (campaign, iteration) = rest.split_once('/')?;
    Some(VariantRef {
        campaign: CampaignId(campaign.parse().ok()?),
        iteration: iteration.parse().ok()?,
        plan: plan.parse().ok()?,
    })
}

/// What is said of a record that is sent to a path.
pub fn worth_at(path: &str) -> Option<Worth> {
    match path.strip_prefix(RUNS)? {
        "" => Some(Worth::Failure),
        SUCCESS => Some(Worth::Success),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_found_by_the_path_that_it_is_asked_for() {
        for plan in [0, 7] {
            let variant = VariantRef {
                campaign: CampaignId(3),
                iteration: 2,
                plan,
            };
            assert_eq!(patch_at(&patch_path(variant)), Some(variant));
        }
        for path in ["/api/v1/patches/3", "/api/v1/patches/x/2", "/api/v1/runs"] {
            assert_eq!(patch_at(path), None);
        }
    }
}
