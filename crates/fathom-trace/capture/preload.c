/* The capture library: stands before SQLite's functions in a program that uses the shared
 * libsqlite3, records each call and its result into the spool, and passes it on. Loaded with
 * LD_PRELOAD by `fathom trace capture`.
 *
 * A call is recorded when it has returned, so that records stand in the order in which calls
 * returned; only the beginning of an execution is noted before it (BEGIN_STEP), so that a statement
 * in which the process was killed is known. Calls that SQLite makes on itself (a virtual table's
 * own statements, reading the schema) pass by unrecorded: see `inside` and within.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "content.h"
#include "locks.h"
#include "preload.h"

struct Real real;
struct RealSession real_session;
struct RealChangeset real_changeset;
__thread int inside;
__thread int kept;
__thread uint64_t steps_recorded;

struct Statement {
  Statement *next;
  sqlite3_stmt *handle;
  Connection *connection;
  uint32_t number;
  unsigned char running, changes_rows, attaches;
  /* Steps not recorded yet: rows after the first one, and the thread that made them. */
  uint64_t rows, first_ns, inside_ns;
  uint32_t tid;
};

enum { BUCKETS = 1024 };
static Connection *connections[BUCKETS];
static Statement *statements[BUCKETS];

static unsigned bucket_of(const void *pointer) {
  return (unsigned)(((uintptr_t)pointer >> 4) * 0x9e3779b97f4a7c15u >> 54);
}

/* ── Finding SQLite ── */

static const char *own_name;
static void *library; /* the one whose functions are called; RTLD_NEXT where the program is linked with it */
static void *loaded; /* the one that the program opened itself, if it did so first */

/* The system's dlsym, which ours (at the end of this file) hides. */
Lookup real_dlsym(void) {
  static Lookup known;
  Lookup found = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
  if (!found) {
#ifdef __GLIBC__
    /* The version that the function has on each architecture, the present one first. */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.27", "GLIBC_2.36",
                                           "GLIBC_2.4", "GLIBC_2.3", "GLIBC_2.2", "GLIBC_2.1", "GLIBC_2.0"};
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
      found = (Lookup)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
#else
    found = dlsym;
#endif
    __atomic_store_n(&known, found, __ATOMIC_RELEASE);
  }
  return found;
}

/* A library that a program opened with its names kept private (a Python module's SQLite) is not among those that RTLD_NEXT
 * looks through, although its calls do come here. */
static int look_into(struct dl_phdr_info *info, size_t size, void *found) {
  (void)size;
  if (!info->dlpi_name || !*info->dlpi_name || !strcmp(info->dlpi_name, own_name)) return 0;
  void *handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return 0;
  void *address = real_dlsym()(handle, "sqlite3_libversion_number");
  Dl_info where;
  if (address && dladdr(address, &where) && !strcmp(where.dli_fname, info->dlpi_name)) {
    *(void **)found = handle;
    return 1;
  }
  dlclose(handle);
  return 0;
}

/* Where SQLite's library lies, if it is one that holds nothing else. */
static uintptr_t code_from, code_to;

static int find_code(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  uintptr_t from = UINTPTR_MAX, to = 0, sought = (uintptr_t)real.libversion;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;
    if (begin < from) from = begin;
    if (end > to) to = end;
  }
  if (sought < from || sought >= to) return 0;
  const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  name = name ? name + 1 : "";
  if (!strncmp(name, "libsqlite3", 10) || !strncmp(name, "libsqlcipher", 12)) code_from = from, code_to = to;
  return 1;
}

static pthread_once_t found_once = PTHREAD_ONCE_INIT;

static void find_sqlite(void) {
  Dl_info own;
  Lookup look_up = real_dlsym();
  library = RTLD_NEXT;
  own_name = dladdr((void *)find_sqlite, &own) ? own.dli_fname : "";
  if (!look_up) return;
  if (loaded) library = loaded;
  else if (!look_up(RTLD_NEXT, "sqlite3_libversion_number")) dl_iterate_phdr(look_into, &library);
#define FIND(name) real.name = (__typeof__(real.name))look_up(library, "sqlite3_" #name);
  REAL_FUNCTIONS(FIND)
#undef FIND
#define FIND(name) real_session.name = (__typeof__(real_session.name))look_up(library, "sqlite3session_" #name);
  SESSION_FUNCTIONS(FIND)
#undef FIND
#define FIND(name) real_changeset.name = (__typeof__(real_changeset.name))look_up(library, "sqlite3changeset_" #name);
  CHANGESET_FUNCTIONS(FIND)
#undef FIND
  if (real.libversion) dl_iterate_phdr(find_code, NULL);
  if (spool_on() && real.libversion) {
    spool_lock();
    spool_version(real.libversion());
    spool_unlock();
  }
}

void find_functions(void) { pthread_once(&found_once, find_sqlite); }

/* A call that SQLite's library makes of itself is none of the application's, whichever function it
 * is made in. */
int recorded_from(const void *from) {
  if (inside) return 0;
  find_functions();
  int is_own = (uintptr_t)from >= code_from && (uintptr_t)from < code_to;
  return (!is_own || kept) && spool_on();
}

/* ── Tables; the spool's lock is held ── */

Connection *connection_of(sqlite3 *db) {
  Connection *one = connections[bucket_of(db)];
  while (one && one->db != db) one = one->next;
  return one;
}

static Statement *statement_of(sqlite3_stmt *handle) {
  Statement *one = statements[bucket_of(handle)];
  while (one && one->handle != handle) one = one->next;
  return one;
}

void put(int tag, const Connection *connection, uint64_t start, uint64_t end, const uint64_t *words, int word_count,
         const Text *texts, int text_count) {
  spool_put(tag, connection->number, start, end, words, word_count, texts, text_count);
}

