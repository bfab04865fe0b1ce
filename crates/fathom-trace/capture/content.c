#define _GNU_SOURCE
#include "content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool.h"

/* Databases that this process has named in its spool. A forked child begins a new spool, which the key's process id tells. */
typedef struct Known { struct Known *next; pid_t pid; uint32_t id; char key[]; } Known;
static Known *known;
static uint32_t databases;

/* Copies the database at `path` to `target`; gives SQLite's result code. */
static int copy(const char *opened_as, int flags, const char *vfs, const char *target) {
  sqlite3 *from = NULL, *to = NULL;
  int code = real.open_v2(opened_as, &from, (flags & ~(SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE)) | SQLITE_OPEN_NOMUTEX, vfs);
  if (code == SQLITE_OK) code = real.open_v2(target, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
  if (code == SQLITE_OK) {
    real.busy_timeout(from, 5000);
    /* A copy that a power cut may spoil: it is made again with the next capture. */
    real.exec(to, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF", NULL, NULL, NULL);
    sqlite3_backup *backup = real.backup_init(to, "main", from, "main");
    if (!backup) {
      code = real.extended_errcode(to);
    } else {
      code = real.backup_step(backup, -1);
      int finished = real.backup_finish(backup);
      code = code == SQLITE_DONE ? SQLITE_OK : finished ? finished : code;
    }
  }
  if (to) real.close(to);
  if (from) real.close(from);
  return code;
}

/* What the database held at first, from whoever met it first. `marker` is locked, so that no other process writes before it is known. */
static void find_start(int marker, const char *path, const char *key, const char *opened_as, int flags, const char *vfs,
                       char *start, size_t room) {
  ssize_t got = pread(marker, start, room - 1, 0);
  if (got > 0) { start[got] = 0; return; }
  /* Not by stat, which in programs of 32 bits fails of what is larger than 2 GiB. */
  struct statx status;
  int failed = statx(AT_FDCWD, path, 0, STATX_SIZE, &status) ? errno : 0;
  if (failed == ENOENT || (!failed && status.stx_size == 0)) {
    snprintf(start, room, "empty");
  } else if (failed) {
    snprintf(start, room, "its size cannot be told: %s", strerror(failed));
  } else {
    char target[4096];
    snprintf(target, sizeof target, "%s/%s.content", spool_directory(), key);
    int code = copy(opened_as, flags, vfs, target);
    if (code == SQLITE_OK) {
      snprintf(start, room, "image");
    } else {
      unlink(target);
      const char *hint = code == SQLITE_NOTADB ? ": it is encrypted, or no database" : "";
      snprintf(start, room, "SQLite said %d (%s)%s", code, real.errstr(code), hint);
    }
  }
  if (pwrite(marker, start, strlen(start), 0) < 0) return; /* then the next one looks again */
}

uint32_t content_of(sqlite3 *db, const char *schema, const char *opened_as, int flags, const char *vfs) {
  char key[160], start[512] = "memory", marker_path[4096];
  const char *path = real.db_filename(db, schema);
  struct statx status;
  int is_memory = !path || !*path || statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &status);
  if (is_memory) {
    path = path && *path ? path : ":memory:";
    spool_lock();
    snprintf(key, sizeof key, "memory-%d-%u", getpid(), databases);
    spool_unlock();
  } else {
    snprintf(key, sizeof key, "%x-%x-%llu-%llx-%x", status.stx_dev_major, status.stx_dev_minor,
             (unsigned long long)status.stx_ino, (unsigned long long)status.stx_btime.tv_sec, status.stx_btime.tv_nsec);
    spool_lock();
    for (Known *one = known; one; one = one->next)
      if (one->pid == getpid() && !strcmp(one->key, key)) { spool_unlock(); return one->id; }
    spool_unlock();
    snprintf(marker_path, sizeof marker_path, "%s/%s.start", spool_directory(), key);
    int marker = open(marker_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    snprintf(start, sizeof start, "the spool cannot be written");
    if (marker >= 0) {
      flock(marker, LOCK_EX);
      inside++;
      find_start(marker, path, key, opened_as ? opened_as : path, flags, vfs, start, sizeof start);
      inside--;
      close(marker);
    }
  }
  spool_lock();
  uint32_t id = databases++;
  Known *fresh = is_memory ? NULL : malloc(sizeof *fresh + sizeof key);
  if (fresh) {
    fresh->next = known, fresh->pid = getpid(), fresh->id = id;
    strcpy(fresh->key, key);
    known = fresh;
  }
  uint64_t now = now_ns(), words[] = {id};
  Text texts[] = {text_of(path), text_of(key), text_of(start)};
  spool_put(TAG_DATABASE, 0, now, now, words, 1, texts, 3);
  spool_unlock();
  return id;
}
