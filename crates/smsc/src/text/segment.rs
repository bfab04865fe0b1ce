//! From a message as it was submitted to the parts that go over the air: TS 23.040 §9.2.3.24, at
//! most 140 octets each.
//!
//! A message that does not fit one part gets a user data header in each: information element 00
//! (reference of 8 bits) or 08 (16 bits), the number of parts and the part's number from 1. No part
//! ends between an escape and its septet or between the halves of a surrogate pair, so every part
//! can be shown by itself.

use super::alphabet::{ESCAPE, decode_septets, encode_septets};
use super::septets::{fill_bits, pack, unpack};
use std::borrow::Cow;

/// Octets of one part, header included.
pub const PART_OCTETS_MAX: usize = 140;
/// Septets that fit [`PART_OCTETS_MAX`].
const PART_SEPTETS_MAX: usize = PART_OCTETS_MAX * 8 / 7;
/// A part's number is one octet.
pub const PARTS_MAX: usize = 255;
/// Octets of the longest body that can be sent: 153 septets, one in each octet, in each of
/// [`PARTS_MAX`] parts.
pub const BODY_OCTETS_MAX: usize = PARTS_MAX * 153;
/// esm_class: the body begins with a user data header (SMPP 3.4 §5.2.12).
pub const ESM_UDHI: u8 = 0x40;

/// What the octets of a body are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Septets of the GSM 7-bit default alphabet, one in each octet.
    Gsm7,
    /// ASCII (IA5). The letters and digits of the alphabet above are where it has them, `@`, `$`,
    /// `_`, brackets and others are not: translated as ISO 8859-1 is, of which it is a half.
    Ascii,
    /// ISO 8859-1. No phone knows it: the centre translates it, to septets if they have every
    /// character, else to UCS2.
    Latin1,
    /// UTF-16, big endian; UCS2 with surrogate pairs, as phones show them.
    Ucs2,
    /// Anything.
    Binary,
}

impl Coding {
    /// The coding that SMPP's `data_coding` names (SMPP 3.4 §5.2.19; message classes and waiting
    /// indications by TS 23.038).
    ///
    /// ```
    /// use smsc::text::Coding;
    /// assert_eq!(Coding::of_data_coding(0x18), Some(Coding::Ucs2)); // class 0: shown at once
    /// assert_eq!(Coding::of_data_coding(0x0e), None);               // KS C 5601 is not supported
    /// ```
    #[must_use]
    pub fn of_data_coding(data_coding: u8) -> Option<Coding> {
        Some(match data_coding {
            // The centre's default alphabet; here that is GSM 7-bit.
            0x00 => Coding::Gsm7,
            0x01 => Coding::Ascii,
            0x02 | 0x04 => Coding::Binary,
            0x03 => Coding::Latin1,
            0x08 => Coding::Ucs2,
            // General data coding group with a class: bits 2 and 3 are the alphabet.
            0x10..=0x1f => match data_coding >> 2 & 3 {
                0 => Coding::Gsm7,
                1 => Coding::Binary,
                2 => Coding::Ucs2,
                _ => return None,
            },
            0xc0..=0xdf => Coding::Gsm7,
            0xe0..=0xef => Coding::Ucs2,
            0xf0..=0xff if data_coding & 0x08 == 0 => {
                if data_coding & 0x04 == 0 {
                    Coding::Gsm7
                } else {
                    Coding::Binary
                }
            }
            _ => return None,
        })
    }
}

/// The reference that the parts of one message share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Information element 00.
    Eight(u8),
    /// Information element 08: fewer collisions, one octet less for the text.
    Sixteen(u16),
}

impl Reference {
    /// Octets of the user data header, its length octet included.
    fn header_octets(self) -> usize {
        match self {
            Reference::Eight(_) => 6,
            Reference::Sixteen(_) => 7,
        }
    }

    fn write(self, parts: u8, number: u8, octets: &mut Vec<u8>) {
        match self {
            Reference::Eight(reference) => octets.extend([5, 0, 3, reference, parts, number]),
            Reference::Sixteen(reference) => {
                let [high, low] = reference.to_be_bytes();
                octets.extend([6, 8, 4, high, low, parts, number]);
            }
        }
    }
}

/// One part as it goes over the air.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Alphabet on the air: TP-DCS bits 2 and 3 (0 septets, 1 octets, 2 UCS2).
    pub alphabet: u8,
    /// Whether `octets` begin with a user data header (TP-UDHI).
    pub has_header: bool,
    /// TP-UDL: septets, header and fill bits included, or octets.
    pub user_data_length: u8,
    /// TP-UD, at most 140 octets.
    pub octets: Vec<u8>,
}

