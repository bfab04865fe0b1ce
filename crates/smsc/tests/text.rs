//! Encoding and segmentation against two independent implementations: the crates `gsm7` (alphabet and packing) and
//! `rusmpp-extra` (alphabet, codings and where to cut).

#![allow(clippy::unwrap_used)]

use gsm7::{Gsm7Reader, Gsm7Writer};
use proptest::prelude::*;
use rusmpp_extra::concatenation::owned::{Concatenation, Concatenator};
use rusmpp_extra::encoding::gsm7bit::Gsm7BitUnpacked;
use rusmpp_extra::encoding::latin1::Latin1;
use rusmpp_extra::encoding::ucs2::Ucs2;
use smsc::text::{
    ESCAPE, PART_OCTETS_MAX, Part, Reference, TextError, decode_septets, encode_septets, fill_bits, pack,
    segment, unpack,
};

/// Every character that the default alphabet or its extension has.
fn alphabet() -> Vec<char> {
    (0..=0x3000u32).filter_map(char::from_u32).filter(|&c| encode_septets(&c.to_string()).is_ok()).collect()
}

fn gsm_text(longest: usize) -> impl Strategy<Value = String> {
    // rusmpp-extra does not have the form feed of the extension table.
    let all: Vec<char> = alphabet().into_iter().filter(|&c| c != '\u{c}').collect();
    // Extension characters often, so that cuts meet them.
    let letter =
        prop_oneof![3 => prop::sample::select(all), 2 => prop::sample::select(vec!['€', '[', '|', '{'])];
    prop::collection::vec(letter, 0..longest).prop_map(|letters| letters.into_iter().collect())
}

fn references() -> impl Strategy<Value = Reference> {
    prop_oneof![any::<u8>().prop_map(Reference::Eight), any::<u16>().prop_map(Reference::Sixteen)]
}

/// What another implementation makes of a text, whole or in pieces behind headers of `header` octets.
fn cut_by(
    theirs: &impl Concatenator<Error: std::fmt::Debug>,
    text: &str,
    max: usize,
    header: usize,
) -> Vec<Vec<u8>> {
    match theirs.concatenate(text, max, header).unwrap().0 {
        Concatenation::Single(whole) => vec![whole],
        Concatenation::Concatenated(pieces) => pieces,
    }
}

/// The body of a part without its header: septets unpacked, or octets.
fn body(part: &Part) -> Vec<u8> {
    let header = if part.has_header { usize::from(part.octets[0]) + 1 } else { 0 };
    let data = &part.octets[header..];
    if part.alphabet != 0 {
        return data.to_vec();
    }
    unpack(data, fill_bits(header), usize::from(part.user_data_length) - (header * 8).div_ceil(7))
}

/// What holds of all parts, whatever is in them.
fn check_frame(parts: &[Part], reference: Reference) {
    for (i, part) in parts.iter().enumerate() {
        assert!(part.octets.len() <= PART_OCTETS_MAX, "{part:?}");
        assert_eq!(part.has_header, parts.len() > 1);
        if part.has_header {
            let (count, number) = (parts.len() as u8, i as u8 + 1);
            let expected = match reference {
                Reference::Eight(it) => vec![5, 0, 3, it, count, number],
                Reference::Sixteen(it) => vec![6, 8, 4, (it >> 8) as u8, it as u8, count, number],
            };
            assert_eq!(part.octets[..expected.len()], expected);
        }
        if part.alphabet == 0 {
            assert_eq!(part.octets.len(), (usize::from(part.user_data_length) * 7).div_ceil(8));
        } else {
            assert_eq!(part.octets.len(), usize::from(part.user_data_length));
        }
    }
}

#[test]
fn the_alphabet_is_that_of_both_others() {
    let all = alphabet();
    assert_eq!(all.len(), 137, "127 of the default alphabet (without the escape), 10 of the extension");
    for c in all {
        let septets = encode_septets(&c.to_string()).unwrap();
        assert_eq!(decode_septets(&septets), c.to_string());
        // rusmpp-extra does not have the form feed.
        if c != '\u{c}' {
            assert_eq!(septets, Gsm7BitUnpacked::new().encode_to_vec(&c.to_string()).unwrap(), "{c:?}");
        }
        let mut writer = Gsm7Writer::new(Vec::new());
        writer.write_char(c).unwrap_or_else(|error| panic!("{c:?}: {error}"));
    }
}

