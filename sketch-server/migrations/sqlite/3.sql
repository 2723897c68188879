-- Several servers, batches and retention. A record that retention dropped is
-- empty: its id still keeps the run from being counted again.
ALTER TABLE runs ADD COLUMN received INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET received = unixepoch();
CREATE INDEX runs_kept ON runs (received) WHERE LENGTH(record) > 0;
ALTER TABLE campaigns ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
ALTER TABLE campaigns ADD COLUMN preparing INTEGER NOT NULL DEFAULT 0;
UPDATE campaigns SET preparing = 1 WHERE state ->> 'state' = 'preparing';
ALTER TABLE campaigns ADD COLUMN holder TEXT;
ALTER TABLE campaigns ADD COLUMN live_iteration INTEGER;
UPDATE campaigns SET live_iteration = state ->> 'iteration'
    WHERE state ->> 'state' IN ('preparing', 'tracking');
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counters SELECT 'patch_version', COALESCE(MAX(patch_version), 0) FROM iterations;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
PRAGMA user_version = 3;
