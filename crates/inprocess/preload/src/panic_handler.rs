//! A shared object must have a panic handler even where nothing panics. Where tests are
//! compiled, the standard library has one.
#![cfg(not(test))]

use core::panic::PanicInfo;
use inprocess_base::sys;

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    sys::exit_group(127)
}
