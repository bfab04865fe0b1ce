//! Programs of Debian, captured as they are: after a replay each of their databases holds what the
//! program's own does.
//!
//! A program that is not installed is skipped, and the line says which command brings it.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::path::Path;
use std::process::{Command, Stdio};

use place::{End, Place};

/// Whether a command ends well; else says what to install.
fn has(command: &[&str], packages: &str) -> bool {
    let there = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        println!(
            "SKIP: `{}` does not work here; apt-get install --no-install-recommends {packages}",
            command.join(" ")
        );
    }
    there
}

/// Captures `command` in a fresh directory with these files.
#[track_caller]
fn captured(files: &[(&str, &str)], command: &[&str]) -> (Place, End) {
    let place = Place::new();
    for (name, text) in files {
        place.write(name, text);
    }
    let home = place.path(".").display().to_string();
    let words = [&["trace", "capture", "--out", "app.trace", "--"], command].concat();
    let end = place.fathom_with(&words, &[("HOME", &home), ("LC_ALL", "C.UTF-8"), ("USER", "me")]);
    end.exits(0);
    (place, end)
}

/// Replays the trace. Each database of `same` (its name in the trace, and the file that holds what
/// the program left) must come to the same content.
#[track_caller]
fn comes_to_the_same(place: &Place, same: &[(&str, &str)]) -> End {
    let end = place.fathom(&["trace", "replay", "app.trace", "--dir", ".", "--set", "synchronous=off"]);
    end.exits(0);
    for (name, file) in same {
        let hash = fathom_trace::content::content_hash(&place.path(file)).unwrap();
        let line = end.stdout.lines().find(|line| line.contains(&format!("{name} holds ")));
        assert!(line.is_some_and(|line| line.contains(&hash)), "{name} is {hash}: {end}");
        println!("{name}: {hash}");
    }
    end
}

