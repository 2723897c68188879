//! Newtypes for everything that is "just a number" or "just a string" and must
//! not be mixed up: addresses of a running process against addresses of a file
//! above all.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

text_id!(
    /// The GNU build-id of the program as it was linked (P), in lower-case hex.
    BuildId
);
text_id!(
    /// One process of a program under an agent; chosen by the agent, unique in the fleet.
    RunId
);
text_id!(
    /// One agent; chosen by its operator or made from the host's name.
    AgentId
);
text_id!(
    /// The SHA-256 of bytes that a server keeps, in lower-case hex.
    BlobId
);
text_id!(
    /// What makes two failures the same failure (see [`crate::FailureReport`]).
    FailureSignature
);
number_id!(
    /// One diagnosis: all that is done about one failure signature.
    CampaignId(u64)
);
number_id!(
    /// A source statement of a build. Stable within the build: it is the index
    /// into the build's statement table, which depends on the bitcode alone.
    StatementId(u32)
);
number_id!(
    /// A hook of a tracking plan. Unique within the plan, meaningless outside it.
    SiteId(u32)
);
number_id!(
    /// A thread of one run, numbered in the order in which threads first recorded.
    ThreadIndex(u32)
);
number_id!(
    /// A process of a machine, as its kernel numbers it.
    Pid(i32)
);
number_id!(
    /// A thread of a machine, as its kernel numbers it: the first of a process has the
    /// number of the process, and is not the process.
    Tid(i32)
);
address!(
    /// An address in a process that ran.
    RuntimeAddress
);
address!(
    /// An address as a file's symbols and debug info state it.
    StaticAddress
);
