//! A patch applies to exactly its base, and anything else is refused with its reason.

use code_patch::{PatchError, PublicKey, SecretKey, Terms, make, open, sha256_hex};
use proptest::prelude::*;
use sketch_model::{BuildId, CampaignId, VariantRef};

const NOW: u64 = 1_000;
const EXPIRES: u64 = 2_000;

fn program(seed: u8) -> Vec<u8> {
    (0..20_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed)
        .collect()
}

fn tracked(base: &[u8]) -> Vec<u8> {
    let mut result = base.to_vec();
    result.splice(5_000..5_003, *b"hooked here");
    result.extend_from_slice(b"the runtime");
    result
}

fn patch(key: &SecretKey, base: &[u8]) -> Vec<u8> {
    let variant = VariantRef {
        campaign: CampaignId(1),
        iteration: 2,
        plan: 0,
    };
    let terms = Terms {
        build: BuildId("abc".into()),
        variant: Some(variant),
        version: 3,
        expires: EXPIRES,
        watches_nothing: false,
    };
    make(base, &tracked(base), terms, key).unwrap()
}

fn keys() -> (SecretKey, PublicKey) {
    let secret = SecretKey::generate().unwrap();
    let public = PublicKey::from_text(&secret.public_key_text().unwrap()).unwrap();
    (secret, public)
}

#[test]
fn the_result_is_exact_and_the_patch_small() {
    let (secret, public) = keys();
    let base = program(0);
    let bytes = patch(&secret, &base);
    assert!(bytes.len() < base.len() / 10, "{} bytes", bytes.len());
    let opened = open(&bytes, &public, NOW).unwrap();
    assert_eq!(opened.apply(&base).unwrap(), tracked(&base));
    assert_eq!(opened.manifest().base_sha256, sha256_hex(&base));
}

#[test]
fn a_stored_key_signs_as_the_generated_one_did() {
    let (secret, public) = keys();
    let again = SecretKey::from_text(&secret.to_text().unwrap()).unwrap();
    assert!(open(&patch(&again, &program(0)), &public, NOW).is_ok());
}

#[test]
fn another_base_is_refused_with_both_hashes() {
    let (secret, public) = keys();
    let opened = open(&patch(&secret, &program(0)), &public, NOW).unwrap();
    let other = program(1);
    match opened.apply(&other) {
        Err(PatchError::WrongBase { expected, found }) => {
            assert_eq!(expected, sha256_hex(&program(0)));
            assert_eq!(found, sha256_hex(&other));
        }
        other => panic!("expected WrongBase, got {other:?}"),
    }
}

#[test]
fn another_servers_patch_is_refused() {
    let (_, public) = keys();
    let (other, _) = keys();
    let refusal = open(&patch(&other, &program(0)), &public, NOW).unwrap_err();
    assert!(matches!(refusal, PatchError::BadSignature(_)), "{refusal}");
}

#[test]
fn an_expired_patch_is_refused() {
    let (secret, public) = keys();
    let refusal = open(&patch(&secret, &program(0)), &public, EXPIRES).unwrap_err();
    assert!(matches!(refusal, PatchError::Expired { .. }), "{refusal}");
}

#[test]
fn a_truncated_patch_is_refused_wherever_it_ends() {
    let (secret, public) = keys();
    let bytes = patch(&secret, &program(0));
    for end in 0..bytes.len() {
        assert!(open(&bytes[..end], &public, NOW).is_err(), "cut at {end}");
    }
}

#[test]
fn a_changed_bit_anywhere_is_refused() {
    let (secret, public) = keys();
    let bytes = patch(&secret, &program(0));
    // The untrusted comment of minisign's format is outside any signature.
    let trusted_from = 12 + "untrusted comment: signature from rsign secret key\n".len();
    for at in (0..12).chain(trusted_from..bytes.len()) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let accepted = open(&changed, &public, NOW).and_then(|p| p.apply(&program(0)));
        assert!(
            accepted.is_err() || accepted.is_ok_and(|r| r == tracked(&program(0))),
            "byte {at} changed and another program came out"
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (_, public) = keys();
        let marked = [b"FSPATCH1".as_slice(), &bytes].concat();
        prop_assert!(open(&bytes, &public, NOW).is_err());
        prop_assert!(open(&marked, &public, NOW).is_err());
    }
}
