/* Locks of database files, recorded while they are held.
 *
 * When a call returned says little of which state it read: a reader of a write-ahead log goes on
 * beside commits, and a thread may be given no processor between its unlock and its return. So
 * the file's lock methods are put before SQLite's own, in the open file itself (the first word
 * of an sqlite3_file points to its methods), and each record is written after a lock is got and
 * before it is let go: of two locks that exclude each other, records stand in the order in which
 * the locks were held.
 *
 * With a rollback journal the file's locks tell all: nothing is committed while anybody holds
 * SHARED. With a write-ahead log the state is the wal-index' counter of commits (`iChange` of
 * its header): SQLite compares the whole header once more after it has got its read lock, and
 * lets the lock go where it differs, so the counter that is read between is the reader's. A
 * writer raises it before it lets the write lock go. */
#define _GNU_SOURCE
#include "locks.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "spool.h"

/* What stands behind a file's methods while it is open. */
typedef struct Watched {
  sqlite3_io_methods methods; /* first: found by the file's pointer to them */
  const sqlite3_io_methods *own;
  uint32_t connection, database;
  int level;                     /* of the file's lock */
  unsigned char reads, writes, excludes;
  unsigned char has_log;         /* the wal-index is mapped: its locks tell, and SHARED of the file is kept all the time */
  uint32_t commits;              /* the wal-index' counter when the write lock was got */
  const volatile void *index;    /* the wal-index' first page */
} Watched;

/* Locks of the wal-index ("WAL-index locks" in wal.c): the writer's, and the first of the
 * readers'. */
enum { LOG_WRITE = 0, LOG_READ = 3, LOG_CHANGE_AT = 8, LOG_PAGE = 32768 };

static Watched *watched(sqlite3_file *file) { return (Watched *)(uintptr_t)file->pMethods; }

static uint32_t commits_of(const Watched *it) {
  uint32_t count = 0;
  if (it->index) memcpy(&count, (const char *)(uintptr_t)it->index + LOG_CHANGE_AT, sizeof count);
  return count;
}

static void put_lock(const Watched *it, int kind, int is_changed) {
  if (!spool_on()) return;
  spool_lock();
  /* Within the spool's lock, so that no record that stands before this one has a later time, or
   * tells of a later commit. The time comes first: a commit of another process is then told to
   * be earlier than this, or is counted in it. */
  uint64_t now = now_ns();
  uint64_t words[] = {it->database, (uint64_t)kind | (uint64_t)(is_changed != 0) << 8 | (uint64_t)it->has_log << 9, commits_of(it)};
  spool_put(TAG_LOCK, it->connection, now, now, words, 3, NULL, 0);
  spool_unlock();
}

static void end_write(Watched *it, int is_changed) {
  if (it->writes) put_lock(it, LOCKED_WRITE_END, is_changed);
  it->writes = it->excludes = 0;
}

static void end_read(Watched *it) {
  if (it->reads) put_lock(it, LOCKED_READ_END, 0);
  it->reads = 0;
}

static int lock(sqlite3_file *file, int level) {
  Watched *it = watched(file);
  int result = it->own->xLock(file, level);
  if (result != SQLITE_OK) return result;
  int before = it->level;
  if (level > it->level) it->level = level;
  if (it->has_log) return result;
  /* Who writes gets RESERVED first. EXCLUSIVE after SHARED is for a journal that somebody left, or was about to delete: what is
   * rolled back is no commit. */
  if (level == SQLITE_LOCK_EXCLUSIVE && before == SQLITE_LOCK_SHARED) return result;
  if (!it->reads) it->reads = 1, put_lock(it, LOCKED_READ, 0);
  if (level >= SQLITE_LOCK_RESERVED && !it->writes) it->writes = 1, put_lock(it, LOCKED_WRITE, 0);
  if (level == SQLITE_LOCK_EXCLUSIVE && !it->excludes) it->excludes = 1, put_lock(it, LOCKED_EXCLUSIVE, 0);
  return result;
}

static int unlock(sqlite3_file *file, int level) {
  Watched *it = watched(file);
  if (!it->has_log) {
    if (level <= SQLITE_LOCK_SHARED) end_write(it, it->excludes);
    if (level == SQLITE_LOCK_NONE) end_read(it);
  }
  if (level < it->level) it->level = level;
  return it->own->xUnlock(file, level);
}

