#define _GNU_SOURCE
#include "seen.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spool.h"

void seen(const char *what, const char *path) {
  char line[PATH_MAX + 32], file[PATH_MAX];
  int length = snprintf(line, sizeof line, "%s\t%s\n", what, path);
  if (length <= 0 || (size_t)length >= sizeof line || memchr(path, '\n', strlen(path))) return;
  snprintf(file, sizeof file, "%s/seen", spool_directory());
  int to = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (to < 0) return;
  /* One write, so that lines of several processes stay whole. */
  if (write(to, line, (size_t)length) < 0) { /* Only a message is less precise. */ }
  close(to);
}

static int tell(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  if (info->dlpi_name && info->dlpi_name[0] == '/') seen("library", info->dlpi_name);
  return 0;
}

__attribute__((constructor)) static void begins(void) {
  char path[PATH_MAX];
  if (!spool_on()) return;
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  seen("program", path);
}

/* Of a process that called no SQLite: its libraries, one of which may hold one of its own. */
__attribute__((destructor)) static void ends(void) {
  if (spool_on() && !spool_begun()) dl_iterate_phdr(tell, NULL);
}
