//! What speaks HTTP: metrics, the API, the admin page. Each has a listener of its own.
//!
//! - `server`: connections, limits, one request and its answer.
//! - `auth`: who asks.
//! - `metrics`: `GET /metrics`, `GET /health`.
//! - `api`: send, query, cancel; `api/` has its description and page.
//! - `admin`: what an operator sees and does; `admin/` has the page.

mod admin;
mod api;
mod auth;
mod metrics;
mod server;

pub(super) use admin::Admin;
pub(super) use api::Api;
pub(super) use metrics::MetricsSite;
pub(super) use server::run;
