CREATE TABLE builds (
    build TEXT PRIMARY KEY,
    runs INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    untracked_runs INTEGER NOT NULL,
    untracked_failures INTEGER NOT NULL
) STRICT;
CREATE TABLE campaigns (
    id INTEGER PRIMARY KEY,
    build TEXT NOT NULL,
    signature TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL
) STRICT;
CREATE INDEX campaigns_of_build ON campaigns (build, id);
-- `role` is null until the engine has filed the run.
CREATE TABLE runs (
    arrival INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    build TEXT NOT NULL,
    campaign INTEGER,
    iteration INTEGER,
    role TEXT,
    record BLOB NOT NULL
) STRICT;
CREATE INDEX runs_pending ON runs (arrival) WHERE role IS NULL;
CREATE INDEX runs_counted ON runs (campaign, iteration, arrival)
    WHERE role IN ('failing', 'successful');
CREATE TABLE slices (
    campaign INTEGER PRIMARY KEY,
    slice TEXT NOT NULL
) STRICT;
CREATE TABLE iterations (
    campaign INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    plan TEXT NOT NULL,
    placement TEXT NOT NULL,
    patch_version INTEGER NOT NULL UNIQUE,
    patch TEXT NOT NULL,
    full_binary TEXT NOT NULL,
    PRIMARY KEY (campaign, iteration)
) STRICT;
CREATE TABLE sketches (
    campaign INTEGER NOT NULL,
    version INTEGER NOT NULL,
    sketch TEXT NOT NULL,
    PRIMARY KEY (campaign, version)
) STRICT;
PRAGMA user_version = 1;
