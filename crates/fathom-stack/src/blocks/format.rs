//! How this kernel lays out an event: `events/block/NAME/format`.

use std::path::Path;

use super::error::TraceError;

/// One event's number and fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// `common_type` of its records.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

/// Where a field lies in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub offset: usize,
    pub size: usize,
}

impl Field {
    /// The field's bytes, if the record is long enough.
    pub fn of<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// The field as a number of this machine's byte order; at most 8 bytes.
    pub fn number(&self, record: &[u8]) -> Option<u64> {
        let bytes = self.of(record)?;
        let mut wide = [0_u8; 8];
        let at = if cfg!(target_endian = "big") { 8_usize.checked_sub(bytes.len())? } else { 0 };
        wide.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_ne_bytes(wide))
    }
}

impl Format {
    /// Reads a format file.
    ///
    /// # Errors
    /// It cannot be read or has no ID.
    pub fn read(path: &Path) -> Result<Format, TraceError> {
        let text = std::fs::read_to_string(path).map_err(TraceError::io("read", path))?;
        Format::parse(&text).ok_or_else(|| TraceError::Format {
            path: path.to_path_buf(),
            problem: "it has no `ID:` line: this kernel describes events otherwise".into(),
        })
    }

    fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(field).collect();
        Some(Format { id, fields })
    }

    /// The place of a field.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn field(&self, name: &str, path: &Path) -> Result<Field, TraceError> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field).ok_or_else(|| {
            TraceError::Format {
                path: path.to_path_buf(),
                problem: format!(
                    "it has no field `{name}`: this kernel tells less of a request than Fathom needs"
                ),
            }
        })
    }
}

/// `field:sector_t sector; offset:16; size:8; signed:0;`, with tabs between.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    // The name is the last word of the declaration, without the length of an array.
    let name = parts.next()?.rsplit([' ', '*']).next()?.split('[').next()?.to_owned();
    let mut after = |label: &str| parts.next()?.strip_prefix(label)?.parse().ok();
    Some((name, Field { offset: after("offset:")?, size: after("size:")? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: block_rq_issue\nID: 1203\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->dev\n";

    #[test]
    fn a_format_is_read() {
        let format = Format::parse(TEXT).unwrap();
        assert_eq!(format.id, 1203);
        let place = |name| format.field(name, Path::new("format")).unwrap();
        assert_eq!(place("dev"), Field { offset: 8, size: 4 });
        assert_eq!(place("rwbs"), Field { offset: 34, size: 10 });
        assert_eq!(place("cmd"), Field { offset: 60, size: 4 });
        let error = format.field("sector", Path::new("events/format")).unwrap_err().to_string();
        assert!(error.contains("events/format") && error.contains("sector"), "{error}");
        assert_eq!(Format::parse("name: x\n"), None);
    }

    #[test]
    fn numbers_are_read_within_the_record_only() {
        let field = Field { offset: 2, size: 4 };
        assert_eq!(field.number(&[0, 0, 1, 0, 0, 0]), Some(u64::from(u32::from_ne_bytes([1, 0, 0, 0]))));
        assert_eq!(field.number(&[0; 5]), None);
        assert_eq!(Field { offset: usize::MAX, size: 4 }.number(&[0; 5]), None);
        assert_eq!(Field { offset: 0, size: 9 }.number(&[0; 16]), None);
    }
}
