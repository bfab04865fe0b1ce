//! Before a store is used: what the nodes promise, whose the keys are, functions and shards.

use super::RedisClusterUrl;
use super::cluster::{Address, Cluster};
use super::connection::{Connection, Reply};
use super::keeper::now_us;
use crate::store::{Opening, StoreError};
use std::collections::BTreeMap;
use std::io::Read;
use std::time::{Duration, Instant};

/// The format of the keys that this version writes.
const FORMAT: &str = "1";
/// How long a node may take for one question.
const REPLY: Duration = Duration::from_secs(20);
/// How long a master that has no replica is waited for to have one.
const REPLICAS: Duration = Duration::from_secs(10);
/// Masters of which a majority is left, and votes, when one of them dies.
const ELECTORS: usize = 3;
/// The first version that has functions.
const VERSION: (u32, u32) = (7, 0);

/// How far a node's clock may be from that of this machine, µs. Processes free each other's claims
/// by their own clocks once these are a minute old, and a delivery is waited for 45 s: two of them
/// that are so far off to either side still leave it 50.
const APART_US: i64 = 5_000_000;

/// A cluster that may be used.
pub(super) struct Started {
    pub cluster: Cluster,
    pub identity: String,
    pub remarks: Vec<String>,
    /// Whether the store was made just now.
    pub is_new: bool,
}

fn name(node: &Address) -> String {
    format!("{}:{}", node.0, node.1)
}

fn ask(cluster: &Cluster, connection: &mut Connection, words: &[&[u8]]) -> Result<Reply, String> {
    match connection.ask(words, Instant::now() + REPLY, &cluster.abandoned) {
        Ok(Reply::Error(error)) => Err(error),
        Ok(reply) => Ok(reply),
        Err(error) => Err(error.to_string()),
    }
}

/// Opens a store, or makes it.
pub(super) fn start(url: &RedisClusterUrl, opening: Opening) -> Result<Started, StoreError> {
    let cluster = Cluster::enter(url)?;
    let remarks = check_nodes(&cluster)?;
    let mut is_new = false;
    let (identity, shards) = match sign(&cluster)? {
        Some(found) => found,
        None if opening == Opening::Existing => {
            let what = "there is no store under this prefix";
            return Err(StoreError::NoStore { path: url.to_string(), what });
        }
        None => {
            refuse_foreign(&cluster)?;
            is_new = true;
            make(&cluster)?
        }
    };
    if url.says_shards && shards != url.shards {
        return Err(cluster.refused(format!(
            "the store was made with shards={shards}, and keeps to it: leave shards={} out",
            url.shards
        )));
    }
    let cluster = cluster.with_shards(shards);
    prepare(&cluster)?;
    Ok(Started { cluster, identity, remarks, is_new })
}

/// Opens a store that is only looked at.
pub(super) fn look(url: &RedisClusterUrl) -> Result<Started, StoreError> {
    let cluster = Cluster::enter(url)?;
    let Some((identity, shards)) = sign(&cluster)? else {
        let what = "there is no store under this prefix";
        return Err(StoreError::NoStore { path: url.to_string(), what });
    };
    Ok(Started { cluster: cluster.with_shards(shards), identity, remarks: Vec::new(), is_new: false })
}

/// Looks at the settings of every node: a replica is the next master.
fn check_nodes(cluster: &Cluster) -> Result<Vec<String>, StoreError> {
    let map = cluster.map();
    let mut remarks = Vec::new();
    let uncovered = map.uncovered();
    if uncovered > 0 {
        return Err(cluster.refused(format!(
            "{uncovered} of the cluster's slots have no master: `redis-cli --cluster check` tells which, `--cluster fix` helps"
        )));
    }
    if map.masters.len() < ELECTORS {
        remarks.push(format!(
            "{}: {} master{} cannot elect a replica in the place of one that dies, as {ELECTORS} could: nothing is lost \
             then, but what it had is waited for until it is back, or until `CLUSTER FAILOVER TAKEOVER` is said to its replica",
            cluster.url,
            map.masters.len(),
            if map.masters.len() == 1 { "" } else { "s" }
        ));
    }
    let less = cluster.url.takes_less();
    for (master, _) in &map.masters {
        let mut replicas = replicas_of(cluster, master)?;
        let begin = Instant::now();
        // One whose link has just been broken comes back.
        while replicas.is_empty() && !less && begin.elapsed() < REPLICAS {
            std::thread::sleep(Duration::from_millis(200));
            replicas = replicas_of(cluster, master)?;
        }
        if replicas.is_empty() && !less {
            return Err(cluster.refused(format!(
                "master {} has no replica, so that its loss would lose messages: add one (redis-cli --cluster add-node \
                 … --cluster-slave), or ask for less with durability=process-crash",
                name(master)
            )));
        }
        for node in std::iter::once(master).chain(&replicas) {
            check_node(cluster, node, less, &mut remarks)?;
        }
    }
    Ok(remarks)
}

