//! Metrics for Prometheus: `GET /metrics`, nothing else.

use super::front::Front;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Octets of a request at most.
const REQUEST_MAX: usize = 8 << 10;
/// How long a request may take to come and to be answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers until the server ends.
pub(super) async fn run(front: Arc<Front>, listener: TcpListener) {
    while !front.has_ended() {
        match listener.accept().await {
            Ok((stream, _)) => {
                let front = Arc::clone(&front);
                tokio::spawn(async move {
                    // Who asks too slowly, or goes, gets nothing.
                    let _ = tokio::time::timeout(PATIENCE, answer(&front, stream)).await;
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn answer(front: &Front, mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let (status, body) = match request.split(|&octet| octet == b'\r').next() {
        Some(line) if line.starts_with(b"GET /metrics ") => ("200 OK", front.metrics.text(&front.bound())),
        Some(line) if line.starts_with(b"GET ") => ("404 Not Found", "there is /metrics\n".into()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".into()),
    };
    let length = body.len();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
