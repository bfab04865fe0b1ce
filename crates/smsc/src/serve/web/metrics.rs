//! `GET /metrics` for Prometheus and `GET /health` for whoever restarts what is ill.

use super::super::front::Front;
use super::super::gauges;
use super::server::{Answer, Request, Site};
use hyper::{Method, StatusCode};
use std::sync::Arc;

/// The site.
pub(in crate::serve) struct MetricsSite(pub Arc<Front>);

impl Site for MetricsSite {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        match (request.path.as_str(), request.method) {
            ("/metrics", Method::GET) => {
                let text = self.0.metrics.text(&self.0.bound()) + &gauges::text(&self.0);
                Answer::of("text/plain; version=0.0.4; charset=utf-8", text)
            }
            ("/health", Method::GET) => match self.0.trouble() {
                None => Answer::of("text/plain; charset=utf-8", "serving\n"),
                Some(why) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            },
            ("/metrics" | "/health", _) => Answer::not_allowed("GET"),
            _ => Answer::not_found("there are /metrics and /health"),
        }
    }
}
