//! Reads an experiment file.

use super::diagnostic::{Problem, Source, Span};
use super::node::{Entry, Node, Value, document, unknown_key};
use super::{
    Axis, AxisFilter, Exclusion, Experiment, Figure, FigureKind, Headline, Metric, Point, Quick, Setting,
    VARIANTS_AXIS, spelled_label,
};
use fathom_diagnostic::Diagnostic;
use fathom_diagnostic::suggest::{did_you_mean_hint, nearest};
use serde_json::Value as Json;

const TOP: [&str; 16] = [
    "name",
    "title",
    "paper",
    "question",
    "repeats",
    "seed",
    "timeout_s",
    "workload",
    "engine",
    "stack",
    "instruments",
    "matrix",
    "exclude",
    "quick",
    "headline",
    "figure",
];

/// The sections of a dotted path.
pub(super) const SECTIONS: [&str; 4] = ["workload", "engine", "stack", "instruments"];

/// Runs of each cell that a file or `--repeat` may ask for.
pub const REPEATS_MAX: u32 = 10_000;

/// A run that takes longer than this has failed, unless the file says otherwise.
const DEFAULT_TIMEOUT_S: u64 = 4 * 3600;

impl Experiment {
    /// Reads an experiment file; `source_name` is what errors call it (`mine.toml`, `built-in`).
    ///
    /// Names of parameters and settings, and their values, are checked when cells are made of it
    /// ([`Experiment::cells`]).
    ///
    /// # Errors
    /// What is not TOML, an unknown key, a wrong type, a figure or headline that names what is not
    /// in the matrix.
    pub fn parse(source_name: &str, source: &str) -> Result<Experiment, Diagnostic> {
        let sources = vec![Source { name: source_name.to_owned(), text: source.to_owned(), numbered: true }];
        read(source_name, source, &sources).map_err(|problem| problem.locate(&sources))
    }
}

/// What may be called so, in an error.
const NAME_HINT: &str = "use letters, digits, - and _";

/// Whether a text may be the name of an experiment or the id of a figure. Both become parts of
/// paths, so they have none of a path's own: letters and digits of ASCII, `-`, `_` and `.`, with a
/// letter, digit or `_` first, 100 at most.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let all = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    all && text.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
        && text.len() <= 100
}

fn read(source_name: &str, text: &str, sources: &[Source]) -> Result<Experiment, Problem> {
    let top = document(text, 0)?;
    for entry in &top {
        if !TOP.contains(&entry.key.as_str()) {
            // A key of another section written at the top is the likeliest slip.
            return Err(unknown_key(entry, "an experiment file", &TOP));
        }
    }
    let get = |key: &str| top.iter().find(|entry| entry.key == key);
    let end = Span { source: 0, range: 0..text.lines().next().map_or(0, str::len) };
    let missing = |key: &str, hint: &str| Problem::new(&end, format!("`{key}` is missing"), hint);

    let name_entry =
        get("name").ok_or_else(|| missing("name", "add a line such as: name = \"my-experiment\""))?;
    let name = name_entry.node.text("name")?;
    if !is_name(&name) {
        return Err(Problem::new(
            &name_entry.node.span,
            format!("\"{name}\" cannot be a name: it also names a directory"),
            NAME_HINT,
        ));
    }
    let optional_text = |key: &str| get(key).map(|entry| entry.node.text(key)).transpose();
    let mut base = Vec::new();
    for section in SECTIONS {
        if let Some(entry) = get(section) {
            for inner in entry.node.table(section)? {
                base.push(Setting {
                    path: format!("{section}.{}", inner.key),
                    key_span: inner.key_span.clone(),
                    node: inner.node.clone(),
                });
            }
        }
    }
    if get("workload").is_none() {
        return Err(missing("workload", "add a table: [workload] with name = \"update\", for example"));
    }
    let axes = match get("matrix") {
        Some(entry) => read_matrix(entry)?,
        None => Vec::new(),
    };
    let reader = AxisReader { axes: &axes };
    let exclude = match get("exclude") {
        Some(entry) => entry
            .node
            .tables("exclude")?
            .into_iter()
            .map(|(span, entries)| {
                let values = reader.filter(entries)?.into_iter().collect::<Vec<_>>();
                if values.is_empty() {
                    return Err(Problem::new(
                        span,
                        "this `[[exclude]]` names no axis",
                        "it would leave out every cell",
                    ));
                }
                Ok(Exclusion { span: span.clone(), values })
            })
            .collect::<Result<_, Problem>>()?,
        None => Vec::new(),
    };
    let quick = match get("quick") {
        Some(entry) => read_quick(entry)?,
        None => Quick::default(),
    };
    let each_of = |key: &str| get(key).map_or(Ok(Vec::new()), |entry| entry.node.tables(key));
    let headlines = each_of("headline")?
        .into_iter()
        .map(|(span, entries)| reader.headline(span, entries))
        .collect::<Result<Vec<_>, _>>()?;
    let figures = each_of("figure")?
        .into_iter()
        .map(|(span, entries)| reader.figure(span, entries))
        .collect::<Result<Vec<Figure>, _>>()?;
    for (place, figure) in figures.iter().enumerate() {
        if figures[..place].iter().any(|other| other.id == figure.id) {
            let entry = get("figure").ok_or_else(|| missing("figure", ""))?;
            let (span, entries) = entry.node.tables("figure")?.swap_remove(place);
            let at = entries.iter().find(|entry| entry.key == "id").map_or(span, |entry| &entry.node.span);
            return Err(Problem::new(at, format!("there are two figures called \"{}\"", figure.id), ""));
        }
    }
    Ok(Experiment {
        title: optional_text("title")?.unwrap_or_else(|| name.clone()),
        name,
        paper: optional_text("paper")?,
        question: optional_text("question")?,
        repeats: get("repeats").map_or(Ok(5), |entry| repeats(&entry.node))?,
        seed: get("seed")
            .map(|entry| entry.node.whole("seed", 0, i64::MAX).map(i64::cast_unsigned))
            .transpose()?,
        timeout_s: get("timeout_s").map_or(Ok(DEFAULT_TIMEOUT_S), |entry| {
            entry.node.whole("timeout_s", 1, 30 * 86_400).map(i64::cast_unsigned)
        })?,
        axes,
        headlines,
        figures,
        source_name: source_name.to_owned(),
        source: text.to_owned(),
        base,
        exclude,
        quick,
        sources: sources.to_vec(),
    })
}

