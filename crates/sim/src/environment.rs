//! A simulated machine as environment variables describe it: how `millpond sim` tells the libraries what to be.

use std::path::PathBuf;

use millpond_driver::{Bytes, Code};

use crate::calls::CallKind;
use crate::config::{DeviceConfig, EventMode, SimConfig};
use crate::cost::CostTable;
use crate::faults::{FaultCalls, FaultRule, FaultWhen};

/// What the variables say. Each is optional; one with a value that is not allowed is an error, and so is one with this
/// prefix that does not exist.
///
/// | variable | value | without it |
/// |---|---|---|
/// | `MILLPOND_SIM_CAPACITY` | memory of each device, such as `24G` | 80 GiB |
/// | `MILLPOND_SIM_OTHERS` | of which other processes use this much | 0 |
/// | `MILLPOND_SIM_DEVICES` | how many devices, 0 to 64 | 1 |
/// | `MILLPOND_SIM_COMPUTE` | compute capability, such as `8.0` | 9.0 |
/// | `MILLPOND_SIM_EVENTS` | `immediate`, `manual` or `timed` | `immediate` |
/// | `MILLPOND_SIM_FAULTS` | calls that fail: see [`parse_faults`] | none |
/// | `MILLPOND_SIM_BACKING` | `1`: memory has bytes | `0` |
/// | `MILLPOND_SIM_CAPTURE_CHECKS` | `0`: a capture forbids nothing, as in the golden recordings | `1` |
/// | `MILLPOND_SIM_KERNEL_US` | duration of a kernel on the virtual clock, µs | 10 |
/// | `MILLPOND_SIM_COST` | a file with another cost table | the built-in one |
/// | `MILLPOND_SIM_LOG` | a file to which every call is written, a line of JSON each | none |
#[derive(Clone, Debug)]
pub struct Environment {
    /// The machine.
    pub config: SimConfig,
    /// How long a kernel takes, microseconds.
    pub kernel_us: u64,
    /// Where calls are logged.
    pub log: Option<PathBuf>,
}

/// The prefix of all variables.
pub const PREFIX: &str = "MILLPOND_SIM_";

/// The variable that `millpond sim` sets to 1 for the program that it starts. Without it the simulated libraries do not
/// start: nobody gets them by accident.
pub const MARK: &str = "MILLPOND_SIM";

/// A variable with a value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}='{value}': {why}")]
pub struct EnvironmentError {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub why: String,
}

impl Environment {
    /// Reads the variables of this process.
    ///
    /// # Errors
    /// [`EnvironmentError`], which names the variable and what is allowed.
    pub fn of_process() -> Result<Self, EnvironmentError> {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self::from_variables(std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// Reads variables; those without the prefix are passed over.
    ///
    /// # Errors
    /// As [`Environment::of_process`].
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, EnvironmentError> {
        let mut device = DeviceConfig::default();
        let mut count = 1u32;
        let mut read = Environment { config: SimConfig::default(), kernel_us: 10, log: None };
        for (variable, value) in variables {
            let Some(key) = variable.strip_prefix(PREFIX) else { continue };
            let outcome = match key {
                "CAPACITY" => parsed(&value).map(|bytes: Bytes| device.capacity = bytes),
                "OTHERS" => parsed(&value).map(|bytes: Bytes| device.others = bytes),
                "DEVICES" => match value.parse() {
                    Ok(number @ 0..=64) => {
                        count = number;
                        Ok(())
                    }
                    _ => Err("a number from 0 to 64 is allowed".to_owned()),
                },
                "COMPUTE" => compute(&value).map(|compute| device.caps.compute = compute),
                "EVENTS" => events(&value).map(|mode| read.config.events = mode),
                "FAULTS" => parse_faults(&value).map(|faults| read.config.faults = faults),
                "BACKING" => switch(&value).map(|on| read.config.backing = on),
                "CAPTURE_CHECKS" => switch(&value).map(|on| read.config.capture_checks = on),
                "KERNEL_US" => parsed(&value).map(|us| read.kernel_us = us),
                "COST" => cost(&value).map(|cost| read.config.cost = cost),
                "LOG" if value.is_empty() => Err("the name of a file is needed".to_owned()),
                "LOG" => {
                    read.log = Some(value.clone().into());
                    Ok(())
                }
                _ => Err("there is no such variable".to_owned()),
            };
            outcome.map_err(|why| EnvironmentError { variable, value, why })?;
        }
        // Memory that the host reads directly would have to be real, which device addresses here are not.
        device.caps.managed = false;
        device.caps.total = device.capacity;
        read.config.devices = vec![device; count as usize];
        read.config.log = read.log.is_some();
        Ok(read)
    }
}

/// Reads rules by which calls fail: `CALL:WHEN:CODE`, separated by commas, each with `:sticky` behind it if the device is
/// broken from then on.
///
/// CALL is CUDA's name (`cuMemCreate`) or `any`; WHEN is `3` (the third), `3+` (the third and all after it) or `every3`;
/// CODE is CUDA's name with or without `CUDA_ERROR_`, or a number: `cuMemCreate:3:OUT_OF_MEMORY`.
///
/// # Errors
/// What is allowed, as a sentence.
pub fn parse_faults(text: &str) -> Result<Vec<FaultRule>, String> {
    text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).map(fault).collect()
}

fn fault(text: &str) -> Result<FaultRule, String> {
    let mut parts = text.split(':');
    let (Some(call), Some(when), Some(code)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("'{text}' is not a rule: write CALL:WHEN:CODE, such as cuMemCreate:3:OUT_OF_MEMORY"));
    };
    let sticky = match (parts.next(), parts.next()) {
        (None, _) => false,
        (Some("sticky"), None) => true,
        _ => return Err(format!("'{text}': only 'sticky' may follow the code")),
    };
    let calls = match call {
        "any" => FaultCalls::Any,
        _ => match CallKind::from_name(call) {
            Some(kind) => FaultCalls::Only(kind),
            None => return Err(format!("there is no call '{call}'; calls have CUDA's names, such as cuMemMap")),
        },
    };
    let number = |text: &str| match text.parse() {
        Ok(number @ 1u64..) => Ok(number),
        _ => Err(format!("'{when}' is not a time: write 3 (the third), 3+ (and all after it) or every3")),
    };
    let when = match (when.strip_suffix('+'), when.strip_prefix("every")) {
        (Some(first), _) => FaultWhen::From(number(first)?),
        (_, Some(step)) => FaultWhen::Every(number(step)?),
        _ => FaultWhen::Nth(number(when)?),
    };
    let name = code.strip_prefix("CUDA_ERROR_").unwrap_or(code);
    let known =
        || (1..1000).map(Code).find(|code| code.name().is_some_and(|each| each.strip_prefix("ERROR_") == Some(name)));
    let code = match code.parse() {
        Ok(number @ 1..) => Code(number),
        _ => known()
            .ok_or_else(|| format!("there is no error '{code}'; errors have CUDA's names, such as OUT_OF_MEMORY"))?,
    };
    Ok(FaultRule { calls, when, code, sticky })
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err("1 and 0 are allowed".to_owned()),
    }
}

