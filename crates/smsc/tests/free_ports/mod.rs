//! Ports for servers that cannot be told to take any.

use std::net::TcpListener;

/// Ports of this machine that nobody has, and that the system gives to nobody in the meantime: who
/// asks for any port (port 0, or a connection) gets one of `ip_local_port_range`, and these are
/// below it.
///
/// A port of the system's choice, taken and given back, was somebody else's before Kannel had it.
pub fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    const FIRST: u16 = 10_000;
    // Those of docs/smsc-serve.md, whose commands are run beside other tests.
    const OF_THE_GUIDE: std::ops::RangeInclusive<u16> = 27_750..=27_751;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end: u16 = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32_768);
    // Those of a machine that leaves none below are as good as any.
    let end = if end > FIRST + 1000 { end } else { 32_768 };
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let begin =
        (u64::from(std::process::id()) * 7919 + u64::from(now.subsec_nanos())) % u64::from(end - FIRST);
    let turned = (FIRST + begin as u16..end).chain(FIRST..FIRST + begin as u16);
    // On every address, as some listen there.
    let others = turned.filter(|port| !OF_THE_GUIDE.contains(port));
    let mut free = others.filter_map(|port| TcpListener::bind(("0.0.0.0", port)).ok());
    // Held until all of them are found.
    let listeners: [TcpListener; COUNT] = std::array::from_fn(|_| free.next().unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
