//! What the environment says, and who wins.

use crate::config::Dialect;
use crate::config::env::{EnvError, FromEnv, Source, Sources, Variable, caching_disabled_from_env};
use crate::config::settings::Settings;

use super::{Explanation, Notice, NoticeKind, explain};

/// Everything there is to say about an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvExplanation {
    /// Which variables are read and which are not.
    pub sources: Sources,
    /// Each variable that is read, with what its value says.
    pub variables: Vec<(Variable, Explanation)>,
    /// What is to be said about the variables themselves.
    pub notices: Vec<Notice>,
    /// Whether caching is turned off (R10.40).
    pub is_caching_disabled: bool,
    /// The settings they make together, or the first error.
    pub outcome: Result<Settings, EnvError>,
}

/// Explains an environment; `env` answers with the value of a variable.
pub fn explain_env(env: &impl Fn(&str) -> Option<String>) -> EnvExplanation {
    let sources = Sources::from_env(env);
    let (is_caching_disabled, warnings) = caching_disabled_from_env(env);
    let mut notices = about_variables(&sources);
    notices.extend(warnings.iter().filter_map(super::from_warning));
    EnvExplanation {
        variables: read(&sources).map(|(source, dialect)| (source.variable, explain(&source.text, dialect))).collect(),
        outcome: Settings::from_env(env).map(|FromEnv { settings, .. }| settings),
        sources,
        notices,
        is_caching_disabled,
    }
}

/// The variables that are read, each once, in the order they take effect.
fn read(sources: &Sources) -> impl Iterator<Item = (&Source, Dialect)> {
    let cuda = sources.cuda.as_ref().filter(|cuda| sources.generic.as_ref() != Some(cuda));
    let torch = [sources.generic.as_ref(), cuda].into_iter().flatten().map(|source| (source, Dialect::Torch));
    torch.chain(sources.millpond.as_ref().map(|source| (source, Dialect::Millpond)))
}

fn about_variables(sources: &Sources) -> Vec<Notice> {
    let mut notices = Vec::new();
    if let Some(winner) = &sources.generic {
        for loser in sources.ignored.iter().filter(|loser| loser.text != winner.text) {
            let message = format!(
                "{} is ignored, also for keys that {} does not name: where both are set the latter wins outright.",
                loser.variable, winner.variable
            );
            notices.push(Notice { kind: NoticeKind::IgnoredVariable, at: None, message });
        }
    }
    if let Some(generic) = sources.generic.as_ref().filter(|generic| generic.variable == Variable::Hip)
        && sources.cuda.as_ref().is_none_or(|cuda| cuda.text != generic.text)
    {
        let cuda = sources.cuda.as_ref().map_or("nothing".into(), |cuda| cuda.variable.to_string());
        let message = format!(
            "{} is read for the keys of all accelerators alone; the backend and the keys of CUDA are read from {cuda}.",
            generic.variable
        );
        notices.push(Notice { kind: NoticeKind::SplitVariables, at: None, message });
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(set: &[(&str, &str)]) -> EnvExplanation {
        explain_env(&|name: &str| set.iter().find(|(variable, _)| *variable == name).map(|(_, text)| text.to_string()))
    }

    fn kinds(set: &[(&str, &str)]) -> Vec<NoticeKind> {
        told(set).notices.iter().map(|notice| notice.kind).collect()
    }

    #[test]
    fn c59_an_ignored_variable_is_told_when_it_differs() {
        let (old, new) = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF");
        assert_eq!(
            kinds(&[(old, "max_split_size_mb:128"), (new, "expandable_segments:True")]),
            [NoticeKind::IgnoredVariable]
        );
        assert_eq!(kinds(&[(old, "max_split_size_mb:128"), (new, "max_split_size_mb:128")]), []);
        assert_eq!(kinds(&[(new, "expandable_segments:True")]), []);
        let message = &told(&[(old, ""), (new, "expandable_segments:True")]).notices[0].message;
        assert!(message.starts_with("PYTORCH_ALLOC_CONF is ignored"), "{message}");
    }

    #[test]
    fn r10_2_a_variable_that_is_read_in_part_is_told() {
        let (hip, new) = ("PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF");
        assert_eq!(kinds(&[(hip, "max_split_size_mb:128")]), [NoticeKind::SplitVariables]);
        let explanation = told(&[(hip, "max_split_size_mb:128"), (new, "backend:native")]);
        let variables: Vec<_> = explanation.variables.iter().map(|(variable, _)| *variable).collect();
        assert_eq!(variables, [Variable::Hip, Variable::Alloc]);
        assert_eq!(explanation.notices[0].kind, NoticeKind::SplitVariables);
    }

    #[test]
    fn the_variables_are_told_in_the_order_they_take_effect() {
        let explanation = told(&[
            ("MILLPOND_CONF", "preset:millpond"),
            ("PYTORCH_ALLOC_CONF", "expandable_segments:True"),
            ("PYTORCH_NO_CUDA_MEMORY_CACHING", "yes"),
        ]);
        let variables: Vec<_> = explanation.variables.iter().map(|(variable, _)| *variable).collect();
        assert_eq!(variables, [Variable::Alloc, Variable::Millpond]);
        assert_eq!(explanation.notices[0].kind, NoticeKind::CachingSwitch);
        let settings = explanation.outcome.unwrap();
        assert!(settings.expandable_segments && settings.retry_after_sync && !explanation.is_caching_disabled);
    }
}
