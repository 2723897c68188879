//! What machine instructions did to memory, on their real encodings.

use diagnosis::evidence::instruction::{
    AccessEffect, AddressForm, Datum, access_ending_at, call_ends_at,
};
use formats::address_map::FunctionCode;
use sketch_model::StaticAddress;

const START: u64 = 0x1000;
const RAX: u8 = 0;
const RSI: u8 = 4;
const RDI: u8 = 5;

fn function(bytes: &[u8]) -> FunctionCode {
    FunctionCode {
        name: "f".to_owned(),
        start: StaticAddress(START),
        bytes: bytes.to_vec(),
    }
}

fn end(bytes: &[u8]) -> StaticAddress {
    StaticAddress(START + bytes.len() as u64)
}

/// The effect of a single instruction.
fn effect(bytes: &[u8]) -> Option<AccessEffect> {
    access_ending_at(&function(bytes), end(bytes)).and_then(|a| a.effect)
}

fn register(number: u8) -> Datum {
    Datum::Register { number, shift: 0 }
}

#[test]
fn reads_and_writes_with_the_place_of_their_value() {
    let unknown = Some(Datum::Unknown);
    let immediate = |value| Some(Datum::Immediate(value));
    let in_register = |number| Some(register(number));
    let high = Some(Datum::Register {
        number: RAX,
        shift: 8,
    });
    type Row<'a> = (&'a str, &'a [u8], u16, Option<Datum>, Option<Datum>);
    let table: &[Row<'_>] = &[
        (
            "mov rax,[rdi]",
            &[0x48, 0x8b, 0x07],
            8,
            in_register(RAX),
            None,
        ),
        ("mov eax,[rdi]", &[0x8b, 0x07], 4, in_register(RAX), None),
        (
            "mov rdi,[rdi]",
            &[0x48, 0x8b, 0x3f],
            8,
            in_register(RDI),
            None,
        ),
        ("mov r9,[rdi]", &[0x4c, 0x8b, 0x0f], 8, in_register(9), None),
        (
            "movzx eax,byte [rdi]",
            &[0x0f, 0xb6, 0x07],
            1,
            in_register(RAX),
            None,
        ),
        (
            "movsxd rax,dword [rdi]",
            &[0x48, 0x63, 0x07],
            4,
            in_register(RAX),
            None,
        ),
        (
            "mov [rdi],rsi",
            &[0x48, 0x89, 0x37],
            8,
            None,
            in_register(RSI),
        ),
        ("mov [rdi+1],ah", &[0x88, 0x67, 0x01], 1, None, high),
        (
            "mov qword [rdi],0",
            &[0x48, 0xc7, 0x07, 0, 0, 0, 0],
            8,
            None,
            immediate(0),
        ),
        (
            "mov qword [rdi],-1",
            &[0x48, 0xc7, 0x07, 0xff, 0xff, 0xff, 0xff],
            8,
            None,
            immediate(u64::MAX),
        ),
        (
            "mov dword [rdi+8],-1",
            &[0xc7, 0x47, 0x08, 0xff, 0xff, 0xff, 0xff],
            4,
            None,
            immediate(0xffff_ffff),
        ),
        ("cmp [rdi],rax", &[0x48, 0x39, 0x07], 8, unknown, None),
        (
            "cmp qword [rdi],0",
            &[0x48, 0x83, 0x3f, 0x00],
            8,
            unknown,
            None,
        ),
        ("add rax,[rdi]", &[0x48, 0x03, 0x07], 8, unknown, None),
        (
            "cmove rax,[rdi]",
            &[0x48, 0x0f, 0x44, 0x07],
            8,
            unknown,
            None,
        ),
        (
            "add qword [rdi],1",
            &[0x48, 0x83, 0x07, 0x01],
            8,
            unknown,
            unknown,
        ),
        (
            "xchg [rdi],rax",
            &[0x48, 0x87, 0x07],
            8,
            in_register(RAX),
            unknown,
        ),
        (
            "lock xadd [rdi],rsi",
            &[0xf0, 0x48, 0x0f, 0xc1, 0x37],
            8,
            in_register(RSI),
            unknown,
        ),
        ("movups xmm0,[rdi]", &[0x0f, 0x10, 0x07], 16, unknown, None),
        ("movups [rdi],xmm0", &[0x0f, 0x11, 0x07], 16, None, unknown),
        ("push qword [rdi]", &[0xff, 0x37], 8, unknown, None),
    ];
    for (text, bytes, width, read, written) in table {
        let found = effect(bytes).unwrap_or_else(|| panic!("{text}: no effect"));
        assert_eq!(found.width, *width, "{text}");
        assert_eq!(found.read, *read, "{text}: read");
        assert_eq!(found.written, *written, "{text}: written");
    }
}

