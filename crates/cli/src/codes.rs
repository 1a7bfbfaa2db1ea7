//! The table of error codes: the only place where one is made.
//!
//! A code is for good: it is never given to another error, and one that no error uses any more keeps its number.

use std::fmt;

macro_rules! codes {
    ($($number:literal $name:ident $title:literal, means $means:literal, do $remedy:literal;)*) => {
        /// What kind of error it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Code {
            $(#[doc = $title] $name = $number,)*
        }

        impl Code {
            /// All of them, by number.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// What it is, in a few words.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// What it means, in a few sentences.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$name => $means,)* }
            }

            /// What to do about it.
            pub const fn remedy(self) -> &'static str {
                match self { $(Code::$name => $remedy,)* }
            }
        }
    };
}

codes! {
    1 Usage "the command line is not understood",
        means "A verb, an option or a value is not one that millpond knows, or one that it needs is missing. Nothing was done.",
        do "`millpond --help` lists the verbs, `millpond help VERB` the options of one. A size is written as plain bytes or as a \
            decimal with K, M, G or T (18.5G), always powers of two.";
    2 CannotRead "the file cannot be read",
        means "The operating system refused to open or read the file: it does not exist, it is a folder, or its permissions \
               forbid it.",
        do "Check the path. A glob that matches nothing is handed on by the shell as it stands.";
    3 EmptyFile "the file is empty",
        means "There is not a single byte in it. A program that dies while it writes its snapshot leaves such a file behind.",
        do "Write the snapshot again. From an out-of-memory observer \
            (torch._C._cuda_attach_out_of_memory_observer) it holds the moment of the failure.";
    4 DamagedPacking "packed data is damaged",
        means "The file begins as gzip or zstd but cannot be unpacked to its end: it is cut off, or bytes of it were changed.",
        do "Compare its size or checksum with the original and copy it again.";
    5 UnpacksTooFar "packed data unpacks to too much",
        means "The file unpacks to more than 64 times its size. Real snapshots and workloads stay far below; a file that is built \
               to fill the memory does not.",
        do "If you trust the file, unpack it first, or allow it with --allow-expansion.";
    6 HostilePickle "the pickle asks to run code",
        means "A pickle can ask its reader to import and call any Python function. A memory snapshot holds plain data alone, so \
               this file is not one, or somebody has tampered with it. Nothing of it was run.",
        do "Do not open the file with Python's pickle either. If it came from torch.save, it is a model and not a snapshot: \
            snapshots come from torch.cuda.memory._dump_snapshot.";
    7 DamagedPickle "the pickle is damaged or cut off",
        means "The file begins as a pickle and breaks the format at the named byte. Most often it was cut off: the program died \
               while it wrote, or a copy was not finished.",
        do "Compare its size with the original and copy it again, or write the snapshot again.";
    8 TooMuchMemory "reading would take too much memory",
        means "A file may take sixteen times its unpacked size and 64 MiB. A real snapshot needs a fraction of that; a file \
               that is built to exhaust memory needs more.",
        do "There is no way around this bound. If a real snapshot meets it, please report the file's origin.";
    9 DamagedJson "the JSON is damaged",
        means "The file begins as JSON and breaks the format at the named line and column.",
        do "Write it again, or check the place named.";
    10 NotASnapshot "this is not a memory snapshot",
        means "The file holds plain data, but not in the form of a snapshot: a dict with the key \"segments\", or a list of \
               segments, as torch.cuda.memory._dump_snapshot writes it.",
        do "torch.cuda.memory._snapshot() returns the same data for json.dump; torch.cuda.memory_stats() does not.";
    11 UnknownContent "the file is neither a snapshot nor a workload",
        means "What a file is, is told from its content: a snapshot is a pickle or JSON, a workload has one JSON object with an \
               \"op\" a line; both may be packed with gzip or zstd.",
        do "Check that it is the file you meant. The recording of an outcome (*.out.jsonl) is for `millpond parity`.";
    12 BadWorkload "a line of the workload is no request",
        means "A workload has one request a line, as a JSON object with an \"op\" and the fields of that operation. The named \
               line is something else.",
        do "docs/workload-format.md lists every operation and its fields.";
    13 BadSetting "a setting is refused",
        means "The settings string has an unknown key, a value that the key cannot take, or is not written as \
               key:value,key:value. PyTorch's own reaction differs: some faults raise, some abort when torch is imported, and \
               some are accepted silently and do something else.",
        do "`millpond conf \"STRING\"` marks the place, says what is allowed, and what PyTorch 2.15 does with it.";
    14 UnknownScenario "there is no such scenario",
        means "A scenario is a seeded generator of requests that comes with millpond.",
        do "`millpond replay --scenario list` names them.";
    15 BadAssertion "the assertion is not understood",
        means "An assertion is a numeric field of the JSON answer, a comparison and a value: 'peak_reserved < 70GiB'. The \
               comparisons are < <= == != >= >. Sizes may carry a unit.",
        do "`millpond replay FILE --json` shows the fields. Quote the assertion, or the shell takes < and > for itself.";
    16 AssertionFailed "an assertion does not hold",
        means "The replay was done, and the figure is not what --assert says it must be. The exit status is 1.",
        do "The line names the figure. `--json` has all of them.";
    17 NoRecording "there is nothing to compare",
        means "`millpond parity` takes outcome files (SCENARIO__CONFIG.out.jsonl, plain or packed) and folders that hold some, \
               and finds the requests (SCENARIO.req.jsonl) beside each. The path has no such file, or the requests are missing.",
        do "Name the folder that holds both kinds of files. Subfolders are not looked into.";
    18 BadRecording "a recording cannot be read",
        means "An outcome file or its requests are damaged, or say something that makes no sense. It was counted as different.",
        do "The line of the file says what is wrong and where.";
    19 BadRequest "a request makes no sense",
        means "The workload was read, but a request refers to something that is not there: an allocation that was never made or \
               was freed before, an unknown pool, graph or event. The requests before it were carried out.",
        do "The message names the request, counted from 0. A workload that begins in the middle of a program needs the \
            allocations that were live then.";
    20 BadMachine "the simulated machine cannot be made",
        means "The capacity, the share of others and the settings contradict each other or the driver's own rules.",
        do "Give a --capacity of 2MiB or more, and --others below it.";
    21 CannotWrite "the answer cannot be written",
        means "The operating system refused to write: the disk is full, or the folder does not exist or must not be written to. \
               A file that was there before is untouched, for files are written beside their place and then renamed.",
        do "Free some space, or name another place.";
    22 Unexplained "there is no such error code",
        means "Codes are written MP and four digits: MP0007.",
        do "`millpond explain` lists them all.";
    23 CannotReplay "the snapshot cannot be replayed",
        means "The file is a snapshot, but its trace cannot be turned into requests: it holds none, or it contradicts the \
               segments it ends with.",
        do "`millpond stats FILE` says what the snapshot holds. A trace is there if \
            torch.cuda.memory._record_memory_history() was called before.";
    24 NoDriver "there is no CUDA driver",
        means "libcuda.so.1 was not found, lacks functions that every driver since CUDA 11.3 has, or does not start. What was \
               tried, or is missing, stands in the message.",
        do "Install the vendor's driver, or name its library in MILLPOND_LIBCUDA. `millpond sim -- millpond device` shows the \
            simulated device, which needs none.";
    25 RealDriver "this machine has a real driver",
        means "`millpond sim` puts simulated libraries in the place of the vendor's. It does not do that where there is a real \
               device, so that nobody takes one for the other. The message names what was found.",
        do "Use it on a machine or in a container without the vendor's driver.";
    26 NoLibraries "the simulated libraries are not there",
        means "`millpond sim` needs three libraries of its own. It looks for them in the folder that MILLPOND_LIB names; without \
               that in ../lib/millpond beside the program, then in the program's own folder.",
        do "`cargo build --release --workspace` makes them beside the program.";
    27 CannotRun "the command cannot be started",
        means "The operating system did not start the program that stands behind the two dashes.",
        do "Check its name and its permissions: `millpond sim -- python train.py`.";
    28 HazardsFound "uses of memory are not in order",
        means "Memory is used while another stream may still be using it, or it was handed out again while a use by its former \
               owner may still be running. On a real device such a program reads and writes wrong data now and then. The exit \
               status is 1.",
        do "Each report ends with what would have prevented it: a record_stream before the free, or a wait of one stream for \
            another.";
}

