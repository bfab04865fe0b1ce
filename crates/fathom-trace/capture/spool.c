#define _GNU_SOURCE
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The first page of a spool file; the records follow it. */
typedef struct {
  char magic[8];
  _Atomic uint64_t finished; /* bytes of finished records */
  uint32_t pid;
  _Atomic uint32_t bits;     /* 1: the process ended by itself; 2: the disk was full and the rest is missing */
  uint64_t start_ns, start_unix_ns;
  uint64_t parent_start_ns;  /* with parent_pid: the spool of the process that forked this one; 0 = none */
  uint32_t parent_pid;
  uint32_t inherited;        /* connections with smaller numbers are that process's */
  char sqlite[64];
  char program[1024];        /* /proc/self/cmdline, NUL between words */
} Header;
_Static_assert(sizeof(Header) <= 4096, "the header is one page");

/* The mapped part grows with what is written: many processes write little. */
enum { PAGE = 4096, WINDOW_MIN = 256 << 10, WINDOW_MAX = 4 << 20, RECORD = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char directory[3072];
static _Atomic int state;      /* 0 not recording; 1 recording */
static char path[sizeof directory + 64];
static int file = -1;          /* see is_own */
static dev_t file_device;
static ino_t file_number;
static int is_numbered;        /* whether the system tells these two */
static Header *header;         /* null: this process has no spool yet */
static unsigned char *window;  /* the mapped part of the file */
static uint64_t window_at, window_bytes;
static uint64_t start_ns, parent_start_ns;
static uint32_t own_pid, parent_pid, inherited;
static uint32_t connections;   /* given out so far, those of the parent included */
static char version[64];
static __thread uint32_t own_tid;

/* SQL texts that have a number, so that each is put once. A program that writes its values into its SQL has no end of
 * texts: from a certain number on they are put again each time, and made one when the trace is written. */
enum { SQL_BUCKETS = 4096, SQL_MAX = 65536, SQL_BYTES_MAX = 32 << 20 };
typedef struct Sql { struct Sql *next; uint64_t hash; size_t length; uint32_t id; char text[]; } Sql;
static Sql *sql_table[SQL_BUCKETS];
static uint32_t sql_count, sql_next;
static size_t sql_bytes;

uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

Text text_of(const char *string) { return (Text){string, string ? strlen(string) : 0}; }

static void sql_forget(void) {
  for (int i = 0; i < SQL_BUCKETS; i++)
    for (Sql *sql = sql_table[i], *next; sql; sql = next) next = sql->next, free(sql);
  memset(sql_table, 0, sizeof sql_table);
  sql_count = 0, sql_bytes = 0, sql_next = 0;
}

/* Recording cannot go on: the application does. */
static void stop(void) {
  if (header) {
    atomic_fetch_or(&header->bits, 2);
  } else {
    /* There is no header to say so. A renaming takes no blocks, no inode and no descriptor; where another process was first, it is said. */
    char whole[sizeof directory + 8], lost[sizeof directory + 8];
    snprintf(whole, sizeof whole, "%s/whole", directory);
    snprintf(lost, sizeof lost, "%s/lost", directory);
    if (rename(whole, lost)) { /* nobody is left to be told */ }
  }
  atomic_store(&state, 0);
}

/* Whether the descriptor is the spool's still: a program may close what it did not open, and have a file of its own under that
 * number, which must not be written. */
static int is_own(void) {
  struct stat found;
  if (file < 0 || !is_numbered) return file >= 0;
  return !fstat(file, &found) && found.st_dev == file_device && found.st_ino == file_number;
}

/* Takes blocks of the file from the disk. Beyond the size that the process may write (RLIMIT_FSIZE) the system would end it. */
static int take_blocks(uint64_t from, uint64_t bytes) {
  struct rlimit most;
  if (getrlimit(RLIMIT_FSIZE, &most)) return 0;
  if (most.rlim_cur != RLIM_INFINITY && from + bytes > most.rlim_cur) return 0;
  return !posix_fallocate(file, (off_t)from, (off_t)bytes);
}

/* Maps the part of the file that has room for `need` more bytes at `at`. The blocks are taken from the disk first: a
 * write into a mapped hole of a full disk would kill the application. */
static int make_room(uint64_t at, uint64_t need) {
  if (window && at >= window_at && at + need <= window_at + window_bytes) return 1;
  uint64_t from = at / PAGE * PAGE;
  uint64_t room = window_bytes < WINDOW_MIN ? WINDOW_MIN : window_bytes * 2 < WINDOW_MAX ? window_bytes * 2 : WINDOW_MAX;
  uint64_t bytes = (at - from + need + room) / PAGE * PAGE;
  if (!is_own()) {
    file = open(path, O_RDWR | O_CLOEXEC);
    if (!is_own()) return 0;
  }
  if (!take_blocks(from, bytes)) {
    bytes = (at - from + need + PAGE - 1) / PAGE * PAGE;
    if (!take_blocks(from, bytes)) return 0;
  }
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)from);
  if (mapped == MAP_FAILED) return 0;
  if (window) munmap(window, window_bytes);
  window = mapped, window_at = from, window_bytes = bytes;
  return 1;
}

