//! What library functions do with the functions and values they are given.
//!
//! A library's body is not in the bitcode, so what it calls back must be said:
//! which operand is the routine, where each of the routine's parameters comes
//! from, and who runs it. A registration counts as a call of the routine. What
//! else slices depend on is [`effects`]; what synchronises is in the table of
//! `crates/sync-functions`, and [`sync_op`] says which word of the wire it is.
//!
//! `pthread_cleanup_push` is not here: in C it expands to a plain call through a
//! local, in C++ to a destructor that calls through a field, and both are
//! followed as such. Deliberately absent: lambdas that are handed to
//! `std::call_once` and `std::async`; functions that are named there are known.

use sketch_model::SyncOp;
use sync_functions::Operation;

/// Who runs a routine that was handed to a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// A new thread.
    Thread,
    /// New threads and the calling one.
    Team,
    /// Whichever thread a signal interrupts.
    Handler,
    /// The calling thread, now or later.
    Caller,
}

/// Where the routine is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    Operand(usize),
    /// In the first field of the named record that the operand points to.
    FirstField(usize, &'static str),
    /// `_M_run` of the `std::thread::_State_impl` that the caller made.
    ThreadState,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Callback {
    pub name: &'static str,
    pub routine: Routine,
    /// Pairs of a parameter of the routine and the operand it comes from.
    passes: &'static [(u32, u32)],
    /// From this parameter on, operands are handed over in order from the second.
    rest: Option<(u32, u32)>,
    pub runs: Runs,
    /// The routine's type in LLVM's notation; empty if it is always named.
    pub signature: &'static str,
    /// Another type that it may have.
    pub or_signature: &'static str,
}

impl Callback {
    /// The operand of the registering call that becomes a parameter.
    pub fn operand_for(&self, parameter: u32) -> Option<u32> {
        let named = self.passes.iter().find(|(to, _)| *to == parameter);
        let rest = self.rest.filter(|(first, _)| parameter >= *first);
        named
            .map(|(_, from)| *from)
            .or_else(|| rest.map(|(first, from)| from + parameter - first))
    }

    pub fn starts_thread(&self) -> bool {
        matches!(self.runs, Runs::Thread | Runs::Team)
    }
}

const fn callback(
    name: &'static str,
    routine: usize,
    passes: &'static [(u32, u32)],
    runs: Runs,
    signature: &'static str,
) -> Callback {
    Callback {
        name,
        routine: Routine::Operand(routine),
        passes,
        rest: None,
        runs,
        signature,
        or_signature: "",
    }
}

const POINTER: &str = "ptr (ptr)";
const COMPARE: &str = "i32 (ptr, ptr)";
const PLAIN: &str = "void ()";
const TAKES: &str = "void (ptr)";
const HANDLER: &str = "void (i32)";

/// `std::thread`'s constructor hands its state to this.
const START_THREAD: &str = "_ZNSt6thread15_M_start_thread";

static CALLBACKS: [Callback; 31] = [
    callback("pthread_create", 2, &[(0, 3)], Runs::Thread, POINTER),
    callback("thrd_create", 1, &[(0, 2)], Runs::Thread, "i32 (ptr)"),
    Callback {
        routine: Routine::ThreadState,
        ..callback(START_THREAD, 0, &[(0, 1)], Runs::Thread, "")
    },
    Callback {
        rest: Some((2, 3)),
        ..callback("__kmpc_fork_call", 2, &[], Runs::Team, "")
    },
    Callback {
        rest: Some((2, 3)),
        ..callback("__kmpc_fork_teams", 2, &[], Runs::Team, "")
    },
    callback("__kmpc_omp_task_alloc", 5, &[], Runs::Team, ""),
    callback("signal", 1, &[(0, 0)], Runs::Handler, HANDLER),
    callback("bsd_signal", 1, &[(0, 0)], Runs::Handler, HANDLER),
    callback("__sysv_signal", 1, &[(0, 0)], Runs::Handler, HANDLER),
    callback("sigset", 1, &[(0, 0)], Runs::Handler, HANDLER),
    Callback {
        routine: Routine::FirstField(1, "sigaction"),
        or_signature: "void (i32, ptr, ptr)",
        ..callback("sigaction", 1, &[(0, 0)], Runs::Handler, HANDLER)
    },
    callback("qsort", 3, &[(0, 0), (1, 0)], Runs::Caller, COMPARE),
    callback(
        "qsort_r",
        3,
        &[(0, 0), (1, 0), (2, 4)],
        Runs::Caller,
        "i32 (ptr, ptr, ptr)",
    ),
    callback("bsearch", 4, &[(0, 0), (1, 1)], Runs::Caller, COMPARE),
    callback("lfind", 4, &[(0, 0), (1, 1)], Runs::Caller, COMPARE),
    callback("lsearch", 4, &[(0, 0), (1, 1)], Runs::Caller, COMPARE),
    callback("tsearch", 2, &[(0, 0), (1, 1)], Runs::Caller, COMPARE),
    callback("tfind", 2, &[(0, 0), (1, 1)], Runs::Caller, COMPARE),
    callback("pthread_once", 1, &[], Runs::Caller, PLAIN),
    callback("call_once", 1, &[], Runs::Caller, PLAIN),
    callback("atexit", 0, &[], Runs::Caller, PLAIN),
    callback("at_quick_exit", 0, &[], Runs::Caller, PLAIN),
    callback("on_exit", 0, &[(1, 1)], Runs::Caller, "void (i32, ptr)"),
    callback("__cxa_atexit", 0, &[(0, 1)], Runs::Caller, TAKES),
    callback("__cxa_thread_atexit", 0, &[(0, 1)], Runs::Caller, TAKES),
    callback("pthread_atfork", 0, &[], Runs::Caller, PLAIN),
    callback("pthread_atfork", 1, &[], Runs::Caller, PLAIN),
    callback("pthread_atfork", 2, &[], Runs::Caller, PLAIN),
    callback("pthread_key_create", 1, &[], Runs::Caller, TAKES),
    callback("tss_create", 1, &[], Runs::Caller, TAKES),
    callback("_pthread_cleanup_push", 1, &[(0, 2)], Runs::Caller, TAKES),
];

/// Templates of the C++ library that run a callable with arguments. What they do
/// inside is in the bitcode, but shared by all callables of one type; a function
/// that is named in the call is therefore taken from there. The arguments are
/// references to the values. By the position of the callable.
static LAUNCHES: [Callback; 2] = [
    Callback {
        rest: Some((0, 2)),
        ..callback("launch", 1, &[], Runs::Thread, "")
    },
    Callback {
        rest: Some((0, 3)),
        ..callback("launch", 2, &[], Runs::Thread, "")
    },
];
static CALLS_ONCE: Callback = Callback {
    rest: Some((0, 2)),
    ..callback("std::call_once", 1, &[], Runs::Caller, "")
};

/// How a template of the C++ library runs the callable at a position, if it does.
pub(crate) fn launch(function: &str, position: usize) -> Option<&'static Callback> {
    let starts = [
        "_ZNSt6threadC1I",
        "_ZNSt6threadC2I",
        "_ZNSt7jthreadC1I",
        "_ZNSt7jthreadC2I",
        "_ZSt5asyncI",
    ];
    if starts.iter().any(|name| function.starts_with(name)) {
        return LAUNCHES.get(position.checked_sub(1)?);
    }
    (function.starts_with("_ZSt9call_onceI") && position == 1).then_some(&CALLS_ONCE)
}

