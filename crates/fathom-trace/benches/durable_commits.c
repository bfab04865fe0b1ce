/* Commits of one row each, for the cost of capture (see capture_overhead.rs). Linked with the system's libsqlite3.
 * durable_commits DATABASE JOURNAL_MODE SYNCHRONOUS COMMITS RESULT   writes the nanoseconds of the commits into RESULT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sqlite3.h"

static sqlite3 *db;
static void must(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "durable_commits: %s: %s\n", what, sqlite3_errmsg(db));
  exit(1);
}

int main(int argc, char **argv) {
  char sql[200], text[101];
  sqlite3_stmt *insert;
  struct timespec a, b;
  must(argc == 6 && sqlite3_open(argv[1], &db) == SQLITE_OK, "usage or open");
  snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s; PRAGMA synchronous=%s; CREATE TABLE t(id INTEGER PRIMARY KEY, at REAL, text TEXT)",
           argv[2], argv[3]);
  must(sqlite3_exec(db, sql, 0, 0, 0) == SQLITE_OK, sql);
  must(sqlite3_prepare_v2(db, "INSERT INTO t(id, at, text) VALUES (?, ?, ?)", -1, &insert, 0) == SQLITE_OK, "prepare");
  memset(text, 'x', 100);
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0, n = atoi(argv[4]); i < n; i++) {
    sqlite3_bind_int64(insert, 1, i);
    sqlite3_bind_double(insert, 2, i * 0.5);
    sqlite3_bind_text(insert, 3, text, 100, SQLITE_STATIC);
    must(sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK, "INSERT");
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  sqlite3_finalize(insert);
  sqlite3_close(db);
  FILE *out = fopen(argv[5], "w");
  if (!out) return 1;
  fprintf(out, "%lld\n", (b.tv_sec - a.tv_sec) * 1000000000ll + (b.tv_nsec - a.tv_nsec));
  return fclose(out);
}
