/* Mobibench's insert loop with nothing around it, to see what Fathom's harness costs (see harness_cost.rs).
 * bare_loop FILE JOURNAL_MODE SYNCHRONOUS TRANSACTIONS text|prepared|ready   prints the nanoseconds the transactions took;
 * ready: prepared, with values that were made and tables that were there before the clock ran, as a replay's are. As with a replay, the
 * clock then runs from opening the connection, settings included, to its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "sqlite3.h"

#define TABLES 3
static sqlite3 *db;

static void must(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "bare_loop: %s: %s\n", what, sqlite3_errmsg(db));
  exit(1);
}
static void run(const char *sql) { must(sqlite3_exec(db, sql, 0, 0, 0) == SQLITE_OK, sql); }
static void create(void) {
  char sql[128];
  for (int t = 0; t < TABLES; t++) {
    snprintf(sql, sizeof sql, "CREATE TABLE tblMyList%d (id INTEGER PRIMARY KEY, Value TEXT not null, creation_date long)", t);
    run(sql);
  }
}
static const char *value(void) { /* 100 random letters, another hundred each time */
  static unsigned long long x = 88172645463325252ull;
  static char text[101];
  for (int i = 0; i < 100; i++) {
    if (i % 10 == 0) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    text[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[x >> (i % 10 * 6) & 63];
  }
  return text;
}

int main(int argc, char **argv) {
  char sql[4096];
  sqlite3_stmt *insert[TABLES], *begin, *commit;
  struct timespec a, b;
  must(argc == 6 && sqlite3_open(argv[1], &db) == SQLITE_OK, "usage or open");
  int n = atoi(argv[4]), text = !strcmp(argv[5], "text");
  char *ready = strcmp(argv[5], "ready") ? 0 : malloc(n * TABLES * 100);
  if (ready) {
    create();
    must(sqlite3_close(db) == SQLITE_OK, "close");
    for (int i = 0; i < n * TABLES; i++) memcpy(ready + i * 100, value(), 100);
    sync();
    clock_gettime(CLOCK_MONOTONIC, &a);
    must(sqlite3_open(argv[1], &db) == SQLITE_OK, "open");
  }
  snprintf(sql, sizeof sql, "PRAGMA page_size=4096; PRAGMA foreign_keys=0; PRAGMA journal_mode=%s; PRAGMA synchronous=%s;", argv[2], argv[3]);
  run(sql);
  if (!ready) create();
  for (int t = 0; t < TABLES; t++) {
    snprintf(sql, sizeof sql, "INSERT INTO tblMyList%d(id,Value) VALUES($1,$2)", t);
    must(sqlite3_prepare_v2(db, sql, -1, &insert[t], 0) == SQLITE_OK, sql);
  }
  must(sqlite3_prepare_v2(db, "BEGIN", -1, &begin, 0) + sqlite3_prepare_v2(db, "COMMIT", -1, &commit, 0) == SQLITE_OK, "prepare");
  if (!ready) clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < n; i++) {
    int at = sprintf(sql, "BEGIN;");
    for (int t = 0; t < TABLES && text; t++)
      at += sprintf(sql + at, "INSERT INTO tblMyList%d(id,Value) VALUES(%d,'%s');", t, i, value());
    if (text) { strcpy(sql + at, "COMMIT;"); run(sql); continue; }
    must(sqlite3_step(begin) == SQLITE_DONE && sqlite3_reset(begin) == SQLITE_OK, "BEGIN");
    for (int t = 0; t < TABLES; t++) {
      sqlite3_bind_int64(insert[t], 1, i);
      sqlite3_bind_text(insert[t], 2, ready ? ready + (i * TABLES + t) * 100 : value(), 100, SQLITE_STATIC);
      must(sqlite3_step(insert[t]) == SQLITE_DONE && sqlite3_reset(insert[t]) == SQLITE_OK, "INSERT");
    }
    must(sqlite3_step(commit) == SQLITE_DONE && sqlite3_reset(commit) == SQLITE_OK, "COMMIT");
  }
  if (!strcmp(argv[2], "wal")) must(sqlite3_wal_checkpoint(db, 0) == SQLITE_OK, "checkpoint");
  if (ready) {
    for (int t = 0; t < TABLES; t++) sqlite3_finalize(insert[t]);
    must(sqlite3_finalize(begin) + sqlite3_finalize(commit) + sqlite3_close(db) == SQLITE_OK, "close");
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  return printf("%lld\n", (b.tv_sec - a.tv_sec) * 1000000000ll + (b.tv_nsec - a.tv_nsec)) < 0;
}
