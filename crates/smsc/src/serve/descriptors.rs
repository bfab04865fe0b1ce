//! Descriptors: as many connections as the system lets this process have, and some left for the
//! store. A log segment that cannot be opened would end the centre; a connection that is refused
//! does not.

use super::config::Config;

/// Descriptors that are kept for the store, the archive, listeners and calls to others.
const RESERVE: usize = 128;
/// Connections of one site of HTTP at most.
const HTTP: usize = 512;
/// Of each kind at least, however few there are.
const LEAST: usize = 4;

/// How many connections there may be of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// Bound sessions.
    pub connections: usize,
    /// Connections that are not bound.
    pub unbound: usize,
    /// Connections of each site of HTTP.
    pub http: usize,
}

impl ConnectionLimits {
    /// What the configuration wants, and where the system has less than that, its part of it.
    pub fn of(config: &Config, limit: Option<usize>) -> ConnectionLimits {
        let sites = [config.http.is_some(), config.api.is_some(), config.admin.is_some()];
        let sites = sites.into_iter().filter(|is_there| *is_there).count();
        let wanted =
            ConnectionLimits { connections: config.connections, unbound: config.unbound, http: HTTP };
        let sum = wanted.connections + wanted.unbound + HTTP * sites;
        let peers: usize = config.peers.iter().map(|peer| peer.binds.len()).sum();
        let Some(limit) = limit.map(|limit| limit.saturating_sub(RESERVE + peers)) else { return wanted };
        if sum <= limit {
            return wanted;
        }
        let part = |wanted: usize| (wanted as u128 * limit as u128 / sum as u128) as usize;
        let some = |wanted: usize| part(wanted).clamp(LEAST.min(wanted), wanted);
        ConnectionLimits {
            connections: some(wanted.connections),
            unbound: some(wanted.unbound),
            http: some(HTTP),
        }
    }

    /// Words about what is less than was wanted, if something is.
    pub fn complaint(&self, config: &Config) -> Option<String> {
        let ConnectionLimits { connections, unbound, http } = self;
        (*connections < config.connections || *unbound < config.unbound || *http < HTTP).then(|| {
            format!(
                "the limit of open descriptors (ulimit -n, LimitNOFILE) leaves {connections} of \
                 {} connections, {unbound} of {} that are not bound, and {http} of {HTTP} of each \
                 HTTP listener",
                config.connections, config.unbound
            )
        })
    }
}

/// The descriptors that this process may have: as many as it may give itself.
pub(crate) fn limit() -> Option<usize> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives throughout the call, which fills it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) } != 0 {
        return None;
    }
    let raised = libc::rlimit { rlim_cur: limits.rlim_max, ..limits };
    // SAFETY: as above; where it is refused the old limit holds.
    let soft = if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
        raised.rlim_cur
    } else {
        limits.rlim_cur
    };
    Some(usize::try_from(soft).unwrap_or(usize::MAX))
}
