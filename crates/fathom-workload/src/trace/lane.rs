//! One thread of a replay: its calls, when each begins, and whether each does what it did.

use std::collections::HashMap;
use std::time::Duration;

use fathom_trace::model::{DONE, OK, ROW, Step};
use fathom_trace::sql::Verb;

use super::load::{Call, Loaded, What};
use super::order::Order;
use super::wrong;
use crate::clock::now_ns;
use crate::engine::{Connection, Engine, EngineError, abridged};
use crate::recorder::Lane;
use crate::sample::Sink;
use crate::workload::WorkloadError;

/// When calls begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// At once after the call before.
    AsFast,
    /// When they began as captured, on a clock that runs so many times faster.
    Original {
        /// How many times.
        speed: f64,
    },
}

/// What a lane needs to know.
pub struct Run<'a> {
    pub number: usize,
    pub engine: &'a dyn Engine,
    pub loaded: &'a Loaded,
    pub order: &'a Order,
    pub timing: Timing,
    pub start_ns: u64,
}

/// What lanes have to say.
#[derive(Default)]
pub struct Report {
    /// Executions whose rows and changes are those that were captured.
    pub checked: u64,
    /// Executions of traces that do not tell rows and changes.
    pub unchecked: u64,
    /// How late calls began, ns, with timing = original.
    pub late_ns: Vec<u64>,
    /// Waits for locks: number, ns.
    pub lock_waits: Option<(u64, u64)>,
}

impl Report {
    /// Adds another lane's.
    pub fn add(&mut self, other: Report) {
        self.checked += other.checked;
        self.unchecked += other.unchecked;
        self.late_ns.extend(other.late_ns);
        self.lock_waits = match (self.lock_waits, other.lock_waits) {
            (Some((waits, ns)), Some((more, more_ns))) => Some((waits + more, ns + more_ns)),
            (known, other) => known.or(other),
        };
    }

    /// Tells checks and lateness.
    pub fn tell(mut self, sink: &mut dyn Sink) {
        sink.verified(format!(
            "{} executions returned and changed the rows that were captured",
            self.checked
        ));
        if self.unchecked > 0 {
            let words = format!(
                "{} executions ran without error; the trace does not tell their rows",
                self.unchecked
            );
            sink.verified(words);
        }
        self.late_ns.sort_unstable();
        if let Some(last) = self.late_ns.last() {
            let at =
                |share: f64| self.late_ns[((self.late_ns.len() - 1) as f64 * share) as usize] as f64 / 1e6;
            sink.warning(format!(
                "lateness against the captured times: median {:.3} ms, p99 {:.3} ms, at most {:.3} ms",
                at(0.5),
                at(0.99),
                *last as f64 / 1e6
            ));
        }
    }
}

impl Run<'_> {
    /// Makes all calls of a lane.
    pub fn calls(&self, calls: &[Call], mut record: Lane) -> Result<(Lane, Report), WorkloadError> {
        let mut state = State { run: self, connections: HashMap::new(), report: Report::default() };
        let done = state.all(calls, &mut record);
        match done {
            Ok(()) => {
                self.order.arrive(self.number, u64::MAX);
                state.close_all()?;
                Ok((record, state.report))
            }
            Err(error) => {
                self.order.stop();
                Err(error)
            }
        }
    }
}

struct State<'a> {
    run: &'a Run<'a>,
    connections: HashMap<u32, Box<dyn Connection>>,
    report: Report,
}

