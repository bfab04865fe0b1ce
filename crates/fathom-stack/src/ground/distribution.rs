//! Which distribution this is, and the command that installs a package on it.

use std::fs;

use fathom_ground::system::is_root;

/// What a command begins with where nobody knows how the system is called that brings packages.
pub const SOME_PACKAGES: &str = "install with your package manager";

/// A package by its names with the package managers: apt, dnf, pacman, apk, zypper. Empty where it
/// has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package([&'static str; 5]);

impl Package {
    /// By its names with apt, dnf, pacman, apk and zypper.
    pub const fn of(names: [&'static str; 5]) -> Package {
        Package(names)
    }
}

macro_rules! packages {
    ($( $name:ident $apt:literal $dnf:literal $pacman:literal $apk:literal $zypper:literal; )*) => {
        impl Package { $( pub const $name: Package = Package([$apt, $dnf, $pacman, $apk, $zypper]); )* }
    };
}

packages! {
    NONE "" "" "" "" "";
    POSTGRESQL "postgresql" "postgresql-server" "postgresql" "postgresql" "postgresql-server";
    REDIS "redis-server" "redis" "redis" "redis" "redis7";
    CHROMIUM "chromium" "chromium" "chromium" "chromium" "chromium";
    C_COMPILER "gcc libc6-dev" "gcc glibc-devel" "gcc" "gcc musl-dev" "gcc glibc-devel";
    FUSE "fuse3" "fuse3" "fuse3" "fuse3" "fuse3";
    MAKE "make" "make" "make" "make" "make";
    FLEX "flex" "flex" "flex" "flex" "flex";
    BISON "bison" "bison" "bison" "bison" "bison";
    BC "bc" "bc" "bc" "bc" "bc";
    PERL "perl" "perl" "perl" "perl" "perl";
    TAR "tar" "tar" "tar" "tar" "tar";
    XZ "xz-utils" "xz" "xz" "xz" "xz";
    SQLCIPHER "libsqlcipher0" "sqlcipher" "sqlcipher" "sqlcipher-libs" "sqlcipher";
    SQLITE "sqlite3" "sqlite" "sqlite" "sqlite" "sqlite3";
}

/// How packages are installed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    manager: Option<Manager>,
    id: String,
    root: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
    Pacman,
    Apk,
    Zypper,
}

impl Distribution {
    /// The running one, from os-release.
    pub fn here() -> Distribution {
        let text =
            fs::read_to_string("/etc/os-release").or_else(|_| fs::read_to_string("/usr/lib/os-release"));
        Distribution::of(&text.unwrap_or_default(), is_root())
    }

    /// From the text of os-release(5); without root, commands begin with sudo.
    pub fn of(os_release: &str, root: bool) -> Distribution {
        let value = |key: &str| {
            let line = os_release.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
        };
        let id = value("ID");
        let like = value("ID_LIKE");
        let manager = std::iter::once(id.as_str()).chain(like.split_whitespace()).find_map(|id| {
            Some(match id {
                "debian" | "ubuntu" => Manager::Apt,
                "fedora" | "rhel" | "centos" => Manager::Dnf,
                "arch" => Manager::Pacman,
                "alpine" => Manager::Apk,
                "suse" | "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" | "sles" => Manager::Zypper,
                _ => return None,
            })
        });
        Distribution { manager, id, root }
    }

    /// The package's name here; its Debian name on a distribution that is not known; empty when
    /// there is none.
    pub fn package(&self, package: Package) -> &'static str {
        package.0[self.manager.map_or(0, |m| m as usize)]
    }

    /// The command that installs the packages; empty when there is nothing to install.
    pub fn install(&self, packages: &[String]) -> String {
        let named: Vec<&str> = packages.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        if named.is_empty() {
            return String::new();
        }
        format!("{} {}", self.command(), named.join(" "))
    }

    /// What stands before the packages in [`Distribution::install`].
    pub fn command(&self) -> String {
        let command = match self.manager {
            Some(Manager::Apt) => "apt-get install",
            Some(Manager::Dnf) => "dnf install",
            Some(Manager::Pacman) => "pacman -S",
            Some(Manager::Apk) => "apk add",
            Some(Manager::Zypper) => "zypper install",
            None => return format!("{SOME_PACKAGES} (names as in Debian):"),
        };
        format!("{}{command}", if self.root { "" } else { "sudo " })
    }

    /// As [`Distribution::install`] of one package.
    pub fn brings(&self, package: Package) -> String {
        self.install(&[self.package(package).to_owned()])
    }

    /// Ubuntu keeps seldom used drivers in a package beside each kernel.
    pub fn has_extra_modules(&self) -> bool {
        self.id == "ubuntu"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BTRFS_PROGS: Package =
        Package::of(["btrfs-progs", "btrfs-progs", "btrfs-progs", "btrfs-progs", "btrfsprogs"]);
    const EXFAT_FUSE: Package = Package::of(["exfat-fuse", "fuse-exfat", "exfat-utils", "", "fuse-exfat"]);

    #[test]
    fn each_distribution_gets_its_own_command() {
        let cases = [
            ("ID=debian\n", true, "apt-get install btrfs-progs"),
            (
                "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
                false,
                "sudo apt-get install btrfs-progs",
            ),
            ("ID=fedora\n", true, "dnf install btrfs-progs"),
            ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", true, "zypper install btrfsprogs"),
            ("ID=arch\n", true, "pacman -S btrfs-progs"),
            ("ID=alpine\n", true, "apk add btrfs-progs"),
            ("", true, "install with your package manager (names as in Debian): btrfs-progs"),
        ];
        for (text, root, expected) in cases {
            assert_eq!(Distribution::of(text, root).brings(BTRFS_PROGS), expected, "{text}");
        }
        assert_eq!(Distribution::of("ID=alpine\n", true).brings(EXFAT_FUSE), "", "it has none there");
    }
}
