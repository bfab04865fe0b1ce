/* Two connections of two threads, one after the other, that share a cache because `sqlite3_enable_shared_cache` asked for
 * it, and a third one that does not share it. SQLite's functions are declared here: its header need not be installed. */
#include <pthread.h>

typedef struct sqlite3 sqlite3;
int sqlite3_enable_shared_cache(int);
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_exec(sqlite3 *, const char *, void *, void *, char **);
int sqlite3_close(sqlite3 *);

static int failed;

static void *work(void *argument) {
  sqlite3 *db = argument;
  failed |= sqlite3_exec(db, "INSERT INTO t SELECT count(*) FROM t", 0, 0, 0);
  return 0;
}

int main(void) {
  sqlite3 *db[3];
  for (int i = 0; i < 3; i++) {
    sqlite3_enable_shared_cache(i < 2);
    failed |= sqlite3_open("a.db", &db[i]);
  }
  failed |= sqlite3_exec(db[0], "CREATE TABLE t(a)", 0, 0, 0);
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    pthread_create(&thread, 0, work, db[i]);
    pthread_join(thread, 0);
  }
  for (int i = 0; i < 3; i++) failed |= sqlite3_close(db[i]);
  return failed;
}
