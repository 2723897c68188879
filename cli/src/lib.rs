//! The failsketch command.
