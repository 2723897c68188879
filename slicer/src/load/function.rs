//! One function of a module: LLVM instructions to [`Instruction`]s.
//!
//! Two passes: number blocks and instructions, then translate, because
//! operands of phis point forward. Every instruction keeps its number, markers
//! included, so that numbers need no second table.

use crate::ir::program::*;
use crate::load::address::{access, pointer_step, record_of_length};
use crate::load::llvm::{BasicBlock, Opcode, Value, ValueKind};
use crate::load::virtual_calls::{Variables, virtual_call};
use crate::load::{ModuleScope, is_debug_declare};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

struct Numbers<'m> {
    blocks: HashMap<BasicBlock<'m>, BlockId>,
    instructions: HashMap<Value<'m>, InstructionId>,
    parameters: HashMap<Value<'m>, u32>,
    /// Slots that hold a variable of the source, with the variable.
    declared: Variables<'m>,
}

pub(crate) fn load_function<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    function: Value<'m>,
    id: FunctionId,
) {
    let blocks = function.blocks();
    let parameters = function.parameters();
    let mut numbers = Numbers {
        blocks: blocks.iter().copied().zip(0..).collect(),
        instructions: HashMap::default(),
        parameters: parameters.iter().copied().zip(0..).collect(),
        declared: Variables::default(),
    };
    for block in &blocks {
        for instruction in block.instructions() {
            let number = numbers.instructions.len() as InstructionId;
            numbers.instructions.insert(instruction, number);
            if is_debug_declare(instruction) {
                let operands = instruction.operands();
                let slot = operands.first().copied().and_then(Value::wrapped_value);
                let variable = operands.get(1).and_then(|v| v.as_metadata());
                numbers.declared.extend(slot.map(|slot| (slot, variable)));
            }
        }
    }
    let old = &scope.tables.functions[id as usize];
    let mut body = Function {
        name: old.name.clone(),
        signature: old.signature.clone(),
        address_taken: old.address_taken,
        in_initializer: old.in_initializer,
        plumbing: old.plumbing,
        parameter_count: parameters.len() as u32,
        ..Function::default()
    };
    for (number, block) in blocks.iter().enumerate() {
        let mut shape = Block {
            first: body.instructions.len() as InstructionId,
            ..Block::default()
        };
        let mut last = None;
        for instruction in block.instructions() {
            translate(scope, &numbers, &mut body, &mut shape, instruction, id);
            last = Some(instruction);
        }
        shape.end = body.instructions.len() as InstructionId;
        if let Some(terminator) = last {
            add_successors(&mut shape, terminator, &numbers);
            let range = terminator.loop_range(scope.module);
            // clang emits a loop's start before its end.
            let header = shape
                .successors
                .iter()
                .filter(|to| **to <= number as BlockId)
                .min();
            if let (Some((start, end)), Some(header)) = (range, header) {
                body.loops.push(SourceLoop {
                    latch: number as BlockId,
                    header: *header,
                    start,
                    end,
                });
            }
        }
        body.blocks.push(shape);
    }
    body.instructions.shrink_to_fit();
    body.operands.shrink_to_fit();
    body.blocks.shrink_to_fit();
    // Translating may have found that this very function's address is taken.
    body.address_taken |= scope.tables.functions[id as usize].address_taken;
    scope.tables.functions[id as usize] = body;
}

fn add_successors<'m>(shape: &mut Block, terminator: Value<'m>, numbers: &Numbers<'m>) {
    let unwind =
        matches!(terminator.opcode(), Opcode::LLVMInvoke).then(|| terminator.unwind_destination());
    for successor in terminator.successors() {
        let Some(number) = numbers.blocks.get(&successor) else {
            continue;
        };
        if unwind == Some(successor) {
            shape.unwind = Some(*number);
        } else if !shape.successors.contains(number) {
            shape.successors.push(*number);
        }
    }
}

fn translate<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    numbers: &Numbers<'m>,
    body: &mut Function,
    shape: &mut Block,
    instruction: Value<'m>,
    function: FunctionId,
) {
    let mut operands = instruction.operands();
    let op = classify(scope, numbers, instruction, &mut operands);
    let first_operand = body.operands.len() as u32;
    for operand in operands {
        let operand = translate_operand(scope, numbers, operand);
        body.operands.push(operand);
    }
    let location = instruction.debug_location().and_then(|l| l.location());
    let location = location.filter(|(line, _, _)| *line != 0 && op != Op::Marker);
    let statement = location.map(|(line, _, place)| {
        let file = scope.file_of(place);
        scope.tables.statement(file, line, function)
    });
    if op == Op::Call(Callee::Indirect) {
        let number = body.instructions.len() as InstructionId;
        let ty = instruction.called_type().text();
        body.called_types.insert(number, ty);
        let by_table = virtual_call(&scope.debug, &numbers.declared, instruction);
        body.virtual_calls
            .extend(by_table.map(|call| (number, call)));
    }
    if let (Some((line, column, _)), None) = (location, shape.start) {
        shape.start = Some((line, column));
    }
    body.instructions.push(Instruction {
        op,
        first_operand,
        operand_count: body.operands.len() as u32 - first_operand,
        statement,
        column: location.map_or(0, |(_, column, _)| column),
        block: body.blocks.len() as BlockId,
    });
}

