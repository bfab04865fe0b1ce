//! A server that is there already: what it must be, the store's schema on it, and its lock.
//!
//! A store has a schema of its own, with a table `smsc_store` of one row that says that it is one:
//! its format, its identity, and who has it open. Nothing outside of the schema is written, and a
//! schema that is neither empty nor a store is left as it is.
//!
//! Two processes must not serve one store. All connections of a store hold a lock of the session in
//! common, and who opens it needs that lock alone for a moment, in which it writes a name for
//! itself into `holder`. A connection that is opened later looks whether that name is still there:
//! so one whose others have all broken does not come back beside a successor.

use super::quote::{identifier, literal};
use super::url::PostgresqlUrl;
use super::wire::{Origin, Wire, Wires};
use super::{PROCEDURES, catalog, contents, schema};
use crate::model::{FIRST_TABLES, TABLES};
use crate::store::{Durability, Opening, StoreError};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The layout of a store's tables. Another one is another store.
const FORMAT: i64 = 1;
/// The oldest server that has all that is used (`plan_cache_mode`).
const OLDEST: i64 = 120_000;
/// First half of the store's lock; the second is its own.
const LOCK_CLASS: i64 = 0x736d_7363;
/// How long the connections of a process that was killed may take to end: one that commits looks
/// for its client when its sync is done, and a busy disk takes seconds for one.
const ENDING: Duration = Duration::from_secs(15);
/// Connections that are left to others.
const SPARE: usize = 3;

/// The settings of a session, each where the server has it.
const SETTINGS: [(&str, &str); 14] = [
    ("client_min_messages", "warning"),
    ("standard_conforming_strings", "on"),
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("transaction_timeout", "0"),
    ("jit", "off"),
    // A client's machine that has lost its power must not keep the store's lock for hours, nor a
    // statement of a client that has gone.
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "60s"),
    ("client_connection_check_interval", "2s"),
];

/// A server that is there already, and the store on it.
pub(super) struct ForeignServer {
    url: PostgresqlUrl,
    /// The second half of the store's lock, and this process' name in `holder`.
    lock: i64,
    holder: String,
    /// The connection that holds the store's lock as long as it is open.
    _guard: Option<Wire>,
    /// What the store was when it was opened.
    pub made: Creation,
    pub durability: Durability,
    /// Calls of a group, so that the server's table of locks has room for all.
    pub group_max: usize,
    /// Its identity.
    pub identity: String,
    /// What an operator should know of it.
    pub remarks: Vec<String>,
}

/// What opening has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Creation {
    /// Nothing: the store was there.
    Nothing,
    /// The store, in a schema that was there.
    Store,
    /// The schema, too.
    Schema,
}

/// What a server tells of itself.
struct Facts {
    database: String,
    role: String,
    sessions_max: usize,
    locks: usize,
    durability: Durability,
    remarks: Vec<String>,
}

