/* SQLite's own functions, found at run time: the library must load into programs that have no SQLite at all. */
#ifndef FATHOM_REAL_H
#define FATHOM_REAL_H

#define SQLITE_API __attribute__((visibility("default")))
#define SQLITE_ENABLE_SESSION 1
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include "sqlite3.h"

/* Those that every captured library has. */
#define REAL_FUNCTIONS(F) \
  F(open) F(open16) F(open_v2) F(close) F(close_v2) F(exec) F(busy_timeout) F(wal_autocheckpoint) F(wal_checkpoint) \
  F(wal_checkpoint_v2) F(db_config) F(errmsg) F(extended_errcode) F(errstr) F(changes) F(get_autocommit) F(db_filename) \
  F(db_handle) F(db_mutex) F(mutex_enter) F(mutex_leave) F(mprintf) F(free) F(libversion) F(sql) F(stmt_readonly) F(expanded_sql) \
  F(prepare) F(prepare_v2) F(prepare_v3) F(prepare16) F(prepare16_v2) F(prepare16_v3) F(step) F(reset) F(finalize) \
  F(bind_blob) F(bind_blob64) F(bind_double) F(bind_int) F(bind_int64) F(bind_null) F(bind_text) F(bind_text16) F(bind_text64) \
  F(bind_value) F(bind_pointer) F(bind_zeroblob) F(bind_zeroblob64) F(bind_parameter_count) F(clear_bindings) \
  F(value_type) F(value_int64) F(value_double) F(value_text) F(value_blob) F(value_bytes) \
  F(column_count) F(column_text) F(column_name) F(column_type) F(backup_init) F(backup_step) F(backup_finish) \
  F(blob_open) F(blob_reopen) F(blob_read) F(blob_write) F(blob_close) F(blob_bytes) F(get_table) F(free_table) F(realloc64) \
  F(table_column_metadata) F(declare_vtab) F(drop_modules) F(serialize) F(overload_function) F(rtree_geometry_callback) \
  F(rtree_query_callback) F(deserialize) F(load_extension) F(create_function) F(create_function16) F(create_function_v2) \
  F(create_window_function) F(create_collation) F(create_collation_v2) F(create_collation16) F(create_module) F(create_module_v2) \
  F(trace_v2) F(auto_extension) F(file_control)

#define REAL_DECLARE(name) __typeof__(sqlite3_##name) *name;
struct Real { REAL_FUNCTIONS(REAL_DECLARE) };
#undef REAL_DECLARE

extern struct Real real;

/* Those of the session extension, in libraries that are built with it. */
#define SESSION_FUNCTIONS(F) F(attach) F(diff) F(changeset) F(patchset) F(changeset_strm) F(patchset_strm)
#define CHANGESET_FUNCTIONS(F) F(apply) F(apply_v2) F(apply_strm) F(apply_v2_strm)
#define REAL_DECLARE(name) __typeof__(sqlite3session_##name) *name;
struct RealSession { SESSION_FUNCTIONS(REAL_DECLARE) };
#undef REAL_DECLARE
#define REAL_DECLARE(name) __typeof__(sqlite3changeset_##name) *name;
struct RealChangeset { CHANGESET_FUNCTIONS(REAL_DECLARE) };
#undef REAL_DECLARE

extern struct RealSession real_session;
extern struct RealChangeset real_changeset;

/* Calls that SQLite makes on itself while one of ours runs are not the application's. */
extern __thread int inside;

#endif