static int is_error(int code) { return code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE; }

Text message_of(sqlite3 *db, int *code) {
  if (!is_error(*code)) return (Text){NULL, 0};
  int extended = db ? real.extended_errcode(db) : *code;
  const char *message = real.errstr(*code);
  if (db && (extended & 0xff) == (*code & 0xff)) *code = extended, message = real.errmsg(db);
  Text text = text_of(message);
  if (text.length > 1000) text.length = 1000;
  return text;
}

/* With several threads on one connection (SQLite's serialized mode), a call and its record are one step: else records could stand
 * in another order than the calls. Connections without a mutex have no such threads. It is also why the message of an error
 * may be asked for under the spool's lock: nobody else can be inside the connection, waiting for that lock. */
static sqlite3_mutex *enter(sqlite3 *db) {
  sqlite3_mutex *mutex = db && real.db_mutex ? real.db_mutex(db) : NULL;
  if (mutex) real.mutex_enter(mutex);
  return mutex;
}

static void leave_mutex(sqlite3_mutex *mutex) { if (mutex) real.mutex_leave(mutex); }

static void put_step(uint32_t tid, Statement *statement, int begins, uint64_t start, uint64_t end, uint64_t rows, uint64_t changes, int code,
                     uint64_t inside_ns) {
  sqlite3 *db = statement->connection->db;
  Text message = message_of(db, &code);
  uint64_t bits = (begins ? 1u : 0u) | (real.get_autocommit(db) ? 0u : 2u);
  uint64_t words[] = {statement->number, bits, rows, changes, (uint64_t)(int64_t)code, inside_ns};
  steps_recorded++;
  spool_put_of(tid, TAG_STEP, statement->connection->number, start, end, words, 6, &message, 1);
}

void settle(Connection *connection) {
  Statement *pending = connection ? connection->pending : NULL;
  if (!pending) return;
  connection->pending = NULL;
  put_step(pending->tid, pending, 0, pending->first_ns, now_ns(), pending->rows, 0, SQLITE_ROW, pending->inside_ns);
  pending->rows = 0, pending->inside_ns = 0;
}

/* The same, before a call is made that may take or let go a lock: the rows stand before it. */
static void settle_first(sqlite3 *db) {
  spool_lock();
  settle(connection_of(db));
  spool_unlock();
}

void release(Connection *connection) {
  if (connection->db || connection->statements) return;
  for (Schema *one = connection->attached, *next; one; one = next) next = one->next, free(one);
  free(connection);
}

static void forget_statement(Statement *gone) {
  Statement **at = &statements[bucket_of(gone->handle)];
  while (*at && *at != gone) at = &(*at)->next;
  if (*at) *at = gone->next;
  Connection *connection = gone->connection;
  if (connection->pending == gone) connection->pending = NULL;
  connection->statements--;
  release(connection);
  free(gone);
}

void foreign(sqlite3 *db, int kind, const char *name) {
  spool_lock();
  Connection *connection = connection_of(db);
  if (connection) {
    settle(connection);
    uint64_t now = now_ns(), words[] = {(uint64_t)kind};
    Text text = text_of(name);
    put(TAG_FOREIGN, connection, now, now, words, 1, &text, 1);
  }
  spool_unlock();
}

/* ── Opening and closing ── */

static void opened(sqlite3 *db, uint64_t start, const char *name, int flags, const char *vfs, int code) {
  if (!db) return;
  uint64_t end = now_ns();
  uint32_t database = content_of(db, "main", name, flags, vfs);
  /* sqlite3_enable_shared_cache and URIs ask for it without a flag. */
  if (code == SQLITE_OK && shares_file(db)) flags |= SQLITE_OPEN_SHAREDCACHE;
  spool_lock();
  Connection *connection = calloc(1, sizeof *connection);
  if (connection) {
    Connection **bucket = &connections[bucket_of(db)];
    connection->db = db, connection->number = spool_connection(), connection->next = *bucket;
    *bucket = connection;
    Text texts[] = {text_of(vfs), message_of(db, &code)};
    uint64_t words[] = {database, (uint64_t)flags, (uint64_t)(int64_t)code};
    put(TAG_OPEN, connection, start, end, words, 3, texts, 2);
  }
  spool_unlock();
  if (connection && code == SQLITE_OK) watch_locks(db, "main", connection->number, database);
}

enum { OPEN_DEFAULT = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE };

SQLITE_API int sqlite3_open(const char *name, sqlite3 **db) {
  int result, is_recorded = recorded();
  NEED(open);
  uint64_t start = now_ns();
  WITHIN(real.open(name, db));
  if (is_recorded) opened(*db, start, name, OPEN_DEFAULT, NULL, result);
  return result;
}

SQLITE_API int sqlite3_open16(const void *name, sqlite3 **db) {
  int result, is_recorded = recorded();
  NEED(open16);
  uint64_t start = now_ns();
  WITHIN(real.open16(name, db));
  if (is_recorded) opened(*db, start, NULL, OPEN_DEFAULT, NULL, result);
  return result;
}

SQLITE_API int sqlite3_open_v2(const char *name, sqlite3 **db, int flags, const char *vfs) {
  int result, is_recorded = recorded();
  NEED(open_v2);
  uint64_t start = now_ns();
  WITHIN(real.open_v2(name, db, flags, vfs));
  if (is_recorded) opened(*db, start, name, flags, vfs, result);
  return result;
}

/* Takes a connection out of the table: its address may belong to another one as soon as it is closed. */
static Connection *take_out(sqlite3 *db) {
  Connection *connection = connection_of(db);
  if (connection) {
    Connection **at = &connections[bucket_of(db)];
    while (*at != connection) at = &(*at)->next;
    *at = connection->next;
  }
  return connection;
}

