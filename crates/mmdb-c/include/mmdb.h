// mmdb.h: an embedded main-memory DBMS with parallel differential logging, for C and C++.
//
// Written by cbindgen from the crate mmdb-c. README.md there has an example.
//
// Status. A function that can fail returns an mmdb_status: MMDB_STATUS_OK, which is 0, or what went
// wrong; mmdb_error_message then has the words. A call that fails leaves its results as they were.
// No call ends the process, and none throws.
//
// Handles. mmdb_database, mmdb_table, mmdb_transaction, mmdb_cursor, mmdb_row, mmdb_snapshot,
// mmdb_ticket, mmdb_blobs, mmdb_options and mmdb_schema are known by their names only. Each is
// freed once, by the function that its maker names, and by no other (never by free). NULL may be freed. NULL in
// another place, a handle of another kind, and most handles that were freed are answered with
// MMDB_STATUS_MISUSE; the last cannot be known for certain, so it must not be relied upon.
// They may be freed in any order: a database stays open until its transactions, snapshots and their
// cursors are gone, and a transaction that has ended leaves its cursors nothing but their handles.
//
// Memory. What a call is given (texts, values, bounds, arrays) it copies, and does not keep. What a
// call gives as a pointer to const belongs to the handle that it came from, and goes with it: the
// values of a row with the row, the row of a cursor with the next call for that cursor, names with
// the table. Texts that are given end with a zero and are UTF-8; values have a size instead.
// An array of no elements may be NULL.
//
// Threads. A database, a table, a snapshot, a ticket and blobs may be used by any number of threads
// at once. A transaction, a cursor, options and a schema may go from thread to thread, and be used by
// one at a time: another one is answered with MMDB_STATUS_MISUSE. Nobody may free a handle that
// another thread is using.
//
// Processes. A database belongs to the process that opened it. A child made by fork may
// only read it: whatever writes is refused with MMDB_STATUS_UNSUPPORTED, and nothing is written.


#ifndef MMDB_H
#define MMDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// From the greatest key to the smallest.
#define MMDB_RANGE_REVERSE 1

// Rows are locked for a change when the cursor comes to them.
#define MMDB_RANGE_FOR_UPDATE 2

// Rows that another transaction has locked are passed over, and only those shown are locked.
#define MMDB_RANGE_SKIP_LOCKED 4

// Bits of an index.
#define MMDB_INDEX_ORDERED 1

// No two rows may have the same key.
#define MMDB_INDEX_UNIQUE 2

// What a call came to. Numbers do not change; later releases may add some.
enum mmdb_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // It was done.
  MMDB_STATUS_OK = 0,
  // A pointer is NULL that may not be, or points to a handle of another kind or one that was
  // freed; a handle is in use by another thread or has a cursor open; a number stands for
  // nothing. Nothing was done, and no handle was freed.
  MMDB_STATUS_MISUSE = 1,
  // A text is not UTF-8.
  MMDB_STATUS_NOT_TEXT = 2,
  // There is no such table, or it was dropped.
  MMDB_STATUS_NO_SUCH_TABLE = 3,
  // There is a table with this name.
  MMDB_STATUS_TABLE_EXISTS = 4,
  // A column was dropped since the table's handle was made: get a new one.
  MMDB_STATUS_TABLE_CHANGED = 5,
  // The table is there, and defined in another way.
  MMDB_STATUS_SCHEMA_DIFFERS = 6,
  // The table has no such column.
  MMDB_STATUS_NO_SUCH_COLUMN = 7,
  // The table has no such index.
  MMDB_STATUS_NO_SUCH_INDEX = 8,
  // No table can have this definition.
  MMDB_STATUS_SCHEMA = 9,
  // An option is out of range, or there is none with this name.
  MMDB_STATUS_OPTIONS = 10,
  // The operation cannot be done with this table.
  MMDB_STATUS_OPERATION = 11,
  // This database cannot do it.
  MMDB_STATUS_UNSUPPORTED = 12,
  // A row is larger than a container holds.
  MMDB_STATUS_ROW_TOO_LARGE = 13,
  // Another row has the key.
  MMDB_STATUS_DUPLICATE_KEY = 14,
  // A value does not fit its column.
  MMDB_STATUS_VALUE = 15,
  // Another transaction has the lock: end this one and run it again (mmdb_run does).
  MMDB_STATUS_DEADLOCK = 16,
  // A lock was not free in time.
  MMDB_STATUS_LOCK_TIMEOUT = 17,
  // Another transaction changed it: end this one and run it again (mmdb_run does).
  MMDB_STATUS_CONFLICT = 18,
  // The changes do not fit into a segment of the log.
  MMDB_STATUS_TRANSACTION_TOO_LARGE = 19,
  // The limit of memory is reached.
  MMDB_STATUS_MEMORY_LIMIT = 20,
  // The system has no memory left.
  MMDB_STATUS_OUT_OF_MEMORY = 21,
  // The table has as many containers as a table can have.
  MMDB_STATUS_TABLE_FULL = 22,
  // The snapshot was given up, because too much has changed since it was opened.
  MMDB_STATUS_SNAPSHOT_EXPIRED = 23,
  // The log has no room.
  MMDB_STATUS_LOG_FULL = 24,
  // An earlier failure ended all writing: open the database again.
  MMDB_STATUS_POISONED = 25,
  // Nobody knows whether the commit is durable: open the database again. Do not run it again as
  // if nothing had been done. The message says if it was only that mmdb_set_wait_check ended the
  // wait.
  MMDB_STATUS_INDETERMINATE = 26,
  // A file contradicts itself.
  MMDB_STATUS_CORRUPT = 27,
  // There is no database.
  MMDB_STATUS_NO_DATABASE = 28,
  // A directory is not what it should be.
  MMDB_STATUS_DIRECTORY = 29,
  // A file is not what it should be.
  MMDB_STATUS_FILE = 30,
  // The system refused a read, a write or the like, or somebody else has the database open.
  MMDB_STATUS_IO = 31,
  // The database is closed.
  MMDB_STATUS_CLOSED = 32,
  // The callback of mmdb_run did not want the transaction to commit.
  MMDB_STATUS_ABORTED = 33,
  // A defect of mmdb. Please report it.
  MMDB_STATUS_INTERNAL = 34,
  // What mmdb_set_wait_check was given ended a wait. A transaction that waited can only be
  // undone: nothing of it was done.
  MMDB_STATUS_INTERRUPTED = 35,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mmdb_status mmdb_status;
#else
typedef int32_t mmdb_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Kinds of values.
enum mmdb_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // NULL.
  MMDB_KIND_NULL = 0,
  // A truth value, 0 or 1 in `integer`.
  MMDB_KIND_BOOL = 1,
  // An integer with a sign, in `integer`.
  MMDB_KIND_INT = 2,
  // An integer without one, in `natural`.
  MMDB_KIND_UINT = 3,
  // A floating-point number, in `real`.
  MMDB_KIND_FLOAT = 4,
  // An exact decimal number: `integer` without its point, and in `scale` the digits behind it.
  MMDB_KIND_DECIMAL = 5,
  // Microseconds since 1970-01-01 UTC, in `integer`.
  MMDB_KIND_TIME = 6,
  // Bytes, `size` of them at `data`.
  MMDB_KIND_BYTES = 7,
  // UTF-8 text, `size` bytes at `data`, without a zero at its end.
  MMDB_KIND_TEXT = 8,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mmdb_kind mmdb_kind;
#else
typedef uint32_t mmdb_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Types of columns.
enum mmdb_type
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Integer of 16 bits.
  MMDB_TYPE_INT16 = 1,
  // Integer of 32 bits.
  MMDB_TYPE_INT32 = 2,
  // Integer of 64 bits.
  MMDB_TYPE_INT64 = 3,
  // Microseconds since 1970-01-01 UTC.
  MMDB_TYPE_TIME = 4,
  // Exactly `size` bytes.
  MMDB_TYPE_FIXED_BYTES = 5,
  // Text of up to `size` bytes, which takes them always.
  MMDB_TYPE_FIXED_TEXT = 6,
  // Up to `size` bytes.
  MMDB_TYPE_VAR_BYTES = 7,
  // Text of up to `size` bytes.
  MMDB_TYPE_VAR_TEXT = 8,
  // Integer of 32 bits without a sign.
  MMDB_TYPE_UINT32 = 9,
  // Integer of 64 bits without a sign.
  MMDB_TYPE_UINT64 = 10,
  // Floating-point number.
  MMDB_TYPE_FLOAT64 = 11,
  // Truth value.
  MMDB_TYPE_BOOL = 12,
  // Decimal number with `size` digits behind its point.
  MMDB_TYPE_DECIMAL = 13,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mmdb_type mmdb_type;
