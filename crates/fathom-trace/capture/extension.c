/* The loadable extension: records a connection's statements through `sqlite3_trace_v2`, in programs that bring an SQLite of their own
 * and can load an extension.
 *
 * It sees less than the preloaded library: values as SQLite writes them into the expanded SQL (a real number with 15 digits), no
 * result codes, no preparing and resetting. A program that calls `sqlite3_trace_v2` itself takes the hook away. */
#define _GNU_SOURCE
#define SQLITE_CORE 1
#include "real.h"
#include "sqlite3ext.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "content.h"
#include "locks.h"
#include "spool.h"

struct Real real;
__thread int inside;

/* A statement as it is told by its address. An address that comes back with another text is another statement. */
typedef struct Statement {
  struct Statement *next;
  sqlite3_stmt *handle;
  struct Connection *connection;
  char *sql;
  uint32_t number;
  int begins;
  uint64_t start_ns, rows;
} Statement;

typedef struct Connection { struct Connection *next; sqlite3 *db; uint32_t number, handles; } Connection;

enum { BUCKETS = 1024 };
static Statement *statements[BUCKETS];
static Connection *connections;

static void put(int tag, const Connection *connection, uint64_t start, uint64_t end, const uint64_t *words, int word_count,
                const Text *texts, int text_count) {
  spool_put(tag, connection->number, start, end, words, word_count, texts, text_count);
}

static void put_plain(int tag, const Statement *statement, uint64_t at) {
  uint64_t words[] = {statement->number};
  put(tag, statement->connection, at, at, words, 1, NULL, 0);
}

static Statement **place_of(sqlite3_stmt *handle) {
  Statement **at = &statements[((uintptr_t)handle >> 4) % BUCKETS];
  while (*at && (*at)->handle != handle) at = &(*at)->next;
  return at;
}

static void forget(Statement **at, uint64_t now) {
  Statement *gone = *at;
  put_plain(TAG_FINALIZE, gone, now);
  *at = gone->next;
  free(gone->sql);
  free(gone);
}

static Statement *statement_of(Connection *connection, sqlite3_stmt *handle, uint64_t now) {
  const char *sql = real.sql(handle);
  if (!sql) sql = "";
  Statement **at = place_of(handle);
  if (*at && ((*at)->connection != connection || strcmp((*at)->sql, sql))) forget(at, now), at = place_of(handle);
  if (*at) return *at;
  Statement *fresh = calloc(1, sizeof *fresh);
  if (!fresh || !(fresh->sql = strdup(sql))) { free(fresh); return NULL; }
  fresh->handle = handle, fresh->connection = connection, fresh->number = connection->handles++;
  *at = fresh;
  uint64_t words[] = {fresh->number, spool_statement(sql, strlen(sql)), SQLITE_OK};
  put(TAG_PREPARE, connection, now, now, words, 3, &(Text){NULL, 0}, 1);
  return fresh;
}

static int changes_rows(const char *sql) {
  static const char *const words[] = {"insert", "update", "delete", "replace", "with"};
  while (*sql == ' ' || (*sql >= '\t' && *sql <= '\r')) sql++;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strncasecmp(sql, words[i], strlen(words[i]))) return 1;
  return 0;
}

static void begun(Connection *connection, sqlite3_stmt *handle, uint64_t now) {
  char *expanded = real.bind_parameter_count(handle) > 0 ? real.expanded_sql(handle) : NULL;
  spool_lock();
  Statement *statement = statement_of(connection, handle, now);
  if (statement) {
    uint64_t words[] = {statement->number};
    Text text = text_of(expanded);
    if (expanded) put(TAG_EXPANDED, connection, now, now, words, 1, &text, 1);
    put_plain(TAG_BEGIN_STEP, statement, now);
    statement->start_ns = now, statement->rows = 0, statement->begins = 1;
  }
  spool_unlock();
  if (expanded) real.free(expanded);
}

static void ended(Connection *connection, sqlite3_stmt *handle, uint64_t ns, uint64_t now) {
  spool_lock();
  Statement *statement = *place_of(handle);
  if (statement && statement->begins) {
    uint64_t in_transaction = real.get_autocommit(connection->db) ? 0 : 2;
    uint64_t changes = changes_rows(statement->sql) && !real.stmt_readonly(handle) ? (uint64_t)real.changes(connection->db) : 0;
    uint64_t words[] = {statement->number, 1 | in_transaction, statement->rows, changes, SQLITE_DONE, ns};
    put(TAG_STEP, connection, statement->start_ns, now, words, 6, &(Text){NULL, 0}, 1);
    put_plain(TAG_RESET, statement, now);
    statement->begins = 0;
  }
  spool_unlock();
}

static void closed(Connection *connection, uint64_t now) {
  spool_lock();
  for (int i = 0; i < BUCKETS; i++)
    for (Statement **at = &statements[i]; *at;)
      if ((*at)->connection == connection) forget(at, now);
      else at = &(*at)->next;
  uint64_t words[] = {SQLITE_OK};
  put(TAG_CLOSE, connection, now, now, words, 1, &(Text){NULL, 0}, 1);
  Connection **at = &connections;
  while (*at != connection) at = &(*at)->next;
  *at = connection->next;
  free(connection);
  spool_unlock();
}

