//! The messages of FUSE (protocol 7.31 and later, `linux/fuse.h`) as far as a file system of three
//! files needs them.
//!
//! A request is a head of 40 bytes (length, opcode, number of the request, node, user, group,
//! process) and a body by opcode; an answer is a head of 16 bytes (length, negative error, number
//! of the request) and a body. Integers are of the machine's order.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Bytes of a request's head.
const HEAD: usize = 40;
/// Bytes of a read's and of a write's body; what is written follows it.
const READ_BODY: usize = 40;
/// Bytes of an answer's head.
pub(super) const ANSWER_HEAD: usize = 16;
/// The longest name, as `statfs` tells it.
const NAME_MOST: u32 = 255;
/// `open`: the page cache is passed by, and writes may overtake each other.
const DIRECT: u32 = 1 << 0 | 1 << 6;
/// Names and attributes never change: the kernel keeps them so long, s.
const FOR_EVER: u64 = 1 << 30;

/// What the kernel asks for.
#[derive(Debug, PartialEq)]
pub(super) enum Ask<'a> {
    /// Number of a name in a directory.
    Lookup(&'a OsStr),
    Attributes,
    SetAttributes,
    Open,
    OpenDirectory,
    Read {
        handle: u64,
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    /// `close` of one of the file's handles.
    Close,
    Release {
        handle: u64,
    },
    Sync,
    Allocate {
        offset: u64,
        bytes: u64,
        mode: i32,
    },
    ReadDirectory {
        from: u64,
        bytes: u32,
    },
    Room,
    /// Nothing that is answered.
    Forget,
    /// The end.
    Destroy,
    /// What this file system does not have, or what is no message of FUSE.
    Unknown,
}

/// A request.
#[derive(Debug, PartialEq)]
pub(super) struct Request<'a> {
    /// Its number, which the answer carries.
    pub unique: u64,
    /// The file or directory.
    pub node: u64,
    /// What is asked.
    pub ask: Ask<'a>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Request<'a> {
    /// None where not even the head is whole.
    pub fn parse(bytes: &'a [u8]) -> Option<Request<'a>> {
        let (opcode, unique, node) = (word(bytes, 4)?, long(bytes, 8)?, long(bytes, 16)?);
        let body = bytes.get(HEAD..)?;
        Some(Request { unique, node, ask: Ask::parse(opcode, body).unwrap_or(Ask::Unknown) })
    }
}

impl<'a> Ask<'a> {
    fn parse(opcode: u32, body: &'a [u8]) -> Option<Ask<'a>> {
        Some(match opcode {
            1 => Ask::Lookup(OsStr::from_bytes(body.split(|&byte| byte == 0).next()?)),
            2 | 42 => Ask::Forget,
            3 => Ask::Attributes,
            4 => Ask::SetAttributes,
            14 => Ask::Open,
            15 => Ask::Read { handle: long(body, 0)?, offset: long(body, 8)?, bytes: word(body, 16)? },
            16 => {
                let bytes = word(body, 16)? as usize;
                Ask::Write { offset: long(body, 8)?, data: body.get(READ_BODY..)?.get(..bytes)? }
            }
            17 => Ask::Room,
            18 => Ask::Release { handle: long(body, 0)? },
            20 => Ask::Sync,
            25 | 29 => Ask::Close,
            27 => Ask::OpenDirectory,
            28 => Ask::ReadDirectory { from: long(body, 8)?, bytes: word(body, 16)? },
            38 => Ask::Destroy,
            43 => Ask::Allocate {
                offset: long(body, 8)?,
                bytes: long(body, 16)?,
                mode: word(body, 24)?.cast_signed(),
            },
            _ => return None,
        })
    }
}

/// An answer's head.
pub(super) fn head(unique: u64, error: i32, body: usize) -> [u8; ANSWER_HEAD] {
    let mut head = [0; ANSWER_HEAD];
    head[..4].copy_from_slice(&((ANSWER_HEAD + body) as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&(-error).to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// A message that is put together field by field.
#[derive(Default)]
pub(super) struct Body(pub Vec<u8>);

impl Body {
    fn words(mut self, words: &[u32]) -> Body {
        words.iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
        self
    }

    fn longs(mut self, longs: &[u64]) -> Body {
        longs.iter().for_each(|long| self.0.extend(long.to_ne_bytes()));
        self
    }

    fn node(self, node: &Node) -> Body {
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let kind = if node.directory { libc::S_IFDIR | 0o700 } else { libc::S_IFREG | 0o600 };
        // Number, size, blocks; three times of nothing; mode, links, user, group, device, block
        // size, flags.
        self.longs(&[node.number, node.bytes, node.bytes / 512, 0, 0, 0])
            .words(&[0, 0, 0])
            .words(&[kind, 1, user.0, user.1, 0, 4096, 0])
    }

    /// To a lookup.
    pub fn entry(node: &Node) -> Body {
        // Number, generation, how long the name and the attributes hold.
        Body::default().longs(&[node.number, 0, FOR_EVER, FOR_EVER]).words(&[0, 0]).node(node)
    }

    /// To a question for attributes.
    pub fn attributes(node: &Node) -> Body {
        Body::default().longs(&[FOR_EVER]).words(&[0, 0]).node(node)
    }

    /// To the opening of a file.
    pub fn opened(handle: u64, directory: bool) -> Body {
        Body::default().longs(&[handle]).words(&[if directory { 0 } else { DIRECT }, 0])
    }

    /// To a write.
    pub fn written(bytes: u32) -> Body {
        Body::default().words(&[bytes, 0])
    }

    /// To `statfs`: of nothing there is anything.
    pub fn room() -> Body {
        Body::default().longs(&[0; 5]).words(&[512, NAME_MOST, 512, 0]).words(&[0; 6])
    }

    /// To the reading of a directory: the names from the `from`th on, as many as fit.
    pub fn names(names: &[(&Node, &str)], from: u64, bytes: u32) -> Body {
        let mut body = Body::default();
        for (next, (node, name)) in (1u64..).zip(names).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            let kind = if node.directory { libc::DT_DIR } else { libc::DT_REG };
            let length = (24 + name.len()).next_multiple_of(8);
            if body.0.len() + length > bytes as usize {
                break;
            }
            let end = body.0.len() + length;
            body = body.longs(&[node.number, next]).words(&[name.len() as u32, u32::from(kind)]);
            body.0.extend(name.as_bytes());
            body.0.resize(end, 0);
        }
        body
    }
}

/// A file or directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Its number.
    pub number: u64,
    /// Its length.
    pub bytes: u64,
    /// What it is.
    pub directory: bool,
}

/// What a read of /dev/fuse gave.
pub(super) enum ReadResult {
    /// So many bytes of a request.
    Request(usize),
    /// There is none just now.
    Nothing,
    /// The file system is not mounted any more.
    End,
}

/// Takes a request, if there is one; the descriptor does not block.
pub(super) fn receive(fuse: impl std::os::fd::AsFd, buffer: &mut [u8]) -> io::Result<ReadResult> {
    use rustix::io::Errno;
    match rustix::io::read(fuse, buffer) {
        Ok(bytes) => Ok(ReadResult::Request(bytes)),
        // ENOENT: the request was taken back before it came.
        Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => Ok(ReadResult::Nothing),
        Err(Errno::NODEV) => Ok(ReadResult::End),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut all = Body::default()
            .words(&[(HEAD + body.len()) as u32, opcode])
            .longs(&[7, 2])
            .words(&[0, 0, 1, 0])
            .0;
        all.extend(body);
        all
    }

    #[test]
    fn requests_are_what_the_kernel_writes() {
        let read = Body::default().longs(&[5, 8192]).words(&[4096, 0]).longs(&[0]).words(&[0, 0]).0;
        let asked =
            |opcode, body: &[u8]| format!("{:?}", Request::parse(&request(opcode, body)).unwrap().ask);
        assert_eq!(asked(15, &read), "Read { handle: 5, offset: 8192, bytes: 4096 }");
        assert_eq!(asked(1, b"disk\0"), "Lookup(\"disk\")");
        let mut write = Body::default().longs(&[5, 512]).words(&[3, 0]).longs(&[0]).words(&[0, 0]).0;
        write.extend(b"abc");
        assert_eq!(asked(16, &write), "Write { offset: 512, data: [97, 98, 99] }");
        assert_eq!(asked(16, &write[..write.len() - 1]), "Unknown", "less than it says");
        assert_eq!(asked(4, &[0; 88]), "SetAttributes");
        assert_eq!(asked(5, &[]), "Unknown", "there are no links");
        let allocate = Body::default().longs(&[5, 4096, 8192]).words(&[3, 0]).0;
        assert_eq!(asked(43, &allocate), "Allocate { offset: 4096, bytes: 8192, mode: 3 }");
        assert_eq!(Request::parse(&request(20, &[])).unwrap().unique, 7);
    }

    #[test]
    fn answers_are_as_long_as_the_kernel_expects_them() {
        let node = Node { number: 2, bytes: 1 << 20, directory: false };
        let sizes = [Body::entry(&node), Body::attributes(&node), Body::opened(1, false), Body::room()];
        assert_eq!(sizes.map(|body| body.0.len()), [128, 104, 16, 80]);
        assert_eq!(Body::written(4096).0.len(), 8);
        assert_eq!(head(9, libc::EIO, 0), *b"\x10\0\0\0\xfb\xff\xff\xff\x09\0\0\0\0\0\0\0");
        let names = [(&node, "disk"), (&node, "statistics")];
        assert_eq!(Body::names(&names, 0, 4096).0.len(), 32 + 40);
        assert_eq!(Body::names(&names, 0, 64).0.len(), 32, "the second does not fit");
        assert_eq!(Body::names(&names, 1, 4096).0.len(), 40);
        assert_eq!(Body::names(&names, 2, 4096).0.len(), 0);
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..200), opcode in 0u32..50) {
            let _ = Request::parse(&bytes);
            let _ = Request::parse(&request(opcode, &bytes));
        }
    }
}
