//! Amounts written with a unit: `"64 KiB"`, `"10 MB"`, `"5 s"`.

/// What kind of amount a parameter's unit is, and how many base units (bytes, nanoseconds) one of
/// it has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Base {
    Bytes(u128),
    Nanoseconds(u128),
}

/// Units of sizes (SI and IEC: MB is 10⁶ bytes, MiB is 2²⁰) and of times.
const UNITS: [(&str, Base); 17] = [
    ("B", Base::Bytes(1)),
    ("kB", Base::Bytes(1_000)),
    ("KB", Base::Bytes(1_000)),
    ("MB", Base::Bytes(1_000_000)),
    ("GB", Base::Bytes(1_000_000_000)),
    ("TB", Base::Bytes(1_000_000_000_000)),
    ("KiB", Base::Bytes(1 << 10)),
    ("MiB", Base::Bytes(1 << 20)),
    ("GiB", Base::Bytes(1 << 30)),
    ("TiB", Base::Bytes(1 << 40)),
    ("ns", Base::Nanoseconds(1)),
    ("us", Base::Nanoseconds(1_000)),
    ("µs", Base::Nanoseconds(1_000)),
    ("ms", Base::Nanoseconds(1_000_000)),
    ("s", Base::Nanoseconds(1_000_000_000)),
    ("min", Base::Nanoseconds(60_000_000_000)),
    ("h", Base::Nanoseconds(3_600_000_000_000)),
];

fn base_of(unit: &str) -> Option<Base> {
    let unit = if unit == "bytes" { "B" } else { unit };
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, base)| *base)
}

/// Turns a text like `"64 KiB"` into a whole number of a parameter's own `unit` (`bytes`, `MiB`,
/// `ms` …). None where the parameter's unit is no size or time, so that text must mean something
/// else.
///
/// # Errors
/// What is wrong and what would be right.
pub(super) fn convert(text: &str, unit: &str) -> Option<Result<i64, (String, String)>> {
    let target = base_of(unit)?;
    let (kind, examples) = match target {
        Base::Bytes(_) => ("a size", "B, kB, MB, GB, KiB, MiB or GiB, as in \"64 KiB\""),
        Base::Nanoseconds(_) => ("a time", "ns, us, ms, s, min or h, as in \"5 s\""),
    };
    let wrong = || {
        (
            format!("\"{text}\" is not {kind}"),
            format!("write a number of {unit}, or a number with {examples}"),
        )
    };
    let text = text.trim();
    let split = text
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != '_')
        .unwrap_or(text.len());
    let (number, given) = text.split_at(split);
    let given = given.trim();
    let base = if given.is_empty() { Some(target) } else { base_of(given) };
    let amount = number.replace('_', "").parse::<f64>().ok().filter(|number| number.is_finite());
    let (scale, own) = match (base, target) {
        (Some(Base::Bytes(scale)), Base::Bytes(own))
        | (Some(Base::Nanoseconds(scale)), Base::Nanoseconds(own)) => (scale, own),
        _ => return Some(Err(wrong())),
    };
    let Some(amount) = amount else { return Some(Err(wrong())) };
    let value = amount * scale as f64 / own as f64;
    // What a decimal fraction cannot express must not decide: 4.1 · 10⁶ is 4099999.9999999995.
    let whole = value.round();
    let is_whole = (value - whole).abs() <= 4.0 * f64::EPSILON * value.abs();
    // 2^53: beyond it a double no longer holds every whole number.
    if !is_whole || value.abs() > 9_007_199_254_740_992.0 {
        let message = format!("\"{text}\" is not a whole number of {unit}");
        return Some(Err((message, format!("it would be {value:.3} {unit}"))));
    }
    Some(Ok(whole as i64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(convert("64KiB", "bytes"), Some(Ok(65_536)));
        assert_eq!(convert("10 MB", "bytes"), Some(Ok(10_000_000)));
        assert_eq!(convert("1_000", "bytes"), Some(Ok(1_000)));
        assert_eq!(convert("2 GiB", "MiB"), Some(Ok(2048)));
        assert_eq!(convert("1.5 s", "ms"), Some(Ok(1500)));
        // "4.1 MB" was "not a whole number of bytes: it would be 4100000.000 bytes".
        assert_eq!(convert("4.1 MB", "bytes"), Some(Ok(4_100_000)));
        assert_eq!(convert("1.001 s", "ms"), Some(Ok(1001)));
        assert_eq!(convert("0.067 s", "ms"), Some(Ok(67)));
        assert!(convert("1.0000000001 s", "ns").unwrap().is_err());
        assert_eq!(convert("delete", ""), None);
        assert!(convert("10 parsecs", "bytes").unwrap().is_err());
        assert!(convert("10 s", "bytes").unwrap().is_err());
        assert!(convert("10 mb", "bytes").unwrap().is_err());
        assert!(convert("100 kB", "MiB").unwrap().unwrap_err().0.contains("not a whole number of MiB"));
        assert!(convert("", "bytes").unwrap().is_err());
        assert!(convert("1.2.3 kB", "bytes").unwrap().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", unit in prop::sample::select(vec!["bytes", "MiB", "ms", "rows"])) {
            let _ = convert(&text, unit);
        }

        #[test]
        fn a_number_with_the_parameters_own_unit_is_itself(number in 0..1_000_000_000_i64) {
            prop_assert_eq!(convert(&format!("{number} MiB"), "MiB"), Some(Ok(number)));
            prop_assert_eq!(convert(&format!("{number}ms"), "ms"), Some(Ok(number)));
        }
    }
}
