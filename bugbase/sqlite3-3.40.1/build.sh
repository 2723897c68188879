#!/usr/bin/env bash
# Run in SQLite's tree by real-programs.sh: the application with the amalgamation, as
# on a system whose C library has no recursive mutexes.
[ -e sqlite3.c ] || make sqlite3.c
cp "$(dirname "$recipe")/clerks.c" .
$CC -O2 -DSQLITE_THREADSAFE=1 -DSQLITE_HOMEGROWN_RECURSIVE_MUTEX=1 clerks.c sqlite3.c -lpthread -ldl -lm -o clerks
