//! `failsketch token`: who may talk to a server. Works on the server's own files,
//! so it needs no token itself: whoever can write them owns the server anyway.

use anyhow::{Context, Result};
use server_files::private_files::make_private_folder;
use server_files::{Role, TokenFile, TokenListed};
use std::path::PathBuf;
use std::time::SystemTime;
use viewer::{printable, printable_json};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a token and print it; it is shown only once
    Add(AddArguments),
    /// List the tokens, without their secrets
    List(ListArguments),
    /// Revoke a token, from the next request on
    Revoke(RevokeArguments),
}

/// Whose tokens are meant.
#[derive(clap::Args)]
struct Which {
    /// The server's data folder, as for `failsketch serve`.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The token file; tokens.json in the data folder by default.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct AddArguments {
    /// The token's name. For an agent: the agent's name, which is its machine's host
    /// name by default; the token is then valid for that agent alone.
    name: String,
    /// What the token is for: agent (reports runs), developer (reads and steers)
    /// or admin (everything).
    #[arg(long, value_name = "agent|developer|admin")]
    role: Role,
    /// Any agent may use the token. Simpler to roll out, but an attacker on one
    /// machine can then report as any of them.
    #[arg(long)]
    fleet: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args)]
pub struct ListArguments {
    #[command(flatten)]
    which: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct RevokeArguments {
    /// The token's name, as `failsketch token list` shows it.
    name: String,
    #[command(flatten)]
    which: Which,
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Add(arguments) => {
            let token = arguments.which.book()?.add(
                &arguments.name,
                arguments.role,
                arguments.fleet,
                now(),
            )?;
            println!("{}", token.text());
            eprintln!(
                "token `{}` of role {}; it is not stored and cannot be shown again",
                arguments.name, arguments.role
            );
            Ok(())
        }
        Command::List(arguments) => list(&arguments),
        Command::Revoke(arguments) => Ok(arguments.which.book()?.revoke(&arguments.name)?),
    }
}

fn list(arguments: &ListArguments) -> Result<()> {
    let tokens = arguments.which.book()?.tokens()?;
    let tokens: Vec<TokenListed> = tokens
        .iter()
        .flat_map(|t| t.iter())
        .map(TokenListed::from)
        .collect();
    if arguments.json {
        println!(
            "{}",
            printable_json(&serde_json::to_string_pretty(&tokens)?)
        );
        return Ok(());
    }
    if tokens.is_empty() {
        println!("there is no token");
    }
    for token in tokens {
        let fleet = if token.fleet { ", any agent" } else { "" };
        println!(
            "{:<10} {}{fleet}",
            token.role.to_string(),
            printable(&token.name)
        );
    }
    Ok(())
}

impl Which {
    fn book(&self) -> Result<TokenFile> {
        let data = match &self.data {
            Some(data) => data.clone(),
            None => crate::serve::default_data(crate::open_store(None)?.root()),
        };
        let file = match &self.tokens {
            Some(file) => file.clone(),
            None => {
                make_private_folder(&data)
                    .with_context(|| format!("{} cannot be made", data.display()))?;
                data.join("tokens.json")
            }
        };
        Ok(TokenFile::at(&file))
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
