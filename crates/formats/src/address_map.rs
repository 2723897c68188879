//! What lies at an address of a binary: its function and code, its line with the
//! functions inlined there, and the statements of its build.
//!
//! A value, made once from the very file that ran: P, or a tracked build of it, which
//! has addresses of its own and the statements of P. Failures are located with it,
//! watchpoint hits attributed, and traces decoded with the statements alone
//! ([`StatementMap`]).
//!
//! Absent: split and compressed DWARF, which `failsketch cc` does not produce.

use crate::statement_map::{LoadedSegments, StatementMap, StatementRow};
use sketch_model::{BuildId, Mapping, RuntimeAddress, StatementId, StaticAddress};
use std::collections::HashMap;

/// One function at an address as debug info names it: the function itself, or one
/// inlined into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CodeFrame {
    /// Linkage name.
    pub function: Option<String>,
    pub file: Option<String>,
    /// Line 0, the compiler's word for code of no line, is none.
    pub line: Option<u32>,
}

/// A row of the line table with the functions there, innermost inlined one first.
#[derive(Clone, Debug)]
pub struct LineRow {
    pub from: u64,
    pub to: u64,
    pub column: u32,
    pub frames: Vec<CodeFrame>,
}

/// A function's machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCode {
    pub name: String,
    pub start: StaticAddress,
    pub bytes: Vec<u8>,
}

/// A frame with its statement, if it is one of the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'m> {
    pub code: &'m CodeFrame,
    pub statement: Option<StatementId>,
}

/// What lies at the addresses of one binary.
#[derive(Clone, Debug, Default)]
pub struct AddressMap {
    /// The build whose statements these are, and the build-id of the file itself.
    builds: Vec<BuildId>,
    /// Sorted by start.
    functions: Vec<FunctionCode>,
    statements: StatementMap,
    rows: Vec<FramesRow>,
    /// Frames one inside the other, as positions in `frames`.
    stacks: Vec<Vec<u32>>,
    frames: Vec<(CodeFrame, Option<StatementId>)>,
}

#[derive(Clone, Copy, Debug)]
struct FramesRow {
    from: u64,
    to: u64,
    /// Position in `stacks`.
    stack: u32,
}

impl AddressMap {
    /// A map of its parts. `statement` finds a statement of the build by what debug
    /// info says: linkage name of the function, file, line.
    pub fn new(
        builds: Vec<BuildId>,
        segments: LoadedSegments,
        mut functions: Vec<FunctionCode>,
        mut lines: Vec<LineRow>,
        statement: impl Fn(Option<&str>, &str, u32) -> Option<StatementId>,
    ) -> AddressMap {
        functions.sort_by_key(|f| (f.start, f.bytes.len()));
        lines.sort_by_key(|row| (row.from, row.to));
        let mut map = AddressMap {
            builds,
            functions,
            ..AddressMap::default()
        };
        let mut statements = Vec::new();
        let (mut frames, mut stacks) = (HashMap::new(), HashMap::new());
        for line in lines {
            // Rows of merged units may overlap: the first one keeps its addresses.
            let from = line.from.max(map.rows.last().map_or(0, |last| last.to));
            if from >= line.to {
                continue;
            }
            let stack: Vec<u32> = line
                .frames
                .into_iter()
                .map(|frame| {
                    *frames.entry(frame).or_insert_with_key(|frame| {
                        let found = frame.file.as_deref().zip(frame.line);
                        let found = found.and_then(|(file, line)| {
                            statement(frame.function.as_deref(), file, line)
                        });
                        map.frames.push((frame.clone(), found));
                        map.frames.len() as u32 - 1
                    })
                })
                .collect();
            let innermost = stack.first().map(|frame| &map.frames[*frame as usize]);
            if let Some((_, Some(statement))) = innermost {
                statements.push(StatementRow {
                    from,
                    to: line.to,
                    statement: *statement,
                    column: line.column,
                });
            }
            let number = *stacks.entry(stack).or_insert_with_key(|stack| {
                map.stacks.push(stack.clone());
                map.stacks.len() as u32 - 1
            });
            map.rows.push(FramesRow {
                from,
                to: line.to,
                stack: number,
            });
        }
        map.statements = StatementMap::new(segments, statements);
        map
    }

    /// The statements alone.
    pub fn statements(&self) -> &StatementMap {
        &self.statements
    }

    /// Whether this is the code of a mapping with that build-id.
    pub fn is_of(&self, build: &BuildId) -> bool {
        self.builds.contains(build)
    }

