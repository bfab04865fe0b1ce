//! A store in a database of a server that is there already: whose schema it is, who may, who has
//! it, and what a crash leaves.
#![allow(clippy::unwrap_used)]

mod common;
mod foreign_server;

use common::{message, receive};
use foreign_server::ForeignServer;
use smsc::centre::{Operation, Outcome, Rules};
use smsc::check::{AcceptedMessages, check_while};
use smsc::housekeeping::recover;
use smsc::model::Account;
use smsc::store::{
    Acknowledge, Durability, Opening, PostgresqlSnapshot, PostgresqlStore, PostgresqlUrl, Store, StoreError,
};
use std::time::Duration;

fn open_as(url: &str, opening: Opening) -> Result<PostgresqlStore, StoreError> {
    PostgresqlStore::at(&PostgresqlUrl::parse(url).unwrap(), Rules::default(), 8, opening)
}

fn open(url: &str) -> PostgresqlStore {
    open_as(url, Opening::OrCreate).unwrap()
}

/// Why a store cannot be opened.
fn refusal(url: &str) -> String {
    let error = open_as(url, Opening::OrCreate).err().unwrap_or_else(|| panic!("{url} was opened"));
    let error = error.to_string();
    assert!(!error.contains("secret"), "{error}");
    error
}

#[test]
fn a_store_is_made_in_its_schema_resumed_and_looked_at() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    // Somebody else's, in the same database, with the names of ours.
    given.root("sms", "CREATE TABLE message(precious text); INSERT INTO message VALUES ('keep')");
    let url = given.checked_url("owner", "");
    let missing = open_as(&url, Opening::Existing).err().unwrap();
    assert!(matches!(missing, StoreError::NoStore { .. }), "{missing}");
    assert!(PostgresqlSnapshot::open(&PostgresqlUrl::parse(&url).unwrap()).is_err());
    let mut accepted = Vec::new();
    let mut identities = Vec::new();
    for form in ["calls", "grouped", "batched", "statements"] {
        let url = format!("{url}form={form}");
        let store = open(&url);
        assert_eq!(store.durability(), Durability::PowerCut);
        recover(&store, common::NOW_US).unwrap();
        identities.push(store.identity().unwrap());
        let mut session = store.session(Acknowledge::Durable).unwrap();
        accepted.extend((0..20).map(|station| receive(&mut *session, message(station, b"hello"))));
        // Who looks does not disturb, and sees one moment.
        let seen = PostgresqlSnapshot::open(&PostgresqlUrl::parse(&url).unwrap()).unwrap();
        let later = receive(&mut *session, message(1, b"later"));
        let nothing = tempfile::tempdir().unwrap();
        let check = |numbers: &[i64]| {
            let known = AcceptedMessages::Exactly(numbers);
            check_while(&seen, nothing.path(), known, &mut || true).unwrap().unwrap()
        };
        assert!(check(&accepted).holds(), "{:?}", check(&accepted));
        accepted.push(later);
        assert!(!check(&accepted).holds());
    }
    identities.dedup();
    assert_eq!(identities.len(), 1);
    assert!(accepted.is_sorted_by(|a, b| a < b));
    assert_eq!(given.root("sms", "SELECT precious FROM public.message"), ["keep"]);
    // Nothing of ours is outside of the schema.
    let outside = "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE nspname NOT IN ('smsc', 'pg_catalog', 'information_schema', 'pg_toast')";
    assert_eq!(given.root("sms", outside), ["message"]);
    // A second store in the same database is another one.
    let second = open(&given.checked_url("owner", "schema=other"));
    assert_ne!(second.identity().unwrap(), identities[0]);
    let first = open(&url);
    let [mut of_first, mut of_second] =
        [&first, &second].map(|store| store.session(Acknowledge::Durable).unwrap());
    receive(&mut *of_first, message(1, b"x"));
    assert_eq!(receive(&mut *of_second, message(1, b"x")), 1);
}