/// Whether a routine gets references where it takes values.
pub(crate) fn by_reference(callback: &Callback) -> bool {
    callback.name == "launch" || callback.name == CALLS_ONCE.name
}

/// Setting a value for a key is what hands it to the key's destructor.
pub(crate) static SETS_KEY: Callback = callback("", 0, &[(0, 1)], Runs::Caller, TAKES);

/// Calls that make a key with a destructor, set its value, and ask for it.
pub(crate) const KEY_CREATORS: [&str; 2] = ["pthread_key_create", "tss_create"];
pub(crate) const KEY_SETTERS: [&str; 2] = ["pthread_setspecific", "tss_set"];
pub(crate) const KEY_GETTERS: [&str; 2] = ["pthread_getspecific", "tss_get"];
/// Calls that end a thread with a result, which is their first operand.
pub(crate) const THREAD_ENDS: [&str; 2] = ["pthread_exit", "thrd_exit"];
pub(crate) const JUMP_TARGETS: [&str; 4] = ["_setjmp", "setjmp", "__sigsetjmp", "sigsetjmp"];
pub(crate) const JUMPS: [&str; 4] = ["longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"];
/// `operator new(unsigned long)`.
pub(crate) const NEW: &str = "_Znwm";
pub(crate) const THROW: &str = "__cxa_throw";
pub(crate) const RETHROW: &str = "__cxa_rethrow";
pub(crate) const BEGIN_CATCH: &str = "__cxa_begin_catch";

/// The place of a callback in the table; one past the end for [`SETS_KEY`].
pub(crate) fn number_of_callback(callback: &Callback) -> usize {
    let position = CALLBACKS.iter().position(|known| known == callback);
    position.unwrap_or(CALLBACKS.len())
}

pub(crate) fn numbered_callback(number: usize) -> Option<&'static Callback> {
    let end = (number == CALLBACKS.len()).then_some(&SETS_KEY);
    CALLBACKS.get(number).or(end)
}

