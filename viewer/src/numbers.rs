//! How figures are written, the same on every surface.

use sketch_model::Score;

/// A share, with two decimals; a dash if it is not a number.
pub fn share(x: f64) -> String {
    if x.is_finite() {
        format!("{x:.2}")
    } else {
        "–".to_owned()
    }
}

/// A 95% interval of a share.
pub fn interval((low, high): (f64, f64)) -> String {
    format!("{}–{}", share(low), share(high))
}

/// A probability: small ones by their size, as that is what matters of them.
pub fn probability(p: f64) -> String {
    if !p.is_finite() {
        "–".to_owned()
    } else if p >= 0.01 {
        format!("{p:.2}")
    } else if p < 1e-99 {
        "<1e-99".to_owned()
    } else {
        format!("{p:.0e}")
    }
}

/// A failure rate in percent, with two figures that say something.
pub fn rate(r: Option<f64>) -> String {
    match r.filter(|r| r.is_finite()) {
        None => "not known yet".to_owned(),
        Some(r) => {
            let percent = r * 100.0;
            let decimals = match percent {
                p if p == 0.0 || p >= 10.0 => 0,
                p if p >= 1.0 => 1,
                p if p >= 0.1 => 2,
                _ => 4,
            };
            format!("{percent:.decimals$}%")
        }
    }
}

/// A count with its thousands apart.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// "1 run", "2 runs".
pub fn counted(n: u64, thing: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(n))
}

/// "2026-11-16 05:30", UTC, of seconds since 1970.
pub fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 1 March of year 0, so that a leap day ends its year
    // (the algorithm of Howard Hinnant's "chrono-compatible low-level date algorithms").
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year_of_era + era * 400 + later;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}",
        rest / 3_600,
        rest / 60 % 60
    )
}

/// "9 of 9": in how many failing runs a predictor held, of those that could show it.
pub fn failing_support(score: &Score) -> String {
    let s = score.support;
    format!(
        "{} of {}",
        count(s.failing_true),
        count(s.failing_observed())
    )
}

/// The same for successful runs.
pub fn successful_support(score: &Score) -> String {
    let s = score.support;
    format!(
        "{} of {}",
        count(s.successful_true),
        count(s.successful_observed())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_say_what_matters_of_them() {
        assert_eq!(share(1.0), "1.00");
        assert_eq!(share(f64::NAN), "–");
        assert_eq!(probability(0.25), "0.25");
        assert_eq!(probability(3.14e-9), "3e-9");
        assert_eq!(probability(0.0), "<1e-99");
        assert_eq!(rate(Some(0.174)), "17%");
        assert_eq!(rate(Some(0.0)), "0%");
        assert_eq!(rate(Some(0.0123)), "1.2%");
        assert_eq!(rate(Some(0.0001)), "0.0100%");
        assert_eq!(rate(None), "not known yet");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "run"), "1 run");
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00");
        assert_eq!(date(951_868_799), "2000-02-29 23:59");
        assert_eq!(date(1_794_806_999), "2026-11-16 05:29");
    }
}