/// The replicas of a master that are with it now, as it tells: the map lists one only once
/// something has been written.
fn replicas_of(cluster: &Cluster, master: &Address) -> Result<Vec<Address>, StoreError> {
    let refused = |problem: String| cluster.refused(format!("node {}: {problem}", name(master)));
    let mut connection = cluster.connect(master).map_err(|error| refused(error.to_string()))?;
    let info = ask(cluster, &mut connection, &[b"INFO", b"replication"]).map_err(&refused)?.text();
    let replicas = info.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        if !name.starts_with("slave") || !value.contains("state=online") {
            return None;
        }
        let field = |wanted: &str| value.split(',').find_map(|pair| pair.strip_prefix(wanted));
        Some((field("ip=")?.to_owned(), field("port=")?.parse().ok()?))
    });
    Ok(replicas.collect())
}

fn check_node(
    cluster: &Cluster,
    node: &Address,
    less: bool,
    remarks: &mut Vec<String>,
) -> Result<(), StoreError> {
    let refused = |problem: String| cluster.refused(format!("node {}: {problem}", name(node)));
    let mut connection = cluster.connect(node).map_err(|error| refused(error.to_string()))?;
    let info = ask(cluster, &mut connection, &[b"INFO", b"server"]).map_err(&refused)?.text();
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("0").to_owned();
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0_u32));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < VERSION {
        return Err(refused(format!("it is Redis {version}, and functions came with 7.0")));
    }
    check_clock(cluster, node, &mut connection, remarks)?;
    let wanted = ["appendonly", "appendfsync", "min-replicas-to-write", "maxmemory-policy"];
    let mut words: Vec<&[u8]> = vec![b"CONFIG", b"GET"];
    words.extend(wanted.iter().map(|word| word.as_bytes()));
    let config = match ask(cluster, &mut connection, &words) {
        Ok(config) => config,
        Err(error) => {
            remarks.push(format!(
                "{}: node {} does not tell its settings ({error}): that appendonly is yes, appendfsync always and \
                 min-replicas-to-write 1 or more could not be checked",
                cluster.url,
                name(node)
            ));
            return Ok(());
        }
    };
    let settings: BTreeMap<String, String> = config
        .array()
        .chunks(2)
        .filter_map(|pair| Some((pair.first()?.text(), pair.get(1)?.text())))
        .collect();
    let is = |setting: &str| settings.get(setting).map_or("", String::as_str);
    let mut lacks = Vec::new();
    if is("appendonly") != "yes" {
        lacks.push("appendonly yes");
    }
    if !less && is("appendfsync") != "always" {
        lacks.push("appendfsync always");
    }
    if !less && is("min-replicas-to-write").parse().unwrap_or(0) < 1 {
        lacks.push("min-replicas-to-write 1");
    }
    if is("maxmemory-policy") != "noeviction" {
        lacks.push("maxmemory-policy noeviction");
    }
    if lacks.is_empty() {
        return Ok(());
    }
    let hint = if less { "" } else { ", or ask for less with durability=process-crash" };
    Err(refused(format!(
        "it would lose what was acknowledged: set {} (CONFIG SET, and redis.conf){hint}",
        lacks.join(", ")
    )))
}

/// How far `node_us` is from a time between two others: more than 0 if it is ahead.
fn apart_us(node_us: i64, (before_us, after_us): (i64, i64)) -> i64 {
    if node_us < before_us { node_us - before_us } else { (node_us - after_us).max(0) }
}

