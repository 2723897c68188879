//! The control page: the switch and the account, which both sides write while the process runs.

/// Values of [`Control::off_reason`].
pub const OFF_NOT_STARTED: u32 = 0;
/// The hooks had used up their credit.
pub const OFF_HOOKS: u32 = 1;
/// Watchpoint hits had used up the credit; written by the agent.
pub const OFF_HITS: u32 = 2;
/// The agent had not been heard of for too long.
pub const OFF_ALONE: u32 = 3;

/// Of [`Control::sandboxed`]. Not just any number: it decides how a crash handler lets the
/// program die, and a program that writes over this page by mistake must not set it.
pub const SANDBOXED: u32 = u32::from_le_bytes(*b"sbx\x01");

/// The one page that both sides write while the process runs. The runtime maps
/// it over the symbol `__failsketch_enabled`, so that the program tests the
/// switch by one comparison with memory, and the agent turns it from outside,
/// without a signal, a helper thread or a system call in the program.
#[repr(C, align(4096))]
pub struct Control {
    /// Not zero: hooks record, and entries of tracked functions lead into their
    /// clones. Zero until activation.
    pub enabled: u32,
    /// Why `enabled` became zero.
    pub off_reason: u32,
    /// The counter when it did.
    pub off_since: u64,
    /// Counter ticks that tracking may still cost. The agent adds, hooks and
    /// agent subtract; whoever takes it below zero turns the switch off.
    pub credit: i64,
    /// Zero: nobody keeps an account.
    pub governed: u32,
    /// How often hooks turned the switch off.
    pub brakes: u32,
    /// How many slots the agent has freed.
    pub freed: u32,
    /// [`SANDBOXED`]: the program has a seccomp filter of its own, and system calls of
    /// ours might kill it.
    pub sandboxed: u32,
    /// Not zero: the program has forbidden itself to read the counter, so
    /// recording is off for good.
    pub counter_forbidden: u32,
    /// Bit n: watchpoint slot n has been aimed.
    pub aimed: u32,
    /// Not zero: the agent wants the watchpoints closed for good.
    pub release_watch: u32,
    /// How often tired threads were woken: see [`crate::Fatigue`]. Counts from one.
    pub wakings: u32,
    /// The counter when `enabled` was first set.
    pub activated_at: u64,
    /// The counter when the agent last looked; zero before it first did.
    pub looked_at: u64,
    /// How long the agent may be silent, in ticks, before hooks take it for dead.
    pub patience: u64,
}