void put_close(Connection *connection, uint64_t start, uint64_t end) {
  uint64_t words[] = {SQLITE_OK};
  put(TAG_CLOSE, connection, start, end, words, 1, &(Text){NULL, 0}, 1);
  connection->db = NULL;
}

/* `keeps`: sqlite3_close_v2. With a statement or blob that lives, SQLite closes the connection when that ends, and till then it
 * does what it is told (garbage-collected languages end statements later); so it is recorded. */
static int close_with(sqlite3 *db, int (*close)(sqlite3 *), int is_recorded, int keeps) {
  int result;
  if (!db || !is_recorded) return WITHIN(close(db));
  spool_lock();
  settle(connection_of(db));
  Connection *connection = take_out(db);
  /* Before the call: another thread may end the last statement meanwhile. The count keeps the connection here. */
  if (connection && keeps) connection->is_closed = 1, connection->statements++;
  spool_unlock();
  uint64_t start = now_ns();
  WITHIN(close(db));
  uint64_t end = now_ns();
  if (!connection) return result;
  sqlite3_mutex *mutex = result == SQLITE_OK ? NULL : enter(db);
  spool_lock();
  if (keeps) connection->statements--;
  if (result == SQLITE_OK) {
    if (!keeps || !connection->statements) {
      put_close(connection, start, end);
      release(connection);
    }
  } else {
    int code = result;
    Text message = message_of(db, &code);
    uint64_t words[] = {(uint64_t)(int64_t)code};
    put(TAG_CLOSE, connection, start, end, words, 1, &message, 1);
    Connection **bucket = &connections[bucket_of(db)];
    connection->is_closed = 0;
    connection->next = *bucket, *bucket = connection;
  }
  spool_unlock();
  leave_mutex(mutex);
  return result;
}

SQLITE_API int sqlite3_close(sqlite3 *db) {
  int is_recorded = recorded();
  NEED(close);
  return close_with(db, real.close, is_recorded, 0);
}

SQLITE_API int sqlite3_close_v2(sqlite3 *db) {
  int is_recorded = recorded();
  NEED(close_v2);
  return close_with(db, real.close_v2, is_recorded, 1);
}

/* ── Preparing ── */

/* The first word of a statement, after spaces and comments. */
static const char *first_word(const char *sql) {
  for (;;) {
    while (*sql == ' ' || (*sql >= '\t' && *sql <= '\r') || *sql == ';' || *sql == '(') sql++;
    if (sql[0] == '-' && sql[1] == '-') {
      while (*sql && *sql != '\n') sql++;
    } else if (sql[0] == '/' && sql[1] == '*') {
      const char *end = strstr(sql + 2, "*/");
      sql = end ? end + 2 : sql + strlen(sql);
    } else {
      return sql;
    }
  }
}

static int begins_with(const char *sql, const char *word) { return !strncasecmp(sql, word, strlen(word)); }

static void prepared(sqlite3 *db, uint64_t start, const char *sql, size_t length, sqlite3_stmt *handle, int code) {
  uint64_t end = now_ns();
  if (!handle && !is_error(code)) return; /* a comment */
  const char *own = handle ? real.sql(handle) : NULL;
  if (own) sql = own, length = strlen(own);
  if (!sql) sql = "", length = 0;
  spool_lock();
  Connection *connection = connection_of(db);
  if (connection) {
    settle(connection);
    Text message = message_of(db, &code);
    uint64_t words[] = {connection->handles, 0, (uint64_t)(int64_t)code};
    Statement *fresh = handle ? calloc(1, sizeof *fresh) : NULL;
    if (fresh) {
      Statement **bucket = &statements[bucket_of(handle)];
      fresh->handle = handle, fresh->connection = connection, fresh->number = connection->handles++;
      connection->statements++;
      const char *word = first_word(sql);
      fresh->attaches = begins_with(word, "attach") || begins_with(word, "detach");
      fresh->changes_rows = (begins_with(word, "insert") || begins_with(word, "update") || begins_with(word, "delete") ||
                             begins_with(word, "replace") || begins_with(word, "with")) && !real.stmt_readonly(handle);
      fresh->next = *bucket;
      *bucket = fresh;
    }
    words[1] = spool_statement(sql, length);
    put(TAG_PREPARE, connection, start, end, words, 3, &message, 1);
  }
  spool_unlock();
}

/* UTF-16 in the machine's byte order as UTF-8, in memory of its own. */
static char *utf8_of(const void *text, int bytes, size_t *length) {
  const unsigned short *in = text;
  size_t units = 0, out = 0;
  if (bytes < 0) while (in && in[units]) units++;
  else units = (size_t)bytes / 2;
  char *to = malloc(units * 3 + 1);
  for (size_t i = 0; to && i < units; i++) {
    unsigned c = in[i];
    if (c >= 0xd800 && c < 0xdc00 && i + 1 < units && in[i + 1] >= 0xdc00 && in[i + 1] < 0xe000)
      c = 0x10000 + ((c - 0xd800) << 10) + (in[++i] - 0xdc00u);
    if (c < 0x80) to[out++] = (char)c;
    else if (c < 0x800) to[out++] = (char)(0xc0 | c >> 6), to[out++] = (char)(0x80 | (c & 63));
    else if (c < 0x10000)
      to[out++] = (char)(0xe0 | c >> 12), to[out++] = (char)(0x80 | (c >> 6 & 63)), to[out++] = (char)(0x80 | (c & 63));
    else
      to[out++] = (char)(0xf0 | c >> 18), to[out++] = (char)(0x80 | (c >> 12 & 63)), to[out++] = (char)(0x80 | (c >> 6 & 63)),
      to[out++] = (char)(0x80 | (c & 63));
  }
  if (to) to[out] = 0;
  *length = to ? out : 0;
  return to;
}

