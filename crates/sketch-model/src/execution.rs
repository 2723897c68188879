//! What ran: the original program, or which changed form of it.
//!
//! The wire form is older than the type: `null` for the original, else an object of
//! three numbers. Two numbers in it have a meaning of their own, and [`Wire`] alone
//! knows them: campaign 0 is a patch made by hand, and the highest plan number is P
//! read through Intel PT. So agents and databases of earlier releases are understood,
//! and they understand what is written here. A new way to run gets its variant here, a
//! field of its own in [`Wire`], and an arm in each of the two conversions.
//!
//! Deliberately absent: what an agent *should* run. An assignment names a tracked build
//! to fetch, or none, and so carries a [`VariantRef`].

use crate::CampaignId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What ran.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(from = "Option<Wire>", into = "Option<Wire>")]
pub enum Execution {
    /// P as it was deployed.
    #[default]
    Original,
    /// A tracked build of a campaign.
    Tracked(VariantRef),
    /// P itself, read through Intel PT for a campaign. An agent says `Original`: which
    /// campaigns its trace counts for is known to the server alone.
    Traced { campaign: CampaignId },
    /// A tracked build that no campaign knows (`run --patch`); `patch` is `None` in
    /// what earlier releases wrote.
    Local { patch: Option<PatchId> },
}

/// A tracked build of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VariantRef {
    pub campaign: CampaignId,
    /// Counts the doublings of σ, from 1.
    pub iteration: u32,
    /// Which of the iteration's plans (see [`crate::TrackingPlan::variant`]).
    #[serde(default, skip_serializing_if = "is_first")]
    pub plan: u32,
}

fn is_first(plan: &u32) -> bool {
    *plan == 0
}

/// Which patch was made by hand: the first 64 bits of the SHA-256 of the program that it
/// makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PatchId(pub u64);

impl PatchId {
    /// By the SHA-256, in hex, of the program that it makes.
    pub fn of_result(sha256: &str) -> Option<PatchId> {
        let first = sha256.get(..16)?;
        u64::from_str_radix(first, 16).ok().map(PatchId)
    }
}

impl fmt::Display for PatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<PatchId> for String {
    fn from(id: PatchId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for PatchId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<PatchId, &'static str> {
        PatchId::of_result(&text).ok_or("a patch is named by at least 16 hexadecimal digits")
    }
}

impl Execution {
    /// The tracked build that ran, if a campaign made it.
    pub fn tracked(self) -> Option<VariantRef> {
        match self {
            Execution::Tracked(variant) => Some(variant),
            Execution::Original | Execution::Traced { .. } | Execution::Local { .. } => None,
        }
    }

    /// Whether P's own code ran, so that no hook was in it.
    pub fn is_original(self) -> bool {
        match self {
            Execution::Original | Execution::Traced { .. } => true,
            Execution::Tracked(_) | Execution::Local { .. } => false,
        }
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Execution::Original => f.write_str("the original"),
            Execution::Tracked(VariantRef {
                campaign,
                iteration,
                plan,
            }) => {
                write!(f, "campaign {campaign} iteration {iteration}")?;
                match plan {
                    0 => Ok(()),
                    plan => write!(f, " plan {plan}"),
                }
            }
            Execution::Traced { campaign } => {
                write!(f, "the original, traced for campaign {campaign}")
            }
            Execution::Local { .. } => f.write_str("a patch made by hand"),
        }
    }
}

/// The form on the wire and in databases.
#[derive(Serialize, Deserialize)]
struct Wire {
    campaign: CampaignId,
    iteration: u32,
    #[serde(default, skip_serializing_if = "is_first")]
    plan: u32,
    /// Earlier releases neither write nor read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    patch: Option<PatchId>,
}

/// Campaigns count from 1.
const BY_HAND: CampaignId = CampaignId(0);
/// No iteration has that many plans.
const BY_TRACE: u32 = u32::MAX;

impl From<Option<Wire>> for Execution {
    fn from(wire: Option<Wire>) -> Execution {
        let Some(wire) = wire else {
            return Execution::Original;
        };
        match (wire.campaign, wire.plan) {
            (BY_HAND, _) => Execution::Local { patch: wire.patch },
            (campaign, BY_TRACE) => Execution::Traced { campaign },
            (campaign, plan) => Execution::Tracked(VariantRef {
                campaign,
                iteration: wire.iteration,
                plan,
            }),
        }
    }
}

