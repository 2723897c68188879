-- Several plans an iteration.
ALTER TABLE runs ADD COLUMN plan INTEGER NOT NULL DEFAULT 0;
ALTER TABLE iterations RENAME TO single_plan_iterations;
CREATE TABLE iterations (
    campaign INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    plan_number INTEGER NOT NULL,
    plan TEXT NOT NULL,
    placement TEXT NOT NULL,
    patch_version INTEGER NOT NULL UNIQUE,
    patch TEXT NOT NULL,
    full_binary TEXT NOT NULL,
    PRIMARY KEY (campaign, iteration, plan_number)
) STRICT;
INSERT INTO iterations SELECT campaign, iteration, 0, plan, placement, patch_version, patch,
    full_binary FROM single_plan_iterations;
DROP TABLE single_plan_iterations;
PRAGMA user_version = 2;
