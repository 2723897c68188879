CREATE TABLE builds (
    build TEXT PRIMARY KEY,
    runs BIGINT NOT NULL DEFAULT 0,
    failures BIGINT NOT NULL DEFAULT 0,
    untracked_runs BIGINT NOT NULL DEFAULT 0,
    untracked_failures BIGINT NOT NULL DEFAULT 0,
    holder TEXT
);
CREATE TABLE campaigns (
    id BIGINT PRIMARY KEY,
    build TEXT NOT NULL,
    signature TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    revision BIGINT NOT NULL,
    preparing BIGINT NOT NULL,
    live_iteration BIGINT,
    holder TEXT
);
CREATE INDEX campaigns_of_build ON campaigns (build, id);
CREATE TABLE runs (
    arrival BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    build TEXT NOT NULL,
    campaign BIGINT,
    iteration BIGINT,
    plan BIGINT NOT NULL,
    role TEXT,
    received TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    record BYTEA NOT NULL
);
-- Records are packed already.
ALTER TABLE runs ALTER COLUMN record SET STORAGE EXTERNAL;
CREATE INDEX runs_pending ON runs (arrival) WHERE role IS NULL;
CREATE INDEX runs_pending_of_build ON runs (build) WHERE role IS NULL;
CREATE INDEX runs_counted ON runs (campaign, iteration, arrival)
    WHERE role IN ('failing', 'successful');
CREATE INDEX runs_kept ON runs (received) WHERE LENGTH(record) > 0;
CREATE TABLE slices (campaign BIGINT PRIMARY KEY, slice TEXT NOT NULL);
CREATE TABLE iterations (
    campaign BIGINT NOT NULL,
    iteration BIGINT NOT NULL,
    plan_number BIGINT NOT NULL,
    plan TEXT NOT NULL,
    placement TEXT NOT NULL,
    patch_version BIGINT NOT NULL UNIQUE,
    patch TEXT NOT NULL,
    full_binary TEXT NOT NULL,
    PRIMARY KEY (campaign, iteration, plan_number)
);
CREATE TABLE sketches (
    campaign BIGINT NOT NULL,
    version BIGINT NOT NULL,
    sketch TEXT NOT NULL,
    PRIMARY KEY (campaign, version)
);
CREATE TABLE servers (holder TEXT PRIMARY KEY, until TIMESTAMPTZ NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counters VALUES ('patch_version', 0);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO failsketch_schema VALUES (1);
