//! Timers of declared channels: what is written, and what cannot be.

use core::time::Duration;
use std::collections::BTreeSet;

use corba::parse_time;
use engine::{EventType, TIMER_DOMAIN, TIMER_TYPE, TIMERS_MAX, TimerSchedule, TimerSettings};
use giop::client_name;
use serde::{Deserialize, Serialize};

use super::DeclaredChannel;

/// Maximum octets of a timer's name.
const NAME_BYTES_MAX: usize = 100;
/// Maximum event types of a silence.
const TYPES_MAX: usize = 64;
/// Maximum octets of each.
const TYPE_BYTES_MAX: usize = 255;
/// Shortest and longest time of a timer.
const TIME: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(30 * 24 * 3_600));

/// A timer of a declared channel: an event of the type `Campanile/Timer` by the clock. It has one of `every`, `after` and `silence`, each a
/// whole number with its unit, `us`, `ms`, `s`, `min`, `h` or `d`, from 1 ms to 30 days.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeclaredTimer {
    /// Name of its events, unique in its channel: 1 to 100 octets without control characters.
    pub name: String,
    /// Interval of its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Time after which it publishes its one event: from the start of the service, or from when it was declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Time without an event after which it publishes one; again only after one has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence: Option<String>,
    /// Event types that end a silence, 64 at most. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Priority of its events, -32,767 to 32,767. Default: 0, and the consumers' own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
}

impl DeclaredTimer {
    /// The timer's settings.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    fn settings(&self) -> Result<TimerSettings, String> {
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return Err(format!("its name has {} octets: write one of 1 to {NAME_BYTES_MAX}", self.name.len()));
        }
        if let Some(c) = client_name::unprintable(&self.name) {
            return Err(format!(
                "its name has the character U+{:04X}: leave out control, invisible and direction characters",
                u32::from(c)
            ));
        }
        if !self.types.is_empty() && self.silence.is_none() {
            return Err("types are of a silence: leave them out, or write silence instead of every or after".to_owned());
        }
        let schedule = match (&self.every, &self.after, &self.silence) {
            (Some(text), None, None) => TimerSchedule::Every(time("every", text)?),
            (None, Some(text), None) => TimerSchedule::After(time("after", text)?),
            (None, None, Some(text)) => {
                TimerSchedule::Silence { period: time("silence", text)?, types: self.event_types()? }
            }
            _ => return Err("write one of every, after and silence, with a time such as \"5s\"".to_owned()),
        };
        let priority = self.priority.map(|priority| {
            let fits = i16::try_from(priority).ok().filter(|priority| *priority != i16::MIN);
            fits.ok_or_else(|| format!("priority = {priority} is out of range: write one from -32767 to 32767"))
        });
        Ok(TimerSettings { name: self.name.clone(), schedule, priority: priority.transpose()? })
    }

    fn event_types(&self) -> Result<Vec<EventType>, String> {
        if self.types.len() > TYPES_MAX {
            return Err(format!(
                "it has {} types: write {TYPES_MAX} at most, with wildcards such as \"Weather/*\"",
                self.types.len()
            ));
        }
        let of = |text: &String| {
            if text.len() > TYPE_BYTES_MAX {
                return Err(format!("a type has {} octets: write {TYPE_BYTES_MAX} at most", text.len()));
            }
            let (domain, name) = text.split_once('/').unwrap_or(("", text));
            if (domain, name) == (TIMER_DOMAIN, TIMER_TYPE) {
                return Err(format!(
                    "events of the type {text:?} end no silence: write the types of suppliers' events"
                ));
            }
            Ok(EventType::new(domain, name))
        };
        self.types.iter().map(of).collect()
    }
}

impl DeclaredChannel {
    /// The settings of its timers.
    ///
    /// # Errors
    /// What is wrong with which timer, and what to write.
    pub(crate) fn timer_settings(&self) -> Result<Vec<TimerSettings>, String> {
        if self.timers.len() > TIMERS_MAX {
            return Err(format!(
                "it has {} timers: write {TIMERS_MAX} at most, or declare some in another channel",
                self.timers.len()
            ));
        }
        let mut names = BTreeSet::new();
        let settings = self.timers.iter().map(|timer| {
            let named = |why: String| format!("timer {:?}: {why}", timer.name);
            let settings = timer.settings().map_err(named)?;
            if !names.insert(timer.name.as_str()) {
                return Err(named("another timer of the channel has the name: write another one".to_owned()));
            }
            Ok(settings)
        });
        settings.collect()
    }
}

