//! What is said of each device, and what must be known of it.

use fathom_device::Model;
use fathom_lab::advise::{self, Candidate, DeviceAdvice, Trial};
use fathom_lab::analysis::{Analysis, CautionKind};
use fathom_lab::schedule::Interrupt;
use fathom_lab::store::Results;
use fathom_workload::spec::Durability;

use super::error::{stopped, study_error};
use crate::outcome::Error;

/// The advice for each device, with what it rests on.
pub(super) fn judged(
    results: &Results,
    devices: &[Model],
    tried: Vec<Vec<Trial>>,
    phase: &str,
    baseline: &Candidate,
    must: Durability,
    interrupt: &Interrupt,
) -> Result<Vec<DeviceAdvice>, Error> {
    stopped(interrupt)?;
    let of_device = |(model, tried): (&Model, Vec<Trial>)| {
        let mut advised =
            DeviceAdvice::of(Some(model.name.clone()), model.title.clone(), tried, baseline, must);
        advised.assumptions.clone_from(&model.assumptions);
        advised
    };
    let mut all: Vec<DeviceAdvice> = devices.iter().zip(tried).map(of_device).collect();
    let sways = advise::sways(results, devices, phase, &all, must).map_err(study_error)?;
    all.iter_mut().zip(sways).for_each(|(device, sways)| device.sways = sways);
    stopped(interrupt)?;
    Ok(all)
}

/// What the report says of the same runs, but for what is told elsewhere: settings that break the
/// application, and promises that differ. Of recordings, what their own times on the device that
/// they are made on would be worth is left out, for those are not shown: how the simulated times of
/// the runs scatter is said instead.
pub(super) fn doubts(results: &Results, analysis: &Analysis, advised: &[DeviceAdvice]) -> Vec<String> {
    let is_simulated = advised.iter().any(|device| device.device.is_some());
    let is_told = |kind: CautionKind| match kind {
        CautionKind::FailedRuns | CautionKind::MixedDurability | CautionKind::SkippedCells => false,
        CautionKind::LateDevice | CautionKind::NoisyRuns | CautionKind::SelfTest => !is_simulated,
        _ => true,
    };
    let cautions = fathom_lab::analysis::cautions(results, analysis);
    let told = cautions.into_iter().filter(|caution| is_told(caution.kind)).map(|caution| caution.text);
    told.chain(advise::scatter(advised).filter(|_| is_simulated)).collect()
}
