//! A binary and the statements of its build, for symbolizing failures and for
//! attributing watchpoint hits.
//!
//! Both questions have the same answer: the debug info of the very file that
//! ran, matched by function, file and line with the build's statement table.
//! P and its tracked builds share that table, which depends on the bitcode
//! alone, and have addresses of their own.

use super::locate;
use super::symbols::{CodeFrame, Symbols};
use super::workshop::BuildCode;
use diagnosis::campaign::LocatedFailure;
use diagnosis::campaign::iteration::ProgramCode;
use diagnosis::{CodeMap, FunctionCode};
use sketch_model::{
    BuildId, FailureReport, Mapping, RuntimeAddress, Statement, StatementId, StaticAddress,
};
use std::borrow::Cow;
use std::sync::Arc;

/// The statements of a build, found by what debug info says.
pub trait StatementTable: Send + Sync {
    fn statement(&self, function: Option<&str>, file: &str, line: u32) -> Option<StatementId>;
    /// A statement with its source text.
    fn described(&self, id: StatementId) -> Option<Statement>;
    /// Of a stack, innermost first, of a program that may have ended itself: the frame that
    /// the failure is about.
    fn failing_frame(&self, _aborts: bool, _stack: &[StatementId]) -> usize {
        0
    }
}

/// One binary of a build.
pub struct BinaryCode {
    build: BuildId,
    symbols: Symbols,
    table: Arc<dyn StatementTable>,
}

impl BinaryCode {
    pub fn new(build: BuildId, symbols: Symbols, table: Arc<dyn StatementTable>) -> BinaryCode {
        BinaryCode {
            build,
            symbols,
            table,
        }
    }

    fn statement_of(&self, frame: &CodeFrame) -> Option<StatementId> {
        let file = frame.file.as_deref()?;
        // Line 0 is the compiler's word for code of no line.
        let line = frame.line.filter(|line| *line > 0)?;
        self.table.statement(frame.function.as_deref(), file, line)
    }
}

impl BuildCode for BinaryCode {
    fn locate(&self, report: &FailureReport) -> Option<LocatedFailure> {
        let described = |frame: &CodeFrame| self.table.described(self.statement_of(frame)?);
        let failing = |aborts, stack: &[StatementId]| self.table.failing_frame(aborts, stack);
        locate::locate(report, &self.build, &self.symbols, described, failing)
    }

    fn why_unlocated(&self, report: &FailureReport) -> String {
        let described = |frame: &CodeFrame| self.table.described(self.statement_of(frame)?);
        locate::why_unlocated(report, &self.build, &self.symbols, described)
    }
}

impl ProgramCode for BinaryCode {
    fn statement(&self, id: StatementId) -> Option<Statement> {
        self.table.described(id)
    }

    fn code_map(&self) -> &dyn CodeMap {
        self
    }
}

impl CodeMap for BinaryCode {
    fn locate(&self, mapping: &Mapping, address: RuntimeAddress) -> Option<StaticAddress> {
        let id = mapping.build_id.as_ref()?;
        if *id != self.build && Some(id.0.as_str()) != self.symbols.build_id() {
            return None;
        }
        // An access may end with the mapping, so its end is a place in it too.
        if address < mapping.start || address > mapping.end {
            return None;
        }
        let within = address.0 - mapping.start.0;
        if within == 0 {
            return self.symbols.address_of(mapping.file_offset);
        }
        let before = mapping.file_offset.checked_add(within - 1)?;
        let before = self.symbols.address_of(before)?;
        Some(StaticAddress(before.0.wrapping_add(1)))
    }

    fn function_at(&self, address: StaticAddress) -> Option<FunctionCode<'_>> {
        self.symbols.function_at(address).map(|f| FunctionCode {
            start: f.start,
            bytes: Cow::Borrowed(&f.bytes),
        })
    }

    /// The statement of the innermost function at the address: inlined callers
    /// did not make the access. An address has one row of the line table, so
    /// there is at most one; merged code has line 0 there, and none.
    fn statements_at(&self, address: StaticAddress) -> Vec<StatementId> {
        let frames = self.symbols.frames(address);
        let innermost = frames.first().and_then(|frame| self.statement_of(frame));
        innermost.into_iter().collect()
    }
}
