//! Times in the notation of cron: five fields, in UTC.
//!
//! ```text
//!  15 3 * * 1-5     minute 0-59, hour 0-23, day of the month 1-31, month 1-12 or JAN-DEC, day of the week 0-7 or SUN-SAT
//!  */10 * * * *     lists 1,2,3, ranges 1-5, steps */10 and 1-30/5; 0 and 7 are Sunday
//! ```
//!
//! As in cron, where both days are restricted a day counts that is either. Times are Unix minutes. Absent: seconds, time zones (a day
//! of 23 hours would leave a time out), and words such as `@daily`.

use std::fmt;

/// The cycle of the calendar, in days: what is in none of these years is in none.
const CYCLE_DAYS: i64 = 146_097;

const MINUTES_A_DAY: i64 = 24 * 60;

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A schedule that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct CronSchedule {
    /// As it was written, with one space between fields.
    text: String,
    /// Bit `n` of a field: that number counts.
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether one of both days is enough.
    is_either_day: bool,
}

impl CronSchedule {
    /// Reads five fields.
    ///
    /// # Errors
    /// Which field is none, and what it may be.
    pub fn parse(text: &str) -> Result<CronSchedule, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(format!(
                "a schedule has five fields, minute hour day month weekday, and this has {}",
                fields.len()
            ));
        };
        let schedule = CronSchedule {
            text: fields.join(" "),
            minutes: field("minute", minute, 0, 59, &[])?,
            hours: field("hour", hour, 0, 23, &[])?,
            days: field("day of the month", day, 1, 31, &[])?,
            months: field("month", month, 1, 12, &MONTHS)?,
            weekdays: sunday_once(field("day of the week", weekday, 0, 7, &WEEKDAYS)?),
            is_either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        match schedule.next(0) {
            Some(_) => Ok(schedule),
            None => Err("there is no such day".to_owned()),
        }
    }

    /// The first time behind this one, both in Unix minutes.
    pub fn next(&self, after: i64) -> Option<i64> {
        let first = after + 1;
        let (day, minute) = (first.div_euclid(MINUTES_A_DAY), first.rem_euclid(MINUTES_A_DAY));
        let today = self
            .is_day(day)
            .then(|| (minute..MINUTES_A_DAY).find(|minute| self.is_minute(*minute)));
        let found = match today.flatten() {
            Some(minute) => (day, minute),
            None => {
                let day = (day + 1..=day + CYCLE_DAYS).find(|day| self.is_day(*day))?;
                (day, (0..MINUTES_A_DAY).find(|minute| self.is_minute(*minute))?)
            }
        };
        Some(found.0 * MINUTES_A_DAY + found.1)
    }

    /// The last time that is not behind this one, both in Unix minutes.
    pub fn last(&self, until: i64) -> Option<i64> {
        let (day, minute) = (until.div_euclid(MINUTES_A_DAY), until.rem_euclid(MINUTES_A_DAY));
        let today = self
            .is_day(day)
            .then(|| (0..=minute).rev().find(|minute| self.is_minute(*minute)));
        let found = match today.flatten() {
            Some(minute) => (day, minute),
            None => {
                let day = (day - CYCLE_DAYS..day).rev().find(|day| self.is_day(*day))?;
                let minute = (0..MINUTES_A_DAY).rev().find(|minute| self.is_minute(*minute))?;
                (day, minute)
            }
        };
        Some(found.0 * MINUTES_A_DAY + found.1)
    }

    fn is_minute(&self, minute: i64) -> bool {
        has(self.hours, minute / 60) && has(self.minutes, minute % 60)
    }

    fn is_day(&self, unix_day: i64) -> bool {
        let (month, day) = month_and_day(unix_day);
        // The first day of 1970 was a Thursday.
        let weekday = (unix_day + 4).rem_euclid(7);
        let (is_day, is_weekday) = (has(self.days, day), has(self.weekdays, weekday));
        has(self.months, month)
            && match self.is_either_day {
                true => is_day || is_weekday,
                false => is_day && is_weekday,
            }
    }
}

impl fmt::Display for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

fn has(field: u64, number: i64) -> bool {
    field & 1 << number != 0
}

/// 7 is another name of 0.
fn sunday_once(field: u64) -> u64 {
    (field | field >> 7 & 1) & !(1 << 7)
}

/// The numbers of a field.
fn field(what: &str, text: &str, min: u32, max: u32, names: &[&str]) -> Result<u64, String> {
    let wrong = || format!("{text:.40} is no {what}: a number from {min} to {max}, *, 1-5, 1,2,3 or */2");
    let number = |word: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(word));
        // Names of months begin at 1, those of days at 0: where the numbers do.
        let number = match named {
            Some(at) => Some(at as u32 + min),
            None if word.bytes().all(|byte| byte.is_ascii_digit()) => word.parse().ok(),
            None => None,
        };
        number.filter(|number| (min..=max).contains(number))
    };
    let mut numbers = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)),
            None => (part, Some(1)),
        };
        let ends = match range.split_once('-') {
            _ if range == "*" => Some((min, max)),
            Some((first, last)) => number(first).zip(number(last)),
            // A number with a step counts up to the end.
            None if part.contains('/') => number(range).map(|first| (first, max)),
            None => number(range).map(|only| (only, only)),
        };
        let (Some((first, last)), Some(step)) = (ends.filter(|(first, last)| first <= last), step) else {
            return Err(wrong());
        };
        for number in (first..=last).step_by(step as usize) {
            numbers |= 1 << number;
        }
    }
    Ok(numbers)
}