/* Whether SQLite runs this statement for itself while it prepares another one. (Those that it runs
 * within a statement's steps are told by the two dashes before their text.) It reads the schema,
 * and the modules of virtual tables look at their own tables: all quote names in their own way.
 * Only what reads is left out, so nothing that changes data can be lost by this. */
static int is_sqlites_own(sqlite3_stmt *handle, const char *sql) {
  if (!sql || !real.stmt_readonly(handle)) return 0;
  if (!strncmp(sql, "SELECT*FROM\"", 12) || !strncmp(sql, "PRAGMA '", 8)) return 1;
  for (const char *at = strstr(sql, "'.'"); at; at = strstr(at + 1, "'.'"))
    if (at > sql && (isalnum((unsigned char)at[-1]) || at[-1] == '_')) return 1;
  return 0;
}

static int traced(unsigned kind, void *context, void *p, void *x) {
  if (inside) return 0;
  uint64_t now = now_ns();
  Connection *connection = context;
  switch (kind) {
    case SQLITE_TRACE_STMT: {
      const char *text = x;
      int is_trigger = text && text[0] == '-' && text[1] == '-' && strcmp(text, real.sql(p) ? real.sql(p) : "");
      if (!is_trigger && !is_sqlites_own(p, real.sql(p))) begun(connection, p, now);
      break;
    }
    case SQLITE_TRACE_ROW: {
      spool_lock();
      Statement *statement = *place_of(p);
      if (statement) statement->rows++;
      spool_unlock();
      break;
    }
    case SQLITE_TRACE_PROFILE: ended(connection, p, (uint64_t)*(sqlite3_int64 *)x, now); break;
  }
  return 0;
}

/* A function of the connection that nobody calls: SQLite destroys it when it closes the connection. SQLITE_TRACE_CLOSE is told of
 * every call of sqlite3_close, also of one that is refused, and of sqlite3_close_v2 while statements go on. */
static const char *const GUARD = "fathomtrace_is_here";

static void nothing(sqlite3_context *context, int count, sqlite3_value **values) { (void)context, (void)count, (void)values; }

static void destroyed(void *connection) { closed(connection, now_ns()); }

/* Whether the preloaded library records this connection already. */
static int is_recorded(sqlite3 *db) {
  int (*knows)(sqlite3 *) = (int (*)(sqlite3 *))dlsym(RTLD_DEFAULT, "fathom_capture_knows");
  return knows && knows(db);
}

static void watch(sqlite3 *db) {
  uint64_t start = now_ns();
  if (is_recorded(db)) return;
  spool_lock();
  Connection *known = connections;
  while (known && known->db != db) known = known->next;
  spool_unlock();
  if (known) return;
  uint32_t database = content_of(db, "main", NULL, SQLITE_OPEN_READWRITE, NULL);
  Connection *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return;
  spool_lock();
  fresh->db = db, fresh->number = spool_connection(), fresh->next = connections;
  connections = fresh;
  Text texts[2] = {{NULL, 0}, {NULL, 0}};
  uint64_t words[] = {database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, SQLITE_OK};
  put(TAG_OPEN, fresh, start, start, words, 3, texts, 2);
  spool_unlock();
  /* Where that fails, it has been destroyed already. */
  if (real.create_function_v2(db, GUARD, 0, SQLITE_UTF8, fresh, nothing, NULL, NULL, destroyed) != SQLITE_OK) return;
  watch_locks(db, "main", fresh->number, database);
  real.trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_ROW | SQLITE_TRACE_PROFILE, traced, fresh);
}

static int open_later(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  (void)message, (void)api;
  if (!inside) watch(db);
  return SQLITE_OK;
}

SQLITE_API int sqlite3_fathomtrace_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  if (api->libversion_number() < 3014000) {
    if (message) *message = api->mprintf("fathomtrace needs SQLite 3.14 or later; this is %s", api->libversion());
    return SQLITE_ERROR;
  }
  if (!spool_on()) {
    if (message) *message = api->mprintf("fathomtrace writes into the directory that FATHOM_TRACE_SPOOL names, and there is none: "
                                         "start the program with  fathom trace capture --out FILE -- PROGRAM …");
    return SQLITE_ERROR;
  }
#define TAKE(name) real.name = api->name;
  TAKE(open_v2) TAKE(close) TAKE(exec) TAKE(busy_timeout) TAKE(errstr) TAKE(extended_errcode) TAKE(db_filename) TAKE(free)
  TAKE(backup_init) TAKE(backup_step) TAKE(backup_finish) TAKE(sql) TAKE(stmt_readonly) TAKE(bind_parameter_count)
  TAKE(expanded_sql) TAKE(changes) TAKE(get_autocommit) TAKE(trace_v2) TAKE(auto_extension) TAKE(libversion)
  TAKE(file_control) TAKE(create_function_v2)
#undef TAKE
  spool_lock();
  spool_version(real.libversion());
  spool_unlock();
  watch(db);
  real.auto_extension((void (*)(void))open_later);
  return SQLITE_OK_LOAD_PERMANENTLY;
}

/* The entry point that SQLite looks for first, whatever the file's name. */
SQLITE_API int sqlite3_extension_init(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  return sqlite3_fathomtrace_init(db, message, api);
}