fn events(value: &str) -> Result<EventMode, String> {
    match value {
        "immediate" => Ok(EventMode::Immediate),
        "manual" => Ok(EventMode::Manual),
        "timed" => Ok(EventMode::Timed),
        _ => Err("immediate, manual and timed are allowed".to_owned()),
    }
}

fn compute(value: &str) -> Result<(u32, u32), String> {
    let parts = value.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| "a compute capability is two numbers, such as 9.0".to_owned())
}

fn cost(value: &str) -> Result<CostTable, String> {
    let text = std::fs::read_to_string(value).map_err(|error| error.to_string())?;
    CostTable::from_json(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment, EnvironmentError> {
        let variable = |&(key, value): &(&str, &str)| (format!("{PREFIX}{key}"), value.to_owned());
        Environment::from_variables(pairs.iter().map(variable))
    }

    #[test]
    fn variables_describe_a_machine() {
        let read = read(&[
            ("CAPACITY", "24G"),
            ("OTHERS", "1.5GiB"),
            ("DEVICES", "2"),
            ("COMPUTE", "8.6"),
            ("EVENTS", "manual"),
            ("FAULTS", "cuMemCreate:3:OUT_OF_MEMORY, any:every5:CUDA_ERROR_UNKNOWN:sticky,cuMemMap:2+:205"),
            ("BACKING", "1"),
            ("LOG", "calls.jsonl"),
        ])
        .unwrap();
        assert_eq!(read.config.devices.len(), 2);
        assert_eq!(read.config.devices[1].capacity, Bytes(24 << 30));
        assert_eq!(read.config.devices[0].others, Bytes(3 << 29));
        assert_eq!(read.config.devices[0].caps.compute, (8, 6));
        assert_eq!(read.config.events, EventMode::Manual);
        assert!(read.config.backing && read.config.log);
        let faults = [
            FaultRule::nth(CallKind::Create, 3, Code::ERROR_OUT_OF_MEMORY),
            FaultRule { calls: FaultCalls::Any, when: FaultWhen::Every(5), code: Code::ERROR_UNKNOWN, sticky: true },
            FaultRule {
                calls: FaultCalls::Only(CallKind::Map),
                when: FaultWhen::From(2),
                code: Code(205),
                sticky: false,
            },
        ];
        assert_eq!(read.config.faults, faults);
    }

    #[test]
    fn what_is_not_allowed_is_an_error_with_the_variable_and_the_value() {
        for (key, value, says) in [
            ("CAPACITY", "lots", "not a size"),
            ("DEVICES", "65", "0 to 64"),
            ("EVENTS", "Manual", "immediate, manual"),
            ("BACKING", "yes", "1 and 0"),
            ("COMPUTE", "9", "two numbers"),
            ("KERNEL_US", "-1", "invalid digit"),
            ("COST", "/nowhere/cost.json", "No such file"),
            ("LOG", "", "name of a file"),
            ("FAULTS", "cuMemCreate", "CALL:WHEN:CODE"),
            ("FAULTS", "cuMemMop:1:2", "cuMemMop"),
            ("FAULTS", "cuMemMap:0:2", "every3"),
            ("FAULTS", "cuMemMap:1:OUT_OF_LUCK", "OUT_OF_LUCK"),
            ("FAULTS", "cuMemMap:1:2:often", "sticky"),
            ("CAPACTY", "1G", "no such variable"),
        ] {
            let error = read(&[(key, value)]).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!((error.variable, error.value), (format!("{PREFIX}{key}"), value.to_owned()));
        }
    }
}