/// Month and day of the month, each from 1, of a day since 1970. The algorithm is Howard Hinnant's `civil_from_days`: years begin
/// in March there, so that a leap day is the last of its year.
fn month_and_day(unix_day: i64) -> (i64, i64) {
    let day_of_era = (unix_day + 719_468).rem_euclid(CYCLE_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = match month_from_march {
        0..=9 => month_from_march + 3,
        _ => month_from_march - 9,
    };
    (month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unix minutes of a time in 2026 and the years after it, from `2026-11-26 23:31`.
    fn minutes(text: &str) -> i64 {
        let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
        let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
        // Counted day by day from a day that is known: 2026-01-01 is day 20454.
        let mut at = 20_454;
        let mut seen = 2026;
        loop {
            if seen == year && month_and_day(at) == (month, day) {
                return at * MINUTES_A_DAY + number(11, 13) * 60 + number(14, 16);
            }
            at += 1;
            seen += i64::from(month_and_day(at) == (1, 1));
        }
    }

    fn next(schedule: &str, after: &str) -> i64 {
        let schedule = CronSchedule::parse(schedule).unwrap();
        schedule.next(minutes(after)).unwrap()
    }

    #[test]
    fn days_have_the_dates_of_the_calendar() {
        for (day, date) in [
            (0, (1, 1)),
            (20_454, (1, 1)),
            (11_016, (2, 29)),
            (47_540, (2, 28)),
            (47_541, (3, 1)),
            (-1, (12, 31)),
        ] {
            assert_eq!(month_and_day(day), date, "{day}");
        }
    }

    #[test]
    fn the_next_time_is_the_first_one_behind() {
        for (schedule, after, expected) in [
            ("* * * * *", "2026-11-26 23:59", "2026-11-27 00:00"),
            ("15 3 * * *", "2026-11-26 03:14", "2026-11-26 03:15"),
            ("15 3 * * *", "2026-11-26 03:15", "2026-11-27 03:15"),
            ("*/20 * * * *", "2026-11-26 03:41", "2026-11-26 04:00"),
            ("0 0 1 * *", "2026-11-26 03:00", "2026-12-01 00:00"),
            ("0 0 31 * *", "2026-11-26 03:00", "2026-12-31 00:00"),
            ("0 0 29 2 *", "2026-11-26 03:00", "2028-02-29 00:00"),
            // 2026-11-26 is a Thursday.
            ("0 12 * * THU", "2026-11-26 03:00", "2026-11-26 12:00"),
            ("0 12 * * sun", "2026-11-26 03:00", "2026-11-29 12:00"),
            ("0 12 * * 7", "2026-11-26 03:00", "2026-11-29 12:00"),
            ("0 12 * * 0", "2026-11-26 03:00", "2026-11-29 12:00"),
            ("0 9-17/4 * * 1-5", "2026-11-27 13:00", "2026-11-27 17:00"),
            ("0 9-17/4 * * 1-5", "2026-11-27 17:00", "2026-11-30 09:00"),
            ("5,35 1 * JAN,jul *", "2026-11-26 03:00", "2027-01-01 01:05"),
            ("50/4 * * * *", "2026-11-26 03:51", "2026-11-26 03:54"),
            // Either day.
            ("0 0 13 * FRI", "2026-11-26 03:00", "2026-11-27 00:00"),
            ("0 0 13 * FRI", "2026-12-12 03:00", "2026-12-13 00:00"),
            // A star with a step restricts nothing for that rule.
            ("0 0 */2 * FRI", "2026-11-26 03:00", "2026-11-27 00:00"),
        ] {
            assert_eq!(
                next(schedule, after),
                minutes(expected),
                "{schedule} after {after}"
            );
        }
    }

    #[test]
    fn the_last_time_is_where_the_next_one_was() {
        for text in [
            "15 3 * * *",
            "0 0 29 2 *",
            "*/7 */5 1-7 * MON",
            "0 0 1 1 *",
            "* * * * *",
        ] {
            let schedule = CronSchedule::parse(text).unwrap();
            let mut at = minutes("2026-11-26 03:15");
            for _ in 0..50 {
                let next = schedule.next(at).unwrap();
                assert_eq!(schedule.last(next), Some(next), "{text}");
                let before = schedule.last(next - 1).unwrap();
                assert!(before < next && schedule.next(before) == Some(next), "{text}");
                at = next;
            }
        }
    }

    #[test]
    fn what_is_no_schedule_is_told_by_its_field() {
        let why = |text: &str| CronSchedule::parse(text).unwrap_err();
        assert!(why("").contains("has five fields"), "{}", why(""));
        assert!(why("@daily").ends_with("this has 1"));
        assert!(why("0 3 * * * *").ends_with("this has 6"));
        for (text, field) in [
            ("60 * * * *", "no minute: a number from 0 to 59"),
            ("-1 * * * *", "no minute"),
            ("+1 * * * *", "no minute"),
            ("1- * * * *", "no minute"),
            ("*/0 * * * *", "no minute"),
            ("5-1 * * * *", "no minute"),
            ("1,,2 * * * *", "no minute"),
            ("JAN * * * *", "no minute"),
            ("0 24 * * *", "no hour"),
            ("0 0 0 * *", "no day of the month"),
            ("0 0 * 13 *", "no month"),
            ("0 0 * 0 *", "no month"),
            ("0 0 * * 8", "no day of the week"),
            ("0 0 * * funday", "no day of the week"),
        ] {
            assert!(why(text).contains(field), "{text}: {}", why(text));
        }
        assert_eq!(why("0 0 30 2 *"), "there is no such day");
        assert_eq!(
            CronSchedule::parse(" 0  3 * * * ").unwrap().to_string(),
            "0 3 * * *"
        );
    }
}