/// Whether a function gives back the block that its first operand points to: what lay
/// there is gone.
pub(crate) fn frees(function: &str) -> bool {
    let sized = [
        "_ZdlPvm",
        "_ZdaPvm",
        "_ZdlPvSt11align_val_t",
        "_ZdlPvmSt11align_val_t",
    ];
    matches!(
        function,
        "free" | "cfree" | "realloc" | "reallocarray" | "_ZdlPv" | "_ZdaPv"
    ) || sized.contains(&function)
}

/// What a library function does, as far as slices depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    writes: Writes,
    /// It returns a pointer into what its first operand points to.
    pub returns_first: bool,
    /// It copies what its second operand points to.
    pub copies: bool,
    /// It does not come back to its caller.
    pub ends: bool,
}

/// The operands through which a function stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    Through(&'static [u32]),
    /// This one and all that follow.
    From(u32),
}

impl Effects {
    /// Whether the function stores where its operand points.
    pub fn write_into(&self, operand: u32) -> bool {
        match self.writes {
            Writes::Through(operands) => operands.contains(&operand),
            Writes::From(first) => operand >= first,
        }
    }
}

const NOTHING: Effects = writes(&[]);
const FILLS: Effects = writes(&[0]);
const ENDS: Effects = Effects {
    ends: true,
    ..NOTHING
};
const COPIES: Effects = Effects {
    copies: true,
    ..returns_first(FILLS)
};

const fn writes(operands: &'static [u32]) -> Effects {
    Effects {
        writes: Writes::Through(operands),
        returns_first: false,
        copies: false,
        ends: false,
    }
}

const fn writes_from(first: u32) -> Effects {
    Effects {
        writes: Writes::From(first),
        ..NOTHING
    }
}

const fn returns_first(effects: Effects) -> Effects {
    Effects {
        returns_first: true,
        ..effects
    }
}

/// The table: each function stands in one row, which the compiler checks. Stores
/// that only keep books (of locks, of streams) do not count.
pub(crate) fn effects(function: &str) -> Effects {
    let function = function.strip_prefix("__isoc99_").unwrap_or(function);
    let function = function.strip_prefix("__isoc23_").unwrap_or(function);
    match function {
        "memcpy" | "memmove" | "mempcpy" | "__memcpy_chk" | "__memmove_chk" => COPIES,
        "memset" | "strcpy" | "strncpy" | "stpcpy" | "strcat" | "strncat" | "fgets"
        | "__strcpy_chk" => returns_first(FILLS),
        "strchr" | "strrchr" | "strstr" | "memchr" | "strpbrk" | "strtok" | "realloc" | "index" => {
            returns_first(NOTHING)
        }
        "memccpy" | "bzero" | "stpncpy" | "sprintf" | "snprintf" | "vsprintf" | "vsnprintf"
        | "strlcpy" | "strlcat" | "__memset_chk" | "__strncpy_chk" | "__strcat_chk"
        | "__sprintf_chk" | "__snprintf_chk" | "__vsnprintf_chk" | "fread" | "getcwd"
        | "gethostname" | "gettimeofday" | "time" | "pipe" | "pipe2" | "wait" | "asprintf"
        | "vasprintf" | "posix_memalign" | "qsort" | "uname" | "sysinfo" | "getrandom"
        | "getentropy" | "sem_init" | "pthread_mutex_init" | "pthread_cond_init" => FILLS,
        "read" | "pread" | "pread64" | "recv" | "clock_gettime" | "stat" | "fstat" | "lstat"
        | "stat64" | "fstat64" | "waitpid" | "strtol" | "strtoul" | "strtoll" | "strtoull"
        | "strtod" | "realpath" | "localtime_r" | "gmtime_r" | "rand_r" | "readlink"
        | "getrusage" | "sigaction" | "inet_aton" | "readv" | "recvmsg" | "sem_getvalue" => {
            writes(&[1])
        }
        "scanf" | "vscanf" => writes_from(1),
        "sscanf" | "fscanf" | "vsscanf" | "vfscanf" => writes_from(2),
        "getline" => writes(&[0, 1]),
        "accept" | "getsockname" | "getpeername" => writes(&[1, 2]),
        "inet_pton" => writes(&[2]),
        "getsockopt" => writes(&[3, 4]),
        "recvfrom" => writes(&[1, 4, 5]),
        "abort"
        | "exit"
        | "_exit"
        | "_Exit"
        | "quick_exit"
        | "__assert_fail"
        | "__assert_perror_fail"
        | "__assert"
        | "__assert_rtn"
        | "__stack_chk_fail"
        | "__fortify_fail"
        | "__chk_fail"
        | "__cxa_throw"
        | "__cxa_rethrow"
        | "__cxa_bad_cast"
        | "__cxa_pure_virtual"
        | "__clang_call_terminate"
        | "_ZSt9terminatev"
        | "_ZSt10unexpectedv"
        | "err"
        | "errx"
        | "verr"
        | "verrx"
        | "pthread_exit" => ENDS,
        // `std::__throw_out_of_range` and its like throw out of line.
        _ if function.starts_with("_ZSt") && function.contains("__throw_") => ENDS,
        _ if function.starts_with("_ZSt21__glibcxx_assert_fail") => ENDS,
        _ if joins_thread(function) => writes(&[1]),
        _ => NOTHING,
    }
}

