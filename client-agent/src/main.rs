//! `failsketch-agent`: see [`client_agent::cli`].

fn main() -> std::process::ExitCode {
    client_agent::cli::main()
}
