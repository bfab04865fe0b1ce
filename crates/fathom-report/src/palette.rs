//! One colour for one thing, in every figure, table and export, in light and in dark.
//!
//! The parts of a split: everything that is I/O is blue (read, write, and darkest the fsync, which
//! is also the accent of the page), everything else is neutral. The values of an axis (journal
//! modes, file systems …) take eight hues that are no blue. Both sets were chosen by computing
//! CIE76 distances under simulated protanopia, deuteranopia and tritanopia (Machado, Oliveira and
//! Fernandes 2009, severity 1.0); the tests recompute them. Colour never stands alone: bars keep
//! the order of their legend, lines differ in symbol and dash, and each figure has its table.

/// A colour on light and on dark ground, as `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// On white paper.
    pub light: &'static str,
    /// On a dark page.
    pub dark: &'static str,
}

/// Names of the parts of a split in the order in which they are stacked and told.
pub const PARTS: [&str; 5] = ["CPU", "read", "write", "fsync", "other"];

/// Index of fsync in [`PARTS`].
pub const FSYNC: usize = 3;

/// Colours of [`PARTS`].
pub const PART_COLOURS: [Colour; 5] = [
    Colour { light: "#4a5260", dark: "#9aa3af" },
    Colour { light: "#b3d4ee", dark: "#cfe6f8" },
    Colour { light: "#5a9fd6", dark: "#2f6ea3" },
    Colour { light: "#0b5a9c", dark: "#58aef0" },
    Colour { light: "#d8d0c0", dark: "#5d564c" },
];

/// Colours of an axis' values.
pub const VALUE_COLOURS: [Colour; 8] = [
    Colour { light: "#7a1f4b", dark: "#e0559a" },
    Colour { light: "#12a07f", dark: "#7fe0c8" },
    Colour { light: "#c57f12", dark: "#d39a45" },
    Colour { light: "#8250df", dark: "#9d6bf0" },
    Colour { light: "#4e632c", dark: "#dfe07a" },
    Colour { light: "#d0705e", dark: "#f5a898" },
    Colour { light: "#30363d", dark: "#8b949e" },
    Colour { light: "#8a7b66", dark: "#a08a6c" },
];

/// How bars of one colour are told apart: filled, hollow, with stripes across, with stripes along.
/// The page, its style sheet and the static drawings each draw these four.
pub const PATTERNS: usize = 4;

/// How lines are told apart besides their colour: dashes as SVG takes them, `""` for a solid line.
pub const DASHES: [&str; 6] = ["", "7 3", "2 3", "9 3 2 3", "14 4", "5 2 1 2 1 2"];

/// What a power cut keeps, from every commit to nothing: greens while commits are kept, warm
/// colours where some go or all may, violet where any crash may take the database. Bars of these
/// stand under headings that say it in words.
pub const PROMISE_COLOURS: [Colour; 5] = [
    Colour { light: "#123f36", dark: "#3fae92" },
    Colour { light: "#2f9e82", dark: "#a8ead6" },
    Colour { light: "#b8860b", dark: "#d8b84a" },
    Colour { light: "#a83a24", dark: "#e8825c" },
    Colour { light: "#6a4fa3", dark: "#a878d8" },
];

/// Of a cell whose promise nobody knows.
pub const UNKNOWN_PROMISE: Colour = Colour { light: "#59616b", dark: "#a7afb9" };

/// Values whose colour is the same in every report.
const WELL_KNOWN: [&[&str]; 3] = [
    &["delete", "wal", "truncate", "persist", "memory", "off"],
    &["ext4", "btrfs", "xfs", "ntfs", "ext2", "dir", "f2fs"],
    &["full", "normal", "extra", "off"],
];

