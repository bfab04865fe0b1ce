/* sqlite3_get_table as SQLite's own, on our sqlite3_exec: its statements are the application's. */
#define _GNU_SOURCE
#include <string.h>

#include "preload.h"

typedef struct {
  char **cells; /* the first holds their number, itself included, which sqlite3_free_table reads */
  size_t used, room;
  int rows, columns, code;
  char *message;
} Table;

static int add(Table *table, const char *text) {
  if (table->used == table->room) {
    size_t room = table->room * 2;
    char **grown = real.realloc64(table->cells, room * sizeof *grown);
    if (!grown) return 0;
    table->cells = grown, table->room = room;
  }
  char *copy = NULL;
  if (text && !(copy = real.mprintf("%s", text))) return 0;
  table->cells[table->used++] = copy;
  return 1;
}

static int row(void *argument, int columns, char **values, char **names) {
  Table *table = argument;
  int is_kept = 1;
  if (!table->rows) {
    table->columns = columns;
    for (int i = 0; is_kept && i < columns; i++) is_kept = add(table, names[i]);
  } else if (table->columns != columns) {
    table->message = real.mprintf("sqlite3_get_table() called with two or more incompatible queries");
    table->code = SQLITE_ERROR;
    return 1;
  }
  for (int i = 0; is_kept && values && i < columns; i++) is_kept = add(table, values[i]);
  if (!is_kept) table->code = SQLITE_NOMEM;
  table->rows += values != NULL;
  return !is_kept;
}

SQLITE_API int sqlite3_get_table(sqlite3 *db, const char *sql, char ***out, int *rows, int *columns, char **message) {
  int result, is_recorded = recorded();
  NEED(get_table);
  if (!is_recorded || !db || !out || !real.realloc64) return WITHIN(real.get_table(db, sql, out, rows, columns, message));
  Table table = {.used = 1, .room = 20, .code = SQLITE_OK};
  *out = NULL;
  if (rows) *rows = 0;
  if (columns) *columns = 0;
  if (message) *message = NULL;
  table.cells = real.realloc64(NULL, table.room * sizeof *table.cells);
  if (!table.cells) return SQLITE_NOMEM;
  table.cells[0] = NULL;
  result = sqlite3_exec(db, sql, row, &table, message);
  table.cells[0] = (char *)(intptr_t)table.used;
  if (table.code != SQLITE_OK) {
    if (message) {
      real.free(*message);
      *message = table.message, table.message = NULL;
    }
    result = table.code;
  }
  real.free(table.message);
  if (result != SQLITE_OK) {
    real.free_table(table.cells + 1);
    return result;
  }
  *out = table.cells + 1;
  if (rows) *rows = table.rows;
  if (columns) *columns = table.columns;
  return result;
}
