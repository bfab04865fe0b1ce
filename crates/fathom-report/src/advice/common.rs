//! One setting for all devices, where several are named.

use fathom_lab::advise::{Common, common};

use super::{Advice, NAMED, place, times};
use crate::number;

impl Advice {
    /// The setting that is nowhere far behind; none where one is best on all of them anyway.
    pub(super) fn for_all(&self) -> Option<Common> {
        (self.groups().len() > 1).then(|| common(&self.devices, self.must))?
    }

    pub(super) fn for_all_told(&self) -> Option<String> {
        let found = self.for_all()?;
        let (device, (place_there, _)) = self.devices.first().zip(found.of_each.first())?;
        let name = self.name(&device.tried[*place_there]);
        let behind = |ratio: f64| match ratio {
            ratio if ratio < 1.005 => "as fast".to_owned(),
            ratio => format!("{} longer", number::percent(ratio - 1.0)),
        };
        let each = self.devices.iter().zip(&found.of_each);
        let of_devices: Vec<String> = if self.devices.len() <= NAMED {
            each.clone().map(|(device, of)| format!("{} {}", place(device), behind(of.1))).collect()
        } else {
            let worst = each.clone().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
            worst.map(|(device, of)| format!("{} {}", place(device), behind(of.1))).into_iter().collect()
        };
        let gain = |(device, of): (&fathom_lab::advise::DeviceAdvice, &(usize, f64))| {
            fathom_lab::advise::gain(&device.tried[of.0], device.tried.get(device.baseline?)?)
        };
        let mut gains: Vec<_> = each.filter_map(gain).collect();
        gains.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let faster = match gains.as_slice() {
            [] => String::new(),
            [one] => format!(", and is {} as fast as {}", times(one), self.now()),
            [least, .., most] => {
                format!(", and is {} to {} as fast as {}", times(least), times(most), self.now())
            }
        };
        let within = match found.worst {
            worst if worst < 1.005 => "as fast as the best on each".to_owned(),
            worst => format!("within {} of the best on each", number::percent(worst - 1.0)),
        };
        Some(format!(
            "One setting for all of them: {name}. It is {within} ({}){faster}.",
            of_devices.join(", ")
        ))
    }

    /// The same for JSON.
    pub(super) fn for_all_json(&self) -> serde_json::Value {
        let of_found = |found: Common| {
            let each: Vec<_> = self
                .devices
                .iter()
                .zip(&found.of_each)
                .map(|(device, of)| {
                    serde_json::json!({ "device": device.device, "times_as_long_as_best": of.1 })
                })
                .collect();
            serde_json::json!({
                "advised": found.candidate.key(),
                "filesystem": found.filesystem,
                "pragmas": found.candidate.pragmas(),
                "worst_times_as_long": found.worst,
                "devices": each,
            })
        };
        self.for_all().map_or(serde_json::Value::Null, of_found)
    }
}
