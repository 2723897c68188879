//! The tests of this crate from outside, in one binary: linking is what costs.

mod chaos;
mod corpus;
mod first_light;
mod shared_objects;
mod tidy;