impl Code {
    /// The code that is written so; the case of its letters does not matter, nor do leading zeros.
    pub fn find(text: &str) -> Option<Code> {
        let digits = text.get(..2).filter(|prefix| prefix.eq_ignore_ascii_case("MP")).map_or(text, |_| &text[2..]);
        let number = digits.parse::<u16>().ok()?;
        Code::ALL.iter().copied().find(|&code| code as u16 == number)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MP{:04}", *self as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_by_one_so_that_none_is_used_twice() {
        let numbers = Code::ALL.iter().map(|&code| code as u16);
        assert!(numbers.eq(1..=Code::ALL.len() as u16));
    }

    #[test]
    fn every_code_is_explained() {
        for &code in Code::ALL {
            for text in [code.meaning(), code.remedy()] {
                assert!(text.len() > 20 && text.ends_with(['.', ')']), "{code}: {text}");
                assert!(!text.contains("  "), "{code}: {text}");
            }
            assert!(!code.title().ends_with('.'), "{code}");
            assert_eq!(Code::find(&code.to_string()), Some(code));
        }
    }

    #[test]
    fn every_code_is_used_outside_of_the_table() {
        let mut sources = String::new();
        let mut paths = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if !path.ends_with("codes.rs") {
                sources.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
        for code in Code::ALL {
            assert!(sources.contains(&format!("Code::{code:?}")), "{code:?} is explained, but no error has it");
        }
    }

    #[test]
    fn codes_are_found_however_they_are_written() {
        assert_eq!(Code::find("MP0007"), Some(Code::DamagedPickle));
        assert_eq!(Code::find("mp7"), Some(Code::DamagedPickle));
        assert_eq!(Code::find("7"), Some(Code::DamagedPickle));
        for text in ["", "MP", "MP0000", "MP9999", "E0007", "é7", "MP-1"] {
            assert_eq!(Code::find(text), None, "{text}");
        }
    }
}