    /// The functions at an address, innermost inlined one first.
    pub fn frames(&self, at: StaticAddress) -> impl Iterator<Item = Frame<'_>> {
        let after = self.rows.partition_point(|row| row.from <= at.0);
        let row = self.rows[..after].last().filter(|row| at.0 < row.to);
        let stack = row.map_or(&[][..], |row| &self.stacks[row.stack as usize]);
        stack.iter().map(|frame| {
            let (code, statement) = &self.frames[*frame as usize];
            Frame {
                code,
                statement: *statement,
            }
        })
    }

    /// Whether any code of a function belongs to a statement.
    pub fn has_statements_of(&self, function: &str) -> bool {
        let named = |frame: &CodeFrame| frame.function.as_deref() == Some(function);
        self.frames
            .iter()
            .any(|(frame, found)| found.is_some() && named(frame))
    }

    /// The statement of the innermost function at the address: inlined callers did
    /// not make the access. Merged code has line 0 there, and none.
    pub fn statement_at(&self, at: StaticAddress) -> Option<StatementId> {
        self.statements.statement_at(at)
    }

    /// The function whose code an address lies in, by the symbol table.
    pub fn function_at(&self, at: StaticAddress) -> Option<&FunctionCode> {
        let after = self.functions.partition_point(|f| f.start <= at);
        let function = self.functions[..after].last()?;
        let offset = at.0 - function.start.0;
        (offset < function.bytes.len() as u64).then_some(function)
    }

    /// Where a runtime address lies in this file; `None` if the mapping is another's
    /// (a library, the vdso).
    pub fn locate(&self, mapping: &Mapping, address: RuntimeAddress) -> Option<StaticAddress> {
        if !self.is_of(mapping.build_id.as_ref()?) {
            return None;
        }
        // An access may end with the mapping, so its end is a place in it too.
        if address < mapping.start || address > mapping.end {
            return None;
        }
        let within = address.0 - mapping.start.0;
        if within == 0 {
            return self.statements.address_of(mapping.file_offset);
        }
        let before = mapping.file_offset.checked_add(within - 1)?;
        let before = self.statements.address_of(before)?;
        Some(StaticAddress(before.0.wrapping_add(1)))
    }
}

#[cfg(feature = "debug-info")]
pub use reading::AddressMapError;

/// Reading a file's debug info, for rooms that link a reader of it; the agent does not.
#[cfg(feature = "debug-info")]
mod reading {
    use super::{AddressMap, CodeFrame, FunctionCode, LineRow};
    use crate::statement_map::LoadedSegments;
    use addr2line::Context;
    use addr2line::gimli::{self, Dwarf, EndianSlice, LittleEndian, SectionId};
    use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
    use sketch_model::{BuildId, StatementId, StaticAddress};

    /// A binary without a map.
    #[derive(Debug, thiserror::Error)]
    pub enum AddressMapError {
        #[error("the binary is not a readable ELF file: {0}; register the build again")]
        NotAnObject(#[from] object::Error),
        #[error("the binary's debug info cannot be read: {0}; register the build again")]
        BadDebugInfo(#[from] gimli::Error),
    }

    type Bytes<'b> = EndianSlice<'b, LittleEndian>;

    impl AddressMap {
        /// The map of a file of a build; `statement` as in [`AddressMap::new`].
        pub fn read(
            binary: &[u8],
            build: &BuildId,
            statement: impl Fn(Option<&str>, &str, u32) -> Option<StatementId>,
        ) -> Result<AddressMap, AddressMapError> {
            let file = object::File::parse(binary)?;
            let section = |id: SectionId| -> Result<Bytes<'_>, gimli::Error> {
                let section = file.section_by_name(id.name());
                let data = section.and_then(|it| it.data().ok()).unwrap_or_default();
                Ok(EndianSlice::new(data, LittleEndian))
            };
            let context = Context::from_dwarf(Dwarf::load(section)?)?;
            let segments = LoadedSegments::of(&file);
            let lines = lines(&context, &segments)?;
            let own = file.build_id()?.map(|id| BuildId(hex::encode(id)));
            let builds = std::iter::once(build.clone()).chain(own).collect();
            let functions = functions(&file);
            Ok(AddressMap::new(
                builds, segments, functions, lines, statement,
            ))
        }
    }

    fn lines(
        context: &Context<Bytes<'_>>,
        segments: &LoadedSegments,
    ) -> Result<Vec<LineRow>, gimli::Error> {
        let Some((from, to)) = segments.span() else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        let (mut end, mut dropped) = (None, false);
        for (start, length, location) in context.find_location_range(from, to)? {
            // A linker that drops a function leaves its lines at addresses from 0 on,
            // where they may reach into the code of others.
            if end != Some(start) {
                dropped = !segments.has_code_at(start);
            }
            let to = start.saturating_add(length);
            end = Some(to);
            if dropped || length == 0 {
                continue;
            }
            // A compiler begins a row where it begins an inlined function.
            rows.push(LineRow {
                from: start,
                to,
                column: location.column.unwrap_or(0),
                frames: frames(context, start),
            });
        }
        Ok(rows)
    }

    /// Unreadable debug info of one unit leaves an address unknown; the caller sees
    /// that it got no frame.
    fn frames(context: &Context<Bytes<'_>>, at: u64) -> Vec<CodeFrame> {
        let mut found = Vec::new();
        let Ok(mut frames) = context.find_frames(at).skip_all_loads() else {
            return found;
        };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            let location = frame.location;
            found.push(CodeFrame {
                function: name.map(|n| n.into_owned()),
                file: location.as_ref().and_then(|l| l.file).map(str::to_owned),
                line: location.and_then(|l| l.line).filter(|line| *line > 0),
            });
        }
        found
    }

    fn functions(file: &object::File<'_>) -> Vec<FunctionCode> {
        let symbols = file.symbols();
        let code = symbols.filter(|s| s.kind() == SymbolKind::Text && s.is_definition());
        code.filter(|s| s.size() > 0)
            .filter_map(|s| {
                let mut segments = file.segments();
                let bytes =
                    segments.find_map(|it| it.data_range(s.address(), s.size()).ok().flatten())?;
                Some(FunctionCode {
                    name: s.name().ok()?.to_owned(),
                    start: StaticAddress(s.address()),
                    bytes: bytes.to_vec(),
                })
            })
            .collect()
    }
}
