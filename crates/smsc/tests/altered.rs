//! A store on a server whose administrator has changed its tables: told at the start, and not by
//! the messages that fail later. Each case is put right by what the refusal says, where it says it.
#![allow(clippy::unwrap_used)]

mod common;
mod foreign_server;

use common::{message, receive};
use foreign_server::ForeignServer;
use smsc::centre::{Channel, Operation, Outcome, Rules};
use smsc::housekeeping::recover;
use smsc::model::Message;
use smsc::store::{
    Acknowledge, Opening, PostgresqlSnapshot, PostgresqlStore, PostgresqlUrl, Store, StoreError,
};

fn open(url: &str) -> Result<PostgresqlStore, StoreError> {
    PostgresqlStore::at(&PostgresqlUrl::parse(url).unwrap(), Rules::default(), 8, Opening::OrCreate)
}

/// A server with a store in which messages wait, are scheduled, in flight, and wait for a retry.
fn filled() -> Option<(ForeignServer, String)> {
    let given = ForeignServer::start(&[])?;
    let url = given.checked_url("owner", "");
    fill(&url);
    Some((given, url))
}

fn fill(url: &str) {
    let store = open(url).unwrap();
    recover(&store, common::NOW_US).unwrap();
    let mut session = store.session(Acknowledge::Durable).unwrap();
    for station in 0..30 {
        receive(&mut *session, message(station, b"hello"));
    }
    let scheduled = Message { schedule_us: common::NOW_US + 60_000_000, ..message(40, b"later") };
    receive(&mut *session, scheduled);
    let claim = Operation::Claim { channel: Channel::All(0), spread: 0, max: 3, now_us: common::NOW_US };
    let Outcome::Claimed(mut claimed) = session.call(claim).unwrap() else { panic!("nothing was claimed") };
    let one = claimed.pop().unwrap();
    let completion = smsc::centre::Completion {
        station: one.station,
        epoch: one.epoch,
        message: one.message,
        verdict: smsc::centre::Verdict::Temporary {
            error: 27,
            absent: true,
            retry_us: common::NOW_US + 60_000_000,
        },
        receipt: None,
        now_us: common::NOW_US,
    };
    session.call(Operation::Complete(Box::new(completion))).unwrap();
}

fn refusal(url: &str) -> String {
    let error = open(url).err().unwrap_or_else(|| panic!("it was opened")).to_string();
    assert!(!error.contains("secret"), "{error}");
    error
}

/// What the refusal says to do: the statement behind the last colon.
fn advice(refusal: &str) -> &str {
    let (_, statement) = refusal.rsplit_once(": ").unwrap();
    statement.split(", without another").next().unwrap()
}

#[test]
fn a_table_that_was_changed_is_refused_with_the_statement_that_puts_it_right() {
    let Some((given, url)) = filled() else { return };
    given.root("sms", "CREATE TABLE public.others(msg_id bigint PRIMARY KEY)");
    for (change, words) in [
        ("ALTER TABLE smsc.message ADD COLUMN note text", "column \"note\" that is not the store's"),
        (
            "ALTER TABLE smsc.message ALTER COLUMN body DROP NOT NULL",
            "column body of table message may be NULL",
        ),
        (
            "ALTER TABLE smsc.ms_state ALTER COLUMN queue TYPE bigint",
            "column queue of table ms_state is bigint, not integer",
        ),
        ("ALTER TABLE smsc.message ALTER COLUMN dst TYPE varchar(20)", "is character varying(20)"),
        (
            "ALTER TABLE smsc.message ALTER COLUMN src TYPE text COLLATE \"en-x-icu\"",
            "not text COLLATE \"C\"",
        ),
        ("DROP INDEX smsc.ms_state_run_queue", "lacks its index ms_state_run_queue"),
        ("ALTER TABLE smsc.to_delivery DROP CONSTRAINT to_delivery_pkey", "has not its primary key"),
        ("CREATE UNIQUE INDEX one ON smsc.message(dst_key)", "the unique index \"one\""),
        (
            "ALTER TABLE smsc.message ADD CONSTRAINT small CHECK (priority < 9)",
            "constraint small of table smsc.message",
        ),
        (
            "ALTER TABLE public.others ADD CONSTRAINT own FOREIGN KEY (msg_id) REFERENCES smsc.message",
            "constraint own of table public.others",
        ),
        ("ALTER SEQUENCE smsc.msg_id_seq CYCLE", "gives numbers again"),
        ("SELECT setval('smsc.msg_id_seq', 3)", "stands at 3, and message 31 is there"),
        (
            "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
             CREATE TRIGGER swallow BEFORE INSERT ON smsc.message FOR EACH ROW EXECUTE FUNCTION public.f()",
            "trigger swallow on table message",
        ),
        (
            "CREATE RULE nothing AS ON DELETE TO smsc.to_delivery DO INSTEAD NOTHING",
            "rule nothing on table to_delivery",
        ),
    ] {
        given.root("sms", change);
        let error = refusal(&url);
        assert!(error.contains(words), "{change}: {error}");
        if !words.contains("msg_id") && !words.contains("numbers again") && !words.contains("stands at") {
            // Whoever only looks is told, too.
            let looked = PostgresqlSnapshot::open(&PostgresqlUrl::parse(&url).unwrap()).err();
            assert!(looked.is_some_and(|error| error.to_string().contains(words)), "{change}");
        }
        given.root("sms", advice(&error));
        drop(open(&url).unwrap_or_else(|error| panic!("{change}: {error}")));
    }
    // What can be put right by a backup alone.
    given.root("sms", "ALTER TABLE smsc.sent DROP COLUMN parts");
    assert!(refusal(&url).contains("table sent has lost its column parts: restore"));
    given.root("sms", "ALTER TABLE smsc.sent ADD COLUMN parts smallint NOT NULL");
    drop(open(&url).unwrap());
    given.root(
        "sms",
        "ALTER TABLE smsc.sent DROP COLUMN done_us; ALTER TABLE smsc.sent ADD COLUMN done_us bigint NOT NULL",
    );
    assert!(refusal(&url).contains("in another order"));
}

