//! SQLite: the bundled library, or any `libsqlite3.so` by its path, opened through the probe's VFS.

mod blobs;
mod busy;
mod calls;
mod confine;
mod connection;
mod extension;
mod library;
mod settings;
mod statement;
#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use connection::SqliteConnection;
use library::SqliteLibrary;
use settings::EffectiveSettings;

pub(super) use settings::SETTINGS;

use super::settings::{EngineKind, SettingError};
use super::{Connection, Dialect, Engine, EngineError, EngineInfo, shared_object};
use crate::params::Params;
use crate::spec::Durability;

/// SQLite as it is known by name.
pub(super) static KIND: EngineKind = EngineKind {
    name: "sqlite",
    title: "SQLite",
    summary: "SQLite in this process: the bundled release, or the libsqlite3.so at setting `library`",
    settings: SETTINGS,
    dialect: Dialect::Sqlite,
    is_embedded: true,
    needs: |_| None,
    capitals: &["journal_mode", "synchronous"],
    files,
    remarks: settings::remarks,
    start: |settings, directory| {
        let library = own_library(&settings).map(Path::to_owned);
        Ok(Box::new(SqliteEngine::start(&KIND, library.as_deref(), settings, directory)?))
    },
};

/// Looks at the library and the extension that settings name.
pub(super) fn files(settings: &Params) -> Result<(), SettingError> {
    let extension = settings.optional_text("extension").map(|path| ("extension", Path::new(path)));
    let named = own_library(settings).map(|path| ("library", path)).into_iter().chain(extension);
    // Of another machine, which looks at it itself when the run begins.
    let here = named.filter(|(_, path)| !path.as_os_str().as_encoded_bytes().starts_with(REMOTE.as_bytes()));
    here.into_iter().try_for_each(|(key, path)| shared_object::checked(key, path).map(drop))
}

/// What setting `library` calls the release that is built into this program.
pub(super) const BUNDLED: &str = "bundled";

/// What a library begins with that lies on the machine of `--on` already; the run names it without.
const REMOTE: &str = "remote:";

/// The library that the settings name; none for the bundled release.
fn own_library(settings: &Params) -> Option<&Path> {
    settings.optional_text("library").filter(|name| *name != BUNDLED).map(Path::new)
}

/// SQLite with its settings, working in one directory.
#[derive(Debug)]
pub(super) struct SqliteEngine {
    kind: &'static EngineKind,
    library: &'static SqliteLibrary,
    settings: Params,
    directory: PathBuf,
    /// Its files are opened through this one, which opens no others.
    vfs: &'static CStr,
    applied: EffectiveSettings,
}

impl SqliteEngine {
    /// Loads the library (none = the bundled one) and tries the settings on an empty database in
    /// `directory`, which is removed again.
    ///
    /// # Errors
    /// A library that cannot be used, a directory that cannot be written, a setting that does not
    /// take.
    pub fn start(
        kind: &'static EngineKind,
        library: Option<&Path>,
        settings: Params,
        directory: &Path,
    ) -> Result<Self, EngineError> {
        let library = match library {
            Some(path) => SqliteLibrary::at(path)?,
            None => SqliteLibrary::bundled()?,
        };
        let trial = file_of(directory, "fathom-settings")?;
        let vfs = library.vfs_of(directory)?;
        let opened = SqliteConnection::open(library, vfs, &trial, &settings)
            .and_then(|(connection, applied)| Box::new(connection).close().map(|()| applied));
        for suffix in ["", "-journal", "-wal", "-shm"] {
            let mut file = trial.clone().into_os_string();
            file.push(suffix);
            // Most of them do not exist; one that cannot be removed is on a directory that no run
            // can use either.
            let _ = std::fs::remove_file(file);
        }
        Ok(SqliteEngine { kind, library, settings, directory: directory.to_owned(), vfs, applied: opened? })
    }
}

/// The file of the database called `name`.
fn file_of(directory: &Path, name: &str) -> Result<PathBuf, EngineError> {
    if name.is_empty() || name.contains(['/', '\0']) {
        return Err(EngineError {
            subject: format!("database name {name:?}"),
            message: "must be a plain file name".into(),
            code: 0,
        });
    }
    Ok(directory.join(format!("{name}.db")))
}

impl Engine for SqliteEngine {
    fn connect(&self, name: &str) -> Result<Box<dyn Connection>, EngineError> {
        let file = file_of(&self.directory, name)?;
        let (connection, _) = SqliteConnection::open(self.library, self.vfs, &file, &self.settings)?;
        Ok(Box::new(connection))
    }

    fn info(&self) -> EngineInfo {
        let mut settings = self.applied.clone();
        settings.insert("sync_call".into(), self.library.sync_call().into());
        if let Some(path) = &self.library.path {
            settings.insert("library".into(), path.display().to_string());
        }
        if let Some(path) = self.settings.optional_text("extension") {
            settings.insert("extension".into(), path.to_owned());
        }
        EngineInfo {
            name: self.kind.name.into(),
            version: self.library.version(),
            build: self.library.build(),
            settings,
        }
    }

    fn dialect(&self) -> Dialect {
        self.kind.dialect
    }

    fn durability(&self) -> Durability {
        settings::durability(&self.settings, &self.library.version())
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn sets(&self, setting: &str) -> bool {
        self.settings.all().contains_key(setting)
    }

    /// SQLite caches per connection: closing it is all that is needed.
    fn forget_caches(&self) -> Result<(), EngineError> {
        Ok(())
    }
}
