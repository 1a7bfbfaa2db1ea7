//! Workloads as text, in the shapes that the scanner reads fastest.

use std::io::{self, Write};

use super::Workload;
use super::op::{Launch, Op};

impl Workload {
    /// Writes the requests, one a line.
    ///
    /// # Errors
    /// The writer's own.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.ops.iter().try_for_each(|op| writeln!(out, "{op}"))
    }
}

/// A text as JSON writes it.
struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| std::fmt::Error)?)
    }
}

impl std::fmt::Display for Op {
    /// The request as its line in a workload, without the line's end.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Op::Alloc { id, size, stream, pool } => {
                write!(f, r#"{{"op":"alloc","id":{id},"size":{size},"stream":{stream}"#)?;
                if let Some(pool) = pool {
                    write!(f, r#","pool":{pool}"#)?;
                }
                f.write_str("}")
            }
            Op::Free { id } => write!(f, r#"{{"op":"free","id":{id}}}"#),
            Op::RecordStream { id, stream } => write!(f, r#"{{"op":"record_stream","id":{id},"stream":{stream}}}"#),
            Op::Complete { id } => write!(f, r#"{{"op":"complete","id":{id}}}"#),
            Op::Advance { n } => write!(f, r#"{{"op":"advance","n":{n}}}"#),
            Op::Sync => f.write_str(r#"{"op":"sync"}"#),
            Op::StreamSync { stream } => write!(f, r#"{{"op":"stream_sync","stream":{stream}}}"#),
            Op::ForkJoin { a, b } => write!(f, r#"{{"op":"fork_join","a":{a},"b":{b}}}"#),
            Op::EventRecord { event, stream } => {
                write!(f, r#"{{"op":"event_record","event":{event},"stream":{stream}}}"#)
            }
            Op::EventWait { event, stream } => write!(f, r#"{{"op":"event_wait","event":{event},"stream":{stream}}}"#),
            Op::Work { id, stream } => write!(f, r#"{{"op":"work","id":{id},"stream":{stream}}}"#),
            Op::Launch(launch) => write_launch(f, launch),
            Op::EmptyCache => f.write_str(r#"{"op":"empty_cache"}"#),
            Op::Checkpoint => f.write_str(r#"{"op":"checkpoint"}"#),
            Op::PoolCreate { pool, use_on_oom, no_split } => {
                write!(f, r#"{{"op":"pool_create","pool":{pool}"#)?;
                if *use_on_oom {
                    f.write_str(r#","use_on_oom":true"#)?;
                }
                if *no_split {
                    f.write_str(r#","no_split":true"#)?;
                }
                f.write_str("}")
            }
            Op::PoolDestroy { pool } => write!(f, r#"{{"op":"pool_destroy","pool":{pool}}}"#),
            Op::PoolEnter { pool } => write!(f, r#"{{"op":"pool_enter","pool":{pool}}}"#),
            Op::PoolLeave { pool } => write!(f, r#"{{"op":"pool_leave","pool":{pool}}}"#),
            Op::SetFraction { fraction } => write!(f, r#"{{"op":"set_fraction","fraction":{fraction}}}"#),
            Op::SetConf { conf } => write!(f, r#"{{"op":"set_conf","conf":{}}}"#, Quoted(conf)),
            Op::CaptureBegin { graph, share, stream } => {
                write!(f, r#"{{"op":"capture_begin","graph":{graph},"share":{share},"stream":{stream}}}"#)
            }
            Op::CaptureEnd { graph } => write!(f, r#"{{"op":"capture_end","graph":{graph}}}"#),
            Op::Replay { graph } => write!(f, r#"{{"op":"replay","graph":{graph}}}"#),
            Op::GraphReset { graph } => write!(f, r#"{{"op":"graph_reset","graph":{graph}}}"#),
            Op::Device { device } => write!(f, r#"{{"op":"device","device":{device}}}"#),
        }
    }
}

fn write_launch(f: &mut std::fmt::Formatter<'_>, launch: &Launch) -> std::fmt::Result {
    let Launch { stream, us, reads, writes, label } = launch;
    write!(f, r#"{{"op":"launch","stream":{stream},"us":{us},"reads":{reads:?},"writes":{writes:?}"#)?;
    if !label.is_empty() {
        write!(f, r#","label":{}"#, Quoted(label))?;
    }
    f.write_str("}")
}