/// A body that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The data_coding is not one that the centre knows.
    #[error(
        "data_coding {0:#04x} is not supported: use 0 (GSM 7-bit), 1 (ASCII), 3 (Latin-1), 4 (binary) or 8 (UCS2)"
    )]
    DataCoding(u8),
    /// UCS2 of an odd number of octets.
    #[error("a UCS2 body has {0} octets, which is odd")]
    OddUcs2(usize),
    /// A septet above 127.
    #[error("octet {at} of a body of septets or ASCII is {octet:#04x}; at most 0x7f, one in each octet")]
    Septet {
        /// Position from 0.
        at: usize,
        /// What is there.
        octet: u8,
    },
    /// A body that says that it has a header, and has none.
    #[error("esm_class says that the body begins with a user data header, but {0}")]
    Header(&'static str),
    /// The body has a header of its own, and does not fit one part.
    #[error("a body with its own user data header must fit one part of 140 octets; this one takes {0}")]
    HeaderTooLong(usize),
    /// More parts than can be numbered.
    #[error("the body takes {0} parts, and 255 can be numbered")]
    TooManyParts(usize),
}

/// The parts of a message.
///
/// `body` is as `data_coding` says; with [`ESM_UDHI`] in `esm_class` it begins with a user data
/// header, which is sent as it is, and it must fit one part.
///
/// # Errors
/// [`TextError`], of which none depends on `reference`.
///
/// ```
/// use smsc::text::{Reference, segment};
/// let parts = segment(b"hello", 0, 0, Reference::Eight(7)).unwrap();
/// assert_eq!(parts[0].octets, [0xe8, 0x32, 0x9b, 0xfd, 0x06]); // the example that every description has
/// let long = segment(&[b'a'; 161], 0, 0, Reference::Eight(7)).unwrap();
/// assert_eq!((long.len(), &long[1].octets[..6]), (2, &[5, 0, 3, 7, 2, 2][..]));
/// ```
pub fn segment(
    body: &[u8],
    data_coding: u8,
    esm_class: u8,
    reference: Reference,
) -> Result<Vec<Part>, TextError> {
    let coding = Coding::of_data_coding(data_coding).ok_or(TextError::DataCoding(data_coding))?;
    if esm_class & ESM_UDHI != 0 {
        return with_own_header(body, coding);
    }
    match coding {
        Coding::Gsm7 => {
            check_septets(body, 0)?;
            septet_parts(body, reference)
        }
        Coding::Ascii | Coding::Latin1 => {
            check_ascii(coding, body, 0)?;
            match translate_latin1(body) {
                Translated::Septets(septets) => septet_parts(&septets, reference),
                Translated::Ucs2(octets) => octet_parts(&octets, 2, reference),
            }
        }
        Coding::Ucs2 if body.len() % 2 == 1 => Err(TextError::OddUcs2(body.len())),
        Coding::Ucs2 => octet_parts(body, 2, reference),
        Coding::Binary => octet_parts(body, 1, reference),
    }
}

/// What phones know of a Latin-1 text.
enum Translated {
    /// Every character is in the default alphabet or its extension.
    Septets(Vec<u8>),
    /// One is not.
    Ucs2(Vec<u8>),
}

