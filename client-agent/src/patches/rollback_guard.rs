//! Which patches of a campaign are older than one that this machine has run: those are
//! refused, whoever serves them.
//!
//! A signature does not age. Whoever stands between server and agent cannot make
//! a patch, but could serve one of an earlier iteration again: a build that was
//! given up, perhaps because it did harm. So patches carry a number that only grows
//! (`PatchManifest::version`), and an agent remembers, for each pinned key, program and
//! campaign, the newest iteration and the numbers of its plans. Plans of one iteration
//! are run in turn and stay valid beside each other; a campaign's next iteration has
//! greater numbers than all before it. Patches that an operator names are not asked.

use crate::patches::locked_file::Kept;
use serde::{Deserialize, Serialize};
use sketch_model::{BuildId, VariantRef};
use std::{collections::BTreeMap, path::Path};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newest {
    iteration: u32,
    /// By plan.
    versions: BTreeMap<u32, u64>,
}

impl Newest {
    /// Where it is kept for the patches of a campaign that are signed with a key.
    pub fn kept(cache: &Path, key: &str, build: &BuildId, variant: VariantRef) -> Kept<Newest> {
        let key = &key[..key.len().min(16)];
        let campaign = variant.campaign;
        Kept::in_file(cache.join(format!("patches-{key}-{build}-{campaign}.newest")))
    }

    /// Takes note of a patch that passes; of one that is older, says what is known
    /// to be newer.
    pub fn admit(&mut self, variant: VariantRef, version: u64) -> Result<(), String> {
        let known = match variant.iteration == self.iteration {
            true => self.versions.get(&variant.plan),
            false => self.versions.values().max(),
        };
        if let Some(known) = known.copied()
            && (version < known || variant.iteration < self.iteration)
        {
            return Err(format!("version {known} of iteration {}", self.iteration));
        }
        if variant.iteration != self.iteration {
            *self = Newest {
                iteration: variant.iteration,
                versions: BTreeMap::new(),
            };
        }
        self.versions.insert(variant.plan, version);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sketch_model::CampaignId;

    fn of(iteration: u32, plan: u32) -> VariantRef {
        VariantRef {
            campaign: CampaignId(1),
            iteration,
            plan,
        }
    }

    #[test]
    fn plans_of_an_iteration_take_turns_and_none_before_it_comes_back() {
        let mut newest = Newest::default();
        for (variant, version) in [
            (of(1, 0), 3),
            (of(1, 1), 4),
            (of(1, 0), 3),
            // Made again by a server that took over.
            (of(1, 0), 9),
            (of(2, 1), 13),
            (of(2, 0), 12),
            (of(2, 1), 13),
        ] {
            assert_eq!(newest.admit(variant, version), Ok(()), "{variant:?}");
        }
        let newer = |version| Err(format!("version {version} of iteration 2"));
        assert_eq!(newest.admit(of(1, 0), 9), newer(13));
        assert_eq!(newest.admit(of(2, 1), 12), newer(13));
        // An iteration that claims to be newer and has an older number.
        assert_eq!(newest.admit(of(3, 0), 11), newer(13));
        assert_eq!(newest.admit(of(2, 0), 12), Ok(()));
    }

    proptest! {
        /// Of whatever is served in whatever order, no plan's number ever falls, nor
        /// does the iteration.
        #[test]
        fn nothing_ever_goes_back(served in proptest::collection::vec((1u32..4, 0u32..3, 0u64..20), 0..60)) {
            let mut newest = Newest::default();
            let mut highest = (0, 0);
            let mut numbers = BTreeMap::new();
            for (iteration, plan, version) in served {
                if newest.admit(of(iteration, plan), version).is_ok() {
                    prop_assert!(iteration >= highest.0);
                    prop_assert!(iteration == highest.0 || version >= highest.1);
                    prop_assert!(version >= *numbers.get(&(iteration, plan)).unwrap_or(&0));
                    numbers.insert((iteration, plan), version);
                    highest = (iteration, version.max(highest.1));
                }
            }
        }
    }
}
