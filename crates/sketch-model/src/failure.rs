//! What an agent knows of a failure: addresses, not yet statements.
//!
//! Symbolizing needs the build's debug info, which production machines do not
//! have; the server does it when it needs to.

use crate::{BuildId, Gap, RuntimeAddress, Schema, StaticAddress};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the program failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FailureKind {
    /// Death by a signal; the name without doubt ("SIGSEGV").
    Signal { number: i32, name: String },
    /// An exit status that the operator declared a failure.
    ExitCode(i32),
    /// It stopped making progress; every thread's stack is in the report.
    Hang,
    /// It ended well by its own account, and the operator's checker disagreed
    /// with this exit status.
    Check(i32),
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Signal { name, .. } => f.write_str(name),
            FailureKind::ExitCode(code) => write!(f, "exit code {code}"),
            FailureKind::Hang => f.write_str("hang"),
            FailureKind::Check(code) => write!(f, "checker's exit code {code}"),
        }
    }
}

/// A file mapped executable into the process, as it was when it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    pub start: RuntimeAddress,
    pub end: RuntimeAddress,
    pub file_offset: u64,
    pub path: String,
    /// `None` if the file has none or could not be read.
    pub build_id: Option<BuildId>,
}

/// One frame of a stack, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFrame {
    /// Where to look the frame up: the failing instruction itself, or one byte
    /// before a return address, so that it lies within the call.
    pub lookup: StaticAddress,
    /// The path of the module that holds it, as mapped.
    pub module: String,
}

/// The stack of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStack {
    pub tid: i32,
    pub frames: Vec<StackFrame>,
    /// Why the stack ends before its root, if it does.
    pub truncated: Option<String>,
    /// What the thread was waiting for, in words, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// What a program that aborted had said about why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWords {
    /// The C library's message: a failed assertion, a broken heap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The C++ exception that was in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<ThrownException>,
}

/// A C++ exception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrownException {
    /// Its type, as the C++ ABI spells it: "St13runtime_error".
    pub type_name: String,
    /// The text it was made with, where its class is known to keep one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A failure of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    #[serde(default)]
    pub schema: Schema,
    pub kind: FailureKind,
    /// The address whose access faulted, where the signal carries one.
    pub fault_address: Option<RuntimeAddress>,
    /// What the program said when it aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<LastWords>,
    /// The thread that failed comes first.
    pub threads: Vec<ThreadStack>,
    pub mappings: Vec<Mapping>,
    /// What could not be captured.
    pub gaps: Vec<Gap>,
}
