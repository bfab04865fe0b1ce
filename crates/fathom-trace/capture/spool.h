/* The spool: where a captured process writes what it does, so that nothing is lost when it is killed.
 *
 * Every process has a file of its own, mapped into its memory. A record is copied there, then the count of finished bytes in the
 * file's header is raised; from that moment the record belongs to the kernel, and no signal can take it away. Nothing is
 * written by system calls, and nothing is synced: a power cut loses the spool, as it should (syncing would be paid by the
 * application). The file's bytes are given in docs/spool.md; src/spool/ reads them. */
#ifndef FATHOM_SPOOL_H
#define FATHOM_SPOOL_H

#include <stddef.h>
#include <stdint.h>

enum {
  TAG_STATEMENT = 1,  /* words: id                              texts: SQL */
  TAG_DATABASE = 2,   /* words: id                              texts: path, key, start ("image", "empty", "memory", or a reason) */
  TAG_OPEN = 3,       /* words: database, flags, code           texts: VFS, message */
  TAG_PREPARE = 4,    /* words: handle, statement, code         texts: message */
  TAG_BIND = 5,       /* words: handle | index << 32, type, bits or length   texts: bytes (text, blob) */
  TAG_CLEAR = 6,      /* words: handle */
  TAG_BEGIN_STEP = 7, /* words: handle */
  TAG_STEP = 8,       /* words: handle, bits (1 begins, 2 in transaction), rows, changes, code, ns inside   texts: message */
  TAG_RESET = 9,      /* words: handle */
  TAG_FINALIZE = 10,  /* words: handle */
  TAG_CLOSE = 11,     /* words: code                            texts: message */
  TAG_SETTING = 12,   /* words: kind, number, value */
  TAG_CHECKPOINT = 13,/* words: mode, code                      texts: schema, message */
  TAG_ATTACH = 14,    /* words: database                        texts: schema */
  TAG_FOREIGN = 15,   /* words: kind                            texts: name */
  TAG_EXPANDED = 16,  /* words: handle                          texts: the statement's SQL with its parameters' values */
  TAG_BLOB = 32,      /* words: blob | call << 32 (0 open, 1 read, 2 write, 3 reopen, 4 close), bits (1 may be written, 2 in transaction),
                         offset or row, bytes, code             texts: message, then of open: schema, table, column; of write: the bytes */
  TAG_LOCK = 17,      /* words: database, LOCKED_… | changed << 8 | log << 9, the log's counter of commits */
};

/* The database's locks: see locks.c. */
enum { LOCKED_READ, LOCKED_WRITE, LOCKED_EXCLUSIVE, LOCKED_WRITE_END, LOCKED_READ_END };

enum { FOREIGN_FUNCTION, FOREIGN_COLLATION, FOREIGN_MODULE, FOREIGN_EXTENSION, FOREIGN_ENCRYPTION, FOREIGN_CALL };

typedef struct { const void *bytes; size_t length; } Text;

/* A NUL-terminated text, or nothing for null. */
Text text_of(const char *string);

/* Nanoseconds, CLOCK_MONOTONIC: one clock for all processes. */
uint64_t now_ns(void);

/* Whether this process is to be recorded: FATHOM_TRACE_SPOOL names a directory that can be written, and the disk is not full. */
int spool_on(void);

/* Whether this process has written anything. */
int spool_begun(void);

/* The directory. */
const char *spool_directory(void);

/* The lock of the spool and of all tables beside it. Held during fork, so that a child never finds it taken. */
void spool_lock(void);
void spool_unlock(void);

/* Appends a record; the lock must be held. */
void spool_put(int tag, uint32_t connection, uint64_t start, uint64_t end, const uint64_t *words, int word_count,
               const Text *texts, int text_count);

/* As spool_put, of another thread of this process; 0 = the calling one. */
void spool_put_of(uint32_t tid, int tag, uint32_t connection, uint64_t start, uint64_t end, const uint64_t *words, int word_count,
                  const Text *texts, int text_count);

/* The calling thread, by the system's number. */
uint32_t spool_tid(void);

/* Number of an SQL text, which is put into the spool where it is new; the lock must be held. */
uint32_t spool_statement(const char *sql, size_t length);

/* A number for a new connection; the lock must be held. */
uint32_t spool_connection(void);

/* Tells SQLite's version, once known; the lock must be held. */
void spool_version(const char *version);

#endif
