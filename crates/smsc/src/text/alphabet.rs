//! The GSM 7-bit default alphabet and its extension table: 3GPP TS 23.038 §6.2.1 and §6.2.1.1.

/// Shifts to the extension table for one character.
pub const ESCAPE: u8 = 0x1b;

/// The default alphabet by septet. The escape has no character of its own.
const DEFAULT: [char; 128] = [
    '@', '£', '$', '¥', 'è', 'é', 'ù', 'ì', 'ò', 'Ç', '\n', 'Ø', 'ø', '\r', 'Å', 'å', //
    'Δ', '_', 'Φ', 'Γ', 'Λ', 'Ω', 'Π', 'Ψ', 'Σ', 'Θ', 'Ξ', '\u{1b}', 'Æ', 'æ', 'ß', 'É', //
    ' ', '!', '"', '#', '¤', '%', '&', '\'', '(', ')', '*', '+', ',', '-', '.', '/', //
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ':', ';', '<', '=', '>', '?', //
    '¡', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', //
    'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y', 'Z', 'Ä', 'Ö', 'Ñ', 'Ü', '§', //
    '¿', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', //
    'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', 'ä', 'ö', 'ñ', 'ü', 'à',
];

/// The extension table: the septet behind an escape, and its character.
const EXTENSION: [(u8, char); 10] = [
    (0x0a, '\u{c}'),
    (0x14, '^'),
    (0x28, '{'),
    (0x29, '}'),
    (0x2f, '\\'),
    (0x3c, '['),
    (0x3d, '~'),
    (0x3e, ']'),
    (0x40, '|'),
    (0x65, '€'),
];

/// Appends the septets of `c` (one, or an escape and one), each in the low bits of an octet. False,
/// and nothing appended, if the alphabet does not have it.
pub fn encode_char(c: char, septets: &mut Vec<u8>) -> bool {
    // Most letters and digits are where ASCII has them.
    if c.is_ascii_alphanumeric() {
        septets.push(c as u8);
        return true;
    }
    if c == '\u{1b}' {
        return false;
    }
    if let Some(at) = DEFAULT.iter().position(|&letter| letter == c) {
        septets.push(at as u8);
        return true;
    }
    match EXTENSION.iter().find(|letter| letter.1 == c) {
        Some(&(septet, _)) => {
            septets.extend([ESCAPE, septet]);
            true
        }
        None => false,
    }
}

/// The septets of `text`, one in each octet; the first character that the alphabet does not have,
/// if there is one.
///
/// # Errors
/// That character.
///
/// ```
/// assert_eq!(smsc::text::encode_septets("a{").unwrap(), [0x61, 0x1b, 0x28]);
/// assert_eq!(smsc::text::encode_septets("aж"), Err('ж'));
/// ```
pub fn encode_septets(text: &str) -> Result<Vec<u8>, char> {
    let mut septets = Vec::with_capacity(text.len());
    for c in text.chars() {
        if !encode_char(c, &mut septets) {
            return Err(c);
        }
    }
    Ok(septets)
}

/// The text of septets, one in each octet (the eighth bit is ignored). As TS 23.038 asks of a
/// receiver: an escape before a septet that the extension table does not have shows that of the
/// default alphabet; an escape before an escape, or as the last septet, shows a space.
///
/// ```
/// assert_eq!(smsc::text::decode_septets(&[0x61, 0x1b, 0x65, 0x1b]), "a€ ");
/// ```
#[must_use]
pub fn decode_septets(septets: &[u8]) -> String {
    let mut text = String::with_capacity(septets.len());
    let mut rest = septets.iter().map(|septet| septet & 0x7f);
    while let Some(septet) = rest.next() {
        if septet != ESCAPE {
            text.push(DEFAULT[usize::from(septet)]);
            continue;
        }
        text.push(match rest.next() {
            None | Some(ESCAPE) => ' ',
            Some(next) => EXTENSION
                .iter()
                .find(|letter| letter.0 == next)
                .map_or(DEFAULT[usize::from(next)], |letter| letter.1),
        });
    }
    text
}
