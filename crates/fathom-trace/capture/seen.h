/* What a process is and what it loaded: for the message where no call of SQLite was seen. */
#ifndef FATHOM_SEEN_H
#define FATHOM_SEEN_H

/* Appends a line to the file `seen` of the spool's directory: "program", "library", or "apart" (a
 * library that was opened in a name space of its own), a tab, and a path. */
void seen(const char *what, const char *path);

#endif