/// Reads a time with its unit.
fn time(key: &str, text: &str) -> Result<Duration, String> {
    let time = parse_time(text).and_then(|time| time.checked_mul(100)).map(Duration::from_nanos);
    time.filter(|time| (TIME.0..=TIME.1).contains(time)).ok_or_else(|| {
        format!("{key} = {text:?}: write a time from \"1ms\" to \"30d\", a whole number with its unit, us, ms, s, min, h or d")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn refusal(timers: &str) -> String {
        let text = format!("[[channels]]\nname = \"Plant\"\n{timers}");
        let config: Config = toml::from_str(&text).unwrap();
        config.check().expect_err(timers).to_string()
    }

    fn of(keys: &str) -> String {
        format!("[[channels.timers]]\n{keys}\n")
    }

    #[test]
    fn a_channel_is_declared_with_timers_of_each_kind() {
        let text = "[[channels]]\nname = \"Plant\"\n[[channels.timers]]\nname = \"tick\"\nevery = \"100ms\"\npriority = 5\n\
                    [[channels.timers]]\nname = \"begun\"\nafter = \"5 s\"\n\
                    [[channels.timers]]\nname = \"quiet\"\nsilence = \"2min\"\ntypes = [\"Weather/*\", \"Alarm\"]\n";
        let config: Config = toml::from_str(text).unwrap();
        config.check().unwrap();
        let settings = config.channels[0].timer_settings().unwrap();
        let types = vec![EventType::new("Weather", "*"), EventType::new("", "Alarm")];
        let schedules = [
            TimerSchedule::Every(Duration::from_millis(100)),
            TimerSchedule::After(Duration::from_secs(5)),
            TimerSchedule::Silence { period: Duration::from_secs(120), types },
        ];
        assert_eq!(settings.iter().map(|timer| timer.schedule.clone()).collect::<Vec<_>>(), schedules);
        assert_eq!(settings.iter().map(|timer| timer.priority).collect::<Vec<_>>(), [Some(5), None, None]);
        let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn a_time_is_a_whole_number_with_its_unit_from_a_millisecond_to_a_month() {
        for (text, nanos) in [
            ("1000us", 1_000_000),
            ("1ms", 1_000_000),
            ("7s", 7_000_000_000),
            ("43200min", 2_592_000_000_000_000),
            ("30d", 2_592_000_000_000_000),
            ("2 h", 7_200_000_000_000),
        ] {
            assert_eq!(time("every", text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        let past_u64 = ["18446744073709551615min", "99999999999999999999s", "1844674407370955161us"];
        let no_times =
            ["", "5", "s", "-5s", "1.5s", "5 S", "5sec", "fives", "5 s ", "٥s", "0s", "999us", "43201min", "31d"];
        for text in no_times.into_iter().chain(past_u64) {
            assert!(time("every", text).unwrap_err().contains("write a time from \"1ms\" to \"30d\""), "{text}");
        }
    }

    #[test]
    fn a_timer_that_cannot_be_is_refused_with_what_to_write() {
        let long = "x".repeat(101);
        for (keys, expected) in [
            ("every = \"5s\"", "timer \"\": its name has 0 octets: write one of 1 to 100"),
            (&format!("name = \"{long}\"\nevery = \"5s\""), "its name has 101 octets: write one of 1 to 100"),
            ("name = \"a\\u0007\"\nevery = \"5s\"", "its name has the character U+0007: leave out control"),
            ("name = \"a\\n\"\nevery = \"5s\"", "its name has the character U+000A: leave out control"),
            ("name = \"a\\u202E\"\nevery = \"5s\"", "its name has the character U+202E: leave out control"),
            ("name = \"a\"", "timer \"a\": write one of every, after and silence"),
            ("name = \"a\"\nevery = \"5s\"\nafter = \"5s\"", "write one of every, after and silence"),
            ("name = \"a\"\nevery = \"0ms\"", "every = \"0ms\": write a time from \"1ms\""),
            ("name = \"a\"\nsilence = \"31000000min\"", "silence = \"31000000min\": write a time"),
            ("name = \"a\"\nafter = \"soon\"", "after = \"soon\": write a time from"),
            ("name = \"a\"\nafter = \"5s\"\ntypes = [\"A/B\"]", "types are of a silence: leave them out"),
            (
                "name = \"a\"\nsilence = \"5s\"\ntypes = [\"A/B\", \"Campanile/Timer\"]",
                "events of the type \"Campanile/Timer\" end no silence: write the types of suppliers' events",
            ),
            ("name = \"a\"\nafter = \"5s\"\npriority = 40000", "priority = 40000 is out of range: write one from"),
            ("name = \"a\"\nafter = \"5s\"\npriority = -32768", "priority = -32768 is out of range"),
        ] {
            let refused = refusal(&of(keys));
            assert!(refused.starts_with("[[channels]] \"Plant\": timer \"") && refused.contains(expected), "{refused}");
        }
        let types: Vec<String> = (0..65).map(|at| format!("\"T{at}\"")).collect();
        let refused = refusal(&of(&format!("name = \"a\"\nsilence = \"5s\"\ntypes = [{}]", types.join(","))));
        assert!(refused.contains("it has 65 types: write 64 at most"), "{refused}");
        assert!(toml::from_str::<Config>(&format!("[[channels]]\nname = \"P\"\n{}", of("each = \"5s\""))).is_err());
    }

    #[test]
    fn two_timers_of_one_name_and_too_many_are_refused() {
        let named = |name: &str| of(&format!("name = \"{name}\"\nevery = \"5s\""));
        let refused = refusal(&[named("a"), named("b"), named("a")].concat());
        assert_eq!(
            refused,
            "[[channels]] \"Plant\": timer \"a\": another timer of the channel has the name: write another one"
        );
        let many: String = (0..65).map(|at| named(&format!("t{at}"))).collect();
        let refused = refusal(&many);
        assert_eq!(
            refused,
            "[[channels]] \"Plant\": it has 65 timers: write 64 at most, or declare some in another channel"
        );
    }
}