#[test]
fn php_with_its_class_its_blobs_and_pdo() {
    if !has(
        &["php", "-r", "exit(class_exists('SQLite3') && extension_loaded('pdo_sqlite') ? 0 : 1);"],
        "php-cli php-sqlite3",
    ) {
        return;
    }
    let program = "<?php
        $d = new SQLite3('php.db');
        $d->exec('CREATE TABLE t(a, b BLOB)');
        $s = $d->prepare('INSERT INTO t VALUES (?, zeroblob(100))');
        for ($i = 0; $i < 10; $i++) { $s->bindValue(1, $i); $s->execute(); $s->reset(); }
        $b = $d->openBlob('t', 'b', 3, 'main', SQLITE3_OPEN_READWRITE);
        fwrite($b, 'hello'); fseek($b, 50); fwrite($b, 'world'); fseek($b, 0); echo strlen(fread($b, 60)); fclose($b);
        $p = new PDO('sqlite:php.db');
        $p->beginTransaction(); $p->exec(\"INSERT INTO t VALUES (11, 'x')\"); $p->commit();
        echo $p->query('SELECT count(*) FROM t')->fetchColumn();";
    let (place, end) = captured(&[("app.php", program)], &["php", "app.php"]);
    assert_eq!(end.stdout, "6011");
    let end = comes_to_the_same(&place, &[("php.db", "php.db")]);
    assert!(end.stdout.contains("calls on incremental blobs"), "{end}");
}

#[test]
fn ruby() {
    if !has(&["ruby", "-rsqlite3", "-e", "1"], "ruby ruby-sqlite3") {
        return;
    }
    let program = "require 'sqlite3'
d = SQLite3::Database.new('ruby.db')
d.execute('CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)')
d.transaction { 100.times { |i| d.execute('INSERT INTO t(a, b) VALUES (?, ?)', [i, \"row #{i}\"]) } }
print d.get_first_value('SELECT count(*) FROM t'), d.table_info('t').length
d.execute_batch('CREATE INDEX i ON t(a); DELETE FROM t WHERE a % 3 = 0')
d.close";
    let (place, end) = captured(&[("app.rb", program)], &["ruby", "app.rb"]);
    assert_eq!(end.stdout, "1003");
    comes_to_the_same(&place, &[("ruby.db", "ruby.db")]);
}

/// DBD::SQLite brings a tokenizer by the address of its code on every connection (`SELECT
/// fts3_tokenizer(?, ?)`): the guard of a replay refused it at call 1.
#[test]
fn perl() {
    if !has(&["perl", "-MDBD::SQLite", "-e", "1"], "libdbd-sqlite3-perl") {
        return;
    }
    let program = "use DBI;
my $d = DBI->connect('dbi:SQLite:dbname=perl.db', '', '', {RaiseError => 1});
$d->do('CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b TEXT)');
$d->begin_work; my $s = $d->prepare('INSERT INTO t(a, b) VALUES (?, ?)'); $s->execute($_, \"row $_\") for 1..100; $d->commit;
print $d->selectrow_array('SELECT count(*) FROM t'), $d->sqlite_table_column_metadata(undef, 't', 'a')->{data_type};
$d->do('CREATE VIRTUAL TABLE f USING fts4(x)'); $d->do(\"INSERT INTO f VALUES ('hello world')\");
$d->do('DELETE FROM t WHERE a > 50');";
    let (place, end) = captured(&[("app.pl", program)], &["perl", "app.pl"]);
    assert_eq!(end.stdout, "100int");
    comes_to_the_same(&place, &[("perl.db", "perl.db")])
        .says("tokenizers that the application brought itself");
}

/// Debian's interpreter: another one may bring an SQLite of its own.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn python_with_threads() {
    if !has(&[PYTHON, "-c", "import sqlite3"], "python3") {
        return;
    }
    let program = "import sqlite3, threading
c = sqlite3.connect('python.db', isolation_level=None)
c.execute('PRAGMA journal_mode=WAL'); c.execute('CREATE TABLE t(thread, i)')
def work(n):
    own = sqlite3.connect('python.db', timeout=60)
    for i in range(20):
        with own: own.execute('INSERT INTO t VALUES (?, ?)', (n, i))
    own.close()
for n in range(4):
    t = threading.Thread(target=work, args=(n,)); t.start(); t.join()
print(c.execute('SELECT count(*) FROM t').fetchone()[0], end='')
c.close()";
    let (place, end) = captured(&[("app.py", program)], &[PYTHON, "app.py"]);
    assert_eq!(end.stdout, "80");
    comes_to_the_same(&place, &[("python.db", "python.db")]);
}

#[test]
fn apsw_with_blobs_and_metadata() {
    if !has(&[PYTHON, "-c", "import apsw"], "python3-apsw") {
        return;
    }
    let program = "import apsw
c = apsw.Connection('apsw.db')
c.cursor().execute('CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB); BEGIN')
for i in range(20): c.cursor().execute('INSERT INTO t VALUES (?, zeroblob(?))', (i, 100 + i))
c.cursor().execute('COMMIT')
b = c.blobopen('main', 't', 'b', 3, True)
b.write(b'hello'); b.seek(40); b.write(b'world'); b.reopen(7); b.write(b'seven'); b.seek(0); print(len(b.read()), end=''); b.close()
c.cursor().execute('CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES (1)')
c.close()";
    let (place, end) = captured(&[("app.py", program)], &[PYTHON, "app.py"]);
    assert_eq!(end.stdout, "107");
    comes_to_the_same(&place, &[("apsw.db", "apsw.db")]);
}

#[test]
fn qt() {
    let probe = "from PyQt5.QtCore import QCoreApplication
from PyQt5.QtSql import QSqlDatabase
app = QCoreApplication([])
raise SystemExit('QSQLITE' not in QSqlDatabase.drivers())";
    if !has(&[PYTHON, "-c", probe], "python3-pyqt5.qtsql libqt5sql5-sqlite") {
        return;
    }
    let program = "from PyQt5.QtCore import QCoreApplication
from PyQt5.QtSql import QSqlDatabase, QSqlQuery
app = QCoreApplication([])
d = QSqlDatabase.addDatabase('QSQLITE'); d.setDatabaseName('qt.db'); assert d.open()
q = QSqlQuery(); q.exec_('CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b REAL)')
d.transaction(); q.prepare('INSERT INTO t(a, b) VALUES (:a, :b)')
for i in range(100):
    q.bindValue(':a', f'größe {i}'); q.bindValue(':b', i / 3); assert q.exec_()
d.commit()
print(d.record('t').count(), d.tables(), end='')
q.exec_('UPDATE t SET b = b * 2 WHERE id > 50'); q.clear(); d.close()";
    let (place, end) = captured(&[("app.py", program)], &[PYTHON, "app.py"]);
    assert_eq!(end.stdout, "3 ['t']");
    comes_to_the_same(&place, &[("qt.db", "qt.db")]);
}

#[test]
fn tcl_with_blobs() {
    let probe = Path::new("/usr/lib/tcltk/sqlite3").is_dir()
        || Path::new("/usr/lib/tcltk/x86_64-linux-gnu/sqlite3").is_dir();
    if !has(&["tclsh", "/dev/null"], "tcl libsqlite3-tcl") || !probe {
        return println!("SKIP: no sqlite3 for Tcl; apt-get install libsqlite3-tcl");
    }
    let program = "package require sqlite3
sqlite3 db tcl.db
db eval {CREATE TABLE t(a, b BLOB)}
db transaction { for {set i 0} {$i < 100} {incr i} { db eval {INSERT INTO t VALUES ($i, zeroblob(1000))} } }
set c [db incrblob t b 7]
fconfigure $c -translation binary; puts -nonewline $c hello; seek $c 500; puts -nonewline $c middle; close $c
set c [db incrblob -readonly t b 7]; fconfigure $c -translation binary; puts -nonewline [string length [read $c]]; close $c
db close";
    let (place, end) = captured(&[("app.tcl", program)], &["tclsh", "app.tcl"]);
    assert_eq!(end.stdout, "1000");
    comes_to_the_same(&place, &[("tcl.db", "tcl.db")]);
}

#[test]
fn lua() {
    if !has(&["lua5.3", "-e", "require 'luasql.sqlite3'"], "lua5.3 lua-sql-sqlite3") {
        return;
    }
    let program = "local env = require('luasql.sqlite3').sqlite3()
local c = env:connect('lua.db')
c:execute('CREATE TABLE t(a, b)'); c:setautocommit(false)
for i = 1, 50 do c:execute(string.format(\"INSERT INTO t VALUES (%d, 'x%d')\", i, i)) end
c:commit(); local q = c:execute('SELECT count(*) FROM t'); io.write(q:fetch()); q:close(); c:close(); env:close()";
    let (place, end) = captured(&[("app.lua", program)], &["lua5.3", "app.lua"]);
    assert_eq!(end.stdout, "50");
    comes_to_the_same(&place, &[("lua.db", "lua.db")]);
}

/// rpm asks for the metadata of a column before anything else.
#[test]
fn rpm_installs_and_erases() {
    if !has(&["rpmbuild", "--version"], "rpm") {
        return;
    }
    let script = "set -e
for p in one two three; do
  printf 'Name: %s\\nVersion: 1\\nRelease: 1\\nSummary: x\\nLicense: none\\nBuildArch: noarch\\n%%description\\nx\\n%%install\\nmkdir -p %%{buildroot}/opt/%s\\necho %s > %%{buildroot}/opt/%s/file\\n%%files\\n/opt/%s\\n' $p $p $p $p $p > $p.spec
  rpmbuild -bb --dbpath $PWD/own --define \"_topdir $PWD/build\" --define \"_rpmdir $PWD/build\" $p.spec > /dev/null 2>&1
done
rpm() { command rpm --dbpath $PWD/db --root $PWD/root \"$@\"; }
mkdir -p root
rpm --initdb
rpm -i --nodeps build/noarch/one-1-1.noarch.rpm build/noarch/two-1-1.noarch.rpm
rpm -i --nodeps build/noarch/three-1-1.noarch.rpm
rpm -e two
rpm -qa | sort | tr '\\n' ' '
ln -s \"$(find root -name rpmdb.sqlite)\" rpmdb.sqlite";
    let (place, end) = captured(&[("app.sh", script)], &["bash", "app.sh"]);
    assert_eq!(end.stdout, "one-1-1.noarch three-1-1.noarch ", "{end}");
    comes_to_the_same(&place, &[("/db/rpmdb.sqlite", "rpmdb.sqlite")]);
}

/// dnf, from its second call on: the first one fills its history by a backup. It needs a directory
/// for its log, and reads no plugins of the machine.
#[test]
fn dnf_installs_and_removes() {
    let is_there = |program| has(&[program, "--version"], "dnf createrepo-c rpm");
    if !is_there("dnf") || !is_there("createrepo_c") || !is_there("rpmbuild") {
        return;
    }
    let prepare = "set -e
for p in one two; do
  printf 'Name: %s\\nVersion: 1\\nRelease: 1\\nSummary: x\\nLicense: none\\nBuildArch: noarch\\n%%description\\nx\\n%%install\\nmkdir -p %%{buildroot}/opt/%s\\necho %s > %%{buildroot}/opt/%s/file\\n%%files\\n/opt/%s\\n' $p $p $p $p $p > $p.spec
  rpmbuild -bb --dbpath $PWD/own --define \"_topdir $PWD/build\" --define \"_rpmdir $PWD/build\" $p.spec > /dev/null 2>&1
done
createrepo_c build/noarch > /dev/null
mkdir root cache log plugins persist
printf '[main]\\npluginpath=%s\\nlogdir=%s\\ncachedir=%s\\npersistdir=%s\\nreposdir=%s\\nassumeyes=1\\ngpgcheck=0\\n[r]\\nname=r\\nbaseurl=file://%s\\n' $PWD/plugins $PWD/log $PWD/cache $PWD/persist $PWD/plugins $PWD/build/noarch > dnf.conf
printf 'dnf -c dnf.conf --installroot=%s --releasever=1 -q \"$@\"\\n' $PWD/root > run
sh run install one > /dev/null
ln -s \"$(find root -name rpmdb.sqlite)\" rpmdb.sqlite; ln -s \"$(find root persist -name history.sqlite)\" history.sqlite";
    let place = Place::new();
    place.write("prepare.sh", prepare);
    let home = place.path(".").display().to_string();
    let prepared = Command::new("bash")
        .arg("prepare.sh")
        .current_dir(place.path("."))
        .envs([("HOME", home.as_str()), ("LC_ALL", "C.UTF-8")])
        .output()
        .unwrap();
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));
    let script = "sh run install two > /dev/null; sh run remove one > /dev/null";
    let words = ["trace", "capture", "--out", "app.trace", "--", "sh", "-c", script];
    place.fathom_with(&words, &[("HOME", &home), ("LC_ALL", "C.UTF-8")]).exits(0);
    comes_to_the_same(&place, &[("rpmdb.sqlite", "rpmdb.sqlite"), ("history.sqlite", "history.sqlite")]);
}

/// The metadata that dnf reads.
#[test]
fn createrepo_makes_three_databases() {
    if !has(&["createrepo_c", "--version"], "createrepo-c") {
        return;
    }
    let script = "set -e\nmkdir r\ncreaterepo_c --database --compress-type gz r > /dev/null
for k in primary filelists other; do zcat r/repodata/*-$k.sqlite.gz > $k.db; done";
    let (place, _) = captured(&[("app.sh", script)], &["bash", "app.sh"]);
    comes_to_the_same(
        &place,
        &[
            ("primary.sqlite", "primary.db"),
            ("filelists.sqlite", "filelists.db"),
            ("other.sqlite", "other.db"),
        ],
    );
}

#[test]
fn nss_makes_keys_and_certificates() {
    if !has(&["sh", "-c", "command -v certutil"], "libnss3-tools") {
        return;
    }
    // Serial numbers of its own making are the time in seconds.
    let script = "set -e
mkdir n; echo secretpass > pw; head -c 2048 /dev/urandom > noise
certutil -N -d sql:n -f pw
certutil -S -d sql:n -f pw -z noise -m 1 -n ca -s 'CN=My CA' -x -t CT,C,C -v 120 -k rsa -g 2048 > /dev/null 2>&1
certutil -S -d sql:n -f pw -z noise -m 2 -n srv -s CN=srv -c ca -t u,u,u -v 12 > /dev/null 2>&1
certutil -L -d sql:n -f pw | grep -c 'u$\\|C$'
certutil -D -d sql:n -f pw -n srv";
    let (place, end) = captured(&[("app.sh", script)], &["bash", "app.sh"]);
    assert_eq!(end.stdout, "2\n");
    comes_to_the_same(&place, &[("cert9.db", "n/cert9.db"), ("key4.db", "n/key4.db")]);
}

/// GnuPG 2.4 and later keep keys in a database of a daemon that many threads ask.
#[test]
fn gnupgs_keyboxd() {
    if !has(&["test", "-x", "/usr/lib/gnupg/keyboxd"], "gpg    (of Debian 13 and later)") {
        return;
    }
    let script = "set -e
export GNUPGHOME=$PWD/g; mkdir -m 700 g; echo use-keyboxd > g/common.conf
for i in 1 2 3; do gpg -q --batch --passphrase '' --quick-gen-key u$i@example.org ed25519 default never 2> /dev/null; done
gpg --list-keys 2> /dev/null | grep -c '^uid'
gpgconf --kill all";
    let (place, end) = captured(&[("app.sh", script)], &["bash", "app.sh"]);
    assert_eq!(end.stdout, "3\n");
    comes_to_the_same(&place, &[("pubring.db", "g/public-keys.d/pubring.db")]);
}

#[test]
fn subversion() {
    if !has(&["svn", "--version", "-q"], "subversion") {
        return;
    }
    let script = "set -e
svnadmin create repo; svn checkout -q file://$PWD/repo wc; cd wc
for i in 1 2 3; do echo \"text $i\" > f$i; done
svn add -q f1 f2 f3; svn commit -q -m first; echo more >> f1; svn status; svn commit -q -m second; svn up -q";
    let (place, end) = captured(&[("app.sh", script)], &["bash", "app.sh"]);
    assert_eq!(end.stdout, "M       f1\n");
    comes_to_the_same(&place, &[("/wc.db", "wc/.svn/wc.db"), ("rep-cache.db", "repo/db/rep-cache.db")]);
}

#[test]
fn bogofilter_learns() {
    if !has(&["sh", "-c", "bogofilter -V 2>&1 | grep -qi sqlite"], "bogofilter-sqlite") {
        return;
    }
    let script = "mkdir b
for i in 1 2 3; do
  printf 'Subject: hello %d\\n\\nfriendly words about dinner\\n' $i | bogofilter -d b -n
  printf 'Subject: pills %d\\n\\nbuy cheap pills now\\n' $i | bogofilter -d b -s
done
printf 'Subject: pills\\n\\ncheap pills\\n' | bogofilter -d b -v | cut -c1-16";
    let (place, end) = captured(&[("app.sh", script)], &["bash", "app.sh"]);
    assert_eq!(end.stdout, "X-Bogosity: Spam\n");
    comes_to_the_same(&place, &[("wordlist.db", "b/wordlist.db")]);
}

#[test]
fn newsboat_reads_a_feed() {
    if !has(&["newsboat", "--version"], "newsboat") {
        return;
    }
    let feed = "<rss version=\"2.0\"><channel><title>T</title><link>http://x/</link><description>d</description>
        <item><title>one</title><link>http://x/1</link><guid>1</guid><description>first</description></item>
        <item><title>two</title><link>http://x/2</link><guid>2</guid><description>second</description></item></channel></rss>";
    let script = "echo file://$PWD/feed.xml > urls
newsboat -u urls -c cache.db -C /dev/null -x reload; newsboat -u urls -c cache.db -C /dev/null -x print-unread";
    let (place, end) = captured(&[("feed.xml", feed), ("app.sh", script)], &["bash", "app.sh"]);
    assert!(end.stdout.contains("2 unread"), "{end}");
    comes_to_the_same(&place, &[("cache.db", "cache.db")]);
}

/// Django's test runner with a live server that answers each request in a thread of its own, and
/// then the same server without the runner, so that rows stay.
#[test]
fn django_with_a_threaded_server() {
    if !has(&[PYTHON, "-c", "import django"], "python3-django") {
        return;
    }
    let program = "import sys, urllib.request
from django.conf import settings
settings.configure(SECRET_KEY='x', ROOT_URLCONF=__name__, ALLOWED_HOSTS=['*'], USE_TZ=False, STATIC_URL='/static/',
    DEFAULT_AUTO_FIELD='django.db.models.AutoField',
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': 'site.db', 'TEST': {'NAME': 'test.db'}}},
    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth'])
import django; django.setup()
from django.contrib.auth.models import Group
from django.http import HttpResponse
from django.urls import path
from django.db import connection, transaction
def add(request, name):
    with transaction.atomic():
        group = Group.objects.create(name=name)
        Group.objects.filter(pk=group.pk).update(name=name.upper())
    return HttpResponse(str(Group.objects.count()))
urlpatterns = [path('add/<name>/', add)]
from django.core.management import call_command
from django.test import LiveServerTestCase, TestCase
def ask(url): return urllib.request.urlopen(url).read()
class Live(LiveServerTestCase):
    def test_requests(self):
        for i in range(8): self.assertEqual(ask(f'{self.live_server_url}/add/g{i}/'), str(i + 1).encode())
class Plain(TestCase):
    def test_rolled_back(self):
        Group.objects.bulk_create([Group(name=f'n{i}') for i in range(300)])
        self.assertEqual(Group.objects.filter(name__startswith='n1').count(), 111)
from django.test.runner import DiscoverRunner
runner = DiscoverRunner(verbosity=0, keepdb=True, interactive=False)
runner.setup_test_environment(); old = runner.setup_databases()
import unittest
suite = unittest.TestSuite([Plain('test_rolled_back'), Live('test_requests')])
failed = not runner.run_suite(suite).wasSuccessful()
runner.teardown_databases(old); connection.close()
settings.DATABASES['default']['NAME'] = 'site.db'
call_command('migrate', verbosity=0)
import threading
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.handlers.wsgi import WSGIHandler
class Quiet(WSGIRequestHandler):
    def log_message(self, *words): pass
server = ThreadedWSGIServer(('127.0.0.1', 0), Quiet); server.set_app(WSGIHandler())
thread = threading.Thread(target=server.serve_forever); thread.start()
for i in range(20): ask(f'http://127.0.0.1:{server.server_port}/add/h{i}/')
server.shutdown(); thread.join(); server.server_close()
print(Group.objects.count(), end=''); connection.close(); sys.exit(failed)";
    let (place, end) = captured(&[("app.py", program)], &[PYTHON, "app.py"]);
    assert_eq!(end.stdout, "20", "{end}");
    comes_to_the_same(&place, &[("site.db", "site.db"), ("test.db", "test.db")]);
}

#[test]
fn sqlalchemy_with_a_pool_of_threads() {
    if !has(&[PYTHON, "-c", "import sqlalchemy"], "python3-sqlalchemy") {
        return;
    }
    let program = "from concurrent.futures import ThreadPoolExecutor
from sqlalchemy import create_engine, Column, Integer, String, func
from sqlalchemy.orm import declarative_base, sessionmaker
Base = declarative_base()
class User(Base):
    __tablename__ = 'users'
    id = Column(Integer, primary_key=True); name = Column(String, index=True)
engine = create_engine('sqlite:///alchemy.db'); Base.metadata.create_all(engine); Session = sessionmaker(engine)
def work(n):
    with Session() as s:
        s.add_all([User(name=f'user {n} {i}') for i in range(25)]); s.commit()
        s.query(User).filter(User.name.like('%3')).update({'name': func.upper(User.name)}, synchronize_session=False); s.commit()
with ThreadPoolExecutor(4) as pool:
    for n in range(8): pool.submit(work, n).result()
with Session() as s: print(s.query(User).count(), end='')
engine.dispose()";
    let (place, end) = captured(&[("app.py", program)], &[PYTHON, "app.py"]);
    assert_eq!(end.stdout, "200", "{end}");
    comes_to_the_same(&place, &[("alchemy.db", "alchemy.db")]);
}

#[test]
fn the_sqlite3_shell_with_an_archive() {
    if !has(&["sqlite3", "--version"], "sqlite3") {
        return;
    }
    let script = "echo some text > file; sqlite3 archive.db -A --create file
sqlite3 archive.db 'CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f SELECT name FROM sqlar; SELECT count(*) FROM f'";
    let (place, end) = captured(&[("app.sh", script)], &["bash", "app.sh"]);
    assert_eq!(end.stdout, "1\n");
    // The archive is filled by the shell's own functions, which a replay has not.
    place
        .fathom(&["trace", "replay", "app.trace", "--dir", "."])
        .exits(1)
        .says("the application brought its own");
}

/// Browsers bring an SQLite of their own: the message names the file that holds it, not the script
/// that was started.
#[test]
fn programs_with_an_sqlite_of_their_own_are_named() {
    for (program, package) in [("chromium", "chromium"), ("fossil", "fossil")] {
        if !has(&[program, if program == "fossil" { "version" } else { "--version" }], package) {
            continue;
        }
        let place = Place::new();
        let version = if program == "fossil" { "version" } else { "--version" };
        let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", program, version]);
        end.exits(1)
            .says(&format!("{program} has an SQLite of its own inside"))
            .says("FATHOM_TRACE_EXTENSION");
        assert_eq!(place.files(), [""; 0], "{end}");
    }
}

/// What happened: the test suite of a web framework stopped at the first statement that uses a
/// function of its own (Django's REGEXP). An extension that has it lets the replay go on, and each
/// statement's rows are checked as always.
#[test]
fn a_function_of_the_program_comes_from_an_extension() {
    const PCRE: &str = "/usr/lib/sqlite3/pcre.so";
    if !has(&[PYTHON, "-c", "import django"], "python3-django") || !has(&["test", "-f", PCRE], "sqlite3-pcre")
    {
        return;
    }
    let program = "from django.conf import settings
settings.configure(SECRET_KEY='x', USE_TZ=False, DEFAULT_AUTO_FIELD='django.db.models.AutoField',
    DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': 'site.db'}},
    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth'])
import django; django.setup()
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection
call_command('migrate', verbosity=0)
Group.objects.bulk_create([Group(name=f'group {i}') for i in range(200)])
print(Group.objects.filter(name__regex=r'^group 1[0-5]\\d$').count(), end=' ')
print(Group.objects.filter(name__iregex=r'GROUP \\d$').delete()[0], end='')
connection.close()";
    let (place, end) = captured(&[("app.py", program)], &[PYTHON, "app.py"]);
    assert_eq!(end.stdout, "60 10", "{end}");
    let replay = ["trace", "replay", "app.trace", "--dir", ".", "--set", "synchronous=off"];
    place.fathom(&replay).exits(1).says("the application brought its own").says("--set extension=FILE");
    let extension = format!("extension={PCRE}");
    let end = place.fathom(&[&replay[..], &["--set", &extension]].concat());
    let hash = fathom_trace::content::content_hash(&place.path("site.db")).unwrap();
    assert!(end.exits(0).stdout.contains(&hash), "{hash}: {end}");
    for (wrong, words) in
        [("extension=/no/such.so", "No such file"), ("extension=app.py", "invalid ELF header")]
    {
        place.fathom(&[&replay[..], &["--set", wrong]].concat()).exits(1).says(words);
    }
    let library = "extension=/usr/lib/x86_64-linux-gnu/libc.so.6";
    place.fathom(&[&replay[..], &["--set", library]].concat()).says("is no extension of SQLite");
}
