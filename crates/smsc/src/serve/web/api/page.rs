//! The API's description and its page.

use super::super::server::{Answer, Request};
use hyper::Method;

/// OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// A file of the page, or the description; none if the path is another.
pub(super) fn answer(request: &Request) -> Option<Answer> {
    let file = match request.path.as_str() {
        "/" => Answer::of("text/html; charset=utf-8", include_str!("page.html")),
        "/page.css" => Answer::of(
            "text/css; charset=utf-8",
            concat!(include_str!("../base.css"), include_str!("page.css")),
        ),
        "/page.js" => Answer::of("text/javascript; charset=utf-8", include_str!("page.js")),
        "/openapi.json" => Answer::of("application/json", OPENAPI),
        _ => return None,
    };
    Some(if request.method == Method::GET { file } else { Answer::not_allowed("GET") })
}