impl From<Execution> for Option<Wire> {
    fn from(execution: Execution) -> Option<Wire> {
        let wire = |campaign, iteration, plan| Wire {
            campaign,
            iteration,
            plan,
            patch: None,
        };
        match execution {
            Execution::Original => None,
            Execution::Tracked(it) => Some(wire(it.campaign, it.iteration, it.plan)),
            // P does not change from iteration to iteration.
            Execution::Traced { campaign } => Some(wire(campaign, 0, BY_TRACE)),
            Execution::Local { patch } => Some(Wire {
                patch,
                ..wire(BY_HAND, 1, 0)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the last release reads and writes it: `Option<VariantRef>`.
    type OldForm = Option<VariantRef>;

    fn read(text: &str) -> Execution {
        serde_json::from_str(text).expect("an execution")
    }

    fn written(execution: Execution) -> String {
        serde_json::to_string(&execution).expect("can be written")
    }

    fn tracked(campaign: u64, iteration: u32, plan: u32) -> VariantRef {
        VariantRef {
            campaign: CampaignId(campaign),
            iteration,
            plan,
        }
    }

    /// What the last release wrote, byte by byte, and what it meant.
    fn stored() -> [(&'static str, Execution); 5] {
        let traced = Execution::Traced {
            campaign: CampaignId(7),
        };
        [
            ("null", Execution::Original),
            (
                r#"{"campaign":7,"iteration":2}"#,
                Execution::Tracked(tracked(7, 2, 0)),
            ),
            (
                r#"{"campaign":7,"iteration":2,"plan":3}"#,
                Execution::Tracked(tracked(7, 2, 3)),
            ),
            (r#"{"campaign":7,"iteration":2,"plan":4294967295}"#, traced),
            (
                r#"{"campaign":0,"iteration":1,"plan":2}"#,
                Execution::Local { patch: None },
            ),
        ]
    }

    #[test]
    fn what_the_last_release_wrote_is_read() {
        for (bytes, meant) in stored() {
            assert_eq!(read(bytes), meant, "{bytes}");
        }
    }

    #[test]
    fn what_is_written_the_last_release_reads() {
        for (bytes, execution) in stored() {
            let written = written(execution);
            let old: OldForm = serde_json::from_str(&written).expect("the old form");
            match execution {
                Execution::Original | Execution::Tracked(_) => assert_eq!(written, bytes),
                Execution::Traced { .. } => assert_eq!(old, Some(tracked(7, 0, u32::MAX))),
                Execution::Local { .. } => assert_eq!(old, Some(tracked(0, 1, 0))),
            }
            assert_eq!(read(&written), execution);
        }
        let local = Execution::Local {
            patch: PatchId::of_result("00ab34cd56ef7890ffff"),
        };
        let text = r#"{"campaign":0,"iteration":1,"patch":"00ab34cd56ef7890"}"#;
        assert_eq!((written(local).as_str(), read(text)), (text, local));
        let old: OldForm = serde_json::from_str(text).expect("the old form");
        assert_eq!(old, Some(tracked(0, 1, 0)));
    }

    #[test]
    fn a_record_keeps_the_name_and_the_form_that_old_servers_read() {
        let record = |named: &str| {
            format!(
                r#"{{"id":"a-1","agent":"a","build":"ab","tier":"inline",{named}
                "sampling_probability":1.0,"outcome":"success","wall_us":1,"cpu_us":1,
                "threads":[],"watch":{{"hits":[],"counted":0,"armed":0,"refused":null}},
                "clock":{{"start_tsc":0,"start_ns":0,"end_tsc":1,"end_ns":1,"error_ns":0}},
                "mappings":[],"gaps":[]}}"#
            )
        };
        for (bytes, meant) in stored() {
            let text = record(&format!(r#""variant":{bytes},"#));
            let read: crate::RunRecord = serde_json::from_str(&text).expect("an old record");
            assert_eq!(read.execution, meant, "{bytes}");
            let value = serde_json::to_value(&read).expect("a value");
            let old: OldForm = serde_json::from_value(value["variant"].clone()).expect("old");
            assert_eq!(old.is_none(), meant == Execution::Original, "{bytes}");
        }
        let unnamed: crate::RunRecord = serde_json::from_str(&record("")).expect("a record");
        assert_eq!(unnamed.execution, Execution::Original);
    }

    #[test]
    fn only_tracked_builds_have_hooks() {
        let of_p: Vec<bool> = stored().map(|(_, it)| it.is_original()).to_vec();
        assert_eq!(of_p, [true, false, false, true, false]);
        let known: Vec<bool> = stored().map(|(_, it)| it.tracked().is_some()).to_vec();
        assert_eq!(known, [false, true, true, false, false]);
    }

    #[test]
    fn a_name_that_is_no_patch_is_refused() {
        let text = r#"{"campaign":0,"iteration":1,"patch":"short"}"#;
        let refused = serde_json::from_str::<Execution>(text).expect_err("refused");
        assert!(refused.to_string().contains("16 hexadecimal"), "{refused}");
    }
}
