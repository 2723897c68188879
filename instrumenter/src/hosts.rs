//! In which functions a plan's sites are hooked.
//!
//! A statement stands in its own function and in every one that it was inlined
//! into. Each of these gets clones and a gate, which costs a little at every call
//! even while recording is off, and no governor can take that back: a lock's wrapper
//! that was inlined into 230 functions of SQLite would slow all of it by some per cent.
//! So a site that stands in many functions is hooked in those alone that the
//! plan has statements of; as σ grows these become more. The placement says that
//! such a site does not tell all.
//!
//! Counted by module: hosts in other modules are not known yet when one is read.

use crate::locate::{Locator, subprogram_of};
use crate::place::{SiteIndex, find};
use inkwell::context::{AsContextRef, Context};
use inkwell::module::Module;
use inkwell::values::FunctionValue;
use sketch_model::{SiteId, TrackingPlan};
use std::collections::{BTreeMap, HashSet};

/// A site in more functions of a module than this is not hooked in all of them.
const MANY: usize = 16;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// The names of the functions that are to be hooked, in the module's order.
    pub functions: Vec<String>,
    /// Sites that stand in others as well.
    pub partial: Vec<SiteId>,
}

/// Chooses the functions of `module` in which sites of `plan` are hooked.
pub fn hosts<'ctx>(context: &'ctx Context, module: &Module<'ctx>, plan: &TrackingPlan) -> Hosts {
    let index = SiteIndex::new(plan);
    let mut locator = Locator::new(context.as_ctx_ref());
    let mut by_site: BTreeMap<SiteId, Vec<FunctionValue<'ctx>>> = BTreeMap::new();
    let mut all = Vec::new();
    for (site, instruction) in find(&mut locator, module, &index) {
        let block = instruction.get_parent();
        let Some(host) = block.and_then(|block| block.get_parent()) else {
            continue;
        };
        let hosts = by_site.entry(site.id).or_default();
        if hosts.last() != Some(&host) {
            hosts.push(host);
        }
        if all.last() != Some(&host) {
            all.push(host);
        }
    }
    let planned: HashSet<&str> = plan.all_statements().map(|s| &*s.function).collect();
    let is_planned = |host: &FunctionValue<'_>| {
        subprogram_of(*host).is_some_and(|name| planned.contains(name.as_str()))
    };
    let mut chosen = HashSet::new();
    let mut partial = Vec::new();
    for (site, mut hosts) in by_site {
        if hosts.len() > MANY {
            let everywhere = hosts.len();
            match hosts.iter().any(is_planned) {
                true => hosts.retain(is_planned),
                false => hosts.truncate(MANY),
            }
            if hosts.len() < everywhere {
                partial.push(site);
            }
        }
        chosen.extend(hosts);
    }
    all.retain(|host| chosen.contains(host));
    let name = |host: &FunctionValue<'_>| host.get_name().to_string_lossy().into_owned();
    Hosts {
        functions: all.iter().map(name).collect(),
        partial,
    }
}
