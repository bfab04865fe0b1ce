/* Incremental blobs in every way in which they end: written in a transaction and outside of one,
 * reopened, read, refused (no such row, beyond the end, opened for reading), expired because its
 * row changed, and left open when the connection is closed. Prints the codes. */
#include <stdio.h>
#include <stdlib.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_blob sqlite3_blob;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_close(sqlite3 *);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
int sqlite3_blob_open(sqlite3 *, const char *, const char *, const char *, long long, int, sqlite3_blob **);
int sqlite3_blob_reopen(sqlite3_blob *, long long);
int sqlite3_blob_read(sqlite3_blob *, void *, int, int);
int sqlite3_blob_write(sqlite3_blob *, const void *, int, int);
int sqlite3_blob_bytes(sqlite3_blob *);
int sqlite3_blob_close(sqlite3_blob *);

int main(void) {
  sqlite3 *db;
  sqlite3_blob *blob, *other;
  char read[64];
  if (sqlite3_open("blobs.db", &db)) return 1;
  if (sqlite3_exec(db, "CREATE TABLE files(id INTEGER PRIMARY KEY, body BLOB);"
                       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8)"
                       "INSERT INTO files SELECT i, zeroblob(10000 * i) FROM n;", 0, 0, 0)) return 1;
#define SAY(call) printf("%d ", call)
  SAY(sqlite3_blob_open(db, "main", "files", "body", 3, 1, &blob));
  SAY(sqlite3_blob_write(blob, "Kunigunde", 9, 0));
  SAY(sqlite3_blob_write(blob, "Brunhilde", 9, 29991));
  SAY(sqlite3_blob_write(blob, "too far", 7, 29999));
  SAY(sqlite3_blob_write(blob, "nowhere", 7, -1));
  SAY(sqlite3_blob_write(blob, "negative", -8, 0));
  SAY(sqlite3_blob_reopen(blob, 4));
  SAY(sqlite3_blob_write(blob, "Zacharias", 9, 20000));
  SAY(sqlite3_blob_read(blob, read, 64, 19990));
  SAY(sqlite3_blob_reopen(blob, 99));
  SAY(sqlite3_blob_read(blob, read, 64, 0));
  SAY(sqlite3_blob_close(blob));
  puts("");
  SAY(sqlite3_exec(db, "BEGIN", 0, 0, 0));
  SAY(sqlite3_blob_open(db, 0, "files", "body", 5, 1, &blob));
  SAY(sqlite3_blob_write(blob, "in a transaction", 16, 100));
  SAY(sqlite3_blob_close(blob));
  SAY(sqlite3_exec(db, "COMMIT", 0, 0, 0));
  SAY(sqlite3_exec(db, "BEGIN", 0, 0, 0));
  SAY(sqlite3_blob_open(db, "main", "files", "body", 6, 1, &blob));
  SAY(sqlite3_blob_write(blob, "taken back", 10, 100));
  SAY(sqlite3_blob_close(blob));
  SAY(sqlite3_exec(db, "ROLLBACK", 0, 0, 0));
  puts("");
  SAY(sqlite3_blob_open(db, "main", "files", "body", 7, 0, &blob));
  SAY(sqlite3_blob_write(blob, "read only", 9, 0));
  SAY(sqlite3_blob_close(blob));
  SAY(sqlite3_blob_open(db, "main", "files", "body", 77, 0, &blob));
  SAY(sqlite3_blob_open(db, "main", "missing", "body", 7, 0, &blob));
  SAY(sqlite3_blob_open(db, "main", "files", "id", 7, 1, &blob));
  SAY(sqlite3_blob_open(db, "main", "files", "body", 8, 1, &blob));
  SAY(sqlite3_exec(db, "UPDATE files SET body = zeroblob(50) WHERE id = 8", 0, 0, 0));
  SAY(sqlite3_blob_write(blob, "expired", 7, 0));
  SAY(sqlite3_blob_close(blob));
  puts("");
  SAY(sqlite3_blob_open(db, "main", "files", "body", 1, 1, &blob));
  SAY(sqlite3_blob_open(db, "main", "files", "body", 2, 1, &other));
  SAY(sqlite3_blob_write(other, "second", 6, 0));
  SAY(sqlite3_blob_write(blob, "first", 5, 9995));
  SAY(sqlite3_blob_close(other));
  SAY(sqlite3_close(db));
  SAY(sqlite3_blob_close(blob));
  SAY(sqlite3_close(db));
  puts("");
  return 0;
}
