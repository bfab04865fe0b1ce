//! A published table of counts (CSV), of which the page prints single numbers and whole tables:
//! what no results hold, such as what another program wrote or how often it synced.

use std::path::Path;

use super::directive::Directive;
use super::select::Choice;

/// A CSV without quotes, as the scripts of the repository write them.
pub(super) struct Sheet {
    name: String,
    head: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl Sheet {
    /// Reads one.
    pub fn read(name: &str, directory: &Path) -> Result<Sheet, String> {
        let text = std::fs::read_to_string(directory.join(name));
        let text = text.map_err(|error| format!("{name}: {error}"))?;
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let head = lines.next().unwrap_or_default();
        let lines: Vec<Vec<String>> = lines.collect();
        match lines.iter().position(|line| line.len() != head.len()) {
            Some(at) => Err(format!("{name}: line {} has not as many columns as the first", at + 2)),
            None => Ok(Sheet { name: name.to_owned(), head, lines }),
        }
    }

    fn column(&self, name: &str) -> Result<usize, String> {
        let at = self.head.iter().position(|known| known == name);
        at.ok_or_else(|| format!("{}: no column {name:?}; there are: {}", self.name, self.head.join(", ")))
    }

    /// The lines that a choice takes; one that takes none is refused.
    fn chosen(&self, choice: &Choice) -> Result<Vec<&Vec<String>>, String> {
        let wanted = choice.0.iter().map(|(name, value)| Ok((self.column(name)?, value.as_str())));
        let wanted: Vec<(usize, &str)> = wanted.collect::<Result<_, String>>()?;
        let takes = |line: &&Vec<String>| wanted.iter().all(|(at, value)| line[*at] == *value);
        let lines: Vec<&Vec<String>> = self.lines.iter().filter(takes).collect();
        match lines.is_empty() {
            true => Err(format!("{}: {choice} chooses no line", self.name)),
            false => Ok(lines),
        }
    }

    /// The numbers of a column in the lines that a choice takes.
    pub fn numbers(&self, choice: &Choice, column: &str) -> Result<Vec<f64>, String> {
        let at = self.column(column)?;
        let number = |line: &Vec<String>| {
            let field = &line[at];
            field.parse().map_err(|_| format!("{}: {column}: {field:?} is no number", self.name))
        };
        self.chosen(choice)?.into_iter().map(number).collect()
    }

    /// What a directive asks for: with `column=` a number, with `rows=` and `values=` a table.
    pub fn print(&self, directive: &Directive) -> Result<String, String> {
        directive.knows(&["where", "column", "show", "rows", "columns", "values", "heads"])?;
        let option = |key: &str| directive.options.get(key).map(String::as_str);
        let at = Choice::parse(option("where").unwrap_or(""))?;
        match (option("column"), option("rows")) {
            (Some(column), None) => self.value(&at, column, option("show")),
            (None, Some(rows)) => {
                let list = |key: &str| option(key).map(|names| names.split(',').collect::<Vec<_>>());
                let values = list("values").ok_or("a table of counts needs values=COLUMN,COLUMN")?;
                let rows: Vec<&str> = rows.split(',').collect();
                self.table(&at, &rows, option("columns"), &values, option("heads"))
            }
            _ => Err("counted takes column=, or rows= and values=".to_owned()),
        }
    }

    /// A column's value as it stands there; of several the smallest and the largest.
    fn value(&self, at: &Choice, column: &str, show: Option<&str>) -> Result<String, String> {
        let place = self.column(column)?;
        let numbers = self.numbers(at, column)?;
        let mut fields: Vec<(f64, &str)> = numbers
            .into_iter()
            .zip(self.chosen(at)?)
            .map(|(number, line)| (number, line[place].as_str()))
            .collect();
        fields.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (Some((_, least)), Some((_, most))) = (fields.first(), fields.last()) else {
            return Err(format!("{}: {at} chooses no line", self.name));
        };
        match show {
            None if least == most => Ok(grouped(least)),
            None => Ok(format!("{} to {}", grouped(least), grouped(most))),
            Some("least") => Ok(grouped(least)),
            Some("most") => Ok(grouped(most)),
            Some(other) => Err(format!("show={other}: of counts there are least and most")),
        }
    }

    /// A row for each combination of values of some columns, and a column for each of the values
    /// that are shown, in each of the cells of another column where one is named.
    fn table(
        &self,
        at: &Choice,
        rows: &[&str],
        columns: Option<&str>,
        values: &[&str],
        heads: Option<&str>,
    ) -> Result<String, String> {
        let names = |line: &Vec<String>, columns: &[&str]| -> Result<Vec<(String, String)>, String> {
            columns.iter().map(|name| Ok(((*name).to_owned(), line[self.column(name)?].clone()))).collect()
        };
        let distinct = |columns: &[&str]| -> Result<Vec<Vec<(String, String)>>, String> {
            let mut found = Vec::new();
            for line in self.chosen(at)? {
                let pairs = names(line, columns)?;
                if !found.contains(&pairs) {
                    found.push(pairs);
                }
            }
            Ok(found)
        };
        let across = match columns {
            Some(column) => distinct(&[column])?,
            None => vec![Vec::new()],
        };
        let mut head: Vec<String> = rows.iter().map(|name| (*name).to_owned()).collect();
        for cell in &across {
            let named = |value: &&str| match (cell.first(), values.len()) {
                (Some((_, cell)), 1) => cell.clone(),
                (Some((_, cell)), _) => format!("{cell}: {value}"),
                (None, _) => (*value).to_owned(),
            };
            head.extend(values.iter().map(named));
        }
        if let Some(heads) = heads {
            let named: Vec<String> = heads.split('|').map(|name| name.trim().to_owned()).collect();
            if named.len() != head.len() {
                return Err(format!(
                    "heads= names {} columns of {}: {}",
                    named.len(),
                    head.len(),
                    head.join("|")
                ));
            }
            head = named;
        }
        let mut table = format!("| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
        for row in distinct(rows)? {
            let mut cells: Vec<String> = row.iter().map(|(_, value)| grouped(value)).collect();
            for cell in &across {
                let choice = at.and(&Choice(row.iter().chain(cell).cloned().collect()));
                let shown = values.iter().map(|value| self.value(&choice, value, None));
                cells.extend(shown.collect::<Result<Vec<_>, _>>()?);
            }
            table += &format!("\n| {} |", cells.join(" | "));
        }
        Ok(table)
    }
}

/// A whole number with its digits in groups of three; anything else as it stands.
fn grouped(field: &str) -> String {
    let is_long = field.len() > 3 && field.bytes().all(|byte| byte.is_ascii_digit());
    if !is_long {
        return field.to_owned();
    }
    let mut grouped = String::new();
    for (index, digit) in field.chars().enumerate() {
        if index > 0 && (field.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(asked: &str) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let text = "round,fs,op,kib,calls\n1,ext2,insert,40,4\n2,ext2,insert,41,4\n1,ntfs,insert,60,3\n\
                    2,ntfs,insert,9,3\n1,ext2,update,35383,4\n1,ntfs,update,7,x\n";
        std::fs::write(directory.path().join("a.csv"), text).unwrap();
        let directive = Directive::parse(&format!("counted a.csv {asked}")).unwrap();
        Sheet::read("a.csv", directory.path())?.print(&directive)
    }

    #[test]
    fn a_number_is_that_of_its_lines_and_column() {
        assert_eq!(print("where=fs:ext2,op:insert column=kib").unwrap(), "40 to 41");
        assert_eq!(print("where=fs:ext2,op:insert column=calls").unwrap(), "4");
        // By size, and not by letters.
        assert_eq!(print("where=fs:ntfs,op:insert column=kib show=least").unwrap(), "9");
        assert_eq!(print("where=fs:ntfs,op:insert column=kib show=most").unwrap(), "60");
        assert_eq!(print("where=op:update,fs:ext2 column=kib").unwrap(), "35,383");
        assert!(print("where=fs:xfs column=kib").unwrap_err().contains("chooses no line"));
        assert!(
            print("where=fs:ext2 column=mib").unwrap_err().contains("no column \"mib\"; there are: round")
        );
        assert!(print("where=op:update column=calls").unwrap_err().contains("\"x\" is no number"));
        assert!(print("column=kib rows=fs").unwrap_err().contains("column=, or rows="));
        assert!(print("column=kib show=mean").unwrap_err().contains("least and most"));
    }

    #[test]
    fn a_table_has_a_row_for_each_combination() {
        let table = print("rows=fs values=kib,calls where=op:insert heads=fs|KiB|syncs").unwrap();
        assert_eq!(
            table,
            "| fs | KiB | syncs |\n|---|---|---|\n| ext2 | 40 to 41 | 4 |\n| ntfs | 9 to 60 | 3 |"
        );
        let table = print("rows=op columns=fs values=kib where=round:1").unwrap();
        assert!(
            table.starts_with("| op | ext2 | ntfs |") && table.ends_with("| update | 35,383 | 7 |"),
            "{table}"
        );
        assert!(print("rows=fs values=kib heads=a").unwrap_err().contains("names 1 columns of 2"));
        assert!(print("rows=fs").unwrap_err().contains("needs values="));
    }
}
