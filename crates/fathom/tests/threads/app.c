/* A program of several threads that ask SQLite for things at random: what it asks follows from its seed, who comes first from the machine.
 *
 *   app SEED THREADS MODE STEPS     in the directory where its databases a.db and b.db are made
 *
 * What it writes depends on what it read (`INSERT … SELECT count(*) …`), so that a replay which reads another state writes something else.
 * Within are: connections of a thread's own, and one that two threads share; own ones that are closed and opened again; busy
 * timeouts from none to half a second; deferred, immediate and exclusive transactions, deferred ones that want to write too late; statements that
 * stay in the middle of their rows over others; savepoints; constraint errors; interrupts; schema changes; a second database, alone and
 * attached; checkpoints of all kinds. With journal mode `off` nothing can be rolled back, so nothing is, and who writes
 * excludes all others first: where a commit is refused, what the database holds is undefined.
 *
 * SQLite's functions are declared here: its header need not be installed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close(sqlite3 *);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_bind_int64(sqlite3_stmt *, int, long long);
int sqlite3_bind_text(sqlite3_stmt *, int, const char *, int, void (*)(void *));
int sqlite3_step(sqlite3_stmt *);
int sqlite3_reset(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_get_autocommit(sqlite3 *);
int sqlite3_busy_timeout(sqlite3 *, int);
int sqlite3_wal_checkpoint_v2(sqlite3 *, const char *, int, int *, int *);
void sqlite3_interrupt(sqlite3 *);
const char *sqlite3_errmsg(sqlite3 *);
enum { OK = 0, ERROR = 1, BUSY = 5, LOCKED = 6, INTERRUPT = 9, SCHEMA = 17, CONSTRAINT = 19, ROW = 100, DONE = 101 };
enum { THREADS_MAX = 16 };

static const char *mode;
static int threads, steps, is_off, is_log, has_second, shares, interrupts;
static uint64_t seed;

typedef struct {
  int number;
  uint64_t random;
  sqlite3 *db;
  int is_shared, is_attached;
  sqlite3_stmt *open[2]; /* in the middle of their rows */
} Thread;

static Thread all[THREADS_MAX];
static pthread_mutex_t alive = PTHREAD_MUTEX_INITIALIZER; /* connections that may be interrupted stay while it is held */
static pthread_barrier_t ready;

static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static unsigned below(Thread *t, unsigned count) { return (unsigned)(draw(&t->random) % count); }
static int one_in(Thread *t, unsigned count) { return below(t, count) == 0; }
static void pause_us(unsigned us) { if (us) usleep(us); else sched_yield(); }

static void die(sqlite3 *db, const char *sql, int code) {
  fprintf(stderr, "seed %llu: %s: %d %s\n", (unsigned long long)seed, sql, code, db ? sqlite3_errmsg(db) : "");
  exit(1);
}

/* Steps to the end, or until `rows` rows were read; the rest is the caller's where `kept` is given. */
static int run(Thread *t, const char *sql, long long a, int rows, sqlite3_stmt **kept) {
  sqlite3_stmt *s = NULL;
  int code = sqlite3_prepare_v2(t->db, sql, -1, &s, NULL);
  if (code == OK && s) {
    if (strchr(sql, '?')) {
      char text[40];
      snprintf(text, sizeof text, "value %lld of %d", a, t->number);
      sqlite3_bind_int64(s, 1, a);
      if (strstr(sql, "?2")) sqlite3_bind_text(s, 2, text, -1, (void (*)(void *))-1);
    }
    int seen = 0;
    while ((code = sqlite3_step(s)) == ROW && (rows < 0 || ++seen < rows)) {}
    if (kept && code == ROW) { *kept = s; return ROW; }
    if (one_in(t, 3)) sqlite3_reset(s);
  }
  sqlite3_finalize(s);
  switch (code & 0xff) {
    case OK: case DONE: case ROW: case BUSY: case LOCKED: case INTERRUPT: case CONSTRAINT: case SCHEMA: case ERROR: case 4: break;
    default: die(t->db, sql, code);
  }
  return code & 0xff;
}

