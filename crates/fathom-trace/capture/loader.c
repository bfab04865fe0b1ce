/* Stands before the dynamic linker's functions: programs that open libsqlite3, or a library that
 * needs it, while they run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "preload.h"
#include "seen.h"

#ifdef __GLIBC__

typedef void *(*Opener)(const char *, int);
typedef void *(*SpaceOpener)(Lmid_t, const char *, int);

/* What the system has under the name of one of ours. */
static void *system_s(const char *name, void **known) {
  void *found = __atomic_load_n(known, __ATOMIC_ACQUIRE);
  if (!found) {
    Lookup look_up = real_dlsym();
    found = look_up ? look_up(RTLD_NEXT, name) : NULL;
    __atomic_store_n(known, found, __ATOMIC_RELEASE);
  }
  return found;
}

/* A library that is opened with RTLD_DEEPBIND (PHP opens its extensions so) looks for names in
 * itself and in what it needs before it looks where LD_PRELOAD put us: its calls of SQLite would
 * pass by. Without the flag it finds what every other library of the program finds. The call is
 * passed on by a jump (see dlsym): where the linker looks for the file depends on who calls. */
__attribute__((visibility("default"))) void *dlopen(const char *file, int flags) {
  static void *known;
  Opener open = (Opener)system_s("dlopen", &known);
  if (!open) return NULL;
  if ((flags & RTLD_DEEPBIND) && spool_on()) flags &= ~RTLD_DEEPBIND;
  return open(file, flags);
}

/* In a name space of its own a library gets its own copy of all that it needs, SQLite too, and
 * nothing can be put before that: it is noted, so that the user can be told. */
__attribute__((visibility("default"))) void *dlmopen(Lmid_t space, const char *file, int flags) {
  static void *known;
  SpaceOpener open = (SpaceOpener)system_s("dlmopen", &known);
  if (!open) return NULL;
  if (spool_on()) {
    if (space == LM_ID_BASE) flags &= ~RTLD_DEEPBIND;
    else if (file) seen("apart", file);
  }
  return open(space, file, flags);
}

#endif
