//! What a machine offers to an agent without privileges, and what a plan wants of it: sets.
//!
//! A set and no ladder: one processor has watchpoints and no trace, a container may have a
//! trace and no watchpoints. A plan fits a machine that offers all it wants.
//!
//! Earlier releases knew three rungs of a ladder. On the wire a set that is one of them
//! is that rung's word ("inline", "watchpoints", "intel_pt"), so that their records and
//! databases are read and they read ours; any other set is a list, which they refuse. A
//! new capability is a variant here and its words in [`Capabilities`]' `Display`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// One thing that recording may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Capability {
    /// Hooks in the program's own code.
    Hooks,
    /// Hardware watchpoints.
    Watchpoints,
    /// Intel's processor trace.
    IntelPt,
}

/// What a machine offers, found by trying it; or what a plan wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "LadderOrSet", into = "LadderOrSet")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = LadderOrSet))]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// Hooks alone: every machine has them.
    pub fn hooks() -> Capabilities {
        Capabilities::from([Capability::Hooks])
    }

    /// Hooks and watchpoints.
    pub fn watchpoints() -> Capabilities {
        Capabilities::hooks().and(Capability::Watchpoints)
    }

    /// All that there is.
    pub fn intel_pt() -> Capabilities {
        Capabilities::watchpoints().and(Capability::IntelPt)
    }

    /// The same with one more.
    pub fn and(mut self, capability: Capability) -> Capabilities {
        self.0.insert(capability);
        self
    }

    /// Whether a machine that offers these can do what is wanted.
    pub fn offer(&self, wanted: &Capabilities) -> bool {
        wanted.0.is_subset(&self.0)
    }

    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// Whether these are all of the others, and more.
    pub fn exceed(&self, others: &Capabilities) -> bool {
        self != others && self.offer(others)
    }
}

impl<const N: usize> From<[Capability; N]> for Capabilities {
    fn from(capabilities: [Capability; N]) -> Capabilities {
        Capabilities(BTreeSet::from(capabilities))
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |capability| self.has(capability);
        let (watches, traces) = (has(Capability::Watchpoints), has(Capability::IntelPt));
        // Whoever has watchpoints and a trace has hooks: that goes without saying.
        let hooks = has(Capability::Hooks) && !(watches && traces);
        let words = [
            (traces, "Intel PT"),
            (hooks, "hooks"),
            (watches, "watchpoints"),
        ];
        let words = words.iter().filter(|(has, _)| *has).map(|(_, word)| *word);
        let words: Vec<&str> = words.collect();
        match words.as_slice() {
            [] => f.write_str("nothing"),
            words => f.write_str(&words.join(" and ")),
        }
    }
}

/// The form on the wire and in databases.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
enum LadderOrSet {
    Rung(Rung),
    Set(BTreeSet<Capability>),
}

/// The ladder of earlier releases: each has all that those before it have.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
enum Rung {
    Inline,
    Watchpoints,
    IntelPt,
}

impl Rung {
    const ALL: [Rung; 3] = [Rung::Inline, Rung::Watchpoints, Rung::IntelPt];

    fn set(self) -> Capabilities {
        match self {
            Rung::Inline => Capabilities::hooks(),
            Rung::Watchpoints => Capabilities::watchpoints(),
            Rung::IntelPt => Capabilities::intel_pt(),
        }
    }
}

impl From<LadderOrSet> for Capabilities {
    fn from(wire: LadderOrSet) -> Capabilities {
        match wire {
            LadderOrSet::Rung(rung) => rung.set(),
            LadderOrSet::Set(set) => Capabilities(set),
        }
    }
}

impl From<Capabilities> for LadderOrSet {
    fn from(capabilities: Capabilities) -> LadderOrSet {
        let rung = Rung::ALL.into_iter().find(|it| it.set() == capabilities);
        rung.map_or(LadderOrSet::Set(capabilities.0), LadderOrSet::Rung)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{Hooks, IntelPt, Watchpoints};

    /// As the last release reads and writes it.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Tier {
        Inline,
        Watchpoints,
        IntelPt,
    }

    fn rungs() -> [(&'static str, Capabilities, Tier); 3] {
        [
            (r#""inline""#, [Hooks].into(), Tier::Inline),
            (
                r#""watchpoints""#,
                [Hooks, Watchpoints].into(),
                Tier::Watchpoints,
            ),
            (
                r#""intel_pt""#,
                [Hooks, Watchpoints, IntelPt].into(),
                Tier::IntelPt,
            ),
        ]
    }

    #[test]
    fn what_the_last_release_wrote_is_read_and_it_reads_what_is_written() {
        for (bytes, set, tier) in rungs() {
            let read: Capabilities = serde_json::from_str(bytes).expect("the old form");
            assert_eq!(read, set);
            let written = serde_json::to_string(&set).expect("can be written");
            assert_eq!(written, bytes);
            assert_eq!(serde_json::from_str::<Tier>(&written).expect("old"), tier);
        }
    }

    #[test]
    fn a_set_that_was_no_rung_is_a_list() {
        let set = Capabilities::from([Hooks, IntelPt]);
        let written = serde_json::to_string(&set).expect("can be written");
        assert_eq!(written, r#"["hooks","intel_pt"]"#);
        let read: Capabilities = serde_json::from_str(&written).expect("a list");
        assert_eq!(read, set);
        assert!(serde_json::from_str::<Capabilities>(r#""none""#).is_err());
    }

    #[test]
    fn a_machine_fits_what_wants_no_more_than_it_offers() {
        let (traces, watches) = ([Hooks, IntelPt].into(), Capabilities::watchpoints());
        assert!(Capabilities::intel_pt().offer(&traces) && traces.offer(&Capabilities::hooks()));
        assert!(!watches.offer(&traces) && !traces.offer(&watches));
        assert!(Capabilities::intel_pt().exceed(&watches) && !watches.exceed(&watches));
        assert!(!traces.exceed(&watches));
    }

    #[test]
    fn plans_and_pages_name_them_as_ever() {
        let words = rungs().map(|(_, set, _)| set.to_string());
        let known = ["hooks", "hooks and watchpoints", "Intel PT and watchpoints"];
        assert_eq!(words, known);
        let traces = Capabilities::from([Hooks, IntelPt]);
        assert_eq!(traces.to_string(), "Intel PT and hooks");
        assert_eq!(Capabilities::default().to_string(), "nothing");
    }
}