/* The wal-index is in use from now on. What was a reader's lock so far stays until the file is
 * closed. */
static void begin_log(Watched *it) {
  if (it->has_log) return;
  end_write(it, it->excludes);
  end_read(it);
  it->has_log = 1;
}

static int shm_map(sqlite3_file *file, int page, int bytes, int is_writing, void volatile **at) {
  Watched *it = watched(file);
  int result = it->own->xShmMap(file, page, bytes, is_writing, at);
  begin_log(it);
  if (page == 0 && (result == SQLITE_OK || result == SQLITE_READONLY) && at && *at) it->index = *at;
  return result;
}

static int shm_lock(sqlite3_file *file, int offset, int number, int flags) {
  Watched *it = watched(file);
  int is_write = offset == LOG_WRITE && number == 1 && (flags & SQLITE_SHM_EXCLUSIVE);
  int is_read = offset >= LOG_READ && (flags & SQLITE_SHM_SHARED);
  begin_log(it);
  if (!it->index) {
    /* ATTACH has mapped it, before the file was watched: this only asks where. */
    void volatile *at = NULL;
    int result = it->own->xShmMap(file, 0, LOG_PAGE, 0, &at);
    if (result == SQLITE_OK || result == SQLITE_READONLY) it->index = at;
  }
  if (flags & SQLITE_SHM_UNLOCK) {
    if (is_write) end_write(it, commits_of(it) == it->commits + 1);
    if (is_read) end_read(it);
    return it->own->xShmLock(file, offset, number, flags);
  }
  int result = it->own->xShmLock(file, offset, number, flags);
  if (result != SQLITE_OK) return result;
  if (is_read) it->reads = 1, put_lock(it, LOCKED_READ, 0);
  if (is_write) it->writes = 1, it->commits = commits_of(it), put_lock(it, LOCKED_WRITE, 0);
  return result;
}

static int shm_unmap(sqlite3_file *file, int is_deleted) {
  Watched *it = watched(file);
  end_write(it, 0);
  end_read(it);
  it->has_log = 0, it->index = NULL;
  return it->own->xShmUnmap(file, is_deleted);
}

static int close_file(sqlite3_file *file) {
  Watched *it = watched(file);
  end_write(it, 0);
  end_read(it);
  file->pMethods = it->own;
  int result = it->own->xClose(file);
  free(it);
  return result;
}

int shares_file(sqlite3 *db) {
  sqlite3_file *file = NULL;
  if (!real.file_control || real.file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return 0;
  return file && file->pMethods && file->pMethods->xLock == lock;
}

void watch_locks(sqlite3 *db, const char *schema, uint32_t connection, uint32_t database) {
  sqlite3_file *file = NULL;
  if (!real.file_control || real.file_control(db, schema, SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return;
  if (!file || !file->pMethods || file->pMethods->xLock == lock) return;
  const sqlite3_io_methods *own = file->pMethods;
  /* A VFS of somebody else may find its own data by this pointer: only SQLite's files are watched. */
  Dl_info methods, library;
  if (!dladdr((void *)own->xLock, &methods) || !dladdr((void *)real.file_control, &library)) return;
  if (methods.dli_fbase != library.dli_fbase) return;
  Watched *it = calloc(1, sizeof *it);
  if (!it) return;
  /* Older methods are shorter. */
  size_t bytes = own->iVersion >= 3 ? sizeof *own
                 : own->iVersion == 2 ? offsetof(sqlite3_io_methods, xFetch)
                                      : offsetof(sqlite3_io_methods, xShmMap);
  memcpy(&it->methods, own, bytes);
  it->own = own, it->connection = connection, it->database = database;
  it->methods.xClose = close_file, it->methods.xLock = lock, it->methods.xUnlock = unlock;
  if (own->iVersion >= 2 && own->xShmMap)
    it->methods.xShmMap = shm_map, it->methods.xShmLock = shm_lock, it->methods.xShmUnmap = shm_unmap;
  file->pMethods = &it->methods;
}

void tell_read(sqlite3 *db, const char *schema) {
  sqlite3_file *file = NULL;
  if (!real.file_control || real.file_control(db, schema, SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return;
  if (!file || !file->pMethods || file->pMethods->xLock != lock) return;
  put_lock(watched(file), LOCKED_READ, 0);
  put_lock(watched(file), LOCKED_READ_END, 0);
}
