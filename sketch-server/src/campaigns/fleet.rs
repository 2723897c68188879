//! Which agents this server has heard of: from their questions and their runs.
//!
//! Kept in memory, since the server started: it is a picture of now, and an agent
//! that is alive asks again within seconds. Bounded, because names come from
//! outside.

use parking_lot::Mutex;
use sketch_model::{AgentId, BuildId, Capabilities, RunRecord, VariantRef};
use std::collections::BTreeMap;
use std::time::SystemTime;
use viewer::{AgentSeen, RunCost};

/// Agents that are remembered; those that come later are only counted.
const MOST_AGENTS: usize = 10_000;

#[derive(Default)]
pub struct Fleet {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    agents: BTreeMap<String, AgentSeen>,
    forgotten: u64,
}

impl Fleet {
    /// An agent was given an assignment for a program.
    pub fn told(
        &self,
        agent: &AgentId,
        offers: &Capabilities,
        build: &BuildId,
        variant: Option<VariantRef>,
    ) {
        self.with(&agent.0, offers, |agent| {
            agent.build = build.clone();
            agent.assigned = variant;
        });
    }

    pub fn ran(&self, record: &RunRecord) {
        self.with(&record.agent.0, &record.capabilities, |agent| {
            agent.build = record.build.clone();
            agent.gaps = record.gaps.clone();
            agent.privacy_key = record.secret_fingerprint();
            let cost = match record.execution.is_original() {
                false => &mut agent.tracked,
                true => &mut agent.untracked,
            };
            cost.runs += 1;
            cost.failures += u64::from(record.failed());
            cost.cpu_us = cost.cpu_us.saturating_add(record.cpu_us);
        });
    }

    /// All agents by name, and how many found no room.
    pub fn listed(&self) -> (Vec<AgentSeen>, u64) {
        let seen = self.seen.lock();
        (seen.agents.values().cloned().collect(), seen.forgotten)
    }

    /// How many there are, and how many found no room.
    pub fn counted(&self) -> (usize, u64) {
        let seen = self.seen.lock();
        (seen.agents.len(), seen.forgotten)
    }

    fn with(&self, name: &str, offers: &Capabilities, change: impl FnOnce(&mut AgentSeen)) {
        let now = now();
        let mut seen = self.seen.lock();
        let seen = &mut *seen;
        if seen.agents.len() >= MOST_AGENTS && !seen.agents.contains_key(name) {
            seen.forgotten += 1;
            return;
        }
        let agent = seen
            .agents
            .entry(name.to_owned())
            .or_insert_with(|| AgentSeen {
                agent: AgentId(name.to_owned()),
                capabilities: offers.clone(),
                build: BuildId(String::new()),
                assigned: None,
                first: now,
                last: now,
                untracked: RunCost::default(),
                tracked: RunCost::default(),
                gaps: Vec::new(),
                privacy_key: None,
            });
        agent.last = now;
        agent.capabilities = offers.clone();
        change(agent);
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
