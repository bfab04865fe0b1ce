//! Applications: each has one connection, which stays, and one request under way. Latency is from
//! the request to its answer, at full load.

use crate::Failure;
use crate::centre::Request;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What was measured.
pub struct Figures {
    /// Messages that were acknowledged, those before the time began included.
    pub accepted: u64,
    /// In a second of the time.
    pub per_s: f64,
    /// Latencies in ms: median, 99th percentile, longest.
    pub ms: [f64; 3],
}

/// Time before the time, in which everything gets warm.
const WARM: Duration = Duration::from_secs(1);
/// What an answer may take; a centre that hangs is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs so many clients for so long.
pub fn run(request: Request, clients: usize, time: Duration) -> Result<Figures, Failure> {
    let (counts, ends, next) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let work = || -> Result<(u64, Vec<u32>), String> {
        let mut stream =
            TcpStream::connect(("127.0.0.1", request.port)).map_err(|error| error.to_string())?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .map_err(|e| e.to_string())?;
        let (mut accepted, mut latencies) = (0, Vec::new());
        while !ends.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            let octets = (request.of)(&format!("49{number:011}"));
            let (begin, is_counted) = (Instant::now(), counts.load(Relaxed));
            let answer = ask(&mut stream, &octets).map_err(|error| error.to_string())?;
            if !answer.starts_with(request.accepted) {
                return Err(format!("not accepted: {answer}"));
            }
            accepted += 1;
            if is_counted {
                latencies.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
        }
        Ok((accepted, latencies))
    };
    let mut measured = Duration::ZERO;
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(work)).collect();
        std::thread::sleep(WARM);
        counts.store(true, Relaxed);
        let begin = Instant::now();
        std::thread::sleep(time);
        ends.store(true, Relaxed);
        measured = begin.elapsed();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let (mut accepted, mut all) = (0, Vec::new());
    for client in done {
        let (count, latencies) = client.map_err(|_| "a client panicked")??;
        accepted += count;
        all.extend(latencies);
    }
    all.sort_unstable();
    let at = |part: f64| {
        let place = ((all.len() as f64 * part) as usize).min(all.len().saturating_sub(1));
        all.get(place).map_or(0.0, |&us| f64::from(us) / 1000.0)
    };
    let per_s = all.len() as f64 / measured.as_secs_f64();
    Ok(Figures { accepted, per_s, ms: [at(0.5), at(0.99), at(1.0)] })
}

/// Sends a request, and reads its answer whole.
pub fn ask(stream: &mut TcpStream, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut chunk)?;
        answer.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if length.is_some_and(|length| body.len() >= length) || read == 0 {
                return Ok(text.into_owned());
            }
        } else if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}
