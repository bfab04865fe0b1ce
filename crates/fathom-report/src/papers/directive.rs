//! Directives of the page: what stands between double braces.

use std::collections::BTreeMap;

/// `{{name argument … key=value …}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    /// What is to be printed.
    pub name: String,
    /// What it is about.
    pub arguments: Vec<String>,
    /// How.
    pub options: BTreeMap<String, String>,
}

impl Directive {
    /// Reads what stands between the braces. Words are a shell's: quotes hold spaces together.
    pub fn parse(text: &str) -> Result<Directive, String> {
        let words = shlex::split(text).ok_or_else(|| format!("{text:?}: a quote is not closed"))?;
        let mut words = words.into_iter();
        let name = words.next().ok_or("empty braces")?;
        let mut arguments = Vec::new();
        let mut options = BTreeMap::new();
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => {
                    if options.insert(key.to_owned(), value.to_owned()).is_some() {
                        return Err(format!("{key}= stands twice"));
                    }
                }
                None => arguments.push(word),
            }
        }
        Ok(Directive { name, arguments, options })
    }

    /// Its only argument.
    pub fn argument(&self) -> Result<&str, String> {
        match &self.arguments[..] {
            [one] => Ok(one),
            several => Err(format!("{} takes one name, not {}", self.name, several.len())),
        }
    }

    /// An option that must be there.
    pub fn wanted(&self, key: &str) -> Result<&str, String> {
        self.options.get(key).map(String::as_str).ok_or_else(|| format!("{} needs {key}=…", self.name))
    }

    /// Refuses options that it does not know.
    pub fn knows(&self, keys: &[&str]) -> Result<(), String> {
        match self.options.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(unknown) => Err(format!("{} knows no {unknown}=; it knows: {}", self.name, keys.join(", "))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_options() {
        let directive = Directive::parse("ratio cards phase=insert 'where=device:a b'").unwrap();
        assert_eq!((directive.name.as_str(), directive.argument().unwrap()), ("ratio", "cards"));
        assert_eq!(directive.wanted("where").unwrap(), "device:a b");
        assert!(directive.wanted("of").unwrap_err().contains("needs of="));
        assert!(directive.knows(&["phase"]).unwrap_err().contains("knows no where="));
        assert!(Directive::parse("a b=1 b=2").unwrap_err().contains("twice"));
        assert!(Directive::parse("a 'b").unwrap_err().contains("quote"));
        assert!(Directive::parse(" ").is_err());
    }
}