#else
typedef uint32_t mmdb_type;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What is locked by whoever uses a row.
enum mmdb_locking
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The row.
  MMDB_LOCKING_RECORD = 0,
  // All rows on its 4 KiB page.
  MMDB_LOCKING_PAGE = 1,
  // All rows in its container.
  MMDB_LOCKING_CONTAINER = 2,
  // Nothing: no isolation.
  MMDB_LOCKING_NONE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mmdb_locking mmdb_locking;
#else
typedef uint32_t mmdb_locking;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What of a table comes back when the database is opened again.
enum mmdb_logging
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Every acknowledged commit.
  MMDB_LOGGING_LOGGED = 0,
  // What the last checkpoint had.
  MMDB_LOGGING_CHECKPOINTED = 1,
  // Nothing.
  MMDB_LOGGING_VOLATILE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mmdb_logging mmdb_logging;
#else
typedef uint32_t mmdb_logging;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What the numbers of a column count by which rows expire.
enum mmdb_time_unit
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Seconds since 1970-01-01 UTC.
  MMDB_TIME_UNIT_SECONDS = 0,
  // Milliseconds.
  MMDB_TIME_UNIT_MILLISECONDS = 1,
  // Microseconds: what columns of MMDB_TYPE_TIME have.
  MMDB_TIME_UNIT_MICROSECONDS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mmdb_time_unit mmdb_time_unit;
#else
typedef uint32_t mmdb_time_unit;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How long a commit is waited for.
enum mmdb_durability
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Until it is durable.
  MMDB_DURABILITY_DURABLE = 0,
  // Not at all: it becomes durable within `lazy_interval_ms`.
  MMDB_DURABILITY_LAZY = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mmdb_durability mmdb_durability;
#else
typedef uint32_t mmdb_durability;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A table of blobs: binary values of up to 16 MiB, each with a number that the caller chooses,
// such as the primary key of the row that it belongs to. Any number of threads may use it at once.
typedef struct mmdb_blobs mmdb_blobs;

// Gives rows one by one. One thread at a time may use it.
typedef struct mmdb_cursor mmdb_cursor;

// An open database. Any number of threads may use it at once.
typedef struct mmdb_database mmdb_database;

// How a database is opened. The library copies it: it can be used again, or freed at once.
typedef struct mmdb_options mmdb_options;

// A row: one value for each column of its table, in order.
typedef struct mmdb_row mmdb_row;

// The definition of a table, in the making.
typedef struct mmdb_schema mmdb_schema;

// One moment of the whole database. Any number of threads may use it at once.
typedef struct mmdb_snapshot mmdb_snapshot;

// A table of an open database. Any number of threads may use it at once; it outlives its
// database's handle, and is of no use then.
typedef struct mmdb_table mmdb_table;

// What a commit gives: whoever waits for it knows that the commit is durable. Any number of
// threads may use it at once.
typedef struct mmdb_ticket mmdb_ticket;

// A transaction. One thread at a time may use it.
typedef struct mmdb_transaction mmdb_transaction;

// A value. Only the fields of its kind are looked at. mmdb_int and the functions beside it at the
// end of this header make one.
typedef struct mmdb_value {
  // An mmdb_kind.
  uint32_t kind;
  // Digits behind the point of a decimal number.
  uint32_t scale;
  // A truth value, an integer with a sign, a decimal number without its point, a time.
  int64_t integer;
  // An integer without a sign.
  uint64_t natural;
  // A floating-point number.
  double real;
  // Bytes or text; NULL is right where `size` is 0.
  const void *data;
  // How many bytes.
  size_t size;
} mmdb_value;

// A column and the value that it is to have.
typedef struct mmdb_assignment {
  // The column's name.
  const char *column;
  // The value.
  struct mmdb_value value;
} mmdb_assignment;

// What a checkpoint did.
typedef struct mmdb_checkpoint_stats {
  // The last commit when it began.
  uint64_t first_gsn;
  // The last commit when all was copied.
  uint64_t last_gsn;
  // Containers that were copied.
  uint64_t containers;
  // Segments of the log that it made superfluous.
  uint64_t segments;
} mmdb_checkpoint_stats;

// Says whether a wait is to end: not 0.
typedef int (*mmdb_wait_check)(void);

// Functions of an interpreter's C interface. All must be there.
typedef struct mmdb_interpreter {
  // Makes this thread the one that runs: PyGILState_Ensure.
  int (*enter)(void);
  // Ends that, with what `enter` returned: PyGILState_Release.
  void (*leave)(int);
  // Runs the handlers of signals that came; not 0 if one has raised an exception:
  // PyErr_CheckSignals.
  int (*check)(void);
  // Takes that exception away, in three parts: PyErr_Fetch.
  void (*take)(void**, void**, void**);
} mmdb_interpreter;

// Where a range begins or ends: a key, or the first of its columns. NULL stands for no bound.
typedef struct mmdb_bound {
  // Values of the first columns of the index.
  const struct mmdb_value *values;
  // How many.
  size_t count;
  // Whether rows with these values are left out.
  bool excluded;
} mmdb_bound;

// What a database is doing. Later releases add fields at the end.
typedef struct mmdb_stats {
  // Transactions that committed.
  uint64_t commits;
  // Transactions that were undone.
  uint64_t aborts;
  // Number of the last commit.
  uint64_t last_gsn;
  // Number of the last commit such that it and all before it are durable.
  uint64_t horizon;
  // Requests for a lock that waited.
  uint64_t lock_waits;
  // Requests that were refused because they might have waited for each other.
  uint64_t lock_deaths;
  // Locks that are held.
  uint64_t locks;
  // Syncs of log streams.
  uint64_t flushes;
  // Bytes that they wrote.
  uint64_t flushed_bytes;
  // Commits in them.
  uint64_t frames;
  // Most commits of one.
  uint64_t max_batch;
  // Time of all of them, ns.
  uint64_t flush_ns;
  // Bytes of commits that are not flushed.
  uint64_t pending_bytes;
  // Bytes of the log's segments.
  uint64_t log_bytes;
  // Checkpoints that were taken.
  uint64_t checkpoints;
  // Checkpoints that failed.
  uint64_t checkpoint_failures;
  // Containers that they copied.
  uint64_t checkpoint_containers;
  // Segments that were used again.
  uint64_t segments_recycled;
  // Bytes of tables, indexes, locks and large transactions.
  uint64_t memory_bytes;
  // Snapshots that are open.
  uint64_t snapshots;
  // Bytes that are kept for them.
  uint64_t snapshot_bytes;
  // Snapshots that were given up.
  uint64_t snapshot_expiries;
  // Rows that expired.
  uint64_t expired_rows;
  // Whether a failure ended all writing.
  bool poisoned;
} mmdb_stats;

// A column of a table.
typedef struct mmdb_column {
  // Its name, which belongs to the table's handle.
  const char *name;
  // An mmdb_type.
  uint32_t kind;
  // Its size, where the type has one.
  uint32_t size;
  // Whether it may be NULL.
  bool nullable;
} mmdb_column;

// An index of a table.
typedef struct mmdb_index {
  // Its name, which belongs to the table's handle.
  const char *name;
  // MMDB_INDEX_ORDERED, MMDB_INDEX_UNIQUE.
  uint32_t flags;
  // Numbers of its columns, which belong to the table's handle.
  const uint32_t *columns;
  // How many.
  size_t count;
} mmdb_index;