#define PREPARE(name, is_wide, parameters, arguments) \
  SQLITE_API int sqlite3_##name parameters { \
    int result, is_recorded = recorded(); \
    NEED(name); \
    sqlite3_mutex *mutex = is_recorded ? enter(db) : NULL; \
    if (is_recorded && db) settle_first(db); \
    uint64_t start = now_ns(); \
    WITHIN(real.name arguments); \
    if (is_recorded && db && out) { \
      size_t length = 0; \
      char *narrow = is_wide && result != SQLITE_OK && sql ? utf8_of(sql, bytes, &length) : NULL; \
      const char *text = is_wide ? narrow : (const char *)(const void *)sql; \
      if (!is_wide && sql) length = bytes < 0 ? strlen(text) : strnlen(text, (size_t)bytes); \
      prepared(db, start, text, length, result == SQLITE_OK ? *out : NULL, result); \
      free(narrow); \
    } \
    leave_mutex(mutex); \
    return result; \
  }

PREPARE(prepare, 0, (sqlite3 *db, const char *sql, int bytes, sqlite3_stmt **out, const char **tail), (db, sql, bytes, out, tail))
PREPARE(prepare_v2, 0, (sqlite3 *db, const char *sql, int bytes, sqlite3_stmt **out, const char **tail), (db, sql, bytes, out, tail))
PREPARE(prepare_v3, 0, (sqlite3 *db, const char *sql, int bytes, unsigned flags, sqlite3_stmt **out, const char **tail),
        (db, sql, bytes, flags, out, tail))
PREPARE(prepare16, 1, (sqlite3 *db, const void *sql, int bytes, sqlite3_stmt **out, const void **tail), (db, sql, bytes, out, tail))
PREPARE(prepare16_v2, 1, (sqlite3 *db, const void *sql, int bytes, sqlite3_stmt **out, const void **tail), (db, sql, bytes, out, tail))
PREPARE(prepare16_v3, 1, (sqlite3 *db, const void *sql, int bytes, unsigned flags, sqlite3_stmt **out, const void **tail),
        (db, sql, bytes, flags, out, tail))

/* ── Binding ── */

static void bound(sqlite3_stmt *handle, int index, int type, uint64_t bits, const void *bytes) {
  spool_lock();
  Statement *statement = statement_of(handle);
  if (statement) {
    settle(statement->connection);
    uint64_t now = now_ns(), words[] = {statement->number | (uint64_t)(unsigned)index << 32, (uint64_t)type, bits};
    Text text = {bytes, (size_t)bits};
    put(TAG_BIND, statement->connection, now, now, words, 3, &text, bytes ? 1 : 0);
  }
  spool_unlock();
}

/* A zero-blob, which has a type number of its own here. */
enum { TYPE_ZERO_BLOB = 6 };

