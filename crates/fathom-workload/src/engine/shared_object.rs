//! Shared objects that settings name, looked at before anything loads them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::SettingError;

/// The machine of ELF's header for this program's own processor (`e_machine`, elf(5)); none where
/// it is not known here.
const MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else if cfg!(target_arch = "arm") {
    Some(40)
} else if cfg!(target_arch = "riscv64") {
    Some(243)
} else {
    None
};

/// `ET_DYN`: shared objects, and programs that may lie anywhere.
const SHARED: u16 = 3;

/// The path, if a shared object for this processor lies there. Whether it is the library that is
/// meant is seen when it is loaded, by the run.
///
/// # Errors
/// Of the setting `key`: what lies there instead.
pub(super) fn checked(key: &str, path: &Path) -> Result<PathBuf, SettingError> {
    let refused = |problem: String| SettingError {
        key: key.into(),
        problem: format!("{}: {problem}", path.display()),
        suggestion: None,
    };
    // Asked before it is opened: the other end of a pipe would be waited for.
    let kind = path.metadata().map_err(|error| refused(error.to_string()))?;
    if !kind.is_file() {
        return Err(refused("it is no file, and so no shared library".into()));
    }
    let mut header = [0; 20];
    let file = File::open(path).map_err(|error| refused(error.to_string()))?;
    let read = file.take(20).read(&mut header).map_err(|error| refused(error.to_string()))?;
    let number = |at: usize| match header[5] {
        2 => u16::from_be_bytes([header[at], header[at + 1]]),
        _ => u16::from_le_bytes([header[at], header[at + 1]]),
    };
    if read < header.len() || header[..4] != *b"\x7fELF" || number(16) != SHARED {
        return Err(refused("it is no shared library".into()));
    }
    match MACHINE {
        Some(own) if number(18) != own => {
            Err(refused(format!("it is for another processor (ELF machine {}, here {own})", number(18))))
        }
        _ => Ok(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_for_this_machine_is_told_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.so");
        let told = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            checked("library", &path).map(drop).map_err(|error| error.to_string())
        };
        let mut header = [0_u8; 64];
        header[..4].copy_from_slice(b"\x7fELF");
        header[5] = 1;
        header[16] = 3;
        assert!(told(b"not a library").unwrap_err().contains("x.so: it is no shared library"));
        assert!(told(b"").unwrap_err().contains("no shared library"));
        if let Some(own) = MACHINE {
            assert!(told(&header).unwrap_err().contains("another processor"));
            header[18..20].copy_from_slice(&own.to_le_bytes());
        }
        assert_eq!(told(&header), Ok(()));
        header[16] = 2;
        assert!(told(&header).unwrap_err().contains("no shared library"), "a program");
        let error = checked("library", directory.path()).unwrap_err().to_string();
        assert!(error.contains("it is no file"), "{error}");
        let error = checked("library", Path::new("/none/such.so")).unwrap_err().to_string();
        assert!(error.contains("/none/such.so") && error.contains("No such file"), "{error}");
    }
}
