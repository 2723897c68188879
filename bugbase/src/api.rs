//! The few calls of the server's HTTP API that the harness makes.
//!
//! The shapes are read from the documented JSON, not from our own types: if the
//! API changes, this must notice.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::time::Duration;

/// A server on this machine that does not answer in this time never will.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Api {
    pub url: String,
    agent: ureq::Agent,
}

/// A diagnosis at a glance.
#[derive(Clone, Debug, Deserialize)]
pub struct Campaign {
    pub id: u64,
    pub title: String,
    pub state: String,
    pub problem: Option<String>,
    pub sigma: u32,
    pub iteration: u32,
    pub runs: u64,
    pub failures: u64,
    pub tracked_failing: u64,
    pub tracked_successful: u64,
    pub best: Option<Best>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Best {
    pub class: String,
    pub f_measure: f64,
}

impl Api {
    pub fn new(url: String) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE));
        Api {
            url,
            agent: config.build().into(),
        }
    }

    pub fn campaigns(&self) -> Result<Vec<Campaign>> {
        let text = self.text("/api/v1/campaigns")?;
        serde_json::from_str(&text).context("the server's list of campaigns")
    }

    pub fn text(&self, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.url);
        self.agent
            .get(&url)
            .call()
            .and_then(|mut response| response.body_mut().read_to_string())
            .with_context(|| format!("asking {url}"))
    }
}