/// Refuses a node whose clock is not that of this machine: that of another process that uses the
/// store is then another, too, and whose is ahead takes what the other has in flight, again and
/// again.
fn check_clock(
    cluster: &Cluster,
    node: &Address,
    connection: &mut Connection,
    remarks: &mut Vec<String>,
) -> Result<(), StoreError> {
    let before_us = now_us();
    let told = ask(cluster, connection, &[b"TIME"]);
    let after_us = now_us();
    let node_us = match told.as_ref().map(Reply::array) {
        Ok([seconds, us]) => seconds.int().zip(us.int()).map(|(seconds, us)| seconds * 1_000_000 + us),
        _ => None,
    };
    let Some(node_us) = node_us else {
        remarks.push(format!(
            "{}: node {} does not tell its time: that its clock is that of this machine could not be checked",
            cluster.url,
            name(node)
        ));
        return Ok(());
    };
    let apart_us = apart_us(node_us, (before_us, after_us));
    if apart_us.abs() <= APART_US {
        return Ok(());
    }
    let (seconds, side) =
        (apart_us.unsigned_abs() as f64 / 1e6, if apart_us > 0 { "ahead of" } else { "behind" });
    Err(cluster.refused(format!(
        "node {}: its clock is {seconds:.1} s {side} that of this machine, and centres that share a store give each other's \
         messages back by their clocks: set both, as by NTP, and start again",
        name(node)
    )))
}

/// Runs a plain command at the master of a shard's keys, wherever that is.
fn at_shard(cluster: &Cluster, shard: u16, words: &[&[u8]]) -> Result<Reply, StoreError> {
    let (map, mut problem) = (cluster.map(), String::new());
    for (master, _) in &map.masters {
        let Ok(mut connection) = cluster.connect(master) else { continue };
        match ask(cluster, &mut connection, words) {
            Ok(reply) => return Ok(reply),
            Err(error) if error.starts_with("MOVED ") => {}
            Err(error) => problem = format!("node {}: {error}", name(master)),
        }
    }
    Err(cluster.refused(format!("shard {shard} cannot be reached; {problem}")))
}

/// Whose store this is, if there is one: identity and number of shards.
fn sign(cluster: &Cluster) -> Result<Option<(String, u16)>, StoreError> {
    let reply = match at_shard(cluster, 0, &[b"HGET", cluster.key(0, "h").as_bytes(), b"!"]) {
        Ok(reply) => reply,
        Err(error) if error.to_string().contains("WRONGTYPE") => {
            return Err(foreign(cluster, &cluster.key(0, "h")));
        }
        Err(error) => return Err(error),
    };
    let Reply::Bulk(octets) = reply else { return Ok(None) };
    let text = String::from_utf8_lossy(&octets).into_owned();
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        [FORMAT, identity, shards] if identity.len() == 32 => match shards.parse() {
            Ok(shards @ (1 | 64 | 128 | 256)) => Ok(Some((identity.to_owned(), shards))),
            _ => Err(foreign(cluster, &cluster.key(0, "h"))),
        },
        [format, _, _] if format.parse::<u32>().is_ok_and(|format| format > 1) => {
            Err(cluster.refused(format!(
                "the store is of format {format}, and this smsc knows {FORMAT}: take the smsc that wrote it"
            )))
        }
        _ => Err(foreign(cluster, &cluster.key(0, "h"))),
    }
}

fn foreign(cluster: &Cluster, key: &str) -> StoreError {
    let key: String = key.chars().flat_map(char::escape_default).take(100).collect();
    cluster.refused(format!(
        "the key {key} is there, and this is no store: it is somebody else's, and nothing was written; take another prefix="
    ))
}

/// Refuses to make a store where anything has its prefix.
fn refuse_foreign(cluster: &Cluster) -> Result<(), StoreError> {
    match keys(cluster, 1)?.first() {
        Some((_, key)) => Err(foreign(cluster, &String::from_utf8_lossy(key))),
        None => Ok(()),
    }
}

