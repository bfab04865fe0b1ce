//! Media of tests that change some calls of another medium and hand on the rest.

/// What hardly any of them changes, handed on to the medium in this field.
macro_rules! hand_on {
    ($field:tt) => {
        fn create_dir(&self, path: &std::path::Path) -> std::io::Result<()> {
            self.$field.create_dir(path)
        }
        fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
            self.$field.rename(from, to)
        }
        fn remove(&self, path: &std::path::Path) -> std::io::Result<()> {
            self.$field.remove(path)
        }
        fn list(&self, dir: &std::path::Path) -> std::io::Result<Vec<String>> {
            self.$field.list(dir)
        }
        fn lock(&self, path: &std::path::Path) -> std::io::Result<Box<dyn Send + Sync>> {
            self.$field.lock(path)
        }
    };
}
pub(crate) use hand_on;
