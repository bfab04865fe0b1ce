//! Values as the columns of JSON have them.

/// JSON of a value whose maps have string keys and which holds no NaN: this cannot fail.
pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

/// The inside of a JSON string without escapes (a word).
pub(super) fn unquote(text: &str) -> String {
    text.trim_matches('"').to_owned()
}
