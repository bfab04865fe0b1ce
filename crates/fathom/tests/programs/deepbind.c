/* As PHP opens its extensions: a library that needs SQLite, with RTLD_DEEPBIND; with the word
 * `apart`, in a name space of its own. The same source is the library (-DLIBRARY) and the program.
 * */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#ifdef LIBRARY
typedef struct sqlite3 sqlite3;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);

int work(void) {
  sqlite3 *db;
  int code = sqlite3_open("deep.db", &db);
  if (!code) code = sqlite3_exec(db, "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)", 0, 0, 0);
  sqlite3_close(db);
  return code;
}
#else
int main(int words, char **argv) {
  const char *file = "./libdeep.so";
  void *library = words > 1 ? dlmopen(LM_ID_NEWLM, file, RTLD_NOW) : dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  int (*work)(void) = library ? (int (*)(void))dlsym(library, "work") : 0;
  if (!work) { puts(dlerror()); return 1; }
  (void)argv;
  return work();
}
#endif