#[test]
fn what_is_somebody_elses_is_left_as_it_is() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    for (schema, made) in [
        ("t", "CREATE TABLE t.message(id bigint)"),
        ("f", "CREATE FUNCTION f.smsc_receive() RETURNS void LANGUAGE sql AS ''"),
        ("d", "CREATE DOMAIN d.smsc AS text"),
        ("v", "CREATE VIEW v.smsc_store AS SELECT 1 AS format"),
    ] {
        given.root("sms", &format!("CREATE SCHEMA {schema} AUTHORIZATION owner; {made}"));
        let error = refusal(&given.checked_url("owner", &format!("schema={schema}")));
        assert!(error.contains("it is somebody else's, and nothing was written"), "{error}");
    }
    // Something with the name of a store's sign.
    given.root("sms", "CREATE SCHEMA s; CREATE TABLE s.smsc_store(id int); ALTER SCHEMA s OWNER TO owner; ALTER TABLE s.smsc_store OWNER TO owner");
    assert!(refusal(&given.checked_url("owner", "schema=s")).contains("not one that smsc has written"));
    let url = given.checked_url("owner", "");
    drop(open(&url));
    let of = |sql: &str, back: &str, words: &str| {
        given.root("sms", sql);
        let error = refusal(&url);
        assert!(error.contains(words), "{sql}: {error}");
        given.root("sms", back);
    };
    let format = "UPDATE smsc.smsc_store SET format =";
    of(&format!("{format} 2"), &format!("{format} 1"), "format 2, and this smsc");
    let identity = given.root("sms", "SELECT identity FROM smsc.smsc_store").pop().unwrap();
    let set = "UPDATE smsc.smsc_store SET identity =";
    of(&format!("{set} 'x'"), &format!("{set} '{identity}'"), "not one that smsc has written");
    let rename = "ALTER TABLE smsc.";
    of(&format!("{rename}sent RENAME TO x"), &format!("{rename}x RENAME TO sent"), "lost its table sent");
    let unlogged = "ALTER TABLE smsc.encoded_msg SET";
    of(&format!("{unlogged} UNLOGGED"), &format!("{unlogged} LOGGED"), "which a crash empties");
    given.root("sms", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 OWNER owner");
    assert!(refusal(&url.replace("/sms?", "/latin?")).contains("encoding is LATIN1"));
    // Functions of another version are made again by who may, and else that is said.
    given.root("sms", "UPDATE smsc.smsc_store SET code = 'of another version'");
    given.root("sms", "GRANT USAGE ON SCHEMA smsc TO guest; GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA smsc TO guest; GRANT USAGE ON ALL SEQUENCES IN SCHEMA smsc TO guest");
    assert!(refusal(&given.checked_url("guest", "")).contains("functions are of another version"));
    drop(open(&url));
    drop(open(&given.checked_url("guest", "")));
}

