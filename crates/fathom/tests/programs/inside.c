/* Calls every function of SQLite within which SQLite runs SQL of its own. A statement of the
 * application says so in a comment, `mine`; that is how the test tells it from what SQLite runs.
 * Prints how many statements of its own it ran. No header: only libsqlite3.so.0 is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef struct sqlite3_backup sqlite3_backup;
typedef struct sqlite3_blob sqlite3_blob;
typedef struct sqlite3_session sqlite3_session;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
int sqlite3_get_table(sqlite3 *, const char *, char ***, int *, int *, char **);
void sqlite3_free_table(char **);
void sqlite3_free(void *);
const char *sqlite3_errmsg(sqlite3 *);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_table_column_metadata(sqlite3 *, const char *, const char *, const char *, const char **, const char **, int *, int *, int *);
sqlite3_backup *sqlite3_backup_init(sqlite3 *, const char *, sqlite3 *, const char *);
int sqlite3_backup_step(sqlite3_backup *, int);
int sqlite3_backup_finish(sqlite3_backup *);
unsigned char *sqlite3_serialize(sqlite3 *, const char *, long long *, unsigned);
int sqlite3_deserialize(sqlite3 *, const char *, unsigned char *, long long, long long, unsigned);
int sqlite3_blob_open(sqlite3 *, const char *, const char *, const char *, long long, int, sqlite3_blob **);
int sqlite3_blob_write(sqlite3_blob *, const void *, int, int);
int sqlite3_blob_close(sqlite3_blob *);
int sqlite3_auto_extension(void (*)(void));
int sqlite3_wal_checkpoint_v2(sqlite3 *, const char *, int, int *, int *);
#pragma weak sqlite3session_create
#pragma weak sqlite3session_attach
#pragma weak sqlite3session_diff
#pragma weak sqlite3session_changeset
#pragma weak sqlite3session_patchset
#pragma weak sqlite3session_delete
#pragma weak sqlite3changeset_apply
int sqlite3session_create(sqlite3 *, const char *, sqlite3_session **);
int sqlite3session_attach(sqlite3_session *, const char *);
int sqlite3session_diff(sqlite3_session *, const char *, const char *, char **);
int sqlite3session_changeset(sqlite3_session *, int *, void **);
int sqlite3session_patchset(sqlite3_session *, int *, void **);
void sqlite3session_delete(sqlite3_session *);
int sqlite3changeset_apply(sqlite3 *, int, void *, int (*)(void *, const char *), int (*)(void *, int, void *), void *);

static int own;

static void must(int is_fine, const char *what, sqlite3 *db) {
  if (is_fine) return;
  printf("%s: %s\n", what, sqlite3_errmsg(db));
  exit(1);
}

static void run(sqlite3 *db, const char *sql) {
  own++;
  must(sqlite3_exec(db, sql, 0, 0, 0) == 0, sql, db);
}

static sqlite3 *opened(const char *name) {
  sqlite3 *db;
  must(sqlite3_open(name, &db) == 0, name, db);
  return db;
}

/* An automatic extension that runs SQL while a database is being opened. */
static int extension(sqlite3 *db) { return sqlite3_exec(db, "CREATE TEMP TABLE of_an_extension(a)", 0, 0, 0); }

static int keep_ours(void *unused, int why, void *change) { (void)unused, (void)why, (void)change; return 0; }

