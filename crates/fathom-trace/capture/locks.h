/* Which state of a database a connection reads, and in which order transactions end: recorded
 * from the locks that SQLite takes. */
#ifndef FATHOM_LOCKS_H
#define FATHOM_LOCKS_H

#include "real.h"

#include <stdint.h>

/* Records the locks of a connection's database file from now on; `schema` is `main` or the name
 * of an attached one. Files that bring no methods of their own (a database in memory) are left
 * alone. The connection must not be in use elsewhere. */
void watch_locks(sqlite3 *db, const char *schema, uint32_t connection, uint32_t database);
/* Whether a connection's database file is another connection's, whose locks are watched: they share a cache. */
int shares_file(sqlite3 *db);
/* Records that a connection has read that database's file before its locks were watched, and reads it no longer. */
void tell_read(sqlite3 *db, const char *schema);

#endif
