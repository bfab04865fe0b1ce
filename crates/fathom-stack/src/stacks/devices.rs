//! Serves the modelled devices of a stack.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use fathom_device::server::{Request, Server};
use fathom_device::{FILE, Model, external_of, model_text};
use rustix::fs::MemfdFlags;

use super::claim::Claim;
use super::config::Stacks;
use super::entry::device_points;
use super::error::StackError;
use super::haste::Haste;
use crate::guest;

/// Name of the memory in which two devices count their answers, in lists of open files.
const COUNT: &CStr = c"fathom-answers";

impl Stacks {
    /// Serves the stack's modelled devices, if it has any: the files that stand for them, and what
    /// they are. The file system's is first, its external log's second.
    pub(crate) fn serve_devices(&self, claim: &mut Claim) -> Result<Vec<(File, Model)>, StackError> {
        let spec = claim.entry.spec.clone();
        let Some(device) = &spec.device else { return Ok(Vec::new()) };
        let log = spec.log_device.as_ref().unwrap_or(device);
        let wanted =
            [("device", device, ".img", Some(spec.size_mib)), ("log_device", log, ".log.img", spec.log_mib)];
        let mut served = Vec::new();
        // The order of operations on both is told by one count of answers. Each server opens it.
        let count = (spec.operations.is_some() && spec.log_mib.is_some())
            .then(|| rustix::fs::memfd_create(COUNT, MemfdFlags::CLOEXEC))
            .transpose()
            .map_err(|error| StackError::io("count answers for", &claim.home)(io::Error::from(error)))?;
        let own = std::process::id();
        for (at, (field, device, end, mib)) in
            device_points(&claim.home, &claim.entry).into_iter().zip(wanted)
        {
            let (Some(mib), Some(program)) = (mib, &self.program) else { break };
            let refused_device = |problem: String| StackError::Spec { field, problem };
            let (file, text) = model_text(device).map_err(refused_device)?;
            let model = Model::parse(&file, &text).map_err(|error| refused_device(error.to_string()))?;
            // Blocks are never written in full: the image's own disk is not what is measured.
            let entry = &claim.entry;
            let image = self.image(entry, end, mib)?;
            if !image.bytes.is_multiple_of(model.sector_bytes.into()) {
                let problem = format!(
                    "{file} has sectors of {} bytes, and the image's {} bytes are no multiple of that",
                    model.sector_bytes, image.bytes
                );
                return Err(refused_device(problem));
            }
            let number = served.len();
            let request = Request {
                image: format!("/proc/{own}/fd/{}", image.file.as_raw_fd()).into(),
                at: at.clone(),
                model: text.clone(),
                // Times of its own, not the other device's again.
                seed: spec.device_seed.wrapping_add(number as u64),
                log: spec.operations.as_deref().map(|log| match number {
                    0 => log.to_path_buf(),
                    _ => external_of(log),
                }),
                capture: spec.capture,
                answers: count.as_ref().map(|count| format!("/proc/{own}/fd/{}", count.as_raw_fd()).into()),
                faults: if number == 0 { spec.faults.clone() } else { Vec::new() },
            };
            let state = claim.home.join(guest::STATE);
            fs::create_dir_all(&state).map_err(StackError::io("make", &state))?;
            let server = Server::start(program, &request, &state.join(format!("{field}.log")))
                .map_err(|problem| StackError::Mount { path: at.clone(), problem })?;
            let spur = self.stop.as_ref().zip(server.spur());
            claim.haste.extend(spur.map(|(stop, spur)| Haste::when(stop, spur)));
            claim.add_server(server)?;
            claim.models.push(text);
            let path = at.join(FILE);
            let disk = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(StackError::io("open", &path))?;
            served.push((disk, model));
        }
        Ok(served)
    }
}
