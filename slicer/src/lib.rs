//! LLVM bitcode to backward slices and tracking plans.
