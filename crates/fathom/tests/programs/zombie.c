/* Connections that are closed by sqlite3_close_v2 while a statement or a blob of theirs lives, which
 * goes on with its work: SQLite closes them when it ends. Loads the extension that it is given first.
 * Prints the codes. */
#include <stdio.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_blob sqlite3_blob;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_enable_load_extension(sqlite3 *, int);
int sqlite3_load_extension(sqlite3 *, const char *, const char *, char **);
int sqlite3_close(sqlite3 *);
int sqlite3_close_v2(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_bind_int(sqlite3_stmt *, int, int);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_reset(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_blob_open(sqlite3 *, const char *, const char *, const char *, long long, int, sqlite3_blob **);
int sqlite3_blob_write(sqlite3_blob *, const void *, int, int);
int sqlite3_blob_close(sqlite3_blob *);

int main(int count, char **words) {
  sqlite3 *db;
  sqlite3_stmt *insert, *rows;
  sqlite3_blob *blob;
#define SAY(call) printf("%d ", call)
  if (sqlite3_open("zombie.db", &db)) return 1;
  if (count > 1 && (sqlite3_enable_load_extension(db, 1) || sqlite3_load_extension(db, words[1], 0, 0))) return 2;
  if (sqlite3_exec(db, "CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(100)), (2), (3)", 0, 0, 0)) return 1;
  SAY(sqlite3_prepare_v2(db, "INSERT INTO t VALUES (?)", -1, &insert, 0));
  SAY(sqlite3_prepare_v2(db, "SELECT a FROM t", -1, &rows, 0));
  SAY(sqlite3_close(db));
  SAY(sqlite3_close_v2(db));
  for (int i = 0; i < 3; i++) {
    SAY(sqlite3_bind_int(insert, 1, i));
    SAY(sqlite3_step(insert));
    SAY(sqlite3_reset(insert));
  }
  for (int i = 0; i < 4; i++) SAY(sqlite3_step(rows));
  SAY(sqlite3_finalize(insert));
  SAY(sqlite3_step(rows));
  SAY(sqlite3_finalize(rows));
  if (sqlite3_open("zombie.db", &db)) return 1;
  SAY(sqlite3_blob_open(db, "main", "t", "a", 1, 1, &blob));
  SAY(sqlite3_close_v2(db));
  SAY(sqlite3_blob_write(blob, "Kunigunde", 9, 50));
  SAY(sqlite3_blob_close(blob));
  if (sqlite3_open("zombie.db", &db)) return 1;
  SAY(sqlite3_exec(db, "INSERT INTO t VALUES ('last')", 0, 0, 0));
  SAY(sqlite3_close_v2(db));
  puts("");
  return 0;
}