/// A random name.
fn random_name() -> Result<String, StoreError> {
    let mut octets = [0; 16];
    getrandom::fill(&mut octets).map_err(|error| StoreError::protocol(error.to_string()))?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

/// What this version makes in a schema, but for the keys of its locks.
fn code(salt: i64) -> String {
    let tables: String = TABLES.iter().map(|table| schema(table)).collect();
    format!("{tables} {} {}", super::lock_function(salt), PROCEDURES.concat())
}

fn digest(code: &str) -> String {
    Sha256::digest(code).iter().map(|octet| format!("{octet:02x}")).collect()
}

impl ForeignServer {
    /// Opens the store for so many sessions.
    pub fn open(
        url: &PostgresqlUrl,
        sessions: usize,
        opening: Opening,
        wires: &Arc<Wires>,
    ) -> Result<ForeignServer, StoreError> {
        let mut wire = dial(url, wires)?;
        let facts = facts(&mut wire, url)?;
        let most = facts.sessions_max.saturating_sub(SPARE);
        if sessions > most {
            let most = format!("the server has room for {most} (max_connections)");
            let for_each = "one session for each client, two for each sender";
            return Err(StoreError::TooManySessions {
                store: url.kind().name(),
                asked: sessions,
                most,
                for_each,
            });
        }
        let made = found_or_made(&mut wire, url, &facts, opening)?;
        let (identity, code_digest) = identity(&mut wire, url)?;
        let salt = i64::from_str_radix(&identity[..15], 16).map_err(|_| damaged(url))?;
        // Whole numbers of four octets, with a sign.
        let lock = i64::from(salt as i32);
        let mut given = ForeignServer {
            url: url.clone(),
            lock,
            holder: random_name()?,
            _guard: None,
            made,
            durability: facts.durability,
            group_max: (facts.locks / (4 * sessions.max(1))).clamp(8, 256),
            identity,
            remarks: facts.remarks.clone(),
        };
        given.lock_store(&mut wire)?;
        let code = code(salt);
        if code_digest != digest(&code) || !has_functions(&mut wire, url, &code)? {
            let set = format!("UPDATE smsc_store SET code = {}", literal(&digest(&code)));
            wire.script(&format!("{code}; {set}")).map_err(|error| {
                let advice = "the store's functions are of another version of smsc: have the role that made the \
                              store open it once with this one";
                refused(url, format!("{error}; {advice}"))
            })?;
        }
        check_rights(&mut wire, url, &facts.role, RIGHTS)?;
        given.remarks.extend(catalog::check(&mut wire, url)?);
        contents::check(&mut wire, url)?;
        wire.script(&format!("UPDATE smsc_store SET holder = {}", literal(&given.holder)))?;
        let shared = format!("SELECT pg_advisory_lock_shared({LOCK_CLASS}, {lock})");
        let alone = format!("SELECT pg_advisory_unlock({LOCK_CLASS}, {lock})");
        wire.script(&format!("{shared}; {alone}"))?;
        given._guard = Some(wire);
        Ok(given)
    }

    /// Takes the store's lock alone; waits for the connections of a process that was killed.
    fn lock_store(&self, wire: &mut Wire) -> Result<(), StoreError> {
        let begin = Instant::now();
        let ask = format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, {})", self.lock);
        while wire.one(&ask)? != "t" {
            wire.go_on()?;
            if begin.elapsed() > ENDING {
                let who = format!(
                    "SELECT a.application_name || ', process ' || a.pid || coalesce(', from ' || \
                     a.client_addr, '') || ', since ' || to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS') \
                     FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND \
                     l.classid = {LOCK_CLASS} AND l.objid = ({} & 4294967295)::oid AND l.granted AND \
                     l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                     ORDER BY a.backend_start LIMIT 1",
                    self.lock
                );
                let who = wire.one(&who).unwrap_or_default();
                let who = if who.is_empty() { String::new() } else { format!(" ({who})") };
                return Err(StoreError::Busy { path: format!("{}{who}", self.url) });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A connection of a session.
    pub fn connect(&self, wires: &Arc<Wires>) -> Result<Wire, StoreError> {
        let mut wire = dial(&self.url, wires)?;
        let durability = durability(&mut wire, &self.url)?.0;
        let busy = || StoreError::Busy { path: self.url.to_string() };
        if wire.one(&format!("SELECT pg_try_advisory_lock_shared({LOCK_CLASS}, {})", self.lock))? != "t"
            || wire.one("SELECT holder FROM smsc_store")? != self.holder
        {
            return Err(busy());
        }
        if durability != self.durability {
            return Err(wire.refused("the server's durability has changed while the store was open"));
        }
        Ok(wire)
    }

    /// Takes away what opening has made, and of a store that was there all rows but its identity.
    /// What others have made stays, and so does what theirs depends on: then it fails.
    pub fn clear(&self, wires: &Arc<Wires>) -> Result<(), StoreError> {
        let mut wire = self.connect(wires)?;
        let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        if self.made == Creation::Nothing {
            return wire.script(&format!("TRUNCATE {}", tables.join(", ")));
        }
        let of_ours = format!(
            "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
             WHERE n.nspname = {} AND p.proname LIKE 'smsc\\_%'",
            literal(&self.url.schema)
        );
        let functions: Vec<String> =
            wire.texts(&of_ours)?.into_iter().filter_map(|mut row| row.pop()).collect();
        let mut script: String = functions.iter().map(|name| format!("DROP FUNCTION {name};")).collect();
        script.push_str(&format!("DROP TABLE {}, smsc_store; DROP SEQUENCE msg_id_seq;", tables.join(", ")));
        if self.made == Creation::Schema {
            script.push_str(&format!("DROP SCHEMA {};", identifier(&self.url.schema)));
        }
        wire.script(&script)
    }
}

/// A connection with the session's settings, to a server and not to a pooler.
pub(super) fn dial(url: &PostgresqlUrl, wires: &Arc<Wires>) -> Result<Wire, StoreError> {
    let mut wire = Wire::dial(&url.settings, &Arc::new(Origin::Server(url.to_string())), wires)?;
    // Its functions are called by their names, and what they call is what the server brings.
    let mut script = format!("SET search_path = {}, pg_temp;", identifier(&url.schema));
    let values: Vec<String> =
        SETTINGS.iter().map(|(name, value)| format!("({}, {})", literal(name), literal(value))).collect();
    script.push_str(&format!(
        "SELECT set_config(s.name, v.value, false) FROM (VALUES {}) v(name, value) JOIN pg_settings s ON s.name = v.name;",
        values.join(", ")
    ));
    script.push_str("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'");
    wire.script(&script)?;
    let process = wire.process();
    if wire.one("SELECT pg_backend_pid()")?.parse().ok() != process {
        let problem = "a pooler such as PgBouncer stands between: a store's locks, settings and prepared statements are \
                       of a session, which a pooler gives to others; give the address of the server itself";
        return Err(wire.refused(problem));
    }
    Ok(wire)
}

/// What the settings of the server promise, and why it is less than everything.
fn durability(wire: &mut Wire, url: &PostgresqlUrl) -> Result<(Durability, Option<String>), StoreError> {
    let asked = "SELECT name || '=off' FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') \
                 AND setting = 'off' ORDER BY name";
    let off: Vec<String> = wire.texts(asked)?.into_iter().flatten().collect();
    if off.is_empty() {
        return Ok((Durability::PowerCut, None));
    }
    let off = off.join(", ");
    if url.unsafe_server {
        let remark =
            format!("the server has {off}: a power cut may take back anything, and damage the database");
        return Ok((Durability::ProcessCrash, Some(remark)));
    }
    let problem = format!(
        "the server has {off}: a power cut may take back what was acknowledged, and damage the database; have it set \
         on (ALTER SYSTEM, pg_reload_conf()), or take less by durability=process-crash in the URL"
    );
    Err(wire.refused(problem))
}

fn refused(url: &PostgresqlUrl, problem: impl Into<String>) -> StoreError {
    StoreError::Refused { place: url.to_string(), problem: problem.into() }
}

fn damaged(url: &PostgresqlUrl) -> StoreError {
    refused(url, "its table smsc_store is not one that smsc has written: take another schema=")
}

fn facts(wire: &mut Wire, url: &PostgresqlUrl) -> Result<Facts, StoreError> {
    let asked = "SELECT current_setting('server_version_num'), current_setting('server_version'), \
                 current_setting('server_encoding'), pg_is_in_recovery(), current_database(), current_user, \
                 current_setting('max_connections'), current_setting('superuser_reserved_connections'), \
                 current_setting('max_locks_per_transaction'), current_setting('default_transaction_read_only')";
    let row = wire.texts(asked)?.pop().unwrap_or_default();
    let [number, version, encoding, standby, database, role, connections, reserved, locks, read_only] =
        &row[..]
    else {
        return Err(wire.refused("the server does not tell its version"));
    };
    if number.parse().unwrap_or(0) < OLDEST {
        let problem =
            format!("the server is PostgreSQL {version}; a store wants {} or later", OLDEST / 10_000);
        return Err(wire.refused(problem));
    }
    if standby == "t" {
        let problem = "the server is a standby, which takes no changes: give all hosts in the URL and \
                       target_session_attrs=read-write";
        return Err(wire.refused(problem));
    }
    if read_only == "on" {
        // Whoever has set it does not want a centre there: after a failover, for one.
        return Err(wire.refused("the server or the role is read-only (default_transaction_read_only)"));
    }
    if encoding != "UTF8" {
        let problem = format!(
            "the database's encoding is {encoding}, which has not all letters: CREATE DATABASE … ENCODING 'UTF8' \
             TEMPLATE template0"
        );
        return Err(wire.refused(problem));
    }
    let count = |text: &String| text.parse::<usize>().unwrap_or(0);
    let (durability, less) = durability(wire, url)?;
    let mut remarks: Vec<String> = less.into_iter().collect();
    if !wire.is_encrypted() && !wire.is_local() {
        remarks.push("the connection is not encrypted: sslmode=verify-full in the URL".into());
    }
    Ok(Facts {
        database: database.clone(),
        role: role.clone(),
        sessions_max: count(connections).saturating_sub(count(reserved)),
        locks: count(locks) * count(connections),
        durability,
        remarks,
    })
}

/// Finds the store, or makes it if `opening` says so.
fn found_or_made(
    wire: &mut Wire,
    url: &PostgresqlUrl,
    facts: &Facts,
    opening: Opening,
) -> Result<Creation, StoreError> {
    let (name, role) = (identifier(&url.schema), identifier(&facts.role));
    let asked = format!(
        "SELECT has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE'), \
         EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'smsc_store' AND c.relkind = 'r'), \
         (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid) + \
         (SELECT count(*) FROM pg_proc p WHERE p.pronamespace = n.oid) + \
         (SELECT count(*) FROM pg_type t WHERE t.typnamespace = n.oid) \
         FROM pg_namespace n WHERE n.nspname = {}",
        literal(&url.schema)
    );
    let row = wire.texts(&asked)?.pop();
    let making = match row.as_deref() {
        Some([usage, _, _, _]) if usage != "t" => {
            let grant = format!("GRANT USAGE, CREATE ON SCHEMA {name} TO {role}");
            return Err(wire.refused(format!("the role may not use the schema: {grant}")));
        }
        Some([_, _, store, _]) if store == "t" => return Ok(Creation::Nothing),
        _ if opening == Opening::Existing => {
            return Err(StoreError::NoStore {
                path: url.to_string(),
                what: "there is no store in the schema",
            });
        }
        Some([_, _, _, objects]) if objects != "0" => {
            let problem = format!(
                "the schema has {objects} tables, functions or types in it, and no store: it is somebody else's, and \
                 nothing was written; take another schema= (it is made)"
            );
            return Err(wire.refused(problem));
        }
        Some([_, create, _, _]) if create != "t" => {
            let grant = format!("GRANT USAGE, CREATE ON SCHEMA {name} TO {role}");
            return Err(wire.refused(format!("the role may make nothing in the schema: {grant}")));
        }
        Some(_) => Creation::Store,
        None => {
            let may = format!("SELECT has_database_privilege({}, 'CREATE')", literal(&facts.database));
            if wire.one(&may)? != "t" {
                let problem = format!(
                    "there is no schema {name}, and the role may not make it: CREATE SCHEMA {name} AUTHORIZATION \
                     {role}, or GRANT CREATE ON DATABASE {} TO {role}",
                    identifier(&facts.database)
                );
                return Err(wire.refused(problem));
            }
            Creation::Schema
        }
    };
    // One script is one transaction: the store is there with its identity, or not at all.
    let identity = random_name()?;
    let salt = i64::from_str_radix(&identity[..15], 16).map_err(|_| damaged(url))?;
    let code = code(salt);
    let schema = if making == Creation::Schema { format!("CREATE SCHEMA {name};") } else { String::new() };
    let meta = format!(
        "CREATE TABLE smsc_store(one boolean PRIMARY KEY DEFAULT true CHECK (one), format integer NOT NULL, \
         identity text NOT NULL, code text NOT NULL, holder text NOT NULL, made_by text NOT NULL, \
         made_at timestamptz NOT NULL DEFAULT now()); \
         INSERT INTO smsc_store(format, identity, code, holder, made_by) VALUES ({FORMAT}, {}, {}, '', {});",
        literal(&identity),
        literal(&digest(&code)),
        literal(concat!("smsc ", env!("CARGO_PKG_VERSION"))),
    );
    wire.script(&format!("{schema} {code} {meta}"))?;
    Ok(making)
}

/// The store's identity and the hash of its functions.
fn identity(wire: &mut Wire, url: &PostgresqlUrl) -> Result<(String, String), StoreError> {
    let of_other = |error: StoreError| match error {
        StoreError::Postgresql { sqlstate, .. } if sqlstate == "42501" => refused(
            url,
            format!(
                "the role may not read the store: GRANT SELECT, UPDATE ON {}.smsc_store TO it",
                identifier(&url.schema)
            ),
        ),
        // Undefined column.
        StoreError::Postgresql { sqlstate, .. } if sqlstate == "42703" => damaged(url),
        error => error,
    };
    let rows = wire.texts("SELECT format, identity, code FROM smsc_store").map_err(of_other)?;
    let [row] = &rows[..] else { return Err(damaged(url)) };
    let [format, identity, code] = &row[..] else { return Err(damaged(url)) };
    if format.parse() != Ok(FORMAT) {
        let problem = format!(
            "the store has format {format}, and this smsc ({}) knows {FORMAT}: take the version that made it",
            env!("CARGO_PKG_VERSION")
        );
        return Err(wire.refused(problem));
    }
    if identity.len() != 32 || !identity.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(damaged(url));
    }
    Ok((identity.clone(), code.clone()))
}

/// Whether the functions in the schema are those of `code`, word for word: what is between their
/// quotes is kept as it was written.
fn has_functions(wire: &mut Wire, url: &PostgresqlUrl, code: &str) -> Result<bool, StoreError> {
    let asked = format!(
        "SELECT p.proname, p.prosrc FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = {}",
        literal(&url.schema)
    );
    let found = wire.texts(&asked)?;
    let is_there = |name: &str| {
        found.iter().any(|row| matches!(&row[..], [found, source] if found == name && code.contains(source)))
    };
    let functions = code.split("CREATE OR REPLACE FUNCTION ").skip(1);
    Ok(functions.filter_map(|function| function.split_once('(')).all(|(name, _)| is_there(name.trim())))
}

/// What a centre does with rows.
const RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE";
/// What a check does.
pub(super) const READING: &str = "SELECT";

/// Whether the tables are all there, of the kind that was made, and the role may do this with them.
pub(super) fn check_rights(
    wire: &mut Wire,
    url: &PostgresqlUrl,
    role: &str,
    rights: &str,
) -> Result<(), StoreError> {
    let names: Vec<String> = TABLES.iter().map(|table| literal(table.name)).collect();
    let lacks: Vec<String> =
        rights.split(", ").map(|right| format!("NOT has_table_privilege(c.oid, '{right}')")).collect();
    let asked = format!(
        "SELECT c.relname, {}, c.relpersistence <> 'p', row_security_active(c.oid) FROM pg_class c JOIN pg_namespace n \
         ON n.oid = c.relnamespace WHERE n.nspname = {} AND c.relkind = 'r' AND c.relname IN ({})",
        lacks.join(" OR "),
        literal(&url.schema),
        names.join(", ")
    );
    let rows = wire.texts(&asked)?;
    let name = identifier(&url.schema);
    for table in &TABLES[..FIRST_TABLES] {
        let Some(row) = rows.iter().find(|row| row.first().is_some_and(|found| found == table.name)) else {
            return Err(wire.refused(format!("the store has lost its table {}", table.name)));
        };
        let problem = match &row[..] {
            [_, lacks, _, _] if lacks == "t" => format!(
                "the role may not do all of {rights} with table {}: GRANT {rights} ON ALL TABLES IN SCHEMA {name} TO {}",
                table.name,
                identifier(role)
            ),
            [_, _, unlogged, _] if unlogged == "t" => format!(
                "somebody has made table {} UNLOGGED, which a crash empties: ALTER TABLE {name}.{} SET LOGGED",
                table.name, table.name
            ),
            [_, _, _, hidden] if hidden == "t" => format!(
                "row security hides rows of table {} from the role: ALTER TABLE {name}.{} DISABLE ROW LEVEL SECURITY",
                table.name, table.name
            ),
            _ => continue,
        };
        return Err(wire.refused(problem));
    }
    if rights == READING {
        return Ok(());
    }
    let asked = format!(
        "SELECT has_sequence_privilege(c.oid, 'USAGE') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = {} AND c.relkind = 'S' AND c.relname = 'msg_id_seq'",
        literal(&url.schema)
    );
    match wire.one(&asked)?.as_str() {
        "t" => Ok(()),
        "f" => Err(refused(
            url,
            format!(
                "the role may not use the sequence msg_id_seq: GRANT USAGE ON ALL SEQUENCES IN SCHEMA {name} TO {}",
                identifier(role)
            ),
        )),
        _ => Err(wire.refused("the store has lost its sequence msg_id_seq")),
    }
}

/// Looks whether a store is there, to be read; gives its identity.
pub(super) fn found(wire: &mut Wire, url: &PostgresqlUrl) -> Result<String, StoreError> {
    let asked = format!(
        "SELECT has_schema_privilege(n.oid, 'USAGE'), current_user, EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = \
         n.oid AND c.relname = 'smsc_store' AND c.relkind = 'r') FROM pg_namespace n WHERE n.nspname = {}",
        literal(&url.schema)
    );
    let row = wire.texts(&asked)?.pop();
    let role = match row.as_deref() {
        Some([usage, role, _]) if usage != "t" => {
            let (name, role) = (identifier(&url.schema), identifier(role));
            let grant = format!("GRANT USAGE ON SCHEMA {name} TO {role}");
            return Err(wire.refused(format!("the role may not use the schema: {grant}")));
        }
        Some([_, role, store]) if store == "t" => role.clone(),
        _ => {
            return Err(StoreError::NoStore {
                path: url.to_string(),
                what: "there is no store in the schema",
            });
        }
    };
    let (identity, _) = identity(wire, url)?;
    check_rights(wire, url, &role, READING)?;
    catalog::check(wire, url)?;
    Ok(identity)
}