// What mmdb_run calls: returns 1 to commit, and 0 to undo. It must not end the transaction, nor
// keep it, nor leave by longjmp or an exception.
typedef int (*mmdb_callback)(struct mmdb_transaction *tx, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Drops a table and its rows. Its handles stay to be freed.
mmdb_status mmdb_drop_table(const struct mmdb_database *db, const struct mmdb_table *dropped);

// Gives a table another name.
mmdb_status mmdb_rename_table(const struct mmdb_database *db,
                              const struct mmdb_table *renamed,
                              const char *to);

// Adds a column, which rows have with a value from now on; `value` NULL stands for the value NULL.
// `changed` becomes another handle on the table, to be freed too; the one given goes on with the
// columns that it knows.
mmdb_status mmdb_add_column(const struct mmdb_database *db,
                            const struct mmdb_table *before,
                            const char *name,
                            uint32_t kind,
                            uint32_t size,
                            bool nullable,
                            const struct mmdb_value *value,
                            struct mmdb_table **changed);

// Drops a column. `changed` becomes another handle on the table, to be freed too; earlier ones
// answer MMDB_STATUS_TABLE_CHANGED, unless it was the last column.
mmdb_status mmdb_drop_column(const struct mmdb_database *db,
                             const struct mmdb_table *before,
                             const char *name,
                             struct mmdb_table **changed);

// Gives a column another name.
mmdb_status mmdb_rename_column(const struct mmdb_database *db,
                               const struct mmdb_table *changed,
                               const char *name,
                               const char *to);

// Builds an index while others work. `flags`: MMDB_INDEX_ORDERED, MMDB_INDEX_UNIQUE.
mmdb_status mmdb_create_index(const struct mmdb_database *db,
                              const struct mmdb_table *changed,
                              const char *name,
                              const char *const *columns,
                              size_t count,
                              uint32_t flags);

// Drops an index.
mmdb_status mmdb_drop_index(const struct mmdb_database *db,
                            const struct mmdb_table *changed,
                            const char *name);

// Finds the table of blobs with a name, or creates it. Free the handle with mmdb_blobs_free; the
// blobs stay. As a table (mmdb_table_open) it can be renamed and dropped, and has statistics.
mmdb_status mmdb_blobs_open(const struct mmdb_database *db,
                            const char *name,
                            struct mmdb_blobs **blobs);

// From now on, until the database is closed, whoever deletes a row of `owner` deletes the blob
// with its primary key, which is one column of MMDB_TYPE_UINT64 or MMDB_TYPE_INT64.
mmdb_status mmdb_blobs_belong_to(const struct mmdb_blobs *blobs, const struct mmdb_table *owner);

// Makes `size` bytes the whole of a blob, whether it is there or not. Is it refused half way, the
// transaction can only end.
mmdb_status mmdb_blob_put(struct mmdb_transaction *tx,
                          const struct mmdb_blobs *blobs,
                          uint64_t id,
                          const void *data,
                          size_t size);

// Puts bytes over those from byte `at` on, and behind the end; one that is not there is made by a
// write at 0. As mmdb_blob_put.
mmdb_status mmdb_blob_write(struct mmdb_transaction *tx,
                            const struct mmdb_blobs *blobs,
                            uint64_t id,
                            uint64_t at,
                            const void *data,
                            size_t size);

// Cuts a blob to its first `length` bytes. `found`, which may be NULL, becomes whether there is
// one. As mmdb_blob_put.
mmdb_status mmdb_blob_truncate(struct mmdb_transaction *tx,
                               const struct mmdb_blobs *blobs,
                               uint64_t id,
                               uint64_t length,
                               bool *found);

// Deletes a blob. `found`, which may be NULL, becomes whether there was one. As mmdb_blob_put.
mmdb_status mmdb_blob_delete(struct mmdb_transaction *tx,
                             const struct mmdb_blobs *blobs,
                             uint64_t id,
                             bool *found);

// The bytes of a blob. `found` becomes whether there is one; `length` is 0 otherwise.
mmdb_status mmdb_blob_length(struct mmdb_transaction *tx,
                             const struct mmdb_blobs *blobs,
                             uint64_t id,
                             uint64_t *length,
                             bool *found);

// Reads from byte `at` as much as there is, up to `size` bytes, into `out`. `count` becomes how
// much that was, and `found`, which may be NULL, whether there is such a blob.
mmdb_status mmdb_blob_read(struct mmdb_transaction *tx,
                           const struct mmdb_blobs *blobs,
                           uint64_t id,
                           uint64_t at,
                           void *out,
                           size_t size,
                           size_t *count,
                           bool *found);

// As mmdb_blob_length, of a snapshot.
mmdb_status mmdb_snapshot_blob_length(const struct mmdb_snapshot *of,
                                      const struct mmdb_blobs *blobs,
                                      uint64_t id,
                                      uint64_t *length,
                                      bool *found);

// As mmdb_blob_read, of a snapshot.
mmdb_status mmdb_snapshot_blob_read(const struct mmdb_snapshot *of,
                                    const struct mmdb_blobs *blobs,
                                    uint64_t id,
                                    uint64_t at,
                                    void *out,
                                    size_t size,
                                    size_t *count,
                                    bool *found);

// The least number of a blob that is `from` or above, in a snapshot. `found` becomes whether there
// is one; `id` is 0 otherwise.
mmdb_status mmdb_snapshot_next_blob(const struct mmdb_snapshot *of,
                                    const struct mmdb_blobs *blobs,
                                    uint64_t from,
                                    uint64_t *id,
                                    bool *found);

// Frees the handle. The blobs stay.
mmdb_status mmdb_blobs_free(struct mmdb_blobs *blobs);

// The next row, or NULL at the end. It belongs to the cursor and goes with the next call for it.
mmdb_status mmdb_cursor_next(struct mmdb_cursor *cursor, const struct mmdb_row **row);

// Changes columns of the row that the cursor of a transaction stands on. `found`, which may be
// NULL, becomes whether it is still there.
mmdb_status mmdb_cursor_update(struct mmdb_cursor *cursor,
                               const struct mmdb_assignment *set,
                               size_t count,
                               bool *found);

// Deletes the row that the cursor of a transaction stands on. `found` as in mmdb_cursor_update.
mmdb_status mmdb_cursor_delete(struct mmdb_cursor *cursor, bool *found);

// Frees a cursor, and the row that it gave last.
mmdb_status mmdb_cursor_free(struct mmdb_cursor *cursor);

// Opens the database in the directory `path`, creating it if there is none, and recovers what was
// acknowledged. `options` may be NULL. Close it with mmdb_close.
mmdb_status mmdb_open(const char *path,
                      const struct mmdb_options *options,
                      struct mmdb_database **db);

// Flushes, closes, and frees the handle, whatever it returns but MMDB_STATUS_MISUSE. Transactions
// and snapshots that are still there keep the database open until they are freed; then this
// only flushes.
mmdb_status mmdb_close(struct mmdb_database *db);

// Makes all commits so far durable.
mmdb_status mmdb_flush(const struct mmdb_database *db);

// Number of the last commit such that it and all before it are durable.
mmdb_status mmdb_horizon(const struct mmdb_database *db, uint64_t *gsn);

// Takes a checkpoint while transactions go on. `stats` may be NULL.
mmdb_status mmdb_checkpoint(const struct mmdb_database *db, struct mmdb_checkpoint_stats *stats);

// Copies the database into the empty directory `to` while transactions go on. `gsn`, which may be
// NULL, becomes the number of the last commit in the copy. The copy can be opened as it is.
mmdb_status mmdb_backup(const struct mmdb_database *db, const char *to, uint64_t *gsn);

// Makes another database of a backup, in the directory `to`, with an identity of its own.
// `options`, which may be NULL, says where its streams live.
mmdb_status mmdb_restore(const char *from, const char *to, const struct mmdb_options *options);

// Deletes the rows that expire up to `now`, microseconds since 1970-01-01 UTC. `rows`, which may
// be NULL, becomes their number.
mmdb_status mmdb_expire(const struct mmdb_database *db, int64_t now, uint64_t *rows);

// What the last call of this thread that failed says, in English, or "" if none has. It stays
// where it is until the next call of this thread that fails.
const char *mmdb_error_message(void);

// The status of the last call of this thread that failed, or MMDB_STATUS_OK if none has.
mmdb_status mmdb_error_code(void);

// For the whole process, once: `check` is asked some twenty times a second while a call on the
// process's first thread waits for a lock, for a flush or for room in the log. Where it returns
// anything but 0 the call ends with MMDB_STATUS_INTERRUPTED, and its transaction can only be
// undone then; a ticket can be waited for again. mmdb_commit and mmdb_run that wait for the flush
// of what they have committed end with MMDB_STATUS_INDETERMINATE.
mmdb_status mmdb_set_wait_check(mmdb_wait_check check);

// As mmdb_set_wait_check, for an interpreter that runs handlers of signals on its first thread and
// between two steps of a program. For the package for Python.
mmdb_status mmdb_interpreter_signals(const struct mmdb_interpreter *functions);

// The exception that ended this thread's last wait, as `take` gave it; three times NULL if there is
// none. It is the caller's from now on.
void mmdb_interpreter_exception(void **parts);

// The release, such as "0.1.0". Never freed.
const char *mmdb_version(void);

// Drops a table and its rows. Its handles stay to be freed.
mmdb_status mmdb_drop_table(const struct mmdb_database *db, const struct mmdb_table *dropped);

// Gives a table another name.
mmdb_status mmdb_rename_table(const struct mmdb_database *db,
                              const struct mmdb_table *renamed,
                              const char *to);

// Adds a column, which rows have with a value from now on; `value` NULL stands for the value NULL.
// `changed` becomes another handle on the table, to be freed too; the one given goes on with the
// columns that it knows.
mmdb_status mmdb_add_column(const struct mmdb_database *db,
                            const struct mmdb_table *before,
                            const char *name,
                            uint32_t kind,
                            uint32_t size,
                            bool nullable,
                            const struct mmdb_value *value,
                            struct mmdb_table **changed);

// Drops a column. `changed` becomes another handle on the table, to be freed too; earlier ones
// answer MMDB_STATUS_TABLE_CHANGED, unless it was the last column.
mmdb_status mmdb_drop_column(const struct mmdb_database *db,
                             const struct mmdb_table *before,
                             const char *name,
                             struct mmdb_table **changed);

// Gives a column another name.
mmdb_status mmdb_rename_column(const struct mmdb_database *db,
                               const struct mmdb_table *changed,
                               const char *name,
                               const char *to);

// Builds an index while others work. `flags`: MMDB_INDEX_ORDERED, MMDB_INDEX_UNIQUE.
mmdb_status mmdb_create_index(const struct mmdb_database *db,
                              const struct mmdb_table *changed,
                              const char *name,
                              const char *const *columns,
                              size_t count,
                              uint32_t flags);

// Drops an index.
mmdb_status mmdb_drop_index(const struct mmdb_database *db,
                            const struct mmdb_table *changed,
                            const char *name);

// Finds the table of blobs with a name, or creates it. Free the handle with mmdb_blobs_free; the
// blobs stay. As a table (mmdb_table_open) it can be renamed and dropped, and has statistics.
mmdb_status mmdb_blobs_open(const struct mmdb_database *db,
                            const char *name,
                            struct mmdb_blobs **blobs);

// From now on, until the database is closed, whoever deletes a row of `owner` deletes the blob
// with its primary key, which is one column of MMDB_TYPE_UINT64 or MMDB_TYPE_INT64.
mmdb_status mmdb_blobs_belong_to(const struct mmdb_blobs *blobs, const struct mmdb_table *owner);

// Makes `size` bytes the whole of a blob, whether it is there or not. Is it refused half way, the
// transaction can only end.
mmdb_status mmdb_blob_put(struct mmdb_transaction *tx,
                          const struct mmdb_blobs *blobs,
                          uint64_t id,
                          const void *data,
                          size_t size);

// Puts bytes over those from byte `at` on, and behind the end; one that is not there is made by a
// write at 0. As mmdb_blob_put.
mmdb_status mmdb_blob_write(struct mmdb_transaction *tx,
                            const struct mmdb_blobs *blobs,
                            uint64_t id,
                            uint64_t at,
                            const void *data,
                            size_t size);

// Cuts a blob to its first `length` bytes. `found`, which may be NULL, becomes whether there is
// one. As mmdb_blob_put.
mmdb_status mmdb_blob_truncate(struct mmdb_transaction *tx,
                               const struct mmdb_blobs *blobs,
                               uint64_t id,
                               uint64_t length,
                               bool *found);

// Deletes a blob. `found`, which may be NULL, becomes whether there was one. As mmdb_blob_put.
mmdb_status mmdb_blob_delete(struct mmdb_transaction *tx,
                             const struct mmdb_blobs *blobs,
                             uint64_t id,
                             bool *found);

// The bytes of a blob. `found` becomes whether there is one; `length` is 0 otherwise.
mmdb_status mmdb_blob_length(struct mmdb_transaction *tx,
                             const struct mmdb_blobs *blobs,
                             uint64_t id,
                             uint64_t *length,
                             bool *found);

// Reads from byte `at` as much as there is, up to `size` bytes, into `out`. `count` becomes how
// much that was, and `found`, which may be NULL, whether there is such a blob.
mmdb_status mmdb_blob_read(struct mmdb_transaction *tx,
                           const struct mmdb_blobs *blobs,
                           uint64_t id,
                           uint64_t at,
                           void *out,
                           size_t size,
                           size_t *count,
                           bool *found);

// As mmdb_blob_length, of a snapshot.
mmdb_status mmdb_snapshot_blob_length(const struct mmdb_snapshot *of,
                                      const struct mmdb_blobs *blobs,
                                      uint64_t id,
                                      uint64_t *length,
                                      bool *found);

// As mmdb_blob_read, of a snapshot.
mmdb_status mmdb_snapshot_blob_read(const struct mmdb_snapshot *of,
                                    const struct mmdb_blobs *blobs,
                                    uint64_t id,
                                    uint64_t at,
                                    void *out,
                                    size_t size,
                                    size_t *count,
                                    bool *found);

// The least number of a blob that is `from` or above, in a snapshot. `found` becomes whether there
// is one; `id` is 0 otherwise.
mmdb_status mmdb_snapshot_next_blob(const struct mmdb_snapshot *of,
                                    const struct mmdb_blobs *blobs,
                                    uint64_t from,
                                    uint64_t *id,
                                    bool *found);

// Frees the handle. The blobs stay.
mmdb_status mmdb_blobs_free(struct mmdb_blobs *blobs);

// The next row, or NULL at the end. It belongs to the cursor and goes with the next call for it.
mmdb_status mmdb_cursor_next(struct mmdb_cursor *cursor, const struct mmdb_row **row);

// Changes columns of the row that the cursor of a transaction stands on. `found`, which may be
// NULL, becomes whether it is still there.
mmdb_status mmdb_cursor_update(struct mmdb_cursor *cursor,
                               const struct mmdb_assignment *set,
                               size_t count,
                               bool *found);

// Deletes the row that the cursor of a transaction stands on. `found` as in mmdb_cursor_update.
mmdb_status mmdb_cursor_delete(struct mmdb_cursor *cursor, bool *found);

// Frees a cursor, and the row that it gave last.
mmdb_status mmdb_cursor_free(struct mmdb_cursor *cursor);

// Opens the database in the directory `path`, creating it if there is none, and recovers what was
// acknowledged. `options` may be NULL. Close it with mmdb_close.
mmdb_status mmdb_open(const char *path,
                      const struct mmdb_options *options,
                      struct mmdb_database **db);

// Flushes, closes, and frees the handle, whatever it returns but MMDB_STATUS_MISUSE. Transactions
// and snapshots that are still there keep the database open until they are freed; then this
// only flushes.
mmdb_status mmdb_close(struct mmdb_database *db);

// Makes all commits so far durable.
mmdb_status mmdb_flush(const struct mmdb_database *db);

// Number of the last commit such that it and all before it are durable.
mmdb_status mmdb_horizon(const struct mmdb_database *db, uint64_t *gsn);

// Takes a checkpoint while transactions go on. `stats` may be NULL.
mmdb_status mmdb_checkpoint(const struct mmdb_database *db, struct mmdb_checkpoint_stats *stats);

// Copies the database into the empty directory `to` while transactions go on. `gsn`, which may be
// NULL, becomes the number of the last commit in the copy. The copy can be opened as it is.
mmdb_status mmdb_backup(const struct mmdb_database *db, const char *to, uint64_t *gsn);

// Makes another database of a backup, in the directory `to`, with an identity of its own.
// `options`, which may be NULL, says where its streams live.
mmdb_status mmdb_restore(const char *from, const char *to, const struct mmdb_options *options);

// Deletes the rows that expire up to `now`, microseconds since 1970-01-01 UTC. `rows`, which may
// be NULL, becomes their number.
mmdb_status mmdb_expire(const struct mmdb_database *db, int64_t now, uint64_t *rows);

// What the last call of this thread that failed says, in English, or "" if none has. It stays
// where it is until the next call of this thread that fails.
const char *mmdb_error_message(void);

// The status of the last call of this thread that failed, or MMDB_STATUS_OK if none has.
mmdb_status mmdb_error_code(void);

// For the whole process, once: `check` is asked some twenty times a second while a call on the
// process's first thread waits for a lock, for a flush or for room in the log. Where it returns
// anything but 0 the call ends with MMDB_STATUS_INTERRUPTED, and its transaction can only be
// undone then; a ticket can be waited for again. mmdb_commit and mmdb_run that wait for the flush
// of what they have committed end with MMDB_STATUS_INDETERMINATE.
mmdb_status mmdb_set_wait_check(mmdb_wait_check check);

// As mmdb_set_wait_check, for an interpreter that runs handlers of signals on its first thread and
// between two steps of a program. For the package for Python.
mmdb_status mmdb_interpreter_signals(const struct mmdb_interpreter *functions);

// The exception that ended this thread's last wait, as `take` gave it; three times NULL if there is
// none. It is the caller's from now on.
void mmdb_interpreter_exception(void **parts);

// Makes options with the values that every database has. Free them with mmdb_options_free.
mmdb_status mmdb_options_new(struct mmdb_options **options);

// Sets an option: streams, segment_bytes, container_bytes, after_images (0, 1), scrub (0, 1),
// memory_limit, snapshot_memory, lock_timeout_ms, range_locks, max_runs, checkpoint_log_bytes,
// max_log_bytes, lazy_interval_ms, manifest_interval_ms, expire_interval_ms, group_commit (0, 1),
// reference (0, 1), recovery_threads. Whether the values go together, mmdb_open says.
mmdb_status mmdb_options_set(struct mmdb_options *options, const char *name, uint64_t value);

// Says where the next log stream lives. Streams without a directory live in the database's.
mmdb_status mmdb_options_add_stream_dir(struct mmdb_options *options, const char *path);

// Keeps the database's files in memory, as long as these options or a database opened with them
// are there: for tests. Sets segment_bytes to 1 MiB.
mmdb_status mmdb_options_in_memory(struct mmdb_options *options);

// Frees options.
mmdb_status mmdb_options_free(struct mmdb_options *options);

// Reads the row with a primary key as it was last committed, outside of any transaction: without
// locks, so that this waits for no transaction, and none waits for it. Each such read has a moment
// of its own. What it gives may not be durable yet (mmdb_flush). `row` becomes NULL if there is
// none; free it with mmdb_row_free.
mmdb_status mmdb_get_committed(const struct mmdb_database *db,
                               const struct mmdb_table *of,
                               const struct mmdb_value *key,
                               size_t count,
                               struct mmdb_row **row);

// As mmdb_get_committed, of many keys at once, which is faster. `keys` are `count` keys one behind
// the other, of `columns` values each. mmdb_cursor_next gives a row for each key, in their order,
// and NULL where there is none: call it `count` times. Free the cursor with mmdb_cursor_free.
mmdb_status mmdb_get_many_committed(const struct mmdb_database *db,
                                    const struct mmdb_table *of,
                                    const struct mmdb_value *keys,
                                    size_t columns,
                                    size_t count,
                                    struct mmdb_cursor **cursor);

// As mmdb_get of many keys, which is faster; keys and cursor as of mmdb_get_many_committed. The
// cursor does not keep the transaction.
mmdb_status mmdb_get_many(struct mmdb_transaction *tx,
                          const struct mmdb_table *of,
                          const struct mmdb_value *keys,
                          size_t columns,
                          size_t count,
                          struct mmdb_cursor **cursor);

// As mmdb_snapshot_get of many keys, which is faster; keys and cursor as of
// mmdb_get_many_committed.
mmdb_status mmdb_snapshot_get_many(const struct mmdb_snapshot *of_snapshot,
                                   const struct mmdb_table *of,
                                   const struct mmdb_value *keys,
                                   size_t columns,
                                   size_t count,
                                   struct mmdb_cursor **cursor);

// Frees the handle of any kind that is in the cell, by the function for its kind (a transaction is
// undone, a database closed), and puts NULL there, whatever that returns but MMDB_STATUS_MISUSE.
// Nothing happens where NULL is there.
mmdb_status mmdb_release(void **cell);

// As mmdb_commit of the transaction in the cell, where NULL is afterwards if it was freed.
mmdb_status mmdb_commit_at(struct mmdb_transaction **cell,
                           uint32_t mode,
                           struct mmdb_ticket **ticket);

// The values of a row. They belong to the row and go with it.
mmdb_status mmdb_row_values(const struct mmdb_row *row,
                            const struct mmdb_value **values,
                            size_t *count);

// Frees a row that mmdb_get or mmdb_snapshot_get gave. Rows of a cursor belong to that.
mmdb_status mmdb_row_free(struct mmdb_row *row);

// Begins the definition of a table. Free it with mmdb_schema_free. What is wrong with it,
// mmdb_create_table says.
mmdb_status mmdb_schema_new(const char *name, struct mmdb_schema **schema);

// Adds a column of an mmdb_type. `size` is looked at where the type has one.
mmdb_status mmdb_schema_column(struct mmdb_schema *schema,
                               const char *name,
                               uint32_t kind,
                               uint32_t size,
                               bool nullable);

// Declares the primary key, whose index is named "primary". Its columns were added before.
// `flags` is 0 or MMDB_INDEX_ORDERED.
mmdb_status mmdb_schema_primary_key(struct mmdb_schema *schema,
                                    const char *const *columns,
                                    size_t count,
                                    uint32_t flags);

// Adds an index over columns that were added before. `flags`: MMDB_INDEX_ORDERED for ranges,
// MMDB_INDEX_UNIQUE.
mmdb_status mmdb_schema_index(struct mmdb_schema *schema,
                              const char *name,
                              const char *const *columns,
                              size_t count,
                              uint32_t flags);

// Sets an mmdb_locking. Without this, rows are locked.
mmdb_status mmdb_schema_locking(struct mmdb_schema *schema, uint32_t locking);

// Sets an mmdb_logging. Without this, the table is logged.
mmdb_status mmdb_schema_logging(struct mmdb_schema *schema, uint32_t logging);

// Lets rows expire at the time in a column that was added before, which is the first of an ordered
// index. `unit` is an mmdb_time_unit.
mmdb_status mmdb_schema_expire_by(struct mmdb_schema *schema, const char *column, uint32_t unit);

// Frees a definition.
mmdb_status mmdb_schema_free(struct mmdb_schema *schema);

// Opens a snapshot: the database after all commits up to now. Free it with mmdb_snapshot_free; it
// stays until its cursors are freed too.
mmdb_status mmdb_snapshot_open(const struct mmdb_database *db, struct mmdb_snapshot **snapshot);

// The number of the last commit that the snapshot has. `ticket`, which may be NULL, becomes one
// that tells when that is durable, to be freed with mmdb_ticket_free.
mmdb_status mmdb_snapshot_gsn(const struct mmdb_snapshot *snapshot,
                              uint64_t *gsn,
                              struct mmdb_ticket **ticket);

// Reads the row with a primary key. `row` becomes NULL if there is none; free it with
// mmdb_row_free.
mmdb_status mmdb_snapshot_get(const struct mmdb_snapshot *snapshot,
                              const struct mmdb_table *of,
                              const struct mmdb_value *key,
                              size_t count,
                              struct mmdb_row **row);

// Reads the rows that have a key in an index. Free the cursor with mmdb_cursor_free.
mmdb_status mmdb_snapshot_get_by(const struct mmdb_snapshot *snapshot,
                                 const struct mmdb_table *of,
                                 const char *index,
                                 const struct mmdb_value *key,
                                 size_t count,
                                 struct mmdb_cursor **cursor);

// Opens a cursor over a range of an ordered index. NULL is no bound. `flags`: MMDB_RANGE_REVERSE.
// Free it with mmdb_cursor_free.
mmdb_status mmdb_snapshot_range(const struct mmdb_snapshot *snapshot,
                                const struct mmdb_table *of,
                                const char *index,
                                const struct mmdb_bound *lower,
                                const struct mmdb_bound *upper,
                                uint32_t flags,
                                struct mmdb_cursor **cursor);

// Opens a cursor over all rows, in the order of the primary key if that is ordered. As
// mmdb_snapshot_range.
mmdb_status mmdb_snapshot_scan(const struct mmdb_snapshot *snapshot,
                               const struct mmdb_table *of,
                               uint32_t flags,
                               struct mmdb_cursor **cursor);

// Writes all rows of all tables into the new file `path`, each as a line of JSON, as `mmdb dump`
// prints them of a closed database. `rows`, which may be NULL, becomes their number. After an
// error there is no file.
mmdb_status mmdb_snapshot_dump(const struct mmdb_snapshot *snapshot,
                               const char *path,
                               uint64_t *rows);

// Frees a snapshot.
mmdb_status mmdb_snapshot_free(struct mmdb_snapshot *snapshot);

// What the database is doing. `size` is sizeof(mmdb_stats) of the header that the caller was
// compiled with: so much is written and no more.
mmdb_status mmdb_get_stats(const struct mmdb_database *db, struct mmdb_stats *stats, size_t size);

// Rows of a table, its containers, and the bytes of both with its indexes. Each may be NULL.
mmdb_status mmdb_get_table_stats(const struct mmdb_database *db,
                                 const struct mmdb_table *of,
                                 uint64_t *rows,
                                 uint64_t *containers,
                                 uint64_t *bytes);

// The name of a status, such as "duplicate key"; "unknown" of another number. Never freed.
const char *mmdb_status_name(int32_t status);

// Whether running the transaction again may help: MMDB_STATUS_DEADLOCK, MMDB_STATUS_CONFLICT.
bool mmdb_status_is_retryable(int32_t status);

// Creates a table. Free the handle with mmdb_table_free; the table stays.
mmdb_status mmdb_create_table(const struct mmdb_database *db,
                              const struct mmdb_schema *schema,
                              struct mmdb_table **table);

// Creates a table, or finds the one that has its name: MMDB_STATUS_SCHEMA_DIFFERS if that is
// defined in another way. Free the handle with mmdb_table_free.
mmdb_status mmdb_create_table_if_missing(const struct mmdb_database *db,
                                         const struct mmdb_schema *schema,
                                         struct mmdb_table **table);

// Finds a table by its name. Free the handle with mmdb_table_free.
mmdb_status mmdb_table_open(const struct mmdb_database *db,
                            const char *name,
                            struct mmdb_table **table);

// The table at a place among all tables, which are in the order of their creation; `table` becomes
// NULL behind the last one. Where others drop tables meanwhile, go from the last place down: those
// behind a table that is dropped move by one place. Free the handle with mmdb_table_free.
mmdb_status mmdb_table_at(const struct mmdb_database *db, size_t at, struct mmdb_table **table);

// The table's name when the handle was made, or NULL if this is no table. It belongs to the
// handle.
const char *mmdb_table_name(const struct mmdb_table *table);

// How many columns and indexes the table had when the handle was made. Either may be NULL.
mmdb_status mmdb_table_counts(const struct mmdb_table *table, size_t *columns, size_t *indexes);

// A column of the table, as it was when the handle was made.
mmdb_status mmdb_table_column(const struct mmdb_table *table,
                              size_t at,
                              struct mmdb_column *column);

// An index of the table, as it was when the handle was made. The first one is the primary key.
mmdb_status mmdb_table_index(const struct mmdb_table *table, size_t at, struct mmdb_index *index);

// Frees a table's handle. The table stays.
mmdb_status mmdb_table_free(struct mmdb_table *table);

// Waits until the commit is durable; a lazy one is not waited for. `gsn`, which may be NULL,
// becomes its number.
mmdb_status mmdb_ticket_wait(const struct mmdb_ticket *ticket, uint64_t *gsn);

// As mmdb_ticket_wait, for a lazy commit too.
mmdb_status mmdb_ticket_wait_durable(const struct mmdb_ticket *ticket, uint64_t *gsn);

// Whether the commit is durable. Does not wait, and sees to it that it becomes so.
mmdb_status mmdb_ticket_poll(const struct mmdb_ticket *ticket, bool *done);

// The number of the commit.
mmdb_status mmdb_ticket_gsn(const struct mmdb_ticket *ticket, uint64_t *gsn);

// Frees a ticket. The commit becomes durable all the same.
mmdb_status mmdb_ticket_free(struct mmdb_ticket *ticket);

// Begins a serializable transaction. It ends with mmdb_commit or mmdb_abort, which free it.
mmdb_status mmdb_begin(const struct mmdb_database *db, struct mmdb_transaction **tx);

// Commits and frees the transaction, whatever this returns but MMDB_STATUS_MISUSE; after any other
// error nothing of it was done, but after MMDB_STATUS_INDETERMINATE. Its cursors end. With
// `ticket` NULL this waits until the commit is durable (a lazy one it does not wait for), and
// where mmdb_set_wait_check ends that it is MMDB_STATUS_INDETERMINATE, too, for the commit is
// done; otherwise it does not wait, and `ticket` becomes one, to be freed with mmdb_ticket_free.
// `mode` is an mmdb_durability.
mmdb_status mmdb_commit(struct mmdb_transaction *tx, uint32_t mode, struct mmdb_ticket **ticket);

// Undoes and frees the transaction. Its cursors end.
mmdb_status mmdb_abort(struct mmdb_transaction *tx);

// Runs a transaction until it commits. If another one was in the way (a call returned
// MMDB_STATUS_DEADLOCK or MMDB_STATUS_CONFLICT), the callback runs again once that has gone,
// whatever it returned; so it may run many times. MMDB_STATUS_ABORTED: the callback did not want
// it to commit. `mode` and `ticket` as in mmdb_commit.
mmdb_status mmdb_run(const struct mmdb_database *db,
                     uint32_t mode,
                     mmdb_callback callback,
                     void *context,
                     struct mmdb_ticket **ticket);

// As mmdb_run, for languages whose callbacks may break off and leave their result undefined: what
// `decision` holds when the callback returns is in the place of that result. It is 0 before each
// call.
mmdb_status mmdb_run_decided(const struct mmdb_database *db,
                             uint32_t mode,
                             mmdb_callback callback,
                             void *context,
                             int *decision,
                             struct mmdb_ticket **ticket);

// Inserts a row: one value for each column that the table's handle knows.
mmdb_status mmdb_insert(struct mmdb_transaction *tx,
                        const struct mmdb_table *into,
                        const struct mmdb_value *row,
                        size_t count);

// Inserts a row, or puts it in the place of the one that has its primary key. `replaced`, which
// may be NULL, becomes whether there was one.
mmdb_status mmdb_upsert(struct mmdb_transaction *tx,
                        const struct mmdb_table *into,
                        const struct mmdb_value *row,
                        size_t count,
                        bool *replaced);

// Changes columns of the row with a primary key. `found`, which may be NULL, becomes whether there
// is one.
mmdb_status mmdb_update(struct mmdb_transaction *tx,
                        const struct mmdb_table *of,
                        const struct mmdb_value *key,
                        size_t key_count,
                        const struct mmdb_assignment *set,
                        size_t set_count,
                        bool *found);

// Deletes the row with a primary key. `found`, which may be NULL, becomes whether there was one.
mmdb_status mmdb_delete(struct mmdb_transaction *tx,
                        const struct mmdb_table *of,
                        const struct mmdb_value *key,
                        size_t count,
                        bool *found);

// Reads the row with a primary key. `row` becomes NULL if there is none; free it with
// mmdb_row_free.
mmdb_status mmdb_get(struct mmdb_transaction *tx,
                     const struct mmdb_table *of,
                     const struct mmdb_value *key,
                     size_t count,
                     struct mmdb_row **row);

// Locks a primary key for a change, whether there is a row or not.
mmdb_status mmdb_lock_key(struct mmdb_transaction *tx,
                          const struct mmdb_table *of,
                          const struct mmdb_value *key,
                          size_t count);

// Reads the rows that have a key in an index. They are read at once: the cursor leaves the
// transaction free, and cannot change them.
mmdb_status mmdb_get_by(struct mmdb_transaction *tx,
                        const struct mmdb_table *of,
                        const char *index,
                        const struct mmdb_value *key,
                        size_t count,
                        struct mmdb_cursor **cursor);

// Opens a cursor over a range of an ordered index. NULL is no bound. `flags`: MMDB_RANGE_REVERSE,
// MMDB_RANGE_FOR_UPDATE, MMDB_RANGE_SKIP_LOCKED. Until the cursor is at its end or freed, the
// transaction can only be ended. Free it with mmdb_cursor_free.
mmdb_status mmdb_range(struct mmdb_transaction *tx,
                       const struct mmdb_table *of,
                       const char *index,
                       const struct mmdb_bound *lower,
                       const struct mmdb_bound *upper,
                       uint32_t flags,
                       struct mmdb_cursor **cursor);

// Opens a cursor over all rows, in the order of the primary key if that is ordered. As mmdb_range.
mmdb_status mmdb_scan(struct mmdb_transaction *tx,
                      const struct mmdb_table *of,
                      uint32_t flags,
                      struct mmdb_cursor **cursor);

// Deletes the rows of a range of an ordered index. `deleted`, which may be NULL, becomes their
// number.
mmdb_status mmdb_delete_range(struct mmdb_transaction *tx,
                              const struct mmdb_table *of,
                              const char *index,
                              const struct mmdb_bound *lower,
                              const struct mmdb_bound *upper,
                              uint64_t *deleted);

// Makes options with the values that every database has. Free them with mmdb_options_free.
mmdb_status mmdb_options_new(struct mmdb_options **options);

// Sets an option: streams, segment_bytes, container_bytes, after_images (0, 1), scrub (0, 1),
// memory_limit, snapshot_memory, lock_timeout_ms, range_locks, max_runs, checkpoint_log_bytes,
// max_log_bytes, lazy_interval_ms, manifest_interval_ms, expire_interval_ms, group_commit (0, 1),
// reference (0, 1), recovery_threads. Whether the values go together, mmdb_open says.
mmdb_status mmdb_options_set(struct mmdb_options *options, const char *name, uint64_t value);

// Says where the next log stream lives. Streams without a directory live in the database's.
mmdb_status mmdb_options_add_stream_dir(struct mmdb_options *options, const char *path);

// Keeps the database's files in memory, as long as these options or a database opened with them
// are there: for tests. Sets segment_bytes to 1 MiB.
mmdb_status mmdb_options_in_memory(struct mmdb_options *options);

// Frees options.
mmdb_status mmdb_options_free(struct mmdb_options *options);

// Reads the row with a primary key as it was last committed, outside of any transaction: without
// locks, so that this waits for no transaction, and none waits for it. Each such read has a moment
// of its own. What it gives may not be durable yet (mmdb_flush). `row` becomes NULL if there is
// none; free it with mmdb_row_free.
mmdb_status mmdb_get_committed(const struct mmdb_database *db,
                               const struct mmdb_table *of,
                               const struct mmdb_value *key,
                               size_t count,
                               struct mmdb_row **row);

// As mmdb_get_committed, of many keys at once, which is faster. `keys` are `count` keys one behind
// the other, of `columns` values each. mmdb_cursor_next gives a row for each key, in their order,
// and NULL where there is none: call it `count` times. Free the cursor with mmdb_cursor_free.
mmdb_status mmdb_get_many_committed(const struct mmdb_database *db,
                                    const struct mmdb_table *of,
                                    const struct mmdb_value *keys,
                                    size_t columns,
                                    size_t count,
                                    struct mmdb_cursor **cursor);

// As mmdb_get of many keys, which is faster; keys and cursor as of mmdb_get_many_committed. The
// cursor does not keep the transaction.
mmdb_status mmdb_get_many(struct mmdb_transaction *tx,
                          const struct mmdb_table *of,
                          const struct mmdb_value *keys,
                          size_t columns,
                          size_t count,
                          struct mmdb_cursor **cursor);

// As mmdb_snapshot_get of many keys, which is faster; keys and cursor as of
// mmdb_get_many_committed.
mmdb_status mmdb_snapshot_get_many(const struct mmdb_snapshot *of_snapshot,
                                   const struct mmdb_table *of,
                                   const struct mmdb_value *keys,
                                   size_t columns,
                                   size_t count,
                                   struct mmdb_cursor **cursor);

// Frees the handle of any kind that is in the cell, by the function for its kind (a transaction is
// undone, a database closed), and puts NULL there, whatever that returns but MMDB_STATUS_MISUSE.
// Nothing happens where NULL is there.
mmdb_status mmdb_release(void **cell);

// As mmdb_commit of the transaction in the cell, where NULL is afterwards if it was freed.
mmdb_status mmdb_commit_at(struct mmdb_transaction **cell,
                           uint32_t mode,
                           struct mmdb_ticket **ticket);

// The values of a row. They belong to the row and go with it.
mmdb_status mmdb_row_values(const struct mmdb_row *row,
                            const struct mmdb_value **values,
                            size_t *count);

// Frees a row that mmdb_get or mmdb_snapshot_get gave. Rows of a cursor belong to that.
mmdb_status mmdb_row_free(struct mmdb_row *row);

// Begins the definition of a table. Free it with mmdb_schema_free. What is wrong with it,
// mmdb_create_table says.
mmdb_status mmdb_schema_new(const char *name, struct mmdb_schema **schema);

// Adds a column of an mmdb_type. `size` is looked at where the type has one.
mmdb_status mmdb_schema_column(struct mmdb_schema *schema,
                               const char *name,
                               uint32_t kind,
                               uint32_t size,
                               bool nullable);

// Declares the primary key, whose index is named "primary". Its columns were added before.
// `flags` is 0 or MMDB_INDEX_ORDERED.
mmdb_status mmdb_schema_primary_key(struct mmdb_schema *schema,
                                    const char *const *columns,
                                    size_t count,
                                    uint32_t flags);

// Adds an index over columns that were added before. `flags`: MMDB_INDEX_ORDERED for ranges,
// MMDB_INDEX_UNIQUE.
mmdb_status mmdb_schema_index(struct mmdb_schema *schema,
                              const char *name,
                              const char *const *columns,
                              size_t count,
                              uint32_t flags);

// Sets an mmdb_locking. Without this, rows are locked.
mmdb_status mmdb_schema_locking(struct mmdb_schema *schema, uint32_t locking);

// Sets an mmdb_logging. Without this, the table is logged.
mmdb_status mmdb_schema_logging(struct mmdb_schema *schema, uint32_t logging);

// Lets rows expire at the time in a column that was added before, which is the first of an ordered
// index. `unit` is an mmdb_time_unit.
mmdb_status mmdb_schema_expire_by(struct mmdb_schema *schema, const char *column, uint32_t unit);

// Frees a definition.
mmdb_status mmdb_schema_free(struct mmdb_schema *schema);

// Opens a snapshot: the database after all commits up to now. Free it with mmdb_snapshot_free; it
// stays until its cursors are freed too.
mmdb_status mmdb_snapshot_open(const struct mmdb_database *db, struct mmdb_snapshot **snapshot);

// The number of the last commit that the snapshot has. `ticket`, which may be NULL, becomes one
// that tells when that is durable, to be freed with mmdb_ticket_free.
mmdb_status mmdb_snapshot_gsn(const struct mmdb_snapshot *snapshot,
                              uint64_t *gsn,
                              struct mmdb_ticket **ticket);

// Reads the row with a primary key. `row` becomes NULL if there is none; free it with
// mmdb_row_free.
mmdb_status mmdb_snapshot_get(const struct mmdb_snapshot *snapshot,
                              const struct mmdb_table *of,
                              const struct mmdb_value *key,
                              size_t count,
                              struct mmdb_row **row);

// Reads the rows that have a key in an index. Free the cursor with mmdb_cursor_free.
mmdb_status mmdb_snapshot_get_by(const struct mmdb_snapshot *snapshot,
                                 const struct mmdb_table *of,
                                 const char *index,
                                 const struct mmdb_value *key,
                                 size_t count,
                                 struct mmdb_cursor **cursor);

// Opens a cursor over a range of an ordered index. NULL is no bound. `flags`: MMDB_RANGE_REVERSE.
// Free it with mmdb_cursor_free.
mmdb_status mmdb_snapshot_range(const struct mmdb_snapshot *snapshot,
                                const struct mmdb_table *of,
                                const char *index,
                                const struct mmdb_bound *lower,
                                const struct mmdb_bound *upper,
                                uint32_t flags,
                                struct mmdb_cursor **cursor);

// Opens a cursor over all rows, in the order of the primary key if that is ordered. As
// mmdb_snapshot_range.
mmdb_status mmdb_snapshot_scan(const struct mmdb_snapshot *snapshot,
                               const struct mmdb_table *of,
                               uint32_t flags,
                               struct mmdb_cursor **cursor);

// Writes all rows of all tables into the new file `path`, each as a line of JSON, as `mmdb dump`
// prints them of a closed database. `rows`, which may be NULL, becomes their number. After an
// error there is no file.
mmdb_status mmdb_snapshot_dump(const struct mmdb_snapshot *snapshot,
                               const char *path,
                               uint64_t *rows);

// Frees a snapshot.
mmdb_status mmdb_snapshot_free(struct mmdb_snapshot *snapshot);

// What the database is doing. `size` is sizeof(mmdb_stats) of the header that the caller was
// compiled with: so much is written and no more.
mmdb_status mmdb_get_stats(const struct mmdb_database *db, struct mmdb_stats *stats, size_t size);

// Rows of a table, its containers, and the bytes of both with its indexes. Each may be NULL.
mmdb_status mmdb_get_table_stats(const struct mmdb_database *db,
                                 const struct mmdb_table *of,
                                 uint64_t *rows,
                                 uint64_t *containers,
                                 uint64_t *bytes);

// The name of a status, such as "duplicate key"; "unknown" of another number. Never freed.
const char *mmdb_status_name(int32_t status);

// Whether running the transaction again may help: MMDB_STATUS_DEADLOCK, MMDB_STATUS_CONFLICT.
bool mmdb_status_is_retryable(int32_t status);

// Creates a table. Free the handle with mmdb_table_free; the table stays.
mmdb_status mmdb_create_table(const struct mmdb_database *db,
                              const struct mmdb_schema *schema,
                              struct mmdb_table **table);

// Creates a table, or finds the one that has its name: MMDB_STATUS_SCHEMA_DIFFERS if that is
// defined in another way. Free the handle with mmdb_table_free.
mmdb_status mmdb_create_table_if_missing(const struct mmdb_database *db,
                                         const struct mmdb_schema *schema,
                                         struct mmdb_table **table);

// Finds a table by its name. Free the handle with mmdb_table_free.
mmdb_status mmdb_table_open(const struct mmdb_database *db,
                            const char *name,
                            struct mmdb_table **table);

// The table at a place among all tables, which are in the order of their creation; `table` becomes
// NULL behind the last one. Where others drop tables meanwhile, go from the last place down: those
// behind a table that is dropped move by one place. Free the handle with mmdb_table_free.
mmdb_status mmdb_table_at(const struct mmdb_database *db, size_t at, struct mmdb_table **table);

// The table's name when the handle was made, or NULL if this is no table. It belongs to the
// handle.
const char *mmdb_table_name(const struct mmdb_table *table);

// How many columns and indexes the table had when the handle was made. Either may be NULL.
mmdb_status mmdb_table_counts(const struct mmdb_table *table, size_t *columns, size_t *indexes);

// A column of the table, as it was when the handle was made.
mmdb_status mmdb_table_column(const struct mmdb_table *table,
                              size_t at,
                              struct mmdb_column *column);

// An index of the table, as it was when the handle was made. The first one is the primary key.
mmdb_status mmdb_table_index(const struct mmdb_table *table, size_t at, struct mmdb_index *index);

// Frees a table's handle. The table stays.
mmdb_status mmdb_table_free(struct mmdb_table *table);

// Waits until the commit is durable; a lazy one is not waited for. `gsn`, which may be NULL,
// becomes its number.
mmdb_status mmdb_ticket_wait(const struct mmdb_ticket *ticket, uint64_t *gsn);

// As mmdb_ticket_wait, for a lazy commit too.
mmdb_status mmdb_ticket_wait_durable(const struct mmdb_ticket *ticket, uint64_t *gsn);

// Whether the commit is durable. Does not wait, and sees to it that it becomes so.
mmdb_status mmdb_ticket_poll(const struct mmdb_ticket *ticket, bool *done);

// The number of the commit.
mmdb_status mmdb_ticket_gsn(const struct mmdb_ticket *ticket, uint64_t *gsn);

// Frees a ticket. The commit becomes durable all the same.
mmdb_status mmdb_ticket_free(struct mmdb_ticket *ticket);

// Begins a serializable transaction. It ends with mmdb_commit or mmdb_abort, which free it.
mmdb_status mmdb_begin(const struct mmdb_database *db, struct mmdb_transaction **tx);

// Commits and frees the transaction, whatever this returns but MMDB_STATUS_MISUSE; after any other
// error nothing of it was done, but after MMDB_STATUS_INDETERMINATE. Its cursors end. With
// `ticket` NULL this waits until the commit is durable (a lazy one it does not wait for), and
// where mmdb_set_wait_check ends that it is MMDB_STATUS_INDETERMINATE, too, for the commit is
// done; otherwise it does not wait, and `ticket` becomes one, to be freed with mmdb_ticket_free.
// `mode` is an mmdb_durability.
mmdb_status mmdb_commit(struct mmdb_transaction *tx, uint32_t mode, struct mmdb_ticket **ticket);

// Undoes and frees the transaction. Its cursors end.
mmdb_status mmdb_abort(struct mmdb_transaction *tx);

// Runs a transaction until it commits. If another one was in the way (a call returned
// MMDB_STATUS_DEADLOCK or MMDB_STATUS_CONFLICT), the callback runs again once that has gone,
// whatever it returned; so it may run many times. MMDB_STATUS_ABORTED: the callback did not want
// it to commit. `mode` and `ticket` as in mmdb_commit.
mmdb_status mmdb_run(const struct mmdb_database *db,
                     uint32_t mode,
                     mmdb_callback callback,
                     void *context,
                     struct mmdb_ticket **ticket);

// As mmdb_run, for languages whose callbacks may break off and leave their result undefined: what
// `decision` holds when the callback returns is in the place of that result. It is 0 before each
// call.
mmdb_status mmdb_run_decided(const struct mmdb_database *db,
                             uint32_t mode,
                             mmdb_callback callback,
                             void *context,
                             int *decision,
                             struct mmdb_ticket **ticket);

// Inserts a row: one value for each column that the table's handle knows.
mmdb_status mmdb_insert(struct mmdb_transaction *tx,
                        const struct mmdb_table *into,
                        const struct mmdb_value *row,
                        size_t count);

// Inserts a row, or puts it in the place of the one that has its primary key. `replaced`, which
// may be NULL, becomes whether there was one.
mmdb_status mmdb_upsert(struct mmdb_transaction *tx,
                        const struct mmdb_table *into,
                        const struct mmdb_value *row,
                        size_t count,
                        bool *replaced);

// Changes columns of the row with a primary key. `found`, which may be NULL, becomes whether there
// is one.
mmdb_status mmdb_update(struct mmdb_transaction *tx,
                        const struct mmdb_table *of,
                        const struct mmdb_value *key,
                        size_t key_count,
                        const struct mmdb_assignment *set,
                        size_t set_count,
                        bool *found);

// Deletes the row with a primary key. `found`, which may be NULL, becomes whether there was one.
mmdb_status mmdb_delete(struct mmdb_transaction *tx,
                        const struct mmdb_table *of,
                        const struct mmdb_value *key,
                        size_t count,
                        bool *found);

// Reads the row with a primary key. `row` becomes NULL if there is none; free it with
// mmdb_row_free.
mmdb_status mmdb_get(struct mmdb_transaction *tx,
                     const struct mmdb_table *of,
                     const struct mmdb_value *key,
                     size_t count,
                     struct mmdb_row **row);

// Locks a primary key for a change, whether there is a row or not.
mmdb_status mmdb_lock_key(struct mmdb_transaction *tx,
                          const struct mmdb_table *of,
                          const struct mmdb_value *key,
                          size_t count);

// Reads the rows that have a key in an index. They are read at once: the cursor leaves the
// transaction free, and cannot change them.
mmdb_status mmdb_get_by(struct mmdb_transaction *tx,
                        const struct mmdb_table *of,
                        const char *index,
                        const struct mmdb_value *key,
                        size_t count,
                        struct mmdb_cursor **cursor);

// Opens a cursor over a range of an ordered index. NULL is no bound. `flags`: MMDB_RANGE_REVERSE,
// MMDB_RANGE_FOR_UPDATE, MMDB_RANGE_SKIP_LOCKED. Until the cursor is at its end or freed, the
// transaction can only be ended. Free it with mmdb_cursor_free.
mmdb_status mmdb_range(struct mmdb_transaction *tx,
                       const struct mmdb_table *of,
                       const char *index,
                       const struct mmdb_bound *lower,
                       const struct mmdb_bound *upper,
                       uint32_t flags,
                       struct mmdb_cursor **cursor);

// Opens a cursor over all rows, in the order of the primary key if that is ordered. As mmdb_range.
mmdb_status mmdb_scan(struct mmdb_transaction *tx,
                      const struct mmdb_table *of,
                      uint32_t flags,
                      struct mmdb_cursor **cursor);

// Deletes the rows of a range of an ordered index. `deleted`, which may be NULL, becomes their
// number.
mmdb_status mmdb_delete_range(struct mmdb_transaction *tx,
                              const struct mmdb_table *of,
                              const char *index,
                              const struct mmdb_bound *lower,
                              const struct mmdb_bound *upper,
                              uint64_t *deleted);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MMDB_H */

// Values.

static inline mmdb_value mmdb_null(void) {
  mmdb_value v;
  memset(&v, 0, sizeof v);
  return v;
}

static inline mmdb_value mmdb_bool(bool value) {
  mmdb_value v = mmdb_null();
  v.kind = MMDB_KIND_BOOL;
  v.integer = value;
  return v;
}

static inline mmdb_value mmdb_int(int64_t value) {
  mmdb_value v = mmdb_null();
  v.kind = MMDB_KIND_INT;
  v.integer = value;
  return v;
}

static inline mmdb_value mmdb_uint(uint64_t value) {
  mmdb_value v = mmdb_null();
  v.kind = MMDB_KIND_UINT;
  v.natural = value;
  return v;
}

static inline mmdb_value mmdb_float(double value) {
  mmdb_value v = mmdb_null();
  v.kind = MMDB_KIND_FLOAT;
  v.real = value;
  return v;
}

// 12.50 is mmdb_decimal(1250, 2).
static inline mmdb_value mmdb_decimal(int64_t unscaled, uint32_t scale) {
  mmdb_value v = mmdb_null();
  v.kind = MMDB_KIND_DECIMAL;
  v.integer = unscaled;
  v.scale = scale;
  return v;
}

// Microseconds since 1970-01-01 UTC.
static inline mmdb_value mmdb_time(int64_t microseconds) {
  mmdb_value v = mmdb_null();
  v.kind = MMDB_KIND_TIME;
  v.integer = microseconds;
  return v;
}

static inline mmdb_value mmdb_bytes(const void *data, size_t size) {
  mmdb_value v = mmdb_null();
  v.kind = MMDB_KIND_BYTES;
  v.data = data;
  v.size = size;
  return v;
}

// A text that ends with a zero.
static inline mmdb_value mmdb_text(const char *text) {
  mmdb_value v = mmdb_bytes(text, text == NULL ? 0 : strlen(text));
  v.kind = text == NULL ? MMDB_KIND_NULL : MMDB_KIND_TEXT;
  return v;
}
