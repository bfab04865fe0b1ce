//! CSV as RFC 4180 has it; a spreadsheet takes no field for a formula.

use std::io::{self, Write};

/// Writes one line of CSV.
pub fn line(fields: &[String], out: &mut dyn Write) -> io::Result<()> {
    let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    write!(out, "{}\r\n", quoted.join(","))
}

fn quote(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    let text = if formula { format!("'{field}") } else { field.to_string() };
    if text.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_formulas_defused() {
        assert_eq!(quote("a,b\"c"), "\"a,b\"\"c\"");
        assert_eq!(quote("=1+1"), "'=1+1");
        assert_eq!(quote("-3.5"), "-3.5");
        assert_eq!(quote("plain"), "plain");
    }
}
