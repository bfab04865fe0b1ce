/* Incremental blob I/O: each call with its place and length, and the bytes that are written. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "preload.h"

typedef struct Blob { struct Blob *next; sqlite3_blob *handle; Connection *connection; uint32_t number; } Blob;

enum { BUCKETS = 256 };
static Blob *blobs[BUCKETS];

enum { CALL_OPEN, CALL_READ, CALL_WRITE, CALL_REOPEN, CALL_CLOSE };

static Blob **place_of(sqlite3_blob *handle) {
  Blob **at = &blobs[((uintptr_t)handle >> 4) % BUCKETS];
  while (*at && (*at)->handle != handle) at = &(*at)->next;
  return at;
}

/* `db`: null where it may be gone. `bits`: 1, it may be written. The lock is held. */
static void put_blob(Connection *connection, sqlite3 *db, uint32_t number, int call, uint64_t start, uint64_t end, uint64_t bits,
                     int64_t place, int64_t bytes, int code, Text *texts, int text_count) {
  if (db) settle(connection);
  texts[0] = message_of(db, &code);
  if (db && !real.get_autocommit(db)) bits |= 2;
  uint64_t words[] = {number | (uint64_t)call << 32, bits, (uint64_t)place, (uint64_t)bytes, (uint64_t)(int64_t)code};
  put(TAG_BLOB, connection, start, end, words, 5, texts, text_count);
}

static void called(sqlite3_blob *handle, int call, uint64_t start, int64_t place, int64_t bytes, int code, Text data) {
  uint64_t end = now_ns();
  spool_lock();
  Blob *blob = *place_of(handle);
  if (blob) {
    Text texts[2] = {{NULL, 0}, data};
    put_blob(blob->connection, blob->connection->db, blob->number, call, start, end, 0, place, bytes, code, texts,
             call == CALL_WRITE ? 2 : 1);
  }
  spool_unlock();
}

SQLITE_API int sqlite3_blob_open(sqlite3 *db, const char *schema, const char *table, const char *column, sqlite3_int64 row, int writes,
                                 sqlite3_blob **out) {
  int result, is_recorded = recorded();
  NEED(blob_open);
  uint64_t start = now_ns();
  WITHIN(real.blob_open(db, schema, table, column, row, writes, out));
  if (!is_recorded || !db || !out) return result;
  uint64_t end = now_ns();
  int64_t bytes = result == SQLITE_OK && real.blob_bytes ? real.blob_bytes(*out) : 0;
  spool_lock();
  Connection *connection = connection_of(db);
  if (connection) {
    Text texts[] = {{NULL, 0}, text_of(schema), text_of(table), text_of(column)};
    uint32_t number = connection->blobs;
    Blob *fresh = result == SQLITE_OK && *out ? calloc(1, sizeof *fresh) : NULL;
    if (fresh) {
      Blob **bucket = &blobs[((uintptr_t)*out >> 4) % BUCKETS];
      *fresh = (Blob){*bucket, *out, connection, number};
      *bucket = fresh;
      connection->blobs++, connection->statements++;
    }
    put_blob(connection, db, number, CALL_OPEN, start, end, writes ? 1 : 0, row, bytes, result, texts, 4);
  }
  spool_unlock();
  return result;
}

SQLITE_API int sqlite3_blob_reopen(sqlite3_blob *blob, sqlite3_int64 row) {
  int result, is_recorded = recorded();
  NEED(blob_reopen);
  uint64_t start = now_ns();
  WITHIN(real.blob_reopen(blob, row));
  if (is_recorded && blob) {
    int64_t bytes = result == SQLITE_OK && real.blob_bytes ? real.blob_bytes(blob) : 0;
    called(blob, CALL_REOPEN, start, row, bytes, result, (Text){NULL, 0});
  }
  return result;
}

SQLITE_API int sqlite3_blob_read(sqlite3_blob *blob, void *into, int bytes, int offset) {
  int result, is_recorded = recorded();
  NEED(blob_read);
  uint64_t start = now_ns();
  WITHIN(real.blob_read(blob, into, bytes, offset));
  if (is_recorded && blob) called(blob, CALL_READ, start, offset, bytes, result, (Text){NULL, 0});
  return result;
}

SQLITE_API int sqlite3_blob_write(sqlite3_blob *blob, const void *data, int bytes, int offset) {
  int result, is_recorded = recorded();
  NEED(blob_write);
  uint64_t start = now_ns();
  WITHIN(real.blob_write(blob, data, bytes, offset));
  if (is_recorded && blob) {
    /* A negative length is refused, like a negative place, by which it is recorded. */
    int64_t place = bytes < 0 ? -1 : offset;
    called(blob, CALL_WRITE, start, place, bytes, result, (Text){data, data && bytes > 0 ? (size_t)bytes : 0});
  }
  return result;
}

SQLITE_API int sqlite3_blob_close(sqlite3_blob *handle) {
  int result, is_recorded = recorded();
  NEED(blob_close);
  if (!is_recorded || !handle) return WITHIN(real.blob_close(handle));
  /* Taken out first: another thread may be given the same address at once. */
  spool_lock();
  Blob **at = place_of(handle), *blob = *at;
  if (blob) *at = blob->next;
  spool_unlock();
  uint64_t start = now_ns();
  WITHIN(real.blob_close(handle));
  if (!blob) return result;
  uint64_t end = now_ns();
  spool_lock();
  Connection *connection = blob->connection;
  Text message;
  /* The last blob of a connection that was closed before takes the connection with it. */
  sqlite3 *db = connection->is_closed ? NULL : connection->db;
  put_blob(connection, db, blob->number, CALL_CLOSE, start, end, 0, 0, 0, result, &message, 1);
  connection->statements--;
  if (connection->is_closed && !connection->statements) put_close(connection, end, now_ns());
  release(connection);
  spool_unlock();
  free(blob);
  return result;
}
