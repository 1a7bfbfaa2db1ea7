//! Settings from the environment: which variable wins, which are ignored (R10.1, R10.2).

use std::fmt;

use super::error::{ConfigError, Moment};
use super::keys::Owner;
use super::settings::Settings;
use super::warning::Warning;
use super::{parse, strict};

/// A variable that settings are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// `PYTORCH_CUDA_ALLOC_CONF`, the old name, which wins.
    Cuda,
    /// `PYTORCH_HIP_ALLOC_CONF`, read for the generic keys even by CUDA builds.
    Hip,
    /// `PYTORCH_ALLOC_CONF`, the name in the documentation.
    Alloc,
    /// `MILLPOND_CONF`, laid over the others.
    Millpond,
}

impl Variable {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Variable::Cuda => "PYTORCH_CUDA_ALLOC_CONF",
            Variable::Hip => "PYTORCH_HIP_ALLOC_CONF",
            Variable::Alloc => "PYTORCH_ALLOC_CONF",
            Variable::Millpond => "MILLPOND_CONF",
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A variable and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The variable.
    pub variable: Variable,
    /// Its value.
    pub text: String,
}

/// Which variables are read. A variable counts as set even when it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Where PyTorch's generic keys come from: the first set of CUDA's, HIP's and the plain name (R10.1).
    pub generic: Option<Source>,
    /// Where the backend and CUDA's keys come from: the first set of CUDA's and the plain name (R10.2).
    pub cuda: Option<Source>,
    /// Millpond's own variable.
    pub millpond: Option<Source>,
    /// The variables that are set and that nothing is read from.
    pub ignored: Vec<Source>,
}

impl Sources {
    /// Finds out who wins. `env` answers with the value of a variable.
    pub fn from_env(env: &impl Fn(&str) -> Option<String>) -> Sources {
        let set = |variable: Variable| env(variable.name()).map(|text| Source { variable, text });
        let (cuda, hip, alloc) = (set(Variable::Cuda), set(Variable::Hip), set(Variable::Alloc));
        let for_generic = cuda.clone().or(hip.clone()).or(alloc.clone());
        let for_cuda = cuda.clone().or(alloc.clone());
        let is_read = |source: &Source| {
            [&for_generic, &for_cuda].into_iter().flatten().any(|read| read.variable == source.variable)
        };
        let ignored = [cuda, hip, alloc].into_iter().flatten().filter(|source| !is_read(source)).collect();
        Sources { generic: for_generic, cuda: for_cuda, millpond: set(Variable::Millpond), ignored }
    }
}

/// Settings and where they came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FromEnv {
    /// The settings.
    pub settings: Settings,
    /// Which variables were read.
    pub sources: Sources,
    /// What PyTorch would warn of.
    pub warnings: Vec<Warning>,
}

/// An error in the value of a variable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{variable}: {error}")]
pub struct EnvError {
    /// The variable.
    pub variable: Variable,
    /// What is wrong with its value.
    #[source]
    pub error: ConfigError,
}

impl Settings {
    /// The settings of a process that starts in this environment: PyTorch's variables by PyTorch's rules, then `MILLPOND_CONF`
    /// over them. `env` answers with the value of a variable; `&|name| std::env::var(name).ok()` asks the process.
    pub fn from_env(env: &impl Fn(&str) -> Option<String>) -> Result<FromEnv, EnvError> {
        let sources = Sources::from_env(env);
        let text = |source: &Option<Source>| source.as_ref().map_or_else(String::new, |source| source.text.clone());
        let (mut settings, mut warnings) =
            parse::start(&text(&sources.generic), &text(&sources.cuda)).map_err(|refused| {
                let source = if refused.by == Owner::Cuda { &sources.cuda } else { &sources.generic };
                let variable = source.as_ref().map_or(Variable::Alloc, |source| source.variable);
                EnvError { variable, error: refused.error }
            })?;
        if let Some(source) = &sources.millpond {
            let more = strict::apply(&mut settings, &source.text, Moment::FirstUse)
                .map_err(|error| EnvError { variable: Variable::Millpond, error })?;
            warnings.extend(more);
        }
        Ok(FromEnv { settings, sources, warnings })
    }
}