fn translate_latin1(octets: &[u8]) -> Translated {
    let text: String = octets.iter().map(|&octet| char::from(octet)).collect();
    match encode_septets(&text) {
        Ok(septets) => Translated::Septets(septets),
        Err(_) => Translated::Ucs2(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
    }
}

fn check_septets(octets: &[u8], offset: usize) -> Result<(), TextError> {
    match octets.iter().position(|&octet| octet > 0x7f) {
        Some(at) => Err(TextError::Septet { at: offset + at, octet: octets[at] }),
        None => Ok(()),
    }
}

/// As [`check_septets`], where a text says that it is ASCII: what else it might be nobody knows.
fn check_ascii(coding: Coding, octets: &[u8], offset: usize) -> Result<(), TextError> {
    if coding == Coding::Ascii { check_septets(octets, offset) } else { Ok(()) }
}

/// One part whose header the sender made.
fn with_own_header(body: &[u8], coding: Coding) -> Result<Vec<Part>, TextError> {
    let &length = body.first().ok_or(TextError::Header("it is empty"))?;
    let header_octets = usize::from(length) + 1;
    let (header, text) =
        body.split_at_checked(header_octets).ok_or(TextError::Header("it is shorter than its header"))?;
    let (alphabet, text) = match coding {
        Coding::Gsm7 => {
            check_septets(text, header_octets)?;
            (0, Cow::Borrowed(text))
        }
        Coding::Ascii | Coding::Latin1 => {
            check_ascii(coding, text, header_octets)?;
            match translate_latin1(text) {
                Translated::Septets(septets) => (0, Cow::Owned(septets)),
                Translated::Ucs2(octets) => (2, Cow::Owned(octets)),
            }
        }
        Coding::Ucs2 if text.len() % 2 == 1 => return Err(TextError::OddUcs2(text.len())),
        Coding::Ucs2 => (2, Cow::Borrowed(text)),
        Coding::Binary => (1, Cow::Borrowed(text)),
    };
    let mut octets = header.to_vec();
    let user_data_length = if alphabet == 0 {
        pack(&text, fill_bits(header_octets), &mut octets);
        (header_octets * 8).div_ceil(7) + text.len()
    } else {
        octets.extend_from_slice(&text);
        octets.len()
    };
    if octets.len() > PART_OCTETS_MAX {
        return Err(TextError::HeaderTooLong(octets.len()));
    }
    // At most 160.
    let user_data_length = user_data_length as u8;
    Ok(vec![Part { alphabet, has_header: true, user_data_length, octets }])
}

/// Parts of septets.
fn septet_parts(septets: &[u8], reference: Reference) -> Result<Vec<Part>, TextError> {
    if septets.len() <= PART_SEPTETS_MAX {
        let mut octets = Vec::with_capacity(septets.len());
        pack(septets, 0, &mut octets);
        // At most 160.
        let user_data_length = septets.len() as u8;
        return Ok(vec![Part { alphabet: 0, has_header: false, user_data_length, octets }]);
    }
    let header_septets = (reference.header_octets() * 8).div_ceil(7);
    let pieces = pieces(septets, PART_SEPTETS_MAX - header_septets, 1, |at| {
        // An escape belongs to the septet behind it; of several escapes in a row, each second is
        // shown by the one before.
        let escapes = septets[..at].iter().rev().take_while(|&&septet| septet == ESCAPE).count();
        escapes % 2 == 1
    });
    numbered(&pieces, reference, |piece, octets| {
        pack(piece, fill_bits(reference.header_octets()), octets);
        (0, header_septets + piece.len())
    })
}

/// Parts of octets: UCS2 (`alphabet` 2) or binary (1).
fn octet_parts(body: &[u8], alphabet: u8, reference: Reference) -> Result<Vec<Part>, TextError> {
    if body.len() <= PART_OCTETS_MAX {
        // At most 140.
        let user_data_length = body.len() as u8;
        return Ok(vec![Part { alphabet, has_header: false, user_data_length, octets: body.to_vec() }]);
    }
    let room = PART_OCTETS_MAX - reference.header_octets();
    let unit = if alphabet == 2 { 2 } else { 1 };
    let pieces = pieces(body, room / unit * unit, unit, |at| {
        alphabet == 2 && matches!(body[at - 2], 0xd8..=0xdb) && matches!(body[at], 0xdc..=0xdf)
    });
    numbered(&pieces, reference, |piece, octets| {
        octets.extend_from_slice(piece);
        (alphabet, octets.len())
    })
}

/// Cuts `whole` into pieces of at most `room`; where `forbidden(at)`, not before `at` but one
/// `unit` earlier.
fn pieces(whole: &[u8], room: usize, unit: usize, forbidden: impl Fn(usize) -> bool) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(whole.len().div_ceil(room));
    let mut begin = 0;
    while begin < whole.len() {
        let mut end = (begin + room).min(whole.len());
        if end < whole.len() && forbidden(end) {
            end -= unit;
        }
        pieces.push(&whole[begin..end]);
        begin = end;
    }
    pieces
}

/// Gives each piece its header; `write` appends the piece and gives its alphabet and TP-UDL.
fn numbered(
    pieces: &[&[u8]],
    reference: Reference,
    write: impl Fn(&[u8], &mut Vec<u8>) -> (u8, usize),
) -> Result<Vec<Part>, TextError> {
    let parts = u8::try_from(pieces.len()).map_err(|_| TextError::TooManyParts(pieces.len()))?;
    let part = |(number, piece): (u8, &&[u8])| {
        let mut octets = Vec::with_capacity(PART_OCTETS_MAX);
        reference.write(parts, number, &mut octets);
        let (alphabet, user_data_length) = write(piece, &mut octets);
        // At most 160.
        Part { alphabet, has_header: true, user_data_length: user_data_length as u8, octets }
    };
    Ok((1..=parts).zip(pieces).map(part).collect())
}

impl Part {
    /// The text of this part alone; `None` for octets that are no text.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let header = if self.has_header { usize::from(*self.octets.first()?) + 1 } else { 0 };
        let data = self.octets.get(header..)?;
        match self.alphabet {
            0 => {
                let header_septets = (header * 8).div_ceil(7);
                let count = usize::from(self.user_data_length).checked_sub(header_septets)?;
                Some(decode_septets(&unpack(data, fill_bits(header), count)))
            }
            2 => {
                let units = data.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
                char::decode_utf16(units).map(|c| c.ok()).collect()
            }
            _ => None,
        }
    }
}