proptest! {
    #[test]
    fn packing_is_that_of_gsm7(text in gsm_text(170)) {
        let septets = encode_septets(&text).unwrap();
        let mut ours = Vec::new();
        pack(&septets, 0, &mut ours);
        let mut writer = Gsm7Writer::new(Vec::new());
        writer.write_str(&text).unwrap();
        let mut theirs = writer.into_writer().unwrap();
        // They put a carriage return into bits that are left over (a rule of USSD); a short message says its length in septets
        // and leaves them zero.
        theirs.truncate(ours.len());
        if let Some(last) = theirs.last_mut() {
            *last &= 0xff >> (ours.len() * 8 - septets.len() * 7);
        }
        prop_assert_eq!(&ours, &theirs);
        prop_assert_eq!(unpack(&ours, 0, septets.len()), septets);
    }

    #[test]
    fn septets_behind_a_header_are_where_gsm7_reads_them(text in gsm_text(150), fill in 0..7u32) {
        let septets = encode_septets(&text).unwrap();
        let mut ours = Vec::new();
        pack(&septets, fill, &mut ours);
        let theirs: String = Gsm7Reader::new_with_bit_offset(&ours[..], fill)
            .map(|reader| reader.collect::<Result<String, _>>().unwrap())
            .unwrap_or_default();
        // They read what is in the last octet's spare bits too: '@' is zero.
        prop_assert!(theirs.strip_prefix(text.as_str()).is_some_and(|rest| rest.is_empty() || rest == "@"), "{theirs:?}");
        prop_assert_eq!(unpack(&ours, fill, septets.len()), septets);
    }

    #[test]
    fn gsm_parts_are_cut_where_rusmpp_cuts(text in gsm_text(700), reference in references()) {
        let septets = encode_septets(&text).unwrap();
        let parts = segment(&septets, 0, 0, reference).unwrap();
        check_frame(&parts, reference);
        let header = if matches!(reference, Reference::Eight(_)) { 7 } else { 8 };
        let theirs = cut_by(&Gsm7BitUnpacked::new(), &text, 160, header);
        prop_assert_eq!(parts.iter().map(body).collect::<Vec<_>>(), theirs);
        let whole: String = parts.iter().map(|part| part.text().unwrap()).collect();
        prop_assert_eq!(whole, text);
    }

    #[test]
    fn ucs2_parts_are_cut_where_rusmpp_cuts(text in "[\u{20}-\u{d7ff}]{0,300}", reference in references()) {
        let ucs2: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let parts = segment(&ucs2, 8, 0, reference).unwrap();
        check_frame(&parts, reference);
        let header = if matches!(reference, Reference::Eight(_)) { 6 } else { 7 };
        prop_assert_eq!(parts.iter().map(body).collect::<Vec<_>>(), cut_by(&Ucs2::new(), &text, 140, header));
    }

    #[test]
    fn no_surrogate_pair_is_cut(text in "([a-z]|[\u{10000}-\u{10ffff}]){0,300}", reference in references()) {
        let ucs2: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let parts = segment(&ucs2, 8, 0, reference).unwrap();
        check_frame(&parts, reference);
        let whole: Option<String> = parts.iter().map(Part::text).collect();
        prop_assert_eq!(whole, Some(text));
    }

    #[test]
    fn latin1_shows_the_same_text(octets in prop::collection::vec(0x20..=0xffu8, 0..300), reference in references()) {
        let text: String = octets.iter().map(|&octet| char::from(octet)).collect();
        if let Ok(theirs) = Latin1::new().encode_to_vec(&text) {
            prop_assert_eq!(&theirs, &octets);
        }
        let parts = segment(&octets, 3, 0, reference).unwrap();
        check_frame(&parts, reference);
        prop_assert_eq!(parts[0].alphabet, if encode_septets(&text).is_ok() { 0 } else { 2 });
        prop_assert_eq!(parts.iter().map(|part| part.text().unwrap()).collect::<String>(), text);
    }

    #[test]
    fn binary_comes_back(octets in prop::collection::vec(any::<u8>(), 0..1000), reference in references()) {
        let parts = segment(&octets, 4, 0, reference).unwrap();
        check_frame(&parts, reference);
        prop_assert_eq!(parts.iter().flat_map(body).collect::<Vec<_>>(), octets);
    }

    #[test]
    fn no_body_panics(octets in prop::collection::vec(any::<u8>(), 0..400), coding: u8, esm: u8, reference in references()) {
        if let Ok(parts) = segment(&octets, coding, esm, reference) {
            for part in parts {
                prop_assert!(part.octets.len() <= PART_OCTETS_MAX);
                let _ = part.text();
            }
        }
    }
}

#[test]
fn runs_of_escapes_are_not_cut_in_two() {
    // An escape before an escape shows one space; 160 and more of them must stay pairs.
    for length in [161, 170, 200, 307, 320] {
        let parts = segment(&vec![ESCAPE; length], 0, 0, Reference::Eight(1)).unwrap();
        let shown: usize = parts.iter().map(|part| part.text().unwrap().chars().count()).sum();
        assert_eq!(shown, length.div_ceil(2));
    }
}

#[test]
fn a_header_of_the_senders_own_is_kept() {
    let body = [&[5u8, 0, 3, 9, 2, 1][..], &encode_septets("hello").unwrap()].concat();
    let parts = segment(&body, 0, 0x40, Reference::Eight(1)).unwrap();
    assert_eq!(parts[0].octets[..6], body[..6]);
    assert_eq!((parts[0].user_data_length, parts[0].text().as_deref()), (12, Some("hello")));
    assert!(matches!(segment(&[], 0, 0x40, Reference::Eight(1)), Err(TextError::Header(_))));
    assert!(matches!(segment(&[9, 1], 0, 0x40, Reference::Eight(1)), Err(TextError::Header(_))));
    let long = [&[5u8, 0, 3, 9, 2, 1][..], &[b'a'; 154]].concat();
    assert_eq!(segment(&long, 0, 0x40, Reference::Eight(1)), Err(TextError::HeaderTooLong(141)));
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_place() {
    let reference = Reference::Eight(1);
    let of = |body: &[u8], coding| segment(body, coding, 0, reference).unwrap_err();
    assert_eq!(of(b"a", 0x0e), TextError::DataCoding(0x0e));
    assert_eq!(of(b"abc", 8), TextError::OddUcs2(3));
    assert_eq!(of(&[0x61, 0x80], 0), TextError::Septet { at: 1, octet: 0x80 });
    assert_eq!(of(&[0; 134 * 255 + 1], 4), TextError::TooManyParts(256));
    assert_eq!(segment(&[0; 134 * 255], 4, 0, reference).unwrap().len(), 255);
}