#[test]
fn the_missing_right_is_named() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let guest = given.checked_url("guest", "");
    let lacks = |words: &str| {
        let error = refusal(&guest);
        assert!(error.contains(words), "{words}: {error}");
    };
    lacks("CREATE SCHEMA \"smsc\" AUTHORIZATION \"guest\", or GRANT CREATE ON DATABASE \"sms\" TO \"guest\"");
    given.root("sms", "CREATE SCHEMA smsc AUTHORIZATION owner");
    lacks("GRANT USAGE, CREATE ON SCHEMA \"smsc\" TO \"guest\"");
    given.root("sms", "GRANT USAGE ON SCHEMA smsc TO guest");
    lacks("may make nothing in the schema: GRANT USAGE, CREATE");
    // Made by its owner, used by a role with rights on rows alone.
    drop(open(&given.checked_url("owner", "")));
    lacks("GRANT SELECT, UPDATE ON \"smsc\".smsc_store");
    given.root("sms", "GRANT SELECT, UPDATE ON smsc.smsc_store TO guest");
    lacks("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"smsc\" TO \"guest\"");
    let look = || PostgresqlSnapshot::open(&PostgresqlUrl::parse(&guest).unwrap());
    let error = look().err().unwrap().to_string();
    assert!(error.contains("GRANT SELECT ON ALL TABLES"), "{error}");
    given.root("sms", "GRANT SELECT ON ALL TABLES IN SCHEMA smsc TO guest");
    look().unwrap();
    given.root("sms", "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA smsc TO guest");
    lacks("GRANT USAGE ON ALL SEQUENCES IN SCHEMA \"smsc\" TO \"guest\"");
    given.root("sms", "GRANT USAGE ON ALL SEQUENCES IN SCHEMA smsc TO guest");
    let store = open(&guest);
    receive(&mut *store.session(Acknowledge::Durable).unwrap(), message(1, b"x"));
    let error = store.clear().unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    drop(store);
    given.root("sms", "ALTER TABLE smsc.message ENABLE ROW LEVEL SECURITY");
    lacks("row security hides rows");
    given.root(
        "sms",
        "ALTER TABLE smsc.message DISABLE ROW LEVEL SECURITY; ALTER ROLE guest CONNECTION LIMIT 1",
    );
    let limited = open_as(&guest, Opening::Existing).unwrap();
    let error = limited.session(Acknowledge::Durable).err().unwrap().to_string();
    assert!(error.contains("CONNECTION LIMIT"), "{error}");
    // A hundred sessions on a server for sixty.
    let url = PostgresqlUrl::parse(&given.checked_url("owner", "")).unwrap();
    let many = PostgresqlStore::at(&url, Rules::default(), 100, Opening::Existing);
    assert!(matches!(many.err().unwrap(), StoreError::TooManySessions { .. }));
}

/// Of several hosts each has its own reason, and what is wrong on one that was reached is told with
/// its name.
#[test]
fn each_of_several_hosts_tells_its_own_reason() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let hosts = |first: &str, second: &str, more: &str| {
        format!("postgresql://owner:secret@{first},{second}/sms?connect_timeout=60&sslmode=disable&{more}")
    };
    let (here, nobody) = (format!("localhost:{}", given.port), "127.0.0.1:1");
    // Without TLS the role may not come in from there: it is there, and was meant.
    let error = refusal(&hosts(&here, nobody, ""));
    assert!(error.contains(&format!("{here}: ")) && error.contains("28000"), "{error}");
    assert!(!error.contains(&format!("{nobody}: cannot")), "{error}");
    let error = refusal(&hosts(nobody, &here, ""));
    assert!(error.contains(&format!("{nobody}: cannot be reached: ")), "{error}");
    assert!(error.contains(&format!("{here}: ")) && error.contains("28000"), "{error}");
    let error = refusal(&hosts(nobody, "127.0.0.1:2", ""));
    assert_eq!(error.matches("cannot be reached").count(), 2, "{error}");
    // One that was reached, and will not do.
    given.root("sms", "ALTER ROLE owner SET default_transaction_read_only = on");
    let with_tls = hosts(nobody, &here, "").replace("sslmode=disable", "sslmode=require");
    let error = refusal(&with_tls);
    assert!(error.contains(&format!("at {here}: the server or the role is read-only")), "{error}");
    let error = refusal(&format!("{with_tls}target_session_attrs=read-write"));
    assert!(error.contains(&format!("{here}: it is a standby or read-only")), "{error}");
    given.root("sms", "ALTER ROLE owner RESET default_transaction_read_only");
    drop(open(&with_tls));
}