/// The callbacks that a call of the named function registers or makes.
pub(crate) fn callbacks(function: &str) -> impl Iterator<Item = &'static Callback> {
    let is_start = function.starts_with(START_THREAD);
    let wanted = if is_start {
        START_THREAD.to_owned()
    } else {
        function.to_owned()
    };
    CALLBACKS.iter().filter(move |c| c.name == wanted)
}

/// Whether a call stores a thread's result where its second operand points.
pub(crate) fn joins_thread(function: &str) -> bool {
    sync_op(function) == Some(SyncOp::ThreadJoin)
}

/// The synchronisation operation that a library function is, in the wire's words.
pub(crate) fn sync_op(function: &str) -> Option<SyncOp> {
    Some(match sync_functions::named(function)?.operation {
        Operation::MutexLock => SyncOp::MutexLock,
        Operation::MutexUnlock => SyncOp::MutexUnlock,
        Operation::ReadLock => SyncOp::ReadLock,
        Operation::WriteLock => SyncOp::WriteLock,
        Operation::ReadWriteUnlock => SyncOp::ReadWriteUnlock,
        Operation::SemaphoreWait => SyncOp::SemaphoreWait,
        Operation::SemaphorePost => SyncOp::SemaphorePost,
        Operation::BarrierWait => SyncOp::BarrierWait,
        Operation::ThreadCreate => SyncOp::ThreadCreate,
        Operation::ThreadJoin => SyncOp::ThreadJoin,
        Operation::CondWait => SyncOp::CondWait,
        Operation::CondSignal => SyncOp::CondSignal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_from_the_operands_that_the_manuals_say() {
        let one = |name: &str| callbacks(name).next().expect("a known function");
        assert_eq!(one("pthread_create").operand_for(0), Some(3));
        assert_eq!(one("pthread_create").operand_for(1), None);
        assert_eq!(one("bsearch").operand_for(1), Some(1));
        assert_eq!(one("qsort").operand_for(1), Some(0));
        assert_eq!(one("__kmpc_fork_call").operand_for(1), None);
        assert_eq!(one("__kmpc_fork_call").operand_for(3), Some(4));
    }

    #[test]
    fn one_function_may_take_several_routines_and_most_take_none() {
        assert_eq!(callbacks("pthread_atfork").count(), 3);
        assert_eq!(callbacks("pthread_join").count(), 0);
        assert_eq!(callbacks("").count(), 0);
        let mangled = "_ZNSt6thread15_M_start_threadESt10unique_ptrI…EPFvvE";
        assert_eq!(callbacks(mangled).count(), 1);
    }
    #[test]
    fn stores_returns_and_ends_are_those_of_the_manuals() {
        let writes = |name: &str| -> Vec<u32> {
            let into = |operand: &u32| effects(name).write_into(*operand);
            (0..6).filter(into).collect()
        };
        assert_eq!(writes("memcpy"), [0]);
        assert_eq!(writes("read"), [1]);
        assert_eq!(writes("recvfrom"), [1, 4, 5]);
        assert_eq!(writes("__isoc99_sscanf"), [2, 3, 4, 5]);
        assert!(writes("pthread_mutex_lock").is_empty());
        assert!(effects("memcpy").copies && effects("memcpy").returns_first);
        assert!(effects("strchr").returns_first && !effects("strlcpy").returns_first);
        assert!(effects("abort").ends && !effects("printf").ends);
        assert!(effects("_ZSt24__throw_out_of_range_fmtPKcz").ends);
    }

    #[test]
    fn the_table_of_synchronisation_and_the_callbacks_agree() {
        for function in sync_functions::SYNC_FUNCTIONS {
            let started = callbacks(function.name).find(|c| c.runs == Runs::Thread);
            let routine = started.map(|callback| callback.routine);
            let expected = function.starts.map(|at| Routine::Operand(at.into()));
            assert_eq!(routine, expected, "{}", function.name);
        }
        for join in sync_functions::names_of(Operation::ThreadJoin) {
            assert!(effects(join).write_into(1), "{join} stores the result");
        }
    }
}
