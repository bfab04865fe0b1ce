/* Calls of SQLite that run SQL of their own: reading the schema, asking a virtual table's module, a
 * session's changes. What they run is not the application's, and is not recorded.
 *
 * Two things keep it out. A call that comes from the code of SQLite's library itself is none of the
 * application's (see `recorded_from`), so that no function of SQLite is forgotten here. And while
 * one of these functions runs, nothing that the thread calls is recorded: what a module or an
 * extension in another library runs, and what an SQLite runs whose code is part of another library.
 *
 * `sqlite3changeset_apply` is the exception: what it runs is the only account of the changes that
 * it makes, so its statements are recorded as the application's. */
#define _GNU_SOURCE
#include <string.h>

#include "preload.h"

#define GUARDED(name, parameters, arguments) \
  SQLITE_API int sqlite3_##name parameters { \
    int result; \
    NEED(name); \
    return WITHIN(real.name arguments); \
  }

GUARDED(table_column_metadata,
        (sqlite3 *db, const char *schema, const char *table, const char *column, char const **type, char const **collation, int *not_null,
         int *in_key, int *counts),
        (db, schema, table, column, type, collation, not_null, in_key, counts))
GUARDED(declare_vtab, (sqlite3 *db, const char *sql), (db, sql))
GUARDED(backup_step, (sqlite3_backup *backup, int pages), (backup, pages))
GUARDED(backup_finish, (sqlite3_backup *backup), (backup))
GUARDED(drop_modules, (sqlite3 *db, const char **kept_ones), (db, kept_ones))

SQLITE_API unsigned char *sqlite3_serialize(sqlite3 *db, const char *schema, sqlite3_int64 *bytes, unsigned flags) {
  find_functions();
  if (!real.serialize) return NULL;
  inside++;
  unsigned char *result = real.serialize(db, schema, bytes, flags);
  inside--;
  return result;
}

/* ── Sessions: in libraries that are built with them ── */

#define SESSION(name, parameters, arguments) \
  SQLITE_API int sqlite3session_##name parameters { \
    int result; \
    find_functions(); \
    if (!real_session.name) return SQLITE_MISUSE; \
    return WITHIN(real_session.name arguments); \
  }

SESSION(attach, (sqlite3_session *session, const char *table), (session, table))
SESSION(diff, (sqlite3_session *session, const char *from, const char *table, char **message), (session, from, table, message))
SESSION(changeset, (sqlite3_session *session, int *bytes, void **changes), (session, bytes, changes))
SESSION(patchset, (sqlite3_session *session, int *bytes, void **changes), (session, bytes, changes))
SESSION(changeset_strm, (sqlite3_session *session, int (*out)(void *, const void *, int), void *app), (session, out, app))
SESSION(patchset_strm, (sqlite3_session *session, int (*out)(void *, const void *, int), void *app), (session, out, app))

typedef int (*Filter)(void *, const char *);
typedef int (*Conflict)(void *, int, sqlite3_changeset_iter *);
typedef int (*Input)(void *, void *, int *);

/* Where nothing was seen (the library calls itself directly), the change is noted as one that a
 * replay cannot make. */
#define APPLY(name, parameters, arguments) \
  SQLITE_API int sqlite3changeset_##name parameters { \
    int is_recorded = recorded(); \
    find_functions(); \
    if (!real_changeset.name) return SQLITE_MISUSE; \
    uint64_t before = steps_recorded; \
    kept++; \
    int result = real_changeset.name arguments; \
    kept--; \
    if (is_recorded && steps_recorded == before) foreign(db, FOREIGN_CALL, "sqlite3changeset_" #name); \
    return result; \
  }

APPLY(apply, (sqlite3 *db, int bytes, void *changes, Filter filter, Conflict conflict, void *app),
      (db, bytes, changes, filter, conflict, app))
APPLY(apply_v2,
      (sqlite3 *db, int bytes, void *changes, Filter filter, Conflict conflict, void *app, void **rebase, int *rebase_bytes, int flags),
      (db, bytes, changes, filter, conflict, app, rebase, rebase_bytes, flags))
APPLY(apply_strm, (sqlite3 *db, Input input, void *in, Filter filter, Conflict conflict, void *app),
      (db, input, in, filter, conflict, app))
APPLY(apply_v2_strm,
      (sqlite3 *db, Input input, void *in, Filter filter, Conflict conflict, void *app, void **rebase, int *rebase_bytes, int flags),
      (db, input, in, filter, conflict, app, rebase, rebase_bytes, flags))
