//! What a death leaves behind, in programs of every kind.

mod crash_capture;
mod last_words;
mod shared_objects;
