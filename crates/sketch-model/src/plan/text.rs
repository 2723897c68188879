//! Plans for people: a stable text form, a version, and what changed between two.
//!
//! The text has one fact a line, so that line-by-line tools compare plans too.
//! The version is a hash of the text: equal versions mean equal plans for all
//! purposes of a reader. It is FNV-1a because it must be the same on every
//! machine and for ever, and guards against nothing but mix-ups.
//!
//! In a difference, a site is known by where it stands (function, line, column,
//! kind), not by its number: numbers shift with σ.

use crate::{LocationName, PointKind, Purpose, Site, Statement, TrackingPlan, Witness};
use std::collections::BTreeSet;
use std::fmt;

impl fmt::Display for PointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PointKind::Load => f.write_str("load"),
            PointKind::Store => f.write_str("store"),
            PointKind::Branch => f.write_str("branch"),
            PointKind::Call => f.write_str("call"),
            PointKind::Sync(op) => write!(f, "sync {op:?}"),
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Purpose::Statement => "statement",
            Purpose::ControlFlow => "control flow",
            Purpose::Order => "order",
        })
    }
}

impl TrackingPlan {
    /// Equal for equal plans, different for different ones.
    pub fn version(&self) -> PlanVersion {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in self.body().bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        PlanVersion(hash)
    }

    /// What `other` adds, removes and moves.
    pub fn diff(&self, other: &TrackingPlan) -> PlanDifference {
        let (ours, theirs) = (self.site_names(), other.site_names());
        PlanDifference {
            added: theirs.difference(&ours).cloned().collect(),
            removed: ours.difference(&theirs).cloned().collect(),
            moved: self.moved(other),
        }
    }

    fn body(&self) -> String {
        let mut lines = vec![format!(
            "build {} sigma {} variant {} for {}",
            self.build, self.sigma, self.variant, self.wants
        )];
        for (slot, location) in self.watched.iter().enumerate() {
            lines.push(format!("watch {slot} {location}"));
        }
        let elsewhere = self.unwatched.iter();
        lines.extend(elsewhere.map(|location| format!("watch - {location}")));
        let promoted = self.promoted.iter();
        lines.extend(promoted.map(|location| format!("promoted {location}")));
        if self.audit {
            lines.push("audit".to_owned());
        }
        for site in &self.sites {
            let arms = site.arm_slot.map(|slot| format!(" arms {slot}"));
            let location = site.location.as_ref().map(|name| format!(" {name}"));
            lines.push(format!(
                "site {} {}{}{}",
                site.id,
                self.site_name(site),
                location.unwrap_or_default(),
                arms.unwrap_or_default(),
            ));
        }
        for implied in &self.implied {
            let words = |witness: &Witness| {
                let word = match witness {
                    Witness::JustBefore(_) => "just before",
                    Witness::Before(_) => "before",
                    Witness::After(_) => "after",
                };
                format!("{word} {}", witness.site())
            };
            let by: Vec<String> = implied.by.iter().map(words).collect();
            let statement = self.statements.iter().find(|s| s.id == implied.statement);
            lines.push(format!("implied {}: {}", place(statement), by.join(", ")));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn site_name(&self, site: &Site) -> String {
        let statement = self.all_statements().find(|s| s.id == site.statement);
        let caller = site.caller.map(|caller| {
            let calling = self.all_statements().find(|s| s.id == caller);
            format!(" called at {}", place(calling))
        });
        let (place, column) = (place(statement), site.column);
        let caller = caller.unwrap_or_default();
        format!("{place}:{column}{caller} {} [{}]", site.kind, site.purpose)
    }

    fn site_names(&self) -> BTreeSet<String> {
        self.sites.iter().map(|site| self.site_name(site)).collect()
    }

    fn slot_of(&self, location: &LocationName) -> Option<usize> {
        self.watched.iter().position(|watched| watched == location)
    }

    fn moved(&self, other: &TrackingPlan) -> Vec<MovedLocation> {
        let named = self.watched.iter().chain(&other.watched);
        let named: BTreeSet<&LocationName> = named.collect();
        let slots = named.into_iter().map(|location| MovedLocation {
            location: location.clone(),
            from: self.slot_of(location),
            to: other.slot_of(location),
        });
        slots.filter(|moved| moved.from != moved.to).collect()
    }
}

fn place(statement: Option<&Statement>) -> String {
    statement.map_or_else(
        || "?".to_owned(),
        |s| format!("{} {}", s.function, s.location),
    )
}

impl fmt::Display for TrackingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan {}\n{}", self.version(), self.body())
    }
}