/// Keys with the prefix, of all masters, a few more than `most` at most.
fn keys(cluster: &Cluster, most: usize) -> Result<Vec<(Address, Vec<u8>)>, StoreError> {
    let mut found = Vec::new();
    let pattern = format!("{}:*", cluster.url.prefix);
    for (master, _) in &cluster.map().masters {
        let refused = |problem: String| cluster.refused(format!("node {}: {problem}", name(master)));
        let mut connection = cluster.connect(master).map_err(|error| refused(error.to_string()))?;
        let mut cursor = b"0".to_vec();
        loop {
            let words: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"];
            let reply = ask(cluster, &mut connection, &words).map_err(&refused)?;
            let [next, keys] = reply.array() else { return Err(refused("SCAN gives two parts".into())) };
            found.extend(
                keys.array().iter().filter_map(Reply::bulk).map(|key| (master.clone(), key.to_vec())),
            );
            cursor = next.bulk().unwrap_or(b"0").to_vec();
            if cursor == b"0" || found.len() >= most {
                break;
            }
        }
    }
    Ok(found)
}

/// Writes the sign of a new store. Of two that do so at once, one is the first.
fn make(cluster: &Cluster) -> Result<(String, u16), StoreError> {
    let mut octets = [0; 16];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut octets));
    random.map_err(StoreError::io(std::path::Path::new("/dev/urandom")))?;
    let identity: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    write_sign(cluster, &identity, cluster.url.shards)?;
    sign(cluster)?.ok_or_else(|| cluster.refused("the store was made, and is gone again"))
}

fn write_sign(cluster: &Cluster, identity: &str, shards: u16) -> Result<(), StoreError> {
    let text = format!("{FORMAT} {identity} {shards}");
    at_shard(cluster, 0, &[b"HSETNX", cluster.key(0, "h").as_bytes(), b"!", text.as_bytes()]).map(drop)
}

/// Makes a store that was cleared anew.
pub(super) fn make_again(cluster: &Cluster, identity: &str) -> Result<(), StoreError> {
    write_sign(cluster, identity, cluster.shards)?;
    prepare(cluster)
}

/// Loads the functions on every master, and makes the keys of every shard where they are missing:
/// one that does not exist could not be told from one that is on its way to another node.
fn prepare(cluster: &Cluster) -> Result<(), StoreError> {
    for (master, _) in &cluster.map().masters {
        let refused = |problem: String| cluster.refused(format!("node {}: {problem}", name(master)));
        let mut connection = cluster.connect(master).map_err(|error| refused(error.to_string()))?;
        cluster.load(&mut connection).map_err(|error| refused(format!("FUNCTION LOAD: {error}")))?;
        for shard in 0..cluster.shards {
            let (hash, set) = (cluster.key(shard, "h"), cluster.key(shard, "z"));
            let made = ask(cluster, &mut connection, &[b"HSETNX", hash.as_bytes(), b"#", b"0"]);
            match made {
                Err(error) if error.starts_with("MOVED ") => continue,
                made => made.map_err(&refused)?,
            };
            ask(cluster, &mut connection, &[b"ZADD", set.as_bytes(), b"0", b"!"]).map_err(&refused)?;
        }
        if !cluster.url.takes_less() {
            ask(cluster, &mut connection, &[b"WAIT", b"1", b"5000"]).map_err(&refused)?;
        }
    }
    Ok(())
}

/// Deletes all keys with the prefix.
pub(super) fn clear(cluster: &Cluster) -> Result<(), StoreError> {
    for (master, key) in keys(cluster, usize::MAX)? {
        let refused = |problem: String| cluster.refused(format!("node {}: {problem}", name(&master)));
        let mut connection = cluster.connect(&master).map_err(|error| refused(error.to_string()))?;
        ask(cluster, &mut connection, &[b"UNLINK", &key]).map_err(&refused)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::apart_us;

    /// Two centres whose clocks were two minutes apart took each other's messages in flight, and
    /// delivered them twice, for as long as both ran. Nothing looked at clocks.
    #[test]
    fn a_clock_is_right_that_tells_a_time_between() {
        for (node_us, apart) in [(10, 0), (15, 0), (20, 0), (9, -1), (21, 1), (120_000_020, 120_000_000)] {
            assert_eq!(apart_us(node_us, (10, 20)), apart, "{node_us}");
        }
    }
}
