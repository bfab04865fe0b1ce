//! Encoding and segmentation against two independent implementations: the crates `gsm7` (alphabet
//! and packing) and `rusmpp-extra` (alphabet, codings and where to cut).

#![allow(clippy::unwrap_used)]

use gsm7::{Gsm7Reader, Gsm7Writer};
use proptest::prelude::*;
use rusmpp_extra::concatenation::owned::{Concatenation, Concatenator};
use rusmpp_extra::encoding::gsm7bit::Gsm7BitUnpacked;
use rusmpp_extra::encoding::latin1::Latin1;
use rusmpp_extra::encoding::ucs2::Ucs2;
use smsc::text::{
    BODY_OCTETS_MAX, ESCAPE, PART_OCTETS_MAX, PARTS_MAX, Part, Reference, TextError, decode_septets,
    encode_septets, fill_bits, pack, segment, unpack,
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

/// What another implementation makes of a text, whole or in pieces behind headers of `header`
/// octets.
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
                Reference::Eight(reference) => vec![5, 0, 3, reference, count, number],
                Reference::Sixteen(reference) => {
                    vec![6, 8, 4, (reference >> 8) as u8, reference as u8, count, number]
                }
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
        // They put a carriage return into bits that are left over (a rule of USSD); a short message
        // says its length in septets and leaves them zero.
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

/// Septets, or octets, that each part holds behind its header.
fn lengths(parts: &[Part]) -> Vec<usize> {
    parts.iter().map(|part| body(part).len()).collect()
}

/// TS 23.040 §9.2.3.24.1: a header of 6 octets leaves 153 septets or 134 octets, one of 7 octets
/// 152 or 133. Random lengths rarely meet the borders.
#[test]
fn borders_are_exact() {
    const EIGHT: Reference = Reference::Eight(7);
    const SIXTEEN: Reference = Reference::Sixteen(0x0107);
    let cut = |body: &[u8], coding, reference, expected: &[usize], unit| {
        let parts = segment(body, coding, 0, reference).unwrap();
        check_frame(&parts, reference);
        let expected: Vec<usize> = expected.iter().map(|units| units * unit).collect();
        assert_eq!(lengths(&parts), expected, "{} octets of coding {coding}, {reference:?}", body.len());
        parts
    };
    for (reference, septets, expected) in [
        (EIGHT, 0, &[0][..]),
        (EIGHT, 1, &[1]),
        (EIGHT, 159, &[159]),
        (EIGHT, 160, &[160]),
        (EIGHT, 161, &[153, 8]),
        (EIGHT, 305, &[153, 152]),
        (EIGHT, 306, &[153, 153]),
        (EIGHT, 307, &[153, 153, 1]),
        (EIGHT, 459, &[153, 153, 153]),
        (EIGHT, 460, &[153, 153, 153, 1]),
        (SIXTEEN, 160, &[160]),
        (SIXTEEN, 161, &[152, 9]),
        (SIXTEEN, 304, &[152, 152]),
        (SIXTEEN, 305, &[152, 152, 1]),
    ] {
        cut(&vec![b'a'; septets], 0, reference, expected, 1);
    }
    for (reference, octets, expected) in [
        (EIGHT, 0, &[0][..]),
        (EIGHT, 139, &[139]),
        (EIGHT, 140, &[140]),
        (EIGHT, 141, &[134, 7]),
        (EIGHT, 268, &[134, 134]),
        (EIGHT, 269, &[134, 134, 1]),
        (SIXTEEN, 140, &[140]),
        (SIXTEEN, 141, &[133, 8]),
        (SIXTEEN, 266, &[133, 133]),
        (SIXTEEN, 267, &[133, 133, 1]),
    ] {
        cut(&vec![0xf5; octets], 4, reference, expected, 1);
    }
    for (reference, letters, expected) in [
        (EIGHT, 0, &[0][..]),
        (EIGHT, 69, &[69]),
        (EIGHT, 70, &[70]),
        (EIGHT, 71, &[67, 4]),
        (EIGHT, 134, &[67, 67]),
        (EIGHT, 135, &[67, 67, 1]),
        // 133 octets are 66 letters and a half.
        (SIXTEEN, 70, &[70]),
        (SIXTEEN, 71, &[66, 5]),
        (SIXTEEN, 132, &[66, 66]),
        (SIXTEEN, 133, &[66, 66, 1]),
    ] {
        let ucs2: Vec<u8> = "ж".repeat(letters).encode_utf16().flat_map(u16::to_be_bytes).collect();
        cut(&ucs2, 8, reference, expected, 2);
        // Latin-1 that the default alphabet does not have.
        if letters > 0 {
            cut(&vec![0xfe; letters], 3, reference, expected, 2);
        }
    }
    // An extension character, two septets, on the border.
    for (reference, before, behind, expected) in [
        (EIGHT, 158, 0, &[160][..]),
        (EIGHT, 159, 0, &[153, 8]),
        (EIGHT, 151, 20, &[153, 20]),
        (EIGHT, 152, 20, &[152, 22]),
        (EIGHT, 153, 20, &[153, 22]),
        (EIGHT, 304, 20, &[153, 153, 20]),
        (EIGHT, 305, 20, &[153, 152, 22]),
        // The last part would fit, were its first character not to move there whole.
        (EIGHT, 152, 152, &[152, 153, 1]),
        (SIXTEEN, 150, 20, &[152, 20]),
        (SIXTEEN, 151, 20, &[151, 22]),
        (SIXTEEN, 152, 20, &[152, 22]),
    ] {
        let text = "a".repeat(before) + "€" + &"b".repeat(behind);
        let parts = cut(&encode_septets(&text).unwrap(), 0, reference, expected, 1);
        assert_eq!(parts.iter().map(|part| part.text().unwrap()).collect::<String>(), text);
    }
    // '[' is two septets, and one octet of Latin-1.
    cut(&[b'['; 80], 3, EIGHT, &[160], 1);
    cut(&[b'['; 81], 3, EIGHT, &[152, 10], 1);
    // A surrogate pair, two units, on the border.
    for (reference, before, behind, expected) in [
        (EIGHT, 68, 0, &[70][..]),
        (EIGHT, 69, 0, &[67, 4]),
        (EIGHT, 65, 10, &[67, 10]),
        (EIGHT, 66, 10, &[66, 12]),
        (EIGHT, 67, 10, &[67, 12]),
        (EIGHT, 132, 10, &[67, 67, 10]),
        (EIGHT, 133, 10, &[67, 66, 12]),
        (SIXTEEN, 64, 10, &[66, 10]),
        (SIXTEEN, 65, 10, &[65, 12]),
    ] {
        let text = "a".repeat(before) + "😀" + &"b".repeat(behind);
        let ucs2: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let parts = cut(&ucs2, 8, reference, expected, 2);
        assert_eq!(parts.iter().map(|part| part.text().unwrap()).collect::<String>(), text);
    }
    // All that can be numbered.
    for (coding, reference, whole) in [(0, EIGHT, 153), (0, SIXTEEN, 152), (4, EIGHT, 134), (4, SIXTEEN, 133)]
    {
        let parts = segment(&vec![b'a'; whole * PARTS_MAX], coding, 0, reference).unwrap();
        assert_eq!(lengths(&parts), [whole; PARTS_MAX]);
        let over = segment(&vec![b'a'; whole * PARTS_MAX + 1], coding, 0, reference);
        assert_eq!(over, Err(TextError::TooManyParts(256)));
        assert!(whole * PARTS_MAX <= BODY_OCTETS_MAX);
    }
}

/// It went out as 8-bit data, which no phone shows.
#[test]
fn latin1_behind_a_header_of_the_senders_own_is_translated() {
    let header = [5u8, 0, 3, 9, 2, 1];
    let of = |text: &[u8]| segment(&[&header[..], text].concat(), 3, 0x40, Reference::Eight(1));
    for (octets, alphabet, text, length) in [
        (&b"hi"[..], 0, "hi", 9),
        // In the default alphabet, elsewhere than in Latin-1; in its extension.
        (b"\xe9\xa3", 0, "é£", 9),
        (b"[a", 0, "[a", 10),
        (b"a\xfe", 2, "aþ", 10),
        (b"", 0, "", 7),
    ] {
        let parts = of(octets).unwrap();
        let [part] = &parts[..] else { panic!("{parts:?}") };
        assert_eq!(part.octets[..6], header);
        assert_eq!((part.alphabet, part.has_header, part.user_data_length), (alphabet, true, length));
        assert_eq!(part.text().as_deref(), Some(text));
    }
    for (fits, octets, taken) in [(153, b'a', 141), (76, b'[', 141), (67, 0xfe, 142)] {
        assert_eq!(of(&vec![octets; fits]).unwrap()[0].octets.len(), 140);
        assert_eq!(of(&vec![octets; fits + 1]), Err(TextError::HeaderTooLong(taken)));
    }
}

/// data_coding 1 is ASCII, and was read as septets of the default alphabet: `a@b_c` was sent as
/// `a¡b§c`, and `[` as `Ä`.
#[test]
fn ascii_is_translated() {
    let reference = Reference::Eight(7);
    for text in ["me@example.org: $5 [a] {b} ~ \\ ^ | _x_", "a tick, ` , is in UCS2 alone"] {
        let parts = segment(text.as_bytes(), 1, 0, reference).unwrap();
        assert_eq!((parts.len(), parts[0].text().unwrap().as_str()), (1, text));
        let with_header = [&b"\x02\x70\x00"[..], text.as_bytes()].concat();
        let parts = segment(&with_header, 1, 0x40, reference).unwrap();
        assert_eq!(parts[0].text().unwrap(), text);
    }
    // An escape and one more for each: not 160, but 80 in a part.
    assert_eq!(segment(&[b'['; 81], 1, 0, reference).unwrap().len(), 2);
    assert_eq!(segment(b"h\xffllo", 1, 0, reference), Err(TextError::Septet { at: 1, octet: 0xff }));
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

/// A part may have more octets than its length says septets: padding, or a sender that is wrong.
/// `unpack` went on gathering their bits after the last septet, eight for each octet, and five
/// octets later a debug build panicked with "attempt to shift left with overflow"; found by the
/// fuzzer of septets. It stops at the last septet.
#[test]
fn octets_behind_the_last_septet_are_not_looked_at() {
    assert_eq!(
        unpack(&[0xe8, 0x32, 0x9b, 0xfd, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 0, 5),
        b"hello"
    );
    let part = Part { alphabet: 0, has_header: false, user_data_length: 1, octets: vec![0x61; 140] };
    assert_eq!(part.text().as_deref(), Some("a"));
    assert!(unpack(&[0xff; 300], 3, 0).is_empty());
}