static int must(Thread *t, const char *sql) {
  int code;
  for (int tries = 0; (code = run(t, sql, 0, -1, NULL)) != DONE && tries < 20000; tries++) pause_us(200);
  if (code != DONE && code != OK) die(t->db, sql, code);
  return code;
}

static void open_db(Thread *t, const char *name) {
  int code = sqlite3_open_v2(name, &t->db, 6, NULL);
  if (code != OK) die(t->db, name, code);
  static const int patience[] = {0, 1, 20, 100, 500};
  sqlite3_busy_timeout(t->db, 10000);
  char sql[80];
  snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s", mode);
  run(t, sql, 0, -1, NULL);
  run(t, "PRAGMA synchronous=OFF", 0, -1, NULL);
  sqlite3_busy_timeout(t->db, patience[below(t, 5)]);
  if (is_log && one_in(t, 3)) run(t, "PRAGMA wal_autocheckpoint=5", 0, -1, NULL);
  t->is_attached = 0;
  if (has_second && !strcmp(name, "a.db") && one_in(t, 2) && run(t, "ATTACH 'b.db' AS other", 0, -1, NULL) == DONE) {
    t->is_attached = 1;
    snprintf(sql, sizeof sql, "PRAGMA other.journal_mode=%s", mode);
    run(t, sql, 0, -1, NULL);
    run(t, "PRAGMA other.synchronous=OFF", 0, -1, NULL);
  }
}

static void let_go(Thread *t) {
  for (int i = 0; i < 2; i++)
    if (t->open[i]) sqlite3_finalize(t->open[i]), t->open[i] = NULL;
}

static const char *const writes[] = {
  "INSERT INTO t(a, b) VALUES (?1, ?2)",
  "INSERT INTO log SELECT ?1, max(id), count(*), sum(a) FROM t",
  "INSERT INTO t(a, b) SELECT ?1 + count(*), 'counted' FROM t",
  "UPDATE t SET a = a + ?1 WHERE id % 7 = (SELECT count(*) FROM t) % 7",
  "UPDATE u SET v = v + 1 + (SELECT count(*) FROM t) WHERE k = ?1 % 20",
  "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE id % 5 = ?1 % 5 ORDER BY id LIMIT 3)",
  "INSERT OR REPLACE INTO u VALUES (?1 % 20, (SELECT coalesce(sum(v), 0) % 1000 FROM u))",
  "INSERT INTO other.t(a, b) SELECT ?1 + count(*), 'across' FROM main.t",
  "INSERT INTO main.log SELECT ?1, max(id), count(*), sum(a) FROM other.t",
};
static const char *const reads[] = {
  "SELECT * FROM t WHERE a > ?1 % 100",
  "SELECT id FROM t ORDER BY a, id",
  "SELECT * FROM u WHERE v > ?1 % 50 UNION ALL SELECT id, a FROM t WHERE a < 40",
  "SELECT value FROM (SELECT id AS value FROM t UNION SELECT k FROM u) WHERE value % 3 = ?1 % 3",
  "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000 + (SELECT count(*) FROM t)) SELECT i FROM n WHERE i % 50 = 0",
  "SELECT * FROM log WHERE thread >= ?1 % 16",
  "SELECT a.id, b.id FROM main.t a, other.t b WHERE a.id = b.id",
};

static int write_once(Thread *t) {
  unsigned count = sizeof writes / sizeof *writes - (t->is_attached ? 0 : 2);
  return run(t, writes[below(t, count)], below(t, 1000), -1, NULL);
}

