//! A Redis Cluster of its own for a test, on this machine: masters with a replica each.
#![allow(clippy::unwrap_used, dead_code)]

use smsc::store::{PrivateCluster, RedisClusterUrl};

/// The nodes, and the directory that they are in.
pub struct Nodes {
    pub cluster: PrivateCluster,
    pub dir: tempfile::TempDir,
}

impl Nodes {
    /// Starts three masters and three replicas; none where Redis is not installed.
    pub fn start() -> Option<Nodes> {
        Nodes::of(3)
    }

    /// As [`Nodes::start`], with so many masters.
    pub fn of(masters: usize) -> Option<Nodes> {
        if let Err(error) = PrivateCluster::is_possible() {
            eprintln!("SKIP: {error}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let cluster = PrivateCluster::open(&dir.path().join("redis-cluster"), masters).unwrap();
        Some(Nodes { cluster, dir })
    }

    pub fn url(&self, parameters: &str) -> RedisClusterUrl {
        RedisClusterUrl::parse(&self.cluster.url(parameters)).unwrap()
    }
}