/// One process at a time has a store, also when its connections break one by one.
#[test]
fn a_store_has_one_master() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let url = given.checked_url("owner", "application_name=first");
    let first = open(&url);
    let mut session = first.session(Acknowledge::Durable).unwrap();
    let error = refusal(&given.checked_url("owner", ""));
    assert!(
        error.contains("another process has this store open") && error.contains("first, process"),
        "{error}"
    );
    // The one that has it loses a connection, but not all: nobody else gets it.
    let oldest = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'owner'
        ORDER BY backend_start LIMIT 1";
    assert_eq!(given.root("sms", oldest), ["t"]);
    refusal(&given.checked_url("owner", ""));
    receive(&mut *session, message(1, b"still here"));
    // All: somebody else may, and then the first must not come back.
    given.root("sms", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'owner'");
    let second = open(&given.checked_url("owner", ""));
    assert!(matches!(first.session(Acknowledge::Durable).err().unwrap(), StoreError::Busy { .. }));
    let lost = session.call(Operation::Account(1)).unwrap_err().to_string();
    assert!(lost.contains("start again when the server is there"), "{lost}");
    drop(session);
    drop(first);
    receive(&mut *second.session(Acknowledge::Durable).unwrap(), message(1, b"x"));
    drop(second);
    drop(open(&url));
}

/// What was acknowledged is there after the server was killed or restarted under load; what was
/// under way is told to be uncertain.
#[test]
fn a_server_that_goes_takes_nothing_along() {
    let Some(mut given) = ForeignServer::start(&[]) else { return };
    let url = given.checked_url("owner", "");
    let mut accepted = Vec::new();
    for kill in [true, false] {
        let store = open(&url);
        recover(&store, common::NOW_US).unwrap();
        let (told, news) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (store, told) = (&store, told.clone());
                scope.spawn(move || {
                    let mut session = store.session(Acknowledge::Durable).unwrap();
                    for station in 0.. {
                        let operation = Operation::Receive(Box::new(
                            smsc::centre::Submission::new(message(station * 3 + thread, b"x")).unwrap(),
                        ));
                        match session.call(operation) {
                            Ok(Outcome::Received(id)) => told.send(Ok(id)).unwrap(),
                            Ok(other) => panic!("{other:?}"),
                            Err(error) => return told.send(Err(error.to_string())).unwrap(),
                        }
                    }
                });
            }
            let mut count = 0;
            let mut errors = Vec::new();
            for news in news.iter() {
                match news {
                    Ok(id) => accepted.push(id),
                    Err(error) => errors.push(error),
                }
                count += 1;
                if count == 100 {
                    if kill {
                        let process = given.server.process().unwrap().to_string();
                        assert!(
                            std::process::Command::new("kill")
                                .args(["-9", &process])
                                .status()
                                .unwrap()
                                .success()
                        );
                    } else {
                        given.server.stop();
                    }
                }
                if errors.len() == 3 {
                    break;
                }
            }
            for error in errors {
                assert!(error.contains("start again when the server is there"), "{error}");
            }
        });
        // Nobody comes in meanwhile.
        let gone = store.session(Acknowledge::Durable).err().unwrap().to_string();
        assert!(gone.contains("cannot be reached") || gone.contains("start again"), "{gone}");
        drop(store);
        given.server.stop();
        // Its processes go when they notice that the first has gone.
        let begin = std::time::Instant::now();
        while given.server.run().is_err() {
            assert!(begin.elapsed() < Duration::from_secs(180));
        }
        let store = open(&url);
        recover(&store, common::NOW_US).unwrap();
        let nothing = tempfile::tempdir().unwrap();
        let known = AcceptedMessages::AtLeast(&accepted);
        let report = check_while(&store, nothing.path(), known, &mut || true).unwrap().unwrap();
        assert!(report.holds(), "{report:#?}");
    }
    assert!(accepted.len() >= 200);
}

#[test]
fn a_server_that_promises_less_is_not_believed() {
    let Some(given) = ForeignServer::start(&["fsync=off"]) else { return };
    let url = given.checked_url("owner", "");
    let error = refusal(&url);
    assert!(
        error.contains("the server has fsync=off: a power cut") && error.contains("durability="),
        "{error}"
    );
    let store = open(&format!("{url}durability=process-crash"));
    assert_eq!(store.durability().name(), "process-crash");
    assert!(store.remarks()[0].contains("fsync=off"));
    drop(store);
    drop(given);
    let Some(given) = ForeignServer::start(&["full_page_writes=off"]) else { return };
    let url = given.checked_url("owner", "");
    assert!(refusal(&url).contains("full_page_writes=off"));
    given.root("sms", "ALTER ROLE owner SET default_transaction_read_only = on");
    assert!(refusal(&format!("{url}durability=process-crash")).contains("default_transaction_read_only"));
    drop(given);
    // What a session may set itself is set on, and no reason to refuse.
    let Some(given) = ForeignServer::start(&["synchronous_commit=off"]) else { return };
    let store = open(&given.checked_url("owner", ""));
    assert_eq!(store.durability(), Durability::PowerCut);
    let off = "SELECT count(*)::text FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'";
    assert_eq!(given.root("sms", off), ["1"]);
}

