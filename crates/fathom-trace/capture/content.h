/* What a database holds before the application's first call on it. */
#ifndef FATHOM_CONTENT_H
#define FATHOM_CONTENT_H

#include <stdint.h>

#include "real.h"

/* Number of the database that is `schema` of a connection. The first time that any captured process meets it, what it holds is
 * copied into the spool's directory, through SQLite itself: as SQLite sees it (a WAL, a journal to roll back) and without
 * touching the locks of this process, which closing the file by other means would drop. */
uint32_t content_of(sqlite3 *db, const char *schema, const char *opened_as, int flags, const char *vfs);

#endif
