//! SMS text: bodies of any coding, cut into parts and put together again as a phone does.

use fathom_fuzz::{Fuzz, Random, mutate};
use smsc::text::{
    Coding, ESM_UDHI, PART_OCTETS_MAX, PARTS_MAX, Part, Reference, decode_septets, encode_septets, fill_bits,
    pack, segment, unpack,
};

/// What clients send.
struct Body {
    octets: Vec<u8>,
    data_coding: u8,
    esm_class: u8,
    reference: Reference,
}

fn body(random: &mut Random) -> (Body, usize) {
    let length = match random.below(6) {
        0 => random.below(12),
        1 | 2 => 130 + random.below(40),
        3 => random.below(500),
        4 => 153 * random.below(8) + random.below(3),
        _ if random.below(50) == 0 => 38_000 + random.below(2_000),
        _ => random.below(200),
    } as usize;
    let mut octets: Vec<u8> = match random.below(5) {
        0 => (0..length).map(|_| random.bits() as u8).collect(),
        1 => (0..length).map(|_| random.below(128) as u8).collect(),
        // Escapes, alone and in rows.
        2 => (0..length).map(|_| *random.pick(&[0x1b, 0x65, 0x1b, 0x61, 0x0a])).collect(),
        // UCS2 with surrogates, whole and halved.
        3 => {
            let units = (0..length / 2).flat_map(|_| match random.below(4) {
                0 => vec![
                    0xd8 + random.below(4) as u8,
                    random.bits() as u8,
                    0xdc + random.below(4) as u8,
                    random.bits() as u8,
                ],
                1 => vec![0xd8 + random.below(8) as u8, random.bits() as u8],
                _ => vec![random.below(6) as u8, random.bits() as u8],
            });
            units.take(length).collect()
        }
        _ => encode_septets("Grüße {42} €").unwrap_or_default().into_iter().cycle().take(length).collect(),
    };
    if random.below(6) == 0 {
        mutate::bytes(random, &mut octets, 2, &[]);
    }
    let data_coding = match random.below(3) {
        0 => random.bits() as u8,
        _ => *random.pick(&[0, 1, 3, 4, 8, 0x18, 0xf5]),
    };
    let esm_class =
        if random.below(5) == 0 { ESM_UDHI | random.bits() as u8 } else { random.bits() as u8 & !ESM_UDHI };
    if esm_class & ESM_UDHI != 0 && random.below(2) == 0 && !octets.is_empty() {
        octets[0] = random.below(12) as u8;
    }
    let reference = if random.below(2) == 0 {
        Reference::Eight(random.bits() as u8)
    } else {
        Reference::Sixteen(random.bits() as u16)
    };
    let length = octets.len();
    (Body { octets, data_coding, esm_class, reference }, length)
}

/// What a part brings, its header taken off: septets, one in each octet, or octets.
fn content(part: &Part) -> Result<Vec<u8>, String> {
    let header = if part.has_header {
        usize::from(*part.octets.first().ok_or("a header in no octets")?) + 1
    } else {
        0
    };
    let data = part.octets.get(header..).ok_or("the header is longer than the part")?;
    if part.alphabet != 0 {
        if usize::from(part.user_data_length) != part.octets.len() {
            return Err(format!("TP-UDL {} of {} octets", part.user_data_length, part.octets.len()));
        }
        return Ok(data.to_vec());
    }
    let before = (header * 8).div_ceil(7);
    let count =
        usize::from(part.user_data_length).checked_sub(before).ok_or("TP-UDL is shorter than the header")?;
    let septets = unpack(data, fill_bits(header), count);
    if septets.len() == count { Ok(septets) } else { Err(format!("{} septets of {count}", septets.len())) }
}

fn judge(body: &Body) -> Result<(), String> {
    let Body { octets, data_coding, esm_class, reference } = body;
    let parts = match segment(octets, *data_coding, *esm_class, *reference) {
        Ok(parts) => parts,
        Err(error) if error.to_string().is_empty() => return Err("an error without words".into()),
        Err(_) => return Ok(()),
    };
    if parts.is_empty() != octets.is_empty() && parts.is_empty() || parts.len() > PARTS_MAX {
        return Err(format!("{} parts", parts.len()));
    }
    let mut whole = Vec::new();
    for (number, part) in (1_usize..).zip(&parts) {
        if part.octets.len() > PART_OCTETS_MAX {
            return Err(format!("part {number} has {} octets", part.octets.len()));
        }
        if parts.len() > 1 {
            let told: &[u8] = match (part.octets.first(), reference) {
                (Some(5), Reference::Eight(reference)) => {
                    &[5, 0, 3, *reference, parts.len() as u8, number as u8]
                }
                (Some(6), Reference::Sixteen(reference)) => {
                    &[6, 8, 4, (*reference >> 8) as u8, *reference as u8, parts.len() as u8, number as u8]
                }
                _ => return Err(format!("part {number} has no header of its own kind")),
            };
            if !part.octets.starts_with(told) {
                return Err(format!("the header of part {number} is {:?}", &part.octets[..told.len()]));
            }
        }
        let _ = part.text();
        whole.extend(content(part)?);
    }
    // Put together again, it is what was submitted.
    let own_header = if esm_class & ESM_UDHI != 0 { usize::from(octets[0]) + 1 } else { 0 };
    let submitted = &octets[own_header..];
    let coding = Coding::of_data_coding(*data_coding).ok_or("an unknown coding was taken")?;
    let same = match coding {
        Coding::Ascii | Coding::Latin1 => {
            let text: String = submitted.iter().map(|&octet| char::from(octet)).collect();
            match parts[0].alphabet {
                0 => decode_septets(&whole) == text,
                _ => whole == text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>(),
            }
        }
        _ => whole == submitted,
    };
    if !same {
        return Err(format!(
            "{coding:?} of {} octets in {} parts comes back different",
            submitted.len(),
            parts.len()
        ));
    }
    if coding == Coding::Gsm7 && own_header == 0 {
        // Shown part by part it reads as it does whole: no part ends within an escape.
        let shown: Option<String> = parts.iter().map(Part::text).collect();
        if shown.as_deref() != Some(&decode_septets(submitted)) {
            return Err("the parts do not show what the whole shows".into());
        }
    }
    Ok(())
}

#[test]
fn texts_are_cut_and_put_together_or_refused() {
    Fuzz::new("texts::texts_are_cut_and_put_together_or_refused", 50_000)
        .memory(1 << 20, 64)
        .run(body, judge);
}

/// Packing, and any text through the alphabet.
#[test]
fn septets_come_back() {
    Fuzz::new("texts::septets_come_back", 50_000).memory(1 << 20, 64).run(
        |random| {
            let octets: Vec<u8> = (0..random.below(300)).map(|_| random.bits() as u8).collect();
            let length = octets.len();
            ((octets, random.below(7) as u32, random.below(400) as usize), length)
        },
        |(octets, fill, count)| {
            let septets = unpack(octets, *fill, *count);
            if septets.len() > *count || septets.iter().any(|septet| *septet > 0x7f) {
                return Err(format!("{} septets of {count}", septets.len()));
            }
            let mut packed = Vec::new();
            pack(&septets, *fill, &mut packed);
            if unpack(&packed, *fill, septets.len()) != septets {
                return Err("packed again they are others".into());
            }
            let text = decode_septets(octets);
            let again = encode_septets(&text).map_err(|c| format!("{c:?} is shown and cannot be sent"))?;
            if decode_septets(&again) != text {
                return Err("sent again, the text is another one".into());
            }
            Ok(())
        },
    );
}