static void begin_spool(void) {
  struct stat own;
  struct timespec wall;
  start_ns = now_ns();
  own_pid = (uint32_t)getpid();
  clock_gettime(CLOCK_REALTIME, &wall);
  snprintf(path, sizeof path, "%s/%u-%llu.spool", directory, own_pid, (unsigned long long)start_ns);
  file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || !take_blocks(0, PAGE)) { stop(); return; }
  is_numbered = !fstat(file, &own);
  if (is_numbered) file_device = own.st_dev, file_number = own.st_ino;
  Header *mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) { stop(); return; }
  header = mapped;
  header->pid = own_pid;
  header->start_ns = start_ns;
  header->start_unix_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
  header->parent_pid = parent_pid, header->parent_start_ns = parent_start_ns, header->inherited = inherited;
  memcpy(header->sqlite, version, sizeof header->sqlite);
  int command = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (command >= 0) {
    if (read(command, header->program, sizeof header->program - 1) < 0) header->program[0] = 0;
    close(command);
  }
  memcpy(header->magic, "FSPOOL1\n", 8);
}

static void before_fork(void) { spool_lock(); }
static void in_parent(void) { spool_unlock(); }

/* A child begins a spool of its own with its first call. The parent's stays open in it only as memory that it never uses. */
static void in_child(void) {
  if (header) {
    parent_pid = own_pid, parent_start_ns = start_ns, inherited = connections;
    munmap(header, PAGE);
    if (window) munmap(window, window_bytes);
    if (is_own()) close(file);
    header = NULL, window = NULL, window_bytes = 0, file = -1;
    sql_forget();
  }
  own_tid = 0;
  spool_unlock();
}

static void set_up(void) {
  const char *name = getenv("FATHOM_TRACE_SPOOL");
  if (!name || !*name || strlen(name) >= sizeof directory) return;
  strcpy(directory, name);
  if (access(directory, W_OK | X_OK)) return;
  pthread_atfork(before_fork, in_parent, in_child);
  atomic_store(&state, 1);
}

int spool_on(void) {
  pthread_once(&once, set_up);
  return atomic_load_explicit(&state, memory_order_relaxed);
}

int spool_begun(void) { return header != NULL; }

const char *spool_directory(void) { return directory; }
void spool_lock(void) { pthread_mutex_lock(&lock); }
void spool_unlock(void) { pthread_mutex_unlock(&lock); }

uint32_t spool_tid(void) {
  if (!own_tid) own_tid = (uint32_t)syscall(SYS_gettid);
  return own_tid;
}

void spool_put(int tag, uint32_t connection, uint64_t start, uint64_t end, const uint64_t *words, int word_count,
               const Text *texts, int text_count) {
  spool_put_of(0, tag, connection, start, end, words, word_count, texts, text_count);
}

void spool_put_of(uint32_t tid, int tag, uint32_t connection, uint64_t start, uint64_t end, const uint64_t *words, int word_count,
                  const Text *texts, int text_count) {
  if (!header && atomic_load(&state)) begin_spool();
  if (!atomic_load(&state)) return;
  if (!tid) tid = spool_tid();
  uint64_t size = RECORD + 8 * (uint64_t)word_count;
  for (int i = 0; i < text_count; i++) size += 8 + (texts[i].length + 7) / 8 * 8;
  uint64_t at = PAGE + atomic_load_explicit(&header->finished, memory_order_relaxed);
  if (!make_room(at, size)) { stop(); return; }
  unsigned char *out = window + (at - window_at);
  uint32_t head[4] = {(uint32_t)tag | (uint32_t)word_count << 8 | (uint32_t)text_count << 16, tid, connection, 0};
  memcpy(out, head, 16);
  memcpy(out + 16, &start, 8);
  memcpy(out + 24, &end, 8);
  out += RECORD;
  memcpy(out, words, 8 * (size_t)word_count);
  out += 8 * word_count;
  for (int i = 0; i < text_count; i++) {
    uint64_t length = texts[i].length;
    memcpy(out, &length, 8);
    if (length) memcpy(out + 8, texts[i].bytes, length);
    out += 8 + (length + 7) / 8 * 8;
  }
  atomic_store_explicit(&header->finished, at - PAGE + size, memory_order_release);
}

uint32_t spool_statement(const char *sql, size_t length) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)sql[i]) * 1099511628211u;
  Sql **bucket = &sql_table[hash % SQL_BUCKETS];
  for (Sql *known = *bucket; known; known = known->next)
    if (known->hash == hash && known->length == length && !memcmp(known->text, sql, length)) return known->id;
  uint32_t id = sql_next++;
  if (sql_count < SQL_MAX && sql_bytes + length < SQL_BYTES_MAX) {
    Sql *fresh = malloc(sizeof *fresh + length);
    if (fresh) {
      *fresh = (Sql){*bucket, hash, length, id};
      memcpy(fresh->text, sql, length);
      *bucket = fresh;
      sql_count++, sql_bytes += length;
    }
  }
  uint64_t now = now_ns(), words[] = {id};
  spool_put(TAG_STATEMENT, 0, now, now, words, 1, &(Text){sql, length}, 1);
  return id;
}

uint32_t spool_connection(void) {
  if (!header && atomic_load(&state)) begin_spool();
  return connections++;
}

void spool_version(const char *text) {
  strncpy(version, text, sizeof version - 1);
  if (header) memcpy(header->sqlite, version, sizeof header->sqlite);
}

__attribute__((destructor)) static void ended(void) {
  if (header) atomic_fetch_or(&header->bits, 1);
}