/// The version of a plan's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanVersion(pub u64);

impl fmt::Display for PlanVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What changed between two plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDifference {
    /// Sites by where they stand.
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub moved: Vec<MovedLocation>,
}

/// A location whose slot is another one, or which has one in one plan only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedLocation {
    pub location: LocationName,
    pub from: Option<usize>,
    pub to: Option<usize>,
}

impl PlanDifference {
    pub fn is_empty(&self) -> bool {
        *self == PlanDifference::default()
    }
}

impl fmt::Display for PlanDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = |slot: Option<usize>| slot.map_or("none".to_owned(), |n| n.to_string());
        for name in &self.removed {
            writeln!(f, "- {name}")?;
        }
        for name in &self.added {
            writeln!(f, "+ {name}")?;
        }
        for moved in &self.moved {
            let (from, to) = (slot(moved.from), slot(moved.to));
            writeln!(f, "~ watch {} slot {from} -> {to}", moved.location)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildId, Capabilities, Implied, Schema, SiteId, SourceLocation, StatementId};

    fn plan(columns: &[u32], watched: &[&str]) -> TrackingPlan {
        let name = |name: &&str| LocationName::Global((*name).to_owned());
        let site = |(id, column): (u32, &u32)| Site {
            id: SiteId(id),
            statement: StatementId(4),
            kind: PointKind::Load,
            column: *column,
            location: Some(LocationName::Global("x".into())),
            size: 4,
            arm_slot: (id == 0).then_some(0),
            purpose: Purpose::Statement,
            caller: None,
        };
        TrackingPlan {
            schema: Schema::default(),
            build: BuildId("ab".into()),
            sigma: 2,
            variant: 0,
            wants: Capabilities::watchpoints(),
            statements: vec![Statement {
                id: StatementId(4),
                function: "f".into(),
                location: SourceLocation {
                    file: "/src/a.c".into(),
                    line: 7,
                },
                text: String::new(),
            }],
            beside: Vec::new(),
            sites: (0..).zip(columns).map(site).collect(),
            implied: vec![Implied {
                statement: StatementId(4),
                by: vec![Witness::Before(SiteId(0)), Witness::After(SiteId(1))],
            }],
            watched: watched.iter().map(name).collect(),
            unwatched: Vec::new(),
            promoted: Vec::new(),
            audit: false,
        }
    }

    #[test]
    fn the_text_has_one_fact_a_line_and_begins_with_the_version() {
        let plan = plan(&[3, 9], &["x"]);
        let text = plan.to_string();
        let (first, body) = text.split_once('\n').expect("several lines");
        assert_eq!(first, format!("plan {}", plan.version()));
        assert_eq!(
            body,
            "build ab sigma 2 variant 0 for hooks and watchpoints\n\
             watch 0 x\n\
             site 0 f a.c:7:3 load [statement] x arms 0\n\
             site 1 f a.c:7:9 load [statement] x\n\
             implied f a.c:7: before 0, after 1\n"
        );
    }

    #[test]
    fn equal_plans_have_equal_versions_and_no_difference() {
        let one = plan(&[3], &["x"]);
        assert_eq!(one.version(), plan(&[3], &["x"]).version());
        assert_ne!(one.version(), plan(&[4], &["x"]).version());
        assert!(one.diff(&one).is_empty());
        assert_eq!(one.diff(&one).to_string(), "");
    }

    #[test]
    fn sites_come_and_go_and_locations_move() {
        let (old, new) = (plan(&[3, 9], &["x", "y"]), plan(&[9, 11], &["y", "z"]));
        assert_eq!(
            old.diff(&new).to_string(),
            "- f a.c:7:3 load [statement]\n\
             + f a.c:7:11 load [statement]\n\
             ~ watch x slot 0 -> none\n\
             ~ watch y slot 1 -> 0\n\
             ~ watch z slot none -> 1\n"
        );
        let back = new.diff(&old);
        assert_eq!(back.added, old.diff(&new).removed);
    }

    #[test]
    fn a_plan_of_an_earlier_release_is_read() {
        let text = r#"{"build":"ab","sigma":1,"statements":[],"sites":[{"id":0,
            "statement":1,"kind":"load","column":2,"location":null,"size":4,
            "arm_slot":null}],"watched":[],"unwatched":[]}"#;
        let plan: TrackingPlan = serde_json::from_str(text).expect("the old form");
        let wants = Capabilities::watchpoints();
        assert_eq!((plan.variant, plan.wants), (0, wants));
        assert_eq!(plan.sites[0].purpose, Purpose::Statement);
    }
}