/// Whether the environment turns caching off, and what PyTorch warns of (R10.40): exactly "1" does, "0" does not, other values
/// count as not set.
pub fn caching_disabled_from_env(env: &impl Fn(&str) -> Option<String>) -> (bool, Vec<Warning>) {
    let mut warnings = Vec::new();
    for variable in ["PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING"] {
        match env(variable).as_deref() {
            Some("1") => return (true, warnings),
            None | Some("0") => {}
            Some(value) => warnings.push(Warning::CachingSwitch { variable, value: value.into() }),
        }
    }
    (false, warnings)
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Backend, MIB, PageReuse};
    use super::*;

    fn env<'v>(set: &'v [(&'v str, &'v str)]) -> impl Fn(&str) -> Option<String> + 'v {
        |name| set.iter().find(|(variable, _)| *variable == name).map(|(_, text)| text.to_string())
    }

    fn settings(set: &[(&str, &str)]) -> Settings {
        Settings::from_env(&env(set)).unwrap().settings
    }

    const CUDA: &str = "PYTORCH_CUDA_ALLOC_CONF";
    const HIP: &str = "PYTORCH_HIP_ALLOC_CONF";
    const ALLOC: &str = "PYTORCH_ALLOC_CONF";
    const MILLPOND: &str = "MILLPOND_CONF";

    #[test]
    fn c59_the_old_name_wins_outright() {
        let text = "expandable_segments:True";
        let alone = settings(&[(ALLOC, text)]);
        assert!(alone.expandable_segments);
        assert_eq!(settings(&[(CUDA, text)]), alone);
        assert_eq!(settings(&[(CUDA, text), (ALLOC, text)]), alone);

        let both = Settings::from_env(&env(&[(CUDA, "max_split_size_mb:128"), (ALLOC, text)])).unwrap();
        assert!(!both.settings.expandable_segments, "not even keys that the winner does not name");
        assert_eq!(both.sources.ignored, [Source { variable: Variable::Alloc, text: text.into() }]);
        assert_eq!(both.sources.generic.unwrap().variable, Variable::Cuda);
    }

    #[test]
    fn r10_1_an_empty_variable_is_set() {
        assert!(!settings(&[(CUDA, ""), (ALLOC, "expandable_segments:True")]).expandable_segments);
        assert_eq!(settings(&[]), Settings::default());
    }

    #[test]
    fn r10_2_the_variable_of_hip_is_read_for_the_generic_keys_alone() {
        let set = [
            (HIP, "max_split_size_mb:128,release_lock_on_cudamalloc:True"),
            (ALLOC, "max_split_size_mb:256,pinned_free_catch_all:True,backend:native"),
        ];
        let read = settings(&set);
        assert_eq!(read.max_split_size, 128 * MIB);
        assert!(read.pinned_free_catch_all && !read.release_lock_on_cudamalloc);
        assert_eq!(settings(&[(HIP, "backend:cudaMallocAsync")]).backend, Backend::Native);
    }

    #[test]
    fn the_variable_of_millpond_is_laid_over_the_others() {
        let read = settings(&[
            (CUDA, "max_split_size_mb:128,expandable_segments:True"),
            (MILLPOND, "preset:millpond,expandable_segments:False,page_reuse:always"),
        ]);
        assert_eq!((read.max_split_size, read.page_reuse), (128 * MIB, PageReuse::Always));
        assert!(!read.expandable_segments && read.retry_after_sync);
    }

    #[test]
    fn c57_an_error_names_its_variable_and_quotes_the_string() {
        let error = Settings::from_env(&env(&[(ALLOC, "expandable_segments")])).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("PYTORCH_ALLOC_CONF: ") && text.contains("\"expandable_segments\""), "{text}");
        let error = Settings::from_env(&env(&[(MILLPOND, "x:1")])).unwrap_err();
        assert_eq!(error.variable, Variable::Millpond);
    }

    #[test]
    fn r10_40_caching_is_off_for_exactly_one() {
        let cuda = "PYTORCH_NO_CUDA_MEMORY_CACHING";
        let hip = "PYTORCH_NO_HIP_MEMORY_CACHING";
        let disabled = |set: &[(&str, &str)]| caching_disabled_from_env(&env(set));
        assert_eq!(disabled(&[]), (false, vec![]));
        assert_eq!(disabled(&[(cuda, "1")]), (true, vec![]));
        assert_eq!(disabled(&[(hip, "1")]), (true, vec![]));
        assert_eq!(disabled(&[(cuda, "0")]), (false, vec![]));
        let (is_disabled, warnings) = disabled(&[(cuda, "true")]);
        assert!(!is_disabled);
        assert_eq!(warnings, [Warning::CachingSwitch { variable: cuda, value: "true".into() }]);
    }
}