impl State<'_> {
    /// Calls up to the end of a transaction, or of a statement outside of one, are one execution of the phase. With captured times
    /// each call is, so that no pause counts.
    fn all(&mut self, calls: &[Call], record: &mut Lane) -> Result<(), WorkloadError> {
        let mut from = 0;
        while from < calls.len() {
            let ends = |call: &Call| match &call.what {
                What::Step { step, .. } => step.outcome.code != ROW && !step.in_transaction,
                What::Open(_) | What::Close => true,
                _ => false,
            };
            let length = match self.run.timing {
                Timing::AsFast => calls[from..].iter().position(ends).map_or(calls.len() - from, |at| at + 1),
                Timing::Original { .. } => 1,
            };
            let unit = &calls[from..from + length];
            from += length;
            self.pause(&unit[0]);
            let has_step = unit.iter().any(|call| matches!(call.what, What::Step { .. }));
            if has_step {
                record.time(|| self.unit(unit))?;
            } else if unit.iter().any(|call| matches!(call.what, What::Open(_))) {
                // Setting up the cell's settings is no work of the application.
                self.unit(unit)?;
            } else {
                record.besides(|| self.unit(unit))?;
            }
            let next = calls.get(from).map_or(u64::MAX, |call| call.number);
            self.run.order.arrive(self.run.number, next);
        }
        Ok(())
    }

    /// With captured times: waits until a call is due, and notes how late it is.
    fn pause(&mut self, call: &Call) {
        let Timing::Original { speed } = self.run.timing else { return };
        let due_ns = self.run.start_ns + (call.start_ns as f64 / speed) as u64;
        let now = now_ns();
        if due_ns > now {
            std::thread::sleep(Duration::from_nanos(due_ns - now));
        }
        self.report.late_ns.push(now_ns().saturating_sub(due_ns));
    }

    fn unit(&mut self, calls: &[Call]) -> Result<u64, WorkloadError> {
        let mut rows = 0;
        for call in calls {
            self.run.order.arrive(self.run.number, call.number);
            if call.after > 0 && !self.run.order.wait_below(self.run.number, call.after.min(call.number)) {
                return Err(wrong("stopped, because another thread has failed".into()));
            }
            rows += self.call(call)?;
        }
        Ok(rows)
    }

    /// One call; gives the rows that it returned and changed.
    fn call(&mut self, call: &Call) -> Result<u64, WorkloadError> {
        if let What::Open(name) = &call.what {
            self.connections.insert(call.connection, self.run.engine.connect(name)?);
            return Ok(0);
        }
        if let What::Close = &call.what {
            return match self.connections.remove(&call.connection) {
                Some(connection) => self.close(connection).map(|()| 0),
                None => Ok(0),
            };
        }
        let Some(connection) = self.connections.get_mut(&call.connection) else {
            return Err(wrong(format!(
                "connection {} is used before it is opened; the trace's beginning is missing",
                call.connection
            )));
        };
        match &call.what {
            What::Script(sql) => {
                connection.execute_script(sql)?;
                return Ok(0);
            }
            What::Attach { name, schema } => {
                connection.attach(name, schema)?;
                return Ok(0);
            }
            _ => {}
        }
        let Some(calls) = connection.calls() else {
            return Err(wrong("the engine takes no single calls".into()));
        };
        match &call.what {
            What::Prepare { handle, sql, outcome } => match calls.prepare_as(*handle, sql) {
                Ok(()) if outcome.is_error() => Err(wrong(format!(
                    "`{}` failed when it was captured ({}), and does not now",
                    abridged(sql),
                    outcome.code
                ))),
                Err(error) if !outcome.is_error() => Err(self.explain(error).into()),
                _ => Ok(0),
            },
            What::Bind { handle, index, value } => {
                calls.bind(*handle, *index, value).map(|()| 0).map_err(Into::into)
            }
            What::ClearBindings { handle } => {
                calls.clear_bindings(*handle);
                Ok(0)
            }
            What::Reset { handle } => {
                calls.reset(*handle);
                Ok(0)
            }
            What::Finalize { handle } => {
                calls.finalize(*handle);
                Ok(0)
            }
            What::Step { step, sql } => {
                let stepped = calls.step(step.handle, step.rows, step.outcome.code != ROW);
                let is_error = !matches!(stepped.code, OK | ROW | DONE);
                let message = if is_error { calls.message() } else { String::new() };
                self.compare(step, sql, stepped, &message)?;
                Ok(stepped.rows + stepped.changes)
            }
            What::Open(_) | What::Close | What::Script(_) | What::Attach { .. } => Ok(0),
        }
    }

    /// Whether steps did what they did when they were captured.
    fn compare(
        &mut self,
        step: &Step,
        sql: &str,
        stepped: crate::engine::calls::Stepped,
        message: &str,
    ) -> Result<(), WorkloadError> {
        if stepped.code & 0xff != step.outcome.code & 0xff {
            let error = EngineError {
                what: format!("`{}`", abridged(sql)),
                message: format!(
                    "result {} {message}, captured {} {}",
                    stepped.code, step.outcome.code, step.outcome.message
                ),
                code: stepped.code,
            };
            return Err(self.explain(error).into());
        }
        if !step.is_counted {
            self.report.unchecked += u64::from(step.begins);
            return Ok(());
        }
        // What a PRAGMA answers depends on the cell.
        let is_same = stepped.rows == step.rows && (stepped.changes == step.changes);
        if !is_same && Verb::of(sql) != Verb::Pragma {
            return Err(wrong(format!(
                "`{}` returned {} rows and changed {}; captured were {} and {}",
                abridged(sql),
                stepped.rows,
                stepped.changes,
                step.rows,
                step.changes
            )));
        }
        self.report.checked += u64::from(step.begins);
        Ok(())
    }

    /// An error, and what the application had that a replay has not.
    fn explain(&self, mut error: EngineError) -> EngineError {
        let missing = self.run.loaded.foreign.iter().find(|name| {
            let bare = name.split_once(' ').map_or("", |(_, bare)| bare);
            !bare.is_empty() && error.message.to_lowercase().contains(&bare.to_lowercase())
        });
        if let Some(missing) = missing {
            error.message.push_str(&format!(
                "; the application brought its own {missing}, which a replay does not have"
            ));
        } else if error.message.contains("no such function") || error.message.contains("no such collation") {
            error
                .message
                .push_str("; the application brought its own, or an extension, which a replay does not have");
        }
        error
    }

    fn close(&mut self, connection: Box<dyn Connection>) -> Result<(), WorkloadError> {
        let waits = Report { lock_waits: connection.lock_waits(), ..Report::default() };
        self.report.add(waits);
        Ok(connection.close()?)
    }

    /// Connections that the trace leaves open.
    fn close_all(&mut self) -> Result<(), WorkloadError> {
        let mut left: Vec<_> = self.connections.drain().collect();
        left.sort_by_key(|(number, _)| *number);
        left.into_iter().try_for_each(|(_, connection)| self.close(connection))
    }
}