int main(void) {
  sqlite3 *db = opened("inside.db");
  run(db, "/* mine */ CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b BLOB)");
  run(db, "/* mine */ INSERT INTO t VALUES (1, 'one', zeroblob(100)), (2, 'two', x'02')");
  /* Virtual tables have statements of their own, for their shadow tables. */
  run(db, "/* mine */ CREATE VIRTUAL TABLE full USING fts4(words)");
  run(db, "/* mine */ CREATE VIRTUAL TABLE box USING rtree(id, x0, x1)");
  run(db, "/* mine */ INSERT INTO full VALUES ('some words to be found')");
  run(db, "/* mine */ INSERT INTO box VALUES (1, 0, 10)");
  run(db, "/* mine */ INSERT INTO full(full) VALUES ('optimize')");
  sqlite3_close(db);

  /* The first call on a fresh connection reads the schema, by SQL; and connects to the virtual
   * tables, which run SQL. */
  const char *type, *collation;
  int not_null, key, counts;
  db = opened("inside.db");
  must(sqlite3_table_column_metadata(db, "main", "t", "a", &type, &collation, &not_null, &key, &counts) == 0 && !strcmp(type, "TEXT"),
       "metadata", db);
  sqlite3_table_column_metadata(db, "main", "full", "words", &type, &collation, &not_null, &key, &counts);
  sqlite3_close(db);
  db = opened("inside.db");
  sqlite3_blob *blob;
  must(sqlite3_blob_open(db, "main", "t", "b", 1, 1, &blob) == 0, "blob", db);
  must(sqlite3_blob_write(blob, "written", 7, 3) == 0, "write", db);
  must(sqlite3_blob_close(blob) == 0, "close", db);
  sqlite3_close(db);
  db = opened("inside.db");
  long long bytes;
  unsigned char *image = sqlite3_serialize(db, "main", &bytes, 0);
  must(image && bytes > 0, "serialize", db);
  sqlite3_free(image);

  /* These two are the application's own, though SQLite runs them within a call. */
  char **table, *message = 0;
  int rows, columns;
  own++;
  must(sqlite3_get_table(db, "/* mine */ SELECT id, a FROM t ORDER BY id", &table, &rows, &columns, &message) == 0, "table", db);
  must(rows == 2 && columns == 2 && !strcmp(table[1], "a") && !strcmp(table[5], "two"), "table's cells", db);
  sqlite3_free_table(table);
  must(sqlite3_get_table(db, "/* mine */ SELECT * FROM missing", &table, &rows, &columns, &message) == 1 && message, "no table", db);
  sqlite3_free(message);
  run(db, "/* mine */ VACUUM");
  run(db, "/* mine */ ANALYZE");
  run(db, "/* mine */ ALTER TABLE t RENAME COLUMN a TO c");
  run(db, "/* mine */ REINDEX");
  sqlite3_wal_checkpoint_v2(db, 0, 0, 0, 0);

  sqlite3 *copy = opened("copy.db");
  sqlite3_backup *backup = sqlite3_backup_init(copy, "main", db, "main");
  must(backup && sqlite3_backup_step(backup, -1) == 101 && sqlite3_backup_finish(backup) == 0, "backup", copy);
  sqlite3_close(copy);

  if (sqlite3session_create) {
    sqlite3_session *session;
    int length;
    void *changes;
    run(db, "/* mine */ ATTACH 'other.db' AS other");
    run(db, "/* mine */ CREATE TABLE other.t(id INTEGER PRIMARY KEY, c TEXT, b BLOB)");
    must(sqlite3session_create(db, "main", &session) == 0 && sqlite3session_attach(session, "t") == 0, "session", db);
    must(sqlite3session_diff(session, "other", "t", &message) == 0, "diff", db);
    run(db, "/* mine */ UPDATE main.t SET c = 'deux' WHERE id = 2");
    must(sqlite3session_changeset(session, &length, &changes) == 0, "changeset", db);
    sqlite3_free(changes);
    must(sqlite3session_patchset(session, &length, &changes) == 0, "patchset", db);
    sqlite3session_delete(session);
    sqlite3 *target = opened("target.db");
    run(target, "/* mine */ CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT, b BLOB)");
    must(sqlite3changeset_apply(target, length, changes, 0, keep_ours, 0) == 0, "apply", target);
    sqlite3_free(changes);
    sqlite3_close(target);
    run(db, "/* mine */ DETACH other");
  }
  sqlite3_close(db);

  sqlite3_auto_extension((void (*)(void))extension);
  db = opened("inside.db");
  run(db, "/* mine */ INSERT INTO t VALUES (3, 'three', NULL)");
  sqlite3_close(db);
  printf("%d\n", own);
  return 0;
}
