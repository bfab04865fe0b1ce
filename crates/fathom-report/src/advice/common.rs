//! One setting for all devices, where several are named.

use fathom_lab::advise::{Common, DeviceAdvice, common};

use super::{Advice, NAMED, place, times, unproven};

impl Advice {
    /// The setting that is nowhere far behind; none where one is best on all of them anyway.
    pub(super) fn for_all(&self) -> Option<Common> {
        (self.groups().len() > 1).then(|| common(&self.devices, self.must))?
    }

    pub(super) fn for_all_told(&self) -> Option<String> {
        let found = self.for_all()?;
        let (device, (place_there, _)) = self.devices.first().zip(found.of_each.first())?;
        let name = self.name(&device.tried[*place_there]);
        // How far it is behind the best there, and whether it is behind at all.
        let behind = |(device, of): (&DeviceAdvice, &(usize, f64))| match of.1 {
            ratio if ratio < 1.005 => format!("{} as fast", place(device)),
            ratio => {
                let best = device.best_trial();
                let gain = best.and_then(|best| fathom_lab::advise::gain(best, &device.tried[of.0]));
                let unproven = if gain.is_some_and(|gain| gain.proven) { "" } else { ", not proven" };
                format!("{} {} longer{unproven}", place(device), at_most(ratio - 1.0))
            }
        };
        let each = self.devices.iter().zip(&found.of_each);
        let of_devices: Vec<String> = if self.devices.len() <= NAMED {
            each.clone().map(behind).collect()
        } else {
            let worst = each.clone().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
            worst.map(behind).into_iter().collect()
        };
        let gain = |(device, of): (&DeviceAdvice, &(usize, f64))| {
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
        } + unproven(&gains);
        let within = match found.worst {
            worst if worst < 1.005 => "as fast as the best on each".to_owned(),
            worst => format!("within {} of the best on each", at_most(worst - 1.0)),
        };
        Some(format!(
            "One setting for all of them: {name}. It is {within} ({}){faster}.",
            of_devices.join("; ")
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

/// A share as whole percent that it does not exceed: what is within 2.4 % is not within 2 %.
fn at_most(share: f64) -> String {
    format!("{:.0} %", (share * 100.0 - 1e-6).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_within_so_much_is_not_rounded_below_it() {
        assert_eq!([0.024, 0.02, 0.0251, 0.0051].map(at_most), ["3 %", "2 %", "3 %", "1 %"]);
    }
}
