/* What the interface promises, tried from C and from C++. Prints "ok". */
#include "mmdb.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                                                   \
  do {                                                                                             \
    int status_ = (int)(call);                                                                     \
    if (status_ != 0) {                                                                            \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, mmdb_status_name(status_), mmdb_error_message());  \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define IS(call, wanted)                                                                           \
  do {                                                                                             \
    int status_ = (int)(call);                                                                     \
    if (status_ != (int)(wanted)) {                                                                \
      fprintf(stderr, "%d: %s, not %s\n", __LINE__, mmdb_status_name(status_), #wanted);           \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define TRUE(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%d: %s\n", __LINE__, #condition);                                           \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static const mmdb_row *next_row(mmdb_cursor *c) {
  const mmdb_row *row = NULL;
  OK(mmdb_cursor_next(c, &row));
  return row;
}

static mmdb_table *make_table(mmdb_database *db) {
  const char *id[] = {"id"};
  const char *name[] = {"name"};
  mmdb_schema *s = NULL;
  mmdb_table *t = NULL;
  OK(mmdb_schema_new("item", &s));
  OK(mmdb_schema_column(s, "id", MMDB_TYPE_UINT64, 0, false));
  OK(mmdb_schema_column(s, "name", MMDB_TYPE_VAR_TEXT, 40, false));
  OK(mmdb_schema_column(s, "price", MMDB_TYPE_DECIMAL, 2, true));
  OK(mmdb_schema_column(s, "weight", MMDB_TYPE_FLOAT64, 0, true));
  OK(mmdb_schema_column(s, "sold", MMDB_TYPE_BOOL, 0, true));
  OK(mmdb_schema_column(s, "made", MMDB_TYPE_TIME, 0, true));
  OK(mmdb_schema_column(s, "picture", MMDB_TYPE_VAR_BYTES, 1000, true));
  OK(mmdb_schema_primary_key(s, id, 1, MMDB_INDEX_ORDERED));
  OK(mmdb_schema_index(s, "by_name", name, 1, MMDB_INDEX_ORDERED));
  OK(mmdb_schema_locking(s, MMDB_LOCKING_RECORD));
  OK(mmdb_schema_logging(s, MMDB_LOGGING_LOGGED));
  IS(mmdb_schema_locking(s, 9), MMDB_STATUS_MISUSE);
  IS(mmdb_schema_index(s, "x", name, 1, 64), MMDB_STATUS_MISUSE);
  IS(mmdb_schema_column(s, "x", 99, 0, false), MMDB_STATUS_MISUSE);
  OK(mmdb_create_table(db, s, &t));
  IS(mmdb_create_table(db, s, &t), MMDB_STATUS_TABLE_EXISTS);
  OK(mmdb_schema_free(s));
  return t;
}

static int looks = 0;

static int third_look(void) {
  looks++;
  return looks % 3 == 0;
}

static void make_row(mmdb_value *row, uint64_t id, const char *name);

/* Handles in cells, and a wait that is ended. */
static void cells(mmdb_database *db, mmdb_table *t) {
  mmdb_transaction *older = NULL, *younger = NULL;
  mmdb_ticket *ticket = NULL;
  mmdb_snapshot *snapshot = NULL;
  mmdb_value key = mmdb_uint(1);
  void *cell = NULL;
  bool found = false;
  OK(mmdb_release(&cell));
  IS(mmdb_release(NULL), MMDB_STATUS_MISUSE);
  cell = &key;
  IS(mmdb_release(&cell), MMDB_STATUS_MISUSE);
  TRUE(cell == (void *)&key);
  OK(mmdb_snapshot_open(db, &snapshot));
  cell = snapshot;
  OK(mmdb_release(&cell));
  TRUE(cell == NULL);

  IS(mmdb_set_wait_check(NULL), MMDB_STATUS_MISUSE);
  OK(mmdb_set_wait_check(third_look));
  OK(mmdb_begin(db, &older));
  OK(mmdb_begin(db, &younger));
  OK(mmdb_delete(younger, t, &key, 1, &found));
  IS(mmdb_lock_key(older, t, &key, 1), MMDB_STATUS_INTERRUPTED);
  TRUE(looks == 3 && !mmdb_status_is_retryable(MMDB_STATUS_INTERRUPTED));
  /* It can only be undone. */
  IS(mmdb_commit_at(&older, 7, &ticket), MMDB_STATUS_MISUSE);
  TRUE(older != NULL);
  IS(mmdb_commit_at(&older, MMDB_DURABILITY_DURABLE, &ticket), MMDB_STATUS_INTERRUPTED);
  TRUE(older == NULL && ticket == NULL);
  OK(mmdb_commit_at(&younger, MMDB_DURABILITY_LAZY, &ticket));
  TRUE(younger == NULL && ticket != NULL);
  cell = ticket;
  OK(mmdb_release(&cell));
  OK(mmdb_begin(db, &older));
  cell = older;
  OK(mmdb_release(&cell));
  TRUE(cell == NULL);

  /* A wait for what is committed is ended, too, and the status does not say that nothing was done:
     who tried again did it twice. */
  {
    int ended = 0, tries;
    mmdb_value row[7];
    make_row(row, 9000, "again");
    for (tries = 0; tries < 100000 && ended == 0; tries++) {
      mmdb_status status;
      OK(mmdb_begin(db, &younger));
      OK(mmdb_upsert(younger, t, row, 7, NULL));
      OK(mmdb_commit(younger, MMDB_DURABILITY_LAZY, NULL));
      OK(mmdb_begin(db, &older));
      status = mmdb_commit(older, MMDB_DURABILITY_DURABLE, NULL);
      ended += status == MMDB_STATUS_INDETERMINATE;
      TRUE(status == MMDB_STATUS_OK || status == MMDB_STATUS_INDETERMINATE);
    }
    TRUE(ended == 1);
    key = mmdb_uint(9000);
    OK(mmdb_begin(db, &younger));
    OK(mmdb_delete(younger, t, &key, 1, &found));
    OK(mmdb_commit(younger, MMDB_DURABILITY_LAZY, NULL));
    TRUE(found);
  }
}

static void make_row(mmdb_value *row, uint64_t id, const char *name) {
  row[0] = mmdb_uint(id);
  row[1] = mmdb_text(name);
  row[2] = mmdb_decimal(1250, 2);
  row[3] = mmdb_float(0.5);
  row[4] = mmdb_bool(true);
  row[5] = mmdb_time(1700000000000000);
  row[6] = mmdb_bytes("\0\1\2", 3);
}

static void values_come_back(mmdb_database *db, const mmdb_table *t) {
  mmdb_transaction *tx = NULL;
  mmdb_ticket *ticket = NULL;
  mmdb_row *row = NULL;
  mmdb_value v[7], key = mmdb_uint(1);
  const mmdb_value *got = NULL;
  size_t count = 0;
  uint64_t gsn = 0;
  bool done = false;
  OK(mmdb_begin(db, &tx));
  make_row(v, 1, "pen");
  OK(mmdb_insert(tx, t, v, 7));
  IS(mmdb_insert(tx, t, v, 7), MMDB_STATUS_DUPLICATE_KEY);
  TRUE(strstr(mmdb_error_message(), "item") != NULL && mmdb_error_code() == MMDB_STATUS_DUPLICATE_KEY);
  IS(mmdb_insert(tx, t, v, 6), MMDB_STATUS_OPERATION);
  v[1] = mmdb_text("\xff");
  IS(mmdb_insert(tx, t, v, 7), MMDB_STATUS_NOT_TEXT);
  v[1] = mmdb_int(3);
  IS(mmdb_insert(tx, t, v, 7), MMDB_STATUS_VALUE);
  v[1].kind = 77;
  IS(mmdb_insert(tx, t, v, 7), MMDB_STATUS_MISUSE);
  v[1] = mmdb_bytes(NULL, 5);
  IS(mmdb_insert(tx, t, v, 7), MMDB_STATUS_MISUSE);
  v[1] = mmdb_bytes("x", (size_t)-1);
  IS(mmdb_insert(tx, t, v, 7), MMDB_STATUS_MISUSE);
  IS(mmdb_insert(tx, t, NULL, 7), MMDB_STATUS_MISUSE);
  v[2] = mmdb_decimal(1, 200);
  v[1] = mmdb_text("x");
  IS(mmdb_insert(tx, t, v, 7), MMDB_STATUS_VALUE);
  OK(mmdb_commit(tx, MMDB_DURABILITY_DURABLE, &ticket));
  OK(mmdb_ticket_wait(ticket, &gsn));
  OK(mmdb_ticket_poll(ticket, &done));
  TRUE(done && gsn == 1);
  OK(mmdb_ticket_free(ticket));

  OK(mmdb_begin(db, &tx));
  OK(mmdb_get(tx, t, &key, 1, &row));
  OK(mmdb_row_values(row, &got, &count));
  TRUE(count == 7);
  TRUE(got[0].kind == MMDB_KIND_UINT && got[0].natural == 1);
  TRUE(got[1].kind == MMDB_KIND_TEXT && got[1].size == 3 && memcmp(got[1].data, "pen", 3) == 0);
  TRUE(got[2].kind == MMDB_KIND_DECIMAL && got[2].integer == 1250 && got[2].scale == 2);
  TRUE(got[3].kind == MMDB_KIND_FLOAT && got[3].real > 0.4 && got[3].real < 0.6);
  TRUE(got[4].kind == MMDB_KIND_BOOL && got[4].integer == 1);
  TRUE(got[5].kind == MMDB_KIND_TIME && got[5].integer == 1700000000000000);
  TRUE(got[6].kind == MMDB_KIND_BYTES && got[6].size == 3 && memcmp(got[6].data, "\0\1\2", 3) == 0);
  OK(mmdb_row_free(row));
  key = mmdb_uint(2);
  OK(mmdb_get(tx, t, &key, 1, &row));
  TRUE(row == NULL);
  OK(mmdb_abort(tx));
}

static void expect_second(mmdb_cursor *c) {
  const mmdb_row *row = NULL;
  const mmdb_value *got = NULL;
  OK(mmdb_cursor_next(c, &row));
  TRUE(row == NULL);
  OK(mmdb_cursor_next(c, &row));
  OK(mmdb_row_values(row, &got, NULL));
  TRUE(got[0].natural == 1);
  OK(mmdb_cursor_next(c, &row));
  TRUE(row == NULL);
  OK(mmdb_cursor_next(c, &row));
  TRUE(row == NULL);
  OK(mmdb_cursor_free(c));
}

static void many_keys_at_once(mmdb_database *db, const mmdb_table *t) {
  mmdb_transaction *tx = NULL;
  mmdb_snapshot *s = NULL;
  mmdb_cursor *c = NULL;
  mmdb_row *row = NULL;
  mmdb_value keys[3], v[7];
  keys[0] = mmdb_uint(99);
  keys[1] = mmdb_uint(1);
  keys[2] = mmdb_uint(98);
  OK(mmdb_get_committed(db, t, keys + 1, 1, &row));
  TRUE(row != NULL);
  OK(mmdb_row_free(row));
  OK(mmdb_get_many_committed(db, t, keys, 1, 3, &c));
  expect_second(c);
  OK(mmdb_snapshot_open(db, &s));
  OK(mmdb_snapshot_get_many(s, t, keys, 1, 3, &c));
  expect_second(c);
  OK(mmdb_snapshot_free(s));
  OK(mmdb_begin(db, &tx));
  make_row(v, 97, "new");
  OK(mmdb_insert(tx, t, v, 7));
  OK(mmdb_get_many(tx, t, keys, 1, 3, &c));
  expect_second(c);
  OK(mmdb_get_committed(db, t, &v[0], 1, &row));
  TRUE(row == NULL);
  OK(mmdb_get_many_committed(db, t, NULL, 1, 0, &c));
  OK(mmdb_cursor_free(c));
  IS(mmdb_get_many(tx, t, keys, 0, 3, &c), MMDB_STATUS_MISUSE);
  IS(mmdb_get_many(tx, t, keys, (size_t)-1, 3, &c), MMDB_STATUS_MISUSE);
  IS(mmdb_get_many(tx, t, NULL, 1, 3, &c), MMDB_STATUS_MISUSE);
  IS(mmdb_get_many(tx, t, keys, 1, 3, NULL), MMDB_STATUS_MISUSE);
  IS(mmdb_get_many(tx, t, keys, 3, 1, &c), MMDB_STATUS_OPERATION);
  IS(mmdb_get_many(NULL, t, keys, 1, 3, &c), MMDB_STATUS_MISUSE);
  IS(mmdb_get_many_committed(db, NULL, keys, 1, 3, &c), MMDB_STATUS_MISUSE);
  keys[2] = mmdb_text("x");
  IS(mmdb_get_many_committed(db, t, keys, 1, 3, &c), MMDB_STATUS_VALUE);
  OK(mmdb_abort(tx));
}

static void cursors_hold_their_transaction(mmdb_database *db, const mmdb_table *t) {
  mmdb_transaction *tx = NULL;
  mmdb_cursor *c = NULL, *d = NULL;
  const mmdb_row *row = NULL;
  const mmdb_value *got = NULL;
  mmdb_value v[7], key = mmdb_uint(3);
  mmdb_bound lower = {NULL, 0, false};
  mmdb_assignment set = {"name", mmdb_text("ink")};
  uint64_t count = 0;
  bool found = false;
  OK(mmdb_begin(db, &tx));
  for (uint64_t i = 2; i <= 9; i++) {
    make_row(v, i, "pen");
    OK(mmdb_upsert(tx, t, v, 7, &found));
    TRUE(!found);
  }
  lower.values = &key;
  lower.count = 1;
  lower.excluded = true;
  OK(mmdb_range(tx, t, "primary", &lower, NULL, MMDB_RANGE_FOR_UPDATE, &c));
  OK(mmdb_cursor_next(c, &row));
  OK(mmdb_row_values(row, &got, NULL));
  TRUE(got[0].natural == 4);
  IS(mmdb_row_free((mmdb_row *)(uintptr_t)row), MMDB_STATUS_MISUSE);
  IS(mmdb_delete(tx, t, &key, 1, NULL), MMDB_STATUS_MISUSE);
  IS(mmdb_scan(tx, t, 0, &d), MMDB_STATUS_MISUSE);
  OK(mmdb_cursor_update(c, &set, 1, &found));
  TRUE(found);
  OK(mmdb_cursor_next(c, &row));
  OK(mmdb_cursor_delete(c, &found));
  TRUE(found);
  OK(mmdb_cursor_free(c));
  set.column = "colour";
  IS(mmdb_update(tx, t, &key, 1, &set, 1, NULL), MMDB_STATUS_NO_SUCH_COLUMN);
  set.column = "price";
  set.value = mmdb_null();
  OK(mmdb_update(tx, t, &key, 1, &set, 1, &found));
  TRUE(found);
  OK(mmdb_lock_key(tx, t, &key, 1));
  key = mmdb_text("pen");
  OK(mmdb_get_by(tx, t, "by_name", &key, 1, &c));
  for (row = next_row(c); row != NULL; row = next_row(c)) {
    count++;
    IS(mmdb_cursor_delete(c, NULL), MMDB_STATUS_MISUSE);
  }
  TRUE(count == 7);
  OK(mmdb_cursor_next(c, &row));
  TRUE(row == NULL);
  OK(mmdb_cursor_free(c));
  key = mmdb_uint(8);
  lower.excluded = false;
  OK(mmdb_delete_range(tx, t, "primary", &lower, NULL, &count));
  TRUE(count == 2);
  OK(mmdb_scan(tx, t, MMDB_RANGE_REVERSE, &c));
  OK(mmdb_cursor_next(c, &row));
  OK(mmdb_row_values(row, &got, NULL));
  TRUE(got[0].natural == 7);
  OK(mmdb_commit(tx, MMDB_DURABILITY_DURABLE, NULL));
  /* The transaction has ended; its cursor has a handle and nothing else. */
  IS(mmdb_cursor_next(c, &row), MMDB_STATUS_MISUSE);
  OK(mmdb_cursor_free(c));

  OK(mmdb_begin(db, &tx));
  OK(mmdb_scan(tx, t, 0, &c));
  OK(mmdb_abort(tx));
  IS(mmdb_cursor_next(c, &row), MMDB_STATUS_MISUSE);
  OK(mmdb_cursor_free(c));
}

static void snapshots_stay(mmdb_database *db, const mmdb_table *t) {
  mmdb_snapshot *s = NULL;
  mmdb_transaction *tx = NULL;
  mmdb_cursor *c = NULL;
  mmdb_row *row = NULL;
  const mmdb_row *lent = NULL;
  mmdb_ticket *ticket = NULL;
  mmdb_value key = mmdb_uint(1);
  uint64_t gsn = 0, count = 0;
  OK(mmdb_snapshot_open(db, &s));
  OK(mmdb_begin(db, &tx));
  OK(mmdb_delete(tx, t, &key, 1, NULL));
  OK(mmdb_commit(tx, MMDB_DURABILITY_LAZY, NULL));
  OK(mmdb_snapshot_get(s, t, &key, 1, &row));
  TRUE(row != NULL);
  OK(mmdb_row_free(row));
  OK(mmdb_snapshot_range(s, t, "primary", NULL, NULL, MMDB_RANGE_REVERSE, &c));
  OK(mmdb_snapshot_gsn(s, &gsn, &ticket));
  OK(mmdb_ticket_wait_durable(ticket, NULL));
  OK(mmdb_ticket_free(ticket));
  OK(mmdb_snapshot_free(s));
  /* The cursor keeps it. */
  for (lent = next_row(c); lent != NULL; lent = next_row(c)) count++;
  TRUE(count == 6);
  OK(mmdb_cursor_free(c));
}

/* A dump of an open database could not be had. */
static void dump(mmdb_database *db, const mmdb_table *t, const char *dir) {
  mmdb_snapshot *s = NULL;
  char path[4096];
  uint64_t written = 0, rows = 0;
  snprintf(path, sizeof path, "%s/dump", dir);
  OK(mmdb_get_table_stats(db, t, &rows, NULL, NULL));
  OK(mmdb_snapshot_open(db, &s));
  OK(mmdb_snapshot_dump(s, path, &written));
  TRUE(rows > 0 && written >= rows);
  IS(mmdb_snapshot_dump(s, path, NULL), MMDB_STATUS_FILE);
  OK(mmdb_snapshot_free(s));
}

struct turns {
  const mmdb_table *table;
  int runs;
};

static int refuse(mmdb_transaction *tx, void *context) {
  struct turns *turns = (struct turns *)context;
  mmdb_value v[7];
  turns->runs++;
  make_row(v, 100, "never");
  OK(mmdb_insert(tx, turns->table, v, 7));
  IS(mmdb_commit(tx, 0, NULL), MMDB_STATUS_MISUSE);
  IS(mmdb_abort(tx), MMDB_STATUS_MISUSE);
  return 0;
}

static int count_up(mmdb_transaction *tx, void *context) {
  struct turns *turns = (struct turns *)context;
  mmdb_value key = mmdb_uint(50);
  mmdb_row *row = NULL;
  const mmdb_value *got = NULL;
  mmdb_assignment set;
  mmdb_status status = mmdb_get(tx, turns->table, &key, 1, &row);
  turns->runs++;
  if (status != MMDB_STATUS_OK) return 0;
  OK(mmdb_row_values(row, &got, NULL));
  set.column = "made";
  set.value = mmdb_time(got[5].integer + 1);
  OK(mmdb_row_free(row));
  return mmdb_update(tx, turns->table, &key, 1, &set, 1, NULL) == MMDB_STATUS_OK;
}

static mmdb_database *shared;
static const mmdb_table *shared_table;

static void *work(void *argument) {
  struct turns turns;
  (void)argument;
  turns.table = shared_table;
  turns.runs = 0;
  for (int i = 0; i < 25; i++) OK(mmdb_run(shared, MMDB_DURABILITY_DURABLE, count_up, &turns, NULL));
  return NULL;
}

static void transactions_run_again(mmdb_database *db, const mmdb_table *t) {
  struct turns turns;
  pthread_t threads[4];
  mmdb_transaction *tx = NULL;
  mmdb_row *row = NULL;
  const mmdb_value *got = NULL;
  mmdb_value v[7], key = mmdb_uint(50);
  turns.table = t;
  turns.runs = 0;
  IS(mmdb_run(db, MMDB_DURABILITY_DURABLE, refuse, &turns, NULL), MMDB_STATUS_ABORTED);
  TRUE(turns.runs == 1);
  IS(mmdb_run(db, MMDB_DURABILITY_DURABLE, NULL, NULL, NULL), MMDB_STATUS_MISUSE);
  make_row(v, 50, "counter");
  v[5] = mmdb_time(0);
  OK(mmdb_begin(db, &tx));
  OK(mmdb_insert(tx, t, v, 7));
  OK(mmdb_commit(tx, MMDB_DURABILITY_DURABLE, NULL));
  shared = db;
  shared_table = t;
  for (int i = 0; i < 4; i++) TRUE(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (int i = 0; i < 4; i++) TRUE(pthread_join(threads[i], NULL) == 0);
  OK(mmdb_begin(db, &tx));
  OK(mmdb_get(tx, t, &key, 1, &row));
  OK(mmdb_row_values(row, &got, NULL));
  TRUE(got[5].integer == 100);
  OK(mmdb_row_free(row));
  OK(mmdb_abort(tx));
}

static void tables_change(mmdb_database *db, const mmdb_table *t) {
  mmdb_table *more = NULL, *less = NULL, *found = NULL;
  mmdb_column column;
  mmdb_index index;
  mmdb_value seven = mmdb_int(7);
  const char *names[] = {"count"};
  size_t columns = 0, indexes = 0;
  uint64_t rows = 0;
  OK(mmdb_add_column(db, t, "count", MMDB_TYPE_INT32, 0, false, &seven, &more));
  OK(mmdb_table_counts(more, &columns, &indexes));
  TRUE(columns == 8 && indexes == 2);
  OK(mmdb_table_column(more, 2, &column));
  TRUE(strcmp(column.name, "price") == 0 && column.kind == MMDB_TYPE_DECIMAL && column.size == 2);
  TRUE(column.nullable);
  IS(mmdb_table_column(more, 8, &column), MMDB_STATUS_MISUSE);
  OK(mmdb_create_index(db, more, "by_count", names, 1, MMDB_INDEX_ORDERED));
  IS(mmdb_create_index(db, more, "by_nothing", names, 1, 16), MMDB_STATUS_MISUSE);
  OK(mmdb_table_open(db, "item", &found));
  OK(mmdb_table_index(found, 2, &index));
  TRUE(strcmp(index.name, "by_count") == 0 && index.count == 1 && index.columns[0] == 7);
  TRUE(index.flags == MMDB_INDEX_ORDERED);
  OK(mmdb_drop_index(db, more, "by_count"));
  OK(mmdb_rename_column(db, more, "count", "number"));
  OK(mmdb_drop_column(db, more, "weight", &less));
  OK(mmdb_get_table_stats(db, less, &rows, NULL, NULL));
  TRUE(rows == 6);
  OK(mmdb_rename_table(db, less, "thing"));
  IS(mmdb_table_open(db, "item", &found), MMDB_STATUS_NO_SUCH_TABLE);
  OK(mmdb_table_free(found));
  OK(mmdb_table_at(db, 0, &found));
  TRUE(strcmp(mmdb_table_name(found), "thing") == 0);
  OK(mmdb_drop_table(db, found));
  OK(mmdb_table_free(found));
  OK(mmdb_table_at(db, 0, &found));
  TRUE(found == NULL);
  IS(mmdb_drop_table(db, less), MMDB_STATUS_NO_SUCH_TABLE);
  /* A table that was dropped had the figures of another one that got its name. */
  OK(mmdb_table_free(make_table(db)));
  OK(mmdb_table_open(db, "item", &found));
  OK(mmdb_get_table_stats(db, found, &rows, NULL, NULL));
  TRUE(rows == 0);
  OK(mmdb_rename_table(db, found, "thing"));
  IS(mmdb_get_table_stats(db, less, &rows, NULL, NULL), MMDB_STATUS_NO_SUCH_TABLE);
  OK(mmdb_drop_table(db, found));
  OK(mmdb_table_free(found));
  OK(mmdb_table_free(less));
  OK(mmdb_table_free(more));
}

static void blobs_are_read_in_parts(mmdb_database *db) {
  enum { SIZE = 300000 };
  const char *id[] = {"id"};
  unsigned char *data = (unsigned char *)malloc(SIZE), part[10];
  mmdb_blobs *b = NULL;
  mmdb_schema *schema = NULL;
  mmdb_table *owner = NULL, *chunks = NULL;
  mmdb_transaction *tx = NULL;
  mmdb_snapshot *before = NULL, *after = NULL;
  mmdb_value key = mmdb_uint(7);
  uint64_t length = 0, next = 0;
  size_t count = 0;
  bool found = false;
  for (int i = 0; i < SIZE; i++) data[i] = (unsigned char)(i % 251);
  OK(mmdb_blobs_open(db, "picture", &b));
  OK(mmdb_begin(db, &tx));
  OK(mmdb_blob_put(tx, b, 7, data, SIZE));
  IS(mmdb_blob_put(tx, b, 7, data, ((size_t)16 << 20) + 1), MMDB_STATUS_OPERATION);
  IS(mmdb_blob_put(tx, b, 7, NULL, 1), MMDB_STATUS_MISUSE);
  IS(mmdb_blob_write(tx, b, 7, SIZE + 1, data, 1), MMDB_STATUS_OPERATION);
  OK(mmdb_commit(tx, MMDB_DURABILITY_DURABLE, NULL));
  OK(mmdb_snapshot_open(db, &before));
  OK(mmdb_begin(db, &tx));
  OK(mmdb_blob_write(tx, b, 7, 200000, "changed", 7));
  OK(mmdb_blob_read(tx, b, 7, 199999, part, sizeof part, &count, &found));
  TRUE(found && count == 10 && memcmp(part + 1, "changed", 7) == 0);
  OK(mmdb_blob_truncate(tx, b, 7, 200005, &found));
  OK(mmdb_blob_length(tx, b, 7, &length, &found));
  TRUE(found && length == 200005);
  OK(mmdb_blob_length(tx, b, 8, &length, &found));
  TRUE(!found && length == 0);
  IS(mmdb_blob_read(tx, b, 7, 0, NULL, 5, &count, NULL), MMDB_STATUS_MISUSE);
  OK(mmdb_blob_read(tx, b, 7, (uint64_t)-1, part, sizeof part, &count, &found));
  TRUE(found && count == 0);
  OK(mmdb_commit(tx, MMDB_DURABILITY_DURABLE, NULL));
  memset(data, 0, SIZE);
  OK(mmdb_snapshot_blob_length(before, b, 7, &length, &found));
  OK(mmdb_snapshot_blob_read(before, b, 7, 0, data, SIZE, &count, &found));
  TRUE(found && length == SIZE && count == SIZE && data[200000] == 200000 % 251);
  OK(mmdb_snapshot_next_blob(before, b, 3, &next, &found));
  TRUE(found && next == 7);
  OK(mmdb_snapshot_next_blob(before, b, 8, &next, &found));
  TRUE(!found);
  OK(mmdb_snapshot_free(before));

  OK(mmdb_schema_new("owner", &schema));
  OK(mmdb_schema_column(schema, "id", MMDB_TYPE_UINT64, 0, false));
  OK(mmdb_schema_primary_key(schema, id, 1, 0));
  OK(mmdb_create_table(db, schema, &owner));
  OK(mmdb_schema_free(schema));
  OK(mmdb_blobs_belong_to(b, owner));
  OK(mmdb_begin(db, &tx));
  OK(mmdb_insert(tx, owner, &key, 1));
  OK(mmdb_delete(tx, owner, &key, 1, &found));
  OK(mmdb_blob_delete(tx, b, 7, &found));
  TRUE(!found);
  OK(mmdb_commit(tx, MMDB_DURABILITY_DURABLE, NULL));
  OK(mmdb_snapshot_open(db, &after));
  OK(mmdb_snapshot_blob_length(after, b, 7, &length, &found));
  TRUE(!found);
  OK(mmdb_snapshot_free(after));
  OK(mmdb_table_open(db, "picture", &chunks));
  OK(mmdb_drop_table(db, chunks));
  OK(mmdb_drop_table(db, owner));
  OK(mmdb_table_free(chunks));
  OK(mmdb_table_free(owner));
  OK(mmdb_blobs_free(b));
  OK(mmdb_blobs_free(NULL));
  IS(mmdb_blobs_belong_to((mmdb_blobs *)(void *)db, NULL), MMDB_STATUS_MISUSE);
  free(data);
}

static void wrong_handles_are_noticed(mmdb_database *db, mmdb_table *t) {
  mmdb_transaction *tx = NULL;
  mmdb_cursor *c = NULL;
  uint64_t word[4] = {0, 0, 0, 0};
  char path[] = "x";
  IS(mmdb_begin(NULL, &tx), MMDB_STATUS_MISUSE);
  IS(mmdb_begin(db, NULL), MMDB_STATUS_MISUSE);
  IS(mmdb_begin((mmdb_database *)(void *)t, &tx), MMDB_STATUS_MISUSE);
  IS(mmdb_begin((mmdb_database *)(void *)word, &tx), MMDB_STATUS_MISUSE);
  IS(mmdb_begin((mmdb_database *)(void *)((char *)(void *)word + 1), &tx), MMDB_STATUS_MISUSE);
  IS(mmdb_scan((mmdb_transaction *)(void *)db, t, 0, &c), MMDB_STATUS_MISUSE);
  IS(mmdb_table_free((mmdb_table *)(void *)db), MMDB_STATUS_MISUSE);
  IS(mmdb_close((mmdb_database *)(void *)t), MMDB_STATUS_MISUSE);
  IS(mmdb_open(NULL, NULL, &db), MMDB_STATUS_MISUSE);
  IS(mmdb_open(path, (mmdb_options *)(void *)t, &db), MMDB_STATUS_MISUSE);
  TRUE(tx == NULL && c == NULL && mmdb_table_name(NULL) == NULL);
  OK(mmdb_close(NULL));
  OK(mmdb_abort(NULL));
  OK(mmdb_row_free(NULL));
  OK(mmdb_cursor_free(NULL));
  OK(mmdb_ticket_free(NULL));
  OK(mmdb_snapshot_free(NULL));
  OK(mmdb_schema_free(NULL));
  OK(mmdb_options_free(NULL));
  TRUE(strcmp(mmdb_status_name(14), "duplicate key") == 0 && strcmp(mmdb_status_name(-1), "unknown") == 0);
  TRUE(mmdb_status_is_retryable(MMDB_STATUS_DEADLOCK) && !mmdb_status_is_retryable(0));
}

int main(int argc, char **argv) {
  mmdb_options *options = NULL;
  mmdb_database *db = NULL;
  mmdb_table *t = NULL;
  mmdb_transaction *tx = NULL;
  mmdb_checkpoint_stats done;
  mmdb_stats stats;
  char path[4096];
  uint64_t gsn = 0, horizon = 0, rows = 9;
  TRUE(argc == 2);
  OK(mmdb_options_new(&options));
  OK(mmdb_options_set(options, "segment_bytes", 1 << 20));
  /* No thread gives up because another one stands still for long, as under valgrind. */
  OK(mmdb_options_set(options, "lock_timeout_ms", 600000));
  IS(mmdb_options_set(options, "scrub", 2), MMDB_STATUS_OPTIONS);
  IS(mmdb_options_set(options, "colour", 2), MMDB_STATUS_OPTIONS);
  TRUE(strstr(mmdb_error_message(), "segment_bytes") != NULL);
  snprintf(path, sizeof path, "%s/db", argv[1]);
  OK(mmdb_open(path, options, &db));
  {
    mmdb_database *again = NULL;
    IS(mmdb_open(path, options, &again), MMDB_STATUS_IO);
    TRUE(again == NULL);
  }
  t = make_table(db);
  values_come_back(db, t);
  many_keys_at_once(db, t);
  cursors_hold_their_transaction(db, t);
  snapshots_stay(db, t);
  transactions_run_again(db, t);
  blobs_are_read_in_parts(db);
  wrong_handles_are_noticed(db, t);

  OK(mmdb_checkpoint(db, &done));
  OK(mmdb_flush(db));
  OK(mmdb_expire(db, -5, &rows));
  TRUE(rows == 0);
  OK(mmdb_horizon(db, &horizon));
  OK(mmdb_get_stats(db, &stats, sizeof stats));
  TRUE(stats.horizon == horizon && stats.checkpoints == 1 && !stats.poisoned && stats.snapshots == 0);
  TRUE(stats.locks == 0 && stats.commits >= 100);
  IS(mmdb_get_stats(db, &stats, sizeof stats + 8), MMDB_STATUS_MISUSE);
  snprintf(path, sizeof path, "%s/copy", argv[1]);
  OK(mmdb_backup(db, path, &gsn));
  TRUE(gsn == horizon);
  dump(db, t, argv[1]);
  cells(db, t);
  tables_change(db, t);
  /* In the wrong order: the transaction keeps the database open. */
  OK(mmdb_begin(db, &tx));
  OK(mmdb_close(db));
  OK(mmdb_abort(tx));
  OK(mmdb_table_free(t));

  {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s/restored", argv[1]);
    OK(mmdb_restore(path, copy, options));
    OK(mmdb_open(copy, options, &db));
    OK(mmdb_table_open(db, "item", &t));
    OK(mmdb_get_table_stats(db, t, &rows, NULL, NULL));
    TRUE(rows == 6);
    OK(mmdb_table_free(t));
    OK(mmdb_close(db));
  }
  OK(mmdb_options_free(options));
  puts("ok");
  return 0;
}