static int read_once(Thread *t) {
  unsigned count = sizeof reads / sizeof *reads - (t->is_attached ? 0 : 1);
  const char *sql = reads[below(t, count)];
  int slot = (int)below(t, 2);
  if (one_in(t, 4) && !t->open[slot]) return run(t, sql, below(t, 1000), 1 + (int)below(t, 5), &t->open[slot]);
  return run(t, sql, below(t, 1000), one_in(t, 4) ? 2 : -1, NULL);
}

/* Ends a transaction whatever others do: the shared connection's other thread may have ended it, too. */
static void end(Thread *t, int is_kept) {
  let_go(t);
  for (int tries = 0, code = OK; !sqlite3_get_autocommit(t->db); tries++) {
    /* ABORT: the page cache is void, and nothing of it was written. */
    int give_up = code == 4 || (!is_off && (!is_kept || tries > 5));
    code = run(t, give_up ? "ROLLBACK" : "COMMIT", 0, -1, NULL);
    if (code == DONE || t->is_shared) break;
    pause_us(below(t, 400));
  }
}

static void transaction(Thread *t) {
  static const char *const begin[] = {"BEGIN", "BEGIN", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"};
  /* Without a journal: one that only reads, or one whose commit nobody can refuse. */
  int only_reads = is_off && one_in(t, 3), code = DONE;
  for (int tries = 0; tries < 30; tries++) {
    code = run(t, is_off ? only_reads ? "BEGIN" : "BEGIN EXCLUSIVE" : begin[below(t, 5)], 0, -1, NULL);
    if (code == DONE || code == ERROR) break;
    pause_us(below(t, 300));
  }
  if (code != DONE) return;
  int is_failed = 0, depth = 0;
  unsigned count = 1 + below(t, 6);
  for (unsigned i = 0; i < count && !is_failed; i++) {
    switch (below(t, 8)) {
      case 0: case 1: case 2: read_once(t); break;
      case 3: pause_us(below(t, 500)); break;
      case 4:
        if (!is_off && !t->is_shared) {
          if (run(t, "SAVEPOINT s", 0, -1, NULL) == DONE) depth++;
          write_once(t);
          if (depth && one_in(t, 2)) run(t, "ROLLBACK TO s", 0, -1, NULL);
          if (depth && one_in(t, 2) && run(t, "RELEASE s", 0, -1, NULL) == DONE) depth--;
        }
        break;
      default:
        if (only_reads) break;
        code = write_once(t);
        if (code == BUSY || code == LOCKED) {
          for (int tries = 0; tries < (int)below(t, 3) && code == BUSY; tries++) pause_us(200), code = write_once(t);
          is_failed = code == BUSY;
        }
    }
    if (sqlite3_get_autocommit(t->db)) break; /* an interrupt rolled it back */
  }
  end(t, !is_failed && !one_in(t, 5));
}

static void checkpoint(Thread *t) {
  static const char *const kinds[] = {"PRAGMA wal_checkpoint", "PRAGMA wal_checkpoint(FULL)", "PRAGMA wal_checkpoint(RESTART)",
                                      "PRAGMA wal_checkpoint(TRUNCATE)"};
  if (one_in(t, 2)) run(t, kinds[below(t, 4)], 0, -1, NULL);
  else sqlite3_wal_checkpoint_v2(t->db, NULL, (int)below(t, 4), NULL, NULL);
}

static void schema(Thread *t) {
  char sql[160];
  unsigned which = below(t, 3);
  if (one_in(t, 2)) snprintf(sql, sizeof sql, "CREATE INDEX IF NOT EXISTS i%u ON t(a, b)", which);
  else snprintf(sql, sizeof sql, "DROP INDEX IF EXISTS i%u", which);
  /* A commit that is refused cannot be undone without a journal: nobody else may be reading then. */
  if (is_off) let_go(t);
  if (is_off && run(t, "BEGIN EXCLUSIVE", 0, -1, NULL) != DONE) return;
  run(t, sql, 0, -1, NULL);
  if (is_off) end(t, 1);
}

static void interrupt(Thread *t) {
  pthread_mutex_lock(&alive);
  Thread *other = &all[below(t, (unsigned)threads)];
  if (other->db) sqlite3_interrupt(other->db);
  pthread_mutex_unlock(&alive);
}

static void reopen(Thread *t) {
  if (t->is_shared || !sqlite3_get_autocommit(t->db)) return;
  let_go(t);
  pthread_mutex_lock(&alive);
  sqlite3 *gone = t->db;
  t->db = NULL;
  pthread_mutex_unlock(&alive);
  if (sqlite3_close(gone) != OK) die(gone, "close", 0);
  Thread fresh = *t;
  open_db(&fresh, has_second && one_in(t, 6) ? "b.db" : "a.db");
  pthread_mutex_lock(&alive);
  *t = fresh;
  pthread_mutex_unlock(&alive);
}

static void *work(void *argument) {
  Thread *t = argument;
  pthread_barrier_wait(&ready);
  for (int i = 0; i < steps; i++) {
    unsigned what = below(t, 100);
    if (what < 30) read_once(t);
    else if (what < 50 && !is_off) write_once(t);
    else if (what < 84) transaction(t);
    else if (what < 88) let_go(t);
    else if (what < 91) schema(t);
    else if (what < 94 && is_log) checkpoint(t);
    else if (what < 96 && interrupts) interrupt(t);
    else if (what < 97) reopen(t);
    else if (what < 98 && !is_off) run(t, "INSERT INTO t(id, a) VALUES (1, 1), (1, 2)", 0, -1, NULL);
    else pause_us(below(t, 800));
  }
  let_go(t);
  /* Nobody waits for a transaction that nobody goes on with. */
  for (int tries = 0; tries < 20 && !sqlite3_get_autocommit(t->db); tries++) end(t, tries < 10);
  return NULL;
}

int main(int count, char **words) {
  if (count != 5) return 2;
  seed = strtoull(words[1], NULL, 10), threads = atoi(words[2]), mode = words[3], steps = atoi(words[4]);
  if (threads < 1 || threads > THREADS_MAX) return 2;
  is_off = !strcmp(mode, "off"), is_log = !strcmp(mode, "wal");
  for (int i = 0; i < threads; i++) all[i] = (Thread){.number = i, .random = seed * 1000 + (uint64_t)i};
  Thread first = {.random = seed};
  has_second = one_in(&first, 3) && !is_off, shares = threads > 2 && one_in(&first, 4) && !is_off, interrupts = !is_off && one_in(&first, 2);
  int second = has_second;
  has_second = 0;
  for (int i = 0; i <= second; i++) {
    open_db(&first, i ? "b.db" : "a.db");
    must(&first, "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a INTEGER, b TEXT)");
    must(&first, "CREATE TABLE u(k INTEGER PRIMARY KEY, v INTEGER)");
    must(&first, "CREATE TABLE log(thread, seen, n, s)");
    must(&first, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) INSERT INTO t(a, b) SELECT i, 'first' FROM n");
    must(&first, "INSERT INTO u SELECT id % 20, id FROM t WHERE id <= 20");
    sqlite3_close(first.db);
  }
  has_second = second;
  for (int i = 0; i < threads; i++) {
    if (shares && i == 1) all[1].db = all[0].db, all[0].is_shared = all[1].is_shared = 1, all[1].is_attached = all[0].is_attached;
    else open_db(&all[i], "a.db");
  }
  pthread_t running[THREADS_MAX];
  pthread_barrier_init(&ready, NULL, (unsigned)threads);
  for (int i = 0; i < threads; i++) pthread_create(&running[i], NULL, work, &all[i]);
  for (int i = 0; i < threads; i++) pthread_join(running[i], NULL);
  for (int i = 0; i < threads; i++) {
    if (shares && i == 1) continue;
    end(&all[i], 1);
    if (sqlite3_close(all[i].db) != OK) die(all[i].db, "close", 0);
  }
  return 0;
}
