//! Calls that fail on purpose.

use millpond_driver::Code;

use crate::calls::CallKind;

/// Makes calls fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// Which calls count.
    pub calls: FaultCalls,
    /// Which of those fail.
    pub when: FaultWhen,
    /// What the failing call answers.
    pub code: Code,
    /// Whether the device is broken from then on: every later call fails with the same code, and the error stays
    /// pending, as after an illegal address.
    pub sticky: bool,
}

/// The calls that a [`FaultRule`] counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultCalls {
    /// All.
    Any,
    /// Those of one kind.
    Only(CallKind),
    /// Those of several kinds, counted together.
    OneOf(Vec<CallKind>),
}

/// Which of the counted calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultWhen {
    /// The n-th since the rule was made, from 1.
    Nth(u64),
    /// The n-th and all after it.
    From(u64),
    /// Every n-th.
    Every(u64),
    /// The one with this number among all calls of the simulation, from 0 ([`Sim::calls_made`](crate::Sim::calls_made)).
    At(u64),
}

impl FaultRule {
    /// The `n`-th call of `kind` (from 1) fails with `code`, once.
    pub fn nth(kind: CallKind, n: u64, code: Code) -> Self {
        FaultRule { calls: FaultCalls::Only(kind), when: FaultWhen::Nth(n), code, sticky: false }
    }

    /// The call with the number `index` among all calls (from 0) fails with `code`.
    pub fn at(index: u64, code: Code) -> Self {
        FaultRule { calls: FaultCalls::Any, when: FaultWhen::At(index), code, sticky: false }
    }

    /// The same rule, breaking the device.
    pub fn sticky(self) -> Self {
        FaultRule { sticky: true, ..self }
    }

    fn counts(&self, kind: CallKind) -> bool {
        match &self.calls {
            FaultCalls::Any => true,
            FaultCalls::Only(only) => *only == kind,
            FaultCalls::OneOf(kinds) => kinds.contains(&kind),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The rules, each with the calls it has counted.
    rules: Vec<(FaultRule, u64)>,
    pub injected: u64,
}

impl Faults {
    pub fn new(rules: &[FaultRule]) -> Self {
        Faults { rules: rules.iter().map(|rule| (rule.clone(), 0)).collect(), injected: 0 }
    }

    pub fn add(&mut self, rule: FaultRule) {
        self.rules.push((rule, 0));
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// The rule that makes call `index`, of `kind`, fail.
    pub fn strike(&mut self, kind: CallKind, index: u64) -> Option<(Code, bool)> {
        let mut struck = None;
        for (rule, seen) in &mut self.rules {
            if !rule.counts(kind) {
                continue;
            }
            *seen += 1;
            let hit = match rule.when {
                FaultWhen::Nth(n) => *seen == n,
                FaultWhen::From(n) => *seen >= n,
                FaultWhen::Every(n) => n != 0 && *seen % n == 0,
                FaultWhen::At(at) => index == at,
            };
            if hit && struck.is_none() {
                struck = Some((rule.code, rule.sticky));
            }
        }
        self.injected += u64::from(struck.is_some());
        struck
    }
}
