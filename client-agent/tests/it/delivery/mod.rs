//! Records on their way to the server.

mod encrypted;
mod killed_daemon;
mod long_poll;
mod outbox;
mod private_files;
