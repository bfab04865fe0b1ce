//! The rows of `chat_logs`: a seeded stream of messages as a messenger stores them.
//!
//! * **Chats** are drawn by Zipf's law, so a few hold most of the messages. Chat ids lie at least
//!   10^9 apart.
//! * **`id`** (the server's number of a message) grows with every message and never repeats, in any
//!   chat. The pair (chat_id, id) stays unique whatever `chat_id` becomes: the paper's
//!   `SET chat_id = chat_id + 10` cannot meet a row of another chat with the same id.
//! * **Times** come in bursts (most messages follow another within half a minute) and pause at
//!   night; they never run back.
//! * **Kinds** of messages: text 78 %, photo 12 %, sticker 6 %, video 1.5 %, file 1.5 %, reply 1 %,
//!   with the numbers that KakaoTalk uses (1, 2, 12, 3, 18, 26). All but text carry an attachment
//!   as JSON.
//! * **`v`** is the JSON of the client's own notes on a message, as KakaoTalk keeps it on every
//!   row.

use serde_json::json;

use super::text::{self, Language, exponential};
use super::zipf::Zipf;
use crate::engine::Value;
use fathom_random::Random;

/// Number of columns of `chat_logs`.
pub const COLUMNS: usize = 12;

/// The columns in the table's order.
pub const COLUMN_NAMES: [&str; COLUMNS] = [
    "_id",
    "id",
    "type",
    "chat_id",
    "user_id",
    "message",
    "attachment",
    "created_at",
    "is_temp",
    "v",
    "deleted_at",
    "client_message_id",
];

/// The kinds of messages with their shares in thousandths.
const KINDS: [(i64, u64); 6] = [(1, 780), (2, 120), (12, 60), (3, 15), (18, 15), (26, 10)];

/// The phone's owner.
const OWNER: i64 = 100_000_001;

/// 2013-11-01 00:00:00 UTC: when the paper's phone came out.
const START_S: i64 = 1_383_264_000;

/// KST = UTC + 9 h.
const KST_S: i64 = 9 * 3600;

/// One row of `chat_logs`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// `_id`, the row's own key.
    pub key: i64,
    /// `id`: the server's number, unique in the table.
    pub id: i64,
    /// `type`.
    pub kind: i64,
    /// `chat_id`.
    pub chat_id: i64,
    /// `user_id`: who wrote it.
    pub user_id: i64,
    /// `message`.
    pub message: String,
    /// `attachment`: JSON, or none.
    pub attachment: Option<String>,
    /// `created_at`: seconds since 1970.
    pub created_at: i64,
    /// `is_temp`.
    pub is_temp: i64,
    /// `v`: JSON.
    pub v: String,
    /// `deleted_at`: seconds since 1970, or 0.
    pub deleted_at: i64,
    /// `client_message_id`.
    pub client_message_id: i64,
}

impl Message {
    /// The row in the columns' order, as values to bind.
    #[must_use]
    pub fn values(self) -> [Value; COLUMNS] {
        [
            Value::Integer(self.key),
            Value::Integer(self.id),
            Value::Integer(self.kind),
            Value::Integer(self.chat_id),
            Value::Integer(self.user_id),
            Value::Text(self.message),
            self.attachment.map_or(Value::Null, Value::Text),
            Value::Integer(self.created_at),
            Value::Integer(self.is_temp),
            Value::Text(self.v),
            Value::Integer(self.deleted_at),
            Value::Integer(self.client_message_id),
        ]
    }
}

/// One chat: its id, language and members.
#[derive(Clone, Debug)]
struct Chat {
    id: i64,
    language: Language,
    members: Vec<i64>,
}

/// The endless stream of messages of a seed. Cloning it gives the same rest of the stream again.
#[derive(Clone, Debug)]
pub struct Messages {
    random: Random,
    chats: std::sync::Arc<[Chat]>,
    activity: Zipf,
    /// Of the message before.
    key: i64,
    id: i64,
    time_s: i64,
}

impl Messages {
    /// The stream of this seed over `chats` chats (at least 1 is assumed), their activity by Zipf's
    /// law with this exponent.
    #[must_use]
    pub fn new(seed: u64, chats: usize, exponent: f64) -> Self {
        let mut random = Random::stream(seed, "chats", 0);
        // Which places on the line of ids are taken is random, so the busiest chats are not
        // neighbours in the indexes.
        let places = random.distinct(chats as u64, 1_000_000);
        let chats: Vec<Chat> = places.into_iter().map(|place| chat(place, &mut random)).collect();
        Messages {
            activity: Zipf::new(chats.len(), exponent),
            chats: chats.into(),
            random: Random::stream(seed, "messages", 0),
            key: 0,
            id: 600_000_000_000_000_000,
            time_s: START_S,
        }
    }
}

