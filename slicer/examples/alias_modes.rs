//! How large and how slow slices are in both alias modes: the table of docs/slicing.md.
//!
//! Takes bitcode files of one program and slices from statements spread evenly
//! over its table, in both modes. One row a mode: median and largest slice in
//! statements, how much of the first 32 it shares with `field`, and the median
//! time of a slice.
//!
//! Usage: cargo run --release -p slicer --example alias_modes -- COUNT FILE.bc…

use sketch_model::{BuildId, StatementId};
use slicer::{Alias, Criterion, Extent, ModuleInput, Program, slice_from};
use std::collections::BTreeSet;
use std::time::Instant;

/// What σ reaches after a few doublings.
const NEAR: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().ok_or("how many slices?")?.parse()?;
    let names: Vec<String> = arguments.collect();
    let read = names.iter().map(std::fs::read);
    let bytes = read.collect::<Result<Vec<_>, _>>()?;
    let inputs = names.iter().zip(&bytes);
    let inputs: Vec<ModuleInput<'_>> = inputs
        .map(|(name, bitcode)| ModuleInput { name, bitcode })
        .collect();
    let program = Program::load(BuildId("0".into()), &inputs)?;
    let total = program.statements().len();
    println!("{total} statements, {count} slices");
    let ids = (0..count).map(|n| StatementId((n * total / count + total / count / 2) as u32));
    let ids: Vec<StatementId> = ids.collect();
    let mut near: Vec<BTreeSet<StatementId>> = Vec::new();
    for mode in [Alias::Field, Alias::Andersen] {
        let (mut sizes, mut times, mut shared) = (Vec::new(), Vec::new(), 0.0);
        let mut gap = false;
        for (position, id) in ids.iter().enumerate() {
            let begun = Instant::now();
            let slice = slice_from(
                &program,
                &[Criterion::at(*id, &[])],
                mode,
                Extent::Whole,
                &|_| None,
            );
            times.push(begun.elapsed());
            sizes.push(slice.entries.len());
            gap |= slice.gaps.contains(&sketch_model::Gap::PointsToOverBudget);
            let first = slice
                .entries
                .iter()
                .take(NEAR)
                .map(|e| e.statement.id)
                .collect();
            if mode == Alias::Field {
                near.push(first);
            } else {
                let both = near[position].intersection(&first).count();
                shared += both as f64 / near[position].union(&first).count() as f64;
            }
        }
        sizes.sort_unstable();
        times.sort_unstable();
        println!(
            "{mode:>9}: median {:>6} of {total}, largest {:>6}, nearest {NEAR} shared with field {:>3.0}%, \
             median {:>8.1?}, slowest {:>8.1?}{}",
            sizes[sizes.len() / 2],
            sizes[sizes.len() - 1],
            if mode == Alias::Field {
                100.0
            } else {
                100.0 * shared / count as f64
            },
            times[times.len() / 2],
            times[times.len() - 1],
            if gap { ", points-to gave up" } else { "" }
        );
    }
    Ok(())
}
