//! Reading one stream of a log that grows: frame after frame, as far as the caller knows them to be
//! durable. The bytes come from the file, which the page cache mostly has.

use crate::codec::u32_at;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::frame::{self, Frame, HEAD, Seed};
use crate::log::segment::{self, BLOCK};
use crate::medium::MediumFile;
use std::path::PathBuf;
use std::sync::Arc;

/// Read at a time, bytes, unless a frame is longer.
const WINDOW: usize = 64 << 10;

/// A segment that is being read.
struct Open {
    number: u64,
    path: PathBuf,
    file: Arc<dyn MediumFile>,
    seed: Seed,
    /// The last commit of its life that counts.
    cut: u64,
}

/// Where one stream is read.
pub(crate) struct StreamReader {
    stream: usize,
    open: Option<Open>,
    /// Where the next frame is looked for.
    at: u64,
    window: Vec<u8>,
    window_at: u64,
    /// The next frame, found and not taken yet.
    head: Option<Frame>,
}

impl StreamReader {
    pub(crate) fn new(stream: usize) -> StreamReader {
        StreamReader { stream, open: None, at: 0, window: Vec::new(), window_at: 0, head: None }
    }

    /// The body of the frame of commit `next`, if the next frame of this stream is that one.
    pub(crate) fn take(&mut self, log: &Log, next: u64) -> Result<Option<&[u8]>> {
        if self.head.is_none() {
            self.head = self.find(log, next)?;
        }
        match self.head {
            Some(frame) if frame.gsn == next => {
                self.head = None;
                self.at = self.window_at + (frame.at + frame.len) as u64;
                Ok(self.window.get(frame.body()))
            }
            // Who asks for a later one has had those before.
            Some(frame) if frame.gsn < next => {
                self.head = None;
                self.take(log, next)
            }
            _ => Ok(None),
        }
    }

    /// The first frame from commit `next` on, if it is written.
    fn find(&mut self, log: &Log, next: u64) -> Result<Option<Frame>> {
        let mut is_fresh = false;
        loop {
            if let Some(open) = &self.open {
                let (cut, number) = (open.cut, open.number);
                if let Some(found) = self.parse_next()? {
                    if (next..=cut).contains(&found.gsn) {
                        return Ok(Some(found));
                    }
                    self.at = self.window_at + (found.at + found.len) as u64;
                    continue;
                }
                // What was read may be older than what is written.
                if !std::mem::replace(&mut is_fresh, true) {
                    self.window.clear();
                    continue;
                }
                if log.streams[self.stream].segment_of(next) == Some(number) {
                    return Ok(None);
                }
            }
            let Some(number) = log.streams[self.stream].segment_of(next) else { return Ok(None) };
            if !self.enter(log, number)? {
                return Ok(None);
            }
            is_fresh = true;
        }
    }

    /// Begins with segment `number`. False if there is nothing of a known life in it.
    fn enter(&mut self, log: &Log, number: u64) -> Result<bool> {
        let stream = &log.streams[self.stream];
        let path = stream.dir().join(segment::name(number));
        self.open = None;
        let file = stream.medium().open_to_read(&path).map_err(Error::io("open", &path))?;
        let mut block = [0; BLOCK];
        let len = file.read_at(0, &mut block).map_err(Error::io("read", &path))?;
        let header = segment::read_header(&block[..len]);
        let life = header.filter(|h| h.number == number && h.stream as usize == self.stream);
        let life = life.and_then(|h| log.tails.lives.iter().find(|life| life.number == h.epoch));
        let Some(life) = life else { return Ok(false) };
        let seed = Seed::new(life.salt, self.stream as u32, number);
        self.open = Some(Open { number, path, file, seed, cut: life.cut });
        self.at = BLOCK as u64;
        self.window.clear();
        Ok(true)
    }

    /// The frame at this place, or, where that is the end of a flush, at the next block.
    fn parse_next(&mut self) -> Result<Option<Frame>> {
        if let Some(found) = self.parse(self.at)? {
            return Ok(Some(found));
        }
        let block = self.at.next_multiple_of(BLOCK as u64);
        if block == self.at { Ok(None) } else { self.parse(block) }
    }

    /// The frame at `offset` of the segment, its place told in the window.
    fn parse(&mut self, offset: u64) -> Result<Option<Frame>> {
        let Some(seed) = self.open.as_ref().map(|open| open.seed) else { return Ok(None) };
        let Some(at) = self.have(offset, HEAD)? else { return Ok(None) };
        if frame::head(&self.window[at..], offset, seed).is_none() {
            return Ok(None);
        }
        let len = HEAD + u32_at(&self.window, at + 4) as usize;
        let Some(at) = self.have(offset, len)? else { return Ok(None) };
        Ok(frame::parse_from(&self.window, at, offset, seed))
    }

    /// Where in the window these bytes of the segment are; they are read if they are not.
    fn have(&mut self, offset: u64, len: usize) -> Result<Option<usize>> {
        let end = offset + len as u64;
        if offset < self.window_at || end > self.window_at + self.window.len() as u64 {
            let Some(open) = &self.open else { return Ok(None) };
            self.window.resize(len.max(WINDOW), 0);
            let got = open.file.read_at(offset, &mut self.window).map_err(Error::io("read", &open.path))?;
            self.window.truncate(got);
            self.window_at = offset;
            if got < len {
                return Ok(None);
            }
        }
        Ok(Some((offset - self.window_at) as usize))
    }
}
