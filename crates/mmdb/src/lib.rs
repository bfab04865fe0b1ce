//! An embedded main-memory DBMS with parallel differential logging.