/* Text and blobs are copied before SQLite may hand them back to the application. */
#define BIND(name, parameters, arguments, type, bits, bytes) \
  SQLITE_API int sqlite3_bind_##name parameters { \
    int result, is_recorded = recorded(); \
    NEED(bind_##name); \
    WITHIN(real.bind_##name arguments); \
    if (is_recorded && result == SQLITE_OK) bound(handle, index, type, bits, bytes); \
    return result; \
  }

static uint64_t bits_of(double value) { uint64_t bits; memcpy(&bits, &value, 8); return bits; }

BIND(null, (sqlite3_stmt *handle, int index), (handle, index), SQLITE_NULL, 0, NULL)
BIND(int, (sqlite3_stmt *handle, int index, int value), (handle, index, value), SQLITE_INTEGER, (uint64_t)(int64_t)value, NULL)
BIND(int64, (sqlite3_stmt *handle, int index, sqlite3_int64 value), (handle, index, value), SQLITE_INTEGER, (uint64_t)value, NULL)
BIND(double, (sqlite3_stmt *handle, int index, double value), (handle, index, value), SQLITE_FLOAT, bits_of(value), NULL)
BIND(zeroblob, (sqlite3_stmt *handle, int index, int bytes), (handle, index, bytes), TYPE_ZERO_BLOB, bytes < 0 ? 0 : (uint64_t)bytes, NULL)
BIND(zeroblob64, (sqlite3_stmt *handle, int index, sqlite3_uint64 bytes), (handle, index, bytes), TYPE_ZERO_BLOB, bytes, NULL)

/* A value with memory of its own is copied before the call, because the call may free it. */
static void *copy_of(const void *value, uint64_t *length, int is_recorded) {
  void *copy = value && is_recorded ? malloc(*length + 1) : NULL;
  if (copy) memcpy(copy, value, *length);
  else *length = 0;
  return copy;
}

static void bound_copy(int result, sqlite3_stmt *handle, int index, int type, const void *value, void *copy, uint64_t length) {
  if (result == SQLITE_OK && (copy || !value)) bound(handle, index, value ? type : SQLITE_NULL, length, copy);
  free(copy);
}

#define BIND_BYTES(name, parameters, arguments, type, length_of) \
  SQLITE_API int sqlite3_bind_##name parameters { \
    int result, is_recorded = recorded(); \
    NEED(bind_##name); \
    if (!is_recorded) return WITHIN(real.bind_##name arguments); \
    uint64_t length = value ? (uint64_t)(length_of) : 0; \
    void *copy = copy_of(value, &length, is_recorded); \
    WITHIN(real.bind_##name arguments); \
    bound_copy(result, handle, index, type, value, copy, length); \
    return result; \
  }

BIND_BYTES(blob, (sqlite3_stmt *handle, int index, const void *value, int bytes, void (*free_it)(void *)),
           (handle, index, value, bytes, free_it), SQLITE_BLOB, bytes < 0 ? 0 : bytes)
BIND_BYTES(blob64, (sqlite3_stmt *handle, int index, const void *value, sqlite3_uint64 bytes, void (*free_it)(void *)),
           (handle, index, value, bytes, free_it), SQLITE_BLOB, bytes)
BIND_BYTES(text, (sqlite3_stmt *handle, int index, const char *value, int bytes, void (*free_it)(void *)),
           (handle, index, value, bytes, free_it), SQLITE_TEXT, bytes < 0 ? strlen(value) : (size_t)bytes)

SQLITE_API int sqlite3_bind_text16(sqlite3_stmt *handle, int index, const void *value, int bytes, void (*free_it)(void *)) {
  int result, is_recorded = recorded();
  NEED(bind_text16);
  size_t length = 0;
  char *narrow = value && is_recorded ? utf8_of(value, bytes, &length) : NULL;
  WITHIN(real.bind_text16(handle, index, value, bytes, free_it));
  if (is_recorded) bound_copy(result, handle, index, SQLITE_TEXT, value, narrow, length);
  return result;
}

/* SQLITE_UTF8_ZT, since 3.53: the text has its zero byte. */
enum { UTF8_ZT = 16 };

SQLITE_API int sqlite3_bind_text64(sqlite3_stmt *handle, int index, const char *value, sqlite3_uint64 bytes, void (*free_it)(void *),
                                   unsigned char encoding) {
  int result, is_recorded = recorded();
  NEED(bind_text64);
  uint64_t length = bytes;
  void *copy;
  if (encoding == SQLITE_UTF8 || encoding == UTF8_ZT) {
    copy = copy_of(value, &length, is_recorded);
  } else {
    size_t narrow_length = 0;
    copy = value && is_recorded ? utf8_of(value, (int)bytes, &narrow_length) : NULL;
    length = narrow_length;
  }
  WITHIN(real.bind_text64(handle, index, value, bytes, free_it, encoding));
  if (is_recorded) bound_copy(result, handle, index, SQLITE_TEXT, value, copy, length);
  return result;
}

SQLITE_API int sqlite3_bind_value(sqlite3_stmt *handle, int index, const sqlite3_value *value) {
  int result, is_recorded = recorded();
  NEED(bind_value);
  WITHIN(real.bind_value(handle, index, value));
  if (is_recorded && result == SQLITE_OK) {
    sqlite3_value *of = (sqlite3_value *)value;
    switch (real.value_type(of)) {
      case SQLITE_INTEGER: bound(handle, index, SQLITE_INTEGER, (uint64_t)real.value_int64(of), NULL); break;
      case SQLITE_FLOAT: bound(handle, index, SQLITE_FLOAT, bits_of(real.value_double(of)), NULL); break;
      case SQLITE_NULL: bound(handle, index, SQLITE_NULL, 0, NULL); break;
      case SQLITE_TEXT: {
        const void *text = real.value_text(of);
        bound(handle, index, SQLITE_TEXT, (uint64_t)real.value_bytes(of), text ? text : "");
        break;
      }
      default: {
        const void *blob = real.value_blob(of);
        bound(handle, index, SQLITE_BLOB, (uint64_t)real.value_bytes(of), blob ? blob : "");
      }
    }
  }
  return result;
}

SQLITE_API int sqlite3_bind_pointer(sqlite3_stmt *handle, int index, void *value, const char *type, void (*free_it)(void *)) {
  int result, is_recorded = recorded();
  NEED(bind_pointer);
  WITHIN(real.bind_pointer(handle, index, value, type, free_it));
  if (is_recorded && result == SQLITE_OK) {
    foreign(real.db_handle(handle), FOREIGN_CALL, "sqlite3_bind_pointer");
    bound(handle, index, SQLITE_NULL, 0, NULL);
  }
  return result;
}

/* ── Executing ── */

/* A call on a statement that is nothing but its name. */
static void put_plain(int tag, Statement *statement, uint64_t start, uint64_t end) {
  settle(statement->connection);
  uint64_t words[] = {statement->number};
  put(tag, statement->connection, start, end, words, 1, NULL, 0);
}

SQLITE_API int sqlite3_clear_bindings(sqlite3_stmt *handle) {
  int result, is_recorded = recorded();
  NEED(clear_bindings);
  WITHIN(real.clear_bindings(handle));
  if (is_recorded) {
    spool_lock();
    Statement *statement = statement_of(handle);
    uint64_t now = now_ns();
    if (statement) put_plain(TAG_CLEAR, statement, now, now);
    spool_unlock();
  }
  return result;
}

/* After an ATTACH or DETACH: the schemas as they are now. Called outside the lock, on the connection's own thread. */
static void look_at_schemas(Connection *connection) {
  sqlite3 *db = connection->db;
  sqlite3_stmt *list = NULL;
  Schema *now = NULL, *before = connection->attached;
  inside++;
  if (real.prepare_v2(db, "PRAGMA database_list", -1, &list, NULL) == SQLITE_OK)
    while (real.step(list) == SQLITE_ROW) {
      const char *name = (const char *)real.column_text(list, 1);
      if (!name || !strcmp(name, "main") || !strcmp(name, "temp")) continue;
      Schema *one = malloc(sizeof *one + strlen(name) + 1);
      if (one) strcpy(one->name, name), one->next = now, now = one;
    }
  real.finalize(list);
  for (Schema *one = now; one; one = one->next) {
    Schema *known = before;
    while (known && strcmp(known->name, one->name)) known = known->next;
    if (known) continue;
    uint64_t words[] = {content_of(db, one->name, NULL, OPEN_DEFAULT, NULL)}, at = now_ns();
    Text text = text_of(one->name);
    spool_lock();
    put(TAG_ATTACH, connection, at, at, words, 1, &text, 1);
    spool_unlock();
    watch_locks(db, one->name, connection->number, (uint32_t)words[0]);
    /* ATTACH reads the schema. */
    tell_read(db, one->name);
  }
  inside--;
  connection->attached = now;
  for (Schema *next; before; before = next) next = before->next, free(before);
}

SQLITE_API int sqlite3_step(sqlite3_stmt *handle) {
  int result;
  if (!recorded()) {
    NEED(step);
    return WITHIN(real.step(handle));
  }
  NEED(step);
  sqlite3_mutex *mutex = handle ? enter(real.db_handle(handle)) : NULL;
  spool_lock();
  Statement *statement = statement_of(handle);
  int begins = statement && !statement->running;
  if (begins) {
    uint64_t now = now_ns();
    put_plain(TAG_BEGIN_STEP, statement, now, now);
    statement->running = 1;
  } else if (statement && statement->connection->pending != statement) {
    settle(statement->connection);
  }
  spool_unlock();
  uint64_t start = now_ns();
  WITHIN(real.step(handle));
  if (!statement) {
    leave_mutex(mutex);
    return result;
  }
  uint64_t end = now_ns();
  /* Only this thread uses the statement, so it is still there. */
  if (statement->attaches && result == SQLITE_DONE) look_at_schemas(statement->connection);
  spool_lock();
  Connection *connection = statement->connection;
  if (result == SQLITE_ROW && !begins) {
    if (!statement->rows) statement->first_ns = start, statement->tid = spool_tid();
    statement->rows++, statement->inside_ns += end - start;
    connection->pending = statement;
  } else {
    uint64_t rows = result == SQLITE_ROW, inside_ns = end - start;
    if (connection->pending == statement) {
      rows += statement->rows, inside_ns += statement->inside_ns, start = statement->first_ns;
      connection->pending = NULL, statement->rows = 0, statement->inside_ns = 0;
    }
    uint64_t changes = result == SQLITE_DONE && statement->changes_rows ? (uint64_t)real.changes(connection->db) : 0;
    put_step(0, statement, begins, start, end, rows, changes, result, inside_ns);
    if (result != SQLITE_ROW) statement->running = 0;
  }
  spool_unlock();
  leave_mutex(mutex);
  return result;
}

SQLITE_API int sqlite3_reset(sqlite3_stmt *handle) {
  int result, is_recorded = recorded();
  NEED(reset);
  if (!is_recorded || !handle) return WITHIN(real.reset(handle));
  sqlite3 *db = real.db_handle(handle);
  sqlite3_mutex *mutex = enter(db);
  settle_first(db);
  uint64_t start = now_ns();
  WITHIN(real.reset(handle));
  spool_lock();
  Statement *statement = statement_of(handle);
  if (statement) {
    put_plain(TAG_RESET, statement, start, statement->running ? now_ns() : start);
    statement->running = 0;
  }
  spool_unlock();
  leave_mutex(mutex);
  return result;
}

SQLITE_API int sqlite3_finalize(sqlite3_stmt *handle) {
  int result, is_recorded = recorded();
  NEED(finalize);
  if (!is_recorded || !handle) return WITHIN(real.finalize(handle));
  sqlite3_mutex *mutex = enter(real.db_handle(handle));
  /* Taken out first: another thread may be given the same address at once. */
  spool_lock();
  Statement *statement = statement_of(handle);
  Connection *connection = statement ? statement->connection : NULL;
  /* The last statement of a connection that was closed before takes the connection and its mutex with it. */
  int is_open = connection && connection->db && !connection->is_closed;
  int is_running = 0;
  uint64_t start = now_ns(), words[] = {statement ? statement->number : 0};
  if (statement) {
    settle(connection);
    is_running = statement->running;
    connection->statements++; /* keeps it */
    forget_statement(statement);
  }
  spool_unlock();
  if (!is_open) leave_mutex(mutex), mutex = NULL;
  WITHIN(real.finalize(handle));
  if (connection) {
    spool_lock();
    uint64_t end = is_running ? now_ns() : start;
    put(TAG_FINALIZE, connection, start, end, words, 1, NULL, 0);
    connection->statements--;
    if (connection->is_closed && !connection->statements) put_close(connection, end, now_ns());
    release(connection);
    spool_unlock();
  }
  leave_mutex(mutex);
  return result;
}

/* As SQLite's own, whose calls of its other functions may or may not come here: it depends on how it was linked. */
SQLITE_API int sqlite3_exec(sqlite3 *db, const char *sql, int (*callback)(void *, int, char **, char **), void *argument,
                            char **message) {
  int result = SQLITE_OK;
  if (!db || !recorded()) {
    NEED(exec);
    return WITHIN(real.exec(db, sql, callback, argument, message));
  }
  NEED(exec);
  if (!sql || !*sql) { /* clears the connection's error */
    inside++;
    result = real.exec(db, sql, callback, argument, message);
    inside--;
    return result;
  }
  real.mutex_enter(real.db_mutex(db));
  int is_aborted = 0;
  while (result == SQLITE_OK && *sql && !is_aborted) {
    sqlite3_stmt *handle = NULL;
    const char *tail = NULL;
    result = sqlite3_prepare_v2(db, sql, -1, &handle, &tail);
    if (result != SQLITE_OK) break;
    sql = tail;
    if (!handle) continue;
    int columns = callback ? real.column_count(handle) : 0;
    char **names = columns ? malloc(2 * (size_t)columns * sizeof *names) : NULL;
    for (int i = 0; names && i < columns; i++) names[i] = (char *)real.column_name(handle, i);
    while ((result = sqlite3_step(handle)) == SQLITE_ROW) {
      if (!callback || (columns && !names)) continue;
      for (int i = 0; i < columns; i++) names[columns + i] = (char *)real.column_text(handle, i);
      if (callback(argument, columns, names + columns, names)) { is_aborted = 1; break; }
    }
    free(names);
    result = sqlite3_finalize(handle);
    while (*sql == ' ' || (*sql >= '\t' && *sql <= '\r')) sql++;
  }
  if (is_aborted) result = SQLITE_ABORT;
  if (message)
    *message = result == SQLITE_OK ? NULL : real.mprintf("%s", is_aborted ? real.errstr(SQLITE_ABORT) : real.errmsg(db));
  real.mutex_leave(real.db_mutex(db));
  return result;
}

/* ── Settings and what a replay cannot do again by itself ── */

enum { SETTING_BUSY_TIMEOUT, SETTING_WAL_AUTOCHECKPOINT, SETTING_DB_CONFIG };

static void set(sqlite3 *db, int kind, int number, int64_t value) {
  spool_lock();
  Connection *connection = connection_of(db);
  if (connection) {
    settle(connection);
    uint64_t now = now_ns(), words[] = {(uint64_t)kind, (uint64_t)number, (uint64_t)value};
    put(TAG_SETTING, connection, now, now, words, 3, NULL, 0);
  }
  spool_unlock();
}

SQLITE_API int sqlite3_busy_timeout(sqlite3 *db, int ms) {
  int result, is_recorded = recorded();
  NEED(busy_timeout);
  WITHIN(real.busy_timeout(db, ms));
  if (is_recorded && result == SQLITE_OK) set(db, SETTING_BUSY_TIMEOUT, 0, ms);
  return result;
}

SQLITE_API int sqlite3_wal_autocheckpoint(sqlite3 *db, int pages) {
  int result, is_recorded = recorded();
  NEED(wal_autocheckpoint);
  WITHIN(real.wal_autocheckpoint(db, pages));
  if (is_recorded && result == SQLITE_OK) set(db, SETTING_WAL_AUTOCHECKPOINT, 0, pages);
  return result;
}

/* All its forms take at most three words after the number, each passed as a register or stack slot of its own. */
SQLITE_API int sqlite3_db_config(sqlite3 *db, int op, ...) {
  int result, is_recorded = recorded();
  NEED(db_config);
  va_list list;
  va_start(list, op);
  void *a = va_arg(list, void *), *b = va_arg(list, void *), *c = va_arg(list, void *);
  va_end(list);
  WITHIN(real.db_config(db, op, a, b, c));
  if (is_recorded && result == SQLITE_OK && op >= 1002 && (int)(intptr_t)a >= 0)
    set(db, SETTING_DB_CONFIG, op, (int)(intptr_t)a);
  return result;
}

static void checkpointed(sqlite3 *db, const char *schema, int mode, uint64_t start, int code) {
  uint64_t end = now_ns();
  spool_lock();
  Connection *connection = connection_of(db);
  if (connection) {
    settle(connection);
    Text texts[] = {text_of(schema), message_of(db, &code)};
    uint64_t words[] = {(uint64_t)mode, (uint64_t)(int64_t)code};
    put(TAG_CHECKPOINT, connection, start, end, words, 2, texts, 2);
  }
  spool_unlock();
}

SQLITE_API int sqlite3_wal_checkpoint(sqlite3 *db, const char *schema) {
  int result, is_recorded = recorded();
  NEED(wal_checkpoint);
  sqlite3_mutex *mutex = is_recorded ? enter(db) : NULL;
  uint64_t start = now_ns();
  WITHIN(real.wal_checkpoint(db, schema));
  if (is_recorded) checkpointed(db, schema, SQLITE_CHECKPOINT_PASSIVE, start, result);
  leave_mutex(mutex);
  return result;
}

SQLITE_API int sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *schema, int mode, int *log, int *done) {
  int result, is_recorded = recorded();
  NEED(wal_checkpoint_v2);
  sqlite3_mutex *mutex = is_recorded ? enter(db) : NULL;
  uint64_t start = now_ns();
  WITHIN(real.wal_checkpoint_v2(db, schema, mode, log, done));
  if (is_recorded) checkpointed(db, schema, mode, start, result);
  leave_mutex(mutex);
  return result;
}

#define NOTE(name, kind, said, parameters, arguments) \
  SQLITE_API int sqlite3_##name parameters { \
    int result, is_recorded = recorded(); \
    NEED(name); \
    WITHIN(real.name arguments); \
    if (is_recorded && result == SQLITE_OK) foreign(db, kind, said); \
    return result; \
  }

typedef void (*Function)(sqlite3_context *, int, sqlite3_value **);
typedef void (*Last)(sqlite3_context *);
typedef int (*Compare)(void *, int, const void *, int, const void *);

NOTE(create_function, FOREIGN_FUNCTION, name,
     (sqlite3 *db, const char *name, int args, int text, void *app, Function f, Function s, Last l), (db, name, args, text, app, f, s, l))
NOTE(create_function16, FOREIGN_FUNCTION, "(named in UTF-16)",
     (sqlite3 *db, const void *name, int args, int text, void *app, Function f, Function s, Last l), (db, name, args, text, app, f, s, l))
NOTE(create_function_v2, FOREIGN_FUNCTION, name,
     (sqlite3 *db, const char *name, int args, int text, void *app, Function f, Function s, Last l, void (*d)(void *)),
     (db, name, args, text, app, f, s, l, d))
NOTE(create_window_function, FOREIGN_FUNCTION, name,
     (sqlite3 *db, const char *name, int args, int text, void *app, Function s, Last l, Last v, Function i, void (*d)(void *)),
     (db, name, args, text, app, s, l, v, i, d))
NOTE(create_collation, FOREIGN_COLLATION, name, (sqlite3 *db, const char *name, int text, void *app, Compare c), (db, name, text, app, c))
NOTE(create_collation_v2, FOREIGN_COLLATION, name,
     (sqlite3 *db, const char *name, int text, void *app, Compare c, void (*d)(void *)), (db, name, text, app, c, d))
NOTE(create_collation16, FOREIGN_COLLATION, "(named in UTF-16)", (sqlite3 *db, const void *name, int text, void *app, Compare c),
     (db, name, text, app, c))
NOTE(create_module, FOREIGN_MODULE, name, (sqlite3 *db, const char *name, const sqlite3_module *m, void *app), (db, name, m, app))
NOTE(create_module_v2, FOREIGN_MODULE, name,
     (sqlite3 *db, const char *name, const sqlite3_module *m, void *app, void (*d)(void *)), (db, name, m, app, d))
NOTE(load_extension, FOREIGN_EXTENSION, file, (sqlite3 *db, const char *file, const char *entry, char **message),
     (db, file, entry, message))
NOTE(deserialize, FOREIGN_CALL, "sqlite3_deserialize",
     (sqlite3 *db, const char *schema, unsigned char *data, sqlite3_int64 bytes, sqlite3_int64 room, unsigned flags),
     (db, schema, data, bytes, room, flags))

NOTE(overload_function, FOREIGN_FUNCTION, name, (sqlite3 *db, const char *name, int args), (db, name, args))
NOTE(rtree_geometry_callback, FOREIGN_FUNCTION, name,
     (sqlite3 *db, const char *name, int (*geometry)(sqlite3_rtree_geometry *, int, sqlite3_rtree_dbl *, int *), void *app),
     (db, name, geometry, app))
NOTE(rtree_query_callback, FOREIGN_FUNCTION, name,
     (sqlite3 *db, const char *name, int (*query)(sqlite3_rtree_query_info *), void *app, void (*d)(void *)), (db, name, query, app, d))

SQLITE_API sqlite3_backup *sqlite3_backup_init(sqlite3 *to, const char *to_name, sqlite3 *from, const char *from_name) {
  int is_recorded = recorded();
  find_functions();
  if (!real.backup_init) return NULL;
  inside++;
  sqlite3_backup *result = real.backup_init(to, to_name, from, from_name);
  inside--;
  if (is_recorded && result) foreign(to, FOREIGN_CALL, "sqlite3_backup_init (into this connection)");
  return result;
}

/* SQLCipher's and SEE's calls, which plain SQLite lacks. A program that has them is linked with them, so they are looked up
 * only when they are called. */
static int keyed(const char *name, sqlite3 *db, const char *schema, const void *key, int bytes) {
  find_functions();
  Lookup look_up = real_dlsym();
  void *next = look_up ? look_up(library, name) : NULL;
  if (!next) return SQLITE_MISUSE;
  int result;
  if (schema) WITHIN(((int (*)(sqlite3 *, const char *, const void *, int))next)(db, schema, key, bytes));
  else WITHIN(((int (*)(sqlite3 *, const void *, int))next)(db, key, bytes));
  if (!inside && spool_on()) foreign(db, FOREIGN_ENCRYPTION, name);
  return result;
}

SQLITE_API int sqlite3_key(sqlite3 *db, const void *key, int bytes) { return keyed("sqlite3_key", db, NULL, key, bytes); }
SQLITE_API int sqlite3_key_v2(sqlite3 *db, const char *schema, const void *key, int bytes) {
  return keyed("sqlite3_key_v2", db, schema ? schema : "main", key, bytes);
}

/* For the loadable extension: a connection that is recorded here, or is just being opened through here, must not be
 * recorded there too. */
__attribute__((visibility("default"))) int fathom_capture_knows(sqlite3 *db) {
  if (inside) return 1;
  spool_lock();
  int is_known = connection_of(db) != NULL;
  spool_unlock();
  return is_known;
}

/* Rows that were only counted so far, when the program ends in the middle of a query. */
__attribute__((destructor)) static void settle_all(void) {
  if (inside || !real.get_autocommit || !spool_on()) return;
  spool_lock();
  for (int i = 0; i < BUCKETS; i++)
    for (Connection *one = connections[i]; one; one = one->next) settle(one);
  spool_unlock();
}

/* ── Programs that open libsqlite3 themselves and ask for its functions by name ── */

#ifdef __GLIBC__

/* Our function of this name; null where it is none of ours. */
static void *own_function(Lookup look_up, const char *name) {
  static void *own;
  Dl_info here, there;
  if (!dladdr((void *)own_function, &here)) return NULL;
  if (!own) own = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void *found = own ? look_up(own, name) : NULL;
  return found && dladdr(found, &there) && there.dli_fbase == here.dli_fbase ? found : NULL;
}

/* What the program gets for one of SQLite's names: ours, if the function is one of the library that ours call. */
static void *stand_before(Lookup look_up, void *handle, const char *name) {
  void *found = look_up(handle, name), *own = found ? own_function(look_up, name) : NULL;
  if (!own || own == found) return found;
  if (!library && !look_up(RTLD_NEXT, "sqlite3_libversion_number")) loaded = handle;
  find_functions();
  return look_up(library, name) == found ? own : found;
}

/* RTLD_NEXT and RTLD_DEFAULT mean the caller's place in the order of libraries, so a call with them must not come from here: it is
 * passed on by a jump, which is what compilers make of the last call of a function. */
__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name) {
  Lookup look_up = real_dlsym();
  if (!look_up) return NULL;
  if (!strncmp(name, "sqlite3_", 8) && handle != RTLD_NEXT && handle != RTLD_DEFAULT && !inside && spool_on())
    return stand_before(look_up, handle, name);
  return look_up(handle, name);
}

#endif