#[test]
fn a_conditional_exchange_is_an_access_whose_effect_is_not_known() {
    // lock cmpxchg [rdi],rsi
    let code = [0xf0, 0x48, 0x0f, 0xb1, 0x37];
    let found = access_ending_at(&function(&code), end(&code)).expect("an access");
    assert_eq!((found.at, found.effect), (StaticAddress(START), None));
}

#[test]
fn addresses_are_known_unless_the_access_destroyed_them() {
    let by = |base, displacement| {
        Some(AddressForm::Registers {
            base: Some(base),
            index: None,
            scale: 1,
            displacement,
        })
    };
    let address = |bytes: &[u8]| effect(bytes).expect("an access").address;
    assert_eq!(address(&[0x48, 0x89, 0x37]), by(RDI, 0));
    assert_eq!(address(&[0x48, 0x89, 0x77, 0xf8]), by(RDI, (-8i64) as u64));
    // mov rdi,[rdi]
    assert_eq!(address(&[0x48, 0x8b, 0x3f]), None);
    // mov rax,[rdi+rsi*8+16]
    assert_eq!(
        address(&[0x48, 0x8b, 0x44, 0xf7, 0x10]),
        Some(AddressForm::Registers {
            base: Some(RDI),
            index: Some(RSI),
            scale: 8,
            displacement: 16
        })
    );
    // mov rax,[rip+0x10]
    assert_eq!(
        address(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]),
        Some(AddressForm::Static(StaticAddress(START + 7 + 0x10)))
    );
    // mov rax,fs:[0x28]
    assert_eq!(
        address(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]),
        None
    );
}

#[test]
fn the_instruction_is_found_by_decoding_from_the_start() {
    // push rbp; mov rbp,rsp; mov rax,[rdi]; mov [rsi],rax; pop rbp; ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0x5d, 0xc3,
    ];
    let load = access_ending_at(&function(&code), StaticAddress(START + 7)).expect("load");
    assert_eq!(load.at, StaticAddress(START + 4));
    let store = access_ending_at(&function(&code), StaticAddress(START + 10)).expect("store");
    assert_eq!(store.at, StaticAddress(START + 7));
    // Inside an instruction, before the function, after it: nothing.
    for nowhere in [START + 5, START + 6, START, START - 1, START + 100] {
        let found = access_ending_at(&function(&code), StaticAddress(nowhere));
        assert_eq!(found, None, "{nowhere:#x}");
    }
    // mov rbp,rsp touches no memory.
    assert_eq!(
        access_ending_at(&function(&code), StaticAddress(START + 4)),
        None
    );
}

#[test]
fn a_repeated_string_instruction_traps_at_itself() {
    // nop; rep movsq
    let code = [0x90, 0xf3, 0x48, 0xa5];
    let found = access_ending_at(&function(&code), StaticAddress(START + 1)).expect("string");
    assert_eq!((found.at, found.or_at), (StaticAddress(START + 1), None));
    assert_eq!(found.effect, None);
    // mov [rdi],rsi; rep stosq: either may have been it
    let code = [0x48, 0x89, 0x37, 0xf3, 0x48, 0xab];
    let found = access_ending_at(&function(&code), StaticAddress(START + 3)).expect("either");
    assert_eq!(found.at, StaticAddress(START));
    assert_eq!(found.or_at, Some(StaticAddress(START + 3)));
    assert_eq!(found.effect, None);
}

#[test]
fn return_addresses_follow_calls_and_nothing_else() {
    // call +0; call [rip+0]; call rax; mov rax,[rdi]; jmp +0
    let code = [
        0xe8, 0, 0, 0, 0, 0xff, 0x15, 0, 0, 0, 0, 0xff, 0xd0, 0x48, 0x8b, 0x07, 0xe9, 0, 0, 0, 0,
    ];
    let returns: Vec<u64> = (0..=code.len() as u64)
        .filter(|offset| call_ends_at(&function(&code), StaticAddress(START + offset)))
        .collect();
    assert_eq!(returns, [5, 11, 13]);
}

#[test]
fn no_bytes_make_it_panic() {
    use proptest::prelude::*;
    proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..64), at in 0u64..80)| {
        let code = function(&bytes);
        let _ = access_ending_at(&code, StaticAddress(START + at));
        let _ = call_ends_at(&code, StaticAddress(START + at));
    });
}
