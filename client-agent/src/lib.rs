//! Supervises programs, applies patches, collects runs, uploads.