/// What does no harm is said, and no more.
#[test]
fn what_is_odd_and_harmless_is_a_remark() {
    let Some((given, url)) = filled() else { return };
    given.root("sms", "CREATE INDEX slow ON smsc.message(account)");
    given.root(
        "sms",
        "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER audit AFTER INSERT ON smsc.message FOR EACH ROW EXECUTE FUNCTION public.f()",
    );
    // An index that was made again under another name is the same.
    given.root("sms", "ALTER INDEX smsc.ms_state_run_queue RENAME TO other");
    let store = open(&url).unwrap();
    let remarks = store.remarks().join("\n");
    assert!(remarks.contains("index \"slow\"") && remarks.contains("trigger audit"), "{remarks}");
    assert!(!remarks.contains("other"), "{remarks}");
    receive(&mut *store.session(Acknowledge::Durable).unwrap(), message(1, b"x"));
    drop(store);
    // A function that somebody has changed is made again by who may.
    for change in [
        "DROP FUNCTION smsc.smsc_receive_batch",
        "CREATE OR REPLACE FUNCTION smsc.smsc_lock(p_key bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT p_key'",
    ] {
        given.root("sms", change);
        let store = open(&url).unwrap();
        receive(&mut *store.session(Acknowledge::Durable).unwrap(), message(1, b"x"));
    }
}

/// After TRUNCATE of one table every start listened, acknowledged a dozen messages and ended.
#[test]
fn tables_that_contradict_each_other_are_refused() {
    let Some((given, url)) = filled() else { return };
    let tables = ["message", "to_delivery", "ms_state", "encoded_msg", "scheduled_msg", "retry_timer"];
    for table in tables {
        given.root(
            "sms",
            &format!("CREATE TABLE public.kept AS SELECT * FROM smsc.{table}; TRUNCATE smsc.{table}"),
        );
        let error = refusal(&url);
        assert!(error.contains("contradict each other") && error.contains(table), "{table}: {error}");
        given.root(
            "sms",
            &format!("INSERT INTO smsc.{table} SELECT * FROM public.kept; DROP TABLE public.kept"),
        );
        drop(open(&url).unwrap_or_else(|error| panic!("{table}: {error}")));
    }
    // All of them: a store without messages.
    given.root("sms", &format!("TRUNCATE smsc.{}", tables.join(", smsc.")));
    fill(&url);
}

/// A limit of the role ended the first statement of each session, and nobody knew whose it was.
#[test]
fn a_limit_of_the_role_is_named() {
    let Some((given, url)) = filled() else { return };
    given.root("sms", "ALTER ROLE owner SET statement_timeout = '1ms'");
    // A statement may be done in that time: then all is well, as the session lifts the limit.
    for _ in 0..20 {
        match open(&url) {
            Ok(_) => {}
            Err(error) => return assert!(error.to_string().contains("statement_timeout = 0"), "{error}"),
        }
    }
}