fn repeats(node: &Node) -> Result<u32, Problem> {
    node.whole("repeats", 1, i64::from(REPEATS_MAX)).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// Checks that a path has the form `section.name`.
pub(super) fn check_path(key: &str, span: &Span) -> Result<(), Problem> {
    let (section, name) = key.split_once('.').unwrap_or((key, ""));
    if SECTIONS.contains(&section) && !name.is_empty() && !name.contains('.') {
        return Ok(());
    }
    let hint = match nearest(section, SECTIONS) {
        Some(near) if near != section => format!("did you mean `{near}.{name}`?"),
        _ => "write \"workload.NAME\", \"engine.NAME\", \"stack.NAME\" or \"instruments.NAME\", in quotes"
            .into(),
    };
    Err(Problem::new(span, format!("`{key}` is no parameter's path"), hint))
}

/// Lines of a table as settings, whether written `"engine.journal_mode" = …` or
/// `engine.journal_mode = …`.
fn settings(entries: &[Entry]) -> Result<Vec<Setting>, Problem> {
    let mut found: Vec<Setting> = Vec::new();
    let mut add = |path: String, key_span: &Span, node: &Node| {
        check_path(&path, key_span)?;
        if found.iter().any(|setting| setting.path == path) {
            return Err(Problem::new(key_span, format!("`{path}` is set twice"), ""));
        }
        found.push(Setting { path, key_span: key_span.clone(), node: node.clone() });
        Ok(())
    };
    for entry in entries {
        match &entry.node.value {
            Value::Table(inner) if SECTIONS.contains(&entry.key.as_str()) => {
                for setting in inner {
                    add(format!("{}.{}", entry.key, setting.key), &setting.key_span, &setting.node)?;
                }
            }
            _ => add(entry.key.clone(), &entry.key_span, &entry.node)?,
        }
    }
    Ok(found)
}

fn read_quick(entry: &Entry) -> Result<Quick, Problem> {
    let entries = entry.node.table("quick")?;
    let mut quick = Quick::default();
    let (mut others, mut variants) = (Vec::new(), None);
    for entry in entries {
        if entry.key == "repeats" {
            quick.repeats = Some(repeats(&entry.node)?);
        } else if entry.key == "variants" {
            // Chosen as by --set; which there are is known where the cells are made.
            let (key_span, node) = (entry.key_span.clone(), entry.node.clone());
            variants = Some(Setting { path: "variants".into(), key_span, node });
        } else if !entry.key.contains('.') && !SECTIONS.contains(&entry.key.as_str()) {
            return Err(Problem::new(
                &entry.key_span,
                format!("unknown key `{}` in [quick]", entry.key),
                match nearest(&entry.key, ["repeats", "variants"]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "known here: repeats, variants, and paths such as \"workload.rows\"".into(),
                },
            ));
        } else {
            others.push(entry.clone());
        }
    }
    // First, for what else is set is of those that are left.
    quick.settings = variants.into_iter().chain(settings(&others)?).collect();
    Ok(quick)
}

/// What a value is called on an axis, in labels, figures and headlines.
pub(super) fn label_of(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        Json::Array(items) if items.is_empty() => "none".into(),
        Json::Array(items) => items.iter().map(label_of).collect::<Vec<_>>().join("+"),
        other => other.to_string(),
    }
}

