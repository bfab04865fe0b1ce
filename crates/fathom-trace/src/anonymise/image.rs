//! A database file with its texts and blobs replaced where they stand.
//!
//! Every replacement is as long as what it replaces and has the same place in the order, so records
//! are rewritten within their cells: no page is split or merged, and the file keeps its layout byte
//! for byte but for the values. What no record uses (free space, free pages, the ends of overflow
//! pages) is zeroed, because old content stands there.
//!
//! The file's structure: <https://sqlite.org/fileformat2.html>.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::virtuals::Virtual;
use crate::error::TraceError;

/// What is done to the values of a database.
pub trait Visitor {
    /// A text (UTF-8). What is given back is as long, or nothing is changed.
    fn text(&mut self, text: &[u8]) -> Option<Vec<u8>>;
    /// A blob.
    fn blob(&mut self, blob: &[u8]) -> Option<Vec<u8>>;
    /// A whole number, and whether it must stay. What is given back is stored in as many bytes, or
    /// nothing is changed.
    fn number(&mut self, number: i64, stays: bool) -> Option<i64>;
    /// The SQL of a table, index, view or trigger.
    fn sql(&mut self, sql: &str) -> Option<String>;
}

/// How a b-tree's records are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Schema,
    Plain,
    /// Names and numbers of `sqlite_stat1` and `sqlite_sequence`, and what virtual tables keep for
    /// themselves: no texts of an application.
    Own,
    /// A virtual table's texts and rowids: the rowids stand in its index, too.
    Carried,
    /// `sqlite_stat4`, whose last column holds records of indexes.
    Samples,
}

/// A database file.
pub struct Image<'a> {
    file: &'a File,
    path: &'a Path,
    page_bytes: usize,
    usable_bytes: usize,
    pages: u32,
    is_utf16: Option<Endian>,
    /// Pages that a b-tree or the list of free pages holds, so that a file with a circle is
    /// refused.
    seen: HashSet<u32>,
    writes: bool,
    /// Its virtual tables, after a visit.
    pub virtuals: Vec<Virtual>,
}

#[derive(Clone, Copy)]
enum Endian {
    Little,
    Big,
}

/// A whole number of a record, replaced where it stands; whether it was.
fn number_in(bytes: &mut [u8], stays: bool, visitor: &mut dyn Visitor) -> bool {
    // Two's complement, the first byte with the sign.
    let first = i64::from(bytes[0].cast_signed());
    let number = bytes[1..].iter().fold(first, |sum, byte| sum << 8 | i64::from(*byte));
    let Some(replaced) = visitor.number(number, stays).filter(|other| !stays && *other != number) else {
        return false;
    };
    let all = replaced.to_be_bytes();
    let (before, after) = all.split_at(all.len() - bytes.len());
    let sign = if after[0] & 0x80 == 0 { 0 } else { 0xff };
    let fits = before.iter().all(|byte| *byte == sign);
    if fits {
        bytes.copy_from_slice(after);
    }
    fits
}

/// A number as SQLite writes it into a page, seven bits a byte, the ninth byte whole.
fn varint_bytes(number: u64) -> Vec<u8> {
    if number >> 56 != 0 {
        let mut bytes: Vec<u8> =
            (0..8).map(|at| 0x80 | (number >> (8 + 7 * (7 - at))) as u8 & 0x7f | 0x80).collect();
        bytes.push(number as u8);
        return bytes;
    }
    let length = ((64 - number.leading_zeros()).div_ceil(7)).max(1);
    (0..length).rev().map(|at| ((number >> (7 * at)) as u8 & 0x7f) | if at > 0 { 0x80 } else { 0 }).collect()
}

/// What the schema names.
#[derive(Default)]
struct Found {
    /// Tables and indexes: where they begin, what they hold, the name.
    roots: Vec<(u32, Content, String)>,
    virtuals: Vec<Virtual>,
}

/// A cell's payload, and where its bytes stand.
struct Payload {
    bytes: Vec<u8>,
    /// Page, offset, length of each piece.
    pieces: Vec<(u32, usize, usize)>,
    changed: bool,
}