/// A client that waits over TLS is freed, the server lives, and the lock goes with the client.
#[test]
fn a_store_over_tls_is_given_up() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let url = given.checked_url("owner", "");
    let store = open(&url);
    let mut session = store.session(Acknowledge::Durable).unwrap();
    session.call(Operation::PutAccount(Box::new(Account::unlimited(1)))).unwrap();
    // Somebody has the table, and the session waits for him.
    let blocker = format!("postgresql://fathom@127.0.0.1:{}/sms?sslmode=disable", given.port);
    let mut blocker = foreign_server::connect(&blocker).unwrap();
    foreign_server::rows(&mut blocker, "BEGIN; LOCK TABLE smsc.account").unwrap();
    std::thread::scope(|scope| {
        let put = Operation::PutAccount(Box::new(Account::unlimited(2)));
        let waiting = scope.spawn(|| session.call(put));
        while given.root("sms", "SELECT 1 FROM pg_locks WHERE NOT granted").is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        store.abandon();
        assert!(matches!(waiting.join().unwrap(), Err(StoreError::Abandoned)));
    });
    assert!(matches!(store.session(Acknowledge::Durable).err(), Some(StoreError::Abandoned)));
    drop(session);
    drop(store);
    // The server notices that the client has gone, although its statement still waits.
    let store = {
        let url = PostgresqlUrl::parse(&url).unwrap();
        PostgresqlStore::at(&url, Rules::default(), 8, Opening::Existing).unwrap()
    };
    foreign_server::rows(&mut blocker, "COMMIT").unwrap();
    let found = store.session(Acknowledge::Durable).unwrap().call(Operation::Account(1)).unwrap();
    assert_eq!(found, Outcome::Account(Some(Account::unlimited(1))));
}

/// Only what was made is taken away, and nothing on which somebody else's depends.
#[test]
fn clearing_takes_no_more_than_was_made() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let url = given.checked_url("owner", "");
    let schemas = || given.root("sms", "SELECT 1 FROM pg_namespace WHERE nspname = 'smsc'").len();
    let store = open(&url);
    receive(&mut *store.session(Acknowledge::Durable).unwrap(), message(1, b"x"));
    assert!(!store.is_empty().unwrap());
    given.root("sms", "CREATE VIEW public.precious AS SELECT * FROM smsc.message");
    let error = store.clear().unwrap_err().to_string();
    assert!(error.contains("depend"), "{error}");
    assert!(!store.is_empty().unwrap(), "nothing is taken away by halves");
    given.root("sms", "DROP VIEW public.precious; CREATE TABLE smsc.others(id int)");
    assert!(store.clear().is_err());
    assert!(!store.is_empty().unwrap());
    given.root("sms", "DROP TABLE smsc.others");
    store.clear().unwrap();
    drop(store);
    assert_eq!(schemas(), 0);
    // The schema was there, the store was not.
    given.root("sms", "CREATE SCHEMA smsc AUTHORIZATION owner");
    open(&url).clear().unwrap();
    assert_eq!(schemas(), 1);
    // The store was there.
    drop(open(&url));
    let store = open(&url);
    receive(&mut *store.session(Acknowledge::Durable).unwrap(), message(1, b"x"));
    store.clear().unwrap();
    assert!(store.is_empty().unwrap());
    let identity = store.identity();
    drop(store);
    assert_eq!(open(&url).identity(), identity);
}
