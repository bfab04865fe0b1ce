//! `smsc load`: messages for a centre that speaks SMPP, at a rate of their own.

use super::stop::Stop;
use super::wrong::Wrong;
use clap::Args;
use smsc::client::{ClientError, Load as Plan, Step, descriptor_limit, run_until};
use std::error::Error;
use std::io::Write;
use std::time::Duration;
use tokio::sync::watch;

/// Load a centre over SMPP. An open loop: latency counts from the moment at which each message was
/// to be submitted. The password is read from the environment, SMSC_PASSWORD.
#[derive(Args)]
pub struct Load {
    /// Address and port of the centre.
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// system_id.
    #[arg(long)]
    system_id: String,
    /// Sessions, each a transceiver.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    sessions: u32,
    /// Messages under way in each session.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    window: u32,
    /// Messages in a second.
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Length of a step, s.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Go on with half as many more, step by step, until the centre does not keep up.
    #[arg(long)]
    ramp: bool,
    /// What it is to keep within at 99 of 100 messages, ms.
    #[arg(long, default_value_t = 100.0)]
    limit_ms: f64,
    /// Ask for a receipt of each message, and wait for them. The centre keeps up if 99 of 100 are
    /// there when --limit-ms have passed after the last message was to be submitted.
    #[arg(long)]
    receipts: bool,
    /// How long a session whose window is full waits for an answer until it gives up, s.
    #[arg(long, default_value_t = 60.0)]
    patience: f64,
    /// Octets of a body.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(0..=1000))]
    body: u32,
    /// Destinations are these digits and seven more.
    #[arg(long, default_value = "49170")]
    prefix: String,
    /// Destinations.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    destinations: u64,
    /// Same seed, same arrivals and destinations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A line of JSON for each step.
    #[arg(long)]
    json: bool,
}

/// Steps of a ramp at most: far beyond what one machine sends.
const STEPS_MAX: usize = 40;
/// How often is looked whether somebody wants it to end.
const GLANCE: Duration = Duration::from_millis(50);
/// Descriptors that are no session's.
const OTHER_DESCRIPTORS: usize = 32;
const HEAD: &str = "   rate/s    offered   accepted    refused unanswered   receipts  accepted/s    p50 / p99 / p99.9 / max ms";

impl Load {
    /// Loads, step by step; whether the first step was kept up with.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        let positive = [
            ("rate", self.rate, 1e6),
            ("seconds", self.seconds, 86_400.0),
            ("limit-ms", self.limit_ms, 1e6),
            ("patience", self.patience, 86_400.0),
        ];
        if let Some((name, value, most)) =
            positive.iter().find(|(_, value, most)| !(*value > 0.0 && value <= most))
        {
            return Err(Wrong(format!("--{name} {value}: must be above 0, and {most} at most")).into());
        }
        if !(1..=10).contains(&self.prefix.len()) || !self.prefix.bytes().all(|digit| digit.is_ascii_digit())
        {
            return Err(Wrong(format!("--prefix {}: give 1 to 10 digits", self.prefix)).into());
        }
        if self.ramp && self.limit_ms >= self.seconds * 1000.0 {
            let (limit, seconds) = (self.limit_ms, self.seconds);
            return Err(Wrong(format!(
                "--limit-ms {limit}: with --ramp, give less than the {seconds} s of a step: a centre \
                 that needs twice as long for it would have kept up"
            ))
            .into());
        }
        let has_port = self.to.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !has_port {
            return Err(Wrong(format!("--to {}: give HOST:PORT, as in 127.0.0.1:2775", self.to)).into());
        }
        let needed = self.sessions as usize + OTHER_DESCRIPTORS;
        if let Some(most) = descriptor_limit().filter(|most| *most < needed) {
            return Err(Wrong(format!(
                "--sessions {}: the limit of open descriptors is {most}, and {needed} are needed: raise it \
                 (ulimit -n, LimitNOFILE), or take fewer sessions",
                self.sessions
            ))
            .into());
        }
        let password = std::env::var("SMSC_PASSWORD").map_err(|_| {
            Wrong("the password is missing: put it into the environment, SMSC_PASSWORD=… smsc load …".into())
        })?;
        let plan = Plan {
            address: self.to.clone(),
            system_id: self.system_id.clone(),
            password,
            sessions: self.sessions as usize,
            window: self.window as usize,
            seed: self.seed,
            prefix: self.prefix.clone(),
            destinations: self.destinations,
            body: self.body as usize,
            receipts: self.receipts,
            patience: Duration::from_secs_f64(self.patience),
            limit: Duration::from_secs_f64(self.limit_ms / 1000.0),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let stop = Stop::listen()?;
        let (to, stops) = watch::channel(false);
        runtime.spawn(async move {
            while !stop.is_asked() {
                tokio::time::sleep(GLANCE).await;
            }
            let _ = to.send(true);
        });
        let (mut rate, mut kept, mut past): (f64, Option<Step>, Option<Step>) = (self.rate, None, None);
        if !self.json {
            writeln!(std::io::stdout(), "{HEAD}")?;
        }
        for _ in 0..if self.ramp { STEPS_MAX } else { 1 } {
            let length = Duration::from_secs_f64(self.seconds);
            let step = runtime.block_on(run_until(&plan, rate, length, stops.clone()))?;
            let line = if self.json { serde_json::to_string(&step)? } else { row(&step) };
            writeln!(std::io::stdout(), "{line}")?;
            if let Some(words) = &step.broke {
                let why = format!("{words}; the last line has what was done until then");
                return Err(ClientError::Io(std::io::Error::other(why)).into());
            }
            if *stops.borrow() {
                tell!("stopped: the last line has what was done until then");
                return Ok(false);
            }
            if !step.keeps_up(self.limit_ms) {
                past = Some(step);
                break;
            }
            kept = Some(step);
            rate *= 1.5;
        }
        match &kept {
            Some(step) if self.ramp && !self.json => {
                let [name, after] = match &past {
                    Some(_) => ["the knee", "the step after it was not kept up with"],
                    // The steps were too few, and each was kept up with.
                    None => ["the last step", "the knee is beyond it: begin with a greater --rate"],
                };
                writeln!(
                    std::io::stdout(),
                    "{name}: {:.0}/s accepted, p99 {:.1} ms; {after}",
                    step.accepted_per_s,
                    step.latency_ms[1]
                )?;
            }
            Some(_) => {}
            None => tell!(
                "overload: less than 99 % were accepted, or 1 % took more than {} ms (--limit-ms){}; take a smaller --rate",
                self.limit_ms,
                if self.receipts { ", or 1 % of the receipts came later" } else { "" }
            ),
        }
        if let Some(step) = past.filter(Step::is_limited) {
            tell!(
                "limits: {} of {} were refused with ESME_RTHROTTLED or ESME_RMSGQFUL: give the account \
                 a greater window, rate and receipts, and the centre a longer queue, else these are \
                 what is measured",
                step.throttled,
                step.offered
            );
        }
        Ok(kept.is_some())
    }
}

fn row(step: &Step) -> String {
    let [p50, p99, p999, max] = step.latency_ms;
    format!(
        "{:>9.0} {:>10} {:>10} {:>10} {:>10} {:>10} {:>11.0}    {p50:.2} / {p99:.2} / {p999:.2} / {max:.2}",
        step.rate,
        step.offered,
        step.accepted,
        step.refused,
        step.unanswered,
        step.receipts,
        step.accepted_per_s,
    )
}