/// For the values of one axis, in the order of the plan, the index of each into [`VALUE_COLOURS`].
///
/// Values that every report knows keep their colour; the others take what is left, then start again
/// (a figure with more than eight lines needs facets, not more hues).
pub fn value_colours(values: &[String]) -> Vec<usize> {
    let fixed = |value: &String| {
        WELL_KNOWN
            .iter()
            .filter(|known| values.iter().all(|v| known.contains(&v.as_str())) || known[0] == "ext4")
            .find_map(|known| known.iter().position(|k| k == value))
    };
    let taken: Vec<usize> = values.iter().filter_map(fixed).collect();
    let mut free =
        (0..VALUE_COLOURS.len()).filter(|i| !taken.contains(i)).chain((0..VALUE_COLOURS.len()).cycle());
    values
        .iter()
        .map(|value| fixed(value).or_else(|| free.next()).unwrap_or(0) % VALUE_COLOURS.len())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rgb = [f64; 3];

    /// Linear RGB of `#rrggbb` (IEC 61966-2-1).
    fn linear(hex: &str) -> Rgb {
        [1, 3, 5].map(|i| {
            let c = f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn luminance(c: Rgb) -> f64 {
        0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]
    }

    /// WCAG 2 contrast ratio.
    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(linear(a)) + 0.05, luminance(linear(b)) + 0.05);
        if a > b { a / b } else { b / a }
    }

    /// Machado et al. 2009, table 1, severity 1.0; and unimpaired sight.
    const SIGHTS: [(&str, [Rgb; 3]); 4] = [
        ("all", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protan",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deutan",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritan",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    /// CIELAB (D65) of a linear RGB colour as seen with `sight`.
    fn lab(c: Rgb, sight: &[Rgb; 3]) -> Rgb {
        let c: Vec<f64> =
            sight.iter().map(|row| (0..3).map(|j| row[j] * c[j]).sum::<f64>().clamp(0.0, 1.0)).collect();
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.95047);
        let y = f(0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]);
        let z = f((0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.08883);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn least_distance(colours: &[&str]) -> f64 {
        let mut least = f64::INFINITY;
        for (_, sight) in &SIGHTS {
            for (i, a) in colours.iter().enumerate() {
                for b in &colours[i + 1..] {
                    let (a, b) = (lab(linear(a), sight), lab(linear(b), sight));
                    least = least.min((0..3).map(|k| (a[k] - b[k]).powi(2)).sum::<f64>().sqrt());
                }
            }
        }
        least
    }

    #[test]
    fn parts_differ_for_every_sight() {
        assert!(least_distance(&PART_COLOURS.map(|c| c.light)) > 19.0);
        assert!(least_distance(&PART_COLOURS.map(|c| c.dark)) > 19.0);
    }

    #[test]
    fn promises_differ_for_every_sight() {
        for colours in [PROMISE_COLOURS.map(|c| c.light), PROMISE_COLOURS.map(|c| c.dark)] {
            assert!(least_distance(&colours) > 15.0, "{}", least_distance(&colours));
        }
    }

    #[test]
    fn the_first_five_values_differ_for_every_sight_from_each_other_and_from_fsync() {
        let light: Vec<&str> = VALUE_COLOURS[..5].iter().map(|c| c.light).collect();
        let dark: Vec<&str> = VALUE_COLOURS[..5].iter().map(|c| c.dark).collect();
        assert!(least_distance(&light) > 18.0, "{}", least_distance(&light));
        assert!(least_distance(&dark) > 18.0, "{}", least_distance(&dark));
    }

    #[test]
    fn values_and_fsync_stand_out_from_the_ground() {
        let promises = PROMISE_COLOURS.iter().chain([&UNKNOWN_PROMISE]);
        for colour in VALUE_COLOURS.iter().chain([&PART_COLOURS[FSYNC]]).chain(promises) {
            assert!(contrast(colour.light, "#ffffff") >= 3.0, "{}", colour.light);
            assert!(contrast(colour.dark, "#1b1f24") >= 3.0, "{}", colour.dark);
        }
    }

    /// The colour that follows `name:` for the first time after `scope`.
    fn colour_in(source: &str, scope: &str, name: &str) -> String {
        let block = source.split(scope).nth(1).unwrap();
        block.split(&format!("{name}:")).nth(1).unwrap().trim_start_matches([' ', '\''])[..7].to_string()
    }

    #[test]
    fn fsync_stands_out_from_page_card_axis_and_grid() {
        let (css, js) = (include_str!("page/page.css"), include_str!("page/page.js"));
        let fsync = PART_COLOURS[FSYNC];
        for (fsync, scope, theme) in
            [(fsync.light, "/* light */", "light: {"), (fsync.dark, "/* dark */", "dark: {")]
        {
            for ground in ["--ground", "--surface"] {
                let ratio = contrast(fsync, &colour_in(css, scope, ground));
                assert!(ratio >= 4.5, "{theme} fsync on {ground}: {ratio:.2}");
            }
            for line in ["axis", "line"] {
                let ratio = contrast(fsync, &colour_in(js, theme, line));
                assert!(ratio >= 3.0, "{theme} fsync against {line}: {ratio:.2}");
            }
            // The charts lie on the card: the script's ground is the style sheet's.
            assert_eq!(colour_in(js, theme, "surface"), colour_in(css, scope, "--surface"));
        }
    }

    #[test]
    fn text_of_the_page_has_aa_contrast() {
        let css = include_str!("page/page.css");
        let value = |scope: &str, name: &str| colour_in(css, scope, name);
        for scope in ["/* light */", "/* dark */"] {
            for ground in ["--ground", "--surface"] {
                for ink in ["--ink", "--muted", "--accent"] {
                    let ratio = contrast(&value(scope, ink), &value(scope, ground));
                    assert!(ratio >= 4.5, "{scope} {ink} on {ground}: {ratio:.2}");
                }
            }
        }
    }

    #[test]
    fn known_values_keep_their_colour_and_no_two_of_seven_share_one() {
        let own = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let all = value_colours(&own(&["delete", "truncate", "persist", "wal"]));
        let two = value_colours(&own(&["delete", "wal"]));
        assert_eq!((all[0], all[3]), (two[0], two[1]));
        let mixed = value_colours(&own(&["a", "ext4", "b", "c", "xfs", "d", "e"]));
        let mut sorted = mixed.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 7, "{mixed:?}");
    }
}