fn translate_operand<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    numbers: &Numbers<'m>,
    value: Value<'m>,
) -> Operand {
    if let Some(number) = numbers.instructions.get(&value) {
        return Operand::Instruction(*number);
    }
    if let Some(number) = numbers.parameters.get(&value) {
        return Operand::Parameter(*number);
    }
    match value.kind() {
        ValueKind::LLVMFunctionValueKind => {
            let id = scope.function(value);
            scope.tables.functions[id as usize].address_taken = true;
            Operand::Function(id)
        }
        ValueKind::LLVMGlobalVariableValueKind => Operand::Global(scope.global(value)),
        ValueKind::LLVMGlobalAliasValueKind => match value.aliasee() {
            Some(target) => translate_operand(scope, numbers, target),
            None => Operand::Constant,
        },
        ValueKind::LLVMConstantExprValueKind => {
            // A constant offset from a global, a cast of a function: the first
            // operand says what it is about; others may still take addresses.
            let operands = value.operands();
            for other in operands.iter().skip(1) {
                scope.note_addresses(*other, &mut HashSet::default(), false);
            }
            match operands.first() {
                Some(first) => translate_operand(scope, numbers, *first),
                None => Operand::Constant,
            }
        }
        ValueKind::LLVMConstantStructValueKind | ValueKind::LLVMConstantArrayValueKind => {
            scope.note_addresses(value, &mut HashSet::default(), false);
            Operand::Constant
        }
        _ => Operand::Constant,
    }
}

/// The opcode class; trims `operands` to what the class documents.
fn classify<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    numbers: &Numbers<'m>,
    instruction: Value<'m>,
    operands: &mut Vec<Value<'m>>,
) -> Op {
    match instruction.opcode() {
        Opcode::LLVMAlloca => Op::Alloca {
            declared: numbers.declared.contains_key(&instruction),
            record: scope.record(instruction.allocated_type()),
        },
        Opcode::LLVMLoad => {
            let (size, field) = access(scope, instruction.ty(), operands.first().copied());
            Op::Load { size, field }
        }
        Opcode::LLVMStore => {
            let ty = operands.first().map_or(instruction.ty(), |v| v.ty());
            let (size, field) = access(scope, ty, operands.get(1).copied());
            Op::Store { size, field }
        }
        Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg => {
            let ty = operands.get(1).map_or(instruction.ty(), |v| v.ty());
            let (size, field) = access(scope, ty, operands.first().copied());
            Op::Update { size, field }
        }
        Opcode::LLVMGetElementPtr => Op::Pointer(pointer_step(scope, instruction)),
        Opcode::LLVMBitCast | Opcode::LLVMAddrSpaceCast | Opcode::LLVMFreeze => Op::Cast,
        Opcode::LLVMPHI => Op::Phi,
        Opcode::LLVMSelect => Op::Select,
        Opcode::LLVMBr | Opcode::LLVMSwitch | Opcode::LLVMIndirectBr => {
            let conditional = !matches!(instruction.opcode(), Opcode::LLVMBr) || operands.len() > 1;
            operands.truncate(usize::from(conditional));
            if conditional { Op::Branch } else { Op::Other }
        }
        Opcode::LLVMRet => Op::Return,
        Opcode::LLVMLandingPad => Op::LandingPad,
        Opcode::LLVMCall | Opcode::LLVMInvoke | Opcode::LLVMCallBr => {
            call(scope, instruction, operands)
        }
        _ => Op::Other,
    }
}

fn call<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    instruction: Value<'m>,
    operands: &mut Vec<Value<'m>>,
) -> Op {
    operands.truncate(instruction.argument_count());
    let mut called = instruction.called_value();
    while let Some(target) = called.and_then(Value::aliasee) {
        called = Some(target);
    }
    let Some(called) = called else {
        return Op::Call(Callee::Assembly);
    };
    match called.kind() {
        ValueKind::LLVMFunctionValueKind => {
            let name = called.name();
            match name.strip_prefix("llvm.") {
                None => Op::Call(Callee::Direct(scope.function(called))),
                Some(intrinsic) => classify_intrinsic(scope, intrinsic, operands),
            }
        }
        ValueKind::LLVMInlineAsmValueKind => Op::Call(Callee::Assembly),
        _ => {
            operands.push(called);
            Op::Call(Callee::Indirect)
        }
    }
}

fn classify_intrinsic<'m>(
    scope: &mut ModuleScope<'_, 'm>,
    name: &str,
    operands: &mut Vec<Value<'m>>,
) -> Op {
    let is = |prefix: &str| name.starts_with(prefix);
    if is("dbg.") || is("lifetime.") || is("invariant.") || is("experimental.noalias") {
        operands.clear();
        Op::Marker
    } else if is("memcpy.") || is("memmove.") {
        let length = operands.get(2).and_then(|v| v.constant_integer());
        let sides = [operands.first().copied(), operands.get(1).copied()];
        let record = sides
            .into_iter()
            .flatten()
            .find_map(|side| record_of_length(scope, side, length?));
        operands.truncate(3);
        Op::Copy { record }
    } else if is("va_start") {
        operands.truncate(1);
        Op::VariableArguments
    } else if is("memset.") {
        let length = operands.get(2).and_then(|v| v.constant_integer());
        let record = operands
            .first()
            .and_then(|side| record_of_length(scope, *side, length?));
        operands.truncate(3);
        Op::Fill { record }
    } else {
        Op::Other
    }
}