impl<'a> Image<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// A file that is no database.
    pub fn open(file: &'a File, path: &'a Path) -> Result<Image<'a>, TraceError> {
        let mut header = [0; 100];
        file.read_exact_at(&mut header, 0).map_err(TraceError::io(path))?;
        if &header[..16] != b"SQLite format 3\0" {
            return Err(TraceError::refused(path.display(), "is no SQLite database, or an encrypted one"));
        }
        let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65536,
            bytes => usize::from(bytes),
        };
        let length = file.metadata().map_err(TraceError::io(path))?.len();
        if !page_bytes.is_power_of_two()
            || page_bytes < 512
            || length % page_bytes as u64 != 0
            || header[20] > 32
        {
            return Err(TraceError::refused(path.display(), "is a damaged database (page size)"));
        }
        let is_utf16 = match header[59] {
            2 => Some(Endian::Little),
            3 => Some(Endian::Big),
            _ => None,
        };
        Ok(Image {
            file,
            path,
            page_bytes,
            usable_bytes: page_bytes - usize::from(header[20]),
            pages: (length / page_bytes as u64) as u32,
            is_utf16,
            seen: HashSet::new(),
            writes: false,
            virtuals: Vec::new(),
        })
    }

    /// Shows every value to the visitor and writes what it gives back.
    ///
    /// # Errors
    /// A damaged file; a virtual table whose storage only its module understands.
    pub fn visit(&mut self, visitor: &mut dyn Visitor, writes: bool) -> Result<(), TraceError> {
        self.writes = writes;
        self.seen.clear();
        let mut found = Found::default();
        self.tree(1, Content::Schema, visitor, &mut found)?;
        if let Some(problem) = found.virtuals.iter().find_map(Virtual::problem) {
            return Err(TraceError::refused(self.path.display(), problem));
        }
        for (root, content, name) in found.roots {
            let content = if found.virtuals.iter().any(|value| value.has_own(&name)) {
                Content::Own
            } else if found.virtuals.iter().any(|value| value.carries(&name)) {
                Content::Carried
            } else {
                content
            };
            self.tree(root, content, visitor, &mut Found::default())?;
        }
        self.virtuals = found.virtuals;
        if writes { self.clear_free_pages() } else { Ok(()) }
    }

    fn damaged(&self, page: u32, problem: &str) -> TraceError {
        TraceError::refused(self.path.display(), format!("is a damaged database: page {page}: {problem}"))
    }

    fn read(&self, page: u32) -> Result<Vec<u8>, TraceError> {
        if page == 0 || page > self.pages {
            return Err(self.damaged(page, "is beyond the file's end"));
        }
        let mut bytes = vec![0; self.page_bytes];
        self.file
            .read_exact_at(&mut bytes, u64::from(page - 1) * self.page_bytes as u64)
            .map_err(TraceError::io(self.path))?;
        Ok(bytes)
    }

    fn write(&self, page: u32, bytes: &[u8]) -> Result<(), TraceError> {
        self.file
            .write_all_at(bytes, u64::from(page - 1) * self.page_bytes as u64)
            .map_err(TraceError::io(self.path))
    }

    /// All pages of a b-tree.
    fn tree(
        &mut self,
        root: u32,
        content: Content,
        visitor: &mut dyn Visitor,
        found: &mut Found,
    ) -> Result<(), TraceError> {
        let mut waiting = vec![root];
        while let Some(page) = waiting.pop() {
            if !self.seen.insert(page) {
                return Err(self.damaged(page, "is used twice"));
            }
            self.page(page, content, visitor, found, &mut waiting)?;
        }
        Ok(())
    }

    fn page(
        &mut self,
        number: u32,
        content: Content,
        visitor: &mut dyn Visitor,
        found: &mut Found,
        waiting: &mut Vec<u32>,
    ) -> Result<(), TraceError> {
        let mut page = self.read(number)?;
        let start = if number == 1 { 100 } else { 0 };
        let kind = page[start];
        let is_interior = matches!(kind, 2 | 5);
        if !matches!(kind, 2 | 5 | 10 | 13) {
            return Err(self.damaged(number, "is no page of a b-tree"));
        }
        let cells = usize::from(u16::from_be_bytes([page[start + 3], page[start + 4]]));
        let header = start + if is_interior { 12 } else { 8 };
        if header + 2 * cells > self.usable_bytes {
            return Err(self.damaged(number, "has too many cells"));
        }
        if is_interior {
            waiting.push(be32(&page, start + 8));
        }
        let mut used = vec![(0, header + 2 * cells)];
        for cell in 0..cells {
            let at = usize::from(u16::from_be_bytes([page[header + 2 * cell], page[header + 2 * cell + 1]]));
            let end = self.cell(number, &mut page, kind, at, content, visitor, found, waiting)?;
            used.push((at, end.max(at + 4)));
        }
        if self.writes {
            self.clear_unused(number, &mut page, start, &mut used)?;
            self.write(number, &page)?;
        }
        Ok(())
    }

    /// One cell; gives where it ends.
    #[expect(clippy::too_many_arguments, reason = "the state of one walk, which has no other user")]
    fn cell(
        &mut self,
        number: u32,
        page: &mut [u8],
        kind: u8,
        at: usize,
        content: Content,
        visitor: &mut dyn Visitor,
        found: &mut Found,
        waiting: &mut Vec<u32>,
    ) -> Result<usize, TraceError> {
        let short = |image: &Self| image.damaged(number, "has a cell beyond its end");
        let mut position = at;
        if matches!(kind, 2 | 5) {
            waiting.push(page.get(at..at + 4).map(|bytes| be32(bytes, 0)).ok_or_else(|| short(self))?);
            position += 4;
        }
        if kind == 5 {
            let (key, length) = varint(page, position).ok_or_else(|| short(self))?;
            self.rowid(page, position, key, content, visitor);
            return Ok(position + length);
        }
        let (payload_bytes, length) = varint(page, position).ok_or_else(|| short(self))?;
        position += length;
        if kind == 13 {
            let (key, length) = varint(page, position).ok_or_else(|| short(self))?;
            self.rowid(page, position, key, content, visitor);
            position += length;
        }
        let payload_bytes = usize::try_from(payload_bytes).ok().filter(|bytes| *bytes <= i32::MAX as usize);
        let payload_bytes = payload_bytes.ok_or_else(|| short(self))?;
        let local = self.local(payload_bytes, kind == 13);
        let end = position + local + if local < payload_bytes { 4 } else { 0 };
        if end > self.usable_bytes {
            return Err(short(self));
        }
        let mut payload = Payload {
            bytes: page[position..position + local].to_vec(),
            pieces: vec![(number, position, local)],
            changed: false,
        };
        if local < payload_bytes {
            self.overflow(be32(page, position + local), payload_bytes, &mut payload)?;
        }
        self.record(&mut payload.bytes, &mut payload.changed, content, visitor, found, number)?;
        if self.writes && payload.changed {
            self.store(page, &payload)?;
        }
        Ok(end)
    }

    /// A rowid, which is replaced where it stands.
    fn rowid(&self, page: &mut [u8], at: usize, key: u64, content: Content, visitor: &mut dyn Visitor) {
        if matches!(content, Content::Schema | Content::Samples) {
            return;
        }
        let stays = matches!(content, Content::Own | Content::Carried);
        let Some(replaced) = visitor.number(key.cast_signed(), stays).filter(|_| self.writes && !stays)
        else {
            return;
        };
        let (was, is) = (varint_bytes(key), varint_bytes(replaced.cast_unsigned()));
        if was.len() == is.len() {
            page[at..at + is.len()].copy_from_slice(&is);
        }
    }

    /// Bytes of a payload that stand in its cell.
    fn local(&self, payload: usize, is_table: bool) -> usize {
        let usable = self.usable_bytes;
        let largest = if is_table { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
        let least = (usable - 12) * 32 / 255 - 23;
        if payload <= largest {
            return payload;
        }
        let local = least + (payload - least) % (usable - 4);
        if local <= largest { local } else { least }
    }

    fn overflow(
        &mut self,
        first: u32,
        payload_bytes: usize,
        payload: &mut Payload,
    ) -> Result<(), TraceError> {
        let mut next = first;
        while payload.bytes.len() < payload_bytes {
            if !self.seen.insert(next) {
                return Err(self.damaged(next, "is used twice"));
            }
            let mut page = self.read(next)?;
            let length = (payload_bytes - payload.bytes.len()).min(self.usable_bytes - 4);
            payload.bytes.extend_from_slice(&page[4..4 + length]);
            payload.pieces.push((next, 4, length));
            let this = next;
            next = be32(&page, 0);
            if self.writes {
                page[4 + length..].fill(0);
                self.write(this, &page)?;
            }
        }
        Ok(())
    }

    /// Writes a payload back: its first piece into the page at hand, the others into the file.
    fn store(&self, page: &mut [u8], payload: &Payload) -> Result<(), TraceError> {
        let mut from = 0;
        for (number, (piece, at, length)) in payload.pieces.iter().enumerate() {
            let bytes = &payload.bytes[from..from + length];
            if number == 0 {
                page[*at..at + length].copy_from_slice(bytes);
            } else {
                let offset = u64::from(piece - 1) * self.page_bytes as u64 + *at as u64;
                self.file.write_all_at(bytes, offset).map_err(TraceError::io(self.path))?;
            }
            from += length;
        }
        Ok(())
    }

    /// A record: a header of types, then the values.
    fn record(
        &self,
        bytes: &mut [u8],
        changed: &mut bool,
        content: Content,
        visitor: &mut dyn Visitor,
        found: &mut Found,
        page: u32,
    ) -> Result<(), TraceError> {
        let short = || self.damaged(page, "has a record beyond its end");
        let (header_bytes, mut at) = varint(bytes, 0).ok_or_else(short)?;
        let header_bytes = usize::try_from(header_bytes).map_err(|_| short())?;
        let mut position = header_bytes;
        let mut fields = Vec::new();
        while at < header_bytes {
            let (kind, length) = varint(bytes, at).ok_or_else(short)?;
            at += length;
            let length = match kind {
                0 | 8 | 9 => 0,
                1..=4 => kind as usize,
                5 => 6,
                6 | 7 => 8,
                10 | 11 => return Err(short()),
                _ => usize::try_from((kind - 12) / 2).map_err(|_| short())?,
            };
            let end = position.checked_add(length).filter(|end| *end <= bytes.len()).ok_or_else(short)?;
            fields.push((kind, position, end));
            position = end;
        }
        if content == Content::Schema {
            return self.schema(bytes, changed, &fields, visitor, found, page);
        }
        for (number, (kind, from, to)) in fields.iter().copied().enumerate() {
            if matches!(kind, 1..=6) && content != Content::Samples {
                let stays = matches!(content, Content::Own | Content::Carried);
                *changed |= number_in(&mut bytes[from..to], stays, visitor);
            }
            if content == Content::Own {
                continue;
            }
            if content == Content::Samples {
                // Only the sample, the last column, holds an application's values: as a record.
                if number == 5 && kind >= 12 && kind % 2 == 0 {
                    self.record(&mut bytes[from..to], changed, Content::Plain, visitor, found, page)?;
                }
                continue;
            }
            self.value(&mut bytes[from..to], kind, changed, visitor);
        }
        Ok(())
    }

    fn value(&self, bytes: &mut [u8], kind: u64, changed: &mut bool, visitor: &mut dyn Visitor) {
        let replaced = match kind {
            12.. if kind.is_multiple_of(2) => visitor.blob(bytes),
            13.. => match self.is_utf16 {
                None => visitor.text(bytes),
                Some(endian) => match decode_utf16(bytes, endian) {
                    Some(text) => visitor.text(text.as_bytes()).and_then(|text| encode_utf16(&text, endian)),
                    None => visitor.blob(bytes),
                },
            },
            _ => None,
        };
        // A replacement is as long as what it replaces: both sides of this seam hold to it.
        if let Some(replaced) = replaced.filter(|replaced| replaced.len() == bytes.len()) {
            bytes.copy_from_slice(&replaced);
            *changed = true;
        }
    }

    /// A row of `sqlite_schema`: type, name, tbl_name, rootpage, sql.
    fn schema(
        &self,
        bytes: &mut [u8],
        changed: &mut bool,
        fields: &[(u64, usize, usize)],
        visitor: &mut dyn Visitor,
        found: &mut Found,
        page: u32,
    ) -> Result<(), TraceError> {
        let text = |field: &(u64, usize, usize)| -> String {
            let bytes = &bytes[field.1..field.2];
            match self.is_utf16 {
                Some(endian) => decode_utf16(bytes, endian).unwrap_or_default(),
                None => String::from_utf8_lossy(bytes).into_owned(),
            }
        };
        let [_, name, _, root, sql] = fields else {
            return Err(self.damaged(page, "has a row of the schema that is none"));
        };
        let (name, definition) = (text(name), text(sql));
        let root = match root.0 {
            8 => 0,
            9 => 1,
            1..=6 => bytes[root.1..root.2].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)),
            _ => 0,
        };
        found.virtuals.extend(Virtual::of(&definition));
        if root > 0 {
            let content = match name.as_str() {
                "sqlite_sequence" | "sqlite_stat1" => Content::Own,
                "sqlite_stat4" | "sqlite_stat3" => Content::Samples,
                _ => Content::Plain,
            };
            found.roots.push((root as u32, content, name));
        }
        if let Some(replaced) = visitor.sql(&definition) {
            let replaced = match self.is_utf16 {
                Some(endian) => encode_utf16(replaced.as_bytes(), endian).unwrap_or_default(),
                None => replaced.into_bytes(),
            };
            if replaced.len() == sql.2 - sql.1 {
                bytes[sql.1..sql.2].copy_from_slice(&replaced);
                *changed = true;
            }
        }
        Ok(())
    }

    /// Zeroes what no cell uses, but for the list of free blocks.
    fn clear_unused(
        &self,
        number: u32,
        page: &mut [u8],
        start: usize,
        used: &mut Vec<(usize, usize)>,
    ) -> Result<(), TraceError> {
        let mut free = usize::from(u16::from_be_bytes([page[start + 1], page[start + 2]]));
        while free != 0 {
            if free + 4 > page.len() || used.len() > page.len() {
                return Err(self.damaged(number, "has a free block beyond its end"));
            }
            used.push((free, free + 4));
            free = usize::from(u16::from_be_bytes([page[free], page[free + 1]]));
        }
        used.sort_unstable();
        let mut end = 0;
        for (from, to) in used.iter().copied() {
            if from > end {
                page[end..from].fill(0);
            }
            end = end.max(to.min(page.len()));
        }
        page[end..].fill(0);
        Ok(())
    }

    fn clear_free_pages(&mut self) -> Result<(), TraceError> {
        let mut trunk = be32(&self.read(1)?, 32);
        while trunk != 0 {
            if !self.seen.insert(trunk) {
                return Err(self.damaged(trunk, "is used twice"));
            }
            let mut page = self.read(trunk)?;
            let leaves = be32(&page, 4) as usize;
            if 8 + 4 * leaves > self.usable_bytes {
                return Err(self.damaged(trunk, "lists too many free pages"));
            }
            for leaf in 0..leaves {
                let leaf = be32(&page, 8 + 4 * leaf);
                self.read(leaf)?;
                self.write(leaf, &vec![0; self.page_bytes])?;
            }
            let next = be32(&page, 0);
            page[8 + 4 * leaves..].fill(0);
            self.write(trunk, &page)?;
            trunk = next;
        }
        Ok(())
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// SQLite's own variable-length number: big end first, nine bytes at most. Gives the number and its
/// length.
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for length in 0..8 {
        let byte = *bytes.get(at.checked_add(length)?)?;
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, length + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(at + 8)?), 9))
}

fn decode_utf16(bytes: &[u8], endian: Endian) -> Option<String> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let units = bytes.chunks_exact(2).map(|pair| match endian {
        Endian::Little => u16::from_le_bytes([pair[0], pair[1]]),
        Endian::Big => u16::from_be_bytes([pair[0], pair[1]]),
    });
    char::decode_utf16(units).collect::<Result<String, _>>().ok()
}

fn encode_utf16(text: &[u8], endian: Endian) -> Option<Vec<u8>> {
    let units = std::str::from_utf8(text).ok()?.encode_utf16();
    Some(
        units
            .flat_map(|unit| match endian {
                Endian::Little => unit.to_le_bytes(),
                Endian::Big => unit.to_be_bytes(),
            })
            .collect(),
    )
}