/// The values of one axis.
pub(super) fn points(path: &str, key_span: &Span, node: &Node) -> Result<Vec<Point>, Problem> {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        other => {
            let hint = match other {
                // What is described in words cannot be written.
                Value::Table(_) | Value::Moment(_) => {
                    "write its values in brackets, such as [1, 2]; settings that belong together are a \
                     [[matrix.variants]]"
                        .to_owned()
                }
                _ => format!("write [{}], or move it out of the matrix", node.describe()),
            };
            let problem = format!("the axis `{path}` is a list of values, not {}", node.describe());
            return Err(Problem::new(&node.span, problem, hint));
        }
    };
    if items.is_empty() {
        return Err(Problem::new(
            &node.span,
            format!("the axis `{path}` has no values"),
            "it would leave no cells",
        ));
    }
    let mut points: Vec<Point> = Vec::new();
    for item in items {
        let mut label = label_of(&item.json()?);
        if label.is_empty() {
            "defaults".clone_into(&mut label);
        }
        if points.iter().any(|point| point.label == label) {
            return Err(Problem::new(&item.span, format!("{} is listed twice", item.describe()), ""));
        }
        let setting = Setting { path: path.to_owned(), key_span: key_span.clone(), node: item.clone() };
        points.push(Point { label, span: item.span.clone(), settings: vec![setting], optional: false });
    }
    Ok(points)
}

fn read_matrix(entry: &Entry) -> Result<Vec<Axis>, Problem> {
    let entries = entry.node.table("matrix")?;
    let mut axes = Vec::new();
    let mut plain = Vec::new();
    for entry in entries {
        if entry.key == "variants" {
            axes.push(read_variants(entry)?);
        } else {
            plain.push(entry.clone());
            for setting in settings(std::slice::from_ref(entry))? {
                axes.push(Axis {
                    points: points(&setting.path, &setting.key_span, &setting.node)?,
                    span: setting.key_span.clone(),
                    name: setting.path,
                });
            }
        }
    }
    settings(&plain)?;
    // The tables of an array come last in a file, but the reader thinks of a cell as "ext4 wal":
    // order as written.
    let mut product: usize = 1;
    for axis in &axes {
        product = product.saturating_mul(axis.points.len());
        let twice = axes.iter().find(|other| other.name != axis.name && other.sets(&axis.name));
        if let Some(other) = twice {
            return Err(Problem::new(
                &axis.span,
                format!("`{}` is an axis and is also set by the {}", axis.name, other.name),
                "leave one of them out",
            ));
        }
    }
    if product > 10_000 {
        return Err(Problem::new(
            &entry.key_span,
            format!("the matrix has {product} cells"),
            "10,000 is the most",
        ));
    }
    Ok(axes)
}

fn read_variants(entry: &Entry) -> Result<Axis, Problem> {
    let mut points: Vec<Point> = Vec::new();
    for (span, entries) in entry.node.tables("matrix.variants")? {
        let Some(name) = entries.iter().find(|entry| entry.key == "name") else {
            return Err(Problem::new(
                span,
                "this variant has no name",
                "add a line such as: name = \"wal/full\"",
            ));
        };
        let label = name.node.text("name")?;
        if points.iter().any(|point| point.label == label) {
            return Err(Problem::new(
                &name.node.span,
                format!("there are two variants called \"{label}\""),
                "",
            ));
        }
        let optional = match entries.iter().find(|entry| entry.key == "optional") {
            Some(entry) => entry.node.boolean("optional")?,
            None => false,
        };
        let is_setting = |entry: &&Entry| entry.key != "name" && entry.key != "optional";
        let others: Vec<Entry> = entries.iter().filter(is_setting).cloned().collect();
        points.push(Point { label, span: span.clone(), settings: settings(&others)?, optional });
    }
    if let Some(first) = points.first().filter(|_| points.iter().all(|point| point.optional)) {
        return Err(Problem::new(
            &first.span,
            "every variant is optional",
            "without a --set it would leave no cells",
        ));
    }
    if points.is_empty() {
        return Err(Problem::new(
            &entry.node.span,
            "there are no variants in the list",
            "it would leave no cells",
        ));
    }
    Ok(Axis { name: "variants".into(), points, span: entry.key_span.clone() })
}

