//! The system calls that a tool may not make (seccomp).
//!
//! A compiler needs files, memory and threads. What it does not need, and what
//! Landlock does not refuse on every kernel, is answered with `EPERM` here: the
//! network, other processes, ownership and modes of files, program files without
//! a name, and the kernel's larger doors. This is a list of what is refused: one of
//! what is allowed would break with the next C library, and files, which matter most,
//! are Landlock's.

use std::io;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long,
    sock_filter,
};

/// Refused whatever the arguments are.
#[rustfmt::skip]
const REFUSED: &[c_long] = &[
    // The network, and sockets of this machine.
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept,
    libc::SYS_accept4, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg,
    // Other processes.
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_kill, libc::SYS_tkill,
    libc::SYS_pidfd_open, libc::SYS_pidfd_getfd, libc::SYS_pidfd_send_signal, libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo, libc::SYS_kcmp, libc::SYS_process_madvise, libc::SYS_setpriority,
    libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr, libc::SYS_ioprio_set,
    libc::SYS_migrate_pages, libc::SYS_move_pages, libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_msgget, libc::SYS_semget, libc::SYS_mq_open,
    // Leaving the process group, which is ended as a whole.
    libc::SYS_setpgid, libc::SYS_setsid,
    // Program files without a name, which Landlock does not see.
    libc::SYS_memfd_create, libc::SYS_memfd_secret, libc::SYS_execveat,
    // What Landlock does not cover, or not on every kernel.
    libc::SYS_chmod, libc::SYS_fchmodat, libc::SYS_fchmodat2, libc::SYS_chown, libc::SYS_lchown, libc::SYS_fchownat,
    libc::SYS_truncate, libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_removexattr, libc::SYS_lremovexattr,
    libc::SYS_utime, libc::SYS_utimes, libc::SYS_utimensat, libc::SYS_futimesat, libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at, libc::SYS_mknod, libc::SYS_mknodat,
    // Namespaces, mounts and privileges.
    libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot,
    libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsmount, libc::SYS_fspick,
    libc::SYS_mount_setattr, libc::SYS_capset, libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid,
    libc::SYS_setregid, libc::SYS_setresuid, libc::SYS_setresgid, libc::SYS_setgroups,
    // The kernel's larger doors.
    libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_keyctl, libc::SYS_add_key,
    libc::SYS_request_key, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module,
    libc::SYS_kexec_load, libc::SYS_kexec_file_load, libc::SYS_reboot, libc::SYS_swapon, libc::SYS_swapoff,
    libc::SYS_acct, libc::SYS_quotactl, libc::SYS_syslog, libc::SYS_settimeofday, libc::SYS_clock_settime,
    libc::SYS_adjtimex, libc::SYS_clock_adjtime, libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_iopl,
    libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_fanotify_init, libc::SYS_vhangup,
];

/// `AUDIT_ARCH_X86_64`, from `linux/audit.h`; the store knows no other machine.
const ARCHITECTURE: u32 = 0xc000_003e;
/// Numbers from here on are those of the x32 calls.
const X32: u32 = 0x4000_0000;
// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;

/// Commands of `fcntl` that choose whom a signal is sent to (`asm-generic/fcntl.h`).
const F_SETOWN: u32 = 8;
const F_SETOWN_EX: u32 = 15;
/// Requests of `ioctl` to sockets, of the network and of signals, begin here and end before
/// the second (`asm-generic/sockios.h`). What a tool says goes into a socket.
const SOCKET_REQUESTS: (u32, u32) = (0x8900, 0x8a00);

/// A filter, ready to be installed.
pub struct SyscallFilter {
    program: Vec<sock_filter>,
    /// Which step compares with the number of the process that installs the filter.
    own_process: usize,
}

fn step(code: u32, value: u32) -> sock_filter {
    jump(code, value, 0, 0)
}

fn jump(code: u32, value: u32, if_true: u8, if_false: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: if_true,
        jf: if_false,
        k: value,
    }
}

