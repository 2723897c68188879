//! What takes long and rarely catches anything: `./dev soak` runs it, `./dev test`
//! does not.

mod full_loop;
