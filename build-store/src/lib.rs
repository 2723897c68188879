//! Registered builds on disk: embedded bitcode, proof by recompilation, relinking.
