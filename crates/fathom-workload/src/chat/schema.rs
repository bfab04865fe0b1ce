//! KakaoTalk's `chat_logs` as the paper gives it.

/// The table and its five indexes. The paper numbers the indexes from 1; the first is unique.
pub const SCHEMA: &str = "
CREATE TABLE chat_logs (
    _id INTEGER PRIMARY KEY AUTOINCREMENT,
    id INTEGER,
    type INTEGER,
    chat_id INTEGER,
    user_id INTEGER,
    message TEXT,
    attachment TEXT,
    created_at INTEGER,
    is_temp INTEGER,
    v TEXT,
    deleted_at INTEGER NOT NULL DEFAULT 0,
    client_message_id INTEGER
);
CREATE UNIQUE INDEX chat_logs_index1 ON chat_logs (chat_id, id);
CREATE INDEX chat_logs_index2 ON chat_logs (chat_id);
CREATE INDEX chat_logs_index3 ON chat_logs (created_at);
CREATE INDEX chat_logs_index4 ON chat_logs (chat_id, type);
CREATE INDEX chat_logs_index5 ON chat_logs (chat_id, deleted_at);
";

/// The INSERT of one message; SQLite gives `_id`.
pub const INSERT: &str = "INSERT INTO chat_logs (id, type, chat_id, user_id, message, attachment, created_at, is_temp, v, deleted_at, \
     client_message_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