/// A chat at this place: four of five are Korean; half are between two people, the others are
/// groups of up to 40.
fn chat(place: u64, random: &mut Random) -> Chat {
    let id = 30_000_000_000_000_000 + place as i64 * 1_000_000_000 + random.between(0, 1_000_000);
    let language = if random.below(5) == 0 { Language::English } else { Language::Korean };
    let others = if random.below(2) == 0 { 1 } else { 2 + (exponential(random) * 5.0).min(37.0) as usize };
    let members = (0..others).map(|_| random.between(1_000_000, 99_999_999)).collect();
    Chat { id, language, members }
}

impl Iterator for Messages {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let random = &mut self.random;
        let chat = &self.chats[self.activity.draw(random)];
        self.key += 1;
        // About 2^32 numbers a second are the server's; ours are some of them.
        self.id += random.between(1, 1 << 32);
        self.time_s = later(self.time_s, random);
        let kind = kind(random);
        let mine = random.below(5) < 2;
        let user_id = if mine { OWNER } else { *random.pick(&chat.members) };
        let deleted = random.below(200) == 0;
        Some(Message {
            key: self.key,
            id: self.id,
            kind,
            chat_id: chat.id,
            user_id,
            message: body(kind, chat.language, random),
            attachment: attachment(kind, self.id, random),
            created_at: self.time_s,
            is_temp: 0,
            v: notes(mine, self.time_s),
            deleted_at: if deleted { self.time_s + random.between(5, 86_400) } else { 0 },
            client_message_id: random.between(1, i64::from(i32::MAX)),
        })
    }
}

fn kind(random: &mut Random) -> i64 {
    let mut point = random.below(1000);
    for (kind, share) in KINDS {
        if point < share {
            return kind;
        }
        point -= share;
    }
    KINDS[0].0
}

/// The time of the next message: in five of six cases about 20 seconds later, else about half an
/// hour; nine of ten that would fall between 1 and 7 at night wait for the morning.
fn later(time_s: i64, random: &mut Random) -> i64 {
    let mean_s = if random.below(6) == 0 { 1_800.0 } else { 20.0 };
    let next_s = time_s + (exponential(random) * mean_s) as i64;
    let of_day_s = (next_s + KST_S).rem_euclid(86_400);
    let night = (3_600..25_200).contains(&of_day_s);
    if night && random.below(10) != 0 {
        next_s - of_day_s + 25_200 + (exponential(random) * 3_600.0) as i64
    } else {
        next_s
    }
}

/// What stands in `message`: the text itself, or what the client shows for other kinds.
fn body(kind: i64, language: Language, random: &mut Random) -> String {
    let word = |korean: &str, english: &str| match language {
        Language::Korean => korean.to_owned(),
        Language::English => english.to_owned(),
    };
    match kind {
        2 => word("사진", "Photo"),
        3 => word("동영상", "Video"),
        12 => word("이모티콘", "Sticker"),
        18 => word("파일", "File"),
        _ => text::message(language, random),
    }
}

/// The attachment's JSON by kind; none for text.
fn attachment(kind: i64, id: i64, random: &mut Random) -> Option<String> {
    let hex = |random: &mut Random| format!("{:016x}{:016x}", random.bits(), random.bits());
    let key = hex(random);
    let json = match kind {
        2 => json!({
            "thumbnailUrl": format!("https://media.example.com/th/{key}.jpg"),
            "url": format!("https://media.example.com/img/{key}.jpg"),
            "w": random.between(240, 3264), "h": random.between(240, 3264),
            "s": random.between(20_000, 4_000_000), "cs": hex(random), "mt": "image/jpeg",
        }),
        3 => json!({
            "url": format!("https://media.example.com/video/{key}.mp4"), "tk": key,
            "d": random.between(1, 300), "s": random.between(200_000, 50_000_000), "cs": hex(random),
        }),
        12 => json!({
            "name": "(이모티콘)", "type": "image/webp",
            "path": format!("{}.emot_{:03}.webp", random.between(1_000_000, 9_999_999), random.between(1, 40)),
        }),
        18 => json!({
            "name": format!("문서_{}.pdf", random.between(1, 9_999)), "s": random.between(1_000, 20_000_000),
            "url": format!("https://media.example.com/file/{key}"), "cs": hex(random),
        }),
        26 => json!({
            "src_logId": id - random.between(1, 1 << 40), "src_userId": random.between(1_000_000, 99_999_999),
            "src_message": text::message(Language::Korean, random), "src_type": 1,
        }),
        _ => return None,
    };
    Some(json.to_string())
}

