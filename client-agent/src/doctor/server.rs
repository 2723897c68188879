//! Checks the connection to the server: reachable, trusted, clocks alike.

use super::{Finding, Health};
use crate::delivery::client::Server;
use crate::delivery::connection::Access;
use crate::policy::file::Config;
use crate::policy::settings;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{SystemTime, UNIX_EPOCH},
};

/// Patches carry an expiry; a clock that is off by more makes them look stale.
const MOST_SECONDS_OFF: u64 = 300;

pub fn key(config: &Config) -> Finding {
    let (health, detail) = match config.key.as_deref().map(settings::public_key) {
        Some(Ok(_)) => (Health::Ok, "a server's public key is pinned".into()),
        Some(Err(error)) => (Health::Missing, error.to_string()),
        None => (
            Health::Missing,
            "no key is pinned, so no tracked build will be run; copy signing.pub from the \
             server's data folder and name it with --key or in the configuration"
                .into(),
        ),
    };
    Finding::new(health, "key", detail)
}

pub fn server_and_clock(config: &Config) -> Vec<Finding> {
    let Some(access) = Access::configured(config) else {
        let detail = "no server is named; give --server or name one in the configuration";
        return vec![Finding::new(Health::Missing, "server", detail)];
    };
    let url = &access.url;
    let date = match Server::new(&access).and_then(|server| server.health()) {
        Ok(date) => date,
        Err(error) => return vec![Finding::new(Health::Missing, "server", error.to_string())],
    };
    let reachable = match access.can_be_overheard() {
        false => Finding::new(Health::Ok, "server", format!("{url} answers")),
        true => Finding::new(
            Health::Degraded,
            "server",
            format!(
                "{url} answers, but records and token cross the network in the clear; give an \
                 https address, and --ca if its authority is your own"
            ),
        ),
    };
    let clock = match date.as_deref().and_then(seconds) {
        Some(theirs) => {
            let ours = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs());
            let off = ours.abs_diff(theirs);
            if off <= MOST_SECONDS_OFF {
                Finding::new(Health::Ok, "clock", format!("{off} s from the server's"))
            } else {
                let detail = format!(
                    "{off} s from the server's: patches may look expired; set this machine's clock"
                );
                Finding::new(Health::Degraded, "clock", detail)
            }
        }
        None => {
            let detail = "the server did not say what time it is";
            Finding::new(Health::Degraded, "clock", detail)
        }
    };
    vec![reachable, clock]
}

/// Nothing, if no token was given.
pub fn token(config: &Config) -> Option<Finding> {
    let path = config.token.as_ref()?;
    let given = Access::configured(config).map(|access| access.authorization());
    let others = fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o044 != 0);
    let (health, detail) = match given {
        Some(Err(error)) => (Health::Missing, error.to_string()),
        _ if others => (
            Health::Degraded,
            format!(
                "other users may read the token; chmod 600 {}",
                path.display()
            ),
        ),
        _ => (Health::Ok, "the token is sent with every request".into()),
    };
    Some(Finding::new(health, "token", detail))
}

/// An HTTP date ("Sun, 06 Nov 1994 08:49:37 GMT") as seconds since 1970.
fn seconds(date: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = date.split_whitespace().skip(1);
    let day: u64 = words.next()?.parse().ok()?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|m| *m == name)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok()?;
    let time: Vec<u64> = words
        .next()?
        .split(':')
        .map_while(|part| part.parse().ok())
        .collect();
    let [hour, minute, second] = time[..] else {
        return None;
    };
    // Days from civil date, counting years from March.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day;
    let since_1970 = days.checked_sub(719_469)?;
    Some(((since_1970 * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_dates_are_read() {
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(
            seconds("Thu, 29 Feb 2024 23:59:59 GMT"),
            Some(1_709_251_199)
        );
        assert_eq!(seconds("yesterday"), None);
    }
}
