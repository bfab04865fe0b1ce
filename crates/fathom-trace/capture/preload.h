/* What the parts of the capture library share: preload.c keeps the tables, blob.c records
 * incremental blobs, within.c stands before calls that run SQL of their own, loader.c before the
 * dynamic linker's. */
#ifndef FATHOM_PRELOAD_H
#define FATHOM_PRELOAD_H

#include "real.h"
#include "spool.h"

typedef struct Schema { struct Schema *next; char name[]; } Schema;
typedef struct Statement Statement;

/* A connection of this process. It stays while a statement or blob of it lives. */
typedef struct Connection {
  struct Connection *next;
  sqlite3 *db;
  uint32_t number, handles, blobs;
  uint32_t statements; /* statements and blobs that live */
  unsigned char is_closed; /* by sqlite3_close_v2; what lives keeps SQLite's own open */
  Statement *pending; /* has steps that are not recorded yet */
  Schema *attached;
} Connection;

typedef void *(*Lookup)(void *, const char *);

/* The system's dlsym, which ours hides. */
Lookup real_dlsym(void);

/* Finds SQLite's functions, once. */
void find_functions(void);

/* SQL that SQLite runs in calls under which this is above 0 is recorded although the calls come
 * from its own library: see within.c. */
extern __thread int kept;

/* Statements recorded by this thread so far, to know whether a call under `kept` was seen to run
 * any. */
extern __thread uint64_t steps_recorded;

/* Whether a call that came from the code at `from` is to be recorded; SQLite's functions are known
 * afterwards. */
int recorded_from(const void *from);
#define recorded() recorded_from(__builtin_return_address(0))

/* A function that an old SQLite lacks is lacking here too. */
#define NEED(name) do { find_functions(); if (!real.name) return SQLITE_MISUSE; } while (0)

/* SQLite's own work during `call` is not the application's. */
static inline int leave(int result) { inside--; return result; }
#define WITHIN(call) (inside++, result = leave(call))

/* Tables; the spool's lock is held. */
Connection *connection_of(sqlite3 *db);
void put(int tag, const Connection *connection, uint64_t start, uint64_t end, const uint64_t *words, int word_count,
         const Text *texts, int text_count);
/* Message and extended code of a call's error, before another call changes them. */
Text message_of(sqlite3 *db, int *code);
/* Records the rows that were only counted so far: before any other call on the connection. */
void settle(Connection *connection);
/* Records that a connection is gone. */
void put_close(Connection *connection, uint64_t start, uint64_t end);
/* Forgets a connection that is closed and has nothing left. */
void release(Connection *connection);

/* Notes what a replay cannot do again by itself. Takes the lock. */
void foreign(sqlite3 *db, int kind, const char *name);

#endif