impl SyscallFilter {
    /// `starts_processes`: may the tool start others, as a compiler driver starts the linker?
    pub fn new(starts_processes: bool) -> Self {
        let load = BPF_LD | BPF_W | BPF_ABS;
        let equal = BPF_JMP | BPF_JEQ | BPF_K;
        let give = BPF_RET | BPF_K;
        let refuse = |error: i32| step(give, libc::SECCOMP_RET_ERRNO | error as u32);
        let allow = step(give, libc::SECCOMP_RET_ALLOW);
        let mut program = vec![
            step(load, MACHINE),
            jump(equal, ARCHITECTURE, 1, 0),
            step(give, libc::SECCOMP_RET_KILL_PROCESS),
            step(load, NUMBER),
            jump(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1),
            refuse(libc::EPERM),
        ];
        for number in REFUSED {
            program.extend([jump(equal, *number as u32, 0, 1), refuse(libc::EPERM)]);
        }
        // Its flags lie in memory, where a filter cannot look; the C library then
        // uses `clone`.
        program.extend([
            jump(equal, libc::SYS_clone3 as u32, 0, 1),
            refuse(libc::ENOSYS),
        ]);
        if !starts_processes {
            for number in [libc::SYS_fork, libc::SYS_vfork] {
                program.extend([jump(equal, number as u32, 0, 1), refuse(libc::EPERM)]);
            }
        }
        let namespaces = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWCGROUP;
        let has = BPF_JMP | BPF_JSET | BPF_K;
        let threads_only = if starts_processes {
            allow
        } else {
            refuse(libc::EPERM)
        };
        program.extend([
            jump(equal, libc::SYS_clone as u32, 0, 6),
            step(load, FIRST_ARGUMENT),
            jump(has, namespaces as u32, 0, 1),
            refuse(libc::EPERM),
            jump(has, libc::CLONE_THREAD as u32, 1, 0),
            threads_only,
            allow,
        ]);
        // The limits of other processes; 0 is the caller.
        program.extend([
            jump(equal, libc::SYS_prlimit64 as u32, 0, 4),
            step(load, FIRST_ARGUMENT),
            jump(equal, 0, 1, 0),
            refuse(libc::EPERM),
            allow,
        ]);
        // Signals to threads are how a process aborts itself, and only itself.
        program.extend([
            jump(equal, libc::SYS_tgkill as u32, 0, 4),
            step(load, FIRST_ARGUMENT),
            jump(equal, 0, 1, 0),
            refuse(libc::EPERM),
            allow,
        ]);
        let own_process = program.len() - 3;
        program.extend([
            jump(equal, libc::SYS_fcntl as u32, 0, 5),
            step(load, SECOND_ARGUMENT),
            jump(equal, F_SETOWN, 1, 0),
            jump(equal, F_SETOWN_EX, 0, 1),
            refuse(libc::EPERM),
            allow,
        ]);
        let at_least = BPF_JMP | BPF_JGE | BPF_K;
        program.extend([
            jump(equal, libc::SYS_ioctl as u32, 0, 5),
            step(load, SECOND_ARGUMENT),
            jump(at_least, SOCKET_REQUESTS.0, 0, 2),
            jump(at_least, SOCKET_REQUESTS.1, 1, 0),
            refuse(libc::EPERM),
            allow,
        ]);
        program.push(allow);
        SyscallFilter {
            program,
            own_process,
        }
    }

    /// Installs the filter for the calling thread and what it starts. Allocates nothing;
    /// `PR_SET_NO_NEW_PRIVS` must have been set.
    pub fn enter(&mut self) -> io::Result<()> {
        // SAFETY: the call takes nothing and returns a number.
        self.program[self.own_process].k = unsafe { libc::getpid() } as u32;
        let program = libc::sock_fprog {
            len: self.program.len() as u16,
            filter: self.program.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies `len` instructions, which outlive the call, and
        // checks them before it installs them.
        let entered = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
                0,
                0,
            )
        };
        if entered == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
