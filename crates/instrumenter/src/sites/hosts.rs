//! In which functions a plan's sites are hooked.
//!
//! A statement stands in its own function and in every one that it was inlined
//! into. Each of these gets clones and a gate, which costs a little at every call
//! even while recording is off, and no governor can take that back; and it has to
//! be compiled. The wrapper of a lock stands in 230 functions of SQLite, an accessor
//! of cppcheck's in thousands. So a site that stands in many functions is hooked in
//! those alone that the plan has statements of; as σ grows these become more. The
//! placement says that such a site does not tell all.

use crate::sites::locate::{Locator, subprogram_of};
use crate::sites::place::{SiteIndex, find};
use inkwell::context::{AsContextRef, Context};
use inkwell::module::Module;
use inkwell::values::FunctionValue;
use sketch_model::{SiteId, TrackingPlan};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A site in more functions than this is not hooked in all of them.
const MANY: usize = 16;

/// The functions of one module in which sites stand.
#[derive(Debug, Default)]
pub struct Hosts {
    /// In the module's order.
    names: Vec<String>,
    /// Those that the plan has statements of.
    planned: BTreeSet<String>,
    by_site: BTreeMap<SiteId, Vec<String>>,
}

impl Hosts {
    pub fn read<'ctx>(context: &'ctx Context, module: &Module<'ctx>, plan: &TrackingPlan) -> Self {
        let index = SiteIndex::new(plan);
        let mut locator = Locator::new(context.as_ctx_ref());
        let written: HashSet<&str> = plan.all_statements().map(|s| &*s.function).collect();
        let is_planned = |host: FunctionValue<'ctx>| {
            subprogram_of(host).is_some_and(|name| written.contains(name.as_str()))
        };
        let mut hosts = Hosts::default();
        for (site, instruction) in find(&mut locator, module, &index) {
            let block = instruction.get_parent();
            let Some(host) = block.and_then(|block| block.get_parent()) else {
                continue;
            };
            let name = host.get_name().to_string_lossy().into_owned();
            // Whatever is found comes function by function.
            if hosts.names.last() != Some(&name) {
                if is_planned(host) {
                    hosts.planned.insert(name.clone());
                }
                hosts.names.push(name.clone());
            }
            let of_site = hosts.by_site.entry(site.id).or_default();
            if of_site.last() != Some(&name) {
                of_site.push(name);
            }
        }
        hosts
    }
}

/// Chooses the functions that are hooked, for each module; and says which sites
/// stand in others as well.
pub fn choose(modules: &[Hosts]) -> (Vec<Vec<String>>, Vec<SiteId>) {
    let mut chosen: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); modules.len()];
    let mut partial = Vec::new();
    let sites: BTreeSet<SiteId> = modules
        .iter()
        .flat_map(|m| m.by_site.keys())
        .copied()
        .collect();
    for site in sites {
        let of_module = |(number, module)| places(number, module, site);
        let mut hosts: Vec<Place<'_>> = modules.iter().enumerate().flat_map(of_module).collect();
        let everywhere = hosts.len();
        if everywhere > MANY {
            match hosts.iter().any(|host| host.planned) {
                true => hosts.retain(|host| host.planned),
                false => hosts.truncate(MANY),
            }
        }
        if hosts.len() < everywhere {
            partial.push(site);
        }
        for host in hosts {
            chosen[host.module].insert(host.name);
        }
    }
    let functions = modules.iter().zip(&chosen).map(|(module, chosen)| {
        let names = module.names.iter();
        names
            .filter(|name| chosen.contains(name.as_str()))
            .cloned()
            .collect()
    });
    (functions.collect(), partial)
}

struct Place<'h> {
    module: usize,
    name: &'h str,
    planned: bool,
}

fn places(module: usize, hosts: &Hosts, site: SiteId) -> impl Iterator<Item = Place<'_>> {
    hosts
        .by_site
        .get(&site)
        .into_iter()
        .flatten()
        .map(move |name| Place {
            module,
            name,
            planned: hosts.planned.contains(name),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(site: u32, names: &[&str], planned: &[&str]) -> Hosts {
        let owned = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        Hosts {
            names: owned(names),
            planned: owned(planned).into_iter().collect(),
            by_site: BTreeMap::from([(SiteId(site), owned(names))]),
        }
    }

    #[test]
    fn hosts_count_over_all_modules() {
        let names: Vec<String> = (0..10).map(|n| format!("f{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (functions, partial) = choose(&[module(0, &names, &["f3"])]);
        assert_eq!(functions[0], names);
        assert_eq!(partial, []);

        let both = [module(0, &names, &["f3"]), module(0, &names, &[])];
        let (functions, partial) = choose(&both);
        assert_eq!(functions, [vec!["f3".to_string()], vec![]]);
        assert_eq!(partial, [SiteId(0)]);
    }

    #[test]
    fn a_site_in_many_functions_none_of_the_plan_is_hooked_in_some() {
        let names: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (functions, partial) = choose(&[module(7, &names, &[])]);
        assert_eq!(functions[0], names[..MANY]);
        assert_eq!(partial, [SiteId(7)]);
    }
}