/// Reads what names axes and their values.
struct AxisReader<'a> {
    axes: &'a [Axis],
}

impl AxisReader<'_> {
    fn axis(&self, name: &str, span: &Span) -> Result<&Axis, Problem> {
        self.axes.iter().find(|axis| axis.name == name).ok_or_else(|| {
            let names = || self.axes.iter().map(|axis| axis.name.as_str());
            let hint = match nearest(name, names()) {
                Some(near) => did_you_mean_hint(Some(near)),
                None if self.axes.is_empty() => "there is no [matrix]".into(),
                None => format!("the matrix has: {}", names().collect::<Vec<_>>().join(", ")),
            };
            Problem::new(span, format!("\"{name}\" is no axis of the matrix"), hint)
        })
    }

    fn optional_axis(&self, entry: Option<&Entry>) -> Result<Option<String>, Problem> {
        let Some(entry) = entry else { return Ok(None) };
        let name = entry.node.text(&entry.key)?;
        self.axis(&name, &entry.node.span)?;
        Ok(Some(name))
    }

    /// The value of the axis that a label names, as the axis writes it: `4KiB` is its 4096, `WAL`
    /// its `wal`, and a variant is known in whichever case, as `--set` knows it.
    fn value(axis: &Axis, label: &str, span: &Span) -> Result<String, Problem> {
        let spelled = spelled_label(&axis.name, label);
        let is_same = |own: &&str| match axis.name.as_str() {
            VARIANTS_AXIS => own.eq_ignore_ascii_case(label),
            name => spelled_label(name, own) == spelled,
        };
        let exact = axis.values().find(|own| *own == label);
        if let Some(own) = exact.or_else(|| axis.values().find(is_same)) {
            return Ok(own.to_owned());
        }
        let hint = match nearest(label, axis.values()) {
            Some(near) => did_you_mean_hint(Some(near)),
            None => format!("it has: {}", axis.values().collect::<Vec<_>>().join(", ")),
        };
        Err(Problem::new(span, format!("\"{label}\" is no value of the axis `{}`", axis.name), hint))
    }

    /// `{ "stack.filesystem" = "ext4", variants = ["a", "b"] }`.
    fn filter(&self, entries: &[Entry]) -> Result<AxisFilter, Problem> {
        let mut found = AxisFilter::new();
        let mut add = |name: &str, span: &Span, node: &Node| -> Result<(), Problem> {
            let axis = self.axis(name, span)?;
            let mut labels = Vec::new();
            for item in node.items() {
                labels.push(Self::value(axis, &label_of(&item.json()?), &item.span)?);
            }
            found.insert(name.to_owned(), labels);
            Ok(())
        };
        for entry in entries {
            match &entry.node.value {
                Value::Table(inner) => {
                    for setting in inner {
                        add(&format!("{}.{}", entry.key, setting.key), &setting.key_span, &setting.node)?;
                    }
                }
                _ => add(&entry.key, &entry.key_span, &entry.node)?,
            }
        }
        Ok(found)
    }

    fn headline(&self, span: &Span, entries: &[Entry]) -> Result<Headline, Problem> {
        const KNOWN: [&str; 9] =
            ["phase", "against_phase", "x", "metric", "axis", "baseline", "against", "each", "where"];
        let get = lines(entries, "[[headline]]", &KNOWN)?;
        let need = |key: &str, why: &str| {
            get(key).ok_or_else(|| Problem::new(span, format!("this `[[headline]]` has no `{key}`"), why))
        };
        let phase = need("phase", "it says which phase is compared")?.node.text("phase")?;
        let against_phase = get("against_phase").map(|entry| entry.node.text("against_phase")).transpose()?;
        let axis = self.optional_axis(get("axis"))?;
        let mut against = Vec::new();
        let baseline = match (&axis, &against_phase) {
            (Some(name), None) => {
                let axis = self.axis(name, span)?;
                let baseline = need("baseline", "it says what the others are compared with")?;
                let label = Self::value(axis, &label_of(&baseline.node.json()?), &baseline.node.span)?;
                for item in get("against").map_or(&[] as &[Node], |entry| entry.node.items()) {
                    let other = Self::value(axis, &label_of(&item.json()?), &item.span)?;
                    if other == label {
                        return Err(Problem::new(
                            &item.span,
                            format!("\"{label}\" is compared with itself"),
                            "",
                        ));
                    }
                    against.push(other);
                }
                Some(label)
            }
            (None, Some(_)) => {
                if let Some(entry) = get("baseline").or_else(|| get("against")) {
                    return Err(Problem::new(
                        &entry.key_span,
                        format!("`{}` needs an `axis`", entry.key),
                        "`against_phase` compares two phases of one cell",
                    ));
                }
                None
            }
            (Some(_), Some(_)) => {
                return Err(Problem::new(
                    span,
                    "this `[[headline]]` has both `axis` and `against_phase`",
                    "leave one out",
                ));
            }
            (None, None) => {
                return Err(Problem::new(
                    span,
                    "this `[[headline]]` says nothing to compare",
                    "add `axis` and `baseline`, or `against_phase`",
                ));
            }
        };
        Ok(Headline {
            phase,
            against_phase,
            x: get("x").map(|entry| entry.node.number("x")).transpose()?,
            metric: metric(get("metric"), &["rate", "time", "bytes"])?,
            axis,
            baseline,
            against,
            each: self.optional_axis(get("each"))?,
            filter: get("where")
                .map_or(Ok(AxisFilter::new()), |entry| self.filter(entry.node.table("where")?))?,
        })
    }

    fn figure(&self, span: &Span, entries: &[Entry]) -> Result<Figure, Problem> {
        const KNOWN: [&str; 10] =
            ["id", "kind", "title", "see", "phases", "metric", "by", "facet", "where", "log"];
        let get = lines(entries, "[[figure]]", &KNOWN)?;
        let need = |key: &str, why: &str| {
            get(key).ok_or_else(|| Problem::new(span, format!("this `[[figure]]` has no `{key}`"), why))
        };
        let id_entry = need("id", "commands and links call it by that")?;
        let id = id_entry.node.text("id")?;
        if !is_name(&id) {
            return Err(Problem::new(
                &id_entry.node.span,
                format!("\"{id}\" cannot be an id: it also names a file"),
                NAME_HINT,
            ));
        }
        let kind = match need("kind", "one of bars, series, split, range, ecdf")?
            .node
            .word("kind", &["bars", "series", "split", "range", "ecdf"])?
        {
            "bars" => FigureKind::Bars,
            "series" => FigureKind::Series,
            "split" => FigureKind::Split,
            "ecdf" => FigureKind::Ecdf,
            _ => FigureKind::Range,
        };
        let phases_entry = need("phases", "a list of the phases to show")?;
        let phases: Vec<String> =
            phases_entry.node.texts("phases")?.into_iter().map(|(phase, _)| phase).collect();
        if phases.is_empty() {
            return Err(Problem::new(&phases_entry.node.span, "the figure shows no phase", ""));
        }
        Ok(Figure {
            title: get("title").map_or(Ok(id.clone()), |entry| entry.node.text("title"))?,
            id,
            kind,
            see: get("see").map_or(Ok(String::new()), |entry| entry.node.text("see"))?,
            phases,
            metric: match (get("metric"), kind) {
                // A series, a split and a curve show times unless the file says otherwise.
                (_, FigureKind::Ecdf) => Metric::Time,
                (None, FigureKind::Series | FigureKind::Split | FigureKind::Range) => Metric::Time,
                (given, _) => metric(given, &["rate", "time"])?,
            },
            by: self.optional_axis(get("by"))?,
            facet: self.optional_axis(get("facet"))?,
            filter: get("where")
                .map_or(Ok(AxisFilter::new()), |entry| self.filter(entry.node.table("where")?))?,
            log: get("log").map(|entry| entry.node.boolean("log")).transpose()?,
        })
    }
}

fn metric(entry: Option<&Entry>, words: &[&str]) -> Result<Metric, Problem> {
    let Some(entry) = entry else { return Ok(Metric::Rate) };
    Ok(match entry.node.word("metric", words)? {
        "rate" => Metric::Rate,
        "bytes" => Metric::Bytes,
        _ => Metric::Time,
    })
}

/// Checks the keys of a table and gives a reader by key.
fn lines<'a>(
    entries: &'a [Entry],
    place: &str,
    known: &[&str],
) -> Result<impl Fn(&str) -> Option<&'a Entry>, Problem> {
    if let Some(entry) = entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
        return Err(unknown_key(entry, place, known));
    }
    Ok(move |key: &str| entries.iter().find(|entry| entry.key == key))
}