/// The client's notes on a message.
fn notes(mine: bool, time_s: i64) -> String {
    let of_day_s = (time_s + KST_S).rem_euclid(86_400);
    let clock = format!("{:02}:{:02}:{:02}", of_day_s / 3600, of_day_s / 60 % 60, of_day_s % 60);
    json!({
        "notDecoded": false, "origin": if mine { "WRITE" } else { "MSG" }, "c": clock, "modifyRevision": 0,
        "isMine": mine, "enc": 0,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn some(seed: u64, count: usize) -> Vec<Message> {
        Messages::new(seed, 100, 1.0).take(count).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn ids_are_unique_and_grow_and_times_never_run_back(seed: u64) {
            for (index, pair) in some(seed, 2_000).windows(2).enumerate() {
                prop_assert_eq!(pair[0].key, index as i64 + 1);
                prop_assert!(pair[0].id < pair[1].id);
                prop_assert!(pair[0].created_at <= pair[1].created_at);
            }
        }

        #[test]
        fn attachments_and_notes_are_json(seed: u64) {
            for message in some(seed, 1_000) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&message.v).is_ok_and(|v| v.is_object()));
                prop_assert_eq!(message.attachment.is_none(), message.kind == 1);
                if let Some(json) = message.attachment {
                    let parsed = serde_json::from_str::<serde_json::Value>(&json);
                    prop_assert!(parsed.is_ok_and(|v| v.is_object()), "{}", json);
                }
            }
        }

        #[test]
        fn chat_ids_lie_apart_so_that_moved_rows_meet_no_other_chat(seed: u64, chats in 1_usize..500) {
            let mut ids: Vec<i64> = Messages::new(seed, chats, 1.0).chats.iter().map(|chat| chat.id).collect();
            ids.sort_unstable();
            prop_assert!(ids.windows(2).all(|pair| pair[1] - pair[0] >= 999_000_000));
        }
    }

    #[test]
    fn the_busiest_chat_has_its_share_by_zipf() {
        let mut counts: HashMap<i64, u32> = HashMap::new();
        for message in some(9, 50_000) {
            *counts.entry(message.chat_id).or_default() += 1;
        }
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        let share = f64::from(*counts.values().max().expect("there are chats")) / 50_000.0;
        assert!((share - 1.0 / harmonic).abs() < 0.01, "{share} against {}", 1.0 / harmonic);
        assert!(counts.len() > 90, "{} chats", counts.len());
    }

    #[test]
    fn kinds_have_their_shares_and_both_languages_occur() {
        let messages = some(4, 50_000);
        for (kind, share) in KINDS {
            let count = messages.iter().filter(|message| message.kind == kind).count();
            let expected = share as f64 * 50.0;
            assert!(
                (count as f64 - expected).abs() < 5.0 * expected.sqrt(),
                "kind {kind}: {count}, not {expected}"
            );
        }
        let ascii = messages.iter().filter(|message| message.message.is_ascii()).count();
        assert!((1_000..25_000).contains(&ascii), "{ascii} of 50,000 are English");
    }

    #[test]
    fn same_seed_same_rows_other_seed_other_rows_and_a_clone_goes_on_alike() {
        assert_eq!(some(1, 300), some(1, 300));
        assert_ne!(some(1, 300), some(2, 300));
        let mut stream = Messages::new(1, 10, 1.0);
        stream.by_ref().take(50).for_each(drop);
        let rest: Vec<Message> = stream.clone().take(50).collect();
        assert_eq!(rest, stream.take(50).collect::<Vec<_>>());
        assert_eq!(rest[0].key, 51);
    }

    #[test]
    fn users_of_a_chat_are_its_members_or_the_owner() {
        let stream = Messages::new(3, 20, 1.0);
        let members: HashMap<i64, HashSet<i64>> =
            stream.chats.iter().map(|chat| (chat.id, chat.members.iter().copied().collect())).collect();
        for message in stream.take(2_000) {
            assert!(message.user_id == OWNER || members[&message.chat_id].contains(&message.user_id));
        }
    }
}
