//! Whether the tables fit together, as far as a look at the start tells. Somebody may have emptied
//! one of them, or restored some: then messages would be accepted that end the centre soon.
//!
//! A thousand rows of each table at most are looked at, found by their keys, so that a start takes
//! no longer on a long table. `smsc check` looks at all of them.

use super::quote::identifier;
use super::url::PostgresqlUrl;
use super::wire::Wire;
use crate::model::{SHARDS_ALL, State, StationState};
use crate::store::StoreError;

/// Rows of a table that are looked at.
const ROWS: usize = 1000;
/// Of `ms_state`, for each shard and state.
const SHARD_ROWS: usize = 50;

/// Refuses a store whose tables contradict each other.
pub(super) fn check(wire: &mut Wire, url: &PostgresqlUrl) -> Result<(), StoreError> {
    check_numbers(wire, url)?;
    let (enroute, scheduled) = (State::Enroute as i64, State::Scheduled as i64);
    let forwarded = State::Forwarded as i64;
    let (wait, absent) = (StationState::Wait as i64, StationState::Absent as i64);
    // What is looked at, when it is wrong, and what to say: an expression of a text.
    let looks = [
        (
            "to_delivery d LEFT JOIN message m USING (msg_id)".to_owned(),
            format!("m.state IS DISTINCT FROM {enroute}"),
            "'message ' || d.msg_id || ' is in to_delivery, and not in message as one that waits'",
        ),
        (
            "to_delivery d LEFT JOIN ms_state s USING (dst_key)".to_owned(),
            "s.queue IS NULL OR s.queue < 1".to_owned(),
            "'message ' || d.msg_id || ' waits for a station whose row in ms_state does not know of it'",
        ),
        (
            "to_delivery d JOIN message m USING (msg_id)".to_owned(),
            "(SELECT count(*) FROM encoded_msg e WHERE e.msg_id = d.msg_id) <> m.parts".to_owned(),
            "'message ' || d.msg_id || ' has not its parts in encoded_msg'",
        ),
        (
            "encoded_msg d LEFT JOIN message m USING (msg_id)".to_owned(),
            format!("m.state IS NULL OR m.state NOT IN ({enroute}, {scheduled})"),
            "'a part of message ' || d.msg_id || ' is in encoded_msg, and in message is none that waits'",
        ),
        (
            "scheduled_msg d LEFT JOIN message m USING (msg_id)".to_owned(),
            format!("m.state IS DISTINCT FROM {scheduled}"),
            "'message ' || d.msg_id || ' is in scheduled_msg, and not in message as one that is scheduled'",
        ),
        (
            "ms_state d".to_owned(),
            "d.queue > 0 AND NOT EXISTS (SELECT FROM to_delivery q WHERE q.dst_key = d.dst_key)".to_owned(),
            "'ms_state has ' || d.queue || ' messages for a station for which none is in to_delivery'",
        ),
        (
            "ms_state d".to_owned(),
            format!(
                "d.state IN ({wait}, {absent}) AND NOT EXISTS (SELECT FROM retry_timer t WHERE t.dst_key = d.dst_key \
                 AND t.due_us = d.ready_us)"
            ),
            "'a station of ms_state waits for a timer that is not in retry_timer (key ' || d.dst_key || ')'",
        ),
        (
            "retry_timer d LEFT JOIN ms_state s USING (dst_key)".to_owned(),
            "s.dst_key IS NULL".to_owned(),
            "'a timer of retry_timer is of a station that is not in ms_state (key ' || d.dst_key || ')'",
        ),
        (
            "forwarded d LEFT JOIN message m USING (msg_id)".to_owned(),
            format!("m.state IS DISTINCT FROM {forwarded}"),
            "'message ' || d.msg_id || ' is in forwarded, and not in message as one that a peer has'",
        ),
        (
            "message d".to_owned(),
            format!(
                "d.state = {scheduled} AND NOT EXISTS (SELECT FROM scheduled_msg s WHERE s.due_us = d.schedule_us \
                 AND s.msg_id = d.msg_id)"
            ),
            "'message ' || d.msg_id || ' is scheduled, and not in scheduled_msg'",
        ),
    ];
    for (tables, wrong, words) in looks {
        // The first table, of which the newest rows are looked at where they have numbers.
        let (first, rest) = tables.split_once(" d").unwrap_or((&tables, ""));
        let rows = match first {
            "message" => format!("SELECT * FROM message ORDER BY msg_id DESC LIMIT {ROWS}"),
            // Most stations have nothing queued: the run queue has the others.
            "ms_state" => format!(
                "SELECT r.* FROM generate_series(0, {}) g(number), (VALUES (1), (2), (3), (4)) v(code), LATERAL \
                 (SELECT * FROM ms_state WHERE shard = g.number AND state = v.code LIMIT {SHARD_ROWS}) r",
                SHARDS_ALL - 1
            ),
            other => format!("SELECT * FROM {other} LIMIT {ROWS}"),
        };
        let asked = format!("SELECT {words} FROM ({rows}) d{rest} WHERE {wrong} LIMIT 1");
        let problem = wire.one(&asked)?;
        if !problem.is_empty() {
            let schema = identifier(&url.schema);
            return Err(wire.refused(format!(
                "the tables of schema {schema} contradict each other: {problem}. Somebody has changed or emptied one \
                 of them. Nothing was changed now: restore all of the schema from one backup; `smsc check` tells all \
                 that is wrong"
            )));
        }
    }
    Ok(())
}

/// Numbers of messages have to be new.
fn check_numbers(wire: &mut Wire, url: &PostgresqlUrl) -> Result<(), StoreError> {
    let asked = "SELECT s.seqincrement < 1 OR s.seqcycle, coalesce(pg_sequence_last_value(s.seqrelid), 0), \
                 (SELECT coalesce(max(msg_id), 0) FROM message) FROM pg_sequence s \
                 WHERE s.seqrelid = 'msg_id_seq'::regclass";
    let row = wire.texts(asked)?.pop().unwrap_or_default();
    let [goes_back, last, greatest] = &row[..] else {
        return Err(wire.refused("the server does not tell where the sequence msg_id_seq stands"));
    };
    let sequence = format!("{}.msg_id_seq", identifier(&url.schema));
    if goes_back == "t" {
        return Err(wire.refused(format!(
            "the sequence msg_id_seq gives numbers again: ALTER SEQUENCE {sequence} INCREMENT 1 NO CYCLE"
        )));
    }
    let number = |text: &String| text.parse::<i64>().unwrap_or(0);
    if number(last) < number(greatest) {
        return Err(wire.refused(format!(
            "the sequence msg_id_seq stands at {last}, and message {greatest} is there: SELECT setval('{sequence}', \
             {greatest})"
        )));
    }
    Ok(())
}
